//! A group that two owners own and must both sign for.

use althing_communication::Request;
use althing_coordination::{GroupError, Invited, Owners, RAFT, Signed, Ticket, owners};
use althing_protocol::group::{GroupId, Policy};
use althing_protocol::hex;
use althing_simnet::SimNet;

use crate::groups::{GroupNode, Owner, store};
use crate::key;
use crate::world::connect;

/// The two owners.
#[must_use]
pub fn two_owners() -> [Owner; 2] {
    [Owner::new(101), Owner::new(102)]
}

/// One node asks another one, so that both know their owners.
async fn meet(one: &GroupNode, other: &GroupNode) {
    connect(one.communication.network(), other.communication.network()).await;
    let _ = one.communication.call(other.id(), RAFT, Request::new("nothing", Vec::new())).await;
}

/// The nodes 1 and 3 of one owner, 2 and 4 of another one, and a group of the first two that both own and must sign for.
pub async fn group_of_two(net: &SimNet, policy: Policy) -> (Vec<GroupNode>, GroupId) {
    let [first, second] = two_owners();
    let mut nodes = Vec::new();
    for (number, owner) in [(1, &first), (2, &second), (3, &first), (4, &second)] {
        nodes.push(GroupNode::start(net, &key(number), owner, store()).await);
    }
    let others = [second.log.publisher()];
    let unknown = owners::create(&nodes[0].groups, "team", policy.clone(), &others, 2).await;
    assert!(matches!(unknown, Err(GroupError::Charter(_))), "its keys are not known: {unknown:?}");
    meet(&nodes[1], &nodes[0]).await;
    for threshold in [0, 3] {
        let refused = owners::create(&nodes[0].groups, "team", policy.clone(), &others, threshold).await;
        assert!(matches!(refused, Err(GroupError::Charter(_))), "{threshold} of 2: {refused:?}");
    }
    assert!(nodes[0].groups.list().is_empty(), "nothing was formed");
    let id = owners::create(&nodes[0].groups, "team", policy, &others, 2).await.expect("a group");
    // The second owner signs by joining.
    let Invited::Waits(_, ticket) = invite(&nodes[0], id, &nodes[1]).await else { panic!("two must sign") };
    nodes[1].groups.join(&ticket).await.expect("both signed");
    (nodes, id)
}

/// One owner's node invites another node.
pub async fn invite(by: &GroupNode, id: GroupId, node: &GroupNode) -> Invited {
    Owners::of(&by.groups, id).invite(node.id(), 60_000).await.expect("an invitation")
}

/// One owner's node invites a node, the other one's signs, and it joins.
pub async fn admit(nodes: &[GroupNode], id: GroupId, node: usize) {
    let Invited::Waits(name, _) = invite(&nodes[0], id, &nodes[node]).await else { panic!("two must sign") };
    let ticket = endorse(&nodes[1], id, name).await.1.expect("a ticket");
    nodes[node].groups.join(&ticket).await.expect("both signed");
}

/// An owner's node signs what was proposed.
pub async fn endorse(by: &GroupNode, id: GroupId, name: [u8; 32]) -> (Signed, Option<Ticket>) {
    by.groups.catch_up(id).await.expect("the group answers");
    Owners::of(&by.groups, id).endorse(&hex(&name)[..16]).await.expect("it waits")
}

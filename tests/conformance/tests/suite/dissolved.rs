//! What was signed for a group is worth nothing after its end, also where those that knew of the end started again.

use althing_communication::{CallError, Request};
use althing_conformance::groups::{GroupNode, Owner, group_of, leader, store};
use althing_conformance::world::{connect, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::wire::{self, Append, Ballot, Barrier, Elect, Position, Submit, Unserved};
use althing_coordination::{GroupAgents, GroupError, RAFT, RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE, Ticket};
use althing_protocol::group::{Author, Batch, Command, Deployment, Dissolution, GroupId, Set};
use althing_protocol::{SecretKey, object};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Range;

/// What was signed while the group was there.
struct Signed {
    ticket: Ticket,
    /// Batches of a member and of the owner, which nobody executed.
    batches: Vec<Vec<u8>>,
}

fn sign(id: GroupId, author: Author, key: &SecretKey) -> Vec<u8> {
    let set = Set { key: "late".to_owned(), value: b"1".to_vec().into(), if_version: None };
    let batch = Batch::new(1, author, u64::MAX / 2, 1, vec![Command::Set(set)]);
    object::sign(batch, NETWORK, &Batch::scope(id), key).expect("a batch").bytes
}

fn standing(node: &GroupNode, id: GroupId) -> &'static str {
    node.groups.overview(id).expect("the group").standing
}

/// Whether a node has anything left of the log, the votes and the snapshots.
fn is_empty(node: &GroupNode, id: GroupId) -> bool {
    let rows = |family| node.store.scan(family, Range::prefix(id.as_bytes().as_slice(), 1)).expect("it can be read");
    [RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS].into_iter().all(|family| rows(family).is_empty())
}

/// Why a node does not serve a message.
async fn refused(from: &GroupNode, to: &GroupNode, operation: &str, body: Vec<u8>) -> Unserved {
    match from.communication.call(to.id(), RAFT, Request::new(operation, body)).await {
        Err(CallError::Refused { body, .. }) => wire::read(&body).expect("why it was not served"),
        other => panic!("{operation}: {other:?}"),
    }
}

/// That this is the end of the group, as its owner signed it.
fn assert_proves(unserved: &Unserved, id: GroupId, operation: &str) {
    let Unserved::Dissolved(proof) = unserved else { panic!("{operation}: {unserved:?}") };
    let said: Dissolution = proof.read(NETWORK, &id.to_string()).expect("a dissolution");
    assert_eq!(said.group, id, "{operation}");
}

/// That `node` serves nobody what was signed for the group, and does nothing in it itself.
async fn assert_ended(node: &GroupNode, from: &GroupNode, id: GroupId, signed: &Signed) {
    let overview = node.groups.overview(id).expect("it is known");
    assert!(overview.standing == "dissolved" && overview.replica.is_none(), "{overview:?}");
    connect(from.communication.network(), node.communication.network()).await;
    for batch in &signed.batches {
        let submit = Submit { group: id, batch: batch.clone().into() };
        assert_proves(&refused(from, node, "submit", wire::write(&submit)).await, id, "submit");
    }
    let (term, last) = (9, Some(Position { term: 9, index: 90 }));
    let ballot = |elected| Ballot { term, node: from.id(), elected };
    let elect = wire::write(&Elect { group: id, candidate: ballot(false), last, is_transfer: true });
    let append = Append { group: id, leader: ballot(true), previous: last, committed: last, entries: Vec::new() };
    let barrier = wire::write(&Barrier { group: id });
    for (operation, body) in
        [("vote", elect.clone()), ("pre-vote", elect), ("append", wire::write(&append)), ("barrier", barrier)]
    {
        assert_proves(&refused(from, node, operation, body).await, id, operation);
    }
    let ended = |error: GroupError| assert!(matches!(error, GroupError::Dissolved(group) if group == id), "{error}");
    ended(node.groups.command(id, Command::Tick).await.expect_err("a command"));
    ended(node.groups.invite(id, from.id(), 60_000).expect_err("an invitation"));
    ended(node.groups.dissolve(id).await.expect_err("a second end"));
    ended(node.groups.look(id, |_| ()).expect_err("its state"));
    let agents = GroupAgents::of(&node.groups, id);
    ended(agents.deploy("two", b"{}".to_vec(), |made| made).await.expect_err("a deployment"));
    assert!(node.worker.hosted.lock().expect("no panic").is_empty());
}

/// P-87, P-94, P-109, P-144
#[tokio::test(start_paused = true)]
async fn what_was_signed_before_the_end_is_refused_after_it_also_by_nodes_that_started_again() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (mut nodes, id) = group_of(&net, 3).await;
    let (owner, guest) = (Owner::new(101), key(9));
    let everywhere = |mut made: Deployment| {
        made.instances = 0;
        made
    };
    GroupAgents::of(&nodes[0].groups, id).deploy("one", b"{}".to_vec(), everywhere).await.expect("it is deployed");
    until("all host it", || nodes.iter().all(|node| *node.worker.hosted.lock().expect("no panic") == ["one"])).await;
    let ticket = nodes[0].groups.invite(id, guest.public(), 600_000).expect("an invitation");
    let by_member = sign(id, Author::Node(nodes[1].id()), &nodes[1].key);
    let by_owner = sign(id, Author::Publisher(owner.log.publisher()), &owner.key);
    let signed = Signed { ticket, batches: vec![by_member, by_owner] };
    // One member is away when the group ends.
    let (away, kept) = nodes.pop().expect("three").crash(&net).await;
    let (leads, _) = leader(&nodes, id).await;
    nodes[leads].groups.dissolve(id).await.expect("its owner's");
    let is_over = |node: &GroupNode| standing(node, id) == "dissolved" && is_empty(node, id);
    until("both know it, and keep nothing else", || nodes.iter().all(is_over)).await;
    until("nobody hosts it", || nodes.iter().all(|node| node.worker.hosted.lock().expect("no panic").is_empty())).await;
    let mut again = Vec::new();
    for node in nodes {
        let (secret, kept) = node.crash(&net).await;
        again.push(GroupNode::start(&net, &secret, &owner, kept).await);
    }
    let guest = GroupNode::start(&net, &guest, &Owner::new(55), store()).await;
    for node in &again {
        assert_ended(node, &guest, id, &signed).await;
    }
    let late = guest.groups.join(&signed.ticket).await.expect_err("there is nothing to join");
    assert!(matches!(late, GroupError::Dissolved(group) if group == id), "{late}");
    assert!(guest.groups.list().is_empty(), "it keeps nothing of a group that it never was in");
    // Who was away learns it from those that started again, and knows it yet when it starts again itself.
    let returned = GroupNode::start(&net, &away, &owner, kept).await;
    until("it learns it", || is_over(&returned)).await;
    let (secret, kept) = returned.crash(&net).await;
    let returned = GroupNode::start(&net, &secret, &owner, kept).await;
    assert_ended(&returned, &guest, id, &signed).await;
}

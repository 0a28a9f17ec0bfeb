//! An owner whose next key was stolen recovers in its groups, too: the key log that displaces the thief's fork comes there by
//! itself, over the simulated network in virtual time (P-48, SG-4).

use crate::membership::log;
use althing_conformance::groups::{GroupNode, Owner, leader, settled, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::GroupError;
use althing_coordination::consensus::wire::Payload;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::outcome::{Outcome, Refusal};
use althing_protocol::group::{Author, Command, Dissolution, Endorsed, GroupId, Policy, Set};
use althing_protocol::keyring::Withdrawal;
use althing_protocol::{KeyLog, object};
use althing_simnet::{LinkConfig, SimNet};
use minicbor::bytes::ByteVec;

/// The number of the owner that founds the groups, and owns them.
const FOUNDER: u8 = 101;
/// The number of another one, which has members.
const OTHER: u8 = 102;

/// An owner whose next key was stolen.
struct Robbed {
    /// As the thief goes on with its log.
    thief: Owner,
    /// As it goes on itself, with the key after the next one.
    owner: Owner,
}

impl Robbed {
    fn new(number: u8, now_ms: u64) -> Robbed {
        let before = Owner::new(number);
        let next = before.rotated(now_ms);
        let fork = before.log.rotate(&next.key, key(200).public(), now_ms, 0).expect("the next key");
        Robbed { owner: next.rotated(now_ms), thief: Owner { key: next.key, log: fork } }
    }
}

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

/// A group of nodes of these owners. The first one's owns it.
async fn group(net: &SimNet, owners: &[u8]) -> (Vec<GroupNode>, GroupId) {
    let mut nodes = Vec::new();
    for (number, owner) in (1..).zip(owners) {
        nodes.push(GroupNode::start(net, &key(number), &Owner::new(*owner), store()).await);
    }
    let id = nodes[0].groups.create("team", Policy::default()).await.expect("a group");
    for node in &nodes[1..] {
        nodes[0].admit(id, node).await;
    }
    settled(&nodes, id, nodes.len() - 1 + nodes.len() % 2).await;
    // Until then the voters before count as well.
    let is_over = |node: &GroupNode| {
        let log = log(node, id);
        let members = log.iter().rev().find_map(|entry| match &entry.payload {
            Payload::Members(voters, _) => Some(voters.len()),
            Payload::Blank | Payload::Batch(..) => None,
        });
        members == Some(1)
    };
    until("the last change of voters is over", || nodes.iter().all(is_over)).await;
    (nodes, id)
}

/// The command that shows a key log.
fn keys(log: &KeyLog) -> Command {
    Command::Keys(log.to_bytes().into_iter().map(ByteVec::from).collect())
}

/// Has the group execute what an owner signs by its key.
async fn submit(by: &GroupNode, id: GroupId, owner: &Owner) -> Result<Option<Vec<Outcome>>, GroupError> {
    let set = Set { key: "a".to_owned(), value: b"b".to_vec().into(), if_version: None };
    by.groups.catch_up(id).await.expect("the group answers");
    by.groups.submit(id, Author::Publisher(owner.log.publisher()), &owner.key, vec![Command::Set(set)]).await
}

/// Whether it is executed.
async fn is_obeyed(by: &GroupNode, id: GroupId, owner: &Owner) -> bool {
    match submit(by, id, owner).await {
        Ok(Some(outcomes)) => matches!(outcomes.as_slice(), [Outcome::Done(_)]),
        Err(GroupError::Refused(Refusal::Author(_))) => false,
        other => panic!("{other:?}"),
    }
}

/// Whether a member would believe what an owner signs about the group by its key.
fn is_believed(by: &GroupNode, id: GroupId, owner: &Owner, now_ms: u64) -> bool {
    let look = |state: &Group| -> Option<Dissolution> {
        let body = Dissolution::new(id, state.charter()?.digest());
        let signed = object::sign(body, NETWORK, &id.to_string(), &owner.key).expect("it is signed");
        state.verify_at(&Endorsed::new([signed.bytes]), now_ms)
    };
    by.groups.look(id, look).is_ok_and(|verified| verified.is_some())
}

/// P-91, P-95: no other node knows that log, and nobody is told to bring it.
#[tokio::test(start_paused = true)]
async fn an_owners_node_brings_the_log_that_displaces_a_fork() {
    let net = net();
    let Robbed { thief, owner } = Robbed::new(FOUNDER, net.now_ms());
    let (mut nodes, id) = group(&net, &[FOUNDER, OTHER, OTHER]).await;
    let (secret, kept) = nodes.remove(0).crash(&net).await;
    settled(&nodes, id, 2).await;
    nodes[0].groups.command(id, keys(&thief.log)).await.expect("it goes on with the log that is known");
    assert!(is_obeyed(&nodes[0], id, &thief).await && !is_obeyed(&nodes[0], id, &owner).await);
    nodes.push(GroupNode::start(&net, &secret, &owner, kept).await);
    let is_owners = |node: &GroupNode| {
        let now_ms = net.now_ms();
        is_believed(node, id, &owner, now_ms) && !is_believed(node, id, &thief, now_ms)
    };
    until("all believe the owner again", || nodes.iter().all(is_owners)).await;
    assert!(is_obeyed(&nodes[0], id, &owner).await && !is_obeyed(&nodes[0], id, &thief).await);
    let again = nodes[0].groups.command(id, keys(&thief.log)).await;
    assert!(matches!(again, Err(GroupError::Refused(Refusal::KeyLog(_)))), "the fork does not come back: {again:?}");
    assert!(is_obeyed(&nodes[0], id, &owner).await);
}

/// P-91, P-159: all nodes of the owner are down. Its withdrawal, by a key that the group does not know, says that there is
/// news.
#[tokio::test(start_paused = true)]
async fn a_leader_brings_the_log_that_displaces_a_fork_before_a_withdrawal_by_its_key() {
    let net = net();
    let Robbed { thief, owner } = Robbed::new(OTHER, net.now_ms());
    let (mut nodes, id) = group(&net, &[FOUNDER, FOUNDER, OTHER]).await;
    let (secret, _) = nodes.remove(2).crash(&net).await;
    settled(&nodes, id, 2).await;
    let (at, _) = leader(&nodes, id).await;
    let leads = &nodes[at];
    leads.groups.command(id, keys(&thief.log)).await.expect("it goes on with the log that is known");
    assert!(is_obeyed(leads, id, &thief).await && !is_obeyed(leads, id, &owner).await);
    let withdrawal = Withdrawal::new(owner.log.publisher(), secret.public(), net.now_ms());
    let withdrawal = object::sign(withdrawal, "", "", &owner.key).expect("a withdrawal").bytes;
    let known = leads.communication.keys();
    assert!(known.learn(owner.log.clone()).expect("its members' owners matter to it"), "it is new");
    assert!(known.withdraw(&withdrawal, None, net.now_ms()).expect("by the present key"), "it is new");
    let members = |node: &GroupNode| node.groups.look(id, |state| state.members().len()).unwrap_or_default();
    until("its member is expelled", || nodes.iter().all(|node| members(node) == 2)).await;
    let refused = submit(&nodes[0], id, &thief).await;
    assert!(matches!(refused, Err(GroupError::Refused(_))), "{refused:?}");
}

/// P-91
#[tokio::test(start_paused = true)]
async fn who_joins_brings_the_log_that_displaces_a_fork() {
    let net = net();
    let Robbed { thief, owner } = Robbed::new(OTHER, net.now_ms());
    let (mut nodes, id) = group(&net, &[FOUNDER, OTHER]).await;
    drop(nodes.remove(1).crash(&net).await);
    nodes[0].groups.command(id, keys(&thief.log)).await.expect("it goes on with the log that is known");
    assert!(is_obeyed(&nodes[0], id, &thief).await && !is_obeyed(&nodes[0], id, &owner).await);
    // Its node is of the owner by the log that displaces the fork alone.
    let late = GroupNode::start(&net, &key(3), &owner, store()).await;
    nodes[0].admit(id, &late).await;
    assert!(is_obeyed(&nodes[0], id, &owner).await && !is_obeyed(&nodes[0], id, &thief).await);
}

//! Who was a member once: it is not obeyed any more, and what the log says of its former part is no word about a later one. In
//! virtual time.

use std::time::Duration;

use althing_communication::{CallError, Request};
use althing_conformance::groups::{GroupNode, Owner, group_of, hand_over, store};
use althing_conformance::world::{connect, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::wire::{self, Append, Appended, Ballot, Barrier, EntryRecord, Payload, Unserved};
use althing_coordination::{GROUPS, GroupError, RAFT, RAFT_LOG};
use althing_protocol::PublicKey;
use althing_protocol::group::GroupId;
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Range;

/// A group of three, of which the founder leads, and a fourth node of their owner.
async fn world() -> (SimNet, Vec<GroupNode>, GroupId, GroupNode) {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (nodes, id) = group_of(&net, 3).await;
    hand_over(&nodes, id, 0).await;
    let fourth = GroupNode::start(&net, &key(9), &Owner::new(101), store()).await;
    (net, nodes, id, fourth)
}

/// Whether a node serves another one as a member of the group.
async fn is_served(from: &GroupNode, by: &GroupNode, id: GroupId) -> bool {
    connect(from.communication.network(), by.communication.network()).await;
    let request = Request::new("barrier", wire::write(&Barrier { group: id }));
    match from.communication.call(by.id(), RAFT, request).await {
        Ok(_) => true,
        Err(CallError::Refused { body, .. }) => match wire::read::<Unserved>(&body).expect("why it was not served") {
            Unserved::NotAMember => false,
            other => panic!("{other}"),
        },
        Err(other) => panic!("{other}"),
    }
}

/// P-101: a ticket says whom to believe before there is a state, and not for ever.
#[tokio::test(start_paused = true)]
async fn an_expelled_member_is_not_served_by_who_joined_by_a_ticket_that_names_it() {
    let (_, nodes, id, late) = world().await;
    let former = &nodes[1];
    let ticket = nodes[0].groups.invite(id, late.id(), 60_000).expect("an invitation");
    assert!(ticket.contacts.iter().any(|contact| contact.node == former.id()), "{:?}", ticket.contacts);
    late.groups.join(&ticket).await.expect("it joins");
    late.groups.catch_up(id).await.expect("the group answers");
    assert!(is_served(former, &late, id).await, "as a member");
    nodes[0].groups.expel(id, former.id()).await.expect("its owner may");
    let names = || late.groups.look(id, |state| state.members().get(&former.id()).is_some()).expect("it is a member");
    until("it knows of it", || !names()).await;
    for _ in 0..100 {
        // The log's members are those of the state soon after.
        if !is_served(former, &late, id).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it is served yet");
}

/// P-101: once a node has joined, no former member counts for the ticket's sake any more.
#[tokio::test(start_paused = true)]
async fn whom_a_ticket_names_is_forgotten_on_disk_by_who_has_joined() {
    let (_, nodes, id, late) = world().await;
    let ticket = nodes[0].groups.invite(id, late.id(), 60_000).expect("an invitation");
    assert!(ticket.contacts.iter().any(|contact| contact.node == nodes[1].id()), "{:?}", ticket.contacts);
    late.groups.join(&ticket).await.expect("it joins");
    late.groups.catch_up(id).await.expect("the group answers");
    let is_named = || {
        let record = late.store.read(GROUPS, id.as_bytes().as_slice()).expect("it can be read").expect("a record");
        nodes.iter().any(|node| record.windows(32).any(|bytes| bytes == node.id().as_bytes()))
    };
    until("its record names nobody", || !is_named()).await;
    assert_eq!(late.groups.overview(id).expect("the group").standing, "member");
}

/// The entries that a member has on disk.
fn log(node: &GroupNode, id: GroupId) -> Vec<EntryRecord> {
    let rows = node.store.scan(RAFT_LOG, Range::prefix(id.as_bytes().as_slice(), 4_096)).expect("it can be read");
    rows.iter().map(|(_, entry)| minicbor::decode(entry).expect("an entry")).collect()
}

/// Whether a node is among the members of the log that an entry brings; none if it brings no members.
fn has_member(entry: &EntryRecord, node: PublicKey) -> Option<bool> {
    match &entry.payload {
        Payload::Members(voters, learners) => Some(voters.iter().chain([learners]).flatten().any(|one| *one == node)),
        Payload::Blank | Payload::Batch(..) => None,
    }
}

/// Brings a node the entries of this log behind the first ones, as who leads does that has this ballot.
async fn bring(from: &GroupNode, to: &GroupNode, id: GroupId, leader: Ballot, log: &[EntryRecord], first: usize) {
    let (mut taken, committed) = (first, log.last().map(|entry| entry.at));
    for _ in 0..100 {
        let previous = taken.checked_sub(1).map(|before| log[before].at);
        let append = Append { group: id, leader, previous, committed, entries: log[taken..].to_vec() };
        let request = Request::new("append", wire::write(&append));
        let answer = from.communication.call(to.id(), RAFT, request).await.expect("it is served");
        match wire::read::<Appended>(&answer).expect("an answer") {
            Appended::All => return,
            // What comes next is to be justified by what it executes first.
            Appended::UpTo(at) => taken = at.map_or(0, |at| usize::try_from(at.index).expect("it is a short log") + 1),
            other => panic!("{other:?}"),
        }
    }
    panic!("it takes no more than {taken} of {} entries", log.len());
}

/// P-91, P-109: the epoch of the new invitation is the one that began with the expulsion.
#[tokio::test(start_paused = true)]
async fn who_was_expelled_and_joins_anew_does_not_take_its_former_end_in_the_log_for_that_of_now() {
    let (net, nodes, id, node) = world().await;
    let here = node.id();
    nodes[0].admit(id, &node).await;
    let named = || log(&nodes[0], id).iter().position(|entry| has_member(entry, here) == Some(true));
    until("the log has it as a member", || named().is_some()).await;
    node.groups.forget(id).await.expect("it is removed here");
    nodes[0].groups.expel(id, here).await.expect("its owner may");
    let last = || log(&nodes[0], id).iter().rev().find_map(|entry| has_member(entry, here));
    until("the log has it no more", || last() == Some(false)).await;
    // It asks a member that does not lead, and reaches no other one: the group does not hear of it yet.
    let mut ticket = nodes[0].groups.invite(id, here, 600_000).expect("an invitation");
    ticket.contacts.retain(|contact| contact.node == nodes[1].id());
    [0, 2].into_iter().for_each(|other: usize| net.cut(nodes[other].id(), here));
    let told = node.groups.join(&ticket).await;
    assert!(matches!(told, Err(GroupError::NoAnswer { .. })), "{told:?}");
    // The log comes in two parts: in the first one it is a member, in the second one it is expelled.
    let (entries, joined) = (log(&nodes[0], id), named().expect("it was there") + 1);
    assert_eq!(entries[0].at.index, 0, "the whole log");
    let leader = Ballot { term: entries[entries.len() - 1].at.term + 1, node: nodes[1].id(), elected: true };
    let is_named = || node.groups.look(id, |state| state.members().get(&here).is_some()).ok();
    bring(&nodes[1], &node, id, leader, &entries[..joined], 0).await;
    until("it is a member by the first part", || is_named() == Some(true)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    bring(&nodes[1], &node, id, leader, &entries, joined).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(node.groups.overview(id).expect("it is kept").standing, "member", "its new part has not ended");
    assert_eq!(is_named(), Some(false), "it has executed the expulsion");
    let since = ticket.invitation().expect("an invitation").epoch;
    assert_eq!(node.groups.look(id, |state| state.epoch()).expect("it is kept"), since);
}

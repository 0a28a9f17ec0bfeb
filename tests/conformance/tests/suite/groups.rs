//! Groups over the simulated network, in virtual time: what was acknowledged outlives the leader.

use std::time::Duration;

use althing_communication::{CallError, Request};
use althing_conformance::groups::{GroupNode, Owner, group_of, hand_over, leader, settled, store};
use althing_conformance::world::{connect, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::wire::{self, Ballot, Barrier, Elect, Position, Submit, Submitted, Unserved};
use althing_coordination::machine::outcome::{Refusal, Reply};
use althing_coordination::{GROUPS, GroupError, RAFT, ReplicaConfig};
use althing_protocol::group::{Author, Batch, Command, GroupId, Policy, Set};
use althing_protocol::object;
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Durability;

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

/// P-102, P-106, P-107, P-108
#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_is_read_back_after_the_leader_was_killed() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    for number in 0..20 {
        nodes[(at + 1) % 3].set(id, &format!("key-{number}"), "value").await;
    }
    let (secret, kept) = nodes.remove(at).crash(&net).await;
    let (next, took) = leader(&nodes, id).await;
    assert!(took < Duration::from_secs(2), "a new leader after {took:?}");
    for number in 0..20 {
        assert_eq!(nodes[next].get(id, &format!("key-{number}")).await.as_deref(), Some("value"), "key-{number}");
    }
    nodes[1 - next].set(id, "later", "without it").await;
    // The killed one comes back with what it kept, and learns the rest.
    let returned = GroupNode::start(&net, &secret, &Owner::new(101), kept).await;
    assert_eq!(returned.get(id, "later").await.as_deref(), Some("without it"));
    nodes.push(returned);
    settled(&nodes, id, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_late_gets_everything() {
    let net = net();
    let (nodes, id) = group_of(&net, 1).await;
    nodes[0].set(id, "first", "1").await;
    let late = GroupNode::start(&net, &key(9), &Owner::new(101), store()).await;
    nodes[0].admit(id, &late).await;
    assert_eq!(late.get(id, "first").await.as_deref(), Some("1"));
}

/// P-101: the log comes in parts, and the first ones do not have who leads as a member.
#[tokio::test(start_paused = true)]
async fn a_node_joins_while_one_leads_that_was_not_there_at_the_beginning() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    hand_over(&nodes, id, 2).await;
    let late = GroupNode::start(&net, &key(9), &Owner::new(101), store()).await;
    nodes[2].set(id, "first", "1").await;
    nodes[2].admit(id, &late).await;
    assert_eq!(late.get(id, "first").await.as_deref(), Some("1"));
}

/// Asks a member as a stranger would, or as another member.
async fn ask(from: &GroupNode, to: &GroupNode, operation: &str, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let request = Request::new(operation, body);
    match from.communication.call(to.id(), RAFT, request).await {
        Ok(body) => Ok(body),
        Err(CallError::Refused { body, .. }) => {
            Err(wire::read::<Unserved>(&body).expect("why it was not served").to_string())
        }
        Err(error) => panic!("{error}"),
    }
}

fn elect(id: GroupId, candidate: &GroupNode, term: u64) -> Elect {
    let candidate = Ballot { term, node: candidate.id(), elected: false };
    Elect { group: id, candidate, last: Some(Position { term, index: 9_000 }), is_transfer: false }
}

/// P-100, P-101
#[tokio::test(start_paused = true)]
async fn only_members_are_served_each_for_itself_and_only_what_is_well_formed() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let stranger = GroupNode::start(&net, &key(9), &Owner::new(55), store()).await;
    let member = &nodes[1];
    connect(stranger.communication.network(), member.communication.network()).await;
    for operation in ["vote", "pre-vote"] {
        let refused = ask(&stranger, member, operation, wire::write(&elect(id, &stranger, 99))).await;
        assert!(refused.expect_err("a stranger").contains("the caller is no member of the group"), "{operation}");
    }
    let barrier = wire::write(&Barrier { group: id });
    assert!(ask(&stranger, member, "barrier", barrier.clone()).await.is_err());
    let elsewhere = wire::write(&Barrier { group: GroupId::from_digest([9; 32]) });
    let refused = ask(&nodes[2], member, "barrier", elsewhere).await.expect_err("another group");
    assert_eq!(refused, "this node is no member of the group");
    // A member speaks for itself only, and of terms that others can follow.
    let for_another = ask(&nodes[2], member, "vote", wire::write(&elect(id, &nodes[0], 99))).await;
    assert!(for_another.expect_err("another's name").contains("another leader or candidate"));
    let term = || member.groups.overview(id).expect("the group").replica.expect("it runs").term;
    let before = term();
    for (impossible, operations) in
        [(u64::MAX, &["vote", "pre-vote"][..]), (before + wire::TERM_AHEAD_MAX + 1, &["vote"])]
    {
        for operation in operations {
            let refused = ask(&nodes[2], member, operation, wire::write(&elect(id, &nodes[2], impossible))).await;
            assert!(refused.expect_err("an impossible term").contains("impossible term"), "{impossible}");
        }
    }
    // The one that others can reach brought it a step nearer.
    until("it took one step", || term() >= before + wire::TERM_AHEAD_MAX).await;
    assert_eq!(term(), before + wire::TERM_AHEAD_MAX);
    let mut longer = barrier.clone();
    longer.push(0);
    for (operation, body) in [("barrier", longer), ("barrier", Vec::new()), ("nonsense", barrier)] {
        assert!(ask(&nodes[2], member, operation, body).await.expect_err("malformed").contains("malformed"));
    }
    // The group goes on.
    nodes[2].set(id, "a", "b").await;
}

/// P-107: nothing that is refused enters the log; P-91: whoever brings it.
#[tokio::test(start_paused = true)]
async fn strangers_do_not_fill_the_log() {
    let net = net();
    let (nodes, id) = group_of(&net, 1).await;
    let stranger = GroupNode::start(&net, &key(9), &Owner::new(55), store()).await;
    connect(stranger.communication.network(), nodes[0].communication.network()).await;
    let last = || nodes[0].groups.overview(id).expect("the group").replica.expect("it runs").last;
    let before = last();
    let set = Set { key: "a".to_owned(), value: b"b".to_vec().into(), if_version: None };
    for epoch in [0, 1] {
        let batch = Batch::new(epoch, Author::Node(stranger.id()), 1, 1, vec![Command::Set(set.clone())]);
        let signed = object::sign(batch, NETWORK, &Batch::scope(id), &stranger.key).expect("a batch");
        let submit = Submit { group: id, batch: signed.bytes.into() };
        let answer = ask(&stranger, &nodes[0], "submit", wire::write(&submit)).await.expect("an answer");
        let answer: Submitted = wire::read(&answer).expect("an answer");
        assert!(matches!(answer, Submitted::Done(Reply::Refused(_))), "{answer:?}");
    }
    // A ticket of its own making.
    let ticket = nodes[0].groups.invite(id, key(8).public(), 60_000).expect("an invitation");
    let refused = stranger.groups.join(&ticket).await.expect_err("it is for another");
    assert!(matches!(refused, GroupError::ForAnother { .. }), "{refused}");
    assert_eq!(last(), before);
}

/// Cuts one node off from the others.
fn cut_off(net: &SimNet, nodes: &[GroupNode], away: usize) {
    for node in nodes.iter().filter(|node| node.id() != nodes[away].id()) {
        net.cut(node.id(), nodes[away].id());
    }
}

/// P-109
#[tokio::test(start_paused = true)]
async fn an_expelled_member_that_was_away_learns_it_from_the_others() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    let away = (at + 1) % 3;
    cut_off(&net, &nodes, away);
    nodes[at].groups.expel(id, nodes[away].id()).await.expect("its owner may");
    assert_eq!(nodes[away].groups.overview(id).expect("the group").standing, "member");
    net.heal_all();
    until("it learns it", || nodes[away].groups.overview(id).is_ok_and(|group| group.standing == "gone")).await;
    let refused = nodes[away].groups.command(id, Command::Tick).await.expect_err("it is no member");
    assert!(matches!(refused, GroupError::NoSuchGroup(_)), "{refused}");
}

/// P-109
#[tokio::test(start_paused = true)]
async fn a_member_that_was_away_learns_from_the_owners_signatures_that_the_group_ended() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    let away = (at + 1) % 3;
    cut_off(&net, &nodes, away);
    nodes[at].groups.dissolve(id).await.expect("its owner may");
    net.heal_all();
    until("all know it", || {
        nodes.iter().all(|node| node.groups.overview(id).is_ok_and(|group| group.standing == "dissolved"))
    })
    .await;
    let refused = nodes[at].groups.command(id, Command::Tick).await.expect_err("it ended");
    assert!(matches!(refused, GroupError::Dissolved(_)), "{refused}");
}

/// P-102: a voter that was cut off comes back without an election.
#[tokio::test(start_paused = true)]
async fn a_voter_that_was_cut_off_does_not_disturb_when_it_returns() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    let away = (at + 1) % 3;
    let term = |node: &GroupNode| node.groups.overview(id).expect("the group").replica.expect("it runs").term;
    let before = term(&nodes[at]);
    cut_off(&net, &nodes, away);
    tokio::time::sleep(Duration::from_secs(20)).await;
    nodes[at].set(id, "a", "while it was away").await;
    net.heal_all();
    until("it has it", || nodes[away].peek(id, "a").is_some()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(nodes[at].leads(id), "the leader stayed");
    assert_eq!(term(&nodes[at]), before, "and its term");
}

/// A leader without a majority does not call its state new.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_says_since_when() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    let silence = || nodes[at].groups.overview(id).expect("the group").silence;
    until("a majority acknowledges it", || silence().is_some_and(|time| time < Duration::from_secs(1))).await;
    cut_off(&net, &nodes, at);
    until("no majority does", || silence().is_some_and(|time| time > Duration::from_secs(3))).await;
    let is_led = || nodes[at].groups.overview(id).expect("the group").is_led();
    until("it is not led", || !is_led()).await;
    net.heal_all();
    until("one is heard again", || silence().is_some_and(|time| time < Duration::from_secs(1))).await;
    assert!(is_led());
}

/// A leader hands over the lead.
#[tokio::test(start_paused = true)]
async fn the_lead_is_handed_over_on_request() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    let to = (at + 1) % 3;
    nodes[at].groups.transfer(id, nodes[to].id()).await.expect("it leads");
    until("the other one leads", || nodes[to].leads(id)).await;
    let refused = nodes[at].groups.transfer(id, nodes[to].id()).await.expect_err("it does not lead");
    assert!(matches!(refused, GroupError::NotLeading(_)), "{refused}");
    nodes[at].set(id, "a", "b").await;
}

/// P-104, P-105: the log before the snapshot is gone, so that nothing else can tell the late one; it serves again after a
/// restart, and so does the one that was away.
#[tokio::test(start_paused = true)]
async fn who_lacks_more_than_the_logs_hold_gets_a_snapshot() {
    let net = net();
    let config = || ReplicaConfig { snapshot_entries: 20, ..ReplicaConfig::default() };
    let owner = Owner::new(101);
    let mut nodes = Vec::new();
    for number in 1..=3 {
        nodes.push(GroupNode::start_with(&net, &key(number), &owner, store(), config()).await);
    }
    let id = nodes[0].groups.create("team", Policy::default()).await.expect("a group");
    for node in &nodes[1..] {
        nodes[0].admit(id, node).await;
    }
    settled(&nodes, id, 3).await;
    let (secret, kept) = nodes.remove(2).crash(&net).await;
    for number in 0..150 {
        nodes[0].set(id, &format!("key-{number}"), "value").await;
    }
    nodes[1].groups.catch_up(id).await.expect("the group answers");
    let purged = || nodes[0].groups.overview(id).expect("the group").replica.expect("it runs").snapshot;
    until("a snapshot is made", || purged() > Some(100)).await;
    // One that never was there, and one that was away.
    let late = GroupNode::start_with(&net, &key(9), &owner, store(), config()).await;
    nodes[0].admit(id, &late).await;
    assert_eq!(late.get(id, "key-149").await.as_deref(), Some("value"));
    let snapshot = late.groups.overview(id).expect("the group").replica.expect("it runs").snapshot;
    assert!(snapshot > Some(100), "by a snapshot: {snapshot:?}");
    let returned = GroupNode::start_with(&net, &secret, &owner, kept, config()).await;
    assert_eq!(returned.get(id, "key-0").await.as_deref(), Some("value"));
    let (secret, kept) = late.crash(&net).await;
    let late = GroupNode::start_with(&net, &secret, &owner, kept, config()).await;
    assert_eq!(late.peek(id, "key-0").as_deref(), Some("value"), "what it was sent is on its disk");
    nodes[1].set(id, "later", "1").await;
    assert_eq!(late.get(id, "later").await.as_deref(), Some("1"));
}

/// P-92, P-106: of two members one votes. When that one leaves, it stays until the other one can go on.
#[tokio::test(start_paused = true)]
async fn the_only_voter_leaves_and_the_group_goes_on() {
    let net = net();
    let (nodes, id) = group_of(&net, 2).await;
    let (at, _) = leader(&nodes, id).await;
    nodes[at].set(id, "a", "b").await;
    nodes[at].groups.leave(id).await.expect("it leaves");
    assert_eq!(nodes[at].groups.overview(id).expect("the group").standing, "gone");
    let other = &nodes[1 - at];
    until("the other one leads", || other.leads(id)).await;
    assert_eq!(other.get(id, "a").await.as_deref(), Some("b"));
    other.set(id, "a", "c").await;
    let refused = other.groups.leave(id).await.expect_err("it is the last one");
    assert!(matches!(refused, GroupError::Refused(Refusal::LastMember)), "{refused}");
    assert_eq!(other.get(id, "a").await.as_deref(), Some("c"), "and it still belongs to it");
}

/// A node that removed what it had of a group does not vote again under the same membership: it could contradict itself.
#[tokio::test(start_paused = true)]
async fn who_forgot_its_votes_joins_only_after_it_was_expelled() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    let other = (at + 1) % 3;
    nodes[other].groups.forget(id).await.expect("it is removed here");
    let ticket = nodes[at].groups.invite(id, nodes[other].id(), 60_000).expect("an invitation");
    let refused = nodes[other].groups.join(&ticket).await.expect_err("it is a member already");
    assert!(matches!(refused, GroupError::Refused(Refusal::AlreadyMember(_))), "{refused}");
    nodes[at].groups.expel(id, nodes[other].id()).await.expect("its owner may");
    let ticket = nodes[at].groups.invite(id, nodes[other].id(), 60_000).expect("an invitation");
    nodes[other].groups.join(&ticket).await.expect("it joins anew");
    settled(&nodes, id, 3).await;
}

/// P-95: the members learn of an owner's new key by themselves, and the new key is obeyed.
#[tokio::test(start_paused = true)]
async fn an_owner_that_rotated_its_key_still_owns_the_group() {
    let net = net();
    let (nodes, id) = group_of(&net, 1).await;
    let rotated = Owner::new(101).rotated(net.now_ms());
    let (secret, kept) = nodes.into_iter().next().expect("one").crash(&net).await;
    let node = GroupNode::start(&net, &secret, &rotated, kept).await;
    let other = GroupNode::start(&net, &key(2), &rotated, store()).await;
    until("it leads again", || node.leads(id)).await;
    let invited = || node.groups.invite(id, other.id(), 60_000).expect("an invitation");
    let mut joined = other.groups.join(&invited()).await;
    for _ in 0..100 {
        if joined.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        joined = other.groups.join(&invited()).await;
    }
    joined.expect("it joins by the new key");
}

/// A member that cannot lead is not handed the lead, and one that dies meanwhile does not keep the group from going on.
#[tokio::test(start_paused = true)]
async fn a_transfer_that_fails_leaves_the_group_with_a_leader() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    let late = GroupNode::start(&net, &key(9), &Owner::new(101), store()).await;
    nodes[0].admit(id, &late).await;
    let refused = nodes[at].groups.transfer(id, late.id()).await.expect_err("it only learns");
    assert!(matches!(refused, GroupError::Refused(_) | GroupError::Replica(_)), "{refused}");
    nodes[at].set(id, "still", "led").await;
    // The next one has everything, and is gone when it is asked.
    settled(&nodes, id, 3).await;
    let dead = nodes.remove((at + 1) % 3);
    let to = dead.id();
    let at = at - usize::from((at + 1) % 3 < at);
    let _ = dead.crash(&net).await;
    // The third voter may take over meanwhile.
    let handed = nodes[at].groups.transfer(id, to).await;
    assert!(matches!(handed, Ok(()) | Err(GroupError::Replica(_))), "{handed:?}");
    leader(&nodes, id).await;
    nodes[0].set(id, "after", "it").await;
    assert_eq!(nodes[1].get(id, "after").await.as_deref(), Some("it"));
}

#[tokio::test(start_paused = true)]
async fn a_node_belongs_to_one_group_of_a_name_and_to_the_next_when_that_has_ended() {
    let net = net();
    let (nodes, id) = group_of(&net, 1).await;
    let taken = |refused: Result<GroupId, GroupError>| {
        assert!(
            matches!(&refused, Err(GroupError::NameTaken(name, other)) if name == "team" && *other == id),
            "{refused:?}"
        );
    };
    taken(nodes[0].groups.create("team", Policy::default()).await);
    let other = GroupNode::start(&net, &key(2), &Owner::new(101), store()).await;
    let theirs = other.groups.create("team", Policy::default()).await.expect("its first one");
    settled(std::slice::from_ref(&other), theirs, 1).await;
    let ticket = other.groups.invite(theirs, nodes[0].id(), 60_000).expect("its owner's");
    taken(nodes[0].groups.join(&ticket).await);
    nodes[0].groups.dissolve(id).await.expect("its owner's");
    until("it has ended here", || nodes[0].groups.list().iter().all(|group| group.standing == "dissolved")).await;
    assert_eq!(nodes[0].groups.join(&ticket).await.expect("the name is free"), theirs);
    assert_eq!(nodes[0].groups.resolve("team").expect("one goes on"), theirs);
    let refused = nodes[0].groups.resolve_to_forget("team").expect_err("either may be meant");
    let said = refused.to_string();
    assert!(said.contains(&format!("{id} (dissolved)")) && said.contains(&format!("{theirs} (")), "{said}");
    assert_eq!(nodes[0].groups.resolve_to_forget(&id.to_string()).expect("an id"), id);
}

/// P-198: what a build without a version of the rules wrote is not executed to another state; who asks is told what to do.
#[tokio::test(start_paused = true)]
async fn a_group_of_a_build_without_rules_is_named_and_can_be_forgotten() {
    let net = net();
    let (nodes, id) = group_of(&net, 1).await;
    nodes[0].set(id, "key", "value").await;
    let (secret, kept) = nodes.into_iter().next().expect("one").crash(&net).await;
    let record = kept.read(GROUPS, id.as_bytes()).expect("it can be read").expect("its record");
    // The last of five members of a map, `4: 2`.
    let [0xa5, before @ .., 4, 2] = record.as_slice() else { panic!("another record: {record:02x?}") };
    let mut batch = althing_store::Batch::new();
    batch.put(GROUPS, id.as_bytes().as_slice(), [&[0xa4], before].concat());
    kept.write(batch, Durability::Synced).await.expect("it is written");
    let node = GroupNode::start(&net, &secret, &Owner::new(101), kept).await;
    let failure = || node.groups.overview(id).expect("the group").failure;
    until("it is told", || failure().is_some_and(|why| why.contains("form it anew"))).await;
    let refused =
        node.groups.command(id, Command::Set(Set { key: "key".into(), value: Vec::new().into(), if_version: None }));
    assert!(refused.await.is_err_and(|error| error.to_string().contains("form it anew")));
    node.groups.forget(id).await.expect("it is removed");
    assert!(node.groups.overview(id).is_err());
}

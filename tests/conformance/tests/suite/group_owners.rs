//! Groups of several owners over the simulated network, in virtual time: what they sign together, and who votes instead of a
//! member that is gone.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::Request;
use althing_conformance::co_owned::{admit, endorse, group_of_two, invite};
use althing_conformance::groups::{GroupNode, Owner, echo_task, leader, settled, store, task_id};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::wire::{self, Submit, Submitted};
use althing_coordination::machine::outcome::{Refusal, Reply};
use althing_coordination::{Change, GroupError, Invited, Owners, PART_BYTES, RAFT, Reader, Signed, content};
use althing_protocol::group::{self, Author, Batch, Command, GroupId, Needs, Policy, Rule, Target};
use althing_protocol::keyring::Withdrawal;
use althing_protocol::{SecretKey, hex, object};
use althing_simnet::{LinkConfig, SimNet};

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

/// P-145 to P-147
#[tokio::test(start_paused = true)]
async fn what_one_owner_proposes_is_done_when_the_other_one_has_signed_it() {
    let net = net();
    let (nodes, id) = group_of_two(&net, Policy::default()).await;
    // The first owner's other node, with a ticket that only the first owner has signed.
    let alone = nodes[0].groups.invite(id, nodes[2].id(), 60_000).expect_err("two must sign");
    assert!(matches!(alone, GroupError::Alone { threshold: 2 }), "{alone}");
    let Invited::Waits(name, early) = invite(&nodes[0], id, &nodes[2]).await else { panic!("two must sign") };
    let refused = nodes[2].groups.join(&early).await.expect_err("one of two signed");
    assert!(matches!(refused, GroupError::Refused(Refusal::Endorsement(_))), "{refused}");
    let (signed, ticket) = endorse(&nodes[1], id, name).await;
    assert_eq!(signed, Signed::Done);
    nodes[2].groups.join(&ticket.expect("a ticket")).await.expect("both signed");
    settled(&nodes[..3], id, 3).await;
    // An expulsion.
    let signed = nodes[1].groups.expel(id, nodes[2].id()).await.expect("it is proposed");
    let Signed::Waits(name) = signed else { panic!("two must sign") };
    nodes[0].groups.catch_up(id).await.expect("the group answers");
    let waiting = Owners::of(&nodes[0].groups, id).waiting().expect("the group");
    assert_eq!((waiting.len(), waiting[0].id, waiting[0].threshold), (1, name, 2));
    assert_eq!(waiting[0].signers, [Owner::new(102).log.publisher()].into());
    assert_eq!(waiting[0].about, format!("expel {}", nodes[2].id().did()));
    assert_eq!(nodes[2].groups.overview(id).expect("the group").standing, "member");
    let unknown = Owners::of(&nodes[0].groups, id).endorse("no such name").await.expect_err("there is none");
    assert!(matches!(unknown, GroupError::Proposal(_, 0)), "{unknown}");
    assert_eq!(endorse(&nodes[0], id, name).await, (Signed::Done, None));
    until("it learns it", || nodes[2].groups.overview(id).is_ok_and(|group| group.standing == "gone")).await;
    assert!(Owners::of(&nodes[0].groups, id).waiting().expect("the group").is_empty());
}

/// P-93, P-145, P-146: the group goes on across a later charter.
#[tokio::test(start_paused = true)]
async fn owners_change_who_owns_the_group_and_how_many_must_sign() {
    let net = net();
    let (nodes, id) = group_of_two(&net, Policy::default()).await;
    admit(&nodes, id, 2).await;
    settled(&nodes[..3], id, 3).await;
    nodes[2].set(id, "before", "1").await;
    let [first, second] = [0, 1].map(|at| Owners::of(&nodes[at].groups, id));
    let others = Owner::new(102).log.publisher();
    let wrong = [
        Change { remove: vec![Owner::new(77).log.publisher()], ..Change::default() },
        Change { remove: vec![others], ..Change::default() },
        Change { threshold: Some(3), ..Change::default() },
    ];
    for change in wrong {
        let refused = first.amend(&change).await.expect_err("no such charter");
        assert!(matches!(refused, GroupError::Charter(_)), "{change:?}: {refused}");
    }
    let change = Change { threshold: Some(1), voters_max: Some(1), ..Change::default() };
    let Ok(Signed::Waits(name)) = first.amend(&change).await else { panic!("two must sign") };
    let rival = Change { threshold: Some(1), ..Change::default() };
    let Ok(Signed::Waits(ended)) = first.amend(&rival).await else { panic!("two must sign") };
    assert_eq!(endorse(&nodes[1], id, name).await, (Signed::Done, None));
    // The other one would have followed the charter before.
    let refused = second.endorse(&hex(&ended)).await.expect_err("it ended");
    assert!(matches!(refused, GroupError::Proposal(_, 0)), "{refused}");
    settled(&nodes[..3], id, 1).await;
    nodes[1].set(id, "after", "2").await;
    assert_eq!(nodes[2].get(id, "before").await.as_deref(), Some("1"));
    // Now one owner is enough, also to be the only one.
    let change = Change { remove: vec![others], ..Change::default() };
    assert_eq!(first.amend(&change).await.expect("it is the owner"), Signed::Done);
    nodes[1].groups.catch_up(id).await.expect("the group answers");
    let refused = second.amend(&change).await.expect_err("it owns it no more");
    assert!(matches!(refused, GroupError::Refused(Refusal::NotPermitted(_))), "{refused}");
    nodes[1].set(id, "still", "a member").await;
    let charters = nodes[0].groups.look(id, |state| state.charter().expect("it is founded").sequence);
    assert_eq!(charters.expect("the group"), 3);
}

/// The voters, by their places among these nodes.
fn voters(nodes: &[GroupNode], by: &GroupNode, id: GroupId) -> Vec<u8> {
    let voters = by.groups.look(id, |state| state.members().voters().clone()).expect("the group");
    let number = |node: &GroupNode| node.key.seed()[0];
    nodes.iter().filter(|node| voters.contains(&node.id())).map(number).collect()
}

/// P-148, P-149
#[tokio::test(start_paused = true)]
async fn a_learner_takes_the_place_of_a_voter_that_is_gone() {
    let net = net();
    let policy = Policy { replace_after_ms: Some(60_000), ..Policy::default() };
    let (mut nodes, id) = group_of_two(&net, policy).await;
    for node in [2, 3] {
        admit(&nodes, id, node).await;
    }
    settled(&nodes, id, 3).await;
    assert_eq!(voters(&nodes, &nodes[0], id), [key(1), key(2), key(3)].map(|key| key.seed()[0]));
    // One that comes back in time stays.
    let (at, _) = leader(&nodes, id).await;
    // The learner is of the second owner, as the second node is.
    let away = 1;
    if at == away {
        nodes[at].groups.transfer(id, nodes[0].id()).await.expect("another one leads");
        until("it leads", || nodes[0].leads(id)).await;
    }
    let (at, _) = leader(&nodes, id).await;
    let is_silent = |by: &GroupNode, node: &GroupNode| {
        by.groups.look(id, |state| state.members().silent_since(&node.id()).is_some()).expect("the group")
    };
    nodes.iter().filter(|node| node.id() != nodes[away].id()).for_each(|node| net.cut(node.id(), nodes[away].id()));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(is_silent(&nodes[at], &nodes[away]), "it is missed");
    net.heal_all();
    tokio::time::sleep(Duration::from_secs(15)).await;
    until("it is heard", || !is_silent(&nodes[at], &nodes[away])).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(voters(&nodes, &nodes[0], id).len(), 3);
    assert!(voters(&nodes, &nodes[0], id).contains(&nodes[away].key.seed()[0]));
    // One that does not is replaced by the learner, and nobody else changes.
    let gone = nodes.remove(away);
    let number = gone.key.seed()[0];
    let (secret, kept) = gone.crash(&net).await;
    tokio::time::sleep(Duration::from_secs(55)).await;
    let (at, _) = leader(&nodes, id).await;
    assert!(!voters(&nodes, &nodes[at], id).contains(&key(4).seed()[0]), "not yet");
    tokio::time::sleep(Duration::from_secs(40)).await;
    let expected: Vec<u8> = [1, 2, 3, 4].map(|at| key(at).seed()[0]).into_iter().filter(|at| *at != number).collect();
    assert_eq!(voters(&nodes, &nodes[at], id), expected);
    settled(&nodes, id, 3).await;
    // So that it bears the loss of another one.
    let other = (at + 1) % 3;
    let _ = nodes.remove(other).crash(&net).await;
    leader(&nodes, id).await;
    nodes[0].set(id, "still", "there").await;
    // Who comes back learns.
    let owner = Owner::new(if number == key(2).seed()[0] { 102 } else { 101 });
    let returned = GroupNode::start(&net, &secret, &owner, kept).await;
    assert_eq!(returned.get(id, "still").await.as_deref(), Some("there"));
    until("it is heard", || !is_silent(&nodes[0], &returned)).await;
    assert!(!voters(&[returned], &nodes[0], id).contains(&number));
}

/// The withdrawal of `node` by `owner`.
fn withdrawal(owner: &Owner, node: &GroupNode, until_ms: u64) -> Vec<u8> {
    let body = Withdrawal::new(owner.log.publisher(), node.id(), until_ms);
    object::sign(body, "", "", &owner.key).expect("a withdrawal").bytes
}

/// Why the leader refuses a batch of `author`, signed for `epoch`, that `from` brings.
async fn refusal(from: &GroupNode, leader: &GroupNode, id: GroupId, author: &SecretKey, epoch: u64) -> Refusal {
    let batch = Batch::new(epoch, Author::Node(author.public()), u64::MAX, 1, vec![Command::Tick]);
    let batch = object::sign(batch, NETWORK, &Batch::scope(id), author).expect("a batch").bytes.into();
    let request = Request::new("submit", wire::write(&Submit { group: id, batch }));
    let answer = from.communication.call(leader.id(), RAFT, request).await.expect("an answer");
    match wire::read(&answer).expect("an answer") {
        Submitted::Done(Reply::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// How many members the group has, as this node knows it.
fn members(node: &GroupNode, id: GroupId) -> usize {
    node.groups.look(id, |state| state.members().len()).unwrap_or_default()
}

/// P-159: learned by a member that does not lead, while the one that is withdrawn and all nodes of its owner are away.
#[tokio::test(start_paused = true)]
async fn a_member_that_its_owner_withdrew_is_expelled_by_the_group_and_stays_out() {
    let net = net();
    let (first, second) = (Owner::new(101), Owner::new(102));
    let mut nodes = Vec::new();
    for (number, owner) in [(1, &first), (2, &first), (3, &second)] {
        nodes.push(GroupNode::start(&net, &key(number), owner, store()).await);
    }
    let id = nodes[0].groups.create("team", Policy::default()).await.expect("a group");
    nodes[0].admit(id, &nodes[1]).await;
    nodes[0].admit(id, &nodes[2]).await;
    settled(&nodes, id, 3).await;
    nodes[2].set(id, "by", "a member").await;
    let (at, _) = leader(&nodes[..2], id).await;
    let signed = withdrawal(&second, &nodes[2], net.now_ms());
    let (secret, kept) = nodes.pop().expect("three").crash(&net).await;
    let gone = secret.public();
    until("nobody is connected to it", || nodes.iter().all(|node| !node.communication.network().is_connected(gone)))
        .await;
    let other = &nodes[1 - at];
    let shown = Arc::new(second.log.clone());
    let known = other.communication.keys().withdraw(&signed, Some(&shown), net.now_ms());
    assert!(known.expect("its members' owners matter to it"), "it is new");
    until("it is expelled", || nodes.iter().all(|node| members(node, id) == 2)).await;
    let stale = refusal(other, &nodes[at], id, &secret, 1).await;
    assert!(matches!(stale, Refusal::Epoch { signed: 1, current: 2 }), "what it signed before: {stale}");
    assert_eq!(refusal(other, &nodes[at], id, &secret, 2).await, Refusal::NotAMember(gone));
    // All restart, and the one that was withdrawn comes back with what it had.
    let mut kept_by = Vec::new();
    for node in nodes {
        kept_by.push(node.crash(&net).await);
    }
    let mut again = Vec::new();
    for (secret, kept) in kept_by {
        again.push(GroupNode::start(&net, &secret, &first, kept).await);
    }
    settled(&again, id, 1).await;
    let back = GroupNode::start(&net, &secret, &second, kept).await;
    assert!(again.iter().all(|node| members(node, id) == 2));
    until("it learns it", || back.groups.overview(id).is_ok_and(|group| group.standing == "gone")).await;
    let (at, _) = leader(&again, id).await;
    let stale = refusal(&again[1 - at], &again[at], id, &secret, 1).await;
    assert!(matches!(stale, Refusal::Epoch { signed: 1, current: 2 }), "also after a restart: {stale}");
    assert_eq!(refusal(&again[1 - at], &again[at], id, &secret, 2).await, Refusal::NotAMember(gone));
    again[0].set(id, "after", "it goes on").await;
}

/// A task for a member with that capability.
fn wanted(number: u32, capability: &str, input: &str) -> Command {
    let needs = Needs::of(Target::Capability(capability.to_owned()));
    Command::Submit(Box::new(group::Submit { needs, ..echo_task(number, input) }))
}

/// The nodes 1 and 2 of one owner, 3 of another one, and a group of them that the first owner owns.
async fn group_of_one(net: &SimNet, policy: Policy) -> (Vec<GroupNode>, GroupId) {
    let (first, second) = (Owner::new(101), Owner::new(102));
    let mut nodes = Vec::new();
    for (number, owner) in [(1, &first), (2, &first), (3, &second)] {
        nodes.push(GroupNode::start(net, &key(number), owner, store()).await);
    }
    let id = nodes[0].groups.create("team", policy).await.expect("a group");
    nodes[0].admit(id, &nodes[1]).await;
    nodes[0].admit(id, &nodes[2]).await;
    settled(&nodes, id, 3).await;
    (nodes, id)
}

/// P-101
#[tokio::test(start_paused = true)]
async fn where_only_owners_read_a_member_hands_large_results_to_them_and_to_whom_they_are_for() {
    let net = net();
    let (nodes, id) = group_of_one(&net, Policy { read: Some(Rule::Owners), ..Policy::default() }).await;
    nodes[1].worker.capabilities.lock().expect("no panic").push("archive".to_owned());
    for (at, number) in [(0, 1), (2, 2)] {
        let large = format!("large {}", PART_BYTES + at);
        nodes[at].groups.command(id, wanted(number, "archive", &large)).await.expect("it is submitted");
    }
    nodes[0].groups.catch_up(id).await.expect("the group answers");
    nodes[0].completed(id, &[task_id(1), task_id(2)]).await;
    for (number, shown) in [(1, [true, true, false]), (2, [true; 3])] {
        let result = nodes[0].task(id, task_id(number), |task| task.result.clone()).expect("it completed");
        for (node, is_shown) in nodes.iter().zip(shown) {
            node.groups.catch_up(id).await.expect("the group answers");
            let refused = content(&node.groups, id, &result).await.err().map(|error| error.to_string());
            assert_eq!(refused.is_none(), is_shown, "the task {number} at {}: {refused:?}", node.id());
            assert!(refused.is_none_or(|why| why.contains("lets only its owners read")));
        }
    }
    let checked = |node: &GroupNode| Reader::of(&node.groups, id).check();
    assert!(checked(&nodes[0]).is_ok() && checked(&nodes[1]).is_ok());
    assert!(matches!(checked(&nodes[2]), Err(GroupError::OnlyOwnersRead(name)) if name == "team"));
    let shown = |number| Reader::of(&nodes[2].groups, id).task(&task_id(number), |_, task| task.number);
    assert!(matches!(shown(1), Err(GroupError::OnlyOwnersRead(_))));
    assert!(matches!(shown(2), Ok(Some(_))) && matches!(shown(9), Ok(None)));
}

/// P-111
#[tokio::test(start_paused = true)]
async fn owners_keep_giving_work_to_themselves_and_other_members_do_it() {
    let net = net();
    let (nodes, id) = group_of_one(&net, Policy::default()).await;
    nodes[2].groups.command(id, wanted(1, "echo", "by a member")).await.expect("every member may");
    let change = Change { assign: Some(Rule::Owners), ..Change::default() };
    assert_eq!(Owners::of(&nodes[0].groups, id).amend(&change).await.expect("it is the owner"), Signed::Done);
    let refused = nodes[2].groups.command(id, wanted(2, "echo", "x")).await.expect_err("its owner owns no group");
    let says = |why: &str| why.contains("--assign members");
    assert!(matches!(&refused, GroupError::Refused(Refusal::NotPermitted(why)) if says(why)), "{refused}");
    nodes[2].set(id, "writing", "is another matter").await;
    nodes[2].worker.capabilities.lock().expect("no panic").push("deed".to_owned());
    // The owner's other node gives it in the owner's name.
    nodes[1].groups.catch_up(id).await.expect("the group answers");
    nodes[1].groups.command(id, wanted(3, "deed", "done")).await.expect("it is an owner's");
    nodes[1].groups.catch_up(id).await.expect("the group answers");
    nodes[1].completed(id, &[task_id(3)]).await;
    let (author, last) = nodes[1].task(id, task_id(3), |task| (task.author, task.last));
    assert_eq!((author, last), (Author::Publisher(Owner::new(101).log.publisher()), Some(nodes[2].id())));
}

//! Who joins by members of which some do not say what became of that: what may have been executed is neither sent as something
//! new nor forgotten. In virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::membership::log;
use althing_communication::{Answer, CallError, Caller, CommunicationConfig, Inbound, Request};
use althing_conformance::groups::{GroupNode, Owner, group_of, store};
use althing_conformance::world::{Peer, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::wire::{self, Append, Appended, Ballot, Submit, Submitted, Transfer, Unserved};
use althing_coordination::machine::outcome::{Outcome, Refusal, Reply};
use althing_coordination::{Contact, GroupError, RAFT, RAFT_LIMITS, Role, Ticket};
use althing_protocol::group::{Batch, GroupId};
use althing_protocol::object::{self, Authored};
use althing_simnet::{LinkConfig, SimNet};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

/// What a member answers to batches.
#[derive(Clone, Default)]
struct Script {
    /// At first, one after the other.
    first: Arc<Mutex<VecDeque<Submitted>>>,
    /// To all that come later; none: its answers are lost.
    then: Option<Submitted>,
    /// The session and the number of each batch that came.
    heard: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Script {
    fn new(first: impl IntoIterator<Item = Submitted>, then: Option<Submitted>) -> Script {
        Script { first: Arc::new(Mutex::new(first.into_iter().collect())), then, ..Script::default() }
    }

    /// A node that answers so, and takes no other part in any group.
    fn start(&self, net: &SimNet, number: u8) -> Peer {
        let (key, membership) = (key(number), watch::channel(None).1);
        let config = CommunicationConfig { network: NETWORK.to_owned(), ..CommunicationConfig::default() };
        let peer = Peer::start_at(net.join(key.public()), &key, config, membership, net.clock());
        peer.communication.trusts(|_| true);
        peer.communication.serve(RAFT, RAFT_LIMITS, Arc::new(self.clone())).expect("nobody else serves it");
        peer
    }

    fn heard(&self) -> Vec<(u64, u64)> {
        self.heard.lock().expect("no panic").clone()
    }
}

impl Inbound for Script {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let this = self.clone();
        async move {
            if request.operation != "submit" {
                return Answer::Error(wire::write(&Unserved::NotAMember));
            }
            let submit: Submit = wire::read(&request.body).expect("a batch");
            let batch: Authored<Batch> =
                object::open(&submit.batch, NETWORK, &Batch::scope(submit.group)).expect("its author signed it");
            this.heard.lock().expect("no panic").push((batch.body.session, batch.body.sequence));
            let next = this.first.lock().expect("no panic").pop_front();
            match next.or(this.then) {
                Some(answer) => Answer::Response(wire::write(&answer)),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// A node that is to join, and its ticket, which names these members.
async fn invited(net: &SimNet, by: &GroupNode, id: GroupId, contacts: &[&Peer]) -> (GroupNode, Ticket) {
    let node = GroupNode::start(net, &key(9), &Owner::new(101), store()).await;
    let mut ticket = by.groups.invite(id, node.id(), 600_000).expect("an invitation");
    let contact = |peer: &&Peer| Contact { node: peer.id(), addresses: peer.network().listening() };
    ticket.contacts = contacts.iter().map(contact).collect();
    (node, ticket)
}

fn refused(refusal: Refusal) -> Submitted {
    Submitted::Done(Reply::Refused(refusal))
}

/// P-88: in another session it would be executed twice.
#[tokio::test(start_paused = true)]
async fn what_may_have_been_executed_is_not_sent_again_when_its_session_has_ended() {
    let net = net();
    let (nodes, id) = group_of(&net, 1).await;
    let done = || Some(Submitted::Done(Reply::Executed(vec![Outcome::Done(None)])));
    let doubtful = Script::new([Submitted::Unknown, refused(Refusal::SessionEnded)], done());
    let certain = Script::new([refused(Refusal::SessionEnded)], done());
    let peers = [doubtful.start(&net, 7), certain.start(&net, 8)];
    let (node, mut ticket) = invited(&net, &nodes[0], id, &[&peers[0]]).await;
    let told = node.groups.join(&ticket).await;
    assert!(matches!(told, Err(GroupError::Refused(Refusal::SessionEnded))), "{told:?}");
    let heard = doubtful.heard();
    assert!(heard.len() == 2 && heard[0] == heard[1], "the same one twice, and no other: {heard:?}");
    // What nobody can have executed goes into another session.
    ticket.contacts = vec![Contact { node: peers[1].id(), addresses: peers[1].network().listening() }];
    assert_eq!(node.groups.join(&ticket).await.expect("it is executed"), id);
    let heard = certain.heard();
    assert!(heard.len() == 2 && heard[0].0 < heard[1].0, "{heard:?}");
}

/// P-91: the others may count it as a member, for which its votes would be missing.
#[tokio::test(start_paused = true)]
async fn who_may_have_been_admitted_by_one_member_forgets_nothing_when_the_next_one_refuses() {
    let here = key(9).public();
    let answers = [
        refused(Refusal::AlreadyMember(here)),
        Submitted::Done(Reply::Executed(vec![Outcome::Refused(Refusal::AlreadyMember(here))])),
        refused(Refusal::SessionEnded),
    ];
    for answer in answers {
        let net = net();
        let (nodes, id) = group_of(&net, 1).await;
        let (lost, knows) = (Script::new([], None), Script::new([], Some(answer.clone())));
        let peers = [lost.start(&net, 7), knows.start(&net, 8)];
        let (node, ticket) = invited(&net, &nodes[0], id, &[&peers[0], &peers[1]]).await;
        let told = node.groups.join(&ticket).await;
        assert!(matches!(told, Err(GroupError::NoAnswer { .. })), "{answer:?}: {told:?}");
        assert_eq!(node.groups.overview(id).expect("it is kept").standing, "joining", "{answer:?}");
        let (first, second) = (lost.heard(), knows.heard());
        assert!(second.len() == 1 && first.iter().all(|batch| *batch == second[0]), "{first:?}, then {second:?}");
    }
}

/// P-101, P-142: the log begins with the founder as the only voter. Who founded the group, left it and is invited again comes by
/// there once more, and must not elect itself by what was true then.
#[tokio::test(start_paused = true)]
async fn a_founder_that_joins_anew_does_not_lead_by_the_beginning_of_the_log() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 1).await;
    let founder = nodes.remove(0);
    let (here, beginning) = (founder.id(), log(&founder, id));
    let leader = Script::new([], Some(Submitted::Done(Reply::Executed(vec![Outcome::Done(None)])))).start(&net, 7);
    // Of the epoch in which it is a member already.
    let mut ticket = founder.groups.invite(id, here, 600_000).expect("an invitation");
    ticket.contacts = vec![Contact { node: leader.id(), addresses: leader.network().listening() }];
    let (secret, _) = founder.crash(&net).await;
    let again = GroupNode::start(&net, &secret, &Owner::new(101), store()).await;
    again.groups.join(&ticket).await.expect("it is admitted");
    let ballot = Ballot { term: 2, node: leader.id(), elected: true };
    let committed = beginning.last().map(|entry| entry.at);
    let append = Append { group: id, leader: ballot, previous: None, committed, entries: beginning };
    let sent = leader.communication.call(here, RAFT, Request::new("append", wire::write(&append))).await;
    assert_eq!(wire::read(&sent.expect("it is served")), Ok(Appended::All));
    let is_member = || again.groups.look(id, |state| state.members().get(&here).is_some()).unwrap_or_default();
    until("it is a member by the beginning of the log", is_member).await;
    let last = log(&again, id).last().map(|entry| entry.at);
    let transfer = wire::write(&Transfer { group: id, leader: ballot, to: here, last });
    let sent = leader.communication.call(here, RAFT, Request::new("transfer", transfer)).await;
    assert!(matches!(sent, Err(CallError::Refused { .. })), "nor is it handed the lead: {sent:?}");
    // Longer than any election takes.
    for _ in 0..300 {
        assert!(!again.leads(id), "it leads a group of its own");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let role = again.groups.overview(id).expect("it is kept").replica.expect("it runs").role;
    assert_ne!(role, Role::Candidate, "nor does it stand");
}

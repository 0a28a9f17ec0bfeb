//! Who belongs to a group changes by its owners' signatures alone, in the log too: what a member that leads, and means harm,
//! says of members is taken only where as many owners asked for it as must.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_communication::{CallError, Request};
use althing_conformance::co_owned::{admit, group_of_two, two_owners};
use althing_conformance::groups::{GroupNode, Owner, leader, settled};
use althing_conformance::world::{connect, until};
use althing_conformance::{NETWORK, NOW_MS};
use althing_coordination::consensus::wire::{
    self, Append, Appended, Ballot, Barrier, BarrierAnswer, EntryRecord, MembersRecord, Payload, Position,
    SnapshotPart, SnapshotTaken, Unserved,
};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::members::{Admission, Member};
use althing_coordination::{RAFT, RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE};
use althing_protocol::group::{
    Author, Batch, Command, Endorsed, Expulsion, GroupId, Invitation, Join, Policy, RULES, StateMark,
};
use althing_protocol::object::{self, Statement};
use althing_protocol::{PublicKey, SecretKey};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Range, Rows};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// The places of the world's nodes: the founder, which leads; two other members, of whom the first one lies to the second one; and
/// one that nobody admitted.
const LEADER: usize = 0;
/// See [`LEADER`].
const LIAR: usize = 1;
/// See [`LEADER`].
const MEMBER: usize = 2;
/// See [`LEADER`].
const STRANGER: usize = 3;
/// The session of what is made up here: later than those of the nodes.
const SESSION: u64 = u64::MAX / 2;

/// A group of three members that two owners own and must both sign for. The liar tells the other member, which hears nobody
/// else, that it leads.
struct World {
    net: SimNet,
    owners: [Owner; 2],
    nodes: Vec<GroupNode>,
    id: GroupId,
}

impl World {
    async fn new() -> World {
        let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
        let (nodes, id) = group_of_two(&net, Policy::default()).await;
        admit(&nodes, id, MEMBER).await;
        settled(&nodes[..STRANGER], id, 3).await;
        let (leads, _) = leader(&nodes[..STRANGER], id).await;
        nodes[leads].groups.transfer(id, nodes[LEADER].id()).await.expect("it leads");
        until("the founder leads", || nodes[LEADER].leads(id)).await;
        nodes[LEADER].set(id, "a", "b").await;
        let all = vec![sorted(nodes[..STRANGER].iter().map(GroupNode::id))];
        let has_all = |node: &GroupNode| {
            let replica = node.groups.overview(id).expect("the group").replica.expect("it runs");
            let entries = log(node, id);
            let members = entries.iter().rev().find_map(|entry| match &entry.payload {
                Payload::Members(voters, learners) => Some(*voters == all && learners.is_empty()),
                Payload::Blank | Payload::Batch(..) => None,
            });
            let is_same = replica.applied == replica.last && entries == log(&nodes[LEADER], id);
            members == Some(true) && is_same && node.peek(id, "a").is_some()
        };
        until("all have everything", || nodes[..STRANGER].iter().all(has_all)).await;
        net.cut(nodes[LEADER].id(), nodes[MEMBER].id());
        connect(nodes[STRANGER].communication.network(), nodes[MEMBER].communication.network()).await;
        World { net, owners: two_owners(), nodes, id }
    }

    async fn ask<Q: minicbor::Encode<()>, A>(&self, from: usize, operation: &str, question: &Q) -> Result<A, Unserved>
    where
        A: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>,
    {
        let request = Request::new(operation, wire::write(question));
        match self.nodes[from].communication.call(self.nodes[MEMBER].id(), RAFT, request).await {
            Ok(body) => Ok(wire::read(&body).expect("an answer")),
            Err(CallError::Refused { body, .. }) => Err(wire::read(&body).expect("why it was not served")),
            Err(other) => panic!("{other}"),
        }
    }

    /// The one that is told.
    fn node(&self) -> &GroupNode {
        &self.nodes[MEMBER]
    }

    fn stranger(&self) -> PublicKey {
        self.nodes[STRANGER].id()
    }

    /// All three members.
    fn all(&self) -> Vec<PublicKey> {
        sorted(self.nodes[..STRANGER].iter().map(GroupNode::id))
    }

    /// Those without the one that leads.
    fn without(&self) -> Vec<PublicKey> {
        sorted([LIAR, MEMBER].map(|at| self.nodes[at].id()))
    }

    /// Its state.
    fn state(&self) -> Group {
        self.node().groups.look(self.id, Group::clone).expect("the group")
    }

    /// Its last entry.
    fn last(&self) -> Position {
        log(self.node(), self.id).last().expect("it has some").at
    }

    /// All that it has on disk.
    fn disk(&self) -> [Rows; 3] {
        [RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS].map(|family| {
            let range = Range::prefix(self.id.as_bytes().as_slice(), 4_096);
            self.node().store.scan(family, range).expect("it can be read")
        })
    }

    /// A ballot of a later term than any that it has heard of, so that nobody is proven to contradict itself.
    fn ballot(&self) -> Ballot {
        let replica = self.node().groups.overview(self.id).expect("the group").replica.expect("it runs");
        Ballot { term: replica.term + 1, node: self.nodes[LIAR].id(), elected: true }
    }

    /// Sends it these entries after its last one; all of them are committed, if one believes that.
    async fn append<const N: usize>(&self, payloads: [Payload; N], is_committed: bool) -> Result<Appended, Unserved> {
        let (leader, last) = (self.ballot(), self.last());
        let entry = |(index, payload)| EntryRecord { at: Position { term: leader.term, index }, payload };
        let entries: Vec<EntryRecord> = (last.index + 1..).zip(payloads).map(entry).collect();
        let committed = entries.last().map(|entry| entry.at).filter(|_| is_committed);
        let append = Append { group: self.id, leader, previous: Some(last), committed, entries };
        self.ask(LIAR, "append", &append).await
    }

    /// Sends it a snapshot with these rows, and these members of the log.
    async fn snapshot(
        &self,
        rows: Vec<Vec<u8>>,
        voters: &[Vec<PublicKey>],
        learners: &[PublicKey],
    ) -> Result<SnapshotTaken, Unserved> {
        let leader = self.ballot();
        let last = Position { term: leader.term, index: self.last().index + 100 };
        let members = MembersRecord { at: Some(last), voters: voters.to_vec(), learners: learners.to_vec() };
        let rows = rows.into_iter().map(ByteVec::from).collect();
        let part = SnapshotPart { group: self.id, leader, last: Some(last), members, offset: 0, rows, is_last: true };
        self.ask(LIAR, "snapshot", &part).await
    }

    /// Whether it serves the stranger as it serves members, by its state or its log.
    async fn admits_the_stranger(&self) -> bool {
        match self.ask::<_, BarrierAnswer>(STRANGER, "barrier", &Barrier { group: self.id }).await {
            Ok(_) => true,
            Err(Unserved::Unshown) => false,
            Err(other) => panic!("{other}"),
        }
    }

    /// A statement about the group with the signatures of these owners.
    fn endorsed<T: Statement + Clone>(&self, body: &T, signers: &[usize]) -> Endorsed {
        let scope = self.id.to_string();
        let sign =
            |at: &usize| object::sign(body.clone(), NETWORK, &scope, &self.owners[*at].key).expect("signed").bytes;
        Endorsed::new(signers.iter().map(sign))
    }

    /// An invitation of the stranger.
    fn invitation(&self, signers: &[usize]) -> Endorsed {
        let (state, now_ms) = (self.state(), self.net.now_ms());
        let charter = state.charter().expect("it is founded").digest();
        let (from_ms, until_ms) = (now_ms - 1_000, now_ms + 60_000);
        let node = self.stranger();
        let body = Invitation::new(self.id, charter, node, from_ms, until_ms, [9; 16], state.epoch());
        self.endorsed(&body, signers)
    }

    /// An entry with a command of a node, that it signed.
    fn batch(&self, by: &SecretKey, sequence: u64, command: Command) -> Payload {
        let (epoch, author) = (self.state().epoch(), Author::Node(by.public()));
        let batch = Batch::new(epoch, author, SESSION, sequence, vec![command]);
        let signed = object::sign(batch, NETWORK, &Batch::scope(self.id), by).expect("a batch");
        Payload::Batch(self.net.now_ms(), signed.bytes.into())
    }

    /// An entry in which the stranger joins by an invitation of these owners.
    fn join(&self, signers: &[usize]) -> Payload {
        let [_, owner] = &self.owners;
        let proof = owner.proof(self.stranger(), self.net.now_ms()).as_ref().clone();
        let log = owner.log.to_bytes().into_iter().map(ByteVec::from).collect();
        let join =
            Join { invitation: self.invitation(signers), owner: proof, log, addresses: Vec::new(), rules: Some(RULES) };
        self.batch(&self.nodes[STRANGER].key, 1, Command::Join(Box::new(join)))
    }

    /// The row of a snapshot that makes the stranger a member.
    fn row(&self, invitation: Option<Endorsed>) -> Vec<u8> {
        let at_ms = self.net.now_ms();
        let admission = invitation.map(|invitation| Admission { invitation, at_ms });
        let owner = self.owners[1].log.publisher();
        let member = Member { owner, order: 0, addresses: Vec::new(), admission, rules: RULES, mark: None };
        minicbor::to_vec((1_u8, (self.stranger(), member))).expect("a row")
    }
}

fn sorted(nodes: impl IntoIterator<Item = PublicKey>) -> Vec<PublicKey> {
    nodes.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The entries that a member has on disk.
pub fn log(node: &GroupNode, id: GroupId) -> Vec<EntryRecord> {
    let rows = node.store.scan(RAFT_LOG, Range::prefix(id.as_bytes().as_slice(), 4_096)).expect("it can be read");
    rows.iter().map(|(_, entry)| minicbor::decode(entry).expect("an entry")).collect()
}

/// P-103
#[tokio::test(start_paused = true)]
async fn no_leader_adds_or_removes_a_voter_for_whom_nobody_signed() {
    let world = World::new().await;
    let (all, without, stranger) = (world.all(), world.without(), world.stranger());
    let with = sorted(all.iter().copied().chain([stranger]));
    let gone = world.nodes[LEADER].id();
    let unasked = [
        (vec![with.clone()], vec![]),
        (vec![all.clone(), with.clone()], vec![]),
        (vec![all.clone()], vec![stranger]),
        (vec![vec![stranger]], vec![]),
        (vec![without.clone()], vec![]),
        (vec![all.clone(), without.clone()], vec![]),
        (vec![without], vec![gone]),
    ];
    let (state, entries, last) = (world.state(), log(world.node(), world.id), world.last());
    for (voters, learners) in unasked {
        let told = format!("{voters:?} and {learners:?}");
        let answer = world.append([Payload::Members(voters, learners)], true).await;
        assert_eq!(answer, Ok(Appended::UpTo(Some(last))), "{told}");
        assert_eq!(log(world.node(), world.id), entries, "{told}");
        assert_eq!(world.state(), state, "{told}");
        assert!(!world.admits_the_stranger().await, "{told}");
    }
    // It is those entries alone that it does not take: neither what is before them, nor members that are so already.
    let answer = world.append([Payload::Blank, Payload::Members(vec![with], vec![])], false).await;
    assert_eq!(world.last().index, last.index + 1);
    assert_eq!(answer, Ok(Appended::UpTo(Some(world.last()))));
    assert_eq!(world.append([Payload::Members(vec![all], vec![])], false).await, Ok(Appended::All));
    assert!(!world.admits_the_stranger().await);
    // The group goes on, with all three.
    world.net.heal_all();
    let led_by = || world.node().groups.overview(world.id).expect("the group").replica.and_then(|it| it.leader);
    let is_led = || world.nodes.iter().any(|node| node.leads(world.id) && led_by() == Some(node.id()));
    until("it follows one that leads", is_led).await;
    world.nodes[LIAR].set(world.id, "c", "d").await;
    assert_eq!(world.node().get(world.id, "c").await.as_deref(), Some("d"));
    assert_eq!(world.state().members().voters().len(), 3);
}

/// P-81, P-91, P-103
#[tokio::test(start_paused = true)]
async fn a_node_enters_the_log_behind_the_invitation_of_as_many_owners_as_must_sign() {
    let world = World::new().await;
    let members = || Payload::Members(vec![world.all()], vec![world.stranger()]);
    let before = world.state();
    for signers in [&[0][..], &[1][..], &[1, 1][..]] {
        let last = world.last();
        let answer = world.append([world.join(signers), members()], true).await;
        assert_eq!(world.last().index, last.index + 1, "the batch is in the log, and executes nothing");
        assert_eq!(answer, Ok(Appended::UpTo(Some(world.last()))));
        let again = world.append([members()], true).await;
        assert_eq!(again, Ok(Appended::UpTo(Some(world.last()))), "nor later");
        let now = world.state();
        assert_eq!((now.members(), now.epoch()), (before.members(), before.epoch()), "{signers:?}");
        assert!(!world.admits_the_stranger().await, "{signers:?}");
    }
    let answer = world.append([world.join(&[0, 1]), members()], true).await;
    assert_eq!(answer, Ok(Appended::UpTo(Some(world.last()))), "what justifies it is to be executed first");
    assert!(world.state().members().get(&world.stranger()).is_some());
    assert_eq!(world.append([members()], true).await, Ok(Appended::All));
    assert!(world.admits_the_stranger().await);
}

/// P-81, P-97, P-103
#[tokio::test(start_paused = true)]
async fn a_voter_leaves_the_log_behind_the_expulsion_of_as_many_owners_as_must_sign() {
    let world = World::new().await;
    let [gone, votes, learns] = [LEADER, LIAR, MEMBER].map(|at| world.nodes[at].id());
    let expel = |sequence: u64, signers: &[usize]| {
        let body = Expulsion::new(world.id, gone, world.state().epoch());
        let command = Command::Expel(world.endorsed(&body, signers));
        world.batch(&world.nodes[LIAR].key, sequence, command)
    };
    // Of two members one votes: that which joined first.
    let members = || Payload::Members(vec![vec![votes]], vec![learns]);
    let before = world.state();
    for (sequence, signers) in [(1, &[0][..]), (2, &[1][..])] {
        let last = world.last();
        let answer = world.append([expel(sequence, signers), members()], true).await;
        assert_eq!(world.last().index, last.index + 1, "the batch is in the log");
        assert_eq!(answer, Ok(Appended::UpTo(Some(world.last()))), "{signers:?}");
        let now = world.state();
        assert_eq!((now.members(), now.epoch()), (before.members(), before.epoch()), "{signers:?}");
    }
    let answer = world.append([expel(3, &[0, 1]), members()], true).await;
    assert_eq!(answer, Ok(Appended::UpTo(Some(world.last()))), "what justifies it is to be executed first");
    assert!(world.state().members().get(&gone).is_none());
    assert_eq!(world.append([members()], true).await, Ok(Appended::All));
}

/// P-81, P-105
#[tokio::test(start_paused = true)]
async fn no_snapshot_brings_a_member_or_a_charter_for_which_too_few_owners_signed() {
    const NOT_ADMITTED: &str = "not those that its owners admitted";
    const TOO_FEW: &str = "1 of its owners signed, and 2 must";
    let world = World::new().await;
    let (all, stranger) = (world.all(), world.stranger());
    let with = sorted(all.iter().copied().chain([stranger]));
    let rows = || world.state().rows();
    let plus = |row: Vec<u8>| rows().into_iter().chain([row]).collect::<Vec<_>>();
    let invited = |signers: &[usize]| plus(world.row(Some(world.invitation(signers))));
    // A charter by which one owner is enough.
    let mut charter = world.state().charter().expect("it is founded").next(world.id, world.net.now_ms());
    charter.threshold = 1;
    let amended = |signers: &[usize]| {
        plus(minicbor::to_vec((8_u8, (world.endorsed(&charter, signers), world.net.now_ms()))).expect("a row"))
    };
    let unsigned = [
        (rows(), vec![all.clone()], vec![stranger], NOT_ADMITTED),
        (rows(), vec![with.clone()], vec![], NOT_ADMITTED),
        (rows(), vec![all.clone(), with], vec![], NOT_ADMITTED),
        (rows(), vec![world.without()], vec![], NOT_ADMITTED),
        (rows(), vec![all.clone(), world.without()], vec![], NOT_ADMITTED),
        (plus(world.row(None)), vec![all.clone()], vec![stranger], "shows no invitation"),
        (invited(&[0]), vec![all.clone()], vec![stranger], TOO_FEW),
        (invited(&[1, 1]), vec![all.clone()], vec![stranger], TOO_FEW),
        (amended(&[0]), vec![all.clone()], vec![], TOO_FEW),
    ];
    let (state, disk) = (world.state(), world.disk());
    for (rows, voters, learners, why) in unsigned {
        let refused = world.snapshot(rows, &voters, &learners).await;
        assert!(matches!(&refused, Err(Unserved::Stopped(said)) if said.contains(why)), "{why}: {refused:?}");
        assert_eq!(world.state(), state, "{why}");
        assert_eq!(world.disk(), disk, "{why}");
        assert!(!world.admits_the_stranger().await, "{why}");
    }
    // Only the signatures were missing.
    let taken = world.snapshot(invited(&[0, 1]), &[all], &[stranger]).await;
    assert!(matches!(taken, Ok(SnapshotTaken { ballot: Some(_) })), "{taken:?}");
    until("it is installed", || world.state().members().get(&stranger).is_some()).await;
    assert!(world.admits_the_stranger().await);
}

/// The first row of a snapshot (SPEC 19).
#[derive(Encode, Decode)]
#[cbor(map)]
struct Head {
    #[n(0)]
    group: GroupId,
    #[n(2)]
    epoch: u64,
    #[n(3)]
    dissolution: Option<Endorsed>,
    #[n(4)]
    now_ms: u64,
    #[n(5)]
    voters: Vec<PublicKey>,
    #[n(6)]
    joined: u64,
    #[n(7)]
    last_version: u64,
    #[n(8)]
    recent: Vec<Vec<PublicKey>>,
    #[n(9)]
    forgotten_ms: u64,
    #[n(10)]
    rules: u32,
    #[n(11)]
    marks: Vec<StateMark>,
}

/// The rows of a state, of the next epoch and with these voters, without one member.
fn forged(state: &Group, voters: &[PublicKey], without: Option<PublicKey>) -> Vec<Vec<u8>> {
    let is_of = |row: &[u8]| {
        minicbor::decode::<(u8, (PublicKey, Member))>(row)
            .is_ok_and(|(kind, (member, _))| kind == 1 && Some(member) == without)
    };
    let mut rows: Vec<Vec<u8>> = state.rows().into_iter().filter(|row| !is_of(row)).collect();
    let (kind, (mut head,)): (u8, (Head,)) = minicbor::decode(&rows[0]).expect("the head");
    (head.epoch, head.voters) = (head.epoch + 1, voters.to_vec());
    rows[0] = minicbor::to_vec((kind, (head,))).expect("a row");
    rows
}

/// P-109, SG-1: from a majority of these answers it would delete what it has.
#[tokio::test(start_paused = true)]
async fn whom_a_snapshot_leaves_out_is_not_told_that_it_was_removed() {
    let world = World::new().await;
    let (all, stranger) = (world.all(), world.stranger());
    let members = || Payload::Members(vec![all.clone()], vec![stranger]);
    let before = world.state();
    let joined = world.append([world.join(&[0, 1]), members()], true).await;
    assert_eq!(joined, Ok(Appended::UpTo(Some(world.last()))));
    assert_eq!(world.append([members()], true).await, Ok(Appended::All));
    assert!(world.admits_the_stranger().await);
    let without = forged(&world.state(), &sorted(before.members().voters().iter().copied()), Some(stranger));
    let taken = world.snapshot(without, &[all], &[]).await;
    assert!(matches!(taken, Ok(SnapshotTaken { ballot: Some(_) })), "nothing shows that it did not leave: {taken:?}");
    until("it is installed", || world.state().members().get(&stranger).is_none()).await;
    assert!(!world.admits_the_stranger().await, "though nothing shows that it was removed");
}

/// P-105, P-109, SG-1: each of these is signed as it must be, and takes back what the member knows.
#[tokio::test(start_paused = true)]
async fn no_snapshot_takes_back_who_belongs_to_the_group_and_who_votes() {
    let world = World::new().await;
    let (here, liar, leader) = (world.node().id(), world.nodes[LIAR].id(), world.nodes[LEADER].id());
    let (state, disk) = (world.state(), world.disk());
    let cases = [
        ("this node is no member in it", Some(here), vec![liar], vec![leader]),
        ("another number of voters", None, vec![liar], sorted([leader, here])),
    ];
    for (why, without, voters, learners) in cases {
        let refused = world.snapshot(forged(&state, &voters, without), &[voters], &learners).await;
        assert!(matches!(&refused, Err(Unserved::Stopped(said)) if said.contains(why)), "{why}: {refused:?}");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.disk(), disk, "nothing is deleted");
        assert_eq!(world.state().members(), state.members());
    }
}

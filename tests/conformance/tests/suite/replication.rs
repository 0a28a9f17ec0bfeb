//! Messages of `/althing/raft/1` as another implementation would send them: what a member answers, and what it refuses.

use std::time::Duration;

use althing_communication::{CallError, Request};
use althing_conformance::groups::{GroupNode, Owner, group_of, leader, settled};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::wire::{
    self, Append, Appended, Ballot, Elect, Elected, EntryRecord, MembersRecord, Payload, Position, SnapshotPart,
    Transfer, Transferred, Unserved,
};
use althing_coordination::{Proofs, RAFT, Role};
use althing_protocol::GroupId;
use althing_protocol::group::Equivocation;
use althing_simnet::{LinkConfig, SimNet};

/// A group of three, of which one sends messages of its own to another one, which does not lead.
struct World {
    net: SimNet,
    nodes: Vec<GroupNode>,
    id: GroupId,
    from: usize,
    to: usize,
}

impl World {
    async fn new() -> World {
        let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
        let (nodes, id) = group_of(&net, 3).await;
        nodes[0].set(id, "a", "b").await;
        settled(&nodes, id, 3).await;
        quiet(&nodes, id).await;
        let (leads, _) = leader(&nodes, id).await;
        World { net, nodes, id, from: (leads + 1) % 3, to: (leads + 2) % 3 }
    }

    async fn ask<Q: minicbor::Encode<()>, A>(&self, from: usize, operation: &str, question: &Q) -> Result<A, Unserved>
    where
        A: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>,
    {
        let request = Request::new(operation, wire::write(question));
        match self.nodes[from].communication.call(self.nodes[self.to].id(), RAFT, request).await {
            Ok(body) => Ok(wire::read(&body).expect("an answer")),
            Err(CallError::Refused { body, .. }) => Err(wire::read(&body).expect("why it was not served")),
            Err(other) => panic!("{other}"),
        }
    }

    /// The term of the one that is asked, and its last entry.
    fn last(&self) -> Position {
        let replica = self.nodes[self.to].groups.overview(self.id).expect("the group").replica.expect("it runs");
        Position { term: replica.term, index: replica.last.expect("entries") }
    }

    fn ballot(&self, from: usize, term: u64, elected: bool) -> Ballot {
        Ballot { term, node: self.nodes[from].id(), elected }
    }

    fn append(&self, term: u64, previous: Option<Position>, entries: Vec<EntryRecord>) -> Append {
        Append { group: self.id, leader: self.ballot(self.from, term, true), previous, committed: None, entries }
    }

    fn elect(&self, from: usize, term: u64, last: Position, is_transfer: bool) -> Elect {
        Elect { group: self.id, candidate: self.ballot(from, term, false), last: Some(last), is_transfer }
    }
}

/// Waits until all have the same entries, and for a while no more come: those of the last change of members come by themselves.
async fn quiet(nodes: &[GroupNode], id: GroupId) {
    let last = |node: &GroupNode| node.groups.overview(id).expect("the group").replica.and_then(|replica| replica.last);
    let all = || nodes.iter().map(last).collect::<Vec<_>>();
    for _ in 0..100 {
        let before = all();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if before == all() && before.iter().all(|last| *last == before[0]) {
            return;
        }
    }
    panic!("entries are added all the time: {:?}", all());
}

fn blank(term: u64, index: u64) -> EntryRecord {
    EntryRecord { at: Position { term, index }, payload: Payload::Blank }
}

/// P-140
#[tokio::test(start_paused = true)]
async fn messages_that_contradict_themselves_are_malformed() {
    let world = World::new().await;
    let (from, last) = (world.from, world.last());
    let malformed = |answer: Result<(), Unserved>| assert!(matches!(answer, Err(Unserved::Malformed(_))), "{answer:?}");
    let none = |answer: Result<Appended, Unserved>| malformed(answer.map(drop));
    let candidate = world.ballot(from, last.term + 1, false);
    let append = world.append(last.term + 1, Some(last), Vec::new());
    none(world.ask(from, "append", &Append { leader: candidate, ..append.clone() }).await);
    let gap = vec![blank(last.term + 1, last.index + 2)];
    none(world.ask(from, "append", &Append { entries: gap, ..append.clone() }).await);
    let falls = vec![blank(last.term + 1, last.index + 1), blank(last.term, last.index + 2)];
    none(world.ask(from, "append", &Append { entries: falls, ..append.clone() }).await);
    let elected = Elect { candidate: append.leader, ..world.elect(from, last.term + 1, last, false) };
    for operation in ["vote", "pre-vote"] {
        malformed(world.ask::<_, Elected>(from, operation, &elected).await.map(drop));
    }
    let transfer = Transfer { group: world.id, leader: candidate, to: key(1).public(), last: Some(last) };
    malformed(world.ask::<_, Transferred>(from, "transfer", &transfer).await.map(drop));
    let members = MembersRecord { at: Some(last), voters: vec![vec![key(1).public()]], learners: Vec::new() };
    let part = SnapshotPart {
        group: world.id,
        leader: candidate,
        last: Some(Position { index: last.index + 9, ..last }),
        members,
        offset: 0,
        rows: Vec::new(),
        is_last: true,
    };
    malformed(world.ask::<_, wire::SnapshotTaken>(from, "snapshot", &part).await.map(drop));
    assert_eq!(world.last().term, last.term, "none of them began a term");
    world.nodes[world.to].set(world.id, "c", "d").await;
}

/// P-141
#[tokio::test(start_paused = true)]
async fn entries_are_taken_only_behind_those_that_are_there() {
    let world = World::new().await;
    let (from, last) = (world.from, world.last());
    let append = |term, previous, entries| world.append(term, previous, entries);
    let old = world.ask(from, "append", &append(last.term - 1, None, Vec::new())).await;
    assert!(matches!(old, Ok(Appended::Higher(ballot)) if ballot.term >= last.term), "{old:?}");
    let other = world.ask(from, "append", &append(last.term, None, Vec::new())).await;
    assert!(matches!(other, Ok(Appended::Higher(_))), "another one leads this term: {other:?}");
    let term = last.term + 5;
    let missing = Position { term: last.term, index: last.index + 9 };
    assert_eq!(world.ask(from, "append", &append(term, Some(missing), Vec::new())).await, Ok(Appended::Conflict));
    assert_eq!(world.last().term, term, "whoever leads a later term is followed");
    let entries = vec![blank(term, last.index + 1)];
    assert_eq!(world.ask(from, "append", &append(term, Some(last), entries.clone())).await, Ok(Appended::All));
    // The same again changes nothing.
    assert_eq!(world.ask(from, "append", &append(term, Some(last), entries)).await, Ok(Appended::All));
    let before = Position { term, index: last.index + 1 };
    assert_eq!(world.ask(from, "append", &append(term, Some(before), Vec::new())).await, Ok(Appended::All));
    let changed = Position { term: term - 1, ..before };
    assert_eq!(world.ask(from, "append", &append(term, Some(changed), Vec::new())).await, Ok(Appended::Conflict));
    // What it had there is gone.
    assert_eq!(world.ask(from, "append", &append(term, Some(before), Vec::new())).await, Ok(Appended::Conflict));
    world.nodes[world.to].set(world.id, "c", "d").await;
}

/// P-141: a position of an earlier term is before the last entry, and may name one that was never sent.
#[tokio::test(start_paused = true)]
async fn nothing_is_executed_that_a_leader_calls_committed_and_did_not_send() {
    let mut world = World::new().await;
    let (from, to, last) = (world.from, world.to, world.last());
    world.net.cut(world.nodes[3 - from - to].id(), world.nodes[to].id());
    let (term, beyond) = (last.term + 5, Position { index: last.index + 1_000, ..last });
    let entries = vec![blank(term, last.index + 1), blank(term, last.index + 2)];
    let previous = entries[1].at;
    let append = Append { committed: Some(beyond), ..world.append(term, Some(last), entries) };
    assert_eq!(world.ask(from, "append", &append).await, Ok(Appended::All));
    let overview = |node: &GroupNode| node.groups.overview(world.id).expect("the group");
    let applied = || overview(&world.nodes[to]).replica.expect("it runs").applied;
    until("it executes what it was sent", || applied() == Some(previous.index)).await;
    let more = world.append(term, Some(previous), vec![blank(term, previous.index + 1)]);
    let refused = world.ask::<_, Appended>(from, "append", &Append { committed: Some(beyond), ..more }).await;
    assert!(matches!(refused, Err(Unserved::Malformed(_))), "{refused:?}: what is executed is of a later term");
    // Nor does it look for more when it starts again, by itself.
    world.net.cut(world.nodes[from].id(), world.nodes[to].id());
    let (key, store) = world.nodes.remove(to).crash(&world.net).await;
    let again = GroupNode::start(&world.net, &key, &Owner::new(101), store).await;
    let last = || again.groups.overview(world.id).expect("the group").replica.and_then(|replica| replica.last);
    until("it starts from what is on its disk", || last() == Some(previous.index)).await;
}

/// P-141: what one message does not contradict, the log does. The member starts again with what it had.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_told_of_more_than_its_log_has_executes_nothing_and_starts_again() {
    let world = World::new().await;
    let (from, to, last) = (world.from, world.to, world.last());
    let third = 3 - from - to;
    world.net.cut(world.nodes[third].id(), world.nodes[to].id());
    let (term, first) = (last.term + 5, last.index + 1);
    let sent = world.append(term, Some(last), vec![blank(term, first)]);
    assert_eq!(world.ask(from, "append", &sent).await, Ok(Appended::All));
    let beyond = Position { index: last.index + 1_000, ..last };
    let told = Append { committed: Some(beyond), ..world.append(term, Some(last), Vec::new()) };
    // It may stop before it answers.
    let _ = world.ask::<_, Appended>(from, "append", &told).await;
    let overview = || world.nodes[to].groups.overview(world.id).expect("the group");
    until("it has stopped", || overview().failure.is_some()).await;
    let has = |last| overview().replica.is_some_and(|replica| replica.last == Some(last));
    until("it runs again, with what it had", || overview().failure.is_none() && has(first)).await;
    assert!(overview().replica.is_some_and(|replica| replica.applied <= Some(last.index)), "{:?}", overview());
    // The group goes on.
    world.net.heal_all();
    let led_by = || overview().replica.and_then(|replica| replica.leader);
    let is_led = || world.nodes.iter().any(|node| node.leads(world.id) && led_by() == Some(node.id()));
    until("it follows one that leads", is_led).await;
    world.nodes[third].set(world.id, "c", "d").await;
    assert_eq!(world.nodes[to].get(world.id, "c").await.as_deref(), Some("d"));
}

/// P-141, SG-2: openraft asks for an index alone whether it has an entry, and takes what is of a later term for later.
#[tokio::test(start_paused = true)]
async fn two_messages_that_contradict_what_is_executed_erase_nothing_of_it() {
    let mut world = World::new().await;
    let (from, to, last) = (world.from, world.to, world.last());
    let term = last.term + 1;
    let below = Position { term, index: last.index - 2 };
    let steps = [
        Append { committed: Some(below), ..world.append(term, Some(below), Vec::new()) },
        world.append(term, Some(below), vec![blank(term, below.index + 1)]),
        Append { committed: Some(below), ..world.append(term, Some(last), Vec::new()) },
        world.append(term, Some(Position { term, ..last }), Vec::new()),
    ];
    for step in &steps {
        let answer = world.ask::<_, Appended>(from, "append", step).await;
        let refused = matches!(&answer, Err(Unserved::Malformed(why)) if why.contains("contradicts the log here"));
        assert!(refused, "{step:?}: {answer:?}");
    }
    assert_eq!(world.last(), last, "neither the log nor the term");
    // It starts again with all of it.
    world.net.cut(world.nodes[from].id(), world.nodes[to].id());
    world.net.cut(world.nodes[3 - from - to].id(), world.nodes[to].id());
    let (key, store) = world.nodes.remove(to).crash(&world.net).await;
    let again = GroupNode::start(&world.net, &key, &Owner::new(101), store).await;
    let has = || again.groups.overview(world.id).expect("the group").replica.and_then(|replica| replica.last);
    until("it starts from what is on its disk", || has() == Some(last.index)).await;
}

/// P-101, SG-3: a member raises the terms of others, as far as each message may, and goes away.
#[tokio::test(start_paused = true)]
async fn members_whose_terms_were_driven_apart_elect_a_leader_again() {
    let world = World::new().await;
    let (from, to, last) = (world.from, world.to, world.last());
    let third = 3 - from - to;
    let mut term = last.term;
    for _ in 0..4 {
        term += wire::TERM_AHEAD_MAX;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.ask::<_, Appended>(from, "append", &world.append(term, None, Vec::new())).await.expect("it is served");
    }
    assert!(world.last().term >= term, "far above what the other one would believe at once");
    world.net.cut(world.nodes[from].id(), world.nodes[to].id());
    world.net.cut(world.nodes[from].id(), world.nodes[third].id());
    let leader = |at: usize| {
        let overview = world.nodes[at].groups.overview(world.id).expect("the group");
        overview.replica.and_then(|replica| replica.leader)
    };
    let both = [world.nodes[to].id(), world.nodes[third].id()];
    let agreed = || leader(to) == leader(third) && leader(to).is_some_and(|leader| both.contains(&leader));
    until("the two that are left follow one of them", agreed).await;
    world.nodes[third].set(world.id, "c", "d").await;
    assert_eq!(world.nodes[to].get(world.id, "c").await.as_deref(), Some("d"));
}

/// P-101, SG-3: a learner asks nobody for votes, so that whoever leads has to come to its term.
#[tokio::test(start_paused = true)]
async fn a_learner_whose_term_was_driven_up_is_led_again() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (nodes, id) = group_of(&net, 4).await;
    nodes[0].set(id, "a", "b").await;
    quiet(&nodes, id).await;
    let (leads, _) = leader(&nodes, id).await;
    let to = nodes.iter().position(|node| node.role(id) == Some(Role::Learner)).expect("three of four vote");
    let from = (0..4).find(|at| *at != leads && *at != to).expect("another voter");
    let third = 6 - leads - to - from;
    let world = World { net, nodes, id, from, to };
    for voter in [leads, third] {
        world.net.cut(world.nodes[voter].id(), world.nodes[to].id());
    }
    let mut term = world.last().term;
    for _ in 0..3 {
        term += wire::TERM_AHEAD_MAX;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.ask::<_, Appended>(from, "append", &world.append(term, None, Vec::new())).await.expect("it is served");
    }
    assert_eq!(world.last().term, term, "three steps above the others");
    for other in [leads, third, to] {
        world.net.cut(world.nodes[from].id(), world.nodes[other].id());
    }
    for voter in [leads, third] {
        world.net.heal(world.nodes[voter].id(), world.nodes[to].id());
    }
    let role = |at: usize| world.nodes[at].role(id);
    let led_by = || world.nodes[to].groups.overview(id).expect("the group").replica.and_then(|replica| replica.leader);
    let leads_it = |at: &usize| role(*at) == Some(Role::Leader) && led_by() == Some(world.nodes[*at].id());
    let is_led = || [leads, third].iter().any(leads_it);
    for _ in 0..600 {
        if is_led() {
            break;
        }
        // An election for each step, and they dial each other first.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(is_led(), "{:?} instead of one of the two others", led_by());
    world.nodes[leads].set(id, "c", "d").await;
    assert_eq!(world.nodes[to].get(id, "c").await.as_deref(), Some("d"));
}

/// P-142
#[tokio::test(start_paused = true)]
async fn a_member_votes_once_in_a_term_for_who_has_its_entries_and_not_while_it_is_led() {
    let world = World::new().await;
    let (from, last) = (world.from, world.last());
    let third = 3 - world.from - world.to;
    let term = last.term + 1;
    let ask = async |from: usize, operation: &str, elect: Elect| -> Elected {
        world.ask(from, operation, &elect).await.expect("it is served")
    };
    for operation in ["vote", "pre-vote"] {
        let answer = ask(from, operation, world.elect(from, term, last, false)).await;
        assert!(!answer.granted && answer.ballot.term == last.term, "it hears a leader: {answer:?}");
    }
    let shorter = Position { index: last.index - 1, ..last };
    let answer = ask(from, "vote", world.elect(from, term, shorter, true)).await;
    assert!(!answer.granted && answer.last.is_some_and(|at| at.index >= last.index), "{answer:?}");
    let answer = ask(from, "vote", world.elect(from, last.term, last, true)).await;
    assert!(!answer.granted, "it voted in this term: {answer:?}");
    let longer = Position { index: last.index + 9, ..last };
    let answer = ask(from, "vote", world.elect(from, term + 5, longer, true)).await;
    assert!(answer.granted && answer.ballot == world.ballot(from, term + 5, false), "{answer:?}");
    let answer = ask(third, "vote", world.elect(third, term + 5, longer, true)).await;
    assert!(!answer.granted && answer.ballot.node == world.nodes[from].id(), "one vote in a term: {answer:?}");
    world.nodes[world.to].set(world.id, "c", "d").await;
}

/// P-193, P-194
#[tokio::test(start_paused = true)]
async fn whoever_is_proven_to_have_equivocated_leads_no_more_also_after_a_restart() {
    let mut world = World::new().await;
    let (from, last) = (world.from, world.last());
    let (liar, third) = (world.nodes[from].id(), 3 - world.from - world.to);
    let (term, index) = (last.term + 10, last.index + 1);
    for said in ["this", "that"] {
        let payload = Payload::Batch(NOW_MS, said.as_bytes().to_vec().into());
        let told = world.append(term, Some(last), vec![EntryRecord { at: Position { term, index }, payload }]);
        world.ask::<_, Appended>(from, "append", &told).await.expect("it is served");
    }
    let proven = |world: &World, of: usize| {
        let overview = world.nodes[of].groups.overview(world.id).expect("the group");
        overview.equivocated.iter().map(|proven| proven.leader).collect::<Vec<_>>()
    };
    let refused = async |world: &World| {
        let append = world.append(term + 1, Some(last), Vec::new());
        let elect = world.elect(from, term + 1, last, false);
        let answers = [
            world.ask::<_, Appended>(from, "append", &append).await.map(drop),
            world.ask::<_, Elected>(from, "vote", &elect).await.map(drop),
            world.ask::<_, Elected>(from, "pre-vote", &elect).await.map(drop),
        ];
        assert!(answers.iter().all(|answer| *answer == Err(Unserved::Equivocated)), "{answers:?}");
    };
    for of in [world.to, third] {
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if !proven(&world, of).is_empty() {
                break;
            }
        }
        assert_eq!(proven(&world, of), [liar], "it has the proof, or was told");
    }
    refused(&world).await;
    // Whoever has the proof can show it.
    let to = world.to;
    let bytes = Proofs::of(&world.nodes[to].groups).get(world.id, liar).expect("readable").expect("kept");
    let shown = Equivocation::decode(&bytes).expect("a proof").verify(NETWORK).expect("it proves that");
    assert_eq!((shown.group, shown.leader, shown.term, shown.index), (world.id, liar, term, index));
    // After a restart it knows it yet.
    let (key, store) = world.nodes.remove(to).crash(&world.net).await;
    let again = GroupNode::start(&world.net, &key, &Owner::new(101), store).await;
    world.nodes.insert(to, again);
    assert_eq!(proven(&world, to), [liar]);
}

//! Which version answers which call.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::versions::DRAINS_MAX;
use super::*;

fn call(task: &str, now_ms: u64) -> Call<'_> {
    Call { task, conversation: None, caller: None, origin: None, channel: None, group: None, now_ms }
}

#[test]
fn a_step_of_five_is_five_of_a_hundred() {
    let mut traffic = Traffic::new(plan(), 1);
    let new = (0..20_000).filter(|_| traffic.route().version == NEW).count();
    assert!((800..=1_200).contains(&new), "{new} of 20,000");
}

#[test]
fn a_caller_a_channel_and_a_group_have_one_version() {
    for by in [Unit::Caller, Unit::Channel, Unit::Group] {
        let mut versions = Versions::new(STABLE);
        versions.begin(Plan { by, steps: vec![50, 100], ..plan() }, 0).expect("a plan");
        let mut seen: BTreeMap<String, Digest> = BTreeMap::new();
        for number in 0..400_u64 {
            let (task, unit) = (format!("task {number}"), format!("unit {}", number % 40));
            let name = Some(unit.as_str());
            let call = match by {
                Unit::Channel => Call { channel: name, ..call(&task, 10) },
                Unit::Group => Call { group: name, ..call(&task, 10) },
                _ => Call { caller: name, ..call(&task, 10) },
            };
            let version = versions.route(&call).version;
            assert_eq!(*seen.entry(unit.clone()).or_insert(version), version, "{unit}");
        }
        let new = seen.values().filter(|version| **version == NEW).count();
        assert!((8..=32).contains(&new), "{new} of 40");
        // What has none stays with stable, but by channel.
        let stays = (0..100).all(|number| versions.route(&call(&format!("{number}"), 10)).version == STABLE);
        assert_eq!(stays, by != Unit::Channel, "{by:?}");
    }
}

/// Of a channel and of a group members draw the same version, and of a conversation each node draws its own: nobody chooses it.
#[test]
fn by_channel_what_has_none_is_divided_by_its_group_and_else_by_its_conversation() {
    let mut nodes = [7, 8].map(|salt| {
        let mut versions = Versions::new(STABLE);
        let plan = Plan { by: Unit::Channel, salt: Some(salt), steps: vec![50, 100], ..plan() };
        versions.begin(plan, 0).expect("a plan");
        versions
    });
    let mut drawn = |call: &Call<'_>| nodes.each_mut().map(|versions| versions.route(call).version);
    let (mut seen, mut alike): (BTreeMap<String, Digest>, u32) = Default::default();
    for number in 0..400_u32 {
        let (task, group) = (format!("task {number}"), format!("group {}", number % 40));
        let channel = format!("{group}/web");
        let of_group = Call { group: Some(&group), ..call(&task, 10) };
        for (unit, call) in [(&group, of_group), (&channel, Call { channel: Some(&channel), ..of_group })] {
            let [one, other] = drawn(&call);
            assert_eq!(one, other, "members draw alike");
            assert_eq!(*seen.entry(unit.clone()).or_insert(one), one, "{unit}");
        }
        let [one, other] = drawn(&call(&task, 10));
        alike += u32::from(one == other);
    }
    let of_channels = |is: bool| seen.iter().filter(move |(unit, _)| unit.ends_with("/web") == is);
    for is in [true, false] {
        let new = of_channels(is).filter(|(_, version)| **version == NEW).count();
        assert!((8..=32).contains(&new), "{new} of 40");
    }
    assert!((120..=280).contains(&alike), "{alike} of 400");
    let apart = |group: u32| seen[&format!("group {group}")] != seen[&format!("group {group}/web")];
    assert!((0..40).any(apart), "a channel is drawn for itself");
}

/// A caller names its conversations, and may know the version that is tried and which rollout of the agent it is.
#[test]
fn nobody_can_tell_without_the_salt_which_conversations_a_version_gets() {
    let drawn = |by: Unit, salt: Option<u64>| -> Vec<bool> {
        let mut versions = Versions::new(STABLE);
        versions.begin(Plan { by, salt, steps: vec![50, 100], ..plan() }, 0).expect("a plan");
        let names = (0..200).map(|number| format!("talk {number}"));
        let of = |name: String| {
            let unit = Some(name.as_str());
            versions.route(&Call { caller: unit, group: unit, ..call(&name, 10) }).version == NEW
        };
        names.map(of).collect()
    };
    for by in [Unit::Call, Unit::Caller] {
        let (one, other) = (drawn(by, Some(7)), drawn(by, Some(8)));
        assert_eq!(one, drawn(by, Some(7)), "a node that starts again draws as before");
        let alike = one.iter().zip(&other).filter(|(one, other)| one == other).count();
        assert!((60..=140).contains(&alike), "{by:?}: {alike} of 200");
    }
    assert_eq!(drawn(Unit::Group, Some(7)), drawn(Unit::Group, Some(8)), "members of a group draw alike");
}

/// Nodes that try the same version give what they have a part in together the same version, whatever each decided before.
#[test]
fn members_of_a_group_draw_alike_and_calls_of_no_group_say_nothing() {
    let plan = || Plan { by: Unit::Group, steps: vec![50, 100], shadow: true, calls_min: 1, ..plan() };
    let mut members = [Versions::new(STABLE), Versions::new(STABLE)];
    for _ in 0..3 {
        members[1].begin(Plan { to: OTHER, ..plan() }, 0).expect("a plan");
        members[1].abort().expect("it is under way");
    }
    for versions in &mut members {
        versions.begin(Plan { shadow: false, ..plan() }, 10).expect("a plan");
    }
    let groups: Vec<String> = (0..40).map(|number| format!("group {number}")).collect();
    let drawn = |versions: &mut Versions| -> Vec<Digest> {
        let of = |group: &String| versions.route(&Call { group: Some(group), ..call("task", 100) }).version;
        groups.iter().map(of).collect()
    };
    let [one, other] = &mut members;
    let of_one = drawn(one);
    assert_eq!(of_one, drawn(other));
    assert!(of_one.contains(&STABLE) && of_one.contains(&NEW), "{of_one:?}");

    let mut versions = Versions::new(STABLE);
    versions.begin(plan(), 0).expect("a plan");
    let alone = versions.route(&call("task", 10));
    let ticket = alone.ticket.expect("stable's calls are counted for what it does that it must not");
    assert_eq!((alone.version, alone.shadow), (STABLE, None));
    assert_eq!(versions.outcome(ticket, &Outcome { is_error: true, ..Outcome::default() }, 20), None);
    let rollout = versions.rollout().expect("it was begun");
    assert_eq!(rollout.trial().seen(Signal::Failure).stable.calls, 0);
    assert!(versions.route(&Call { group: Some("group 1"), ..call("task", 30) }).shadow.is_some());
}

#[test]
fn older_conversations_go_on_with_stable_and_are_no_evidence() {
    let mut versions = Versions::new(STABLE);
    let first = versions.route(&Call { conversation: Some(Conversation { id: "a", began_ms: None }), ..call("1", 5) });
    versions.begin(Plan { steps: vec![99, 100], ..plan() }, 5).expect("a plan");
    let later = Conversation { id: "a", began_ms: Some(first.began_ms) };
    for number in 0..50_u64 {
        let route = versions.route(&Call { conversation: Some(later), ..call("2", 10 + number) });
        let ticket = route.ticket.expect("stable's calls are counted for what it does that it must not");
        assert_eq!((route.version, versions.outcome(ticket, &Outcome::default(), 100)), (STABLE, None));
    }
    let rollout = versions.rollout().expect("it was begun");
    assert_eq!(rollout.trial().seen(Signal::Failure).stable.calls, 0);
}

#[test]
fn conversations_of_the_older_version_end_with_it_after_a_promotion() {
    let mut versions = Versions::new(STABLE);
    versions.begin(Plan { steps: vec![1, 100], drain_ms: 1_000, ..plan() }, 0).expect("a plan");
    let first = Call { conversation: Some(Conversation { id: "a", began_ms: None }), ..call("1", 10) };
    let route = versions.route(&first);
    assert_eq!(route.version, STABLE);
    let began_ms = Some(route.began_ms);
    versions.promote(20).expect("it is under way");
    let mut at = |now_ms, began_ms| {
        versions.route(&Call { conversation: Some(Conversation { id: "a", began_ms }), ..call("2", now_ms) }).version
    };
    assert_eq!((at(30, began_ms), at(30, None)), (STABLE, NEW));
    assert_eq!(at(2_000, began_ms), NEW);
}

/// When it began is not known: it is not taken for one that is older than all rollouts, whose version may be stable no more.
#[test]
fn a_conversation_of_which_nothing_is_noted_has_the_stable_version() {
    let mut versions = Versions::new(STABLE);
    versions.begin(Plan { steps: vec![99, 100], ..plan() }, 0).expect("a plan");
    assert_eq!(versions.route_unnoted(10), STABLE);
    versions.promote(20).expect("it is under way");
    let older = Call { conversation: Some(Conversation { id: "a", began_ms: Some(0) }), ..call("1", 30) };
    assert_eq!((versions.route(&older).version, versions.route_unnoted(30)), (STABLE, NEW));
}

/// A conversation whose version's time is over goes on with what was stable then, and for as long as that one goes on.
#[test]
fn conversations_that_outlive_their_version_stay_with_the_next_one() {
    for promoted_ms in [600, 1_200] {
        let mut versions = Versions::new(STABLE);
        versions.begin(Plan { steps: vec![1, 100], drain_ms: 1_000, ..plan() }, 0).expect("a plan");
        let of = |began_ms| Call { conversation: Some(Conversation { id: "a", began_ms }), ..call("1", 10) };
        let route = versions.route(&of(None));
        let later = of(Some(route.began_ms));
        assert_eq!(route.version, STABLE);
        versions.promote(20).expect("it is under way");
        versions.begin(Plan { to: OTHER, drain_ms: 1_000, ..plan() }, 500).expect("a plan");
        // The stable version's time is over at 1,021: what was stable then has its conversations.
        let heir = if promoted_ms < 1_021 { OTHER } else { NEW };
        if promoted_ms < 1_021 {
            versions.promote(promoted_ms).expect("it is under way");
        }
        assert_eq!(versions.route(&Call { now_ms: 1_100, ..later }).version, heir);
        if promoted_ms >= 1_021 {
            versions.promote(promoted_ms).expect("it is under way");
        }
        assert_eq!(versions.route(&Call { now_ms: 1_300, ..later }).version, heir);
        // Another rollout gives them to none that they left.
        versions.begin(Plan { to: [9; 32], drain_ms: 1_000, ..plan() }, 1_400).expect("a plan");
        assert_eq!(versions.route(&Call { now_ms: 1_500, ..later }).version, heir);
        assert_eq!(versions.route(&Call { now_ms: 3_000, ..later }).version, OTHER);
    }
}

#[test]
fn no_conversation_loses_its_version_to_many_promotions() {
    let mut versions = Versions::new(STABLE);
    let of = |began_ms, now_ms| Call { conversation: Some(Conversation { id: "a", began_ms }), ..call("1", now_ms) };
    let began_ms = Some(versions.route(&of(None, 1)).began_ms);
    let plan = |to| Plan { to, drain_ms: 600_000, ..plan() };
    let mut begun = 0;
    let refused = (0..20_u8).find_map(|number| {
        let now_ms = 10 + u64::from(number) * 10;
        let order = versions.begin(plan([10 + number; 32]), now_ms);
        if order.is_ok() {
            begun += 1;
            versions.promote(now_ms + 5).expect("it is under way");
        }
        order.err()
    });
    assert!(matches!(refused, Some(OrderError::Draining { minutes: 10 })), "{refused:?}");
    assert_eq!((begun, versions.route(&of(began_ms, 300)).version), (DRAINS_MAX + 1, STABLE));
    versions.begin(plan([99; 32]), 700_000).expect("the older versions are over");
    assert_eq!(versions.drains.len(), 0);
}

/// What may happen to an agent.
#[derive(Debug, Clone)]
enum Event {
    Call {
        conversation: u8,
        later_ms: i64,
    },
    Outcome {
        ticket: u8,
        is_bad: bool,
        crashes: bool,
    },
    Begin {
        to: u8,
        shadow: bool,
    },
    Promote,
    Abort,
    /// The node ends, and starts with the row that it wrote last.
    Kill,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => (any::<u8>(), -20_i64..200).prop_map(|(conversation, later_ms)| Event::Call { conversation, later_ms }),
        12 => (any::<u8>(), any::<bool>(), 0..40_u8).prop_map(|(ticket, is_bad, crashes)| Event::Outcome {
            ticket,
            is_bad,
            crashes: crashes == 0,
        }),
        2 => (1..6_u8, any::<bool>()).prop_map(|(to, shadow)| Event::Begin { to, shadow }),
        1 => Just(Event::Promote),
        1 => Just(Event::Abort),
        1 => Just(Event::Kill),
    ];
    proptest::collection::vec(event, 1..100)
}

/// An agent, with what a node stores of its conversations.
struct Agent {
    versions: Versions,
    row: Vec<u8>,
    now_ms: u64,
    latest_ms: u64,
    /// The latest time before the last kill: the clock is not set back to before that.
    floor_ms: u64,
    tickets: Vec<Ticket>,
    /// When a conversation began, and its version, as long as it had that one alone.
    conversations: BTreeMap<u8, (u64, Option<Digest>)>,
}

impl Agent {
    fn new() -> Agent {
        let versions = Versions::new(STABLE);
        let row = encode_row(&versions);
        let (now_ms, latest_ms, floor_ms) = (1_000, 1_000, 0);
        Agent { versions, row, now_ms, latest_ms, floor_ms, tickets: Vec::new(), conversations: BTreeMap::new() }
    }

    fn write(&mut self) {
        self.versions.settle();
        self.row = encode_row(&self.versions);
    }

    fn call(&mut self, conversation: u8) {
        let id = format!("conversation {conversation}");
        let known = self.conversations.get(&conversation).copied();
        let of = Conversation { id: &id, began_ms: known.map(|(began_ms, _)| began_ms) };
        let route = self.versions.route(&Call { conversation: Some(of), ..call("task", self.now_ms) });
        assert!(self.versions.may_answer(route.version), "a version answers that may not");
        let own = known.and_then(|(_, own)| own);
        if let Some(own) = own.filter(|own| self.versions.may_answer(*own)) {
            assert_eq!(route.version, own, "conversation {conversation} changed its version");
        }
        let stays = known.is_none() || own == Some(route.version);
        self.conversations.insert(conversation, (route.began_ms, stays.then_some(route.version)));
        self.tickets.extend(route.ticket);
        self.tickets.extend(route.shadow.map(|(_, ticket)| ticket));
    }

    fn outcome(&mut self, ticket: u8, is_bad: bool, crashes: bool) {
        if self.tickets.is_empty() {
            return;
        }
        let ticket = self.tickets.remove(usize::from(ticket) % self.tickets.len());
        let breach = crashes.then_some(Breach::Crash);
        let outcome = Outcome { is_error: is_bad, breach, ..Outcome::default() };
        if self.versions.outcome(ticket, &outcome, self.now_ms).is_some() {
            self.write();
        }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Call { conversation, later_ms } => {
                // A clock may be set back.
                self.now_ms = self.now_ms.saturating_add_signed(later_ms).max(self.floor_ms);
                self.latest_ms = self.latest_ms.max(self.now_ms);
                self.call(conversation);
            }
            Event::Outcome { ticket, is_bad, crashes } => self.outcome(ticket, is_bad, crashes),
            Event::Begin { to, shadow } => {
                let plan = Plan { steps: vec![20, 60, 100], shadow, calls_min: 1, ..Plan::of([to; 32]) };
                let went_back = self.versions.reversals().contains_key(&[to; 32]);
                let begun = self.versions.begin(plan, self.now_ms);
                assert!(begun.is_err() || !went_back, "what went back is tried again");
                self.write();
            }
            Event::Promote => {
                let _ = self.versions.promote(self.now_ms);
                self.write();
            }
            Event::Abort => {
                let tried = self.versions.rollout().filter(|rollout| rollout.phase() == Phase::Running);
                if let Some(split) = tried.map(|rollout| rollout.split().clone()) {
                    // All that began while it was tried is stable's again, also where it still has older conversations to end.
                    for (began_ms, own) in self.conversations.values_mut() {
                        *own = own.filter(|own| *own != split.to || !split.covers(*began_ms));
                    }
                }
                let _ = self.versions.abort();
                self.write();
            }
            Event::Kill => {
                self.versions = decode_row(&self.row).expect("the row that was written");
                self.tickets.clear();
                // A clock that is set back while the node is down, or later to a time before that, is not corrected for.
                (self.now_ms, self.floor_ms) = (self.latest_ms, self.latest_ms);
            }
        }
        // A conversation whose version was taken back, if only for a time, has no version of its own any more.
        for (_, own) in self.conversations.values_mut() {
            *own = own.filter(|own| self.versions.may_answer(*own));
        }
    }
}

proptest! {
    /// Every call is answered by a version that may, conversations stay with theirs, and what went back is not tried again,
    /// whatever happens and whenever the node ends.
    #[test]
    fn calls_are_answered_by_versions_that_may(events in events()) {
        let mut agent = Agent::new();
        for event in &events {
            agent.happen(event);
            let stable = agent.versions.stable();
            let new = agent.versions.reversals().contains_key(&stable);
            prop_assert!(!new, "a version that went back is stable");
        }
    }
}

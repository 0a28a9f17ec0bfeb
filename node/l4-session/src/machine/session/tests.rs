mod checkpoints;
mod recorded;
mod restarts;
mod vectors;

use std::collections::BTreeMap;

use althing_execution::journal::{Effect, Intent, JournalError, JournalShare, StepOutcome};
use althing_execution::tools::CallKind;
use althing_protocol::contract::DataLabel;
use althing_protocol::{Label, PublisherId};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn agent(name: &str) -> AgentId {
    AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name")
}

fn turn(message: &str) -> TurnId {
    TurnId::of(SessionId::of(&agent("clerk"), "caller", "context"), "task", message)
}

fn begin() -> Begin {
    Begin {
        task: "task".to_owned(),
        message: "one".to_owned(),
        agent: agent("clerk").to_string(),
        version: "1.0.0".to_owned(),
        binding: "hash".to_owned(),
        epoch: 0,
        principals: vec!["local".to_owned()],
        extensions: Vec::new(),
        label: Some(Label { level: DataLabel::Internal, trusted: true }),
        session: None,
        delegation: None,
        metadata: Some(b"{}".to_vec().into()),
        modes: None,
        history_length: Some(3),
        within_ms: None,
        began_ms: 5,
        seed: [9; 32],
        caller: None,
        attempt: None,
    }
}

fn call(name: &str, effect: Effect) -> Call {
    Call::of(CallKind::Tool, name, &json!({ "a": 1 }), effect)
}

fn heard(value: Value) -> StepOutcome {
    StepOutcome { result: Ok(value), tokens: 3, label: Some(Label { level: DataLabel::Public, trusted: false }) }
}

/// Takes what is pending, as if it were written.
fn written(rows: &mut TurnRows) -> Vec<(u32, Vec<u8>)> {
    let number = |key: &[u8]| u32::from_be_bytes(*key.last_chunk().expect("a key"));
    let pending = rows.pending().map(|(key, row)| (number(&key), row.to_vec())).collect();
    rows.settle();
    pending
}

/// Makes a call, up to what came of it.
fn make(rows: &mut TurnRows, name: &str, effect: Effect, outcome: &StepOutcome) -> Intent {
    let intent = go(rows, name, effect).expect("it may be made");
    rows.finish(intent.seq, outcome, 20).expect("there is room");
    intent
}

fn go(rows: &mut TurnRows, name: &str, effect: Effect) -> Result<Intent, JournalError> {
    match rows.reach(call(name, effect))? {
        Next::Go(intent) => Ok(intent),
        Next::Intend(seq) => rows.intend(seq, None, 10),
        Next::Replayed(outcome) => panic!("it was made: {outcome:?}"),
    }
}

/// The rows of a turn that made two calls, and was about to make a third one.
fn cut_off() -> (TurnRows, Vec<(u32, Vec<u8>)>) {
    let mut rows = TurnRows::new(turn("one"), begin());
    make(&mut rows, "models", Effect::Repeatable, &heard(json!("hi")));
    make(&mut rows, "mail/send", Effect::Final, &heard(json!({ "sent": 1 })));
    go(&mut rows, "mail/send", Effect::Final).expect("it may be made");
    let disk = written(&mut rows);
    (rows, disk)
}

#[test]
fn names_of_sessions_and_turns_are_of_nothing_else() {
    let of = |agent: &AgentId, scope: &str, context: &str| SessionId::of(agent, scope, context);
    let one = of(&agent("clerk"), "caller", "context");
    assert_eq!(one, of(&agent("clerk"), "caller", "context"));
    for other in [
        of(&agent("clerk2"), "caller", "context"),
        of(&agent("clerk"), "callerc", "ontext"),
        of(&agent("clerk"), "caller", "context2"),
    ] {
        assert_ne!(one, other);
    }
    assert_eq!(one.text().len(), 32);
    assert_ne!(turn("one").whole, turn("two").whole);
    let key = turn("one").row_key(7);
    assert_eq!((key.len(), key.starts_with(&turn("one").prefix()), &key[20..]), (24, true, &[0, 0, 0, 7][..]));
}

#[test]
fn a_call_has_the_same_key_whenever_its_turn_is_resumed_and_no_other_call_has_it() {
    let mut first = TurnRows::new(turn("one"), begin());
    let keys = |rows: &mut TurnRows| {
        ["a/b", "a/b", "a/c"].map(|name| go(rows, name, Effect::Keyed).expect("there is room").key)
    };
    let keys_of_first = keys(&mut first);
    assert!(keys_of_first[0] != keys_of_first[1] && keys_of_first[0] != keys_of_first[2]);
    let disk = written(&mut first);
    let mut again = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
    assert_eq!(keys(&mut again), keys_of_first, "the intents are not in doubt: they are called again");
    assert!(written(&mut again).is_empty(), "and they are on disk already");
    let mut other = TurnRows::new(turn("two"), begin());
    assert!(keys(&mut other).iter().all(|key| !keys_of_first.contains(key)));
}

#[test]
fn what_was_heard_is_told_again_and_a_call_without_a_result_is_in_doubt() {
    let (_, disk) = cut_off();
    let mut rows = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
    let doubt = Doubt { seq: 2, name: "mail/send".to_owned(), since_ms: 10 };
    assert_eq!(rows.doubts(), vec![doubt]);
    let told = [("models", Effect::Repeatable, json!("hi")), ("mail/send", Effect::Final, json!({ "sent": 1 }))];
    for (name, effect, result) in told {
        assert_eq!(rows.reach(call(name, effect)), Ok(Next::Replayed(heard(result))));
    }
    let refused = rows.reach(call("mail/send", Effect::Final)).expect_err("nobody knows");
    assert_eq!(refused, JournalError::InDoubt { seq: 2, name: "mail/send".to_owned() });
}

#[test]
fn a_step_that_is_another_one_stops_the_turn() {
    let (_, disk) = cut_off();
    let mut rows = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
    let came = rows.reach(call("mail/list", Effect::Repeatable)).expect_err("it is another one");
    let (was, came_then) = ("models".to_owned(), "mail/list".to_owned());
    assert_eq!(came, JournalError::Diverged { seq: 0, was, came: came_then });
    let mut rows = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
    let other = Call::of(CallKind::Tool, "models", &json!({ "a": 2 }), Effect::Repeatable);
    assert!(rows.reach(other).expect_err("other arguments").to_string().contains("with other arguments"));
}

#[test]
fn each_choice_ends_the_doubt_and_stays_after_another_crash() {
    let known = heard(json!("known"));
    for choice in [Choice::Done, Choice::Again, Choice::Failed] {
        let (_, mut disk) = cut_off();
        let mut rows = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
        let said = (choice == Choice::Done).then(|| known.clone());
        assert_eq!(rows.clear_doubt(1, choice, said.clone(), ("local", 30)), Ok(false), "that one was made");
        assert_eq!(rows.clear_doubt(2, choice, said.clone(), ("local", 30)), Ok(true));
        assert_eq!(rows.clear_doubt(2, choice, said, ("local", 30)), Ok(false), "once");
        disk.extend(written(&mut rows));
        let mut rows = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
        assert!(rows.doubts().is_empty());
        for (name, effect) in [("models", Effect::Repeatable), ("mail/send", Effect::Final)] {
            assert!(matches!(rows.reach(call(name, effect)), Ok(Next::Replayed(_))));
        }
        match (choice, rows.reach(call("mail/send", Effect::Final)).expect("no doubt")) {
            (Choice::Done, Next::Replayed(outcome)) => assert_eq!(outcome, known),
            (Choice::Failed, Next::Replayed(outcome)) => assert!(outcome.result.is_err()),
            (Choice::Again, Next::Intend(seq)) => {
                let intent = rows.intend(seq, Some("somebody".to_owned()), 40).expect("there is room");
                disk.extend(written(&mut rows));
                let rows = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
                let doubts: Vec<u32> = rows.doubts().iter().map(|doubt| doubt.seq).collect();
                assert_eq!(doubts, [intent.seq], "it was made again, and nobody knows whether that took place");
            }
            (choice, next) => panic!("{choice:?}: {next:?}"),
        }
    }
}

#[test]
fn a_long_result_takes_several_rows_and_is_whole_again() {
    let mut rows = TurnRows::new(turn("one"), begin());
    let long = heard(Value::from("x".repeat(PART_BYTES_MAX * 2 + 5)));
    make(&mut rows, "shop/list", Effect::Repeatable, &long);
    let failed = StepOutcome { result: Err(String::new()), tokens: 0, label: None };
    make(&mut rows, "shop/list", Effect::Repeatable, &failed);
    let disk = written(&mut rows);
    assert_eq!(disk.len(), 1 + 3 + 1);
    let mut rows = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
    for outcome in [long, failed] {
        assert_eq!(rows.reach(call("shop/list", Effect::Repeatable)), Ok(Next::Replayed(outcome)));
    }
    for missing in 1..4 {
        let mut cut = disk.clone();
        cut.remove(missing);
        assert!(TurnRows::read(turn("one"), begin(), &cut).is_err(), "without row {missing}");
    }
    assert!(TurnRows::read(turn("one"), begin(), &disk[..3]).is_err(), "the last part is missing");
}

#[test]
fn rows_that_are_not_those_that_were_written_are_refused() {
    let (_, disk) = cut_off();
    let what = |rows: &[(u32, Vec<u8>)]| {
        TurnRows::read(turn("one"), begin(), rows).expect_err("they are not as they were written").what
    };
    let changed = |at: usize, row: Vec<u8>| {
        let mut rows = disk.clone();
        rows[at].1 = row;
        rows
    };
    for length in 0..disk[1].1.len() {
        what(&changed(1, disk[1].1[..length].to_vec()));
    }
    for at in 0..disk[1].1.len() {
        let mut row = disk[1].1.clone();
        row[at] ^= 1;
        // A changed byte shows at the latest in the row after it.
        what(&changed(1, row));
    }
    assert!(what(&changed(1, vec![0; 3 << 20])).contains("is the most"));
    let gap: Vec<_> = disk.iter().filter(|(seq, _)| *seq != 1).cloned().collect();
    assert!(what(&gap).contains("missing"));
    let mut swapped = disk.clone();
    (swapped[1].1, swapped[2].1) = (disk[2].1.clone(), disk[1].1.clone());
    assert!(what(&swapped).contains("row 2 of the turn"));
    assert!(what(&disk[1..]).contains("missing"));
    let foreign = TurnRows::read(turn("two"), begin(), &disk).expect_err("they are of another turn");
    assert!(foreign.what.contains("another turn"), "{}", foreign.what);
    let other = Begin { task: "other".to_owned(), ..begin() };
    let foreign = TurnRows::read(turn("one"), other, &disk).expect_err("it began otherwise");
    assert!(foreign.what.contains("the beginning of another turn"), "{}", foreign.what);
    for rows in 0..=disk.len() {
        TurnRows::read(turn("one"), begin(), &disk[..rows]).expect("rows that were written last may be missing");
    }
}

#[test]
fn a_turn_is_bounded_in_rows_and_bytes() {
    let mut rows = TurnRows::new(turn("one"), begin());
    let nothing = heard(Value::Null);
    let refused = loop {
        match go(&mut rows, "a/b", Effect::Final) {
            Ok(intent) => rows.finish(intent.seq, &nothing, 0).expect("room was kept for it"),
            Err(refused) => break refused,
        };
    };
    assert!(matches!(refused, JournalError::TooLong { most: 4_096, .. }), "{refused:?}");
    assert!(rows.size().0 <= ROWS_MAX);
    TurnRows::read(turn("one"), begin(), &written(&mut rows)).expect("it can be read");

    let mut rows = TurnRows::new(turn("one"), begin());
    let large = heard(Value::from("x".repeat(3 << 20)));
    let refused = loop {
        let intent = go(&mut rows, "a/b", Effect::Repeatable).expect("a step more");
        if let Err(refused) = rows.finish(intent.seq, &large, 0) {
            break refused;
        }
    };
    assert!(matches!(refused, JournalError::TooLong { most: TURN_BYTES_MAX, .. }), "{refused:?}");
    TurnRows::read(turn("one"), begin(), &written(&mut rows)).expect("it can be read");
}

fn session(number: u32) -> SessionId {
    SessionId(std::array::from_fn(|at| number.to_be_bytes()[at % 4]))
}

fn full(whose: JournalShare, most: u64) -> Result<(), JournalError> {
    Err(JournalError::Full { whose, most })
}

#[test]
fn sessions_and_nodes_are_bounded_in_bytes() {
    let (mut usage, owner) = (Usage::default(), Payer::Owner);
    assert_eq!(usage.add(session(0), owner, SESSION_BYTES_MAX), Ok(()));
    assert_eq!(usage.add(session(0), owner, 1), full(JournalShare::Session, SESSION_BYTES_MAX));
    usage.remove(session(0), owner, 1);
    assert_eq!(usage.add(session(0), owner, 1), Ok(()));
    for number in 1..16 {
        assert_eq!(usage.add(session(number), owner, SESSION_BYTES_MAX), Ok(()));
    }
    assert_eq!(usage.add(session(16), owner, 1), full(JournalShare::Node, NODE_BYTES_MAX));
    (0..16).for_each(|number| usage.remove(session(number), owner, SESSION_BYTES_MAX));
    assert_eq!(usage.add(session(16), owner, 1), Ok(()));
}

/// However many sessions a caller begins, and however many callers there are.
#[test]
fn callers_have_a_part_of_the_room_and_the_owner_of_the_node_has_what_they_leave() {
    let mut usage = Usage::default();
    let stranger = |number: u8| Payer::Other([number; 32]);
    // Turns as long as they may be, each in a session of its own.
    let mut sessions = (0..).map(session);
    let mut fill = |usage: &mut Usage, payer: Payer| {
        let mut turns = 0;
        loop {
            match usage.add(sessions.next().expect("there are many"), payer, TURN_BYTES_MAX) {
                Ok(()) => turns += 1,
                Err(error) => return (turns, error.to_string()),
            }
        }
    };
    let (turns, why) = fill(&mut usage, stranger(0));
    assert_eq!(turns * TURN_BYTES_MAX, NODE_BYTES_MAX / 8);
    assert!(why.starts_with("FULL: the journals of this caller's unfinished tasks hold"), "{why}");
    let turns: u64 = (1..=8).map(|number| fill(&mut usage, stranger(number)).0).sum();
    assert_eq!((turns + 8) * TURN_BYTES_MAX, NODE_BYTES_MAX / 4 * 3, "all of them together");
    let (turns, why) = fill(&mut usage, stranger(9));
    assert!(turns == 0 && why.starts_with("FULL: the journals of all callers but the owner of this node"), "{why}");
    let (turns, why) = fill(&mut usage, Payer::Owner);
    assert_eq!(turns * TURN_BYTES_MAX, NODE_BYTES_MAX / 4, "{why}");
    assert!(why.starts_with("FULL: the journals of this node hold"), "{why}");
    // What a caller gives back is its own again.
    let own = session(0);
    usage.remove(own, stranger(0), TURN_BYTES_MAX);
    assert_eq!(usage.add(own, stranger(1), TURN_BYTES_MAX), full(JournalShare::Caller, CALLER_BYTES_MAX));
    assert_eq!(usage.add(own, stranger(0), TURN_BYTES_MAX), Ok(()));
}

#[test]
fn the_label_of_a_turn_is_that_of_its_call_with_all_that_its_steps_brought() {
    let mut rows = TurnRows::new(turn("one"), begin());
    assert_eq!(rows.label(), begin().label);
    let Ok(Next::Go(intent)) = rows.reach(call("web/fetch", Effect::Repeatable)) else { panic!("it is new") };
    rows.finish(intent.seq, &heard(json!(1)), 20).expect("there is room");
    let disk = written(&mut rows);
    let again = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
    assert_eq!(again.label(), Some(Label { level: DataLabel::Internal, trusted: false }));
}

/// A call that differs from others by its number.
fn numbered(number: u32, effect: Effect) -> Call {
    Call::of(CallKind::Tool, "a/b", &json!({ "number": number }), effect)
}

#[test]
fn calls_that_have_no_order_are_found_by_what_they_are() {
    let reached = |rows: &mut TurnRows, call: Call| match rows.reach(call).expect("there is room") {
        Next::Go(intent) => intent,
        Next::Intend(seq) => rows.intend(seq, None, 10).expect("there is room"),
        Next::Replayed(outcome) => panic!("it was made: {outcome:?}"),
    };
    let mut rows = TurnRows::new(turn("one"), begin()).in_any_order();
    let calls =
        [(1, Effect::Keyed), (2, Effect::Repeatable), (1, Effect::Keyed), (3, Effect::Final), (4, Effect::Repeatable)];
    let intents = calls.map(|(number, effect)| reached(&mut rows, numbered(number, effect)));
    // The first one and the last one do not end, and the others in another order.
    for at in [3, 2, 1] {
        rows.finish(intents[at].seq, &heard(json!(at)), 20).expect("there is room");
    }
    let disk = written(&mut rows);

    let mut again = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written").in_any_order();
    assert!(again.doubts().is_empty());
    assert_eq!(reached(&mut again, numbered(4, Effect::Repeatable)).seq, 4, "no step that has rows");
    assert_eq!(again.reach(numbered(3, Effect::Final)), Ok(Next::Replayed(heard(json!(3)))));
    assert_eq!(reached(&mut again, numbered(1, Effect::Keyed)), intents[0], "under its key");
    assert_eq!(again.reach(numbered(1, Effect::Keyed)), Ok(Next::Replayed(heard(json!(2)))));
    assert_eq!(again.reach(numbered(2, Effect::Repeatable)), Ok(Next::Replayed(heard(json!(1)))));
    let more = reached(&mut again, numbered(3, Effect::Final));
    assert!(intents.iter().all(|intent| intent.key != more.key && intent.seq != more.seq), "it is a call more");
    let mut in_order = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written");
    let came = in_order.reach(numbered(3, Effect::Final));
    assert!(matches!(came, Err(JournalError::Diverged { seq: 0, .. })), "{came:?}");
}

#[test]
fn the_order_of_arguments_makes_no_other_call() {
    let of = |arguments: &str| {
        let arguments: Value = serde_json::from_str(arguments).expect("JSON");
        Call::of(CallKind::Tool, "a/b", &arguments, Effect::Final)
    };
    let call = of(r#"{"a": {"b": 1, "c": [{"d": 2, "e": 3}]}, "f": 4}"#);
    assert_eq!(call, of(r#"{"f": 4, "a": {"c": [{"e": 3, "d": 2}], "b": 1}}"#));
    assert_ne!(call, of(r#"{"f": 4, "a": {"c": [{"e": 2, "d": 3}], "b": 1}}"#));
}

#[test]
fn steps_that_are_made_at_once_may_be_written_in_any_order() {
    let mut rows = TurnRows::new(turn("one"), begin()).in_any_order();
    let [first, second] = [1, 2].map(|number| match rows.reach(numbered(number, Effect::Final)) {
        Ok(Next::Intend(seq)) => seq,
        other => panic!("{other:?}"),
    });
    let names = [second, first].map(|seq| rows.intend(seq, None, 10).expect("there is room"));
    rows.finish(names[1].seq, &heard(json!("first")), 20).expect("there is room");
    let disk = written(&mut rows);
    let mut again = TurnRows::read(turn("one"), begin(), &disk).expect("as they were written").in_any_order();
    let doubts: Vec<u32> = again.doubts().iter().map(|doubt| doubt.seq).collect();
    assert_eq!(doubts, [second]);
    assert_eq!(again.reach(numbered(1, Effect::Final)), Ok(Next::Replayed(heard(json!("first")))));
}

/// What lies outside a turn that makes its calls at once, and a disk.
#[derive(Default)]
struct Crowd {
    disk: Vec<(u32, Vec<u8>)>,
    /// The key of each step that has an intent.
    keys: BTreeMap<u32, [u8; 32]>,
    /// How often each call took effect under each key.
    effects: BTreeMap<(u32, [u8; 32]), u32>,
    /// Steps that the process may still take until it ends.
    left: u32,
}

impl Crowd {
    fn tick(&mut self) -> Result<(), Crash> {
        self.left = self.left.checked_sub(1).ok_or(Crash)?;
        Ok(())
    }

    fn write(&mut self, rows: &mut TurnRows) -> Result<(), Crash> {
        self.tick()?;
        self.disk.extend(written(rows));
        self.tick()
    }

    /// Begins all calls in that order, and ends them in the reverse one.
    fn run(&mut self, rows: &mut TurnRows, calls: &[(u32, Effect)]) -> Result<(), Crash> {
        let mut under_way = Vec::new();
        for (number, effect) in calls {
            let intent = match rows.reach(numbered(*number, *effect)).unwrap_or_else(|error| panic!("{error}")) {
                Next::Replayed(outcome) => {
                    assert_eq!(outcome, heard(json!(number)));
                    continue;
                }
                Next::Go(intent) => intent,
                Next::Intend(seq) => {
                    let intent = rows.intend(seq, None, 0).unwrap_or_else(|error| panic!("{error}"));
                    self.keys.insert(seq, intent.key);
                    self.write(rows)?;
                    intent
                }
            };
            under_way.push((*number, *effect, intent));
        }
        for (number, effect, intent) in under_way.into_iter().rev() {
            let times = self.effects.entry((number, intent.key)).or_default();
            // Whoever is called by a key does it once.
            *times = if effect == Effect::Keyed { 1 } else { *times + 1 };
            self.tick()?;
            rows.finish(intent.seq, &heard(json!(number)), 0).unwrap_or_else(|error| panic!("{error}"));
            self.write(rows)?;
        }
        Ok(())
    }
}

/// What lies outside the turn, and a disk.
#[derive(Default)]
struct World {
    /// Rows, and how many of them a power cut leaves.
    disk: Vec<(u32, Vec<u8>)>,
    synced: usize,
    /// How often each step took place.
    effects: BTreeMap<u32, u32>,
    /// What the agent heard of each step and the process did not lose.
    heard: BTreeMap<u32, Value>,
    /// Steps that the process may still take until it ends.
    left: u32,
}

/// The process ended.
struct Crash;

impl World {
    fn tick(&mut self) -> Result<(), Crash> {
        self.left = self.left.checked_sub(1).ok_or(Crash)?;
        Ok(())
    }

    /// The process may end before a write, and after it.
    fn write(&mut self, rows: &mut TurnRows, synced: bool) -> Result<(), Crash> {
        self.tick()?;
        self.disk.extend(written(rows));
        if synced {
            self.synced = self.disk.len();
        }
        self.tick()
    }

    fn run(&mut self, rows: &mut TurnRows, steps: &[Effect]) -> Result<(), Crash> {
        for (number, effect) in (0u32..).zip(steps) {
            let reached = rows.reach(call("a/b", *effect)).unwrap_or_else(|error| panic!("step {number}: {error}"));
            let intent = match reached {
                Next::Replayed(outcome) => {
                    let result = outcome.result.expect("all calls succeed");
                    let before = self.heard.entry(number).or_insert_with(|| result.clone());
                    assert_eq!(*before, result, "step {number} was heard otherwise");
                    continue;
                }
                Next::Go(intent) => {
                    assert!(!self.heard.contains_key(&number), "step {number} was heard, and is called again");
                    intent
                }
                Next::Intend(seq) => {
                    assert!(!self.heard.contains_key(&number), "step {number} was heard, and is called again");
                    let intent = rows.intend(seq, None, 0).unwrap_or_else(|error| panic!("{error}"));
                    self.write(rows, true)?;
                    intent
                }
            };
            let times = self.effects.entry(number).or_default();
            // Whoever is called by a key does it once.
            *times = if *effect == Effect::Keyed { 1 } else { *times + 1 };
            let result = json!([number, times]);
            self.tick()?;
            rows.finish(intent.seq, &heard(result.clone()), 0).unwrap_or_else(|error| panic!("{error}"));
            self.write(rows, false)?;
            self.heard.insert(number, result);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// The process ends at any place, or the power is cut; an owner who looks says what came of calls in doubt.
    #[test]
    fn wherever_the_node_ends_no_call_takes_place_twice_and_nothing_that_was_heard_is_lost(
        steps in prop::collection::vec(
            prop::sample::select(vec![Effect::None, Effect::Repeatable, Effect::Keyed, Effect::Final]), 1..8
        ),
        lives in prop::collection::vec((0u32..24, any::<bool>()), 0..8),
    ) {
        let mut world = World::default();
        let mut lives = lives.into_iter().chain([(1_000, false)]);
        let mut is_over = false;
        while !is_over {
            let (left, is_power_cut) = lives.next().expect("the last one is long enough");
            world.left = left;
            let mut rows = TurnRows::read(turn("one"), begin(), &world.disk).expect("whole rows");
            let doubts = rows.doubts();
            for doubt in &doubts {
                // An owner who looks whether it took place.
                let result = world.effects.get(&doubt.seq).map(|times| heard(json!([doubt.seq, times])));
                let choice = if result.is_some() { Choice::Done } else { Choice::Again };
                prop_assert_eq!(rows.clear_doubt(doubt.seq, choice, result, ("local", 0)), Ok(true));
                world.disk.extend(written(&mut rows));
                world.synced = world.disk.len();
            }
            is_over = world.run(&mut rows, &steps).is_ok();
            if !is_over && is_power_cut {
                world.disk.truncate(world.synced);
                // What was heard meanwhile is lost with the power, and nobody outside has heard of it.
                world.heard.clear();
            }
            for (number, effect) in (0u32..).zip(&steps) {
                let times = world.effects.get(&number).copied().unwrap_or_default();
                if matches!(effect, Effect::Keyed | Effect::Final) {
                    prop_assert!(times <= 1, "step {} took place {} times", number, times);
                }
            }
        }
        prop_assert_eq!(world.heard.len(), steps.len());
    }

    /// The same of calls that are made at once, and in another order each time.
    #[test]
    fn wherever_the_node_ends_no_call_without_an_order_takes_place_twice(
        calls in prop::collection::vec(0u32..3, 1..7),
        lives in prop::collection::vec((0u32..24, any::<usize>()), 0..8),
    ) {
        // Alike are those with the same number.
        let effects = [Effect::Repeatable, Effect::Keyed, Effect::Final];
        let calls: Vec<(u32, Effect)> =
            calls.into_iter().map(|number| (number, effects[number as usize])).collect();
        let mut crowd = Crowd::default();
        let mut lives = lives.into_iter().chain([(1_000, 0)]);
        let mut is_over = false;
        while !is_over {
            let (left, turned) = lives.next().expect("the last one is long enough");
            crowd.left = left;
            let rows = TurnRows::read(turn("one"), begin(), &crowd.disk).expect("whole rows");
            let mut rows = rows.in_any_order();
            for doubt in rows.doubts() {
                // An owner who looks whether it took place.
                let key = crowd.keys[&doubt.seq];
                let made = crowd.effects.iter().find(|((_, of), _)| *of == key).map(|((number, _), _)| *number);
                let choice = if made.is_some() { Choice::Done } else { Choice::Again };
                let result = made.map(|number| heard(json!(number)));
                prop_assert_eq!(rows.clear_doubt(doubt.seq, choice, result, ("local", 0)), Ok(true));
                crowd.disk.extend(written(&mut rows));
            }
            let mut order = calls.clone();
            order.rotate_left(turned % calls.len());
            is_over = crowd.run(&mut rows, &order).is_ok();
            for number in [1, 2] {
                let alike = calls.iter().filter(|(of, _)| *of == number).count();
                let made: Vec<u32> =
                    crowd.effects.iter().filter(|((of, _), _)| *of == number).map(|(_, times)| *times).collect();
                prop_assert!(made.len() <= alike && made.iter().all(|times| *times == 1), "{}: {:?}", number, made);
            }
        }
    }
}

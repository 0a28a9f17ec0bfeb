//! The rows of journals and of notes: good ones, and such as a node refuses.

use althing_execution::journal::{Clock, Effect, Reading};
use althing_execution::notes::{Note, NoteKind};
use althing_protocol::contract::DataLabel;
use althing_protocol::{Digest, Label, SecretKey, digest, hex};
use serde_json::{Value, json};

use super::cases::{Case, NOW_MS, TOOL, agent, arguments_digest, bad, caller, good, session, turn};
use crate::machine::session::replay_row::{CheckpointRow, ReadsRow};
use crate::machine::session::row::{
    Begin, Choice, GroupAttempt, IntentRow, NoteRow, NoteWord, ResolvedRow, RestartRow, ResultRow, Row, RowBody,
    StepEffect, StepKind,
};
use crate::machine::session::{NoteRows, SessionId};

const LABEL: Label = Label { level: DataLabel::Confidential, trusted: false };

/// The rows of a turn or of notes, with the number in each key.
type Rows = Vec<(u32, Vec<u8>)>;

pub fn all() -> Vec<Case> {
    [rows(), bad_rows(), journals(), bad_journals(), broken(), notes()].into_iter().flatten().collect()
}

/// A beginning with the members that each has.
fn begin() -> Begin {
    Begin {
        task: "task-1".to_owned(),
        message: "m-1".to_owned(),
        agent: agent().to_string(),
        version: "1.0.0".to_owned(),
        binding: "hash-1".to_owned(),
        epoch: 0,
        principals: vec!["local".to_owned()],
        extensions: Vec::new(),
        label: None,
        session: None,
        delegation: None,
        metadata: None,
        modes: None,
        history_length: None,
        within_ms: None,
        began_ms: NOW_MS,
        seed: [9; 32],
        caller: None,
        attempt: None,
    }
}

/// One with all members.
fn full_begin() -> Begin {
    Begin {
        epoch: 2,
        principals: vec!["token:alice".to_owned(), caller().to_string()],
        extensions: vec!["https://example.org/ext".to_owned()],
        label: Some(Label { level: DataLabel::Internal, trusted: true }),
        session: Some(vec![0x0b; 32].into()),
        delegation: Some(vec![1, 2].into()),
        metadata: Some(b"{\"a\":1}".to_vec().into()),
        modes: Some(vec!["text/plain".to_owned()]),
        history_length: Some(3),
        within_ms: Some(60_000),
        caller: Some(SecretKey::from_seed(&[3; 32]).public()),
        attempt: Some(GroupAttempt { group: "g-1".to_owned(), task: "t-1".to_owned(), token: 7 }),
        ..begin()
    }
}

/// That a call of the tool is about to be made.
fn intent(step: u32, effect: Effect) -> IntentRow {
    let (call, kind, name) = (arguments_digest(), StepKind::Tool, TOOL.to_owned());
    IntentRow { step, kind, name, call, effect: effect.into(), key: turn().call_key(&call, step, 0), callee: None }
}

/// A part of what came of it; so many follow.
fn part(step: u32, effect: Effect, more: u32, bytes: &str) -> ResultRow {
    ResultRow {
        step,
        kind: StepKind::Tool,
        name: TOOL.to_owned(),
        call: arguments_digest(),
        effect: effect.into(),
        more,
        is_result: true,
        bytes: bytes.as_bytes().to_vec().into(),
        tokens: 0,
        label: None,
    }
}

fn begins() -> RowBody {
    RowBody::Begin(Box::new(begin()))
}

fn intends(step: u32, effect: Effect) -> RowBody {
    RowBody::Intent(intent(step, effect))
}

fn ends(step: u32, effect: Effect) -> RowBody {
    RowBody::Result(part(step, effect, 0, "{\"sent\":1}"))
}

fn resolves(step: u32, choice: Choice) -> RowBody {
    RowBody::Resolved(ResolvedRow { step, choice, by: "local".to_owned() })
}

fn saves(step: u32) -> RowBody {
    let bytes = b"statesaid".to_vec().into();
    RowBody::Checkpoint(CheckpointRow { step, more: 0, state_bytes: 5, bytes, label: Some(LABEL) })
}

fn reads() -> RowBody {
    let wall = Reading { clock: Clock::Wall, ns: 1_700_000_000_000_000_000 };
    RowBody::Reads(ReadsRow::of(&[wall, Reading { clock: Clock::Monotonic, ns: 7 }]))
}

fn note() -> RowBody {
    let (kind, text, key) = (NoteWord::Remaining, "Pages 8 to 12.".to_owned(), Some(vec![0x0e; 32].into()));
    RowBody::Note(NoteRow { kind, text, key, label: Some(LABEL) })
}

fn restarts(step: u32) -> RowBody {
    let (version, binding) = ("2.0.0".to_owned(), "hash-2".to_owned());
    RowBody::Restart(RestartRow { step, version, binding, by: "local".to_owned(), said_ms: NOW_MS + 60_000 })
}

/// A row with that before it.
fn row(seq: u32, body: RowBody) -> Row {
    Row { seq, previous: [0x0d; 32], at_ms: NOW_MS, body }
}

/// The bytes of a row where one of the number `expected` is, with that number in its key.
fn read_at(bytes: &[u8], number: u32, expected: u32) -> Value {
    let previous = hex(&[0x0d; 32]);
    json!({ "document": "row", "number": number, "expected": expected, "previous": previous, "bytes": hex(bytes) })
}

fn rows() -> Vec<Case> {
    let (host, before) = (SecretKey::from_seed(&[3; 32]).public(), Some(agent().to_string()));
    let called = IntentRow { callee: Some(format!("{} {host}", agent())), ..intent(0, Effect::Keyed) };
    let called_before = IntentRow { callee: before, ..intent(0, Effect::Keyed) };
    let failure =
        ResultRow { is_result: false, tokens: 12, label: Some(LABEL), ..part(1, Effect::Keyed, 2, "refused") };
    let asked = ResultRow { kind: StepKind::Model, name: "models".to_owned(), ..part(0, Effect::Repeatable, 0, "{}") };
    let remembered = ResultRow { kind: StepKind::Recall, effect: StepEffect::None, ..part(0, Effect::None, 0, "[]") };
    let short = NoteRow { kind: NoteWord::Done, text: "x".to_owned(), key: None, label: None };
    let mut unknown = row(3, resolves(2, Choice::Again)).encode();
    unknown[0] += 1;
    unknown.extend([9, 1]);
    let of = |name: &'static str, seq: u32, body: RowBody| good(name, read_at(&row(seq, body).encode(), seq, seq));
    vec![
        of("a beginning with the members that each has", 0, begins()),
        of("a beginning with all members", 0, RowBody::Begin(Box::new(full_begin()))),
        of("an intent of a final call", 3, intends(2, Effect::Final)),
        of("an intent of a keyed call of another agent", 3, RowBody::Intent(called)),
        of("the same from before nodes were named", 3, RowBody::Intent(called_before)),
        of("a result", 4, ends(2, Effect::Final)),
        of("a part of the reason why there is none", 4, RowBody::Result(failure)),
        of("a completion", 1, RowBody::Result(asked)),
        of("what the memory had", 1, RowBody::Result(remembered)),
        of("a call in doubt that was carried out", 5, resolves(2, Choice::Done)),
        of("a call in doubt that failed", 5, resolves(2, Choice::Failed)),
        of("a checkpoint", 6, saves(2)),
        of("what clocks said", 7, reads()),
        of("a note", 0, note()),
        of("a note with the members that each has", 1, RowBody::Note(short)),
        of("a turn that goes on anew", 8, restarts(2)),
        good("a row with a member that this version does not know", read_at(&unknown, 3, 3)),
    ]
}

fn bad_rows() -> Vec<Case> {
    let whole = row(3, RowBody::Reads(ReadsRow::of(&[]))).encode();
    let mut unknown = whole.clone();
    // The number of the body, before its one member and an empty string of bytes.
    let at = unknown.len() - 5;
    unknown[at] = 8;
    // Before the key of its body.
    let mut bodiless = whole[..48].to_vec();
    bodiless[0] -= 1;
    let other = Row { previous: [0x0c; 32], ..row(3, reads()) }.encode();
    let foreign = Row { previous: [0x0c; 32], ..row(0, begins()) }.encode();
    vec![
        bad("a row that is cut", "RowError::Form", read_at(&whole[..whole.len() - 1], 3, 3)),
        bad("a row without a body", "RowError::Form", read_at(&bodiless, 3, 3)),
        bad("a row with a body that this version does not know", "RowError::Form", read_at(&unknown, 3, 3)),
        bad("a row after others that are missing", "RowError::Gap", read_at(&whole, 3, 2)),
        bad("a row at another place", "RowError::Order", read_at(&whole, 4, 4)),
        bad("a row that came before", "RowError::Order", read_at(&whole, 3, 4)),
        bad("a row that does not follow the one before it", "RowError::Chain", read_at(&other, 3, 3)),
        bad("the first row of another turn", "RowError::Foreign", read_at(&foreign, 0, 0)),
    ]
}

/// Rows that follow one another, a millisecond each.
fn follow(seq: u32, previous: Digest, bodies: Vec<RowBody>) -> Rows {
    let mut last = previous;
    let next = |(seq, body): (u32, RowBody)| {
        let row = Row { seq, previous: last, at_ms: NOW_MS + u64::from(seq), body }.encode();
        last = digest(&row);
        (seq, row)
    };
    (seq..).zip(bodies).map(next).collect()
}

/// The rows of the turn, from its first one.
fn chain(bodies: Vec<RowBody>) -> Rows {
    follow(0, turn().origin(), bodies)
}

/// The rows of the turn that wrote a checkpoint as row 6: what was between is deleted.
fn saved(bodies: Vec<RowBody>) -> Rows {
    let first = chain(vec![begins()]);
    let after = follow(6, digest(&first[0].1), [vec![saves(2)], bodies].concat());
    [first, after].concat()
}

fn listed(document: &str, session: SessionId, rows: &[(u32, Vec<u8>)]) -> Value {
    let shown = |(number, bytes): &(u32, Vec<u8>)| json!({ "number": number, "bytes": hex(bytes) });
    let rows: Vec<Value> = rows.iter().map(shown).collect();
    json!({ "document": document, "session": hex(&session.0), "rows": rows })
}

fn journals() -> Vec<Case> {
    let of = |name: &'static str, rows: Rows| good(name, listed("journal", session(), &rows));
    let then = |more: Vec<RowBody>| chain([vec![begins(), intends(0, Effect::Final)], more].concat());
    let (first, last) = (part(0, Effect::Repeatable, 1, "\"he"), part(0, Effect::Repeatable, 0, "llo\""));
    vec![
        of("a turn that began", chain(vec![begins()])),
        of("a final call and what came of it", then(vec![ends(0, Effect::Final)])),
        of("a final call of which nothing is known", then(vec![ends(0, Effect::Final), intends(1, Effect::Final)])),
        of("a keyed call of which nothing is known", chain(vec![begins(), intends(0, Effect::Keyed)])),
        of("a call in doubt that is to be made again", then(vec![resolves(0, Choice::Again)])),
        of(
            "a call in doubt that was made again and is in doubt again",
            then(vec![resolves(0, Choice::Again), intends(0, Effect::Final)]),
        ),
        of("a call in doubt whose result is known", then(vec![resolves(0, Choice::Done), ends(0, Effect::Final)])),
        of("a call in doubt that is given up", then(vec![resolves(0, Choice::Failed)])),
        of("a result in two parts", chain(vec![begins(), RowBody::Result(first), RowBody::Result(last)])),
        of("what clocks said before a step", chain(vec![begins(), reads(), ends(0, Effect::None)])),
        of(
            "two calls at once, the second of which is in doubt",
            chain(vec![begins(), intends(1, Effect::Final), intends(0, Effect::Final), ends(0, Effect::Final)]),
        ),
        of("a turn that goes on from a checkpoint", saved(vec![ends(2, Effect::Repeatable)])),
        of("a call in doubt after a checkpoint", saved(vec![intends(2, Effect::Final)])),
        of(
            "a turn that went on anew",
            chain(vec![begins(), ends(0, Effect::None), intends(1, Effect::Keyed), restarts(1)]),
        ),
    ]
}

/// Rows that follow one another, and are not those of a turn.
fn bad_journals() -> Vec<Case> {
    let of = |name: &'static str, rows: Rows| bad(name, "Damage", listed("journal", session(), &rows));
    let then = |more: Vec<RowBody>| chain([vec![begins()], more].concat());
    let piece = |more: u32, bytes: &str| RowBody::Result(part(0, Effect::Repeatable, more, bytes));
    let other = ResultRow { call: [0x0c; 32], ..part(0, Effect::Final, 0, "{}") };
    vec![
        of("no rows", Rows::new()),
        of("rows without a beginning", chain(vec![ends(0, Effect::None)])),
        of("a second beginning", then(vec![begins()])),
        of("an intent of a call that may be repeated", then(vec![intends(0, Effect::Repeatable)])),
        of("two intents of one call", then(vec![intends(0, Effect::Keyed), intends(0, Effect::Keyed)])),
        of("a result of a final call that was not made", then(vec![ends(0, Effect::Final)])),
        of("two results of one call", then(vec![ends(0, Effect::None), ends(0, Effect::None)])),
        of("a result of another call", then(vec![intends(0, Effect::Final), RowBody::Result(other)])),
        of("a result that is no JSON", then(vec![piece(0, "he")])),
        of("a result that is cut", then(vec![piece(1, "\"he")])),
        of("a result without one of its parts", then(vec![piece(2, "\"h"), piece(0, "llo\"")])),
        of("another row within a result", then(vec![piece(1, "\"he"), reads(), piece(0, "llo\"")])),
        of(
            "a word about a call that was not in doubt",
            then(vec![intends(0, Effect::Keyed), resolves(0, Choice::Failed)]),
        ),
        of("a checkpoint that does not follow the beginning", then(vec![ends(0, Effect::None), saves(1)])),
        of("a step from before the checkpoint", saved(vec![ends(1, Effect::None)])),
        of(
            "a final call that is forgotten",
            then(vec![intends(0, Effect::Final), ends(0, Effect::Final), restarts(0)]),
        ),
        of("a turn that went on anew from before its checkpoint", saved(vec![restarts(1)])),
        of("a note among the rows of a turn", then(vec![note()])),
    ]
}

/// The rows of a turn, not as they were written.
fn broken() -> Vec<Case> {
    let whole = || chain(vec![begins(), intends(0, Effect::Final), ends(0, Effect::Final), intends(1, Effect::Final)]);
    let of = |name: &'static str, change: fn(&mut Rows)| {
        let mut rows = whole();
        change(&mut rows);
        bad(name, "Damage", listed("journal", session(), &rows))
    };
    let elsewhere = SessionId::of(&agent(), &caller().to_string(), "context-2");
    vec![
        of("a row is missing", |rows| drop(rows.remove(1))),
        of("the last rows, without the first", |rows| drop(rows.drain(..2))),
        of("rows that changed their places", |rows| {
            let one = rows[1].1.clone();
            rows[1].1 = std::mem::replace(&mut rows[2].1, one);
        }),
        // The last byte of the time.
        of("a row that was changed", |rows| rows[1].1[47] ^= 1),
        of("a row that was deleted for a checkpoint", |rows| {
            let saved = follow(6, digest(&rows[0].1), vec![saves(2)]);
            rows.truncate(2);
            rows.extend(saved);
        }),
        bad("the rows of a turn of another session", "Damage", listed("journal", elsewhere, &whole())),
    ]
}

fn notes() -> Vec<Case> {
    let mut notes = NoteRows::read(session(), &[]).expect("none");
    let mut add = |kind: NoteKind, text: &str, key: Option<[u8; 32]>, label: Option<Label>| {
        let added = notes.add(Note { kind, text: text.to_owned(), label }, key, NOW_MS);
        let (place, row) = added.expect("there is room").expect("it is new");
        (u32::from_be_bytes(*place.last_chunk().expect("a number")), row)
    };
    let rows = vec![
        add(NoteKind::Decision, "Ask ada first.", Some([0x0e; 32]), Some(LABEL)),
        add(NoteKind::Pitfall, "The gate shuts at six.", None, None),
    ];
    let of = |rows: &[(u32, Vec<u8>)]| listed("notes", session(), rows);
    let elsewhere = SessionId::of(&agent(), &caller().to_string(), "context-2");
    vec![
        good("the notes of a session", of(&rows)),
        good("a session without notes", of(&[])),
        bad("notes without the first one", "NoteError::Damaged", of(&rows[1..])),
        bad("notes of another session", "NoteError::Damaged", listed("notes", elsewhere, &rows)),
        bad("a row of a turn among notes", "NoteError::Damaged", of(&chain(vec![begins()]))),
    ]
}

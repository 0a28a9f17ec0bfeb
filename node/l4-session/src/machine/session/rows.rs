//! The rows of one turn: what they say of its steps, and the rows that follow.

mod chain;
mod checkpoint;
mod restart;

use std::collections::{BTreeMap, VecDeque};

use althing_execution::journal::{Checkpoint, Effect, Intent, JournalError, READINGS_MAX, Reading, StepOutcome};
use althing_execution::tools::CallKind;
use althing_protocol::{Digest, Label};
use serde_json::Value;

use super::call_digest::call_digest;
use super::replay_row::ReadsRow;
use super::row::{Begin, Choice, IntentRow, ResolvedRow, RestartRow, ResultRow, Row, RowBody, StepEffect, StepKind};
use super::{PART_BYTES_MAX, TurnId};
use chain::RowChain;

pub(super) use chain::KEY_BYTES;
pub use restart::RestartError;

const CUT_OFF: &str = "the rest of a result is missing";
/// What an agent hears of a call that was in doubt and is given up.
const GIVEN_UP: &str = "its node ended during this call, and the owner of the node says that it failed";

/// A step, without what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    kind: StepKind,
    name: String,
    /// The digest of its name and arguments.
    digest: Digest,
    effect: StepEffect,
}

impl Call {
    /// A step with these arguments.
    #[must_use]
    pub fn of(kind: CallKind, name: &str, arguments: &Value, effect: Effect) -> Call {
        let digest = call_digest(kind, name, arguments);
        Call { kind: kind.into(), name: name.to_owned(), digest, effect: effect.into() }
    }

    /// Whether it is the same step. What it does if it is made twice may be declared otherwise by now.
    fn is_as(&self, other: &Call) -> bool {
        (self.kind, &self.name, self.digest) == (other.kind, &other.name, other.digest)
    }
}

/// How far a step came.
#[derive(Debug, Clone, PartialEq)]
enum Progress {
    /// It was let go, and nothing is known of it yet; it may be made again with its key.
    UnderWay,
    /// It was let go before the node ended, nothing is known of it, and it must not be made twice.
    InDoubt { since_ms: u64 },
    /// Somebody said that it is to be made again.
    Free,
    /// This came of it.
    Over(StepOutcome),
}

#[derive(Debug, Clone, PartialEq)]
struct StepRows {
    call: Call,
    /// Of a step that has an intent.
    key: Option<Digest>,
    callee: Option<String>,
    progress: Progress,
}

/// The parts of a result that were read.
struct Parts {
    step: u32,
    /// How many follow.
    more: u32,
    bytes: Vec<u8>,
}

/// A call of which nobody knows whether it took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// The number of the step in its turn.
    pub seq: u32,
    /// `server/tool`.
    pub name: String,
    /// When it was about to be made, Unix milliseconds.
    pub since_ms: u64,
}

/// What is wrong with the rows of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The number of the step that is read at that place.
    pub step: u32,
    /// What is wrong, in words.
    pub what: String,
}

/// What follows for a step that is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// It was made, and this came of it.
    Replayed(StepOutcome),
    /// It may be made.
    Go(Intent),
    /// It may be made when its intent is on disk: [`TurnRows::intend`].
    Intend(u32),
}

/// The rows of one turn.
#[derive(Debug, Clone)]
pub struct TurnRows {
    begin: Begin,
    /// The rows, one after another.
    chain: RowChain,
    /// From where it goes on, as far as it was not taken.
    checkpoint: Option<Checkpoint>,
    /// The step that followed the last checkpoint, or the beginning.
    since: u32,
    /// What clocks said, as rows have it, as far as it was not taken.
    readings: Vec<Reading>,
    /// What clocks said since the last row.
    unwritten: Vec<Reading>,
    /// Those that have rows, or are under way; what was told again is dropped.
    steps: BTreeMap<u32, StepRows>,
    /// The next step that the turn reaches.
    next: u32,
    /// How often each call was reached.
    calls: BTreeMap<Digest, u32>,
    /// The steps that are to be reached again by what each calls, in their order; of a turn whose steps have no order.
    unordered: Option<BTreeMap<Digest, VecDeque<u32>>>,
    /// How the turn went on anew, if it did; the last time counts.
    restart: Option<RestartRow>,
    /// How many readings rows have by the last row of each step.
    read_by: BTreeMap<u32, usize>,
}

impl Progress {
    fn of_intent(effect: StepEffect, at_ms: u64) -> Progress {
        match effect {
            StepEffect::Final => Progress::InDoubt { since_ms: at_ms },
            _ => Progress::UnderWay,
        }
    }

    fn choose(&mut self, choice: Choice) {
        match choice {
            // Its result follows, in the same batch.
            Choice::Done => {}
            Choice::Again => *self = Progress::Free,
            Choice::Failed => *self = Progress::Over(given_up()),
        }
    }
}

impl StepRows {
    /// A step that the turn reaches for the first time, with the key of its call; and what follows for it.
    fn first(seq: u32, call: Call, key: Digest) -> (StepRows, Next) {
        let has_intent = call.effect.has_intent();
        let next = if has_intent { Next::Intend(seq) } else { Next::Go(Intent { seq, key, callee: None }) };
        let key = has_intent.then_some(key);
        (StepRows { call, key, callee: None, progress: Progress::UnderWay }, next)
    }

    /// That nobody knows whether its call took place; none if somebody does.
    fn doubt(&self, seq: u32) -> Option<Doubt> {
        match self.progress {
            Progress::InDoubt { since_ms } => Some(Doubt { seq, name: self.call.name.clone(), since_ms }),
            _ => None,
        }
    }

    /// What follows for a step that has rows, or is under way, where the turn reaches it with that call; none if what came of it is
    /// told again. `key` is the call's, of a step that has none of its own; `room` says whether there is room for an intent and a
    /// result.
    fn reached(
        &self,
        seq: u32,
        call: &Call,
        key: Digest,
        room: Result<(), JournalError>,
    ) -> Result<Option<Next>, JournalError> {
        if !self.call.is_as(call) {
            let other = if self.call.name == call.name { " with other arguments" } else { "" };
            let (was, came) = (self.call.name.clone(), format!("{}{other}", call.name));
            return Err(JournalError::Diverged { seq, was, came });
        }
        match &self.progress {
            Progress::Over(_) => Ok(None),
            Progress::InDoubt { .. } => Err(JournalError::InDoubt { seq, name: call.name.clone() }),
            Progress::Free => room.map(|()| Some(Next::Intend(seq))),
            Progress::UnderWay => {
                Ok(Some(Next::Go(Intent { seq, key: self.key.unwrap_or(key), callee: self.callee.clone() })))
            }
        }
    }
}

pub(super) fn result_of(is_result: bool, whole: Vec<u8>) -> Result<Result<serde_json::Value, String>, &'static str> {
    const UNREADABLE: &str = "its result cannot be read";
    Ok(match is_result {
        true => Ok(serde_json::from_slice(&whole).map_err(|_| UNREADABLE)?),
        false => Err(String::from_utf8(whole).map_err(|_| UNREADABLE)?),
    })
}

/// The steps by what each calls, those that are alike in their order.
fn by_call(steps: &BTreeMap<u32, StepRows>) -> BTreeMap<Digest, VecDeque<u32>> {
    let mut found: BTreeMap<Digest, VecDeque<u32>> = BTreeMap::new();
    for (seq, known) in steps {
        found.entry(known.call.digest).or_default().push_back(*seq);
    }
    found
}

impl TurnRows {
    /// A turn without rows.
    #[must_use]
    pub fn new(turn: TurnId, begin: Begin) -> TurnRows {
        TurnRows {
            begin,
            chain: RowChain::new(turn),
            checkpoint: None,
            since: 0,
            readings: Vec::new(),
            unwritten: Vec::new(),
            steps: BTreeMap::new(),
            next: 0,
            calls: BTreeMap::new(),
            unordered: None,
            restart: None,
            read_by: BTreeMap::new(),
        }
    }

    /// The same, of a turn that makes several steps at once, and in another order when it begins again: each is found by what it
    /// calls with which arguments, and of those that are alike the first one first.
    #[must_use]
    pub fn in_any_order(mut self) -> TurnRows {
        self.next = self.steps.last_key_value().map_or(self.next, |(last, _)| last.saturating_add(1));
        self.unordered = Some(by_call(&self.steps));
        self
    }

    /// Reads the rows of a turn in the order of their keys, with the number in each key. All steps are to be reached again.
    ///
    /// # Errors
    /// [`Damage`]: they are not the rows that were written.
    pub fn read(turn: TurnId, begin: Begin, rows: &[(u32, Vec<u8>)]) -> Result<TurnRows, Damage> {
        let mut read = TurnRows::new(turn, begin);
        let mut parts: Option<Parts> = None;
        for (key, bytes) in rows {
            let step = read.steps.last_key_value().map_or(0, |(step, _)| *step);
            read.chain.skip_to(*key, bytes);
            let (at, is_first) = (read.chain.next_row(), read.chain.is_empty());
            let wrong = |what: String| Damage { step, what: format!("row {at}: {what}") };
            let (row, digest) = read.chain.decode(*key, bytes).map_err(wrong)?;
            take_row(&mut read, row, is_first, &mut parts).map_err(|what| wrong(what.to_owned()))?;
            read.chain.take(digest, bytes.len());
        }
        match parts {
            None => Ok(read),
            Some(Parts { step, .. }) => Err(Damage { step, what: CUT_OFF.to_owned() }),
        }
    }

    /// Which turn it is.
    #[must_use]
    pub fn turn(&self) -> &TurnId {
        self.chain.turn()
    }

    /// With what it began.
    #[must_use]
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// How many rows it has, and their bytes, also of those that are not written yet.
    #[must_use]
    pub fn size(&self) -> (u32, u64) {
        self.chain.size()
    }

    /// The keys of all its rows, also of those that are not written or not deleted yet.
    pub fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.chain.keys()
    }

    /// Takes what clocks said before the node ended, to be told again.
    pub fn take_tape(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.readings)
    }

    /// Adds what clocks said; it is written with the next row.
    pub fn note_readings(&mut self, readings: Vec<Reading>) {
        self.unwritten.extend(readings);
    }

    /// The number of the next step.
    #[must_use]
    pub fn next_step(&self) -> u32 {
        self.next
    }

    /// Whether a step is under way, or has rows and was not reached again.
    #[must_use]
    pub fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The calls of which nobody knows whether they took place.
    #[must_use]
    pub fn doubts(&self) -> Vec<Doubt> {
        self.steps.iter().filter_map(|(seq, known)| known.doubt(*seq)).collect()
    }

    /// The label of what came with the call that the turn answers, and of what its steps brought, as far as that is not told yet.
    #[must_use]
    pub fn label(&self) -> Option<Label> {
        let brought = self.steps.values().filter_map(|known| match &known.progress {
            Progress::Over(outcome) => outcome.label,
            Progress::UnderWay | Progress::InDoubt { .. } | Progress::Free => None,
        });
        brought.fold(self.begin.label, |label, more| Label::of_both(label, Some(more)))
    }

    /// What is in doubt once a step is let go, until something comes of it; nothing of one that may be made twice.
    #[must_use]
    pub fn final_call(&self, seq: u32, since_ms: u64) -> Option<Doubt> {
        let known = self.steps.get(&seq).filter(|known| known.call.effect == StepEffect::Final)?;
        Some(Doubt { seq, name: known.call.name.clone(), since_ms })
    }

    /// The turn reaches a step: the next one, or of a turn whose steps have no order any that it did not reach yet.
    ///
    /// # Errors
    /// [`JournalError::Diverged`], [`JournalError::InDoubt`], and [`JournalError::TooLong`] of a new step.
    pub fn reach(&mut self, call: Call) -> Result<Next, JournalError> {
        let digest = call.digest;
        let known = self.unordered.as_mut().and_then(|steps| steps.get_mut(&digest)?.pop_front());
        let seq = known.unwrap_or(self.next);
        let occurrence = self.calls.get(&digest).copied().unwrap_or_default();
        let key = self.chain.turn().call_key(&digest, occurrence, self.since);
        let next = match self.steps.get(&seq) {
            None => {
                self.chain.check_room()?;
                let (known, next) = StepRows::first(seq, call, key);
                self.steps.insert(seq, known);
                next
            }
            Some(known) => match known.reached(seq, &call, key, self.chain.check_room())? {
                Some(next) => next,
                // Told once: it need not stay for that.
                None => match self.steps.remove(&seq) {
                    Some(StepRows { progress: Progress::Over(outcome), .. }) => Next::Replayed(outcome),
                    _ => return Err(unknown(seq)),
                },
            },
        };
        self.next = self.next.max(seq.saturating_add(1));
        self.calls.insert(digest, occurrence + 1);
        Ok(next)
    }

    /// Whether the intent of a step names nobody yet.
    #[must_use]
    pub fn is_new(&self, seq: u32) -> bool {
        self.steps.get(&seq).is_some_and(|known| known.progress == Progress::UnderWay)
    }

    /// Whether a step that was reached has an intent.
    #[must_use]
    pub fn has_intent(&self, seq: u32) -> bool {
        self.steps.get(&seq).is_some_and(|known| known.key.is_some())
    }

    /// Whether its steps have an order.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.unordered.is_none()
    }

    /// How many of the next steps it has rows of; none where they have no order.
    #[must_use]
    pub fn ahead(&self) -> usize {
        let known = self.steps.range(self.next..).map(|(seq, _)| *seq);
        let follow = (self.next..u32::MAX).zip(known).take_while(|(next, known)| next == known);
        if self.is_ordered() { follow.count() } else { 0 }
    }

    /// Adds that a step was denied: it did nothing outside, whatever it would have done.
    ///
    /// # Errors
    /// [`JournalError::TooLong`].
    pub fn deny(&mut self, seq: u32, outcome: &StepOutcome, now_ms: u64) -> Result<(), JournalError> {
        let Some(known) = self.steps.get_mut(&seq) else { return Err(unknown(seq)) };
        known.call.effect = StepEffect::None;
        self.finish(seq, outcome, now_ms).map(drop)
    }

    /// Adds the intent of a step that was reached; `callee` is whom its name stands for, unless an earlier intent says that.
    ///
    /// # Errors
    /// [`JournalError::TooLong`].
    pub fn intend(&mut self, seq: u32, callee: Option<String>, now_ms: u64) -> Result<Intent, JournalError> {
        let Some(known) = self.steps.get_mut(&seq) else { return Err(unknown(seq)) };
        known.callee = known.callee.take().or(callee);
        known.progress = Progress::UnderWay;
        let Some(key) = known.key else { return Err(unknown(seq)) };
        let Call { kind, name, digest: call, effect } = known.call.clone();
        let callee = known.callee.clone();
        let row = IntentRow { step: seq, kind, name, call, effect, key, callee: callee.clone() };
        self.append(vec![RowBody::Intent(row)], now_ms)?;
        Ok(Intent { seq, key, callee })
    }

    /// Adds what came of a step. Gives whether the call must not be made twice, so that its result is soon on disk for good.
    ///
    /// # Errors
    /// [`JournalError::TooLong`].
    pub fn finish(&mut self, seq: u32, outcome: &StepOutcome, now_ms: u64) -> Result<bool, JournalError> {
        let Some(known) = self.steps.get(&seq) else { return Err(unknown(seq)) };
        let call = known.call.clone();
        self.append(result_rows(seq, &call, outcome), now_ms)?;
        self.steps.remove(&seq);
        Ok(call.effect == StepEffect::Final)
    }

    /// Adds what somebody says of a call in doubt; false if it is not in doubt. `outcome` is its result, of one that took place.
    ///
    /// # Errors
    /// [`JournalError::TooLong`].
    pub fn clear_doubt(
        &mut self,
        seq: u32,
        choice: Choice,
        outcome: Option<StepOutcome>,
        (by, now_ms): (&str, u64),
    ) -> Result<bool, JournalError> {
        let known = self.steps.get(&seq).filter(|known| matches!(known.progress, Progress::InDoubt { .. }));
        let Some(call) = known.map(|known| known.call.clone()) else { return Ok(false) };
        let mut rows = vec![RowBody::Resolved(ResolvedRow { step: seq, choice, by: by.to_owned() })];
        let progress = match (choice, outcome) {
            (Choice::Again, _) => Progress::Free,
            (Choice::Done, Some(outcome)) => {
                rows.extend(result_rows(seq, &call, &outcome));
                Progress::Over(outcome)
            }
            (Choice::Failed, _) | (Choice::Done, None) => Progress::Over(given_up()),
        };
        self.append(rows, now_ms)?;
        if let Some(known) = self.steps.get_mut(&seq) {
            known.progress = progress;
        }
        Ok(true)
    }

    /// The rows that are not known to be written, with their keys; all of them are written at once, and may be written again.
    pub fn pending(&self) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        self.chain.pending()
    }

    /// The keys of rows that are not known to be deleted, in the batch in which the others are written.
    pub fn dropped(&self) -> impl Iterator<Item = Vec<u8>> {
        self.chain.dropped()
    }

    /// Whether none of its rows is known to be written.
    #[must_use]
    pub fn is_unwritten(&self) -> bool {
        self.chain.is_unwritten()
    }

    /// The pending rows are written, and those that were dropped are deleted.
    pub fn settle(&mut self) {
        self.chain.settle();
    }

    /// Adds rows, all or none; before the first ones the beginning, and before each what clocks said until then.
    fn append(&mut self, bodies: Vec<RowBody>, at_ms: u64) -> Result<(), JournalError> {
        let begin = self.chain.is_empty().then(|| RowBody::Begin(Box::new(self.begin.clone())));
        let readings = (!self.unwritten.is_empty()).then(|| RowBody::Reads(ReadsRow::of(&self.unwritten)));
        self.chain.append(begin.into_iter().chain(readings).chain(bodies), at_ms)?;
        self.unwritten.clear();
        Ok(())
    }
}

/// The bytes of a result or a checkpoint once its last part is there; none before that.
fn joined(parts: &mut Option<Parts>, (step, more): (u32, u32), bytes: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    let mut whole = match parts.take() {
        None => Vec::new(),
        Some(before) if (before.step, before.more) == (step, more.saturating_add(1)) => before.bytes,
        Some(_) => return Err("a part of a result is missing"),
    };
    whole.extend_from_slice(bytes);
    if more == 0 {
        return Ok(Some(whole));
    }
    *parts = Some(Parts { step, more, bytes: whole });
    Ok(None)
}

/// A step that was not reached: a fault of the caller, after which the turn cannot go on.
fn unknown(seq: u32) -> JournalError {
    JournalError::Damaged { what: format!("step {seq}: the turn never reached it") }
}

pub(super) fn given_up() -> StepOutcome {
    StepOutcome { result: Err(GIVEN_UP.to_owned()), tokens: 0, label: None }
}

/// The rows of what came of a step: several, if it is long.
fn result_rows(step: u32, call: &Call, outcome: &StepOutcome) -> Vec<RowBody> {
    let (is_result, bytes) = match &outcome.result {
        Ok(result) => (true, result.to_string().into_bytes()),
        Err(reason) => (false, reason.clone().into_bytes()),
    };
    let mut parts: Vec<&[u8]> = bytes.chunks(PART_BYTES_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let row = |(left, part): (usize, &[u8])| {
        RowBody::Result(ResultRow {
            step,
            kind: call.kind,
            name: call.name.clone(),
            call: call.digest,
            effect: call.effect,
            more: u32::try_from(left).unwrap_or(u32::MAX),
            is_result,
            bytes: part.to_vec().into(),
            tokens: outcome.tokens,
            label: outcome.label,
        })
    };
    (0..parts.len()).rev().zip(parts).map(row).collect()
}

/// Takes a row that was read, the first one or one that follows; `parts` are those of a result or a checkpoint that goes on.
fn take_row(rows: &mut TurnRows, row: Row, is_first: bool, parts: &mut Option<Parts>) -> Result<(), &'static str> {
    let is_part = matches!(row.body, RowBody::Result(_) | RowBody::Checkpoint(_));
    let goes_on = parts.is_some() && !is_part;
    match row.body {
        _ if goes_on => Err(CUT_OFF),
        RowBody::Begin(begin) if is_first && *begin == rows.begin => Ok(()),
        RowBody::Begin(_) => Err("it is the beginning of another turn"),
        _ if is_first => Err("the turn has no beginning"),
        RowBody::Intent(intent) => take_intent(rows, intent, row.at_ms),
        RowBody::Result(result) => take_part(rows, result, parts),
        RowBody::Resolved(resolved) => take_choice(rows, &resolved),
        RowBody::Checkpoint(part) => rows.take_checkpoint_part(&part, parts),
        RowBody::Reads(reads) => take_readings(rows, &reads),
        RowBody::Restart(restart) => rows.take_restart(restart),
        RowBody::Note(_) => Err("it is a note, and no row of a turn"),
    }
}

fn take_intent(rows: &mut TurnRows, row: IntentRow, at_ms: u64) -> Result<(), &'static str> {
    let call = Call { kind: row.kind, name: row.name, digest: row.call, effect: row.effect };
    let is_again = match rows.steps.get(&row.step) {
        // Of steps that are made at once, a later one may be written first.
        None => row.step >= rows.since,
        Some(known) => known.progress == Progress::Free && known.call == call && known.key == Some(row.key),
    };
    if !is_again || !row.effect.has_intent() {
        return Err("it says that a call is about to be made which was made");
    }
    let progress = Progress::of_intent(row.effect, at_ms);
    rows.steps.insert(row.step, StepRows { call, key: Some(row.key), callee: row.callee, progress });
    rows.read_by.insert(row.step, rows.readings.len());
    Ok(())
}

/// Takes a part of a result; the last one makes it whole.
fn take_part(rows: &mut TurnRows, part: ResultRow, parts: &mut Option<Parts>) -> Result<(), &'static str> {
    let Some(whole) = joined(parts, (part.step, part.more), &part.bytes)? else { return Ok(()) };
    let call = Call { kind: part.kind, name: part.name, digest: part.call, effect: part.effect };
    let outcome = StepOutcome { result: result_of(part.is_result, whole)?, tokens: part.tokens, label: part.label };
    let known = match rows.steps.remove(&part.step) {
        Some(known) if known.call != call || matches!(known.progress, Progress::Over(_) | Progress::Free) => {
            return Err("it is the result of another call");
        }
        Some(known) => known,
        None if call.effect.has_intent() || part.step < rows.since => {
            return Err("it is the result of a call that was not made");
        }
        None => StepRows { call, key: None, callee: None, progress: Progress::UnderWay },
    };
    rows.steps.insert(part.step, StepRows { progress: Progress::Over(outcome), ..known });
    rows.read_by.insert(part.step, rows.readings.len());
    Ok(())
}

fn take_readings(rows: &mut TurnRows, row: &ReadsRow) -> Result<(), &'static str> {
    rows.readings.extend(row.readings().ok_or("what clocks said cannot be read")?);
    if rows.readings.len() > READINGS_MAX { Err("it has more readings of clocks than a turn has") } else { Ok(()) }
}

fn take_choice(rows: &mut TurnRows, row: &ResolvedRow) -> Result<(), &'static str> {
    let known = rows.steps.get_mut(&row.step);
    let known = known.filter(|known| matches!(known.progress, Progress::InDoubt { .. }));
    let known = known.ok_or("it is about a call that was not in doubt")?;
    known.progress.choose(row.choice);
    Ok(())
}

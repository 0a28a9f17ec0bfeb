//! One handoff: both ends and their disks, and what is on its way between them, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use althing_protocol::object::{self, Authored, Handoff, HandoffAnswer, HandoffVerdict};
use althing_session::machine::handoff::{
    Acquaintance, Action, Commit, CommitError, End, Entry, HandoffId, Phase, Recipient, Room, Sender, Stage, Terms,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::{HandoffEvent, HandoffPlan, ID, Poison, Side, TOOLS, agent, offer};
use crate::sessions::flaw::Flaw;
use crate::{NETWORK, NOW_MS, key};

/// Until then messages are lost and nodes end, milliseconds.
const DISTURBED_MS: u64 = 100_000;
/// How long a node is down, at most, milliseconds.
const DOWN_MS_MAX: u64 = 80_000;
/// How long a run may take.
const RUN_MS_MAX: u64 = 3_600_000;

/// What comes at a time.
#[derive(Debug, Clone)]
enum Arrival {
    /// That wait of the giver is over.
    Tick(u64),
    Offer,
    /// With the answer as it was signed.
    Answer(HandoffVerdict, Vec<u8>),
    Commit(u64),
    CommitAnswer(u64, Result<String, CommitError>),
    /// The work has its result.
    Result,
    Start(Side),
}

/// The end that gives work away; none while its node is down.
struct Giver {
    sender: Option<Sender>,
    /// What is on its disk, if the work is given away.
    disk: Option<(Stage, Vec<u8>)>,
    /// The last acceptance, as it was signed.
    proof: Vec<u8>,
    /// The number of its last wait; earlier ones say nothing any more.
    wait: u64,
}

/// The end that takes it; none while its node is down.
struct Taker {
    recipient: Option<Recipient>,
    /// What is on its disk: the row, and the task once it began.
    entries: BTreeMap<HandoffId, Entry>,
    task: Option<String>,
    /// The next id of a task.
    ids: u64,
}

struct Play<'a> {
    plan: &'a HandoffPlan,
    flaw: Arc<dyn Flaw>,
    rng: StdRng,
    now_ms: u64,
    queue: BTreeMap<(u64, u64), Arrival>,
    queued: u64,
    offer: Authored<Handoff>,
    giver: Giver,
    taker: Taker,
    writes: [u64; 2],
    ends: Vec<(Side, u64, bool)>,
    events: Vec<HandoffEvent>,
}

/// Plays a handoff; gives what was seen, in order.
#[must_use]
pub fn play(plan: &HandoffPlan, flaw: Arc<dyn Flaw>) -> Vec<HandoffEvent> {
    let offer = offer(plan.poison);
    let sender = Sender::at(&offer, Stage::Offering { tries: 0 });
    let mut play = Play {
        plan,
        flaw,
        rng: StdRng::seed_from_u64(plan.seed),
        now_ms: NOW_MS,
        queue: BTreeMap::new(),
        queued: 0,
        offer,
        giver: Giver { sender: Some(sender), disk: None, proof: Vec::new(), wait: 0 },
        taker: Taker { recipient: Some(Recipient::default()), entries: BTreeMap::new(), task: None, ids: 0 },
        writes: [0; 2],
        ends: plan.ends.clone(),
        events: Vec::new(),
    };
    play.push(0, Arrival::Tick(0));
    while let Some(((at_ms, _), arrival)) = play.queue.pop_first() {
        if at_ms > NOW_MS + RUN_MS_MAX {
            break;
        }
        play.now_ms = at_ms;
        play.take(arrival);
    }
    play.events
}

impl Play<'_> {
    fn push(&mut self, in_ms: u64, arrival: Arrival) {
        self.queued += 1;
        self.queue.insert((self.now_ms + in_ms, self.queued), arrival);
    }

    fn is_disturbed(&self) -> bool {
        self.now_ms < NOW_MS + DISTURBED_MS
    }

    /// Sends to the other end.
    fn send(&mut self, arrival: Arrival) {
        let lost = if self.is_disturbed() { self.plan.lost_permille } else { 0 };
        for _ in 0..2 {
            if self.rng.random_ratio(1_000 - lost, 1_000) {
                let in_ms = self.rng.random_range(1..=2_000);
                self.push(in_ms, arrival.clone());
            }
            if !self.rng.random_ratio(lost, 1_000) {
                return;
            }
        }
    }

    /// A write: whether it is made, and whether the node goes on.
    fn write(&mut self, side: Side) -> (bool, bool) {
        let writes = &mut self.writes[side as usize];
        *writes += 1;
        let number = *writes;
        let is_end = |end: &(Side, u64, bool)| (end.0, end.1) == (side, number);
        let Some(place) = self.ends.iter().position(is_end) else { return (true, true) };
        let (_, _, is_made) = self.ends.remove(place);
        (is_made, false)
    }

    fn crash(&mut self, side: Side) {
        self.events.push(HandoffEvent::Crash(side));
        match side {
            Side::Giver => self.giver.sender = None,
            Side::Taker => self.taker.recipient = None,
        }
        let in_ms = self.rng.random_range(1..=DOWN_MS_MAX);
        self.push(in_ms, Arrival::Start(side));
    }

    fn take(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Start(side) => self.start(side),
            Arrival::Offer | Arrival::Commit(_) | Arrival::Result => self.take_at_recipient(arrival),
            Arrival::Tick(wait) if wait != self.giver.wait => {}
            Arrival::Tick(_) => {
                let now_ms = self.now_ms;
                if let Some(sender) = &mut self.giver.sender {
                    let action = sender.tick(now_ms);
                    self.act(action);
                }
            }
            Arrival::Answer(verdict, signed) => {
                let now_ms = self.now_ms;
                if let Some(sender) = &mut self.giver.sender {
                    if matches!(verdict, HandoffVerdict::Accepted { .. }) {
                        self.giver.proof = signed;
                    }
                    let action = sender.answer(verdict, now_ms);
                    self.act(action);
                }
            }
            Arrival::CommitAnswer(acceptance, answer) => {
                let now_ms = self.now_ms;
                if let Some(sender) = &mut self.giver.sender {
                    let action = sender.commit_answer(acceptance, answer, now_ms);
                    self.act(action);
                }
            }
        }
    }

    /// A node starts on what is on its disk.
    fn start(&mut self, side: Side) {
        match side {
            Side::Giver => {
                let (stage, proof) = self.giver.disk.clone().unwrap_or((Stage::Offering { tries: 0 }, Vec::new()));
                self.giver.sender = Some(Sender::at(&self.offer, stage));
                self.giver.proof = proof;
                self.wait(0);
            }
            Side::Taker => {
                let mut entries = self.taker.entries.clone();
                for entry in entries.values_mut() {
                    let has = self.taker.task.as_ref() == Some(&entry.task);
                    if has && matches!(entry.phase, Phase::Accepted { .. }) {
                        entry.phase = Phase::Begun;
                    }
                }
                self.taker.recipient = Some(Recipient::of(entries));
                if self.taker.task.is_some() {
                    let in_ms = self.plan.work_ms;
                    self.push(in_ms, Arrival::Result);
                }
            }
        }
    }

    /// The giver does what its machine says.
    fn act(&mut self, mut action: Action) {
        loop {
            let now_ms = self.now_ms;
            let Some(sender) = &mut self.giver.sender else { return };
            action = match action {
                Action::Wait { until_ms } => {
                    self.wait(until_ms.saturating_sub(now_ms).max(1));
                    return;
                }
                Action::Offer => {
                    let next = sender.sent(now_ms);
                    self.send(Arrival::Offer);
                    next
                }
                Action::Commit { acceptance } => {
                    let next = sender.sent(now_ms);
                    let stage = sender.stage().clone();
                    // Whoever starts again names the acceptance by which the work may have begun.
                    if !self.is_written(acceptance) && !self.write_stage(stage) {
                        return;
                    }
                    self.send(Arrival::Commit(acceptance));
                    next
                }
                Action::Write => {
                    let next = sender.written(now_ms);
                    let stage = sender.stage().clone();
                    if !self.write_stage(stage) {
                        return;
                    }
                    next
                }
                Action::End(end) => {
                    self.end(end);
                    return;
                }
            };
        }
    }

    /// The giver waits so long, and for nothing else.
    fn wait(&mut self, in_ms: u64) {
        self.giver.wait += 1;
        let wait = self.giver.wait;
        self.push(in_ms, Arrival::Tick(wait));
    }

    /// Whether it is on the giver's disk that the work is given away by that acceptance.
    fn is_written(&self, by: u64) -> bool {
        matches!(&self.giver.disk, Some((Stage::Committing { acceptance, .. }, _)) if *acceptance == by)
    }

    /// Writes how far the giver is; false if its node ended.
    fn write_stage(&mut self, stage: Stage) -> bool {
        let (is_made, goes_on) = self.write(Side::Giver);
        if is_made {
            self.giver.disk = Some((stage, self.giver.proof.clone()));
        }
        if !goes_on {
            self.crash(Side::Giver);
        }
        goes_on
    }

    /// The giver writes down how it ended.
    fn end(&mut self, end: End) {
        let (is_made, goes_on) = self.write(Side::Giver);
        if is_made {
            self.giver.disk = Some((Stage::Ended(end.clone()), self.giver.proof.clone()));
            self.events.push(match end {
                End::Given { task } => HandoffEvent::Giving { task },
                End::Kept(_) | End::Duplicate { .. } => HandoffEvent::Keeping,
                End::InDoubt { .. } => HandoffEvent::Doubt,
            });
        }
        if !goes_on {
            self.crash(Side::Giver);
        }
    }

    fn take_at_recipient(&mut self, arrival: Arrival) {
        let Some(mut recipient) = self.taker.recipient.take() else { return };
        let before = recipient.entry(&ID).cloned();
        let goes_on = match arrival {
            Arrival::Offer => {
                let verdict = self.judge(&mut recipient);
                let goes_on = self.write_entry(&recipient, before.as_ref());
                if goes_on {
                    self.answer(verdict);
                }
                goes_on
            }
            Arrival::Commit(acceptance) => self.commit(&mut recipient, acceptance),
            _ => {
                recipient.end(&ID);
                self.write_entry(&recipient, before.as_ref())
            }
        };
        if goes_on {
            self.taker.recipient = Some(recipient);
        } else {
            self.crash(Side::Taker);
        }
    }

    fn judge(&mut self, recipient: &mut Recipient) -> HandoffVerdict {
        let tools: BTreeSet<String> = TOOLS.map(str::to_owned).into();
        let (agent, signers) = (agent("auditor"), BTreeSet::new());
        let of_call =
            (self.plan.poison == Some(Poison::Label)).then_some(Label { level: DataLabel::Restricted, trusted: true });
        let terms = Terms {
            now_ms: self.now_ms,
            network: NETWORK,
            agent: &agent,
            signer: key(1).public(),
            acquaintance: Acquaintance::Known,
            label: of_call,
            clearance: if self.plan.poison == Some(Poison::SignOff) {
                DataLabel::Restricted
            } else {
                DataLabel::Internal
            },
            tools: &tools,
            tokens_max: None,
            is_capable: true,
            duration_ms: 0,
            room: Room::Free,
            signers: &signers,
        };
        self.taker.ids += 1;
        let task = format!("task-{}", self.taker.ids);
        let verdict = HandoffVerdict::from(recipient.offer(&self.offer.bytes, &task, &terms));
        self.events.push(HandoffEvent::Verdict(verdict.word()));
        verdict
    }

    fn answer(&mut self, verdict: HandoffVerdict) {
        let answer = HandoffAnswer::new(self.offer.digest(), agent("auditor"), self.now_ms, verdict.clone());
        let signed = object::sign(answer, NETWORK, "", &key(2)).expect("a good shape");
        self.send(Arrival::Answer(verdict, signed.bytes));
    }

    /// Writes what the recipient knows, if that changed; false if its node ended.
    fn write_entry(&mut self, recipient: &Recipient, before: Option<&Entry>) -> bool {
        let Some(entry) = recipient.entry(&ID).filter(|entry| before != Some(*entry)) else { return true };
        let (is_made, goes_on) = self.write(Side::Taker);
        if is_made {
            self.taker.entries.insert(ID, entry.clone());
        }
        goes_on
    }

    /// The recipient is asked to begin; false if its node ended.
    fn commit(&mut self, recipient: &mut Recipient, acceptance: u64) -> bool {
        let before = recipient.entry(&ID).cloned();
        let answer = match recipient.commit(&ID, &self.offer.digest(), acceptance, self.now_ms) {
            Ok(Commit::Begin(task)) => {
                let (is_made, goes_on) = self.write(Side::Taker);
                if is_made {
                    self.begin(&task);
                }
                if !goes_on || !self.write_entry(recipient, before.as_ref()) {
                    return false;
                }
                Ok(task)
            }
            Ok(Commit::Began(task)) => {
                if self.flaw.begins_again() {
                    self.begin(&task);
                }
                Ok(task)
            }
            Err(error) => Err(error),
        };
        let answer = match answer {
            Ok(_) if self.plan.is_denied => {
                self.events.push(HandoffEvent::Denial { is_proven: self.is_proven() });
                Err(CommitError::NotAccepted)
            }
            answer => answer,
        };
        self.send(Arrival::CommitAnswer(acceptance, answer));
        true
    }

    fn begin(&mut self, task: &str) {
        self.taker.task = Some(task.to_owned());
        self.events.push(HandoffEvent::Beginning { task: task.to_owned() });
        let in_ms = self.plan.work_ms;
        self.push(in_ms, Arrival::Result);
    }

    /// Whether the giver has on its disk what the recipient signed: that it accepted this handoff.
    fn is_proven(&self) -> bool {
        let Some((_, proof)) = &self.giver.disk else { return false };
        object::open::<HandoffAnswer>(proof, NETWORK, "").is_ok_and(|answer| {
            let accepts = matches!(answer.body.verdict(), Some(HandoffVerdict::Accepted { .. }));
            accepts && answer.signer == key(2).public() && answer.body.offer == self.offer.digest()
        })
    }
}

//! Has the node's audit log signed by its witnesses (C2SP tlog-witness), and remembers how each of them stands to it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use althing_communication::WallClock;
use althing_discovery::{Fetch, FetchError, Given, Limits, Method, SystemResolver, Url};
use althing_governance::audit::{AskWitness, AuditLog, WitnessAnswer, WitnessFault};
use althing_node::{AuditWitness, Node};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::time::Instant;

/// Between two questions to a witness: what grew meanwhile is signed with the next.
pub const ASKED_EVERY: Duration = Duration::from_secs(5);
/// The longest pause for a witness that does not sign; it doubles with each time.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// How long one may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// How a witness stands to the audit log, since the node was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WitnessState {
    /// As its signatures have it.
    pub name: String,
    /// Up to `/add-checkpoint`.
    pub url: String,
    /// Entries that it signed last, and when, Unix milliseconds.
    pub signed: Option<(u64, u64)>,
    /// Since when it does not sign, Unix milliseconds, and why.
    pub failure: Option<(u64, String)>,
    /// What it said of the log that cannot be as the log is here: that had more entries, or others.
    pub contradiction: Option<String>,
}

/// The witnesses of the node's audit log.
pub struct AuditWitnesses {
    audit: AuditLog,
    clock: WallClock,
    fetch: OnceLock<Fetch>,
    all: Vec<AuditWitness>,
    /// One for each, in the same order.
    records: Mutex<Vec<Record>>,
}

/// How one stands, and when it is asked again.
#[derive(Debug, Clone, Default)]
struct Record {
    state: WitnessState,
    /// The checkpoint that it signed last.
    signed: Option<String>,
    failures: u32,
    /// Not before then.
    due: Option<Instant>,
}

impl AuditWitnesses {
    /// Those of a node.
    #[must_use]
    pub fn of(node: &Node) -> AuditWitnesses {
        let all = node.config.governance.witnesses.clone();
        let record = |one: &AuditWitness| {
            let state =
                WitnessState { name: one.key.name().to_owned(), url: one.url.clone(), ..WitnessState::default() };
            Record { state, ..Record::default() }
        };
        let records = Mutex::new(all.iter().map(record).collect());
        let (audit, clock) = (node.governance.audit().clone(), node.clock().clone());
        AuditWitnesses { audit, clock, fetch: OnceLock::new(), all, records }
    }

    /// How each stands to the log.
    #[must_use]
    pub fn states(&self) -> Vec<WitnessState> {
        self.records().iter().map(|record| record.state.clone()).collect()
    }

    /// The names of those who signed this checkpoint.
    #[must_use]
    pub fn signers(&self, checkpoint: &althing_protocol::tlog::Checkpoint) -> Vec<String> {
        let signed = self.all.iter().filter(|one| checkpoint.cosignature(&one.key).is_ok());
        signed.map(|one| one.key.name().to_owned()).collect()
    }

    /// Has the log signed whenever it grew, for as long as the node runs; at once at its start, since a witness remembers what an
    /// older copy of the node's folder forgot.
    pub async fn run(&self) {
        while !self.all.is_empty() {
            self.round().await;
            tokio::time::sleep(ASKED_EVERY).await;
        }
    }

    /// Asks all that are due and did not sign what there is, at the same time, so that they sign the same checkpoint.
    async fn round(&self) {
        let newest = self.audit.checkpoint();
        let due = due(&self.records(), newest.note(), Instant::now());
        let asked = due.into_iter().map(|at| async move { (at, self.ask(&self.all[at]).await) });
        for (at, outcome) in join_all(asked).await {
            let now_ms = self.clock.now_ms();
            self.records()[at].take(outcome, (newest.head.size, newest.note()), now_ms);
        }
    }

    async fn ask(&self, witness: &AuditWitness) -> Result<(), WitnessFault> {
        let asker = Post { fetch: self.client(), url: format!("{}/add-checkpoint", witness.url) };
        self.audit.cosign(&witness.key, &asker).await
    }

    fn client(&self) -> Result<&Fetch, FetchError> {
        match self.fetch.get() {
            Some(fetch) => Ok(fetch),
            None => {
                let made = Fetch::new(Vec::new(), std::sync::Arc::new(SystemResolver))?;
                Ok(self.fetch.get_or_init(|| made))
            }
        }
    }

    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places of those who are asked now about the newest checkpoint, which is that note.
fn due(records: &[Record], newest: &str, now: Instant) -> Vec<usize> {
    let is_due = |record: &Record| record.due.is_none_or(|due| due <= now) && record.signed.as_deref() != Some(newest);
    records.iter().enumerate().filter(|(_, record)| is_due(record)).map(|(at, _)| at).collect()
}

impl Record {
    /// Takes what came of a question about a checkpoint: its entries, and its note.
    fn take(&mut self, outcome: Result<(), WitnessFault>, (size, note): (u64, &str), now_ms: u64) {
        let name = self.state.name.as_str();
        let fault = match outcome {
            Ok(()) => {
                if self.state.failure.take().is_some() {
                    tracing::info!(witness = name, "a witness signs the audit log again");
                }
                self.state.signed = Some((size, now_ms));
                (self.signed, self.failures, self.due) = (Some(note.to_owned()), 0, None);
                return;
            }
            Err(fault) => fault,
        };
        if matches!(fault, WitnessFault::Ahead { .. } | WitnessFault::Fork { .. }) {
            // Another log was begun by it, so that this is said as seldom as that happens.
            tracing::error!(witness = name, %fault, "a witness knows another history of the audit log");
            self.state.contradiction = Some(fault.to_string());
        } else if self.state.failure.is_none() {
            tracing::warn!(witness = name, %fault, "a witness does not sign the audit log");
        }
        let since_ms = self.state.failure.as_ref().map_or(now_ms, |(since_ms, _)| *since_ms);
        self.state.failure = Some((since_ms, fault.to_string()));
        let pause = ASKED_EVERY.saturating_mul(1 << self.failures.min(6)).min(PAUSE_MAX);
        (self.failures, self.due) = (self.failures.saturating_add(1), Some(Instant::now() + pause));
    }
}

/// Sends requests to one witness.
struct Post<'a> {
    fetch: Result<&'a Fetch, FetchError>,
    url: String,
}

impl AskWitness for Post<'_> {
    fn ask(&self, request: String) -> BoxFuture<'_, Result<WitnessAnswer, String>> {
        async move {
            let fetch = self.fetch.as_ref().map_err(ToString::to_string)?;
            let url: Url = self.url.parse().map_err(|_| format!("{:?} is no address", self.url))?;
            let sent = ("text/plain; charset=utf-8", request.into_bytes());
            let limits = Limits { bytes: ANSWER_BYTES_MAX, time: ANSWERS_WITHIN };
            let answer = fetch.exchange(Method::POST, &url, Given::Operator, sent, limits).await;
            let (status, body) = answer.map_err(|error| error.to_string())?;
            Ok(WitnessAnswer { status, body: String::from_utf8_lossy(&body).into_owned() })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable(reason: &str) -> WitnessFault {
        WitnessFault::Unreachable { witness: "w.example".to_owned(), reason: reason.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_witness_that_does_not_sign_is_asked_ever_less_and_since_when_is_known() {
        let mut record = Record::default();
        let mut pauses = Vec::new();
        for at in 0..9 {
            record.take(Err(unreachable("no route")), (3, "note"), 1_000 + at);
            pauses.push(record.due.expect("it is asked again").duration_since(Instant::now()).as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        let (since_ms, why) = record.state.failure.clone().expect("it is told");
        assert!(since_ms == 1_000 && why.contains("no route"), "{since_ms} {why}");
        record.take(Ok(()), (3, "note"), 2_000);
        assert_eq!((&record.state.failure, record.state.signed), (&None, Some((3, 2_000))));
        assert_eq!((record.signed.as_deref(), record.due), (Some("note"), None));
    }

    fn fork() -> WitnessFault {
        WitnessFault::Fork { witness: "w.example".to_owned(), log: "audit/a/b/1-c".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_witness_knows_better_is_not_forgotten_when_it_signs_again() {
        let mut record = Record::default();
        record.take(Err(fork()), (3, "note"), 1_000);
        assert!(record.signed.is_none() && record.state.failure.is_some(), "{record:?}");
        let next = record.due.map(|due| due.duration_since(Instant::now()));
        assert_eq!(next, Some(ASKED_EVERY), "the other log is shown to it at the next time");
        record.take(Ok(()), (1, "other"), 2_000);
        assert_eq!((&record.state.failure, record.due), (&None, None));
        assert!(record.state.contradiction.is_some_and(|told| told.contains("another history")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_witness_that_contradicts_each_log_is_asked_as_seldom_as_a_silent_one_and_others_as_often_as_ever() {
        let mut records = [Record::default(), Record::default()];
        let start = Instant::now();
        let (mut asked, mut signed) = (0, 0);
        while start.elapsed() < Duration::from_secs(24 * 60 * 60) {
            // The log grows all the time.
            let note = format!("note {}", start.elapsed().as_secs());
            for at in due(&records, &note, Instant::now()) {
                let again = WitnessFault::Repeat { witness: "w.example".to_owned(), log: "audit/a/b/2-c".to_owned() };
                let outcome = match at {
                    0 if asked % 12 == 0 => Err(fork()),
                    0 => Err(again),
                    _ => Ok(()),
                };
                (asked, signed) = if at == 0 { (asked + 1, signed) } else { (asked, signed + 1) };
                records[at].take(outcome, (1, &note), 1_000);
            }
            tokio::time::advance(ASKED_EVERY).await;
        }
        assert!(asked <= 24 * 12 + 6, "every five minutes, and some times before: {asked}");
        assert_eq!(signed, 24 * 60 * 12, "the other one is asked each time");
        let (_, why) = records[0].state.failure.clone().expect("it does not sign");
        assert!(why.contains("less than an hour after another log"), "{why}");
    }
}

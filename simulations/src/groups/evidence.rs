//! What a run has seen, for the invariants to judge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_coordination::consensus::wire::{EntryRecord, Payload};
use althing_protocol::group::{GroupId, WorkId};
use althing_protocol::{Digest, PublicKey};
use tokio::time::Instant;

use crate::trace::Recorder;

/// An entry of a log as it was written: its bytes, and the term of the entry before it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// The digest of its bytes.
    pub digest: Digest,
    /// The term of the entry before it; none for the first one, and where that is not in the log any more.
    pub before: Option<u64>,
}

/// A task that a worker was handed.
#[derive(Debug, Clone)]
pub struct Begun {
    /// On which node.
    pub node: PublicKey,
    /// Which task.
    pub task: WorkId,
    /// The fencing token.
    pub token: u64,
    /// When the node asked to begin, and when it was told to; in the order of all events.
    pub between: (i64, i64),
    /// When it ended with a result.
    pub ended: Option<i64>,
}

/// What a client asked of the group, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// It read a value.
    Read {
        /// Which one.
        key: u8,
        /// What it was.
        value: Option<u64>,
    },
    /// It wrote a value, of which each is different.
    Write {
        /// Which one.
        key: u8,
        /// What it wrote.
        value: u64,
        /// The version that the group acknowledged.
        version: Option<u64>,
    },
    /// It replaced a value that it had read.
    Replace {
        /// Which one.
        key: u8,
        /// What it had read.
        expected: Option<u64>,
        /// What it wrote.
        value: u64,
        /// The version, or none if the value was another one; unknown without an answer.
        done: Option<Option<u64>>,
    },
    /// It submitted a task.
    Submit {
        /// Which one.
        task: u32,
        /// The number that the group acknowledged.
        number: Option<u64>,
    },
    /// It canceled a task that it had submitted.
    Cancel {
        /// Which one.
        task: u32,
        /// Whether the task was canceled, or had ended before; unknown without an answer.
        done: Option<bool>,
    },
    /// It looked at all tasks, in the order of their submission.
    Look {
        /// What they were doing.
        tasks: Vec<(u32, Phase)>,
    },
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It is not finished.
    Open,
    /// It is completed, by whoever had this token.
    Completed(u64),
    /// It was canceled.
    Canceled,
    /// It ended otherwise.
    Failed,
}

/// An operation of a client.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Of which client.
    pub client: u32,
    /// When it was called, in the order of all events.
    pub called: i64,
    /// When it returned; none if nobody knows what became of it.
    pub returned: Option<i64>,
    /// What it was.
    pub deed: Deed,
}

/// How the group served after everything had healed.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// After how long each member wrote a value, milliseconds; none if it did not.
    pub after_ms: BTreeMap<PublicKey, Option<u64>>,
    /// The terms that the members were in while nothing disturbed them.
    pub calm_terms: BTreeSet<u64>,
    /// The tasks that had not ended at last, and what they were doing.
    pub unfinished: Vec<String>,
}

/// All that was seen.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The group.
    pub group: Option<GroupId>,
    /// The nodes that keep to the rules.
    pub honest: BTreeSet<PublicKey>,
    /// Who claimed to lead, by term.
    pub leaders: BTreeMap<u64, BTreeSet<PublicKey>>,
    /// For whom each node voted, by term.
    pub votes: BTreeMap<(PublicKey, u64), BTreeSet<PublicKey>>,
    /// All entries that were written to a log, by index and term.
    pub entries: BTreeMap<(u64, u64), BTreeSet<Written>>,
    /// Entries of an earlier term that followed one of a later term in a log: index, term, and the term of the next one.
    pub falling: BTreeSet<(u64, u64, u64)>,
    /// What each log says is committed, by index.
    pub committed: BTreeMap<u64, BTreeMap<(u64, Digest), EntryRecord>>,
    /// The digests of the states that were seen, with node and milliseconds.
    pub states: Vec<(PublicKey, u64, Digest)>,
    /// What workers were handed.
    pub begun: Vec<Begun>,
    /// What clients did.
    pub history: Vec<Operation>,
    /// How it served at last.
    pub served: Served,
    /// Snapshots that members took from others.
    pub snapshots: usize,
    /// How often the power of a member was cut.
    pub crashes: usize,
    /// The proofs of equivocation that members keep: who keeps it, against whom, and whom it proves to have equivocated, if it
    /// proves anything.
    pub accused: BTreeSet<(PublicKey, PublicKey, Option<PublicKey>)>,
    /// Whom each member followed at the end.
    pub follows: BTreeMap<PublicKey, Option<PublicKey>>,
    /// How often a leader told two members different things.
    pub lies: usize,
    /// The replicas that failed, and why.
    pub failures: Vec<(PublicKey, String)>,
}

impl Evidence {
    /// The committed entries in order, one of each index.
    pub fn log(&self) -> impl Iterator<Item = &EntryRecord> {
        self.committed.values().filter_map(|entries| entries.values().next())
    }

    /// Changes of the log's members that are committed.
    pub fn memberships(&self) -> impl Iterator<Item = (u64, BTreeSet<PublicKey>)> {
        self.log().filter_map(|entry| match &entry.payload {
            Payload::Members(voters, learners) => {
                Some((entry.at.index, voters.iter().flatten().chain(learners).copied().collect()))
            }
            Payload::Blank | Payload::Batch(..) => None,
        })
    }
}

/// Requests that are kept for the adversary.
const TAPE_MAX: usize = 300;

/// Requests, each with its operation.
type Tape = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Evidence that all parts of a run add to.
#[derive(Clone)]
pub struct Books {
    begun: Instant,
    evidence: Arc<Mutex<Evidence>>,
    events: Arc<Mutex<i64>>,
    /// Requests that the adversary's node received.
    tape: Tape,
    /// The trace.
    pub recorder: Recorder,
}

impl Books {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new() -> Books {
        let (evidence, events, tape) = (Arc::default(), Arc::default(), Tape::default());
        Books { begun: Instant::now(), evidence, events, tape, recorder: Recorder::begin() }
    }

    /// The evidence.
    ///
    /// # Panics
    /// If somebody panicked while it was changed.
    pub fn open(&self) -> MutexGuard<'_, Evidence> {
        self.evidence.lock().expect("nobody panics with it")
    }

    /// The place of an event in the order of all events: a run has one thread, so that this is the order of time.
    ///
    /// # Panics
    /// If somebody panicked in it.
    #[must_use]
    pub fn event(&self) -> i64 {
        let mut events = self.events.lock().expect("nobody panics with it");
        *events += 1;
        *events
    }

    /// Keeps a request that the adversary's node received.
    ///
    /// # Panics
    /// If somebody panicked in it.
    pub fn keep(&self, operation: &str, body: &[u8]) {
        let mut tape = self.tape.lock().expect("nobody panics with it");
        if tape.len() == TAPE_MAX {
            tape.remove(TAPE_MAX / 2);
        }
        tape.push((operation.to_owned(), body.to_vec()));
    }

    /// One of the requests that were kept.
    ///
    /// # Panics
    /// If somebody panicked in it.
    #[must_use]
    pub fn replay(&self, drawn: u32) -> Option<(String, Vec<u8>)> {
        let tape = self.tape.lock().expect("nobody panics with it");
        tape.get(usize::try_from(drawn).unwrap_or(0) % tape.len().max(1)).cloned()
    }

    /// Milliseconds since the run began.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes a line of the trace.
    pub fn note(&self, what: std::fmt::Arguments<'_>) {
        self.recorder.note(what);
    }
}

impl Default for Books {
    fn default() -> Books {
        Books::new()
    }
}

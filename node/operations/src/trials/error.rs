//! Why nothing is tested.

use std::collections::BTreeSet;

use althing_calls::{OperationError, RehearsalError, StepsError};
use althing_failure::{AgentStep, Kind, Remedy};
use althing_verification::machine::cases::CasesError;
use althing_verification::machine::evidence::ComparisonError;
use althing_verification::machine::tape::TapeError;

/// Runs of one test, those of all cases together.
pub const TEST_RUNS_MAX: usize = 10_000;

/// Why a case is not made, a task is not replayed, or an agent is not tested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TestError {
    /// Of the task nothing can be told.
    #[error(transparent)]
    Steps(#[from] StepsError),
    /// The cases cannot be used.
    #[error(transparent)]
    Cases(#[from] CasesError),
    /// The agent cannot be tested.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
    /// The agent cannot be called.
    #[error(transparent)]
    Call(#[from] OperationError),
    /// It does not run here, and tapes are told to agents that do.
    #[error(
        "no agent {agent:?} runs on this node, and what a tape says is told to agents of this node alone: test it on a node that \
         hosts it, or live"
    )]
    NoTapeThere {
        /// Its name or its id.
        agent: String,
    },
    /// It runs on another node, and nobody accepted what it may do there.
    #[error(
        "agent {agent:?} runs on another node: nothing here can keep it from having effects there, so that it is called only where \
         you accept that"
    )]
    EffectsThere {
        /// Its name or its id.
        agent: String,
    },
    /// It runs on another node, where test servers of this one are of no meaning.
    #[error(
        "agent {agent:?} runs on another node, and that {server:?} is a test server says nothing to that node: name none, and test it \
         on the node that hosts it if only test servers may be changed"
    )]
    ServerThere {
        /// Its name or its id.
        agent: String,
        /// The first server that was named.
        server: String,
    },
    /// A test server of which the agent calls nothing: it was mistyped, and what was meant would be denied.
    #[error("{agent} uses no server {server:?}, so that nothing would be permitted by that name: {}", used(.servers))]
    NoServer {
        /// Its name or its id; of a comparison, both.
        agent: String,
        /// The server that was named.
        server: String,
        /// Those that it uses.
        servers: BTreeSet<String>,
    },
    /// The cases cannot be compared.
    #[error(transparent)]
    Comparison(#[from] ComparisonError),
    /// The agent runs in other versions.
    #[error("agent {agent:?} does not run here in version {version:?}, but in {running}: name a version that runs")]
    Version {
        /// Its name.
        agent: String,
        /// The version that was named.
        version: String,
        /// The one that its name means.
        running: String,
    },
    /// Two versions would be run too often, or never.
    #[error(
        "{cases} cases with {runs} runs each by two versions are asked for, and a comparison has 1 to {TEST_RUNS_MAX} runs in all: ask \
         for as many"
    )]
    Pairs {
        /// How many there are.
        cases: usize,
        /// Runs of each, by each version.
        runs: u32,
    },
    /// A node that stops broke the comparison off.
    #[error("the node broke off while it compared: its log says why")]
    Broken,
    /// The tape is not that of the agent.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The task goes on.
    #[error("task {task} is not over (it is {state}): it can be replayed when it has ended")]
    NotOver {
        /// Its id.
        task: String,
        /// The state in which it is.
        state: String,
    },
    /// The task has no answer.
    #[error(
        "task {task} is {state}, and has no answer that a case could want: a case is made of a task that was completed"
    )]
    NoAnswer {
        /// Its id.
        task: String,
        /// The state in which it is.
        state: String,
    },
    /// A message of the task is more than text.
    #[error("a message of task {task} has parts that are no text, and a case has text alone: write the case by hand")]
    NoText {
        /// Its id.
        task: String,
    },
    /// Some of its turns are not recorded.
    #[error(
        "task {task} has {messages} messages, and tapes of {turns} of them, so that it cannot be run again from its beginning: its \
         agent's contract did not say `record: tape` all the time, or older tapes made room for newer ones"
    )]
    Gaps {
        /// Its id.
        task: String,
        /// Turns that are recorded.
        turns: usize,
        /// How many messages it has.
        messages: usize,
    },
    /// No scorer has that name.
    #[error("no scorer is named {word:?}: there are includes, match, match:begin, match:any and match:exact")]
    Scorer {
        /// The name.
        word: String,
    },
    /// The file says nothing.
    #[error(
        "the file has no case: write a line of JSON for each, such as {{\"input\": \"What is 6 times 7?\", \"target\": \
         \"42\"}}"
    )]
    NoCases,
    /// It would be run too often, or never.
    #[error(
        "{cases} cases with {runs} runs each are asked for, and a test has 1 to {TEST_RUNS_MAX} runs in all: ask for as many"
    )]
    Runs {
        /// How many cases the file has.
        cases: usize,
        /// Runs of each.
        runs: u32,
    },
}

impl TestError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            TestError::Steps(error) => error.kind(),
            TestError::Rehearsal(error) => error.kind(),
            TestError::Call(error) => error.kind(),
            TestError::Tape(_) | TestError::EffectsThere { .. } => Kind::Refused,
            TestError::NotOver { .. } | TestError::NoAnswer { .. } | TestError::Gaps { .. } => Kind::Conflict,
            TestError::Version { .. } | TestError::NoTapeThere { .. } => Kind::NotFound,
            TestError::Broken => Kind::Failed,
            TestError::Cases(_)
            | TestError::Comparison(_)
            | TestError::NoCases
            | TestError::ServerThere { .. }
            | TestError::NoServer { .. }
            | TestError::NoText { .. }
            | TestError::Scorer { .. }
            | TestError::Pairs { .. }
            | TestError::Runs { .. } => Kind::Invalid,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            TestError::Steps(error) => error.remedy(),
            TestError::Call(error) => error.remedy.as_deref().cloned(),
            TestError::EffectsThere { .. } => Some(AgentStep::AcceptEffects.into()),
            TestError::NoCases => Some(AgentStep::MakeCase.into()),
            TestError::Rehearsal(RehearsalError::NotHere { .. }) | TestError::NoTapeThere { .. } => {
                Some(AgentStep::List.into())
            }
            TestError::Version { .. } => Some(AgentStep::ListRunning.into()),
            _ => None,
        }
    }
}

/// The servers that may be named, for people.
fn used(servers: &BTreeSet<String>) -> String {
    let names: Vec<&str> = servers.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "its contract has no capabilities, and a live test of it needs no test server".to_owned(),
        names => format!("its contract has tools of {}", names.join(", ")),
    }
}

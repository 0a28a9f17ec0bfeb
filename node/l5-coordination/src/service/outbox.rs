//! Commands of this node, several of them under one signature: those that wait while a batch is under way go into the next.

use std::sync::Arc;

use althing_protocol::group::{Author, Command, Content};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::Groups;
use super::member::Member;
use crate::machine::outcome::{Outcome, Refusal};

/// Commands that wait.
const QUEUE: usize = 1_024;
/// Commands in one batch: well within the data items of one message.
const BATCH: usize = 64;
/// Bytes of results in one batch, plus one.
const BYTES: usize = 256 << 10;
/// Batches under way.
const UNDER_WAY: usize = 4;

/// Why a command was not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandError {
    /// The group refused it.
    #[error("{0}")]
    Refused(Refusal),
    /// Nobody said what became of it.
    #[error("{0}")]
    Unknown(String),
}

/// What became of a command; the number is that of [`Outcome::Done`].
pub(super) type Executed = Result<Option<u64>, CommandError>;

struct Waiting {
    command: Command,
    done: oneshot::Sender<Executed>,
}

/// Sends commands.
#[derive(Clone)]
pub(super) struct Outbox(mpsc::Sender<Waiting>);

impl Outbox {
    /// Starts it. It ends when its last copy is dropped.
    pub fn start(groups: Groups, member: Arc<Member>) -> Outbox {
        let (sender, queue) = mpsc::channel(QUEUE);
        tokio::spawn(run(groups, member, queue));
        Outbox(sender)
    }

    /// Executes a command.
    pub async fn execute(&self, command: Command) -> Executed {
        let (done, executed) = oneshot::channel();
        let ended = || CommandError::Unknown("the node is stopping".to_owned());
        self.0.send(Waiting { command, done }).await.map_err(|_| ended())?;
        executed.await.map_err(|_| ended())?
    }
}

fn bytes(command: &Command) -> usize {
    match command {
        Command::Complete(complete) => match &complete.result {
            Content::Inline(bytes) => bytes.len(),
            Content::Reference(_) => 0,
        },
        _ => 0,
    }
}

async fn run(groups: Groups, member: Arc<Member>, mut queue: mpsc::Receiver<Waiting>) {
    let room = Arc::new(Semaphore::new(UNDER_WAY));
    while let Some(first) = queue.recv().await {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let mut total = bytes(&first.command);
        let mut batch = vec![first];
        while batch.len() < BATCH
            && total < BYTES
            && let Ok(next) = queue.try_recv()
        {
            total += bytes(&next.command);
            batch.push(next);
        }
        let (groups, member) = (groups.clone(), member.clone());
        tokio::spawn(async move {
            send(&groups, &member, batch).await;
            drop(permit);
        });
    }
}

async fn send(groups: &Groups, member: &Arc<Member>, batch: Vec<Waiting>) {
    let (commands, waiting): (Vec<Command>, Vec<_>) = batch.into_iter().map(|one| (one.command, one.done)).unzip();
    let author = Author::Node(groups.shared.here());
    let outcomes = match groups.submit(member.id, author, &groups.shared.key, commands).await {
        Ok(Some(outcomes)) => outcomes.into_iter().map(executed).collect(),
        // An earlier attempt was executed; only the state tells what became of the commands.
        Ok(None) => vec![Err(CommandError::Unknown("the answer was lost".to_owned())); waiting.len()],
        Err(crate::GroupError::Refused(refusal)) => vec![Err(CommandError::Refused(refusal)); waiting.len()],
        Err(error) => vec![Err(CommandError::Unknown(error.to_string())); waiting.len()],
    };
    for (done, outcome) in waiting.into_iter().zip(outcomes) {
        // Whoever waited may have gone.
        let _ = done.send(outcome);
    }
}

fn executed(outcome: Outcome) -> Executed {
    match outcome {
        Outcome::Done(number) => Ok(number),
        Outcome::Refused(refusal) => Err(CommandError::Refused(refusal)),
    }
}

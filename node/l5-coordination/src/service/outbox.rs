//! Commands of this node, several of them under one signature: those that wait while batches are under way go into the next.

use std::sync::Arc;

use althing_protocol::group::{Author, Batch, Command, Content, GroupId, Submit};
use althing_protocol::object::Statement as _;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Groups;
use crate::error::GroupError;
use crate::machine::outcome::{Outcome, Refusal};

/// Commands that wait.
const QUEUE: usize = 1_024;
/// Commands in one batch.
const BATCH: usize = 64;
/// Data items in one batch: well below those of one message.
const ITEMS: usize = 3_000;
/// Bytes of values, inputs and results in one batch, plus those of one.
const BYTES: usize = 256 << 10;
/// Batches under way.
const UNDER_WAY: usize = 4;

/// What became of a command; the number is that of [`Outcome::Done`].
pub(super) type Executed = Result<Option<u64>, GroupError>;

struct Waiting {
    command: Command,
    done: oneshot::Sender<Executed>,
}

/// Sends commands.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Waiting>,
    group: GroupId,
    here: althing_protocol::PublicKey,
}

impl Outbox {
    /// Starts it. It ends with the member's part in the group.
    pub fn start(groups: Groups, group: GroupId, stop: CancellationToken) -> Outbox {
        let (sender, queue) = mpsc::channel(QUEUE);
        let here = groups.shared.here();
        tokio::spawn(run(groups, group, stop, queue));
        Outbox { sender, group, here }
    }

    /// Executes a command.
    pub async fn execute(&self, command: Command) -> Executed {
        // What is malformed must not spoil the batch for the others.
        let alone = Batch::new(1, Author::Node(self.here), 1, 1, vec![command]);
        alone.check()?;
        let Some(command) = alone.commands.into_iter().next() else { return Err(GroupError::OutcomeUnknown) };
        let (done, executed) = oneshot::channel();
        let ended = || GroupError::Stopped { group: self.group, why: "the node is stopping".to_owned() };
        self.sender.send(Waiting { command, done }).await.map_err(|_| ended())?;
        executed.await.map_err(|_| ended())?
    }
}

/// Whether a command may share a batch: others are as large as a batch may be.
pub(super) fn is_small(command: &Command) -> bool {
    !matches!(
        command,
        Command::Found(_)
            | Command::Join(_)
            | Command::Amend(_)
            | Command::Expel(_)
            | Command::Dissolve(_)
            | Command::Keys(_)
            | Command::Propose(_)
            | Command::Leave
            | Command::RunWorkflow(_)
            | Command::Schedule(_)
    )
}

/// Data items of a small command, at most, and its bytes.
fn size(command: &Command) -> (usize, usize) {
    let inline = |content: &Content| match content {
        Content::Inline(bytes) => bytes.len(),
        Content::Reference(_) => 0,
    };
    match command {
        Command::Set(set) => (12, set.value.len()),
        Command::Complete(complete) => (30, inline(&complete.result)),
        Command::Submit(submit) => {
            let Submit { needs, dependencies, resources, input, .. } = submit.as_ref();
            (62 + needs.labels.len() + dependencies.len() + resources.len(), inline(input))
        }
        _ => (16, 0),
    }
}

async fn run(groups: Groups, group: GroupId, stop: CancellationToken, mut queue: mpsc::Receiver<Waiting>) {
    let room = Arc::new(Semaphore::new(UNDER_WAY));
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(first) => first,
            None => tokio::select! {
                biased;
                () = stop.cancelled() => return,
                first = queue.recv() => match first {
                    Some(first) => first,
                    None => return,
                },
            },
        };
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let (mut items, mut bytes) = size(&first.command);
        let mut batch = vec![first];
        while batch.len() < BATCH
            && bytes < BYTES
            && let Ok(another) = queue.try_recv()
        {
            let of_it = size(&another.command);
            if items + of_it.0 > ITEMS {
                next = Some(another);
                break;
            }
            (items, bytes) = (items + of_it.0, bytes + of_it.1);
            batch.push(another);
        }
        let groups = groups.clone();
        tokio::spawn(async move {
            send(&groups, group, batch).await;
            drop(permit);
        });
    }
}

/// Sends a batch, and again what cost too much beside those before it: whoever waits for that did not choose them. The first
/// command of a batch is never refused for that, so that each time there are fewer.
async fn send(groups: &Groups, group: GroupId, mut batch: Vec<Waiting>) {
    while !batch.is_empty() {
        let commands = batch.iter().map(|one| one.command.clone()).collect();
        let author = Author::Node(groups.shared.here());
        let outcomes: Vec<Executed> = match groups.submit(group, author, &groups.shared.key, commands).await {
            Ok(Some(outcomes)) => outcomes.into_iter().map(executed).collect(),
            // An earlier attempt was executed; only the state tells what became of the commands.
            Ok(None) => batch.iter().map(|_| Err(GroupError::OutcomeUnknown)).collect(),
            Err(error) => batch.iter().map(|_| Err(of_all(&error, group))).collect(),
        };
        batch = rest(batch, outcomes);
    }
}

/// Tells those that wait what became of their commands; what is to be sent again.
fn rest(batch: Vec<Waiting>, outcomes: Vec<Executed>) -> Vec<Waiting> {
    let mut again = Vec::new();
    for (at, (one, outcome)) in batch.into_iter().zip(outcomes).enumerate() {
        if at > 0 && matches!(outcome, Err(GroupError::Refused(Refusal::Costly))) {
            again.push(one);
            continue;
        }
        // Whoever waited may have gone.
        let _ = one.done.send(outcome);
    }
    again
}

fn executed(outcome: Outcome) -> Executed {
    match outcome {
        Outcome::Done(number) => Ok(number),
        Outcome::Refused(refusal) => Err(refusal.into()),
    }
}

/// The error of a batch, for one of its commands.
fn of_all(error: &GroupError, group: GroupId) -> GroupError {
    match error {
        GroupError::Refused(refusal) => GroupError::Refused(refusal.clone()),
        GroupError::NoAnswer { group, seconds, why } => {
            GroupError::NoAnswer { group: *group, seconds: *seconds, why: why.clone() }
        }
        GroupError::NoSuchGroup(group) => GroupError::NoSuchGroup(*group),
        GroupError::Dissolved(group) => GroupError::Dissolved(*group),
        other => GroupError::Stopped { group, why: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::group::WorkId;

    use super::*;

    /// Whoever waits for a command did not choose what goes with it in one batch.
    #[test]
    fn what_cost_too_much_beside_others_is_sent_again_and_whoever_waits_hears_of_the_rest() {
        let command = |number: u8| Command::Cancel(WorkId::from_bytes([number; 16]));
        let (batch, mut waiting): (Vec<_>, Vec<_>) = (1..=4)
            .map(|number| {
                let (done, executed) = oneshot::channel();
                (Waiting { command: command(number), done }, executed)
            })
            .unzip();
        let costly = || Err(GroupError::Refused(Refusal::Costly));
        let full = Err(GroupError::Refused(Refusal::Full("no room".to_owned())));
        let again = rest(batch, vec![Ok(Some(7)), costly(), full, costly()]);
        assert!(again.iter().map(|one| &one.command).eq(&[command(2), command(4)]));
        assert!(matches!(waiting[0].try_recv(), Ok(Ok(Some(7)))));
        assert!(matches!(waiting[2].try_recv(), Ok(Err(GroupError::Refused(Refusal::Full(_))))));
        assert!(waiting[1].try_recv().is_err() && waiting[3].try_recv().is_err(), "they wait");
        // None is sent for ever.
        assert!(rest(again, vec![costly(), Ok(None)]).is_empty());
        assert!(matches!(waiting[1].try_recv(), Ok(Err(GroupError::Refused(Refusal::Costly)))));
        assert!(matches!(waiting[3].try_recv(), Ok(Ok(None))));
    }
}

//! Tasks that agents of this node give groups.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use althing_communication::{Entropy, WallClock};
use althing_coordination::machine::outcome::Refusal;
use althing_coordination::machine::work::State;
use althing_coordination::{GroupError, Groups, content, promptly};
use althing_execution::TurnRights;
use althing_execution::groups::{GroupTasks, Order, OrderError};
use althing_node::Identity;
use althing_protocol::Label;
use althing_protocol::group::{Command, Content, GroupId, Needs, Priority, Submit, Target, WorkId};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::group_work::answer_text;

/// How long a task for an agent may take.
const DEADLINE_MS: u64 = 10 * 60 * 1_000;
/// Between two looks at it.
const POLL: Duration = Duration::from_millis(20);
/// Longest pause between two looks.
const POLL_MAX: Duration = Duration::from_millis(500);

/// Lets agents give groups tasks. Agents start before [`Groups`] exists, so it is connected later.
#[derive(Default)]
pub struct GroupOrders(OnceLock<Connected>);

struct Connected {
    groups: Groups,
    identity: Arc<Identity>,
    clock: WallClock,
    entropy: Entropy,
}

/// Cancels a task that nobody waits for any more. That of a turn that was paused goes on: the turn orders it again by its key, and
/// is given its result.
struct Abandon {
    groups: Groups,
    group: GroupId,
    task: Option<WorkId>,
    rights: TurnRights,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(task) = self.task.filter(|_| !self.rights.is_paused()) {
            let (groups, group) = (self.groups.clone(), self.group);
            tokio::spawn(async move {
                if let Err(error) = groups.command(group, Command::Cancel(task)).await {
                    tracing::debug!(%group, %task, %error, "a task that nobody waits for could not be canceled");
                }
            });
        }
    }
}

impl GroupOrders {
    /// Connects agents to `groups`; they can give tasks from now on.
    pub(crate) fn connect(&self, groups: &Groups, identity: &Arc<Identity>, entropy: Entropy) {
        let clock = identity.clock().clone();
        // Only the first connection counts.
        let _ = self.0.set(Connected { groups: groups.clone(), identity: identity.clone(), clock, entropy });
    }
}

impl GroupTasks for GroupOrders {
    fn run(&self, order: Order) -> BoxFuture<'_, Result<String, OrderError>> {
        Box::pin(async move {
            let starting = || OrderError::Busy("this node is starting, or stopping".to_owned());
            let connected = self.0.get().ok_or_else(starting)?;
            connected.check(&order).map_err(OrderError::Failed)?;
            connected.run(&order).await
        })
    }
}

impl Connected {
    /// Tasks of a group are done in the name of the node's owner: an agent may not lend that to whoever calls it, unless its
    /// file says so.
    fn check(&self, order: &Order) -> Result<(), String> {
        let owner = self.identity.owner().id().to_string();
        let foreign = order.principals.iter().find(|principal| **principal != owner);
        match foreign {
            Some(other) if !order.as_itself => Err(format!(
                "{other} asked {:?}, and a group's tasks are done in the name of this node's owner: `asks_as: itself` in the \
                 agent file permits that",
                order.from
            )),
            _ => Ok(()),
        }
    }

    async fn run(&self, order: &Order) -> Result<String, OrderError> {
        let group = self.groups.resolve(&order.group).map_err(|error| refused(&error))?;
        let target = match (&order.capability, &order.agent) {
            (Some(capability), None) => Target::Capability(capability.clone()),
            (None, Some(agent)) => Target::Agent(agent.clone()),
            _ => return Err(OrderError::Failed("name either a capability or an agent".to_owned())),
        };
        // Of a key so many bytes are as good as all: it is a digest.
        let keyed = order.key.and_then(|key| key.first_chunk().copied());
        let task = WorkId::from_bytes(keyed.unwrap_or_else(|| self.entropy.bytes()));
        let submit = Submit {
            task,
            key: None,
            needs: Needs::of(target),
            input: Content::Inline(order.message.clone().into_bytes().into()),
            priority: Priority::Normal,
            deadline_ms: Some(self.clock.now_ms() + DEADLINE_MS),
            attempts_max: 3,
            lease_ms: 10_000,
            dependencies: Vec::new(),
            resources: Vec::new(),
            label: order.label,
            channel: None,
        };
        let rights = order.rights.clone();
        let mut abandon = Abandon { groups: self.groups.clone(), group, task: Some(task), rights };
        let submitting = self.groups.command(group, Command::Submit(Box::new(submit)));
        match promptly(&self.groups, group, submitting).await {
            // A duplicate is this very task: its id is random, or of the same call that was cut off.
            Ok(_) | Err(GroupError::OutcomeUnknown | GroupError::Refused(Refusal::TaskExists(_))) => {}
            // What was given nevertheless is canceled.
            Err(error) => return Err(refused(&error)),
        }
        let ended = self.wait(group, task, order).await;
        abandon.task = None;
        ended
    }

    async fn wait(&self, group: GroupId, task: WorkId, order: &Order) -> Result<String, OrderError> {
        let until = tokio::time::Instant::now() + Duration::from_millis(DEADLINE_MS) + POLL_MAX * 4;
        let mut pause = POLL;
        while tokio::time::Instant::now() < until {
            let looked = self.groups.look(group, |state| {
                let known = state.work().tasks().get(&task)?;
                known.state.is_finished().then(|| (known.state, known.result.clone(), known.why.clone(), known.label))
            });
            let looked = looked.map_err(|error| refused(&error))?;
            // Why there is no result a member says too, without a label.
            let label = looked.as_ref().map(|(.., label)| label.unwrap_or(Label::UNLABELLED));
            order.answer.add_label(label);
            match looked {
                Some((State::Completed, Some(result), ..)) => {
                    let bytes = content(&self.groups, group, &result).await.map_err(|error| refused(&error))?;
                    return Ok(text(&bytes));
                }
                Some((state, _, why, _)) => {
                    let why = why.map_or_else(String::new, |why| format!(": {why}"));
                    return Err(OrderError::Failed(format!("the group's task {task} is {state}{why}")));
                }
                None => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 5 / 4).min(POLL_MAX);
        }
        Err(OrderError::Failed(format!("the group has not ended the task {task} in time")))
    }
}

/// Why a group gave no result: one without a majority may have one in a moment.
fn refused(error: &GroupError) -> OrderError {
    match error {
        GroupError::NoAnswer { .. } | GroupError::NoMajority { begun: true, .. } => {
            OrderError::Busy(format!("{error}. If the task was given nevertheless, it is canceled as soon as possible"))
        }
        GroupError::NoMajority { .. } => OrderError::Busy(error.to_string()),
        // Not to be sent again at once: it would be done twice.
        GroupError::OutcomeUnknown => OrderError::Failed(format!("{error}; the task may have been executed")),
        error => OrderError::Failed(error.to_string()),
    }
}

/// The text of an agent's answer, or the one that a member returned.
fn text(bytes: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(bytes).map(|answer| answer_text(&answer)).unwrap_or_default();
    if said.is_empty() { String::from_utf8_lossy(bytes).into_owned() } else { said }
}

//! Follows a task over the agents that its turns called, on this node and on the owner's others: what each turn did, by names and
//! hashes.

use std::collections::{BTreeSet, VecDeque};

use althing_protocol::{AgentId, PublicKey};
use althing_session::{RunRecord, StepsError};

use crate::spans::gather::Traces;
use crate::spans::run_wire::{RUNS, RUNS_BYTES_MAX, RunsAnswer, RunsQuestion, is_shown, is_task};

/// Tasks that are followed.
const TASKS_MAX: usize = 64;
/// Nodes that are asked for one task.
const NODES_MAX: usize = 32;

/// A task with what its turns did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageTask {
    /// The node that told it.
    pub node: PublicKey,
    /// The task's id.
    pub task: String,
    /// The name of its agent.
    pub agent: String,
    /// The task whose turn called the agent; none of the first one.
    pub caller: Option<String>,
    /// The newest records, the oldest first.
    pub runs: Vec<RunRecord>,
    /// Older ones, which made room for them.
    pub forgotten: u64,
}

/// A task of which nothing is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageGap {
    /// The task's id.
    pub task: String,
    /// The id of its agent, where that is known.
    pub agent: Option<String>,
    /// The task whose turn called the agent; none of the first one.
    pub caller: Option<String>,
    /// Why, in words for a person.
    pub why: String,
}

/// What led to an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The task, and those of the agents that were called for it, each after the one that called it.
    pub tasks: Vec<LineageTask>,
    /// What is missing.
    pub gaps: Vec<LineageGap>,
    /// Whether there are more tasks than are followed.
    pub more: bool,
}

/// A task to look for.
struct Step {
    task: String,
    agent: Option<String>,
    caller: Option<String>,
}

impl Traces {
    /// What the turns of a task did, and those of the agents that they called, as far as this node, or a node of its owner, keeps
    /// that.
    ///
    /// # Errors
    /// [`StepsError`]: the task is here and cannot be read.
    pub async fn lineage(&self, task: &str) -> Result<Lineage, StepsError> {
        let mut lineage = Lineage::default();
        let mut next = VecDeque::from([Step { task: task.to_owned(), agent: None, caller: None }]);
        let mut known = BTreeSet::from([task.to_owned()]);
        while let Some(Step { task, agent, caller }) = next.pop_front() {
            if lineage.tasks.len() + lineage.gaps.len() >= TASKS_MAX {
                lineage.more = true;
                break;
            }
            let told = match self.told(&task, agent.as_deref()).await {
                Ok(told) => told,
                Err(NoAnswer::Damaged(error)) if caller.is_none() => return Err(error),
                Err(missing) => {
                    lineage.gaps.push(LineageGap { task, agent, caller, why: missing.to_string() });
                    continue;
                }
            };
            let (node, answer) = told;
            for callee in answer.runs.iter().flat_map(|run| &run.calls).filter_map(|call| call.callee.as_ref()) {
                if known.insert(callee.task.clone()) {
                    let agent = Some(callee.agent.clone());
                    next.push_back(Step { task: callee.task.clone(), agent, caller: Some(task.clone()) });
                }
            }
            let RunsAnswer { agent, runs, forgotten } = answer;
            let agent = agent.unwrap_or_default();
            lineage.tasks.push(LineageTask { node, task, agent, caller, runs, forgotten });
        }
        Ok(lineage)
    }

    /// What this node has of a task, or else one of its owner's.
    async fn told(&self, task: &str, agent: Option<&str>) -> Result<(PublicKey, RunsAnswer), NoAnswer> {
        let me = self.communication.network().local();
        match self.calls.hosting().own_tasks().runs(task) {
            Ok(runs) => return Ok((me, runs.into())),
            Err(StepsError::NoTask { .. }) => {}
            Err(error) => return Err(NoAnswer::Damaged(error)),
        }
        if !is_task(task) {
            return Err(NoAnswer::Nowhere);
        }
        let agent: Option<AgentId> = agent.and_then(|agent| agent.parse().ok());
        let host = agent.and_then(|agent| self.calls.host_of(&agent, task));
        let nodes: Vec<PublicKey> = match host {
            Some(node) => vec![node],
            None => self.connected().take(NODES_MAX).collect(),
        };
        let answers = futures::future::join_all(nodes.iter().map(|node| self.runs_of(*node, task))).await;
        let mut why = None;
        for (node, answer) in nodes.into_iter().zip(answers) {
            match answer {
                Ok(answer) if answer.agent.is_some() => return Ok((node, answer)),
                Ok(_) => {}
                Err(reason) => why = Some(NoAnswer::Node { node: node.did(), why: reason }),
            }
        }
        Err(why.filter(|_| host.is_some()).unwrap_or(NoAnswer::Nowhere))
    }

    /// What another node of the owner keeps of a task.
    async fn runs_of(&self, node: PublicKey, task: &str) -> Result<RunsAnswer, String> {
        let question = RunsQuestion { task: task.to_owned() };
        let answer: RunsAnswer = self.told_by(node, (RUNS, &question), RUNS_BYTES_MAX).await?;
        if !is_shown(&answer) {
            return Err("its answer has signs that cannot be shown".to_owned());
        }
        Ok(answer)
    }
}

/// Why nothing is told of a task.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    /// It is here, and cannot be read.
    #[error("{0}")]
    Damaged(StepsError),
    /// Nobody who is asked has it.
    #[error(
        "neither this node nor a connected one of its owner has that task: it was forgotten, or its node is another owner's or \
         is not connected"
    )]
    Nowhere,
    /// The node that has it says nothing.
    #[error("it is on {node}: {why}")]
    Node {
        /// The node's DID.
        node: String,
        /// Why, in words for a person.
        why: String,
    },
}

//! What was seen in a run, in order.

use std::collections::BTreeSet;

use althing_execution::journal::Effect;
use althing_protocol::{Digest, Label};
use serde_json::Value;

use super::handoff::HandoffEvent;
use super::plan::{Loss, Plan};

/// Something that was seen. Turns and steps have the numbers of the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Whoever sent a message was answered with a task.
    Acknowledgement {
        /// Whose message.
        turn: usize,
        /// The task's id.
        task: String,
    },
    /// A task that was acknowledged is not there.
    Absence {
        /// Whose task.
        turn: usize,
    },
    /// A call came to the tool that counts.
    Call {
        /// Whose call.
        turn: usize,
        /// Which step.
        step: usize,
        /// What it does if it is made twice.
        effect: Effect,
        /// By which key.
        key: Digest,
        /// What was answered.
        value: u64,
        /// Whether it did anything: not if its key was known.
        is_new: bool,
    },
    /// An agent heard what came of a step.
    Hearing {
        /// Whose agent.
        turn: usize,
        /// Which step.
        step: usize,
        /// What it heard, or why there is nothing.
        heard: Result<Value, String>,
    },
    /// A person could read that a call is in doubt.
    Doubt {
        /// Whose call.
        turn: usize,
        /// Which step.
        step: usize,
    },
    /// Somebody said what came of a call in doubt.
    Settlement {
        /// Whose call.
        turn: usize,
        /// Which step.
        step: usize,
        /// Whether that was its result.
        is_result: bool,
    },
    /// A task was read, and is not as it was before.
    Look {
        /// Whose task.
        turn: usize,
        /// How it was.
        seen: View,
    },
    /// The life of the node ended.
    LifeEnd(Loss),
}

/// A task, as its client reads it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// A2A's word for its state.
    pub state: String,
    /// What its status says.
    pub text: String,
    /// What its agent made.
    pub answer: Value,
    /// How its node labels it, if at all.
    pub label: Option<Label>,
}

impl View {
    /// Whether nothing more comes of it.
    #[must_use]
    pub fn is_end(&self) -> bool {
        ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"]
            .contains(&self.state.as_str())
    }

    /// Whether its agent was done.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.state == "TASK_STATE_COMPLETED"
    }
}

/// All that was seen in a run.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// What was to happen.
    pub plan: Plan,
    /// What happened on the node, in order.
    pub events: Vec<Event>,
    /// The turns whose rows somebody changed.
    pub forged: BTreeSet<usize>,
    /// What happened between the two ends of a handoff, in order.
    pub handoff: Vec<HandoffEvent>,
}

impl Evidence {
    /// Nothing was seen yet.
    #[must_use]
    pub fn of(plan: Plan) -> Evidence {
        Evidence { plan, events: Vec::new(), forged: BTreeSet::new(), handoff: Vec::new() }
    }

    /// How each turn was seen last, if it was.
    #[must_use]
    pub fn last(&self, turn: usize) -> Option<&View> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Look { turn: of, seen } if *of == turn => Some(seen),
            _ => None,
        })
    }

    /// What the agent of a turn heard of a step, each time, with the place of that among the events.
    pub fn heard(&self, turn: usize, step: usize) -> impl DoubleEndedIterator<Item = (usize, &Result<Value, String>)> {
        self.events.iter().enumerate().filter_map(move |(at, event)| match event {
            Event::Hearing { turn: of, step: at_step, heard } if (*of, *at_step) == (turn, step) => Some((at, heard)),
            _ => None,
        })
    }

    /// Whether a person could read that a call is in doubt.
    #[must_use]
    pub fn is_told(&self, turn: usize, step: usize) -> bool {
        self.events.contains(&Event::Doubt { turn, step })
    }

    /// What somebody said last of a call in doubt, if anybody did: whether that was its result.
    #[must_use]
    pub fn settlement(&self, turn: usize, step: usize) -> Option<bool> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Settlement { turn: of, step: at, is_result } if (*of, *at) == (turn, step) => Some(*is_result),
            _ => None,
        })
    }

    /// Whether what a turn heard at one place among the events it must hear again at a later one: a process that ends loses nothing,
    /// and a power cut nothing that the turn did something in the world after, or ended.
    #[must_use]
    pub fn is_binding(&self, turn: usize, at: usize, until: usize) -> bool {
        for event in &self.events[at + 1..until] {
            match event {
                Event::LifeEnd(Loss::Power) => return false,
                Event::Call { turn: of, effect: Effect::Keyed | Effect::Final, .. } if *of == turn => return true,
                Event::Look { turn: of, seen } if *of == turn && seen.is_end() => return true,
                _ => {}
            }
        }
        true
    }
}

//! What is decided about, and what a policy may read of each.

use std::collections::BTreeMap;

use crate::kind::Kind;
use crate::shape::{Member, Shape};

/// One kind of act that is decided by policies. Tools are also acts of their own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// An agent is called.
    Call,
    /// A tool is called: the group of the tools' own actions.
    UseTool,
    /// A model is asked.
    Model,
    /// Something is written to memory.
    Remember,
    /// Something is read from memory.
    Recall,
}

impl Gate {
    /// All of them.
    pub const ALL: [Gate; 5] = [Gate::Call, Gate::UseTool, Gate::Model, Gate::Remember, Gate::Recall];

    /// As a policy writes it, between the quotes of `Action::"…"`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Gate::Call => "call",
            Gate::UseTool => "useTool",
            Gate::Model => "model",
            Gate::Remember => "remember",
            Gate::Recall => "recall",
        }
    }

    /// The gate of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Gate> {
        Gate::ALL.into_iter().find(|gate| gate.word() == word)
    }

    pub(crate) fn resources(self) -> &'static [Kind] {
        match self {
            Gate::Call => &[Kind::Agent],
            Gate::UseTool => &[Kind::Tool],
            Gate::Model => &[Kind::Model],
            Gate::Remember | Gate::Recall => &[Kind::Memory],
        }
    }

    /// What stands in `context.input`. All of it is optional.
    pub(crate) fn input(self) -> Shape {
        let members: &[(&str, Shape)] = match self {
            Gate::Model => &[("tokens", Shape::Whole)],
            Gate::Remember => &[("key", Shape::Text), ("text", Shape::Text)],
            Gate::Recall => &[("key", Shape::Text), ("query", Shape::Text)],
            Gate::Call | Gate::UseTool => &[],
        };
        let optional =
            |(name, shape): &(&str, Shape)| ((*name).to_owned(), Member { shape: shape.clone(), is_required: false });
        Shape::Record(members.iter().map(optional).collect::<BTreeMap<_, _>>())
    }
}

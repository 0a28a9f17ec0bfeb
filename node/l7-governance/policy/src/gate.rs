//! What is decided about, and what a policy may read of each.

use std::collections::BTreeMap;

use crate::kind::Kind;
use crate::shape::{Member, Shape};

/// One kind of act that passes the gate. Tools are also acts of their own name.
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
    /// A secret is handed to a program or a proxy.
    Secret,
    /// A connection leaves the machine.
    Egress,
    /// An agent or a server of tools is added to the node.
    Add,
    /// A contract is bound.
    Bind,
    /// An agent is placed on a node or in a group.
    Place,
    /// An agent or a server is shown to others.
    Expose,
    /// A package of a registry is installed.
    Install,
    /// A session goes to another node.
    Handoff,
}

impl Gate {
    /// All of them.
    pub const ALL: [Gate; 13] = [
        Gate::Call,
        Gate::UseTool,
        Gate::Model,
        Gate::Remember,
        Gate::Recall,
        Gate::Secret,
        Gate::Egress,
        Gate::Add,
        Gate::Bind,
        Gate::Place,
        Gate::Expose,
        Gate::Install,
        Gate::Handoff,
    ];

    /// As a policy writes it, between the quotes of `Action::"…"`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Gate::Call => "call",
            Gate::UseTool => "useTool",
            Gate::Model => "model",
            Gate::Remember => "remember",
            Gate::Recall => "recall",
            Gate::Secret => "secret",
            Gate::Egress => "egress",
            Gate::Add => "add",
            Gate::Bind => "bind",
            Gate::Place => "place",
            Gate::Expose => "expose",
            Gate::Install => "install",
            Gate::Handoff => "handoff",
        }
    }

    /// The gate of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Gate> {
        Gate::ALL.into_iter().find(|gate| gate.word() == word)
    }

    pub(crate) fn resources(self) -> &'static [Kind] {
        match self {
            Gate::Call | Gate::Bind => &[Kind::Agent],
            Gate::UseTool => &[Kind::Tool],
            Gate::Model => &[Kind::Model],
            Gate::Remember | Gate::Recall => &[Kind::Memory],
            Gate::Secret => &[Kind::Secret],
            Gate::Egress => &[Kind::Host],
            Gate::Add | Gate::Expose => &[Kind::Agent, Kind::Server],
            Gate::Place => &[Kind::Node, Kind::Group],
            Gate::Install => &[Kind::Package],
            Gate::Handoff => &[Kind::Node],
        }
    }

    /// What stands in `context.input`. All of it is optional.
    pub(crate) fn input(self) -> Shape {
        let members: &[(&str, Shape)] = match self {
            Gate::Call => &[("text", Shape::Text)],
            Gate::Model => &[("tokens", Shape::Whole)],
            Gate::Remember => &[("key", Shape::Text), ("text", Shape::Text)],
            Gate::Recall => &[("key", Shape::Text), ("query", Shape::Text)],
            Gate::Egress => &[("method", Shape::Text), ("path", Shape::Text), ("port", Shape::Whole)],
            Gate::Install => &[("version", Shape::Text)],
            Gate::UseTool | Gate::Secret | Gate::Add | Gate::Bind | Gate::Place | Gate::Expose | Gate::Handoff => &[],
        };
        let optional =
            |(name, shape): &(&str, Shape)| ((*name).to_owned(), Member { shape: shape.clone(), is_required: false });
        Shape::Record(members.iter().map(optional).collect::<BTreeMap<_, _>>())
    }
}

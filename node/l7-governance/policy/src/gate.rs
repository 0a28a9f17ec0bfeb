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
    /// A program reaches a host, or is started where nothing keeps it from any.
    Egress,
    /// A secret of the node is read for an agent.
    UseSecret,
    /// An agent is given a model, or a server of tools, when it starts.
    BindAgent,
    /// An agent is added, or another file takes the place of its file.
    AddAgent,
    /// A group places an agent on this node.
    PlaceAgent,
    /// Others than this node may see or call an agent from now on.
    ExposeAgent,
    /// A release of a registry is installed, or takes the place of one.
    InstallRelease,
    /// The work of a task goes to another agent.
    HandOver,
}

impl Gate {
    /// All of them.
    pub const ALL: [Gate; 13] = [
        Gate::Call,
        Gate::UseTool,
        Gate::Model,
        Gate::Remember,
        Gate::Recall,
        Gate::Egress,
        Gate::UseSecret,
        Gate::BindAgent,
        Gate::AddAgent,
        Gate::PlaceAgent,
        Gate::ExposeAgent,
        Gate::InstallRelease,
        Gate::HandOver,
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
            Gate::Egress => "egress",
            Gate::UseSecret => "useSecret",
            Gate::BindAgent => "bindAgent",
            Gate::AddAgent => "addAgent",
            Gate::PlaceAgent => "placeAgent",
            Gate::ExposeAgent => "exposeAgent",
            Gate::InstallRelease => "installRelease",
            Gate::HandOver => "handOver",
        }
    }

    /// The gate of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Gate> {
        Gate::ALL.into_iter().find(|gate| gate.word() == word)
    }

    pub(crate) fn resources(self) -> &'static [Kind] {
        match self {
            Gate::Call
            | Gate::AddAgent
            | Gate::PlaceAgent
            | Gate::ExposeAgent
            | Gate::InstallRelease
            | Gate::HandOver => &[Kind::Agent],
            Gate::UseTool => &[Kind::Tool],
            Gate::Model => &[Kind::Model],
            Gate::Remember | Gate::Recall => &[Kind::Memory],
            Gate::Egress => &[Kind::Host],
            Gate::UseSecret => &[Kind::Secret],
            Gate::BindAgent => &[Kind::Model, Kind::Server],
        }
    }

    /// What stands in `context.input`. All of it is optional.
    pub(crate) fn input(self) -> Shape {
        let members: &[(&str, Shape)] = match self {
            Gate::Model => &[("tokens", Shape::Whole)],
            Gate::Remember => &[("key", Shape::Text), ("text", Shape::Text), ("source", Shape::Text)],
            Gate::Recall => &[("key", Shape::Text), ("query", Shape::Text)],
            Gate::Egress => &[("host", Shape::Text), ("method", Shape::Text), ("port", Shape::Whole)],
            Gate::UseSecret | Gate::BindAgent => &[("host", Shape::Text), ("name", Shape::Text)],
            Gate::AddAgent | Gate::PlaceAgent => &[
                ("group", Shape::Text),
                ("name", Shape::Text),
                ("publisher", Shape::Text),
                ("runtime", Shape::Text),
                ("sandbox", Shape::Text),
                ("version", Shape::Text),
            ],
            Gate::ExposeAgent => &[("callers", Shape::Text), ("exposure", Shape::Text), ("name", Shape::Text)],
            Gate::InstallRelease => &[
                ("name", Shape::Text),
                ("publisher", Shape::Text),
                ("registry", Shape::Text),
                ("version", Shape::Text),
            ],
            Gate::Call | Gate::UseTool | Gate::HandOver => &[],
        };
        let optional =
            |(name, shape): &(&str, Shape)| ((*name).to_owned(), Member { shape: shape.clone(), is_required: false });
        Shape::Record(members.iter().map(optional).collect::<BTreeMap<_, _>>())
    }
}

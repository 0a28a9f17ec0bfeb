//! The types of entities, and names of entities as policies write them.

use std::str::FromStr as _;
use std::sync::LazyLock;

use cedar_policy::{EntityId, EntityTypeName, EntityUid};

/// What a policy can speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// By its id; with its version. In its publisher.
    Agent,
    /// In the roles that it has.
    Person,
    /// What persons are in.
    Role,
    /// Who signed an agent's description.
    Publisher,
    /// By its id.
    Node,
    /// What tools are in: one MCP server, or what a Thing offers.
    Server,
    /// By `SERVER/TOOL`; with the profile that the owner wrote.
    Tool,
    /// By the name that the node's configuration gives it.
    Model,
    /// A scope of memory.
    Memory,
    /// Where a connection goes: a name or an address, without its port.
    Host,
    /// By its name; never its value.
    Secret,
    /// `public`, `internal`, `confidential` or `restricted`, with its rank from 0 to 3.
    Label,
    /// What is done: a gate, or the name of a tool.
    Action,
    /// A number that neither Long nor decimal can hold: equal to itself, and no more.
    Number,
    /// JSON's null.
    Null,
}

impl Kind {
    /// All of them, in their order.
    pub const ALL: [Kind; 15] = [
        Kind::Agent,
        Kind::Person,
        Kind::Role,
        Kind::Publisher,
        Kind::Node,
        Kind::Server,
        Kind::Tool,
        Kind::Model,
        Kind::Memory,
        Kind::Host,
        Kind::Secret,
        Kind::Label,
        Kind::Action,
        Kind::Number,
        Kind::Null,
    ];

    /// As a policy writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Agent => "Agent",
            Kind::Person => "Person",
            Kind::Role => "Role",
            Kind::Publisher => "Publisher",
            Kind::Node => "Node",
            Kind::Server => "Server",
            Kind::Tool => "Tool",
            Kind::Model => "Model",
            Kind::Memory => "Memory",
            Kind::Host => "Host",
            Kind::Secret => "Secret",
            Kind::Label => "Label",
            Kind::Action => "Action",
            Kind::Number => "Number",
            Kind::Null => "Null",
        }
    }

    /// The type of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub(crate) fn uid(self, id: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(TYPES[self as usize].clone(), EntityId::new(id))
    }

    /// Whether entities of this type have members, so that a policy decides wrongly where they are unknown.
    pub(crate) fn has_members(self) -> bool {
        matches!(self, Kind::Agent | Kind::Person | Kind::Node | Kind::Tool | Kind::Model)
    }
}

/// Parsed once: a name is parsed as slowly as a policy.
static TYPES: LazyLock<Vec<EntityTypeName>> = LazyLock::new(|| {
    Kind::ALL.iter().map(|kind| EntityTypeName::from_str(kind.word()).expect("the words are identifiers")).collect()
});

/// Names one entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityName {
    /// Before the colons.
    pub kind: Kind,
    /// Between the quotes, not escaped.
    pub id: String,
}

impl EntityName {
    /// `KIND::"ID"`.
    #[must_use]
    pub fn new(kind: Kind, id: impl Into<String>) -> EntityName {
        EntityName { kind, id: id.into() }
    }

    /// The tool of a server, by the name that policies use.
    #[must_use]
    pub fn tool(server: &str, tool: &str) -> EntityName {
        EntityName::new(Kind::Tool, format!("{server}/{tool}"))
    }

    /// Reads `KIND::"ID"`. `None` where that is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<EntityName> {
        let uid = EntityUid::from_str(text).ok()?;
        EntityName::of_uid(&uid)
    }

    pub(crate) fn of_uid(uid: &EntityUid) -> Option<EntityName> {
        let kind = Kind::of_word(&uid.type_name().to_string())?;
        Some(EntityName::new(kind, uid.id().unescaped()))
    }

    pub(crate) fn uid(&self) -> EntityUid {
        self.kind.uid(&self.id)
    }
}

impl std::fmt::Display for EntityName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::\"{}\"", self.kind.word(), self.id.escape_debug())
    }
}

//! What is known of agents, persons, tools and so on, as policies read it.
//!
//! Building entities costs more than deciding: they are built once, when something is added or a person's roles change, and
//! every decision reads the same.

use std::collections::BTreeMap;

use althing_protocol::contract::DataLabel;
use cedar_policy::{Entities, Entity, EntityUid, RestrictedExpression};

use crate::kind::{EntityName, Kind};
use crate::schema::Schema;

/// Entities of one world, those that others are in counted too.
pub const ENTITIES_MAX: usize = 100_000;

/// What is known of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An agent, here or elsewhere.
    Agent {
        /// Without its version.
        id: String,
        /// As its description says.
        version: String,
        /// Who signed its description.
        publisher: Option<String>,
    },
    /// A person of `people.yaml`.
    Person {
        /// By name.
        id: String,
        /// By name.
        roles: Vec<String>,
    },
    /// A node of this or of another owner.
    Node {
        /// Its peer id.
        id: String,
    },
    /// A tool with its profile.
    Tool {
        /// Of the agent's or the node's file.
        server: String,
        /// What its server calls it.
        name: String,
        /// `none`, `repeatable`, `keyed` or `final`.
        effect: String,
        /// Whether what it returns can be relied on.
        trusted: bool,
        /// Of what it returns.
        label: DataLabel,
        /// The strictest that it may be given.
        clearance: DataLabel,
        /// From 0, the least dangerous.
        tier: u32,
    },
    /// A model of the node's configuration.
    Model {
        /// By name.
        id: String,
        /// The strictest that it may be given.
        clearance: DataLabel,
    },
}

impl Entry {
    fn name(&self) -> EntityName {
        match self {
            Entry::Agent { id, .. } => EntityName::new(Kind::Agent, id),
            Entry::Person { id, .. } => EntityName::new(Kind::Person, id),
            Entry::Node { id, .. } => EntityName::new(Kind::Node, id),
            Entry::Tool { server, name, .. } => EntityName::tool(server, name),
            Entry::Model { id, .. } => EntityName::new(Kind::Model, id),
        }
    }

    fn parents(&self) -> Vec<EntityName> {
        match self {
            Entry::Agent { publisher, .. } => publisher.iter().map(|id| EntityName::new(Kind::Publisher, id)).collect(),
            Entry::Person { roles, .. } => roles.iter().map(|id| EntityName::new(Kind::Role, id)).collect(),
            Entry::Tool { server, .. } => vec![EntityName::new(Kind::Server, server)],
            Entry::Node { .. } | Entry::Model { .. } => Vec::new(),
        }
    }

    fn members(&self) -> Vec<(String, RestrictedExpression)> {
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let members = match self {
            Entry::Agent { version, .. } => vec![("version", text(version))],
            Entry::Person { .. } | Entry::Node { .. } => Vec::new(),
            Entry::Tool { server, name, effect, trusted, label, clearance, tier } => vec![
                ("server", text(server)),
                ("name", text(name)),
                ("effect", text(effect)),
                ("trusted", RestrictedExpression::new_bool(*trusted)),
                ("label", of_label(*label)),
                ("clearance", of_label(*clearance)),
                ("tier", RestrictedExpression::new_long(i64::from(*tier))),
            ],
            Entry::Model { clearance, .. } => vec![("clearance", of_label(*clearance))],
        };
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

pub(crate) fn label_uid(label: DataLabel) -> EntityUid {
    Kind::Label.uid(label_word(label))
}

fn of_label(label: DataLabel) -> RestrictedExpression {
    RestrictedExpression::new_entity_uid(label_uid(label))
}

pub(crate) fn label_word(label: DataLabel) -> &'static str {
    match label {
        DataLabel::Public => "public",
        DataLabel::Internal => "internal",
        DataLabel::Confidential => "confidential",
        DataLabel::Restricted => "restricted",
    }
}

pub(crate) fn rank(label: DataLabel) -> i64 {
    match label {
        DataLabel::Public => 0,
        DataLabel::Internal => 1,
        DataLabel::Confidential => 2,
        DataLabel::Restricted => 3,
    }
}

pub(crate) const LABELS: [DataLabel; 4] =
    [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];

/// Why a world cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// More than [`ENTITIES_MAX`].
    #[error(
        "policies would have to know more than {most} agents, persons and tools: remove those that are no longer used"
    )]
    Size {
        /// How many there may be.
        most: usize,
    },
    /// Two things that cannot be in one another are.
    #[error("what policies know cannot be ordered: look for a group or a role with the name of what is in it")]
    Order,
}

/// What is known, of the tools of one schema.
#[derive(Debug, Clone)]
pub struct World {
    entities: Entities,
}

impl World {
    /// With the actions of this schema. Of two entries for one, the later holds.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn new(schema: &Schema, entries: &[Entry]) -> Result<World, WorldError> {
        let actions = schema.cedar.action_entities().map_err(|_| WorldError::Order)?;
        let labels = LABELS.into_iter().map(|label| {
            let rank = ("rank".to_owned(), RestrictedExpression::new_long(rank(label)));
            Entity::new_with_tags(label_uid(label), [rank], [], []).expect("a rank is a number")
        });
        let all: Vec<Entity> = actions.into_iter().chain(labels).chain(build(entries)).collect();
        World::of(Entities::empty(), all)
    }

    /// With more, or with what is now known of the same. It takes as long as making the world.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn with(&self, entries: &[Entry]) -> Result<World, WorldError> {
        World::of(self.entities.clone(), build(entries))
    }

    fn of(entities: Entities, more: Vec<Entity>) -> Result<World, WorldError> {
        if entities.len() + more.len() > ENTITIES_MAX {
            return Err(WorldError::Size { most: ENTITIES_MAX });
        }
        Ok(World { entities: entities.upsert_entities(more, None).map_err(|_| WorldError::Order)? })
    }

    /// Whether something is known of it.
    #[must_use]
    pub fn knows(&self, name: &EntityName) -> bool {
        self.knows_uid(&name.uid())
    }

    pub(crate) fn knows_uid(&self, uid: &EntityUid) -> bool {
        self.entities.get(uid).is_some()
    }

    pub(crate) fn entities(&self) -> &Entities {
        &self.entities
    }
}

fn build(entries: &[Entry]) -> Vec<Entity> {
    let mut entities = BTreeMap::new();
    for entry in entries {
        let parents = entry.parents();
        for parent in &parents {
            entities.entry(parent.clone()).or_insert_with(|| Entity::with_uid(parent.uid()));
        }
        let name = entry.name();
        let parents = parents.iter().map(EntityName::uid);
        let entity = Entity::new_with_tags(name.uid(), entry.members(), parents, [])
            .expect("texts, numbers and names have values");
        entities.insert(name, entity);
    }
    entities.into_values().collect()
}

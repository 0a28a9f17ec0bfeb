//! What is known of agents, persons, tools and so on, as policies read it.
//!
//! Building entities costs more than deciding: they are built once, when something is added or a person's roles change, and
//! every decision reads the same. What a request brings along is no reason to build them anew: an agent of somebody else, or another
//! version of an agent, is there in each request of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use althing_protocol::contract::DataLabel;
use cedar_policy::{Entities, Entity, EntityUid, Policy, PolicySet, RestrictedExpression};

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
    /// By agent: the tools that it has by names by which another agent has others.
    own: BTreeMap<String, OwnTools>,
}

type OwnTools = HashMap<EntityUid, Entity>;

/// What a request names.
#[derive(Clone, Copy)]
pub(crate) struct RequestNames<'a> {
    pub(crate) principal: &'a EntityName,
    /// None where it is not known.
    pub(crate) action: Option<&'a EntityUid>,
    pub(crate) resource: &'a EntityName,
    pub(crate) person: Option<&'a str>,
}

/// What the conditions of policies name, where they can read its members or what it is in. What stands in a scope is compared by its
/// name alone.
pub(crate) fn literals(set: &PolicySet) -> Vec<EntityUid> {
    let conditional = set.policies().filter(|policy| policy.has_non_scope_constraint());
    let is_read = |uid: &EntityUid| {
        EntityName::of_uid(uid).is_some_and(|name| name.kind.has_members() || name.kind == Kind::Action)
    };
    let read: BTreeSet<EntityUid> = conditional.flat_map(Policy::entity_literals).filter(is_read).collect();
    read.into_iter().collect()
}

impl World {
    /// With the actions of this schema. Of two entries for one, the later holds.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn new(schema: &Schema, entries: &[Entry]) -> Result<World, WorldError> {
        let actions = schema.validator.schema().action_entities().map_err(|_| WorldError::Order)?;
        let labels = LABELS.into_iter().map(|label| {
            let rank = ("rank".to_owned(), RestrictedExpression::new_long(rank(label)));
            Entity::new_with_tags(label_uid(label), [rank], [], []).expect("a rank is a number")
        });
        World::of(actions.into_iter().chain(labels).collect(), entries)
    }

    /// With the same actions, and what is known now. It takes as long as making the first one.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn anew(&self, entries: &[Entry]) -> Result<World, WorldError> {
        let of_schema = |uid: &EntityUid| {
            EntityName::of_uid(uid).is_some_and(|name| matches!(name.kind, Kind::Action | Kind::Label))
        };
        World::of(self.entities.iter().filter(|entity| of_schema(&entity.uid())).cloned().collect(), entries)
    }

    /// The same where agents have tools of their own by names by which others have others: each agent with those.
    #[must_use]
    pub fn with_own(mut self, own: &BTreeMap<String, Vec<Entry>>) -> World {
        let tools = |entries: &[Entry]| build(entries).into_iter().map(|entity| (entity.uid(), entity)).collect();
        self.own = own.iter().map(|(agent, entries)| (agent.clone(), tools(entries))).collect();
        self
    }

    fn of(mut all: Vec<Entity>, entries: &[Entry]) -> Result<World, WorldError> {
        all.extend(build(entries));
        if all.len() > ENTITIES_MAX {
            return Err(WorldError::Size { most: ENTITIES_MAX });
        }
        let entities = Entities::empty().upsert_entities(all, None).map_err(|_| WorldError::Order)?;
        Ok(World { entities, own: BTreeMap::new() })
    }

    /// What one request reads, where that is not what this world has: facts of its own, or its agent's tool of a name that another
    /// agent's has too. It is what the request names, what the policies themselves name, and labels; nothing else can be read from
    /// there.
    ///
    /// # Errors
    /// [`WorldError::Order`].
    pub(crate) fn slice(
        &self,
        names: &RequestNames<'_>,
        facts: &[Entry],
        literals: &[EntityUid],
    ) -> Result<Option<Entities>, WorldError> {
        let RequestNames { principal, action, resource, person } = *names;
        let is_own = |own: &&OwnTools| {
            own.contains_key(&resource.uid()) || literals.iter().any(|literal| own.contains_key(literal))
        };
        let own = self.own.get(&principal.id).filter(|_| principal.kind == Kind::Agent).filter(is_own);
        let facts: Vec<Entity> = build(facts).into_iter().filter(|fact| !self.has(fact)).collect();
        if facts.is_empty() && own.is_none() {
            return Ok(None);
        }
        let person = person.map(|person| Kind::Person.uid(person));
        let named = [principal.uid(), resource.uid()].into_iter().chain(person).chain(action.cloned());
        let mut slice: HashMap<EntityUid, Entity> = HashMap::new();
        for uid in named.chain(LABELS.into_iter().map(label_uid)).chain(literals.iter().cloned()) {
            let known = own.and_then(|own| own.get(&uid)).or_else(|| self.entities.get(&uid));
            if let Some(known) = known {
                slice.insert(uid, known.clone());
            }
        }
        slice.extend(facts.into_iter().map(|fact| (fact.uid(), fact)));
        Entities::from_entities(slice.into_values(), None).map(Some).map_err(|_| WorldError::Order)
    }

    /// Whether exactly this is known of it.
    fn has(&self, entity: &Entity) -> bool {
        self.entities.get(&entity.uid()).is_some_and(|known| known.deep_eq(entity))
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

#[cfg(test)]
mod tests;

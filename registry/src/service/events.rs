//! What happens in the directory, read from the log: events have the indexes of its entries.

use althing_protocol::AgentId;
use althing_protocol::object::Kind;
use althing_protocol::registry::{Entry, EntryKind, Quarantine, Version};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::rows::THINGS;
use super::things::{Registration, ThingError, difference, shown, value};
use super::{Registry, RequestError};
use crate::machine::things::{ThingRecord, Written};
use crate::machine::{Released, Statement};

/// Entries that are read at once.
const READ_AT_ONCE: u64 = 64;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A description was registered.
    Created,
    /// A description was changed.
    Updated,
    /// A description was deleted.
    Deleted,
}

impl EventKind {
    /// All of them.
    pub const ALL: [EventKind; 3] = [EventKind::Created, EventKind::Updated, EventKind::Deleted];

    /// As WoT Discovery calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Created => "thing_created",
            EventKind::Updated => "thing_updated",
            EventKind::Deleted => "thing_deleted",
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The index of the entry.
    pub index: u64,
    /// What happened.
    pub kind: EventKind,
    /// The id, and what else is told.
    pub data: Value,
}

impl Registry {
    /// Tells how many entries the log has, whenever there are more.
    #[must_use]
    pub fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Events of entries from `from` on, of some entries at once, and the next entry to read. With `is_full` they tell what was
    /// registered and what has changed, as far as it is still kept: of each Thing the newest change.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn events(&self, from: u64, is_full: bool) -> Result<(Vec<Event>, u64), ThingError> {
        Teller { registry: self, is_full }.tell(from)
    }
}

/// Reads events from the log.
struct Teller<'a> {
    registry: &'a Registry,
    is_full: bool,
}

impl Teller<'_> {
    fn tell(&self, from: u64) -> Result<(Vec<Event>, u64), ThingError> {
        let size = self.registry.checkpoint().head.size;
        let count = READ_AT_ONCE.min(size.saturating_sub(from));
        if count == 0 {
            return Ok((Vec::new(), from));
        }
        let mut events = Vec::new();
        for (index, entry) in (from..).zip(self.registry.log.entries(from, count)?) {
            let entry = Entry::decode(&entry).ok_or(RequestError::Damaged(index))?;
            let is_told = matches!(
                entry.kind,
                EntryKind::Thing
                    | EntryKind::ThingDeleted
                    | EntryKind::Quarantine
                    | EntryKind::Signed(Kind::Release | Kind::Mark)
            );
            if is_told {
                events.extend(self.event(index)?);
            }
        }
        Ok((events, from + count))
    }

    fn event(&self, index: u64) -> Result<Option<Event>, ThingError> {
        Ok(match self.registry.statement(index)?.1 {
            Statement::Thing(record) => Some(match *record {
                ThingRecord::Deleted(gone) => {
                    Event { index, kind: EventKind::Deleted, data: json!({ "id": &*gone.id }) }
                }
                ThingRecord::Written(written) => {
                    let kind = if written.follows.is_some() { EventKind::Updated } else { EventKind::Created };
                    let told = if self.is_full { self.event_data(index, &written)? } else { None };
                    Event { index, kind, data: told.unwrap_or_else(|| json!({ "id": &*written.id })) }
                }
            }),
            Statement::Release(release, described) => {
                let agent = &release.body.agent;
                if !self.is_public(agent, &release.body.version, index) {
                    return Ok(None);
                }
                let Some(is_first) = self.is_first(agent, index) else { return Ok(None) };
                let kind = if is_first { EventKind::Created } else { EventKind::Updated };
                let told = (self.is_full && is_first).then(|| value(&described.body.td)).flatten();
                Some(Event { index, kind, data: told.unwrap_or_else(|| json!({ "id": agent.to_string() })) })
            }
            // It is told when the last one approves it.
            Statement::Approval(release) => {
                let agent = &release.body.agent;
                let told = self.is_public(agent, &release.body.version, index);
                told.then(|| {
                    if self.is_first(agent, index) == Some(true) {
                        self.appeared(index, agent)
                    } else {
                        self.changed(index, agent)
                    }
                })
            }
            Statement::Mark(mark) => {
                if !self.is_public(&mark.body.agent, &mark.body.version, index) {
                    return Ok(None);
                }
                Some(self.changed(index, &mark.body.agent))
            }
            Statement::Quarantine(record) => {
                let Quarantine { agent, version, reason, .. } = &*record;
                let shows_again = || reason.is_none() && self.is_alone(agent, version.as_ref());
                self.was_public(agent, version.as_ref(), index)
                    .then(|| if shows_again() { self.appeared(index, agent) } else { self.changed(index, agent) })
            }
            _ => None,
        })
    }

    /// An agent whose description is there from now on.
    fn appeared(&self, index: u64, agent: &AgentId) -> Event {
        let event = self.changed(index, agent);
        if event.kind == EventKind::Deleted {
            return event;
        }
        let whole = || value(&self.registry.directory().submitted(&agent.to_string()).ok()?.bytes);
        let told = self.is_full.then(whole).flatten();
        Event { kind: EventKind::Created, data: told.unwrap_or(event.data), ..event }
    }

    /// Whether everybody sees nothing of an agent but that version, or all of it.
    fn is_alone(&self, agent: &AgentId, version: Option<&Version>) -> bool {
        let seen = self.registry.seen();
        let Some(version) = version else { return true };
        !seen.machine.agent(agent).is_some_and(|versions| versions.public().any(|(other, _)| other != version))
    }

    /// An agent whose description is another one, or not there any more.
    fn changed(&self, index: u64, agent: &AgentId) -> Event {
        let kind = if self.is_described(agent) { EventKind::Updated } else { EventKind::Deleted };
        Event { index, kind, data: json!({ "id": agent.to_string() }) }
    }

    /// Whether everybody saw a version, or any, before that entry, whatever the operator hides.
    fn was_public(&self, agent: &AgentId, version: Option<&Version>, index: u64) -> bool {
        let seen = self.registry.seen();
        let versions = seen.machine.agent(agent).into_iter().flat_map(|versions| versions.iter());
        let mut meant = versions.filter(|(one, _)| version.is_none_or(|version| version == *one));
        meant.any(|(_, released)| {
            let last = released.approvals.last().map_or(released.index, |(_, index, _)| *index);
            released.is_for_everybody() && last <= index
        })
    }

    /// Whether everybody sees a version, and has seen it since that entry at the latest.
    fn is_public(&self, agent: &AgentId, version: &Version, index: u64) -> bool {
        let seen = self.registry.seen();
        let released = seen.machine.agent(agent).and_then(|versions| versions.get(version));
        released.is_some_and(|released| {
            let last = released.approvals.last().map_or(released.index, |(_, index, _)| *index);
            released.is_public() && last <= index
        })
    }

    /// Whether everybody sees something of an agent since that entry, and nothing before; none if the agent is not here.
    fn is_first(&self, agent: &AgentId, index: u64) -> Option<bool> {
        let seen = self.registry.seen();
        let since = |(_, released): (&Version, &Released)| {
            released.approvals.last().map_or(released.index, |(_, index, _)| *index)
        };
        Some(seen.machine.agent(agent)?.public().map(since).min()? == index)
    }

    /// Whether an agent has a version that is neither yanked nor revoked.
    fn is_described(&self, agent: &AgentId) -> bool {
        let seen = self.registry.state.read().expect("no holder panics");
        seen.machine.agent(agent).is_some_and(|versions| versions.current().is_some())
    }

    /// What was registered, or what has changed; none if it is not kept any more.
    fn event_data(&self, index: u64, written: &Written) -> Result<Option<Value>, ThingError> {
        let at = Registration {
            created_ms: written.at_ms,
            modified_ms: written.at_ms,
            ttl_s: written.ttl_s,
            expires_ms: written.expires_ms,
        };
        let kept = |index: u64| self.registry.store.read(THINGS, &index.to_be_bytes());
        let Some(new) = kept(index)? else { return Ok(None) };
        let Some(before) = written.follows else {
            let bytes = shown(&new, &written.id, at, written.at_ms);
            return Ok(bytes.and_then(|bytes| value(&bytes)));
        };
        let Some(old) = kept(before)? else { return Ok(None) };
        let (Some(old), Some(new)) = (value(&old), value(&new)) else { return Ok(None) };
        let mut told = Map::from_iter([("id".to_owned(), json!(&*written.id))]);
        told.extend(difference(&old, &new).into_iter().filter(|(name, _)| name != "id" && name != "registration"));
        Ok(Some(Value::Object(told)))
    }
}

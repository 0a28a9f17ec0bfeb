//! Pages of the directory.

use std::sync::Arc;

use althing_protocol::AgentId;

use super::body::{Registration, shown};
use super::{Directory, ThingError};
use crate::machine::things::{AGENTS, Thing, is_agent};
use crate::machine::{RegistryState, ShownAgent};
use crate::service::RequestError;
use crate::service::rows::THINGS;

/// Descriptions of a page, if the reader does not say how many.
pub const PAGE: usize = 100;
/// Descriptions of the largest page.
const PAGE_MAX: usize = 1_000;
/// Bytes of a page, from which on no more is added to it.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Descriptions that are read at once; each may be large.
const READ_AT_ONCE: usize = 64;
/// Bytes of descriptions that are read at once.
const READ_BYTES_AT_ONCE: u64 = 1 << 20;
/// Bytes that an agent's description counts for: as many as one may have.
const AGENT_BYTES: u64 = althing_td::TD_BYTES_MAX as u64;

/// By what a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By the id.
    #[default]
    Id,
    /// By the title; agents by their names.
    Title,
    /// By when it was registered.
    Created,
    /// By when it was changed.
    Modified,
}

/// Which part of the directory is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// How many are left out at its beginning.
    pub offset: usize,
    /// How many there are at most.
    pub limit: Option<usize>,
    /// The id after which it begins, where ids are the order.
    pub after: Option<String>,
    /// The order.
    pub order: Order,
    /// Whether the last comes first.
    pub is_descending: bool,
}

/// A page.
#[derive(Debug, Clone, Default)]
pub struct Paged {
    /// Descriptions with their ids, as the directory gives them.
    pub descriptions: Vec<(String, Vec<u8>)>,
    /// How many there are in the directory.
    pub total: u64,
    /// Whether more follow.
    pub has_more: bool,
    /// What tells this state of the directory from others: the entries of the log.
    pub state: u64,
}

/// One of the directory, before its description is read.
#[derive(Clone, Copy)]
pub(in crate::service) enum Pick<'a> {
    Thing(&'a Thing),
    /// An agent, with the entries of its first and of its current release.
    Agent(&'a AgentId, u64, u64),
}

impl<'a> Pick<'a> {
    /// The one of that id.
    fn of(machine: &'a RegistryState, id: &str, now_ms: u64) -> Option<Pick<'a>> {
        if is_agent(id) {
            return Some(machine.shown_agents().get(&id.parse().ok()?)?.into());
        }
        machine.things().get(id, now_ms).map(Pick::Thing)
    }

    /// The one whose description is what it is since exactly that entry.
    pub fn changed_at(machine: &'a RegistryState, entry: u64, now_ms: u64) -> Option<Pick<'a>> {
        if let Some(agent) = machine.shown_agents().changed_at(entry) {
            return Some(agent.into());
        }
        let things = machine.things();
        things.orders().modified_at(entry).and_then(|id| things.get(id, now_ms)).map(Pick::Thing)
    }

    /// The Things and the agents for which that is so since entries from `entry` on, in the order of these.
    pub fn changed_since(
        machine: &'a RegistryState,
        entry: u64,
        now_ms: u64,
    ) -> (impl Iterator<Item = (u64, Pick<'a>)>, impl Iterator<Item = (u64, Pick<'a>)>) {
        let things = machine.things();
        let changed = things.orders().modified_since(entry);
        let changed = changed.filter_map(move |(entry, id)| Some((entry, Pick::Thing(things.get(id, now_ms)?))));
        (changed, machine.shown_agents().changed_since(entry).map(|(entry, agent)| (entry, agent.into())))
    }

    /// The same, after the state was let go.
    pub fn owned(self) -> Picked {
        match self {
            Pick::Thing(thing) => Picked::Thing(Box::new(thing.clone())),
            Pick::Agent(agent, first, current) => Picked::Agent(agent.clone(), first, current),
        }
    }
}

impl<'a> From<ShownAgent<'a>> for Pick<'a> {
    fn from(ShownAgent { agent, first, current }: ShownAgent<'a>) -> Pick<'a> {
        Pick::Agent(agent, first, current)
    }
}

/// One of the directory, to be read.
pub(in crate::service) enum Picked {
    Thing(Box<Thing>),
    /// An agent, with the entries of its first and of its current release.
    Agent(AgentId, u64, u64),
}

impl Picked {
    pub fn id(&self) -> String {
        match self {
            Picked::Thing(thing) => thing.written.id.to_string(),
            Picked::Agent(agent, _, _) => agent.to_string(),
        }
    }

    fn thing(&self) -> Option<&Thing> {
        match self {
            Picked::Thing(thing) => Some(thing),
            Picked::Agent(..) => None,
        }
    }
}

/// All of the directory after an id, in the order of the ids: those of agents are neighbours in it.
pub(in crate::service) fn picks<'a>(
    machine: &'a RegistryState,
    after: Option<&'a str>,
    now_ms: u64,
) -> impl DoubleEndedIterator<Item = Pick<'a>> {
    use std::ops::Bound::{Excluded, Unbounded};
    let things = move |bounds| machine.things().range(bounds, now_ms).map(Pick::Thing);
    let from = after.map_or(Unbounded, Excluded);
    let is_before = after.is_none_or(|after| after < AGENTS);
    let first = is_before.then(|| things((from, Excluded(AGENTS)))).into_iter().flatten();
    let agent = after.filter(|after| is_agent(after)).and_then(|after| after.parse::<AgentId>().ok());
    let agents = (is_before || agent.is_some()).then(|| agents(machine, agent)).into_iter().flatten();
    let last = things((if is_before { Excluded(AGENTS) } else { from }, Unbounded));
    first.chain(agents).chain(last)
}

/// The agents after an id.
pub(in crate::service) fn agents_after<'a>(
    machine: &'a RegistryState,
    after: Option<&str>,
) -> impl Iterator<Item = Pick<'a>> {
    agents(machine, after.and_then(|after| after.parse().ok()))
}

/// The agents that are shown to everybody, with a version that is neither yanked nor revoked.
fn agents(machine: &RegistryState, after: Option<AgentId>) -> impl DoubleEndedIterator<Item = Pick<'_>> {
    machine.shown_agents().after(after.as_ref()).map(Pick::from)
}

/// How many the directory has. No row is read for it.
pub(in crate::service) fn total(machine: &RegistryState, now_ms: u64) -> u64 {
    machine.things().count(now_ms) + machine.shown_agents().count()
}

impl Directory<'_> {
    /// A page of the directory.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn page(&self, page: &Page) -> Result<Paged, ThingError> {
        let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
        let now_ms = (self.registry.clock)();
        let (picked, total, state) = {
            let seen = self.registry.state.read().expect("no holder panics");
            let total = total(&seen.machine, now_ms);
            let picked: Vec<Picked> = match page.order {
                Order::Id if !page.is_descending => {
                    let all = picks(&seen.machine, page.after.as_deref(), now_ms);
                    all.skip(page.offset).take(limit + 1).map(Pick::owned).collect()
                }
                _ => sorted(&seen.machine, page, now_ms, limit + 1),
            };
            (picked, total, seen.checkpoint.head.size)
        };
        let has_more = picked.len() > limit;
        let mut paged = Paged { total, has_more, state, ..Paged::default() };
        let mut bytes = 0;
        let picked = &picked[..limit.min(picked.len())];
        for some in chunks(picked) {
            for (pick, stored) in some.iter().zip(self.stored_all(some)?) {
                if bytes >= PAGE_BYTES_MAX {
                    paged.has_more = true;
                    return Ok(paged);
                }
                if let Some(stored) = stored {
                    let id = pick.id();
                    let description = stored.shown(&id, now_ms)?;
                    bytes += description.len();
                    paged.descriptions.push((id, description));
                }
            }
        }
        Ok(paged)
    }

    /// What is stored of each, as it is now; none of one that was deleted since.
    pub(in crate::service) fn stored_all(&self, picked: &[Picked]) -> Result<Vec<Option<Stored>>, ThingError> {
        let things: Vec<&Thing> = picked.iter().filter_map(Picked::thing).collect();
        let mut kept = self.registry.descriptions.get_all(things.iter().map(|thing| thing.index));
        let missing = || things.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(thing, _)| *thing);
        let keys: Vec<Vec<u8>> = missing().map(|thing| thing.index.to_be_bytes().to_vec()).collect();
        let mut rows = self.registry.store.read_many(THINGS, &keys)?.into_iter();
        for (thing, bytes) in things.iter().zip(&mut kept).filter(|(_, kept)| kept.is_none()) {
            let Some(read) = rows.next().flatten() else { continue };
            let read: Arc<[u8]> = self.unchanged(thing, read)?.into();
            self.registry.descriptions.put(thing.index, read.clone());
            *bytes = Some(read);
        }
        let mut kept = kept.into_iter();
        let stored = |pick: &Picked| match (pick.thing(), pick.thing().and_then(|_| kept.next().flatten())) {
            (Some(thing), Some(bytes)) => Ok(Some(Stored::of(thing, bytes))),
            _ => self.stored(pick),
        };
        picked.iter().map(stored).collect()
    }

    /// What is stored of one, as it is now; none if it was deleted since.
    pub(in crate::service) fn stored(&self, pick: &Picked) -> Result<Option<Stored>, ThingError> {
        let thing = match pick {
            Picked::Agent(_, first, current) => {
                let (index, bytes, registration) = self.described_at(*first, *current)?;
                return Ok(Some(Stored { index, bytes: bytes.into(), registration }));
            }
            Picked::Thing(thing) => thing,
        };
        if let Some(bytes) = self.description(thing)? {
            return Ok(Some(Stored::of(thing, bytes.into())));
        }
        if self.is_going(thing)? {
            return Ok(None);
        }
        // It was changed since, and is shown as it is now.
        match self.thing(&thing.written.id) {
            Ok((thing, bytes)) => Ok(Some(Stored::of(&thing, bytes))),
            Err(ThingError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Parts of these that are read at once: not many, and not many bytes.
pub(in crate::service) fn chunks(mut picked: &[Picked]) -> impl Iterator<Item = &[Picked]> {
    std::iter::from_fn(move || {
        let mut bytes = 0_u64;
        let fits = |pick: &&Picked| {
            bytes += pick.thing().map_or(AGENT_BYTES, |thing| thing.written.bytes);
            bytes <= READ_BYTES_AT_ONCE
        };
        let count = picked.iter().take(READ_AT_ONCE).take_while(fits).count().max(1).min(picked.len());
        let (some, rest) = picked.split_at(count);
        picked = rest;
        (!some.is_empty()).then_some(some)
    })
}

/// What is stored of one.
pub(in crate::service) struct Stored {
    /// The entry that it comes from.
    index: u64,
    /// The description, as it was sent.
    pub bytes: Arc<[u8]>,
    registration: Registration,
}

impl Stored {
    /// Of a Thing.
    fn of(thing: &Thing, bytes: Arc<[u8]>) -> Stored {
        Stored { index: thing.index, bytes, registration: Registration::of(thing) }
    }

    /// The description, as the directory gives it.
    pub fn shown(&self, id: &str, now_ms: u64) -> Result<Vec<u8>, ThingError> {
        let shown = shown(&self.bytes, id, self.registration, now_ms);
        Ok(shown.ok_or(RequestError::Damaged(self.index))?)
    }
}

/// The part of all that a page wants; between equals their ids decide.
fn sorted(machine: &RegistryState, page: &Page, now_ms: u64, count: usize) -> Vec<Picked> {
    let (things, agents) = (machine.things().orders(), machine.shown_agents().orders());
    let is_descending = page.is_descending;
    let ids: Box<dyn Iterator<Item = &str>> = match page.order {
        Order::Id => {
            let all = directed(picks(machine, None, now_ms), is_descending);
            return all.skip(page.offset).take(count).map(Pick::owned).collect();
        }
        Order::Title => Box::new(merged(things.titles(), agents.titles(), is_descending)),
        Order::Created => Box::new(merged(things.created(), agents.created(), is_descending)),
        Order::Modified => Box::new(merged(things.modified(), agents.modified(), is_descending)),
    };
    let has_ended = machine.things().forgotten(now_ms).next().is_some();
    let is_there = |id: &&str| !has_ended || Pick::of(machine, id, now_ms).is_some();
    let wanted = ids.filter(is_there).skip(page.offset).take(count);
    wanted.filter_map(|id| Pick::of(machine, id, now_ms)).map(Pick::owned).collect()
}

fn directed<'a, T>(
    all: impl DoubleEndedIterator<Item = T> + 'a,
    is_descending: bool,
) -> Box<dyn Iterator<Item = T> + 'a> {
    if is_descending { Box::new(all.rev()) } else { Box::new(all) }
}

/// The ids of two lists that are each in an order, in that order.
fn merged<'a, K: Ord + 'a>(
    one: impl DoubleEndedIterator<Item = (K, &'a str)> + 'a,
    other: impl DoubleEndedIterator<Item = (K, &'a str)> + 'a,
    is_descending: bool,
) -> impl Iterator<Item = &'a str> {
    let mut one = directed(one, is_descending).peekable();
    let mut other = directed(other, is_descending).peekable();
    std::iter::from_fn(move || {
        let is_one = match (one.peek(), other.peek()) {
            (Some(first), Some(second)) => (first < second) != is_descending,
            (first, _) => first.is_some(),
        };
        let (_, id) = if is_one { one.next()? } else { other.next()? };
        Some(id)
    })
}

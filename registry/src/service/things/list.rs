//! Pages of the directory.

use althing_protocol::AgentId;

use super::body::{Registration, shown};
use super::{Directory, ThingError, first};
use crate::machine::Machine;
use crate::machine::things::{AGENTS, Thing, is_agent};
use crate::service::RequestError;

/// Descriptions of a page, if the reader does not say how many.
pub const PAGE: usize = 100;
/// Descriptions of the largest page.
const PAGE_MAX: usize = 1_000;
/// Bytes of a page, from which on no more is added to it.
const PAGE_BYTES_MAX: usize = 4 << 20;

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
    /// A Thing.
    Thing(&'a Thing),
    /// An agent, with the entries of its first and of its current release.
    Agent(&'a AgentId, u64, u64),
}

impl Pick<'_> {
    fn title(&self) -> &str {
        match self {
            Pick::Thing(thing) => &thing.written.title,
            Pick::Agent(agent, _, _) => agent.name(),
        }
    }

    fn created(&self) -> u64 {
        match self {
            Pick::Thing(thing) => thing.created,
            Pick::Agent(_, first, _) => *first,
        }
    }

    fn modified(&self) -> u64 {
        match self {
            Pick::Thing(thing) => thing.index,
            Pick::Agent(_, _, current) => *current,
        }
    }

    /// The same, after the state was let go.
    pub fn owned(self) -> Picked {
        match self {
            Pick::Thing(thing) => Picked::Thing(Box::new(thing.clone())),
            Pick::Agent(agent, first, current) => Picked::Agent(agent.clone(), first, current),
        }
    }
}

/// One of the directory, to be read.
pub(in crate::service) enum Picked {
    /// A Thing.
    Thing(Box<Thing>),
    /// An agent, with the entries of its first and of its current release.
    Agent(AgentId, u64, u64),
}

impl Picked {
    /// Its id.
    pub fn id(&self) -> String {
        match self {
            Picked::Thing(thing) => thing.written.id.to_string(),
            Picked::Agent(agent, _, _) => agent.to_string(),
        }
    }
}

/// All of the directory after an id, in the order of the ids: those of agents are neighbours in it.
pub(in crate::service) fn picks<'a>(
    machine: &'a Machine,
    after: Option<&'a str>,
    now_ms: u64,
) -> impl Iterator<Item = Pick<'a>> {
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
    machine: &'a Machine,
    after: Option<&str>,
) -> impl Iterator<Item = Pick<'a>> {
    agents(machine, after.and_then(|after| after.parse().ok()))
}

/// The agents that are shown to everybody, with a version that is neither yanked nor revoked.
fn agents(machine: &Machine, after: Option<AgentId>) -> impl Iterator<Item = Pick<'_>> {
    machine.agents(after.as_ref()).filter_map(|(agent, versions)| {
        let (_, current) = versions.current()?;
        Some(Pick::Agent(agent, first(versions.public())?, current.index))
    })
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
            let total = seen.machine.things().count(now_ms) + agents(&seen.machine, None).count() as u64;
            let picked: Vec<Picked> = match page.order {
                Order::Id if !page.is_descending => {
                    let all = picks(&seen.machine, page.after.as_deref(), now_ms);
                    all.skip(page.offset).take(limit + 1).map(Pick::owned).collect()
                }
                _ => sorted(picks(&seen.machine, None, now_ms).collect(), page, limit + 1),
            };
            (picked, total, seen.checkpoint.head.size)
        };
        let has_more = picked.len() > limit;
        let mut paged = Paged { total, has_more, state, ..Paged::default() };
        let mut bytes = 0;
        for pick in picked.into_iter().take(limit) {
            if bytes >= PAGE_BYTES_MAX {
                paged.has_more = true;
                break;
            }
            if let Some(description) = self.description_of(&pick, now_ms)? {
                bytes += description.len();
                paged.descriptions.push((pick.id(), description));
            }
        }
        Ok(paged)
    }

    /// The description of one, as the directory gives it; none if it was deleted since.
    pub(in crate::service) fn description_of(&self, pick: &Picked, now_ms: u64) -> Result<Option<Vec<u8>>, ThingError> {
        let (index, bytes, registration) = match pick {
            Picked::Agent(_, first, current) => self.described_at(*first, *current)?,
            Picked::Thing(thing) => match self.description(thing)? {
                Some(bytes) => (thing.index, bytes, Registration::of(thing)),
                None if self.is_going(thing)? => return Ok(None),
                // It was changed since, and is shown as it is now.
                None => {
                    return match self.retrieve(&thing.written.id) {
                        Ok(shown) => Ok(Some(shown.bytes)),
                        Err(ThingError::Refused(_)) => Ok(None),
                        Err(error) => Err(error),
                    };
                }
            },
        };
        Ok(Some(shown(&bytes, &pick.id(), registration, now_ms).ok_or(RequestError::Damaged(index))?))
    }
}

/// The part of all that a page wants. They come in the order of their ids, which decides between equals.
fn sorted(mut picks: Vec<Pick<'_>>, page: &Page, count: usize) -> Vec<Picked> {
    match page.order {
        Order::Id => {}
        Order::Title => picks.sort_by(|one, other| one.title().cmp(other.title())),
        Order::Created => picks.sort_by_key(Pick::created),
        Order::Modified => picks.sort_by_key(Pick::modified),
    }
    if page.is_descending {
        picks.reverse();
    }
    picks.into_iter().skip(page.offset).take(count).map(Pick::owned).collect()
}

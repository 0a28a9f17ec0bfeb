//! Which tasks are kept, and in which order they are listed. A node has thousands: what is known of each is small.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2a::TaskState;
use althing_protocol::PublicKey;

use crate::tasks::{PublicKeyText, Record};

/// Tasks that are kept; beyond, the oldest go.
const KEPT_MAX: usize = 20_000;
/// Tasks of one owner.
const KEPT_OF_ONE_MAX: usize = 10_000;

/// Whose tasks of which agent stand in one list.
type List = (String, PublicKeyText);

/// What tasks are listed by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Meta {
    list: Arc<List>,
    context_id: Arc<str>,
    state: TaskState,
    changed_ms: i64,
}

/// A task's place in a list, the newest first.
pub(crate) type Order = (Reverse<i64>, Arc<str>);

pub(crate) fn order(changed_ms: i64, id: &str) -> Order {
    (Reverse(changed_ms), id.into())
}

/// The page token that goes on behind this place (SPEC P-57).
pub(crate) fn page_token((changed_ms, id): &Order) -> String {
    format!("{}.{id}", changed_ms.0)
}

pub(crate) fn read_token(token: &str) -> Option<Order> {
    let (at, id) = token.split_once('.')?;
    Some(order(at.parse().ok()?, id))
}

/// Whether a task is not over, when it changed last, and its id: the smallest is forgotten first.
type Age = (bool, i64, Arc<str>);

/// One page of tasks.
pub(crate) struct Page {
    pub ids: Vec<String>,
    pub next: String,
    pub total: usize,
}

/// What a page is chosen by.
pub(crate) struct Filter<'a> {
    pub agent: &'a str,
    pub scope: PublicKey,
    pub context_id: Option<&'a str>,
    pub state: Option<&'a TaskState>,
    pub after_ms: Option<i64>,
}

/// How many tasks are kept.
#[derive(Debug, Clone, Copy)]
struct Limits {
    all: usize,
    of_one: usize,
}

/// The tasks of a node.
pub(crate) struct Listing {
    limits: Limits,
    metas: BTreeMap<Arc<str>, Meta>,
    /// Newest first, for each agent and owner.
    orders: BTreeMap<Arc<List>, BTreeSet<Order>>,
    /// What is forgotten first, for each owner.
    ages: BTreeMap<PublicKeyText, BTreeSet<Age>>,
}

impl Default for Listing {
    fn default() -> Listing {
        Listing::limited(Limits { all: KEPT_MAX, of_one: KEPT_OF_ONE_MAX })
    }
}

impl Listing {
    fn limited(limits: Limits) -> Listing {
        Listing { limits, metas: BTreeMap::new(), orders: BTreeMap::new(), ages: BTreeMap::new() }
    }

    /// Notes a task as it is now.
    pub fn note(&mut self, record: &Record) {
        let (task, scope) = (&record.task, record.scope);
        self.forget(&task.id);
        let id: Arc<str> = task.id.as_str().into();
        let list = (record.agent.clone(), scope);
        let list = self.orders.get_key_value(&list).map_or_else(|| Arc::new(list), |(list, _)| list.clone());
        let meta = Meta {
            list: list.clone(),
            context_id: task.context_id.as_str().into(),
            state: task.status.state.clone(),
            changed_ms: task.status.timestamp.map_or(0, |at| at.timestamp_millis()),
        };
        self.orders.entry(list).or_default().insert((Reverse(meta.changed_ms), id.clone()));
        self.ages.entry(scope).or_default().insert((!meta.state.is_terminal(), meta.changed_ms, id.clone()));
        self.metas.insert(id, meta);
    }

    /// The tasks that are forgotten to make room for a new one: of its owner the oldest, those that are over first, so
    /// that nobody's tasks push out somebody else's; and of all, of the owner with the most. Several tasks may come at
    /// one time, and each take the same for the oldest: what is too much then goes with the next.
    pub fn surplus(&self, record: &Record) -> Vec<Arc<str>> {
        if self.metas.contains_key(record.task.id.as_str()) {
            return Vec::new();
        }
        let own = self.ages.get(&record.scope);
        let too_many = (own.map_or(0, BTreeSet::len) + 1).saturating_sub(self.limits.of_one);
        let mut gone: Vec<Arc<str>> = own.into_iter().flatten().take(too_many).map(|(_, _, id)| id.clone()).collect();
        let too_many = (self.metas.len() + 1).saturating_sub(gone.len() + self.limits.all);
        let most = self.ages.values().max_by_key(|tasks| tasks.len());
        let others = most.into_iter().flatten().map(|(_, _, id)| id).filter(|id| !gone.contains(id));
        let others: Vec<Arc<str>> = others.take(too_many).cloned().collect();
        gone.extend(others);
        gone
    }

    /// Forgets a task.
    pub fn forget(&mut self, id: &str) {
        let Some((id, meta)) = self.metas.remove_entry(id) else { return };
        let scope = meta.list.1;
        if let Some(ages) = self.ages.get_mut(&scope) {
            ages.remove(&(!meta.state.is_terminal(), meta.changed_ms, id.clone()));
            if ages.is_empty() {
                self.ages.remove(&scope);
            }
        }
        if let Some(order) = self.orders.get_mut(&meta.list) {
            order.remove(&(Reverse(meta.changed_ms), id));
            if order.is_empty() {
                self.orders.remove(&meta.list);
            }
        }
    }

    /// The page behind a token; `None` when that is none.
    pub fn page(&self, filter: &Filter<'_>, token: Option<&str>, size: usize) -> Option<Page> {
        let none = BTreeSet::new();
        let order = self.orders.get(&(filter.agent.to_owned(), PublicKeyText(filter.scope))).unwrap_or(&none);
        let from = match token {
            None => None,
            Some(token) => Some(read_token(token)?),
        };
        let fits = |(_, id): &&Order| {
            self.metas.get(id).is_some_and(|meta| {
                filter.context_id.is_none_or(|context| *meta.context_id == *context)
                    && filter.state.is_none_or(|state| meta.state == *state)
                    && filter.after_ms.is_none_or(|after| meta.changed_ms >= after)
            })
        };
        let total = order.iter().filter(fits).count();
        let mut rest = order.iter().filter(fits).filter(|order| from.as_ref().is_none_or(|from| *order > from));
        let page: Vec<&Order> = rest.by_ref().take(size).collect();
        let more = rest.next().is_some();
        let next = page.last().filter(|_| more).map_or_else(String::new, |place| page_token(place));
        Some(Page { ids: page.into_iter().map(|(_, id)| id.to_string()).collect(), next, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use a2a::{Task, TaskStatus};
    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    fn record(number: u32, owner: u8) -> Record {
        let timestamp = chrono::DateTime::from_timestamp_millis(i64::from(number));
        let status = TaskStatus { state: TaskState::Completed, message: None, timestamp };
        let (id, context_id) = (number.to_string(), "c".to_owned());
        let task = Task { id, context_id, status, artifacts: None, history: None, metadata: None };
        let scope = PublicKeyText(SecretKey::from_seed(&[owner; 32]).public());
        Record { task, agent: "echo".to_owned(), scope, remembered: None }
    }

    proptest! {
        /// Tasks come in groups, of which each chooses what is forgotten before any of them is noted.
        #[test]
        fn however_many_come_at_one_time_no_more_are_kept_than_may_be(
            groups in prop::collection::vec(prop::collection::vec(1u8..4, 1..5), 1..60)
        ) {
            let mut listing = Listing::limited(Limits { all: 20, of_one: 10 });
            let (mut number, mut most) = (0, 0);
            for owners in groups {
                let group: Vec<Record> = owners.iter().map(|owner| { number += 1; record(number, *owner) }).collect();
                let forgotten: Vec<Vec<Arc<str>>> = group.iter().map(|record| listing.surplus(record)).collect();
                for (record, forgotten) in group.iter().zip(forgotten) {
                    forgotten.iter().for_each(|id| listing.forget(id));
                    listing.note(record);
                    prop_assert!(listing.metas.contains_key(record.task.id.as_str()), "the newest is kept");
                }
                let room = group.len() - 1;
                prop_assert!(listing.metas.len() <= 20 + room);
                // Of one owner what is too much goes with its own next.
                most = most.max(room);
                prop_assert!(listing.ages.values().all(|of_one| of_one.len() <= 10 + most));
                // All three say the same.
                let listed: usize = listing.orders.values().map(BTreeSet::len).sum();
                let aged: usize = listing.ages.values().map(BTreeSet::len).sum();
                prop_assert_eq!((listed, aged), (listing.metas.len(), listing.metas.len()));
            }
        }
    }

    #[test]
    fn the_oldest_of_the_same_owner_goes_first() {
        let mut listing = Listing::limited(Limits { all: 4, of_one: 3 });
        let mut keep = |number, owner| {
            let record = record(number, owner);
            let gone = listing.surplus(&record);
            gone.iter().for_each(|id| listing.forget(id));
            listing.note(&record);
            gone.iter().map(|id| id.to_string()).collect::<Vec<_>>()
        };
        for number in 1..=3 {
            assert_eq!(keep(number, 1), [""; 0]);
        }
        assert_eq!(keep(4, 1), ["1"], "its own oldest");
        assert_eq!(keep(5, 2), [""; 0]);
        assert_eq!(keep(6, 2), ["2"], "the oldest of who has most");
    }
}

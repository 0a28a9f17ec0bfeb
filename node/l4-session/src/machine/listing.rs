//! Which tasks are kept, and in which order they are listed. A node has thousands, so the entry of each is small.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2a::TaskState;
use serde::{Deserialize, Serialize};

use crate::machine::record::{Record, Scope};
use crate::machine::task;

/// How many tasks are kept, and how many bytes they take on disk; beyond that the oldest are evicted. One caller has a
/// quarter of it and one agent half, so that neither fills the store; the bytes are what a small machine can spare, and
/// hold 10,000 tasks of 26 KB for one caller.
const LIMITS: Limits = Limits {
    all: Amount { tasks: 20_000, bytes: 1 << 30 },
    of_agent: Amount { tasks: 20_000, bytes: 512 << 20 },
    of_scope: Amount { tasks: 10_000, bytes: 256 << 20 },
};
/// Tasks that one write evicts: their keys must fit into its batch. The next write evicts the rest.
pub(crate) const FORGOTTEN_AT_ONCE: usize = 1_024;

/// Agent and scope: their tasks are one list.
type List = (String, Scope);

/// The summary of a task: a row beside the task's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// The agent's name.
    pub agent: String,
    /// Whose task it is.
    pub scope: Scope,
    pub context_id: String,
    pub state: TaskState,
    pub changed_ms: i64,
    /// Bytes of the stored task.
    pub bytes: u64,
    /// The id of the message that began it.
    pub message_id: String,
    /// A failure that the stored task does not have, because it was not written again.
    pub failure: Option<NotedFailure>,
    /// What is told with that failure of calls of which nobody knows whether they took place, at most
    /// [`REASON_BYTES_MAX`](task::REASON_BYTES_MAX) bytes. Rows from before that was told have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubts: Option<String>,
    /// Whether the task was handed over to another node. Rows from before tasks could move do not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub departed: bool,
    /// Whether the turn that runs can begin again. Rows from before turns could be resumed do not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// Since when the task waits for its agent after an end of the node, Unix milliseconds, if that is noted. Rows from before that
    /// was have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_ms: Option<u64>,
    /// Among which untrusted peers its caller was, as the record says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowd: Option<String>,
}

/// Why a task failed that was not written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NotedFailure {
    /// The node ended while the task's turn ran.
    NodeEnded,
    /// The same, and the task cannot be read.
    Unreadable,
    /// The result of the turn could not be written.
    ResultNotKept,
    /// The same, of a turn with a journal: what its calls did is done.
    CallsNotKept,
}

impl NotedFailure {
    /// Whether what the agent knew is lost with that.
    pub fn is_loss(self) -> bool {
        match self {
            NotedFailure::NodeEnded | NotedFailure::Unreadable => true,
            NotedFailure::ResultNotKept | NotedFailure::CallsNotKept => false,
        }
    }

    /// The task's status message.
    pub fn message(self) -> &'static str {
        match self {
            NotedFailure::NodeEnded => {
                "NOT_RESUMABLE: the node ended while the task was running; send the message again"
            }
            NotedFailure::Unreadable => {
                "DAMAGED: the node ended while the task was running, and cannot read it any more; send the message again"
            }
            NotedFailure::ResultNotKept => "this node could not keep the result; send the message again later",
            NotedFailure::CallsNotKept => {
                "this node could not keep the result, and what the calls of this task did is done: look what came of them, and do not \
                 send the message again before that"
            }
        }
    }
}

impl Summary {
    /// The summary of a task whose record has `bytes`.
    pub fn of(record: &Record, bytes: usize) -> Summary {
        let task = &record.task;
        let began = task.history.iter().flatten().next();
        Summary {
            agent: record.agent.clone(),
            scope: record.scope,
            context_id: task.context_id.clone(),
            state: task.status.state.clone(),
            changed_ms: task.status.timestamp.map_or(0, |at| at.timestamp_millis()),
            bytes: bytes as u64,
            message_id: began.map_or_else(String::new, |message| message.message_id.clone()),
            failure: None,
            doubts: None,
            departed: record.departed.is_some(),
            resumes: record.begin.is_some(),
            waits_ms: None,
            crowd: record.crowd.clone(),
        }
    }

    /// Whether the task rests until somebody has answered, and its turn goes on then.
    pub fn is_parked(&self) -> bool {
        self.resumes && self.state == TaskState::AuthRequired
    }

    /// Whether its turn goes on when its agent is there.
    pub fn goes_on(&self) -> bool {
        self.resumes && !self.departed && (!task::is_idle(&self.state) || self.is_parked())
    }
}

/// A summary in memory: it shares what many tasks have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Meta {
    list: Arc<List>,
    context_id: Arc<str>,
    state: TaskState,
    changed_ms: i64,
    bytes: u64,
    message_id: Arc<str>,
    failure: Option<NotedFailure>,
    doubts: Option<Arc<str>>,
    departed: bool,
    resumes: bool,
    waits_ms: Option<u64>,
    crowd: Option<Arc<str>>,
    /// Which change of the listing noted it.
    change: u64,
}

impl Meta {
    fn age(&self, id: &Arc<str>) -> Age {
        let is_over = self.state.is_terminal() || self.departed;
        (!is_over, self.changed_ms, id.clone())
    }
}

/// A task's position in a list, the newest first.
pub(crate) type Order = (Reverse<i64>, Arc<str>);

pub(crate) fn order(changed_ms: i64, id: &str) -> Order {
    (Reverse(changed_ms), id.into())
}

/// The token of the page behind this position (SPEC P-57).
pub(crate) fn page_token((changed_ms, id): &Order) -> String {
    format!("{}.{id}", changed_ms.0)
}

pub(crate) fn read_token(token: &str) -> Option<Order> {
    let (at, id) = token.split_once('.')?;
    Some(order(at.parse().ok()?, id))
}

/// Whether a task is neither terminal nor handed over, when it changed last, and its id: the smallest is evicted first.
type Age = (bool, i64, Arc<str>);

/// Stored bytes of the tasks of one page, unless it has one alone: each is decoded for it, however little of it is shown.
const PAGE_BYTES_MAX: u64 = 2 << 20;

/// One page of tasks.
pub(crate) struct Page {
    pub ids: Vec<String>,
    pub next: String,
    pub total: usize,
}

/// The filter of a page.
pub(crate) struct Filter<'a> {
    pub agent: &'a str,
    pub scope: Scope,
    pub context_id: Option<&'a str>,
    pub state: Option<&'a TaskState>,
    pub after_ms: Option<i64>,
}

/// A number of tasks and their stored bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    tasks: usize,
    bytes: u64,
}

impl Amount {
    fn and(self, other: Amount) -> Amount {
        Amount { tasks: self.tasks + other.tasks, bytes: self.bytes + other.bytes }
    }

    fn without(self, other: Amount) -> Amount {
        Amount { tasks: self.tasks.saturating_sub(other.tasks), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn passes(self, limit: Amount) -> bool {
        self.tasks > limit.tasks || self.bytes > limit.bytes
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
struct Limits {
    all: Amount,
    of_agent: Amount,
    of_scope: Amount,
}

/// Tasks in the order of eviction.
#[derive(Debug, Default)]
struct Aged {
    ages: BTreeSet<Age>,
    amount: Amount,
}

impl Aged {
    fn add(&mut self, age: Age, bytes: u64) {
        self.ages.insert(age);
        self.amount = self.amount.and(Amount { tasks: 1, bytes });
    }

    /// True when nothing is left.
    fn remove(&mut self, age: &Age, bytes: u64) -> bool {
        self.ages.remove(age);
        self.amount = self.amount.without(Amount { tasks: 1, bytes });
        self.ages.is_empty()
    }
}

/// The tasks of a node.
pub(crate) struct Listing {
    limits: Limits,
    /// This node's owner, whose tasks are never evicted for others'.
    own: Scope,
    metas: BTreeMap<Arc<str>, Meta>,
    /// Newest first, for each agent and scope.
    orders: BTreeMap<Arc<List>, BTreeSet<Order>>,
    /// The order of eviction, for each agent and scope, and for each scope.
    lists: BTreeMap<Arc<List>, Aged>,
    scopes: BTreeMap<Scope, Aged>,
    /// The task that a message began.
    began: BTreeMap<(Arc<List>, Arc<str>), Arc<str>>,
    all: Amount,
    /// How often a task was added or updated.
    changes: u64,
}

impl Listing {
    pub fn new(own: Scope) -> Listing {
        Listing::limited(own, LIMITS)
    }

    fn limited(own: Scope, limits: Limits) -> Listing {
        Listing {
            limits,
            own,
            metas: BTreeMap::new(),
            orders: BTreeMap::new(),
            lists: BTreeMap::new(),
            scopes: BTreeMap::new(),
            began: BTreeMap::new(),
            all: Amount::default(),
            changes: 0,
        }
    }

    /// Adds or updates a task.
    pub fn note(&mut self, id: &str, summary: &Summary) {
        self.forget(id);
        let id: Arc<str> = id.into();
        let list = (summary.agent.clone(), summary.scope);
        let list = self.orders.get_key_value(&list).map_or_else(|| Arc::new(list), |(list, _)| list.clone());
        self.changes += 1;
        let meta = Meta {
            list: list.clone(),
            context_id: summary.context_id.as_str().into(),
            state: summary.state.clone(),
            changed_ms: summary.changed_ms,
            bytes: summary.bytes,
            message_id: summary.message_id.as_str().into(),
            failure: summary.failure,
            doubts: summary.doubts.as_deref().map(Arc::from),
            departed: summary.departed,
            resumes: summary.resumes,
            waits_ms: summary.waits_ms,
            crowd: summary.crowd.as_deref().map(Arc::from),
            change: self.changes,
        };
        self.orders.entry(list.clone()).or_default().insert((Reverse(meta.changed_ms), id.clone()));
        self.scopes.entry(summary.scope.payer()).or_default().add(meta.age(&id), meta.bytes);
        self.lists.entry(list.clone()).or_default().add(meta.age(&id), meta.bytes);
        self.began.insert((list, meta.message_id.clone()), id.clone());
        self.all = self.all.and(Amount { tasks: 1, bytes: meta.bytes });
        self.metas.insert(id, meta);
    }

    /// The summary of a task.
    pub fn summary(&self, id: &str) -> Option<Summary> {
        let meta = self.metas.get(id)?;
        let (agent, scope) = &*meta.list;
        Some(Summary {
            agent: agent.clone(),
            scope: *scope,
            context_id: meta.context_id.to_string(),
            state: meta.state.clone(),
            changed_ms: meta.changed_ms,
            bytes: meta.bytes,
            message_id: meta.message_id.to_string(),
            failure: meta.failure,
            doubts: meta.doubts.as_ref().map(ToString::to_string),
            departed: meta.departed,
            resumes: meta.resumes,
            waits_ms: meta.waits_ms,
            crowd: meta.crowd.as_ref().map(ToString::to_string),
        })
    }

    /// By which change a task was noted last: the same as long as nothing of it is written.
    pub fn change(&self, id: &str) -> Option<u64> {
        self.metas.get(id).map(|meta| meta.change)
    }

    /// The task that a message of this id began.
    pub fn began_by(&self, agent: &str, scope: Scope, message_id: &str) -> Option<&str> {
        self.began.get(&(Arc::new((agent.to_owned(), scope)), message_id.into())).map(|id| &**id)
    }

    /// The tasks that are evicted to make room for one that is to be written: the oldest of its scope, terminal ones first,
    /// so that one caller's tasks do not evict another's; then, for the limits of the agent and of all, those of the scope
    /// that takes most, this node's owner last. Several writes at one time may choose the same tasks; the next write evicts
    /// the rest.
    pub fn surplus(&self, id: &str, wanted: &Summary) -> Vec<Arc<str>> {
        let before = self.metas.get(id).map_or(Amount::default(), |meta| Amount { tasks: 1, bytes: meta.bytes });
        let more = |amount: Amount| amount.without(before).and(Amount { tasks: 1, bytes: wanted.bytes });
        let mut room = Room {
            listing: self,
            spared: id,
            gone: BTreeSet::new(),
            of_agent: Amount::default(),
            all: Amount::default(),
        };

        let own = self.scopes.get(&wanted.scope.payer());
        let too_much = more(own.map_or(Amount::default(), |own| own.amount));
        room.make(too_much, self.limits.of_scope, own.into_iter(), &wanted.agent);

        let mut of_agent: Vec<(&Arc<List>, &Aged)> =
            self.lists.iter().filter(|(list, _)| list.0 == wanted.agent).collect();
        let amount = of_agent.iter().fold(Amount::default(), |sum, (_, aged)| sum.and(aged.amount));
        of_agent.sort_by_key(|(list, aged)| (list.1 == self.own, Reverse((aged.amount.bytes, aged.amount.tasks))));
        let too_much = more(amount).without(room.of_agent);
        room.make(too_much, self.limits.of_agent, of_agent.into_iter().map(|(_, aged)| aged), &wanted.agent);

        let too_much = more(self.all).without(room.all);
        if too_much.passes(self.limits.all) {
            let by_bytes = too_much.bytes > self.limits.all.bytes;
            let mut scopes: Vec<(&Scope, &Aged)> = self.scopes.iter().collect();
            let size = |aged: &Aged| if by_bytes { aged.amount.bytes } else { aged.amount.tasks as u64 };
            scopes.sort_by_key(|(scope, aged)| (**scope == self.own, Reverse(size(aged))));
            room.make(too_much, self.limits.all, scopes.into_iter().map(|(_, aged)| aged), &wanted.agent);
        }
        room.gone.into_iter().collect()
    }

    /// Whether a context of that agent and scope has a task.
    pub fn has_context(&self, agent: &str, scope: Scope, context: &str) -> bool {
        let order = self.orders.get(&(agent.to_owned(), scope));
        let mut tasks = order.into_iter().flatten().filter_map(|(_, id)| self.metas.get(id));
        tasks.any(|meta| *meta.context_id == *context)
    }

    /// Removes a task.
    pub fn forget(&mut self, id: &str) {
        let Some((id, meta)) = self.metas.remove_entry(id) else { return };
        let (scope, age) = (meta.list.1.payer(), meta.age(&id));
        self.all = self.all.without(Amount { tasks: 1, bytes: meta.bytes });
        if self.scopes.get_mut(&scope).is_some_and(|aged| aged.remove(&age, meta.bytes)) {
            self.scopes.remove(&scope);
        }
        if self.lists.get_mut(&meta.list).is_some_and(|aged| aged.remove(&age, meta.bytes)) {
            self.lists.remove(&meta.list);
        }
        let began = (meta.list.clone(), meta.message_id);
        if self.began.get(&began) == Some(&id) {
            self.began.remove(&began);
        }
        if let Some(order) = self.orders.get_mut(&meta.list) {
            order.remove(&(Reverse(meta.changed_ms), id));
            if order.is_empty() {
                self.orders.remove(&meta.list);
            }
        }
    }

    /// The page behind a token, of at most so many tasks; `None` if the token is invalid.
    pub fn page(&self, filter: &Filter<'_>, token: Option<&str>, size: usize) -> Option<Page> {
        let none = BTreeSet::new();
        let order = self.orders.get(&(filter.agent.to_owned(), filter.scope)).unwrap_or(&none);
        let from = match token {
            None => None,
            Some(token) => Some(read_token(token)?),
        };
        let fits = |(_, id): &&Order| {
            self.metas.get(id).is_some_and(|meta| {
                !meta.departed
                    && filter.context_id.is_none_or(|context| *meta.context_id == *context)
                    && filter.state.is_none_or(|state| meta.state == *state)
                    && filter.after_ms.is_none_or(|after| meta.changed_ms >= after)
            })
        };
        let total = order.iter().filter(fits).count();
        let rest = order.iter().filter(fits).filter(|order| from.as_ref().is_none_or(|from| *order > from));
        let (mut page, mut bytes, mut more) = (Vec::new(), 0_u64, false);
        for place in rest {
            bytes = bytes.saturating_add(self.metas.get(&place.1).map_or(0, |meta| meta.bytes));
            more = page.len() == size || bytes > PAGE_BYTES_MAX && !page.is_empty();
            if more {
                break;
            }
            page.push(place);
        }
        let next = page.last().filter(|_| more).map_or_else(String::new, |place| page_token(place));
        Some(Page { ids: page.into_iter().map(|(_, id)| id.to_string()).collect(), next, total })
    }

    /// The newest task of a filter's context, if all tasks of it were handed over; none if no context is asked for.
    pub fn departed(&self, filter: &Filter<'_>) -> Option<&str> {
        let (context, list) = (filter.context_id?, (filter.agent.to_owned(), filter.scope));
        let of = self.orders.get(&list)?.iter().filter_map(|(_, id)| Some((id, self.metas.get(id)?)));
        let mut of = of.filter(|(_, meta)| *meta.context_id == *context);
        let (newest, meta) = of.next()?;
        (meta.departed && of.all(|(_, meta)| meta.departed)).then_some(&**newest)
    }
}

/// The tasks that are chosen for eviction.
struct Room<'a> {
    listing: &'a Listing,
    /// The task that the room is for.
    spared: &'a str,
    gone: BTreeSet<Arc<str>>,
    /// The amount that was the agent's, and the whole amount.
    of_agent: Amount,
    all: Amount,
}

impl<'a> Room<'a> {
    /// Chooses the oldest of `from` until `too_much` is within the limit.
    fn make(&mut self, mut too_much: Amount, limit: Amount, from: impl Iterator<Item = &'a Aged>, agent: &str) {
        for (_, _, id) in from.flat_map(|aged| &aged.ages) {
            if !too_much.passes(limit) || self.gone.len() == FORGOTTEN_AT_ONCE {
                return;
            }
            if **id == *self.spared || self.gone.contains(id) {
                continue;
            }
            let Some(meta) = self.listing.metas.get(id) else { continue };
            let amount = Amount { tasks: 1, bytes: meta.bytes };
            too_much = too_much.without(amount);
            self.all = self.all.and(amount);
            if meta.list.0 == agent {
                self.of_agent = self.of_agent.and(amount);
            }
            self.gone.insert(id.clone());
        }
    }
}

#[cfg(test)]
mod tests;

//! JSONPath searches (RFC 9535) over the list of all descriptions.
//!
//! The bytes decide: each description is read, and what the query selects in it is the answer. Texts that the query compares
//! with narrow what is parsed; what nothing narrows is scanned for a bounded time, and then refused with advice.

mod path;

use std::collections::BTreeMap;
use std::time::Duration;

use althing_store::Range;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use path::Query;

use super::Registry;
use super::rows::THINGS;
use super::things::{Pick, Picked, ThingError, agents_after, picks};
use crate::machine::{Machine, Statement};

/// How long one search may take.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Searches at one time; the others wait for a moment.
const AT_ONCE: usize = 2;
/// How long a search waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of what a search finds.
const FOUND_BYTES_MAX: usize = 8 << 20;
/// Descriptions that are picked at once.
const PICKED_AT_ONCE: usize = 256;
/// Descriptions that are read at once; each may be large.
const READ_AT_ONCE: usize = 64;

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The values that the query selects, a JSON array.
    pub json: Vec<u8>,
    /// How many they are.
    pub count: usize,
}

/// Why a search finds nothing.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// It is no query.
    #[error("not a JSONPath query (RFC 9535): {reason}")]
    Query {
        /// Why.
        reason: String,
    },
    /// The query is too long.
    #[error("a query has at most {max} bytes")]
    TooLong {
        /// How many.
        max: usize,
    },
    /// A regular expression has a counted repetition.
    #[error(
        "a query with match() or search() has no {{ in its texts: write a repetition such as a{{2,3}} out as aaa?, and compare \
         a text with braces by == in a search of its own"
    )]
    Repeat,
    /// A regular expression does not stand in the query.
    #[error(
        "the regular expression of match() and search() is a text in the query itself, such as match(@.title, 'L.*')"
    )]
    Expression,
    /// The query is about the list rather than about each description in it.
    #[error(
        "a search begins with $[?…], $[*] or $.. and looks at each description by itself; for parts of the list there are \
         /things?offset=…&limit=… and sort_by"
    )]
    Start,
    /// The query may select too much in one description.
    #[error(
        "the query is too costly for {id}: use fewer `..`, `$` and selectors between commas, and shorter regular expressions \
         at the members that they are for, such as $[?search(@.title, 'L.*')]"
    )]
    Costly {
        /// The description.
        id: String,
    },
    /// It took too long.
    #[error(
        "the search was stopped after {seconds} s, {looked} of {all} descriptions in: narrow it by a text that must be there, \
         such as $[?@.title == 'Lamp'], with && and without || and !; or page through /things"
    )]
    Time {
        /// How long.
        seconds: u64,
        /// Descriptions that were looked at.
        looked: u64,
        /// Descriptions that there are.
        all: u64,
    },
    /// It found too much.
    #[error("the search found more than {max} bytes: select less of each description, such as $[?…].id, or narrow it")]
    TooMuch {
        /// How many bytes there may be.
        max: usize,
    },
    /// Others are searching.
    #[error("too many searches at one time: try again in a moment")]
    Busy,
    /// The directory cannot be read.
    #[error(transparent)]
    Thing(#[from] ThingError),
}

impl Registry {
    /// Searches all descriptions.
    ///
    /// # Errors
    /// See [`SearchError`].
    pub async fn search(self: std::sync::Arc<Self>, query: String) -> Result<Found, SearchError> {
        let query = Query::parse(&query)?;
        let turn = tokio::time::timeout(TURN_WITHIN, TURNS.acquire()).await;
        let turn = turn.map_err(|_| SearchError::Busy)?.map_err(|_| SearchError::Busy)?;
        let searched = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut search = Search::new(&self, &query);
            if query.is_narrowed() {
                search.narrowed()?
            } else {
                search.everything()?
            }
            Ok(search.found())
        });
        searched.await.map_err(|_| SearchError::Busy)?
    }
}

/// A search that runs.
struct Search<'a> {
    registry: &'a Registry,
    query: &'a Query,
    began: Instant,
    now_ms: u64,
    looked: u64,
    /// What was found, by the id of the description.
    found: BTreeMap<String, Vec<Value>>,
    bytes: usize,
}

impl<'a> Search<'a> {
    fn new(registry: &'a Registry, query: &'a Query) -> Search<'a> {
        let (began, now_ms) = (Instant::now(), (registry.clock)());
        Search { registry, query, began, now_ms, looked: 0, found: BTreeMap::new(), bytes: 0 }
    }

    /// Looks at one after the other.
    fn everything(&mut self) -> Result<(), SearchError> {
        self.pages(|machine, after, now_ms| {
            picks(machine, after, now_ms).take(PICKED_AT_ONCE).map(Pick::owned).collect()
        })
    }

    /// Reads the descriptions of Things in the order in which they lie on disk, and looks at those that have the texts of the
    /// query; then at agents.
    fn narrowed(&mut self) -> Result<(), SearchError> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let range = Range::all(READ_AT_ONCE);
            let range = match last.take() {
                Some(last) => range.after(last),
                None => range,
            };
            let rows = self.registry.store.scan(THINGS, range).map_err(ThingError::from)?;
            let Some((key, _)) = rows.last() else { break };
            last = Some(key.clone());
            for (key, bytes) in &rows {
                self.within_time()?;
                if !self.query.may_select_in(bytes) {
                    continue;
                }
                let index = key.as_slice().try_into().map(u64::from_be_bytes).unwrap_or(u64::MAX);
                // Beside the newest description of a Thing lies the one before it.
                if let Some(pick) = self.current(index)? {
                    self.look_at(&pick)?;
                }
            }
        }
        self.pages(|machine, after, _| agents_after(machine, after).take(PICKED_AT_ONCE).map(Pick::owned).collect())
    }

    fn pages(&mut self, next: impl Fn(&Machine, Option<&str>, u64) -> Vec<Picked>) -> Result<(), SearchError> {
        let mut after: Option<String> = None;
        loop {
            let picked = {
                let seen = self.registry.state.read().expect("no holder panics");
                next(&seen.machine, after.as_deref(), self.now_ms)
            };
            let Some(last) = picked.last() else { return Ok(()) };
            after = Some(last.id());
            for pick in &picked {
                self.within_time()?;
                self.look_at(pick)?;
            }
        }
    }

    fn within_time(&mut self) -> Result<(), SearchError> {
        if self.began.elapsed() > TIME_MAX {
            let seen = self.registry.state.read().expect("no holder panics");
            let all = seen.machine.things().count(self.now_ms) + agents_after(&seen.machine, None).count() as u64;
            return Err(SearchError::Time { seconds: TIME_MAX.as_secs(), looked: self.looked, all });
        }
        self.looked += 1;
        Ok(())
    }

    fn look_at(&mut self, pick: &Picked) -> Result<(), SearchError> {
        let Some(bytes) = self.registry.directory().description_of(pick, self.now_ms)? else { return Ok(()) };
        if !self.query.may_select_in(&bytes) {
            return Ok(());
        }
        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return Ok(()) };
        let found = self.query.select(value).ok_or_else(|| SearchError::Costly { id: pick.id() })?;
        if !found.is_empty() {
            self.bytes += found.iter().map(|value| value.to_string().len() + 1).sum::<usize>();
            self.found.insert(pick.id(), found);
        }
        if self.bytes > FOUND_BYTES_MAX {
            return Err(SearchError::TooMuch { max: FOUND_BYTES_MAX });
        }
        Ok(())
    }

    /// The Thing whose newest description is that of entry `index`; none if there is none any more.
    fn current(&self, index: u64) -> Result<Option<Picked>, ThingError> {
        let Statement::Thing(record) = self.registry.statement(index)?.1 else { return Ok(None) };
        let seen = self.registry.state.read().expect("no holder panics");
        let thing = seen.machine.things().get(record.id(), self.now_ms).filter(|thing| thing.index == index);
        Ok(thing.map(|thing| Pick::Thing(thing).owned()))
    }

    /// What was found, in the order of the list.
    fn found(self) -> Found {
        let all: Vec<Value> = self.found.into_values().flatten().collect();
        Found { count: all.len(), json: Value::Array(all).to_string().into_bytes() }
    }
}

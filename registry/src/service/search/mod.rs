//! JSONPath searches (RFC 9535) over the list of all descriptions.
//!
//! The bytes decide: each description is read, and what the query selects in it is the answer. An index of the directory
//! narrows which ones are read; those that it has not taken in yet are scanned. Where it does not help, texts that the query
//! compares with narrow what is parsed; what nothing narrows is scanned for a bounded time, and then refused with advice.

mod indexing;
mod nesting;
mod part;
mod path;
mod reader;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use althing_store::Range;
use serde_json::Value;
use tokio::time::Instant;

pub(super) use indexing::Searching;
use indexing::changed;
pub use indexing::keep_indexed;
use path::Query;
pub use turns::{Turn, TurnError, Turns};

use super::Registry;
use super::releases::Reader;
use super::rows::THINGS;
use super::things::{Pick, Picked, Stored, ThingError, agents_after, chunks, picks, total};
use crate::machine::RegistryState;

/// How long one search may take.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes of what a search finds.
const FOUND_BYTES_MAX: usize = 8 << 20;
/// Descriptions that are picked at once.
const PICKED_AT_ONCE: usize = 256;
/// Descriptions that are read at once; each may be large.
const READ_AT_ONCE: usize = 64;
/// Candidates that are looked at one by one however few there are in all. More than a part of all are read in the order in
/// which they lie on disk, which is faster.
const CANDIDATES_MIN: usize = 1_024;
/// See [`CANDIDATES_MIN`].
const CANDIDATES_PART: u64 = 4;
/// Candidates from which on two threads look at them.
const CANDIDATES_SHARED: usize = 128;

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
    /// The query is nested too deeply.
    #[error(
        "the query is nested too deeply: at most five filters and functions stand within each other, and 32 brackets and \
         parentheses; write conditions beside each other, with &&"
    )]
    Nested,
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
    /// There is no turn for it.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// It ended before its time.
    #[error("the search failed: try again")]
    Failed,
    /// The directory cannot be read.
    #[error(transparent)]
    Thing(#[from] ThingError),
}

/// Whether a text is a query that a search takes.
///
/// # Errors
/// See [`SearchError`].
pub fn check_query(text: &str) -> Result<(), SearchError> {
    Query::parse(text).map(drop)
}

impl Registry {
    /// Who takes turns where something costs much, such as searches, pages, and verifying what somebody sent.
    #[must_use]
    pub fn turns(&self) -> &Turns {
        &self.searching.turns
    }
}

/// Searches all descriptions that everybody sees, for somebody from that origin (see [`Turns`]).
///
/// # Errors
/// See [`SearchError`].
pub async fn search(registry: Arc<Registry>, origin: Option<String>, query: &str) -> Result<Found, SearchError> {
    search_as(registry, None, origin, query).await
}

/// Searches all descriptions that a reader sees: of agents those of the current releases that it sees. The query is parsed in
/// the turn too, on a thread where nobody waits.
///
/// # Errors
/// See [`SearchError`].
pub async fn search_as(
    registry: Arc<Registry>,
    reader: Reader,
    origin: Option<String>,
    query: &str,
) -> Result<Found, SearchError> {
    let query = query.to_owned();
    let turn = registry.turns().take(origin).await?;
    let searched = tokio::task::spawn_blocking(move || {
        // It ends with the search, also if nobody waits for that any more.
        let _turn = turn;
        let query = Query::parse(&query)?;
        let mut search = Search::new(&registry, &query, reader);
        search.run()?;
        if reader.is_some() {
            search.of_reader()?;
        }
        Ok(search.found())
    });
    searched.await.map_err(|_| SearchError::Failed)?
}

/// A search that runs.
struct Search<'a> {
    registry: &'a Registry,
    query: &'a Query,
    reader: Reader,
    began: Instant,
    now_ms: u64,
    looked: u64,
    /// What was found, by the id of the description.
    found: BTreeMap<String, Selected>,
    bytes: usize,
}

/// What the query selects in one description.
struct Selected {
    /// The values, between commas.
    json: Vec<u8>,
    count: usize,
}

impl<'a> Search<'a> {
    fn new(registry: &'a Registry, query: &'a Query, reader: Reader) -> Search<'a> {
        let (began, now_ms) = (Instant::now(), (registry.clock)());
        Search { registry, query, reader, began, now_ms, looked: 0, found: BTreeMap::new(), bytes: 0 }
    }

    fn run(&mut self) -> Result<(), SearchError> {
        let all = total(&self.registry.seen().machine, self.now_ms);
        let max = usize::try_from(all / CANDIDATES_PART).unwrap_or(usize::MAX).max(CANDIDATES_MIN);
        if let Some((candidates, indexed)) = self.candidates(max) {
            self.entries(&candidates)?;
            return self.newest(indexed);
        }
        if self.query.is_narrowed() { self.narrowed() } else { self.everything() }
    }

    /// Entries whose descriptions may have what the query needs, and the first entry that the index does not stand for; none
    /// where the index is of no help, or there are more than `max`.
    fn candidates(&self, max: usize) -> Option<(Vec<u64>, u64)> {
        let view = self.registry.searching.view()?;
        let candidates = view.candidates(self.query.need(), max);
        let candidates = candidates.inspect_err(|error| tracing::warn!(%error, "a search goes on without the index"));
        Some((candidates.ok()??, view.entries()))
    }

    /// Looks at the descriptions that are what they are since these entries.
    fn entries(&mut self, entries: &[u64]) -> Result<(), SearchError> {
        for some in entries.chunks(PICKED_AT_ONCE) {
            let picked: Vec<Picked> = {
                let seen = self.registry.seen();
                let current = |entry: &u64| Pick::changed_at(&seen.machine, *entry, self.now_ms);
                some.iter().filter_map(current).map(Pick::owned).collect()
            };
            self.looked += some.len() as u64;
            if picked.len() < CANDIDATES_SHARED {
                for (pick, selected) in picked.iter().zip(self.selected_in_all(&picked)?) {
                    self.keep(pick.id(), selected)?;
                }
                continue;
            }
            let halves = picked.split_at(picked.len() / 2);
            let select = |half: &[Picked]| self.selected_in_all(half);
            let (first, second) = std::thread::scope(|scope| {
                let first = scope.spawn(|| select(halves.0));
                let second = select(halves.1);
                (first.join(), second)
            });
            let first = first.map_err(|_| SearchError::Failed)??;
            for (pick, selected) in picked.iter().zip(first.into_iter().chain(second?)) {
                self.keep(pick.id(), selected)?;
            }
        }
        Ok(())
    }

    /// Looks at those that the index does not know yet.
    fn newest(&mut self, indexed: u64) -> Result<(), SearchError> {
        let mut next = Some(indexed);
        while let Some(from) = next {
            let changed = changed(self.registry, from, None);
            next = changed.last().map(|(entry, _)| entry + 1);
            for (_, pick) in &changed {
                self.within_time()?;
                self.look_at(pick)?;
            }
        }
        Ok(())
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
                let pick = Pick::changed_at(&self.registry.seen().machine, index, self.now_ms).map(Pick::owned);
                if let Some(pick) = pick {
                    self.look_at(&pick)?;
                }
            }
        }
        self.pages(|machine, after, _| agents_after(machine, after).take(PICKED_AT_ONCE).map(Pick::owned).collect())
    }

    fn pages(&mut self, next: impl Fn(&RegistryState, Option<&str>, u64) -> Vec<Picked>) -> Result<(), SearchError> {
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

    /// Counts one that is looked at.
    fn within_time(&mut self) -> Result<(), SearchError> {
        self.looked += 1;
        self.check_time()
    }

    fn check_time(&self) -> Result<(), SearchError> {
        if self.began.elapsed() <= TIME_MAX {
            return Ok(());
        }
        let all = total(&self.registry.seen().machine, self.now_ms);
        Err(SearchError::Time { seconds: TIME_MAX.as_secs(), looked: self.looked, all })
    }

    fn look_at(&mut self, pick: &Picked) -> Result<(), SearchError> {
        let selected = self.selected(pick)?;
        self.keep(pick.id(), selected)
    }

    /// What the query selects in each, as it is now.
    fn selected_in_all(&self, picked: &[Picked]) -> Result<Vec<Option<Selected>>, SearchError> {
        let mut all = Vec::with_capacity(picked.len());
        for some in chunks(picked) {
            let stored = self.registry.directory().stored_all(some)?;
            for (pick, stored) in some.iter().zip(stored) {
                self.check_time()?;
                all.push(stored.map(|stored| self.selected_in(pick, &stored)).transpose()?.flatten());
            }
        }
        Ok(all)
    }

    /// What the query selects in one, as it is now.
    fn selected(&self, pick: &Picked) -> Result<Option<Selected>, SearchError> {
        self.check_time()?;
        let stored = self.registry.directory().stored(pick)?;
        Ok(stored.map(|stored| self.selected_in(pick, &stored)).transpose()?.flatten())
    }

    fn selected_in(&self, pick: &Picked, stored: &Stored) -> Result<Option<Selected>, SearchError> {
        if !self.query.may_select_in(&stored.bytes) {
            return Ok(None);
        }
        let id = pick.id();
        let looked_at = match self.query.part(&stored.bytes, &id) {
            Some(part) => part,
            None => match serde_json::from_slice(&stored.shown(&id, self.now_ms)?) {
                Ok(whole) => whole,
                Err(_) => return Ok(None),
            },
        };
        let values = self.query.select(looked_at).ok_or(SearchError::Costly { id: id.clone() })?;
        if values.is_empty() {
            return Ok(None);
        }
        if self.query.is_whole() {
            return Ok(Some(Selected { json: stored.shown(&id, self.now_ms)?, count: 1 }));
        }
        let texts: Vec<String> = values.iter().map(Value::to_string).collect();
        Ok(Some(Selected { json: texts.join(",").into_bytes(), count: values.len() }))
    }

    /// Keeps what was selected in one, in the place of what was before it was changed.
    fn keep(&mut self, id: String, selected: Option<Selected>) -> Result<(), SearchError> {
        self.bytes += selected.as_ref().map_or(0, |selected| selected.json.len() + 1);
        let before = match selected {
            Some(selected) => self.found.insert(id, selected),
            None => self.found.remove(&id),
        };
        self.bytes -= before.map_or(0, |before| before.json.len() + 1);
        if self.bytes > FOUND_BYTES_MAX {
            return Err(SearchError::TooMuch { max: FOUND_BYTES_MAX });
        }
        Ok(())
    }

    /// What was found, in the order of the list.
    fn found(self) -> Found {
        let count = self.found.values().map(|selected| selected.count).sum();
        let mut json = Vec::with_capacity(self.bytes + 2);
        json.push(b'[');
        for (at, selected) in self.found.values().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend(&selected.json);
        }
        json.push(b']');
        Found { count, json }
    }
}

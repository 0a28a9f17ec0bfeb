//! Keeps the index of the directory up with the log, beside everything else: nobody who writes waits for it, and what it has
//! not read yet is scanned.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use althing_protocol::digest;
use althing_search::{Index, IndexError, Key, Standing, Terms, View, Writer, terms};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{sleep, timeout};

use super::Turns;
use crate::machine::Statement;
use crate::service::things::{Pick, Picked, ThingError};
use crate::service::{Registry, RequestError};

/// Entries that are read before the index is written.
const ENTRIES_AT_ONCE: u64 = 20_000;
/// So many new entries are not waited for.
const ENTRIES_WAITED: u64 = 2_000;
/// How long others are waited for, so that what is written at one time is indexed at one time.
const MOMENT: Duration = Duration::from_millis(500);
/// After a failure, such as a full disk; twice as long after each further one, up to the second of these.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// Descriptions that are picked at once.
const PICKED_AT_ONCE: usize = 256;
/// Ended descriptions stay as long: a clock that is set back brings them back.
const ENDED_KEPT_MS: u64 = 86_400_000;

/// What narrows searches, and who takes turns.
pub struct Searching {
    index: RwLock<Option<Arc<Index>>>,
    /// Entries of the log that the index stands for.
    indexed: watch::Sender<u64>,
    pub(super) turns: Turns,
}

impl Default for Searching {
    fn default() -> Searching {
        Searching { index: RwLock::default(), indexed: watch::Sender::new(0), turns: Turns::default() }
    }
}

impl Searching {
    /// What the index has; none while there is none.
    pub fn view(&self) -> Option<View> {
        self.index.read().expect("no holder panics").as_ref().map(|index| index.view())
    }
}

/// Why the index does not keep up.
#[derive(Debug, thiserror::Error)]
enum IndexingError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("the search index waits for the directory: {0}")]
    Directory(#[from] ThingError),
    #[error("the search index failed: {0}")]
    Failed(#[from] JoinError),
}

impl From<RequestError> for IndexingError {
    fn from(error: RequestError) -> IndexingError {
        IndexingError::Directory(error.into())
    }
}

impl Registry {
    /// Tells how many entries of the log the index stands for, whenever there are more.
    #[must_use]
    pub fn indexed(&self) -> watch::Receiver<u64> {
        self.searching.indexed.subscribe()
    }
}

/// Keeps the index of the directory in a folder of its own, in which nothing else may lie: whatever is of no use there is
/// begun anew from the log. It goes on until it is dropped.
pub async fn keep_indexed(registry: Arc<Registry>, folder: PathBuf) {
    let (mut wait, longest) = AGAIN_AFTER;
    loop {
        let before = *registry.searching.indexed.borrow();
        let Err(error) = follow(&registry, &folder).await else { return };
        tracing::warn!(%error, "new entries are scanned until the index is written again");
        let is_longer = *registry.searching.indexed.borrow() > before;
        wait = if is_longer { AGAIN_AFTER.0 } else { longest.min(2 * wait) };
        sleep(wait).await;
    }
}

/// Follows the log until something fails. What was indexed before stays in use.
async fn follow(registry: &Arc<Registry>, folder: &Path) -> Result<(), IndexingError> {
    let mut grown = registry.grown();
    let opening = (registry.clone(), folder.to_owned());
    let mut indexing = spawn_blocking(move || Indexing::open(opening.0, &opening.1)).await??;
    loop {
        let entries = indexing.standing.entries;
        registry.searching.indexed.send_replace(entries);
        if grown.wait_for(|size| *size > entries).await.is_err() {
            return Ok(());
        }
        let many = grown.wait_for(|size| *size >= entries + ENTRIES_WAITED);
        let _ = timeout(MOMENT, many).await;
        indexing = spawn_blocking(move || indexing.step()).await??;
    }
}

/// The index, while it is written.
struct Indexing {
    registry: Arc<Registry>,
    writer: Writer,
    standing: Standing,
    /// Below this entry there is nothing to take away: it was begun anew.
    begun_at: u64,
}

impl Indexing {
    /// Opens the index that is there, or begins one.
    fn open(registry: Arc<Registry>, folder: &Path) -> Result<Indexing, IndexingError> {
        let (index, standing) =
            Index::open(folder, |known| standing(&registry, known.entries).is_ok_and(|own| own == known))?;
        let index = Arc::new(index);
        let writer = index.writer()?;
        *registry.searching.index.write().expect("no holder panics") = Some(index);
        let begun_at = if standing.entries == 0 { registry.seen().next } else { 0 };
        Ok(Indexing { writer, registry, standing, begun_at })
    }

    /// Indexes what the next entries changed.
    fn step(mut self) -> Result<Indexing, IndexingError> {
        let from = self.standing.entries;
        let to = self.registry.seen().next.min(from + ENTRIES_AT_ONCE);
        if to > self.begun_at {
            self.take_away(from.max(self.begun_at), to)?;
        }
        self.add(from, to)?;
        let now_ms = (self.registry.clock)();
        self.writer.remove_ended(now_ms.saturating_sub(ENDED_KEPT_MS))?;
        let standing = standing(&self.registry, to)?;
        self.writer.commit(standing)?;
        Ok(Indexing { standing, ..self })
    }

    /// Takes away what these entries changed, as it was before them. What is said of an agent often changes nothing of what
    /// everybody sees: a release that is not for everybody, a lower version, a mark on one.
    fn take_away(&self, from: u64, to: u64) -> Result<(), IndexingError> {
        for index in from..to {
            let agent = match self.registry.statement(index)?.1 {
                Statement::Thing(record) => {
                    self.writer.remove(&key(record.id()));
                    continue;
                }
                Statement::Release(release, _) | Statement::Approval(release) => release.body.agent,
                Statement::Mark(mark) => mark.body.agent,
                Statement::Quarantine(record) => record.agent,
                _ => continue,
            };
            if !self.registry.seen().machine.shown_agents().is_unchanged_since(&agent, self.standing.entries) {
                self.writer.remove(&key(&agent.to_string()));
            }
        }
        Ok(())
    }

    /// Adds the descriptions that are what they are since these entries.
    fn add(&self, from: u64, to: u64) -> Result<(), IndexingError> {
        let mut next = Some(from);
        while let Some(from) = next {
            let changed = changed(&self.registry, from, Some(to));
            next = changed.last().map(|(entry, _)| entry + 1);
            for (entry, pick) in &changed {
                self.add_one(*entry, pick)?;
            }
        }
        Ok(())
    }

    fn add_one(&self, entry: u64, pick: &Picked) -> Result<(), IndexingError> {
        let (bytes, ends_ms) = match pick {
            Picked::Thing(thing) => (self.registry.directory().description(thing), thing.written.expires_ms),
            Picked::Agent(_, first, current) => {
                (self.registry.directory().described_at(*first, *current).map(|(_, bytes, _)| Some(bytes)), None)
            }
        };
        let (id, key) = (pick.id(), key(&pick.id()));
        let terms = match bytes {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_or(Terms::Any, |value| terms(&with_id(value, &id))),
            // It is changed or deleted meanwhile, or it is damaged: whoever looks at it finds out.
            Ok(None) | Err(ThingError::Request(RequestError::Damaged(_))) => Terms::Any,
            Err(error) => return Err(error.into()),
        };
        Ok(self.writer.add(&key, entry, &terms, ends_ms)?)
    }
}

/// What an index of the first entries stands for.
fn standing(registry: &Registry, entries: u64) -> Result<Standing, RequestError> {
    Ok(Standing { entries, root: registry.log.head_at(entries)?.root })
}

/// Some of those whose descriptions are what they are since entries from `from` on and before `to`, in the order of the
/// entries.
pub(super) fn changed(registry: &Registry, from: u64, to: Option<u64>) -> Vec<(u64, Picked)> {
    let (seen, now_ms) = (registry.seen(), (registry.clock)());
    let is_before = |(entry, _): &(u64, Pick<'_>)| to.is_none_or(|to| *entry < to);
    let (things, agents) = Pick::changed_since(&seen.machine, from, now_ms);
    let changed = first(things.take_while(is_before), agents.take_while(is_before));
    changed.into_iter().map(|(entry, pick)| (entry, pick.owned())).collect()
}

/// The first of both, in the order of their entries. Whatever is left out comes after the last of them, from where the next
/// are read.
fn first<T>(things: impl Iterator<Item = (u64, T)>, agents: impl Iterator<Item = (u64, T)>) -> Vec<(u64, T)> {
    let mut changed: Vec<(u64, T)> = things.take(PICKED_AT_ONCE).chain(agents.take(PICKED_AT_ONCE)).collect();
    changed.sort_by_key(|(entry, _)| *entry);
    changed.truncate(PICKED_AT_ONCE);
    changed
}

/// The key of somebody in the index.
fn key(id: &str) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&digest(id.as_bytes())[..16]);
    key
}

/// A description with the id that it is given with.
fn with_id(mut value: Value, id: &str) -> Value {
    if let Value::Object(members) = &mut value {
        members.entry("id").or_insert_with(|| json!(id));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads entries of Things and of agents to their end; those that were picked.
    fn picked(things: &[u64], agents: &[u64]) -> Vec<u64> {
        let (mut picked, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let since = |entries: &[u64]| -> Vec<(u64, ())> {
                entries.iter().filter(|entry| **entry >= from).map(|entry| (*entry, ())).collect()
            };
            let changed = first(since(things).into_iter(), since(agents).into_iter());
            next = changed.last().map(|(entry, ())| entry + 1);
            picked.extend(changed.iter().map(|(entry, ())| *entry));
        }
        picked
    }

    #[test]
    fn nothing_is_left_out_where_many_things_changed_before_some_agents() {
        let all = 0..3 * PICKED_AT_ONCE as u64;
        let (things, agents): (Vec<u64>, Vec<u64>) =
            all.clone().partition(|entry| entry % 3 > 0 || *entry < all.end / 2);
        assert!(things.len() > PICKED_AT_ONCE && agents.len() < PICKED_AT_ONCE);
        let every: Vec<u64> = all.collect();
        assert_eq!(picked(&things, &agents), every);
        assert_eq!(picked(&agents, &things), every, "nor the other way round");
    }
}

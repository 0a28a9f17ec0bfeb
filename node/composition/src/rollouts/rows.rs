//! What is on disk of rollouts: of each agent what was decided, and the files of its versions but the stable one, which is the
//! agent's; and when conversations began.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_calls::NewCall;
use althing_protocol::{Digest, digest, digest_of_hex, hex};
use althing_store::{Batch, Durability, Family, Range, Store};
use althing_verification::machine::rollout::{Versions, decode_row, encode_row};

use super::conversation_room::ConversationCount;
use super::divided::AgentRollout;
use super::error::RolloutError;
use super::origin::Origin;
use crate::agreements::Agreements;
use crate::error::NodeError;
use crate::publish::{self, AGENTS, AGENTS_MAX, StoredAgent};

/// Of each agent what was decided, by its name; and the files of its other versions, by its name and their digests.
pub(crate) const ROLLOUTS: Family = Family("althing.rollouts");
/// When conversations began, and as the work of which group by which channel, by the agent's name and the digest of theirs.
pub(crate) const ROLLOUT_CONVERSATIONS: Family = Family("althing.rollout-conversations");

/// What stands between the name of an agent and what follows: no name has it.
const MARK: char = '/';
/// Versions of one agent that are kept beside the stable one.
const OTHERS_MAX: usize = 16;
/// Rows of one scan.
const PAGE: usize = 1_024;
/// What was decided of each agent, and whose calls are divided still.
type RolloutRow = (String, Result<Option<AgentRollout>, NodeError>);

/// The agents of which something was decided; those whose calls are not divided any more without anything.
pub(super) fn all(store: &dyn Store) -> Result<Vec<RolloutRow>, NodeError> {
    Ok(names(store)?.into_iter().map(|name| (name.clone(), divided(store, &name))).collect())
}

/// The names of the agents of which something was decided.
pub(super) fn names(store: &dyn Store) -> Result<Vec<String>, NodeError> {
    let rows = store.keys(ROLLOUTS, Range::all(AGENTS_MAX * (OTHERS_MAX + 1)))?;
    let names = rows.into_iter().filter_map(|key| String::from_utf8(key).ok());
    Ok(names.filter(|name| !name.contains(MARK)).collect())
}

fn divided(store: &dyn Store, name: &str) -> Result<Option<AgentRollout>, NodeError> {
    let (Some(versions), Some(stable)) = (resumed(store, name)?, publish::named(store, name)?) else {
        return Ok(None);
    };
    let others = others(store, name)?;
    if others.is_empty() {
        return Ok(None);
    }
    let names = others.iter().map(|(digest, other)| (*digest, Arc::from(other.file.version.as_str())));
    let mut names: BTreeMap<Digest, Arc<str>> = names.collect();
    names.insert(versions.stable(), stable.file.version.as_str().into());
    Ok(Some(AgentRollout::new(name, versions, names)))
}

/// What was decided of the versions of an agent.
pub(super) fn decided(store: &dyn Store, name: &str) -> Result<Option<Versions>, NodeError> {
    let Some(row) = store.read(ROLLOUTS, name.as_bytes())? else { return Ok(None) };
    let damaged = |why: String| RolloutError::Damaged { agent: name.to_owned(), why };
    let read = decode_row(&row).map_err(|error| damaged(error.to_string()))?;
    Ok(Some(read))
}

/// What was decided of the versions of an agent, to go on with: a node that ended had seen later times than the one of its last
/// decision, and a conversation that began then is no newer than what is decided next, whatever the clock says by now.
pub(super) fn resumed(store: &dyn Store, name: &str) -> Result<Option<Versions>, NodeError> {
    let Some(mut versions) = decided(store, name)? else { return Ok(None) };
    let own = || Range::prefix(format!("{name}{MARK}"), PAGE);
    let mut range = own();
    loop {
        let rows = store.scan(ROLLOUT_CONVERSATIONS, range)?;
        let newest = rows.iter().filter_map(|(_, row)| Origin::of_row(row)).map(|origin| origin.at_ms).max();
        versions.pass(newest.unwrap_or_default());
        match rows.into_iter().next_back() {
            Some((last, _)) => range = own().after(last),
            None => return Ok(Some(versions)),
        }
    }
}

/// The versions of an agent that are kept beside the stable one.
pub(super) fn others(store: &dyn Store, name: &str) -> Result<BTreeMap<Digest, StoredAgent>, NodeError> {
    let rows = store.scan(ROLLOUTS, Range::prefix(format!("{name}{MARK}"), OTHERS_MAX))?;
    rows.into_iter().map(|(key, row)| other(name, &key, &row)).collect()
}

fn other(name: &str, key: &[u8], row: &[u8]) -> Result<(Digest, StoredAgent), NodeError> {
    let damaged = |why: String| RolloutError::Damaged { agent: name.to_owned(), why };
    let text = String::from_utf8_lossy(key);
    let written = text.rsplit(MARK).next().unwrap_or_default();
    let digest = digest_of_hex(written).ok_or_else(|| damaged("a version has no digest".to_owned()))?;
    let stored = serde_json::from_slice(row).map_err(|error| damaged(error.to_string()))?;
    Ok((digest, stored))
}

fn other_key(name: &str, version: Digest) -> Vec<u8> {
    format!("{name}{MARK}{}", hex(&version)).into_bytes()
}

/// All versions of agents that are kept beside the stable ones.
///
/// # Errors
/// Those of the store, and rows that cannot be read.
pub fn stored_agents(store: &dyn Store) -> Result<Vec<StoredAgent>, NodeError> {
    let rows = store.scan(ROLLOUTS, Range::all(AGENTS_MAX * (OTHERS_MAX + 1)))?;
    let others = rows.iter().filter_map(|(key, row)| {
        let key_text = String::from_utf8_lossy(key);
        let (name, _) = key_text.split_once(MARK)?;
        Some(other(name, key, row).map(|(_, stored)| stored))
    });
    others.collect()
}

/// Writes what was decided.
pub(super) fn change(name: &str, versions: &Versions) -> Batch {
    let mut batch = Batch::new();
    batch.put(ROLLOUTS, name.as_bytes(), encode_row(versions));
    batch
}

/// Writes what was decided, and that another version took the place of the stable one, if that is not written yet.
pub(super) fn decision(store: &dyn Store, name: &str, versions: &Versions) -> Result<Batch, NodeError> {
    let is_stable = decided(store, name)?.is_none_or(|before| before.stable() == versions.stable());
    if is_stable { Ok(change(name, versions)) } else { promotion(store, name, versions) }
}

/// Writes a version beside the stable one.
pub(super) fn put_other(batch: &mut Batch, version: Digest, added: &StoredAgent) -> Result<(), NodeError> {
    batch.put(ROLLOUTS, other_key(&added.file.name, version), serde_json::to_vec(added)?);
    Ok(())
}

/// Deletes a version that was beside the stable one.
pub(super) fn delete_other(batch: &mut Batch, name: &str, version: Digest) {
    batch.delete(ROLLOUTS, other_key(name, version));
}

/// Deletes all of them.
pub(super) fn delete_others(store: &dyn Store, name: &str, batch: &mut Batch) -> Result<(), NodeError> {
    for key in store.keys(ROLLOUTS, Range::prefix(format!("{name}{MARK}"), OTHERS_MAX))? {
        batch.delete(ROLLOUTS, key);
    }
    Ok(())
}

/// Writes that a version took the place of the stable one: its file is the agent's from then on, and the other file is kept for as
/// long as conversations of it go on.
pub(super) fn promotion(store: &dyn Store, name: &str, versions: &Versions) -> Result<Batch, NodeError> {
    let missing = |why: &str| RolloutError::Damaged { agent: name.to_owned(), why: why.to_owned() };
    let before = publish::named(store, name)?.ok_or_else(|| missing("the agent is not there"))?;
    let before_digest = decided(store, name)?.ok_or_else(|| missing("what was decided is not there"))?.stable();
    let to = versions.stable();
    let after = others(store, name)?.remove(&to).ok_or_else(|| missing("the file of the new version is not there"))?;
    let mut batch = change(name, versions);
    put_other(&mut batch, before_digest, &before)?;
    delete_other(&mut batch, name, to);
    batch.put(AGENTS, name.as_bytes(), serde_json::to_vec(&after)?);
    Agreements(store).put(&mut batch, &after.file, after.sources.first().map(std::path::PathBuf::as_path))?;
    Ok(batch)
}

/// The key of the row that says how the conversation of a call began.
pub(super) fn conversation_key(name: &str, call: &NewCall<'_>) -> Vec<u8> {
    let conversation = format!("{} {}{}", call.caller.len(), call.caller, call.context);
    [name.as_bytes(), b"/", &digest(conversation.as_bytes())].concat()
}

/// How the conversation with that key began, if that is noted.
pub(super) fn origin(store: &dyn Store, conversation: &[u8]) -> Result<Option<Origin>, NodeError> {
    let row = store.read(ROLLOUT_CONVERSATIONS, conversation)?;
    Ok(row.and_then(|row| Origin::of_row(&row)))
}

/// Notes how the conversation with that key began.
pub(super) fn begin(conversation: &[u8], origin: &Origin) -> Batch {
    let mut batch = Batch::new();
    batch.put(ROLLOUT_CONVERSATIONS, conversation, origin.row());
    batch
}

/// Of how many conversations of each agent it is noted how they began.
pub(super) fn conversations(store: &dyn Store) -> Result<BTreeMap<String, ConversationCount>, NodeError> {
    let mut counts = BTreeMap::<String, ConversationCount>::new();
    let mut range = Range::all(PAGE);
    loop {
        let rows = store.scan(ROLLOUT_CONVERSATIONS, range)?;
        for (key, row) in &rows {
            let name = key.split(|byte| *byte == b'/').next().unwrap_or_default();
            counts.entry(String::from_utf8_lossy(name).into_owned()).or_default().add(is_of_stranger(row));
        }
        match rows.into_iter().next_back() {
            Some((last, _)) => range = Range::all(PAGE).after(last),
            None => return Ok(counts),
        }
    }
}

fn is_of_stranger(row: &[u8]) -> bool {
    Origin::of_row(row).is_some_and(|origin| origin.is_stranger)
}

/// Deletes what is noted of the conversations of an agent; gives how many there were.
pub(super) async fn delete_conversations(
    store: &dyn Store,
    name: &str,
    most: usize,
) -> Result<ConversationCount, NodeError> {
    let mut deleted = ConversationCount::default();
    while deleted.all < most {
        let rows = store.scan(ROLLOUT_CONVERSATIONS, Range::prefix(format!("{name}{MARK}"), PAGE))?;
        if rows.is_empty() {
            break;
        }
        let mut batch = Batch::new();
        for (key, row) in rows {
            deleted.add(is_of_stranger(&row));
            batch.delete(ROLLOUT_CONVERSATIONS, key);
        }
        store.write(batch, Durability::Buffered).await?;
    }
    Ok(deleted)
}

//! Large results on their way: kept before the group is told, and read from the member that holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::group::{Content, GroupId, Reference};
use althing_protocol::{Digest, PublicKey, digest, hex};
use althing_store::{Batch, Durability, Range};

use super::Groups;
use super::member::Member;
use super::results::{
    HELD_BYTES_MAX, HELD_MAX, PART_BYTES, RESULT_BYTES_MAX, RESULTS, ResultHold, delete, key, part, part_key,
};
use crate::consensus::wire::{Fetch, Fetched};
use crate::error::GroupError;
use crate::machine::group::Group;

/// Keeps a result, until the group knows no task any more that has it.
///
/// # Errors
/// [`GroupError::Content`] if it is too large, or too many are kept; or the store's.
pub(super) async fn keep(groups: &Groups, member: &Arc<Member>, bytes: &[u8]) -> Result<ResultHold, GroupError> {
    let (store, here, group) = (&groups.shared.store, groups.shared.here(), member.id);
    let refused = |why: String| GroupError::Content { holder: here, why };
    if bytes.len() > RESULT_BYTES_MAX {
        return Err(refused(format!("it has {} bytes, and {RESULT_BYTES_MAX} are possible", bytes.len())));
    }
    let digest = digest(bytes);
    let media_type = "application/json".to_owned();
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let reference = Reference { digest, bytes: length, media_type, holder: here };
    let kept = member.results.hold(reference);
    let _one = member.results.keeping.lock().await;
    let held = sweep(groups, member).await?;
    // Parts go before the row that names them.
    let is_whole = store.read(RESULTS, &part_key(group, &digest, 0))?.is_some();
    if is_whole && held.contains_key(&digest) {
        return Ok(kept);
    }
    let total: u64 = held.values().sum();
    if held.len() >= HELD_MAX || total + length > HELD_BYTES_MAX as u64 {
        return Err(refused(format!(
            "{total} bytes are kept here for this group already, and {HELD_BYTES_MAX} are possible"
        )));
    }
    let mut batch = Batch::new();
    for (number, part) in (0u32..).zip(bytes.chunks(PART_BYTES)) {
        batch.put(RESULTS, part_key(group, &digest, number), part);
    }
    batch.put(RESULTS, key(b'i', group, &digest, &[]), length.to_be_bytes());
    store.write(batch, Durability::Synced).await?;
    Ok(kept)
}

/// Deletes what no task has any more, as far as the state of now is known; gives what is left, with its bytes.
async fn sweep(groups: &Groups, member: &Arc<Member>) -> Result<BTreeMap<Digest, u64>, GroupError> {
    let (store, here, group) = (&groups.shared.store, groups.shared.here(), member.id);
    // In this order: who ends after the first look is in the state of the second one.
    let under_way = member.results.under_way();
    let is_current = under_way.is_some() && groups.catch_up(group).await.is_ok();
    let wanted = member.look(|state| wanted(state, here))?;
    let is_kept = |digest: &Digest| {
        !is_current || wanted.contains(digest) || under_way.as_ref().is_none_or(|digests| digests.contains(digest))
    };
    let rows = store.scan(RESULTS, Range::prefix(key(b'i', group, &[], &[]), HELD_MAX + 1))?;
    let mut held = BTreeMap::new();
    for (row, length) in rows {
        let Ok(digest) = Digest::try_from(&row[row.len().saturating_sub(32)..]) else { continue };
        if is_kept(&digest) {
            held.insert(digest, length.as_slice().try_into().map_or(0, u64::from_be_bytes));
            continue;
        }
        delete(store.as_ref(), key(b'p', group, &digest, &[])).await?;
        delete(store.as_ref(), row).await?;
    }
    Ok(held)
}

/// The results of tasks that `here` holds.
fn wanted(state: &Group, here: PublicKey) -> BTreeSet<Digest> {
    let of = |content: &Content| match content {
        Content::Reference(reference) if reference.holder == here => Some(reference.digest),
        _ => None,
    };
    state.work().tasks().iter().filter_map(|task| task.result.as_ref().and_then(of)).collect()
}

/// The bytes of an input or a result; what is a reference is fetched from the member that holds it, and verified.
///
/// # Errors
/// [`GroupError::Content`] if the holder cannot be asked, or has other bytes.
pub async fn content(groups: &Groups, group: GroupId, content: &Content) -> Result<Vec<u8>, GroupError> {
    let reference = match content {
        Content::Inline(bytes) => return Ok(bytes.to_vec()),
        Content::Reference(reference) => reference,
    };
    let (member, holder) = (groups.active(group)?, reference.holder);
    let failed = |why: String| GroupError::Content { holder, why };
    let length = usize::try_from(reference.bytes).unwrap_or(usize::MAX);
    if length > RESULT_BYTES_MAX {
        return Err(failed(format!("it has {length} bytes, and at most {RESULT_BYTES_MAX} are fetched")));
    }
    let addresses = member.look(|state| state.members().get(&holder).map(|known| known.addresses.clone()))?;
    if holder != groups.shared.here() {
        groups.shared.reach(holder, addresses.unwrap_or_default()).await;
    }
    let mut bytes = Vec::new();
    for number in 0..u32::try_from(length.div_ceil(PART_BYTES)).unwrap_or(u32::MAX) {
        let fetched = if holder == groups.shared.here() {
            part(groups.shared.store.as_ref(), group, &reference.digest, number)?
        } else {
            let fetch = Fetch { group, digest: reference.digest, part: number };
            let asked = groups.shared.ask::<_, Fetched>(holder, "fetch", &fetch).await;
            asked.map_err(|error| failed(error.to_string()))?
        };
        let Fetched::Part(part) = fetched else { return Err(failed("it does not hold them any more".to_owned())) };
        if part.len() != PART_BYTES.min(length - bytes.len()) {
            return Err(failed("it sent a part of another length".to_owned()));
        }
        bytes.extend_from_slice(&part);
    }
    if digest(&bytes) != reference.digest {
        return Err(failed(format!("what it sent has not the digest {}", hex(&reference.digest))));
    }
    Ok(bytes)
}

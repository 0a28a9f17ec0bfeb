//! Changes of the owner's keys: rotation, revocation, and the withdrawal of a node.

use std::path::Path;
use std::time::Duration;

use althing_communication::{Entropy, WallClock};
use althing_protocol::keyring::Withdrawal;
use althing_protocol::{KeyLog, PublicKey, SecretKey, object};

use super::files::{Files, NextKeys};
use super::{Owner, OwnerError};

/// Rotates to the next key; the old one is accepted for `overlap` more. `next` are the next keys if they are not here.
///
/// # Errors
/// See [`OwnerError`].
pub fn rotate(
    folder: &Path,
    next: Option<NextKeys>,
    overlap: Duration,
    clock: &WallClock,
    entropy: &Entropy,
) -> Result<KeyLog, OwnerError> {
    let (files, owner) = current(folder)?;
    let imported = next.is_some();
    let NextKeys { next: key, after_next } = next_keys(&files, next)?;
    let newest = SecretKey::from_seed(&entropy.bytes());
    let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
    let log = owner.log.rotate(&key, newest.public(), later(&owner.log, clock), overlap_ms);
    let log = log.map_err(|source| OwnerError::Event { what: "rotated", source, imported })?;
    let next = NextKeys { next: after_next, after_next: newest };
    if !next.belong_to(&log) {
        return Err(OwnerError::OtherNextKeys { imported });
    }
    // Withdrawals stay in force: they are signed again by the new key.
    let mut withdrawals = Vec::new();
    for bytes in &owner.withdrawals {
        let Ok(old) = object::open::<Withdrawal>(bytes, "", "") else { continue };
        if old.body.matters(clock.now_ms()) {
            withdrawals.push(signed(old.body, &key)?);
        }
    }
    files.change(&log, &key, Some(&next))?;
    files.keep_withdrawals(withdrawals)?;
    Ok(log)
}

/// Revokes the owner's keys, finally.
///
/// # Errors
/// See [`OwnerError`].
pub fn revoke(folder: &Path, next: Option<NextKeys>, clock: &WallClock) -> Result<KeyLog, OwnerError> {
    let (files, owner) = current(folder)?;
    let imported = next.is_some();
    let key = next_keys(&files, next)?.next;
    let log = owner.log.revoke(&key, later(&owner.log, clock));
    let log = log.map_err(|source| OwnerError::Event { what: "revoked", source, imported })?;
    files.change(&log, &key, None)?;
    Ok(log)
}

/// Withdraws `node`: its memberships and grants of until now are invalid.
///
/// # Errors
/// See [`OwnerError`].
pub fn withdraw(folder: &Path, node: PublicKey, clock: &WallClock) -> Result<(), OwnerError> {
    let (files, owner) = current(folder)?;
    if owner.log.events().any(|event| event.key == node) {
        return Err(OwnerError::OwnKey(node));
    }
    let now_ms = clock.now_ms();
    let mut withdrawals: Vec<Vec<u8>> = owner.withdrawals.clone();
    withdrawals.retain(|bytes| {
        let old = object::open::<Withdrawal>(bytes, "", "");
        old.is_ok_and(|old| old.body.node != node && old.body.matters(now_ms))
    });
    withdrawals.push(signed(Withdrawal::new(owner.id(), node, now_ms), &owner.key)?);
    files.keep_withdrawals(withdrawals)
}

/// The withdrawals, by node.
#[must_use]
pub fn withdrawn(owner: &Owner) -> Vec<Withdrawal> {
    let read = |bytes: &Vec<u8>| object::open::<Withdrawal>(bytes, "", "").ok();
    owner.withdrawals.iter().filter_map(read).map(|withdrawal| withdrawal.body).collect()
}

fn signed(withdrawal: Withdrawal, key: &SecretKey) -> Result<Vec<u8>, OwnerError> {
    Ok(object::sign(withdrawal, "", "", key)?.bytes)
}

fn current(folder: &Path) -> Result<(Files, Owner), OwnerError> {
    let files = Files::lock(folder)?;
    if !files.has_owner()? {
        return Err(OwnerError::None(folder.to_owned()));
    }
    let owner = files.read()?;
    if owner.log.revoked() {
        return Err(OwnerError::RevokedAlready(owner.id()));
    }
    Ok((files, owner))
}

/// An event is never older than the one before it, whatever the clock says.
fn later(log: &KeyLog, clock: &WallClock) -> u64 {
    let last_ms = log.events().map(|event| event.issued_at_ms).max().unwrap_or(0);
    clock.now_ms().max(last_ms)
}

fn next_keys(files: &Files, given: Option<NextKeys>) -> Result<NextKeys, OwnerError> {
    match given {
        Some(keys) => Ok(keys),
        None => files.next()?.ok_or(OwnerError::NextKeysElsewhere),
    }
}

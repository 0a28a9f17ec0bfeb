//! The rows of a registry on disk.
//!
//! Beside each entry of the log lies the statement that it names: the log has digests only.

use althing_log::LogFamilies;
use althing_protocol::object::{self, Authored, Kind, ObjectError};
use althing_protocol::registry::{DomainFinding, Entry, EntryKind, Quarantine, Release, Salt};
use althing_protocol::{Digest, KeyLog};
use althing_store::Family;
use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

use crate::machine::things::ThingRecord;
use crate::machine::{Purge, Statement};

/// The entries and hashes of the log.
pub const LOG: LogFamilies = LogFamilies { entries: Family("log.entries"), hashes: Family("log.hashes") };
/// Statements by the index of their entry.
pub const STATEMENTS: Family = Family("statements");
/// Bundles by their digest.
pub const BUNDLES: Family = Family("bundles");
/// Descriptions of Things by the index of their entry: of each Thing the newest and the one before it.
pub const THINGS: Family = Family("things");
/// Releases that wait for approval, by publisher and id, and their bundles.
pub const STAGED: Family = Family("staged");
/// See [`STAGED`].
pub const STAGED_BUNDLES: Family = Family("staged.bundles");
/// What there is once.
pub const META: Family = Family("meta");

/// All families of a registry.
pub const FAMILIES: [Family; 8] = [LOG.entries, LOG.hashes, STATEMENTS, BUNDLES, THINGS, STAGED, STAGED_BUNDLES, META];

/// The key in [`META`] of the newest checkpoint that was signed.
pub const CHECKPOINT: &[u8] = b"checkpoint";
/// What the keys in [`META`] begin with of what was purged, and is not yet gone from the files of the store; then follows the
/// index of the entry.
pub const UNSCRUBBED: &[u8] = b"purged/";

/// A statement on disk.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Row {
    /// The bytes that the entry names; of a key log, all of its events.
    #[n(0)]
    signed: Vec<ByteVec>,
    /// The description that a release names.
    #[n(1)]
    description: Option<ByteVec>,
    /// What the entry is salted with.
    #[n(2)]
    salt: Option<ByteArray<16>>,
}

/// The row of a statement, which is salted if it is not for everybody.
pub fn write(statement: &Statement, salt: Option<Salt>) -> Vec<u8> {
    let signed = match statement {
        Statement::KeyLog(log) => log.to_bytes(),
        one => vec![one.bytes()],
    };
    let description = match statement {
        Statement::Release(_, described) => Some(described.bytes.clone().into()),
        _ => None,
    };
    let row = Row { signed: signed.into_iter().map(ByteVec::from).collect(), description, salt: salt.map(Into::into) };
    minicbor::to_vec(row).expect("writing to a vector cannot fail")
}

/// The row of a statement that was purged: it has nothing.
pub fn purged() -> Vec<u8> {
    let row = Row { signed: Vec::new(), description: None, salt: None };
    minicbor::to_vec(row).expect("writing to a vector cannot fail")
}

/// The row of what was purged, and may still be in files of the store: the entries of statements, and the digest of a bundle.
pub fn unscrubbed(entries: &[u64], bundle: Option<Digest>) -> Vec<u8> {
    let bundle = bundle.map(|bundle| ByteVec::from(bundle.to_vec()));
    minicbor::to_vec((entries, bundle)).expect("writing to a vector cannot fail")
}

/// The rows that such a row names.
pub fn gone(row: &[u8]) -> Vec<(Family, Vec<u8>)> {
    let (entries, bundle): (Vec<u64>, Option<ByteVec>) = minicbor::decode(row).unwrap_or_default();
    let statements = entries.into_iter().map(|entry| (STATEMENTS, entry.to_be_bytes().to_vec()));
    statements.chain(bundle.map(|bundle| (BUNDLES, bundle.to_vec()))).collect()
}

/// The salt of a row.
pub fn salt(row: &[u8]) -> Option<Salt> {
    minicbor::decode::<Row>(row).ok()?.salt.map(Into::into)
}

/// Why a row is no statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is not what the log's entry names, or damaged.
    Damaged,
    /// It is what the entry names, and signed for another network.
    OtherNetwork,
}

/// The statement of a row, which is what the log's entry names.
///
/// # Errors
/// [`Unread`].
pub fn read(entry: &[u8], row: &[u8], network: &str) -> Result<Statement, Unread> {
    let entry = Entry::decode(entry).ok_or(Unread::Damaged)?;
    let Row { signed, description, salt } = minicbor::decode(row).map_err(|_| Unread::Damaged)?;
    let Some(newest) = signed.last() else {
        // It was purged, and an entry after it says so.
        let is_purged = matches!(entry.kind, EntryKind::Salted(_));
        return if is_purged { Ok(Statement::Gone(entry.kind)) } else { Err(Unread::Damaged) };
    };
    if !entry.names(newest, salt.as_deref()) {
        return Err(Unread::Damaged);
    }
    let signed: Vec<&[u8]> = signed.iter().map(|one| one.as_slice()).collect();
    match named(&entry, &signed, description.as_deref().map(Vec::as_slice), network) {
        Ok(statement) => statement.ok_or(Unread::Damaged),
        // These are the bytes that were accepted: the log has their digest.
        Err(ObjectError::Envelope(_)) => Err(Unread::OtherNetwork),
        Err(_) => Err(Unread::Damaged),
    }
}

/// The statement that an entry names by the last of these bytes; none if they, or the description, are none.
fn named(
    entry: &Entry,
    signed: &[&[u8]],
    description: Option<&[u8]>,
    network: &str,
) -> Result<Option<Statement>, ObjectError> {
    let Some(newest) = signed.last() else { return Ok(None) };
    Ok(match entry.kind.plain() {
        EntryKind::Signed(Kind::KeyEvent) => KeyLog::verify(signed).ok().map(Statement::KeyLog),
        EntryKind::Signed(Kind::Release) => {
            let release: Authored<Release> = object::open(newest, network, "")?;
            if release.body.by != release.body.agent.publisher() {
                return Ok(Some(Statement::Approval(Box::new(release))));
            }
            let described = description.and_then(|description| object::open(description, network, "").ok());
            described.map(|described| Statement::Release(Box::new(release), Box::new(described)))
        }
        EntryKind::Signed(Kind::Mark) => Some(Statement::Mark(Box::new(object::open(newest, network, "")?))),
        EntryKind::Signed(Kind::Roster) => Some(Statement::Roster(Box::new(object::open(newest, network, "")?))),
        EntryKind::Signed(Kind::Attestation) => {
            Some(Statement::Attestation(Box::new(object::open(newest, network, "")?), entry.at_ms))
        }
        EntryKind::DomainFinding => {
            DomainFinding::decode(newest).map(|finding| Statement::Finding(Box::new(finding), entry.at_ms))
        }
        EntryKind::Thing | EntryKind::ThingDeleted => {
            ThingRecord::decode(entry.kind, newest).map(|record| Statement::Thing(Box::new(record)))
        }
        EntryKind::Purge => Purge::decode(newest).map(|purge| Statement::Purge(Box::new(purge))),
        EntryKind::Quarantine => Quarantine::decode(newest).map(|record| Statement::Quarantine(Box::new(record))),
        EntryKind::Signed(_) | EntryKind::Salted(_) => None,
    })
}

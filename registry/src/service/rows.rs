//! The rows of a registry on disk.
//!
//! Beside each entry of the log lies the statement that it names: the log has digests only.

use althing_log::LogFamilies;
use althing_protocol::object::{self, Authored, Kind};
use althing_protocol::registry::{DomainFinding, Entry, EntryKind, Release};
use althing_protocol::{KeyLog, digest};
use althing_store::Family;
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::machine::Statement;
use crate::machine::things::ThingRecord;

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
}

/// The row of a statement.
pub fn write(statement: &Statement) -> Vec<u8> {
    let one = |bytes: &[u8]| vec![ByteVec::from(bytes.to_vec())];
    let row = match statement {
        Statement::KeyLog(log) => {
            Row { signed: log.to_bytes().into_iter().map(ByteVec::from).collect(), description: None }
        }
        Statement::Release(release, described) => {
            Row { signed: one(&release.bytes), description: Some(described.bytes.clone().into()) }
        }
        Statement::Approval(release) => Row { signed: one(&release.bytes), description: None },
        Statement::Mark(mark) => Row { signed: one(&mark.bytes), description: None },
        Statement::Roster(roster) => Row { signed: one(&roster.bytes), description: None },
        Statement::Finding(finding, _) => Row { signed: one(&DomainFinding::encode(finding)), description: None },
        Statement::Thing(record) => Row { signed: one(&record.encode()), description: None },
    };
    minicbor::to_vec(row).expect("writing to a vector cannot fail")
}

/// The statement of a row, which is what the log's entry names; none if it is another one, or damaged.
pub fn read(entry: &[u8], row: &[u8], network: &str) -> Option<Statement> {
    let entry = Entry::decode(entry)?;
    let Row { signed, description } = minicbor::decode(row).ok()?;
    let newest = signed.last()?;
    if digest(newest) != entry.statement {
        return None;
    }
    match entry.kind {
        EntryKind::Signed(Kind::KeyEvent) => {
            let events: Vec<&[u8]> = signed.iter().map(|event| event.as_slice()).collect();
            Some(Statement::KeyLog(KeyLog::verify(&events).ok()?))
        }
        EntryKind::Signed(Kind::Release) => {
            let release: Authored<Release> = object::open(newest, network, "").ok()?;
            if release.body.by != release.body.agent.publisher() {
                return Some(Statement::Approval(Box::new(release)));
            }
            let described = object::open(&description?, network, "").ok()?;
            Some(Statement::Release(Box::new(release), Box::new(described)))
        }
        EntryKind::Signed(Kind::Mark) => Some(Statement::Mark(Box::new(object::open(newest, network, "").ok()?))),
        EntryKind::Signed(Kind::Roster) => Some(Statement::Roster(Box::new(object::open(newest, network, "").ok()?))),
        EntryKind::DomainFinding => Some(Statement::Finding(Box::new(DomainFinding::decode(newest)?), entry.at_ms)),
        EntryKind::Thing | EntryKind::ThingDeleted => {
            Some(Statement::Thing(Box::new(ThingRecord::decode(entry.kind, newest)?)))
        }
        EntryKind::Signed(_) => None,
    }
}

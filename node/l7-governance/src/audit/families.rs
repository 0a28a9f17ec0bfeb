//! The column families of an audit log.

use althing_log::LogFamilies;
use althing_store::Family;

/// Leaves that wait for their place in the log, by their ids.
pub(super) const QUEUE: Family = Family("audit.queue");
/// Leaves by log and index.
const ENTRIES: Family = Family("audit.log");
/// Hashes over them by log, level and index.
const HASHES: Family = Family("audit.hashes");
/// Places by ids, and ids by places.
pub(super) const INDEX: Family = Family("audit.index");
/// Sealed bodies by time, id and role.
pub(super) const BODIES: Family = Family("audit.bodies");
/// Keys of bodies by subject and number, and which of them were burned.
pub(super) const KEYS: Family = Family("audit.keys");
/// What there is once, and checkpoints.
pub(super) const STATE: Family = Family("audit.state");

pub(super) const LOG: LogFamilies = LogFamilies { entries: ENTRIES, hashes: HASHES };

/// All families of an audit log.
pub const FAMILIES: [Family; 7] = [QUEUE, ENTRIES, HASHES, INDEX, BODIES, KEYS, STATE];

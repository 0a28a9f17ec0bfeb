//! The rows of deliveries: who was told of a question, so that nobody is told again after a restart.

use althing_protocol::{Digest, cbor};
use minicbor::{Decode, Encode};

use super::{Deliveries, Progress, WAYS_MAX};
use crate::machine::consent::AskId;

/// The longest row, bytes.
const ROW_BYTES_MAX: usize = 512 << 10;

/// One way in a row.
#[derive(Encode, Decode)]
#[cbor(map)]
struct WayRow {
    #[n(0)]
    person: String,
    #[cbor(n(1), with = "minicbor::bytes")]
    digest: Digest,
    #[n(2)]
    first_ms: u64,
    #[n(3)]
    attempts: u32,
    #[n(4)]
    next_ms: u64,
    #[n(5)]
    told_ms: Option<u64>,
    #[n(6)]
    failure: Option<String>,
    #[n(7)]
    way: String,
}

impl Deliveries {
    /// The row of a question of which somebody was told, or was tried to be.
    #[must_use]
    pub fn row(&self, id: &AskId) -> Option<Vec<u8>> {
        let row = |((person, digest), progress): (&(String, Digest), &Progress)| WayRow {
            person: person.clone(),
            digest: *digest,
            first_ms: progress.first_ms,
            attempts: progress.attempts,
            next_ms: progress.next_ms,
            told_ms: progress.told_ms,
            failure: progress.failure.clone(),
            way: progress.way.clone(),
        };
        let rows: Vec<WayRow> = self.of.get(id)?.iter().map(row).collect();
        Some(minicbor::to_vec(rows).expect("writing to a vector cannot fail"))
    }

    /// Takes the row of a question; false of one that cannot be read, after which people are told once more.
    pub fn take_row(&mut self, id: AskId, row: &[u8]) -> bool {
        let rows = cbor::check(row, ROW_BYTES_MAX).ok().and_then(|()| minicbor::decode::<Vec<WayRow>>(row).ok());
        let Some(rows) = rows.filter(|rows| rows.len() <= WAYS_MAX) else { return false };
        let progress = |row: WayRow| {
            let WayRow { person, digest, first_ms, attempts, next_ms, told_ms, failure, way } = row;
            ((person, digest), Progress { way, first_ms, attempts, next_ms, told_ms, failure })
        };
        self.of.insert(id, rows.into_iter().map(progress).collect());
        true
    }
}

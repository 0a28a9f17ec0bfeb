//! How many bytes the bodies have in the store, and how many they may have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use althing_protocol::audit::AuditStage;
use althing_store::{Batch, Store};

use super::error::{AuditFault, AuditUnavailable};
use super::families::STATE;
use super::rows::damaged;

/// The key in [`STATE`] of the bytes of all bodies.
const USAGE: &[u8] = b"usage";
/// The part of the share beyond it that outcomes, answers and ends may use: what was begun can be recorded to its end.
const BEYOND: u64 = 16;

/// How much of its share is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditUsage {
    /// Bytes of the bodies.
    pub bytes: u64,
    /// Bytes that they may have.
    pub share: u64,
}

impl AuditUsage {
    /// Whether people should hear of it: four fifths are used.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.bytes >= self.share / 5 * 4
    }
}

/// The share of the bodies, and what they use of it; what is in the queue is not counted yet.
pub(super) struct BodyShare {
    store: Arc<dyn Store>,
    /// Bytes.
    share: u64,
    /// Bytes, as the row said last.
    used: AtomicU64,
}

impl BodyShare {
    /// Reads how much of `share` bytes is used.
    pub(super) fn open(store: Arc<dyn Store>, share: u64) -> Result<BodyShare, AuditFault> {
        let body_share = BodyShare { store, share, used: AtomicU64::default() };
        body_share.follow()?;
        Ok(body_share)
    }

    pub(super) fn usage(&self) -> AuditUsage {
        AuditUsage { bytes: self.used.load(Ordering::Relaxed), share: self.share }
    }

    /// Whether a leaf of that stage may have bodies now.
    pub(super) fn has_room_for(&self, stage: AuditStage) -> Result<(), AuditUnavailable> {
        let AuditUsage { bytes, share } = self.usage();
        let ends = matches!(stage, AuditStage::Outcome | AuditStage::Answered | AuditStage::Ended);
        let most = if ends { share.saturating_add(share / BEYOND) } else { share };
        if bytes >= most { Err(AuditUnavailable::Full { bytes, share }) } else { Ok(()) }
    }

    /// The row that says how many bytes the bodies have.
    pub(super) fn row(bytes: u64) -> Batch {
        let mut rows = Batch::new();
        rows.put(STATE, USAGE, bytes.to_be_bytes());
        rows
    }

    /// Reads how many bytes the bodies have.
    pub(super) fn follow(&self) -> Result<u64, AuditFault> {
        let bytes = match self.store.read(STATE, USAGE)? {
            None => 0,
            Some(row) => u64::from_be_bytes(row.try_into().map_err(|_| damaged("the row", USAGE))?),
        };
        self.used.store(bytes, Ordering::Relaxed);
        Ok(bytes)
    }
}

//! What is known of how others can reach this node, and which peers asked to be dialled back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::PublicKey;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::machine::reachability::ReachabilityTracker;

/// Dial-back requests of all peers that are served at one time.
const CONCURRENT_MAX: usize = 8;
/// One peer is dialled back this often.
const PER_PEER: Duration = Duration::from_secs(2);
/// Peers whose last request is remembered.
const REQUESTERS_MAX: usize = 4_096;

/// See [`ReachabilityTracker`].
pub(crate) struct ReachState {
    tracker: Mutex<ReachabilityTracker>,
    /// When a peer was last dialled back.
    served: Mutex<BTreeMap<PublicKey, Instant>>,
    /// Dial-backs under way.
    pub concurrent: Semaphore,
    /// The reachability may have changed: the next check runs at once.
    pub check_now: Notify,
    pub begun: Instant,
}

impl Default for ReachState {
    fn default() -> ReachState {
        ReachState {
            tracker: Mutex::default(),
            served: Mutex::default(),
            concurrent: Semaphore::new(CONCURRENT_MAX),
            check_now: Notify::new(),
            begun: Instant::now(),
        }
    }
}

impl ReachState {
    pub fn tracker(&self) -> MutexGuard<'_, ReachabilityTracker> {
        self.tracker.lock().expect("no holder of the reachability panics")
    }

    /// May `peer` be dialled back now? Notes the time when it may.
    pub fn admit(&self, peer: PublicKey) -> bool {
        let mut served = self.served.lock().expect("no holder of the dials panics");
        let now = Instant::now();
        served.retain(|_, at| now.duration_since(*at) < PER_PEER);
        if served.contains_key(&peer) || served.len() >= REQUESTERS_MAX {
            return false;
        }
        served.insert(peer, now);
        true
    }
}

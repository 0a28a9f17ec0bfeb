//! How a replica behaves.

use std::time::Duration;

use althing_protocol::GroupId;
use openraft::{Config, SnapshotPolicy};

/// How a replica behaves.
#[derive(Debug, Clone)]
pub struct ReplicaConfig {
    /// How often a leader says that it is there.
    pub heartbeat: Duration,
    /// The shortest random part of the election timeout; the longest is this and [`ELECTION_SPREAD`]. openraft first waits for
    /// the leader's lease, which is as long as the longest. So a voter that hears no leader becomes a candidate after 480 to
    /// 550 ms by default, and at its next tick (40 ms): in less than three heartbeats. openraft wants it above one heartbeat.
    pub election_timeout: Duration,
    /// Entries between two snapshots, and as many that are kept behind one.
    pub snapshot_entries: u64,
    /// Bytes of entries between two snapshots, if these come sooner, and so many that are kept: entries have up to a megabyte.
    pub snapshot_bytes: u64,
}

/// How far apart members stand for election that have heard the leader at the same time.
const ELECTION_SPREAD: Duration = Duration::from_millis(70);

impl Default for ReplicaConfig {
    fn default() -> Self {
        ReplicaConfig {
            heartbeat: Duration::from_millis(200),
            election_timeout: Duration::from_millis(205),
            snapshot_entries: 5_000,
            snapshot_bytes: 64 << 20,
        }
    }
}

/// The same, as openraft wants it.
pub(super) fn raft_config(group: GroupId, config: &ReplicaConfig) -> Config {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Config {
        cluster_name: group.to_string(),
        heartbeat_interval: millis(config.heartbeat),
        election_timeout_min: millis(config.election_timeout),
        election_timeout_max: millis(config.election_timeout + ELECTION_SPREAD),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshot_entries),
        // It deletes no entries by itself: it counts them only, and bytes count too (`Replica::shorten_log`). Some are kept, so that
        // members that were away for a moment need no snapshot.
        max_in_snapshot_log_to_keep: u64::MAX,
        replication_lag_threshold: config.snapshot_entries * 2,
        max_payload_entries: 256,
        install_snapshot_timeout: 60_000,
        enable_pre_vote: Some(true),
        // Until somebody says that it may (`Replica::may_stand`).
        enable_elect: false,
        // A leader that goes on in its old term after a restart knows of fewer entries that they are committed than it
        // acknowledged, and answers reads as of those. In a new term it commits an entry of its own before it answers.
        enable_leader_restore: Some(false),
        ..Config::default()
    }
}

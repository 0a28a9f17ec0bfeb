//! What moves in a replica.

use openraft::async_runtime::WatchReceiver as _;

use super::types::Types;

type Metrics = openraft::RaftMetrics<Types>;
type Receiver = openraft::alias::WatchReceiverOf<Types, Metrics>;

/// Changes of who leads and how far the log is.
pub struct Moves {
    metrics: Receiver,
    /// What was seen last.
    last: Option<Metrics>,
}

impl Moves {
    /// Those that these metrics show from now on.
    pub(super) fn of(metrics: Receiver) -> Moves {
        Moves { metrics, last: None }
    }

    /// Waits for the next change. False when the replica has stopped.
    pub async fn changed(&mut self) -> bool {
        while self.metrics.changed().await.is_ok() {
            let now = self.metrics.borrow_watched();
            if self.last.as_ref().is_none_or(|last| !is_still(last, &now)) {
                self.last = Some((*now).clone());
                return true;
            }
        }
        false
    }
}

/// Whether nothing has moved: that the others answered heartbeats, at each of which a leader's metrics change, does not count.
fn is_still(before: &Metrics, now: &Metrics) -> bool {
    before.state == now.state
        && before.current_leader == now.current_leader
        && before.vote == now.vote
        && before.current_term == now.current_term
        && before.last_log_index == now.last_log_index
        && before.cluster_committed == now.cluster_committed
        && before.last_applied == now.last_applied
        && before.snapshot == now.snapshot
        && before.replication == now.replication
        && before.membership_config == now.membership_config
        && before.running_state == now.running_state
}

//! What is done again and again while a node runs: what is over ends, and what waits is written.

use std::time::Duration;

use althing_store::{Batch, Durability};

use crate::consultation;
use crate::governance::{Governance, put_over};
use crate::leaves;

/// Between two looks at what is over.
const SWEEP: Duration = Duration::from_secs(5);
/// Between two looks at bodies of the audit log whose time is over.
const EXPIRE: Duration = Duration::from_secs(3_600);

impl Governance {
    /// Ends what is over, and moves what is to be recorded into the log, for as long as the node runs.
    pub async fn run(&self) {
        let sweeping = async {
            loop {
                self.sweep().await;
                tokio::time::sleep(SWEEP).await;
            }
        };
        let expiring = async {
            loop {
                if let Err(error) = self.audit().expire().await {
                    tracing::error!(%error, "bodies of the audit log whose time is over could not be deleted; it is tried again");
                }
                tokio::time::sleep(EXPIRE).await;
            }
        };
        tokio::join!(sweeping, expiring, self.audit().keep());
    }

    /// Ends what is over, and writes what waits. A failure is tried again at the next time.
    pub async fn sweep(&self) {
        let _writing = self.writing().lock().await;
        let mut batch = self.decision_log().rows(self.ports().store.as_ref());
        let kept = denials(self);
        batch.append(kept.clone());
        let before = self.book().now();
        if batch.is_empty() && before.is_empty() {
            return;
        }
        let mut next = (*before).clone();
        let used = consultation::take_used(self, &mut next, &mut batch);
        let now_ms = self.now_ms();
        let ended = std::mem::take(&mut *self.book().over());
        let mut over = next.asks.expire(now_ms);
        over.extend(ended.iter().filter(|one| next.end(one)).map(|(_, id)| *id));
        put_over(self, &next, &over, &mut batch);
        let is_shorter = next.forget(now_ms, &mut batch);
        let is_changed = used || is_shorter || !ended.is_empty() || !over.is_empty();
        if let Err(error) = self.write(batch, Durability::Buffered).await {
            tracing::error!(%error, "what people did not answer in time could not be written; it is tried again");
            self.policies().refusals.keep(kept);
            self.book().over().extend(ended);
            return;
        }
        consultation::forsake(self, &over);
        if is_changed {
            self.book().publish(next);
        }
    }

    /// What the node stops with: all that was noted is on disk.
    pub async fn shut_down(&self) {
        self.policies().refusals.end();
        self.sweep().await;
        if let Err(error) = self.audit().drain().await {
            tracing::warn!(%error, "entries of the audit log wait for the next start");
        }
    }
}

/// The entries of denials that nobody could wait for, and of how many there were where no further one tells it.
fn denials(governance: &Governance) -> Batch {
    let refusals = &governance.policies().refusals;
    let mut entries = refusals.take();
    for count in refusals.take_counts() {
        match governance.audit().entry_at_least(leaves::further_refused(count, governance.now_ms())) {
            Ok(entry) => {
                entries.append(entry);
            }
            Err(error) => {
                tracing::error!(%error, "how many denials there were has no entry in the audit log; it is tried again");
                refusals.keep_count(count);
            }
        }
    }
    entries
}

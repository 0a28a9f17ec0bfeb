//! A running node: whom it trusts, what it renews, how it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_calls::{Calls, Hosting, REMOTE_TASKS, TASK_SUMMARIES, TASKS};
use althing_communication::{Communication, Entropy, Trust, WallClock};
use althing_discovery::Discovery;
use althing_discovery::lan::Lan;
use althing_execution::Host;
use althing_execution::kernel::Kernel;
use althing_execution::memory::{MEMORY, Memories};
use althing_protocol::{CallerId, OwnerProof, SecretKey};
use althing_store::{Batch, Durability, Family, Range, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bindings::BINDINGS;
use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::introduce::Introductions;
use crate::keys::HEARD;
use crate::owner::Owner;
use crate::publish::{self, AGENTS};

/// Nodes and owners that this node trusts, by their printed ids.
pub const TRUSTED: Family = Family("althing.trusted");
/// All that a node's store keeps.
pub const FAMILIES: [Family; 8] = [TASKS, TASK_SUMMARIES, REMOTE_TASKS, AGENTS, TRUSTED, MEMORY, BINDINGS, HEARD];
/// Nodes and owners that may be trusted.
const TRUSTED_MAX: usize = 10_000;
/// Grants and memberships are renewed at half of their life.
const RENEW: Duration = Duration::from_millis(publish::GRANT_MS / 2);
/// How often it is looked whether that time has come.
const RENEW_LOOK: Duration = Duration::from_secs(10);
/// Between two sweeps of what agents keep.
const SWEEP: Duration = Duration::from_secs(60);
/// How long calls that are under way when the node stops may take to end.
const LET_END: Duration = Duration::from_secs(5);

/// A running node. [`Node::keep`] keeps it in order; without that nothing of it is renewed.
pub struct Node {
    pub(crate) owner: watch::Receiver<Owner>,
    /// Its key.
    pub key: SecretKey,
    /// What it is like.
    pub config: NodeConfig,
    /// L2.
    pub communication: Communication,
    /// L3.
    pub discovery: Discovery,
    /// The hosting side of calls.
    pub hosting: Hosting,
    /// The calling side.
    pub calls: Calls,
    /// L1.
    pub host: Arc<Host>,
    pub(crate) kernel: Option<Arc<Kernel>>,
    /// What agents keep.
    pub memories: Arc<Memories>,
    /// What the node keeps.
    pub store: Arc<dyn Store>,
    /// Where its agents are called over HTTP.
    pub gateway: Option<SocketAddr>,
    /// Where strangers read of public agents.
    pub introductions: Introductions,
    /// What the user should know about how the node came up.
    pub notes: Vec<String>,
    /// Cancelled when the node stops; faces stop with it.
    pub stop: CancellationToken,
    pub(crate) clock: WallClock,
    pub(crate) entropy: Entropy,
    pub(crate) trust: watch::Sender<Trust>,
    pub(crate) membership: watch::Sender<Option<Arc<OwnerProof>>>,
    pub(crate) lan: Mutex<Option<Lan>>,
    /// Why it is not on the LAN, where it should be.
    pub(crate) lan_trouble: Option<String>,
    /// Whether it should be.
    pub(crate) lan_wanted: bool,
    /// Held while agents are added, started or taken away, so that names and promises belong to one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Agents that were added and do not run, and why.
    pub(crate) failed: Mutex<BTreeMap<String, String>>,
}

impl Node {
    /// The network's name.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.config.communication.network
    }

    /// The folder in which the node keeps its data, if it has one.
    #[must_use]
    pub fn data(&self) -> Option<&Path> {
        self.config.data.as_deref()
    }

    /// What schedules its agents, where they are scheduled.
    #[must_use]
    pub fn kernel(&self) -> Option<&Arc<Kernel>> {
        self.kernel.as_ref()
    }

    /// How others can reach this node: `internet`, `relayed`, `hidden` (nobody can, and no relay was found yet), `nearby` (from
    /// its own network; nobody on the internet has tried), `blocked` (not even from there) or `unknown` (nobody has tried).
    #[must_use]
    pub fn reach(&self) -> &'static str {
        let verdict = self.communication.reachability();
        match &verdict {
            verdict if verdict.from_internet => "internet",
            verdict if verdict.hidden && !self.communication.network().relays().is_empty() => "relayed",
            verdict if verdict.hidden => "hidden",
            verdict if verdict.hidden_nearby => "blocked",
            verdict if !verdict.confirmed.is_empty() => "nearby",
            _ => "unknown",
        }
    }

    /// Does what takes its time beside the node's own work. Without a scheduler it is done at once: then nothing is compiled,
    /// and time may be virtual, which does not wait for other threads.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, tokio::task::JoinError> {
        if self.kernel.is_some() { tokio::task::spawn_blocking(work).await } else { Ok(work()) }
    }

    /// Waits until the machine is known, where that matters.
    pub(crate) async fn probed(&self) {
        if let Some(kernel) = &self.kernel {
            kernel.probed().await;
        }
    }

    /// Agents that were added and do not run, and why.
    ///
    /// # Panics
    /// When another holder has.
    pub fn failed(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().expect("no holder of the failed agents panics")
    }

    /// Trusts a node or an owner, or trusts it no longer.
    ///
    /// # Errors
    /// [`NodeError::Write`].
    pub async fn set_trust(&self, id: CallerId, trusted: bool) -> Result<(), NodeError> {
        let mut batch = Batch::new();
        if trusted {
            batch.put(TRUSTED, id.to_string(), Vec::new());
        } else {
            batch.delete(TRUSTED, id.to_string());
        }
        self.store.write(batch, Durability::Synced).await?;
        self.trust.send_modify(|trust| {
            if trusted {
                trust.trusted.insert(id);
            } else {
                trust.trusted.remove(&id);
            }
        });
        self.watch_keys();
        Ok(())
    }

    /// This node's randomness.
    #[must_use]
    pub fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    /// Whom this node trusts, and what it is itself.
    pub(crate) fn trust(&self) -> watch::Ref<'_, Trust> {
        self.trust.borrow()
    }

    /// Its time of day.
    #[must_use]
    pub fn clock(&self) -> &WallClock {
        &self.clock
    }

    /// Whom this node trusts.
    #[must_use]
    pub fn trusted(&self) -> BTreeSet<CallerId> {
        self.trust.borrow().trusted.clone()
    }

    /// Keeps the node in order for as long as it runs.
    pub async fn keep(&self) {
        let keys = async { tokio::join!(self.follow_owner(), self.keep_heard_keys()) };
        tokio::join!(self.keep_renewing(), self.keep_sweeping(), keys, self.keep_introducing());
    }

    /// Takes away what agents kept and has passed its retention.
    async fn keep_sweeping(&self) {
        loop {
            match self.memories.sweep().await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "what has passed its retention is gone"),
                Err(error) => tracing::error!(%error, "memory could not be swept"),
            }
            tokio::time::sleep(SWEEP).await;
        }
    }

    /// Renews grants and the membership.
    async fn keep_renewing(&self) {
        let renew_ms = u64::try_from(RENEW.as_millis()).unwrap_or(u64::MAX);
        let mut renewed_ms = self.clock.now_ms();
        // What waits for the machine to be known is started as soon as it is.
        self.probed().await;
        if let Err(error) = self.retry_failed().await {
            tracing::error!(%error, "agents could not be started");
        }
        loop {
            // By the time of day, which goes on while a machine sleeps.
            tokio::time::sleep(RENEW_LOOK).await;
            if let Err(error) = self.retry_failed().await {
                tracing::error!(%error, "agents could not be started again");
            }
            let now_ms = self.clock.now_ms();
            if now_ms.abs_diff(renewed_ms) < renew_ms {
                continue;
            }
            // What fails is tried again with the next look.
            match self.renew(now_ms) {
                Ok(()) => renewed_ms = now_ms,
                Err(error) => tracing::error!(%error, "not all grants could be renewed"),
            }
        }
    }

    /// Renews the membership and the grants of the agents that run, as many as can be; gives the first failure.
    pub(crate) fn renew(&self, now_ms: u64) -> Result<(), NodeError> {
        let owner = self.owner();
        if owner.log.revoked() {
            return Ok(());
        }
        let membership = publish::membership(&owner, self.key.public(), self.network(), now_ms)?;
        let is_own = membership.is_some();
        self.show_membership(membership);
        if !is_own {
            tracing::error!(reason = %NodeError::NodeWithdrawn, "nothing is signed for this node");
            return Ok(());
        }
        let running: BTreeSet<String> = self.host.status().into_iter().map(|status| status.name).collect();
        let known = publish::known(self.store.as_ref())?;
        let shown = known.iter().filter(|added| running.contains(&added.file.name)).map(|added| self.show_agent(added));
        // Every one is tried, whatever becomes of the others.
        let outcomes: Vec<Result<(), NodeError>> = shown.collect();
        outcomes.into_iter().collect()
    }

    /// What is shown to peers from now on.
    pub(crate) fn show_membership(&self, membership: Option<Arc<OwnerProof>>) {
        self.membership.send_replace(membership);
    }

    /// Leaves the mesh politely: says goodbye, lets calls end, stops agents.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        let goodbye = async {
            self.discovery.leave().await;
            let lan = self.lan.lock().expect("no holder of the LAN panics").take();
            if let Some(lan) = lan {
                lan.leave().await;
            }
        };
        // A peer that does not take the goodbye finds out by itself.
        let _ = tokio::time::timeout(Duration::from_secs(2), goodbye).await;
        // Calls that are under way may end; new ones find nobody.
        let ended = async {
            while self.hosting.live_tasks() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(LET_END, ended).await;
        self.host.stop_all().await;
        // An empty synced batch: all that was written is on disk.
        if let Err(error) = self.store.write(Batch::new(), Durability::Synced).await {
            tracing::error!(%error, "the store could not be flushed");
        }
    }
}

/// Nodes and owners that are trusted, as the store has them.
pub(crate) fn read_trusted(store: &dyn Store) -> Result<BTreeSet<CallerId>, NodeError> {
    let rows = store.scan(TRUSTED, Range::all(TRUSTED_MAX))?;
    Ok(rows.into_iter().filter_map(|(id, _)| String::from_utf8(id).ok()?.parse().ok()).collect())
}

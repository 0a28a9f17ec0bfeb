//! The composition root: makes one node of all layers.
#![expect(clippy::disallowed_methods, reason = "shell: hands the real clock and randomness to the layers")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use althing_calls::{Calls, Hosting};
use althing_communication::{Communication, Entropy, Trust, WallClock};
use althing_discovery::Discovery;
use althing_discovery::lan::Lan;
use althing_execution::Host;
use althing_execution::kernel::Kernel;
use althing_execution::memory::Memories;
use althing_protocol::{CallerId, OwnerProof, SecretKey};
use althing_store::{Batch, Durability, Family, Range, Store};
use rand::Rng as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::exit::Failure;
use crate::introduce;
use crate::keys;
use crate::owner::{self, Owner};
use crate::parts::{self, Execution};
use crate::paths::Paths;
use crate::publish;

/// Nodes and owners that this node trusts, by their printed ids.
pub const TRUSTED: Family = Family("althing.trusted");
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

/// The real clock.
pub fn clock() -> WallClock {
    WallClock::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The operating system's randomness.
pub fn entropy() -> Entropy {
    Entropy::new(|bytes| rand::rng().fill(bytes))
}

/// A running node.
pub struct Node {
    pub(crate) owner: watch::Sender<Owner>,
    /// Where the owner's keys lie.
    pub(crate) owner_folder: PathBuf,
    pub key: SecretKey,
    pub config: Config,
    pub communication: Communication,
    pub discovery: Discovery,
    pub hosting: Hosting,
    pub calls: Calls,
    pub host: Arc<Host>,
    pub kernel: Arc<Kernel>,
    pub memories: Arc<Memories>,
    pub store: Arc<dyn Store>,
    pub gateway: SocketAddr,
    /// Where strangers read of public agents.
    pub introducing: Vec<SocketAddr>,
    /// Where the node keeps its data.
    pub data: PathBuf,
    /// What the user should know about how the node came up.
    pub notes: Vec<String>,
    pub stop: CancellationToken,
    pub(crate) clock: WallClock,
    entropy: Entropy,
    trust: watch::Sender<Trust>,
    membership: watch::Sender<Option<Arc<OwnerProof>>>,
    pub(crate) lan: Mutex<Option<Lan>>,
    /// Held while agents are added, started or taken away, so that names and promises belong to one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Agents that were added and do not run, and why.
    failed: Mutex<BTreeMap<String, String>>,
}

impl Node {
    /// Starts every layer, from the ground up.
    pub async fn start(at: &Paths, config: Config) -> Result<Node, Failure> {
        let (clock, entropy) = (clock(), entropy());
        let owner = Owner::open(&at.owner, &clock, &entropy)?;
        let store = parts::open_store(at)?;
        let key = owner::secret(&at.node_key(), &entropy)?;
        let mut notes = Vec::new();
        let (listener, gateway) = parts::bind_gateway(&config.gateway.listen, config.gateway.fixed, &mut notes).await?;
        let network = parts::listen(&key, &config, &clock, &mut notes).await?;
        let membership = publish::membership(&owner, key.public(), &config.network, clock.now_ms())?;
        let (membership, shown) = watch::channel(membership);
        let (trust, trusting) = watch::channel(whom_to_trust(&key, &owner, store.as_ref(), &config)?);
        let communication = Communication::start(
            network.clone(),
            key.clone(),
            shown,
            parts::communicating(&config),
            clock.clone(),
            entropy.clone(),
        );
        let near = trust.borrow().publishers().chain([owner.id()]).collect();
        keys::recall(store.as_ref(), communication.keys(), &owner, near, clock.now_ms())?;
        let Execution { kernel, host, memories, asking } = parts::execute(at, &config, &store, &clock, &entropy)?;
        let (lan, sightings) = parts::join_lan(&key, network.as_ref(), &config, &mut notes);
        let facts = parts::facts(&host, &kernel);
        let discovery = parts::discover(&communication, &key, &config, &clock, &trust, facts, sightings)?;
        let hosting = Hosting::open(store.clone(), host.clone(), trusting, clock.clone(), entropy.clone())
            .await
            .map_err(|error| Failure::failed(error.to_string()))?;
        parts::serve_peers(&communication, &hosting, &kernel, trust.subscribe(), &entropy, &config)?;
        let calls = Calls::new(
            communication.clone(),
            discovery.clone(),
            hosting.clone(),
            store.clone(),
            clock.clone(),
            owner.id(),
        );
        asking.tie(&calls);
        let stop = CancellationToken::new();
        parts::open_gateway(listener, &calls, &key, parts::access(&config, gateway), &stop);
        let introducing = introduce::open(&calls, &key, &config, gateway, &stop, &mut notes).await;
        let node = Node {
            owner: watch::Sender::new(owner),
            owner_folder: at.owner.clone(),
            key,
            config,
            communication,
            discovery,
            hosting,
            calls,
            host,
            kernel,
            memories,
            store,
            gateway,
            introducing,
            data: at.data.clone(),
            notes,
            stop,
            clock,
            entropy,
            trust,
            membership,
            lan: Mutex::new(lan),
            changing: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
        };
        node.start_stored().await
    }

    /// Agents that were added and do not run, and why.
    pub fn failed(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().expect("no holder of the failed agents panics")
    }

    /// Trusts a node or an owner, or trusts it no longer.
    pub async fn set_trust(&self, id: CallerId, trusted: bool) -> Result<(), Failure> {
        let mut batch = Batch::new();
        if trusted {
            batch.put(TRUSTED, id.to_string(), Vec::new());
        } else {
            batch.delete(TRUSTED, id.to_string());
        }
        let written = self.store.write(batch, Durability::Synced).await;
        written.map_err(|error| Failure::failed(error.to_string()))?;
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
    pub fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    /// Whom this node trusts, and what it is itself.
    pub(crate) fn trust(&self) -> watch::Ref<'_, Trust> {
        self.trust.borrow()
    }

    /// Whom this node trusts.
    pub fn trusted(&self) -> BTreeSet<CallerId> {
        self.trust.borrow().trusted.clone()
    }

    /// Keeps the node in order for as long as it runs.
    pub async fn keep_for_ever(&self) {
        let keys = async { tokio::join!(self.follow_owner_for_ever(), self.keep_heard_for_ever()) };
        tokio::join!(self.renew_for_ever(), self.sweep_for_ever(), keys, self.introduce_for_ever());
    }

    /// Takes away what agents kept and has passed its retention.
    async fn sweep_for_ever(&self) {
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
    async fn renew_for_ever(&self) {
        let renew_ms = u64::try_from(RENEW.as_millis()).unwrap_or(u64::MAX);
        let mut renewed_ms = self.clock.now_ms();
        // What waits for the machine to be known is started as soon as it is.
        self.kernel.probed().await;
        if let Err(failure) = self.retry_failed().await {
            tracing::error!(reason = failure.message, "agents could not be started");
        }
        loop {
            // By the time of day, which goes on while a machine sleeps.
            tokio::time::sleep(RENEW_LOOK).await;
            if let Err(failure) = self.retry_failed().await {
                tracing::error!(reason = failure.message, "agents could not be started again");
            }
            let now_ms = self.clock.now_ms();
            if now_ms.abs_diff(renewed_ms) < renew_ms {
                continue;
            }
            // What fails is tried again with the next look.
            match self.renew(now_ms) {
                Ok(()) => renewed_ms = now_ms,
                Err(failure) => tracing::error!(reason = failure.message, "not all grants could be renewed"),
            }
        }
    }

    /// Renews the membership and the grants of the agents that run, as many as can be; gives the first failure.
    pub(crate) fn renew(&self, now_ms: u64) -> Result<(), Failure> {
        let owner = self.owner();
        if owner.log.revoked() {
            return Ok(());
        }
        let membership = publish::membership(&owner, self.key.public(), &self.config.network, now_ms)?;
        let is_own = membership.is_some();
        self.show_membership(membership);
        if !is_own {
            tracing::error!(reason = publish::TAKEN_BACK, "nothing is signed for this node");
            return Ok(());
        }
        let running: BTreeSet<String> = self.host.status().into_iter().map(|status| status.name).collect();
        let known = publish::known(self.store.as_ref())?;
        let shown = known.iter().filter(|added| running.contains(&added.file.name)).map(|added| self.show_agent(added));
        // Every one is tried, whatever becomes of the others.
        let outcomes: Vec<Result<(), Failure>> = shown.collect();
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

/// What this node begins with.
fn whom_to_trust(key: &SecretKey, owner: &Owner, store: &dyn Store, config: &Config) -> Result<Trust, Failure> {
    let (trusted, private) = (read_trusted(store)?, config.secret.is_some());
    Ok(Trust { node: key.public(), owner: owner.id(), trusted, private })
}

fn read_trusted(store: &dyn Store) -> Result<BTreeSet<CallerId>, Failure> {
    let rows = store.scan(TRUSTED, Range::all(TRUSTED_MAX)).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(rows.into_iter().filter_map(|(id, _)| String::from_utf8(id).ok()?.parse().ok()).collect())
}

//! What all of L3's tasks share: the node's key and network, and one state behind one lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use althing_communication::{Communication, WallClock};
use althing_protocol::object::{AgentLoad, Health, Machine, Placement};
use althing_protocol::{AgentId, PublicKey, PublisherId, SecretKey, VerifiedAgent};
use althing_td::{Description, Exposure};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::config::DiscoveryConfig;
use crate::error::FindError;
use crate::hints::HostHints;
use crate::machine::catalogue::{Catalogue, Now};
use crate::machine::contacts::Contacts;
use crate::machine::dialling::Dialling;
use crate::machine::exchange::{Exchange, ExchangeEffect, ExchangeInput};
use crate::machine::in_use::InUse;
use crate::machine::instances::{Instances, OwnKey};
use crate::machine::known_peers::KnownPeers;
use crate::machine::query::{self, Among, TrustRelation};
use crate::machine::things::Things;
use crate::machine::verification_budget::VerificationBudget;

/// An agent that this node hosts.
#[derive(Debug, Clone)]
pub struct LocalAgent {
    /// Description, grant and key log, verified.
    pub verified: Arc<VerifiedAgent>,
    /// The description, parsed.
    pub description: Arc<Description>,
    /// Who may find it.
    pub exposure: Exposure,
}

/// What a node tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Share of the node that is in use, thousandths.
    pub load_permille: u16,
    /// What its machine can do, once that is known.
    pub machine: Option<Machine>,
    /// What its agents do, by name.
    pub loads: BTreeMap<String, AgentLoad>,
    /// Of the turns of its agents that verdicts or failures judged, those that went well, whole percents, by name; nothing of an
    /// agent of which no turn was judged, or some ended that were not.
    pub successes: BTreeMap<String, u8>,
}

/// How near others are to this node's owner. Asked again and again: trust changes.
pub struct Relations {
    pub(crate) of_node: Box<dyn Fn(PublicKey) -> TrustRelation + Send + Sync>,
    pub(crate) of_publisher: Box<dyn Fn(&AgentId) -> TrustRelation + Send + Sync>,
}

impl Relations {
    /// `of_node` says how near a peer is, `of_publisher` how near the publisher of an agent is.
    pub fn new(
        of_node: impl Fn(PublicKey) -> TrustRelation + Send + Sync + 'static,
        of_publisher: impl Fn(&AgentId) -> TrustRelation + Send + Sync + 'static,
    ) -> Relations {
        Relations { of_node: Box::new(of_node), of_publisher: Box::new(of_publisher) }
    }

    /// All are strangers.
    #[must_use]
    pub fn none() -> Relations {
        Relations::new(|_| TrustRelation::Stranger, |_| TrustRelation::Stranger)
    }
}

/// The placement that some peers get, as it was signed last.
#[derive(Default)]
pub(crate) struct PublishedPlacement {
    /// Its content, without sequence and time.
    pub content: Option<Placement>,
    /// Rises whenever the content changes.
    pub version: u64,
    pub bytes: Vec<u8>,
}

pub(crate) struct Shared {
    pub communication: Communication,
    pub config: DiscoveryConfig,
    pub key: SecretKey,
    pub clock: WallClock,
    /// How near others are.
    pub relations: Relations,
    /// How this node is.
    pub facts: Box<dyn Fn() -> NodeLoad + Send + Sync>,
    /// Where monotonic time begins.
    pub started: Instant,
    pub state: Mutex<State>,
    /// What this node hosts has changed.
    pub changed: Notify,
    /// Subscribers have something to hear.
    pub subscribers: Notify,
    /// Something of the peers that are remembered is to be written.
    pub known_changed: Notify,
    /// The time of day at which this node began, Unix milliseconds.
    pub begun_ms: u64,
    /// Others who may know hosts.
    pub hints: OnceLock<Arc<dyn HostHints>>,
}

pub(crate) struct State {
    pub catalogue: Catalogue,
    /// Nodes that were recently called from here.
    pub in_use: InUse,
    /// How much of what strangers show is verified.
    pub verification_budget: VerificationBudget,
    pub things: Things,
    pub contacts: Contacts,
    pub dialling: Dialling,
    /// Peers that were useful.
    pub known: KnownPeers,
    /// Runs of other nodes, by their keys.
    pub instances: Instances,
    /// What is known of this node's own key.
    pub own_key: OwnKey,
    /// What this node says of its run, and since when it says so, milliseconds.
    pub statement: Option<(Vec<u8>, u64)>,
    /// The last of the peers that were told of this run without being near this key.
    pub last_peer_told: Option<PublicKey>,
    pub exchange: Exchange,
    /// The last of the peers that were asked without being named by a look-up: the next search begins after it.
    pub last_peer_asked: Option<PublicKey>,
    /// This node's placement as peers get it: each relation has its own.
    pub published: [PublishedPlacement; TrustRelation::ALL.len()],
    pub local: BTreeMap<AgentId, LocalAgent>,
    pub health: Health,
    pub sequence: u64,
    /// Names that agents of the owner or of a trusted publisher had: no stranger's agent takes them over.
    pub taken: BTreeMap<String, AgentId>,
    /// Addresses of the configuration that cannot be reached, and why.
    pub unreachable: BTreeMap<String, String>,
    pub fetching: BTreeMap<PublicKey, Arc<Semaphore>>,
    pub refused: u64,
}

/// Names that are kept in [`State::taken`].
const TAKEN_MAX: usize = 10_000;

impl State {
    /// The state of a node that hosts nothing and has heard nothing. `sequence` is the time of day, so that it also rises across
    /// restarts.
    pub fn new(local: PublicKey, config: &DiscoveryConfig, dialling: Dialling, sequence: u64) -> State {
        State {
            catalogue: Catalogue::new(config.bounds),
            in_use: InUse::default(),
            verification_budget: VerificationBudget::default(),
            things: Things::default(),
            contacts: Contacts::default(),
            dialling,
            known: KnownPeers::new(local),
            instances: Instances::default(),
            own_key: OwnKey::default(),
            statement: None,
            last_peer_told: None,
            exchange: Exchange::new(config.push_peers_max),
            last_peer_asked: None,
            published: Default::default(),
            local: BTreeMap::new(),
            health: Health::Healthy,
            sequence,
            taken: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            fetching: BTreeMap::new(),
            refused: 0,
        }
    }

    pub fn named(
        &mut self,
        name: &str,
        among: Among,
        relation: impl Fn(PublisherId) -> TrustRelation,
    ) -> Result<AgentId, FindError> {
        let found = query::resolve(self.catalogue.namesakes(name), name, among, &relation);
        if let Some(near) = self.taken.get(name)
            && found.as_ref().map_or(true, |id| relation(id.publisher()) == TrustRelation::Stranger)
            && relation(near.publisher()) != TrustRelation::Stranger
        {
            return Err(FindError::Gone { name: name.to_owned(), id: near.to_string() });
        }
        let id = found?;
        if relation(id.publisher()) != TrustRelation::Stranger && self.taken.len() < TAKEN_MAX {
            self.taken.insert(name.to_owned(), id.clone());
        }
        Ok(id)
    }
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the state panics")
    }

    pub fn now(&self) -> Now {
        let elapsed = self.started.elapsed().as_millis();
        Now { monotonic_ms: u64::try_from(elapsed).unwrap_or(u64::MAX), wall_ms: self.clock.now_ms() }
    }

    /// Tells the exchange of placements what happened.
    pub fn exchange(&self, input: ExchangeInput) -> Vec<ExchangeEffect> {
        let now_ms = self.now().monotonic_ms;
        self.lock().exchange.handle(now_ms, input)
    }
}

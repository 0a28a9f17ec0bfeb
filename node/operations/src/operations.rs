//! What is operated on a running node: attached to it while it is assembled, and run beside it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use althing_calls::Calls;
use althing_communication::{Entropy, Network};
use althing_coordination::{Groups, Worker};
use althing_execution::Host;
use althing_node::{GroupHook, Identity, MakeWorker, Node, NodeConfig, NodeError, Ports};
use althing_protocol::SecretKey;
use althing_store::Family;
use tokio::sync::watch;

use crate::collector::Collector;
use crate::config::OperationsConfig;
use crate::doctor::{Finding, HealthWords};
use crate::governance::{AuditWitnesses, DELIVERIES, Delivery, Messenger, WaitingQuestions};
use crate::group_agents::{PlacedAgents, Placements, placements};
use crate::group_orders::GroupOrders;
use crate::group_work::GroupWorker;
use crate::owner_files::OwnerFiles;
use crate::registries::{ORGANISATIONS, RECEIPTS, REGISTRIES, Registries, followed};
use crate::routing::{LearnedRoutes, ROUTES, VECTORS};
use crate::token_records::TokenRecords;
use crate::trials::JudgeAgreements;
use crate::updates::Updates;
use crate::uploads;

/// What is kept for operations.
const OWN: [Family; 6] = [REGISTRIES, ORGANISATIONS, RECEIPTS, ROUTES, VECTORS, DELIVERIES];
/// All that the store of a node with its operations keeps.
pub const FAMILIES: [Family; althing_node::FAMILIES.len() + OWN.len()] = {
    let of_node = althing_node::FAMILIES;
    let mut all = [REGISTRIES; althing_node::FAMILIES.len() + OWN.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < of_node.len() { of_node[at] } else { OWN[at - of_node.len()] };
        at += 1;
    }
    all
};

/// A running node with its operations. [`Operations::run`] runs both; what is asked of the node is asked of it.
pub struct Operations {
    /// What is operated on.
    pub node: Node,
    /// Tells people of what waits for them.
    pub delivery: Delivery,
    /// Those who sign its audit log.
    pub witnesses: AuditWitnesses,
    /// Puts changes of its gateway's tokens on record.
    pub token_records: TokenRecords,
    /// The registries that it follows.
    pub registries: Arc<Registries>,
    /// What it learned of whom sentences are for.
    pub routing: Arc<LearnedRoutes>,
    /// How the collector of its telemetry answers, where one is configured.
    pub collector: OnceLock<Arc<Collector>>,
    /// What `doctor` says of how its faces are configured, which this crate does not know.
    pub faces: OnceLock<Vec<Finding>>,
    /// How its layers are.
    pub health: HealthWords,
    /// How far the agents that judge answers agree with labelled cases.
    pub judges: JudgeAgreements,
    /// The files of its owner's keys, where the node runs by them.
    pub owner_files: OnceLock<Arc<OwnerFiles>>,
    /// The agents that groups place here.
    placements: watch::Receiver<Placements>,
    /// Whether each agent that was added before the node started has been started by now, or does not start.
    agents_known: watch::Sender<bool>,
}

impl Deref for Operations {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Operations {
    /// Assembles a node that does tasks of groups, lets its agents give groups tasks by `orders`, and follows registries.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn assemble(
        key: SecretKey,
        config: OperationsConfig,
        ports: Ports,
        orders: Arc<GroupOrders>,
    ) -> Result<Operations, NodeError> {
        // What cannot be read keeps the node from starting, before any agent runs.
        let followed = followed(ports.store.as_ref())?;
        let routing = Arc::new(LearnedRoutes::new(ports.store.clone(), &config));
        let (placing, placements) = placements();
        let (agents_known, knowing) = watch::channel(false);
        let hosts = (ports.execution.host.clone(), ports.network.clone());
        let make = make_worker(hosts, &config.node, (placing, knowing), orders, ports.entropy.clone());
        let node = Box::pin(Node::assemble(key, config.node, ports, Some(make))).await?;
        agents_known.send_replace(node.agents.starts.are_known());
        let registries = Arc::new(Registries::open(followed, &node, config.requirements));
        node.discovery.take_hints(registries.clone());
        uploads::sweep(&node);
        let (collector, faces, owner_files) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (delivery, witnesses) = (delivery(&node)?, AuditWitnesses::of(&node));
        let token_records = TokenRecords::of(node.config.data.as_deref());
        Ok(Operations {
            node,
            delivery,
            witnesses,
            token_records,
            registries,
            routing,
            collector,
            faces,
            health: HealthWords::default(),
            judges: JudgeAgreements::default(),
            owner_files,
            placements,
            agents_known,
        })
    }

    /// Runs the node, hosts what groups place here, hears of registries and tells them of this node, has its audit log
    /// signed, for as long as it runs.
    pub async fn run(&self) {
        let placed = PlacedAgents { agents: &self.agents, groups: &self.groups, store: self.store.as_ref() };
        let placed = Box::pin(placed.run(self.placements.clone()));
        let following = self.registries.following();
        let updates = Updates::of(&self.node, &self.registries);
        let releases = Box::pin(updates.run());
        let registries = async {
            let heard = following.follow(&self.agents);
            tokio::join!(heard, following.renew(), following.tell(&self.discovery), releases)
        };
        let registries = Box::pin(registries);
        let knowing = async {
            self.agents.starts.known().await;
            self.agents_known.send_replace(true);
        };
        let witnessed = Box::pin(self.witnesses.run());
        let delivered = Box::pin(self.delivery.run());
        let tokens = Box::pin(self.token_records.run(&self.governance));
        tokio::join!(Box::pin(self.node.run()), placed, registries, delivered, knowing, witnessed, tokens);
    }
}

/// Tells people of what waits for them.
fn delivery(node: &Node) -> Result<Delivery, NodeError> {
    let messenger = Messenger::new(node.config.data.as_deref(), node.calls.clone(), node.host.clone());
    let questions = Arc::new(WaitingQuestions(node.governance.clone()));
    Ok(Delivery::open(questions, messenger, node.store.clone(), node.clock().clone())?)
}

/// What makes the worker of groups, which says by `placing` what they place here, is told by `knowing` when the agents that were
/// added before are there, and lets agents give groups tasks by `orders`.
fn make_worker(
    (host, network): (Arc<Host>, Arc<dyn Network>),
    config: &NodeConfig,
    (placing, knowing): (watch::Sender<Placements>, watch::Receiver<bool>),
    orders: Arc<GroupOrders>,
    entropy: Entropy,
) -> MakeWorker {
    let (labels, data) = (config.labels.clone(), config.data.clone());
    Box::new(move |calls: &Calls, identity: &Arc<Identity>| {
        let worker = Arc::new(GroupWorker::new(calls, (host, network), identity, (labels, data), (placing, knowing)));
        let (routes, of) = (worker.clone(), identity.clone());
        let opened: GroupHook = Box::new(move |groups: &Groups| {
            orders.connect(groups, &of, entropy);
            routes.redirect_calls(groups);
            routes.tell_tenures(groups);
        });
        let worker: Arc<dyn Worker> = worker;
        (worker, opened)
    })
}

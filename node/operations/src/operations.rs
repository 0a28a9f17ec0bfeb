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
use crate::doctor::Finding;
use crate::group_agents::{GroupHosting, Placements, placements};
use crate::group_orders::GroupOrders;
use crate::group_work::GroupWorker;
use crate::owner_files::OwnerFiles;
use crate::registries::{ORGANISATIONS, RECEIPTS, REGISTRIES, Registries, followed};
use crate::routing::{ROUTES, Routing, VECTORS};
use crate::uploads;

/// All that the store of a node with its operations keeps.
pub const FAMILIES: [Family; 30] = {
    let [
        tasks,
        task_summaries,
        answers,
        remote_tasks,
        push_configs,
        push_outbox,
        session_heads,
        session_rows,
        handoffs_in,
        handoffs_out,
        agents,
        agreed,
        trusted,
        memory,
        bindings,
        heard_keys,
        groups,
        raft_log,
        raft_state,
        raft_snapshots,
        results,
        revoked,
        installed,
        workflows,
        known_peers,
    ] = althing_node::FAMILIES;
    [
        tasks,
        task_summaries,
        answers,
        remote_tasks,
        push_configs,
        push_outbox,
        session_heads,
        session_rows,
        handoffs_in,
        handoffs_out,
        agents,
        agreed,
        trusted,
        memory,
        bindings,
        heard_keys,
        groups,
        raft_log,
        raft_state,
        raft_snapshots,
        results,
        REGISTRIES,
        revoked,
        installed,
        workflows,
        ORGANISATIONS,
        RECEIPTS,
        ROUTES,
        VECTORS,
        known_peers,
    ]
};

/// A running node with its operations. [`Operations::run`] runs both; what is asked of the node is asked of it.
pub struct Operations {
    /// What is operated on.
    pub node: Node,
    /// The registries that it follows.
    pub registries: Arc<Registries>,
    /// What it learned of whom sentences are for.
    pub routing: Arc<Routing>,
    /// How the collector of its telemetry answers, where one is configured.
    pub collector: OnceLock<Arc<Collector>>,
    /// What `doctor` says of how its faces are configured, which this crate does not know.
    pub faces: OnceLock<Vec<Finding>>,
    /// The files of its owner's keys, where the node runs by them.
    pub owner_files: OnceLock<Arc<OwnerFiles>>,
    /// The agents that groups place here.
    placements: watch::Receiver<Placements>,
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
        let routing = Arc::new(Routing::new(ports.store.clone(), &config));
        let (placing, placements) = placements();
        let hosts = (ports.execution.host.clone(), ports.network.clone());
        let make = make_worker(hosts, &config.node, placing, orders, ports.entropy.clone());
        let node = Box::pin(Node::assemble(key, config.node, ports, Some(make))).await?;
        let registries = Arc::new(Registries::open(followed, &node, config.requirements));
        node.discovery.take_hints(registries.clone());
        uploads::sweep(&node);
        let (collector, faces, owner_files) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Operations { node, registries, routing, collector, faces, owner_files, placements })
    }

    /// Runs the node, hosts what groups place here, hears of registries and tells them of this node, for as long as it runs.
    pub async fn run(&self) {
        let hosting = GroupHosting { agents: &self.agents, groups: &self.groups, store: self.store.as_ref() };
        let hosting = Box::pin(hosting.run(self.placements.clone()));
        let following = self.registries.following();
        let registries =
            async { tokio::join!(following.follow(&self.agents), following.renew(), following.tell(&self.discovery)) };
        let registries = Box::pin(registries);
        tokio::join!(Box::pin(self.node.run()), hosting, registries);
    }
}

/// What makes the worker of groups, which says by `placing` what they place here, and lets agents give them tasks by `orders`.
fn make_worker(
    (host, network): (Arc<Host>, Arc<dyn Network>),
    config: &NodeConfig,
    placing: watch::Sender<Placements>,
    orders: Arc<GroupOrders>,
    entropy: Entropy,
) -> MakeWorker {
    let (labels, data) = (config.labels.clone(), config.data.clone());
    Box::new(move |calls: &Calls, identity: &Arc<Identity>| {
        let worker = Arc::new(GroupWorker::new(calls, (host, network), identity, (labels, data), placing));
        let (routes, of) = (worker.clone(), identity.clone());
        let opened: GroupHook = Box::new(move |groups: &Groups| {
            orders.connect(groups, &of, entropy);
            routes.redirect_calls(groups);
        });
        let worker: Arc<dyn Worker> = worker;
        (worker, opened)
    })
}

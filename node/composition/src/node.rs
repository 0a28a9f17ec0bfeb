//! A running node: what it renews, how it follows its owner's keys, how it stops.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_calls::spans::Traces;
use althing_calls::{
    ANSWERS, Calls, HANDOFFS_IN, HANDOFFS_OUT, Hosting, PUSH_CONFIGS, PUSH_OUTBOX, REMOTE_TASKS, SESSION_HEADS,
    SESSION_ROWS, TASK_SUMMARIES, TASKS,
};
use althing_communication::{Communication, Entropy, WallClock};
use althing_coordination::{GROUPS, Groups, RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE, RESULTS};
use althing_discovery::Discovery;
use althing_execution::Host;
use althing_execution::kernel::Kernel;
use althing_execution::memory::{MEMORY, Memories};
use althing_governance::{Governance, records};
use althing_protocol::{SecretKey, hex};
use althing_store::{Batch, Durability, Family, Store};
use tokio_util::sync::CancellationToken;

use crate::agent_standing;
use crate::agents::{self, Agents};
use crate::agreements::AGREED;
use crate::bindings::{BINDING_PROOFS, BINDINGS, Bindings};
use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::event_sources;
use crate::events::Events;
use crate::identity::Identity;
use crate::keys::{self, HEARD_KEYS};
use crate::known_peers::{self, KNOWN_PEERS};
use crate::lan::LanPresence;
use crate::orders::{FOLLOWED, ORDERS, Orders};
use crate::owner::{self, Owner};
use crate::publish::{self, AGENTS};
use crate::revocations::{INSTALLED, REVOKED, Revocations, WORKFLOWS};
use crate::rollouts::{self, ROLLOUT_CONVERSATIONS, ROLLOUTS, Rollouts};
use crate::trust::{TRUSTED, TrustedPeers};

/// What a node's store keeps, without what is kept for its operations.
pub const FAMILIES: [Family; OWN.len() + althing_governance::FAMILIES.len()] = {
    let mut all = [TASKS; OWN.len() + althing_governance::FAMILIES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < OWN.len() { OWN[at] } else { althing_governance::FAMILIES[at - OWN.len()] };
        at += 1;
    }
    all
};
/// What a node's store keeps of its own parts.
const OWN: [Family; 30] = [
    TASKS,
    TASK_SUMMARIES,
    ANSWERS,
    REMOTE_TASKS,
    PUSH_CONFIGS,
    PUSH_OUTBOX,
    SESSION_HEADS,
    SESSION_ROWS,
    HANDOFFS_IN,
    HANDOFFS_OUT,
    AGENTS,
    AGREED,
    TRUSTED,
    MEMORY,
    BINDINGS,
    BINDING_PROOFS,
    HEARD_KEYS,
    GROUPS,
    RAFT_LOG,
    RAFT_STATE,
    RAFT_SNAPSHOTS,
    RESULTS,
    REVOKED,
    INSTALLED,
    WORKFLOWS,
    KNOWN_PEERS,
    ORDERS,
    FOLLOWED,
    ROLLOUTS,
    ROLLOUT_CONVERSATIONS,
];
/// Grants and memberships are renewed at half of their life.
const RENEW: Duration = Duration::from_millis(publish::GRANT_MS / 2);
/// Between two checks whether they are due, and two attempts to start agents that failed.
const RENEW_CHECK: Duration = Duration::from_secs(10);
/// Between two sweeps of what agents keep.
const SWEEP: Duration = Duration::from_secs(60);
/// Before a change of the owner's keys that failed is applied again.
const RETRY: Duration = Duration::from_secs(1);
/// Between two looks at whether another node uses this node's key.
const TWIN_CHECK: Duration = Duration::from_secs(5);
/// How long the goodbye to peers may take when the node stops.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long calls that are under way when the node stops may take to end.
const DRAIN: Duration = Duration::from_secs(5);
/// How long their callers may take to be told that they do not.
const TOLD: Duration = Duration::from_secs(1);

/// A running node. [`Node::run`] renews what expires; nothing is renewed unless it runs.
pub struct Node {
    /// Its key.
    pub key: SecretKey,
    /// Its configuration.
    pub config: NodeConfig,
    /// L2.
    pub communication: Communication,
    /// L3.
    pub discovery: Discovery,
    /// L7.
    pub governance: Governance,
    /// The hosting side of calls.
    pub hosting: Hosting,
    /// The calling side.
    pub calls: Calls,
    /// What happens on it, as it happens.
    pub events: Events,
    /// Recent traces, of this node and of its owner's others.
    pub traces: Traces,
    /// L5.
    pub groups: Groups,
    /// L1.
    pub host: Arc<Host>,
    pub(crate) kernel: Option<Arc<Kernel>>,
    /// What agents keep.
    pub memories: Arc<Memories>,
    /// What the node keeps.
    pub store: Arc<dyn Store>,
    /// Its owner's keys and its membership.
    pub identity: Arc<Identity>,
    /// Its agents.
    pub agents: Agents,
    /// Those of which several versions divide the calls.
    pub rollouts: Arc<Rollouts>,
    /// What its agents are bound to.
    pub bindings: Arc<Bindings>,
    /// Releases that their publishers revoked, and what was installed.
    pub revocations: Arc<Revocations>,
    /// What owners ordered: which agents are stopped, and which policy set holds.
    pub orders: Arc<Orders>,
    /// Whom it trusts.
    pub trust: TrustedPeers,
    /// Its presence on the LAN.
    pub lan: LanPresence,
    /// Where its agents are called over HTTP.
    pub gateway: Option<String>,
    /// What the user should know about how the node started.
    pub notes: Vec<String>,
    /// Cancelled when the node stops; faces stop with it.
    pub stop: CancellationToken,
    pub(crate) clock: WallClock,
    pub(crate) entropy: Entropy,
}

impl Node {
    /// The network's name.
    #[must_use]
    pub fn network(&self) -> &str {
        self.identity.network()
    }

    /// The owner as it is now.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.identity.owner()
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

    /// This node's randomness.
    #[must_use]
    pub fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    /// Its time of day.
    #[must_use]
    pub fn clock(&self) -> &WallClock {
        &self.clock
    }

    /// How others can reach this node: `internet`, `relayed`, `hidden` (nobody can, and no relay was found yet), `nearby` (from
    /// its own network; nobody on the internet has tried), `blocked` (not even from there) or `unknown` (nobody has tried).
    #[must_use]
    pub fn reach(&self) -> &'static str {
        match &self.communication.reachability() {
            verdict if verdict.from_internet => "internet",
            verdict if verdict.hidden && !self.communication.network().relays().is_empty() => "relayed",
            verdict if verdict.hidden => "hidden",
            verdict if verdict.hidden_nearby => "blocked",
            verdict if !verdict.confirmed.is_empty() => "nearby",
            _ => "unknown",
        }
    }

    /// Renews grants and memberships, follows the owner's keys, ends what people did not answer and persists what is heard of
    /// keys, for as long as the node runs.
    pub async fn run(&self) {
        let persist_keys = keys::persist(self.store.as_ref(), self.communication.keys());
        let persist_peers = known_peers::persist(self.store.as_ref(), &self.discovery);
        let follow_twin = Box::pin(self.follow_twin());
        let keys = async { tokio::join!(self.follow_owner(), persist_keys, persist_peers, follow_twin) };
        let introducing = self.lan.announce_introductions(&self.discovery);
        let noting = Box::pin(event_sources::follow(&self.events, &self.identity, &self.groups));
        let tools = agents::follow_tools(&self.agents, self.config.adopted.check);
        let policies = agents::follow_policies(&self.agents);
        let orders = Box::pin(async { tokio::join!(self.orders.gossip(), self.follow_orders(), policies) });
        let governing = Box::pin(self.governance.run());
        let shadows = rollouts::follow_shadows(self);
        let models = Box::pin(rollouts::follow_models(self));
        let news = Box::pin(async { tokio::join!(rollouts::gossip(&self.rollouts), rollouts::follow_news(self)) });
        let rollouts = Box::pin(async { tokio::join!(rollouts::follow(self), shadows, models, news) });
        let agents = async { tokio::join!(self.renew_when_due(), tools, orders, governing, rollouts) };
        tokio::join!(agents, self.sweep_memory(), keys, introducing, noting);
    }

    /// Ends the agents that their owner stopped, as that is ordered.
    async fn follow_orders(&self) {
        let mut changes = self.orders.changes();
        loop {
            agent_standing::end_revoked(&self.agents).await;
            if changes.changed().await.is_err() {
                break;
            }
        }
        // Nothing can be ordered any more.
        std::future::pending().await
    }

    /// Deletes what agents kept and has passed its retention.
    async fn sweep_memory(&self) {
        loop {
            match self.memories.sweep().await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "memory past its retention was deleted"),
                Err(error) => tracing::error!(%error, "memory past its retention could not be deleted"),
            }
            tokio::time::sleep(SWEEP).await;
        }
    }

    /// Renews grants and the membership, and starts agents that failed to start.
    async fn renew_when_due(&self) {
        let renew_ms = u64::try_from(RENEW.as_millis()).unwrap_or(u64::MAX);
        let mut renewed_ms = self.clock.now_ms();
        // Agents that wait for the machine to be probed are started as soon as it is.
        self.agents.probed().await;
        loop {
            if let Err(error) = agent_standing::retry_failed(&self.agents).await {
                tracing::error!(%error, "agents that failed could not be started again");
            }
            // Measured by the time of day, which goes on while a machine sleeps.
            let now_ms = self.clock.now_ms();
            if now_ms.abs_diff(renewed_ms) >= renew_ms {
                // A failure is tried again at the next check.
                match self.renew(now_ms) {
                    Ok(()) => renewed_ms = now_ms,
                    Err(error) => tracing::error!(%error, "not all grants could be renewed"),
                }
            }
            tokio::time::sleep(RENEW_CHECK).await;
        }
    }

    /// Renews the membership, and the grants of the agents that run.
    fn renew(&self, now_ms: u64) -> Result<(), NodeError> {
        let owner = self.owner();
        if owner.log.revoked() || !self.show_membership(&owner, now_ms)? {
            return Ok(());
        }
        agents::renew_grants(&self.agents)
    }

    /// Shows a fresh membership from now on; false where the owner lets this node have none.
    fn show_membership(&self, owner: &Owner, now_ms: u64) -> Result<bool, NodeError> {
        let is_member = self.identity.renew_membership(owner, now_ms)?;
        if !is_member {
            tracing::error!(reason = %NodeError::NodeWithdrawn, "nothing is signed for this node");
        }
        Ok(is_member)
    }

    /// Applies changes of the owner's keys for as long as the node runs.
    pub(crate) async fn follow_owner(&self) {
        let mut owners = self.identity.owner_changes();
        while owners.changed().await.is_ok() {
            let owner = owners.borrow_and_update().clone();
            if let Err(error) = self.owner_changed(owner).await {
                tracing::error!(%error, "not all agents follow the owner's new key; it is tried again");
                tokio::time::sleep(RETRY).await;
                owners.mark_changed();
            }
        }
        // The owner's keys can no longer change.
        std::future::pending().await
    }

    /// When another node used this node's key and does so no more, signs anew what both had signed: peers take no description
    /// that is older than what the other one showed.
    async fn follow_twin(&self) {
        let mut had_twin = false;
        loop {
            tokio::time::sleep(TWIN_CHECK).await;
            let has_twin = self.discovery.twin().is_some();
            if had_twin && !has_twin {
                tracing::info!("no other node is heard that uses this key; the agents are signed anew");
                if let Err(error) = agents::show_anew(&self.agents, &self.owner(), self.clock.now_ms()).await {
                    tracing::error!(%error, "not all agents could be signed anew");
                }
            }
            had_twin = has_twin;
        }
    }

    /// Records what the owner changed since the node recorded it last: profiles of tools in its configuration, and keys.
    ///
    /// # Errors
    /// [`NodeError::Unrecorded`].
    pub(crate) async fn record_settings(&self) -> Result<(), NodeError> {
        let ports = &self.host.ports;
        let profiles = match ports.effects.is_empty() && ports.profiles.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&(&ports.effects, &ports.profiles))?,
        };
        records::setting(&self.governance, "profiles", "", &profiles).await?;
        let keys = keys_of(&self.owner());
        Ok(records::setting(&self.governance, "keys", &keys, &keys).await?)
    }

    async fn owner_changed(&self, owner: Owner) -> Result<(), NodeError> {
        let now_ms = self.clock.now_ms();
        let now = keys_of(&owner);
        // What the owner did holds, whether it can be recorded or not: it is recorded when the node starts again.
        if let Err(error) = records::setting(&self.governance, "keys", &now, &now).await {
            tracing::error!(%error, "a change of the owner's keys is not on record");
        }
        let revoked = owner.log.revoked();
        keys::apply_owner_keys(self.communication.keys(), &owner, now_ms);
        if revoked {
            tracing::error!(owner = %owner.id(), "the owner revoked its keys; its agents end");
            self.identity.drop_membership();
            return agent_standing::end_all(&self.agents, &self.host, "the owner revoked its keys").await;
        }
        tracing::info!(owner = %owner.id(), key = %owner.key.public(), "the owner's keys have changed");
        // At once: whoever has heard of the new keys refuses this node's calls until it shows what they signed.
        let is_member = self.show_membership(&owner, now_ms)?;
        // Every one is tried, whatever becomes of the others.
        let signed = agents::sign_anew(&self.agents, &owner, now_ms).await;
        let signed = signed.and(self.orders.sign_anew(&owner).await);
        if is_member {
            agents::renew_grants(&self.agents)?;
        }
        signed
    }

    /// Leaves the mesh: says goodbye to peers, lets calls end, stops agents.
    pub async fn shut_down(&self) {
        self.shut_down_at_once_on(std::future::pending()).await;
    }

    /// The same; once `hurry` is done, calls are not waited for any longer.
    pub async fn shut_down_at_once_on(&self, hurry: impl Future<Output = ()>) {
        self.stop.cancel();
        let goodbye = async {
            self.discovery.leave().await;
            self.lan.leave().await;
        };
        // A peer that does not read the goodbye notices by itself.
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        // Calls that are under way may end; new ones find nobody.
        tokio::select! {
            biased;
            _ = tokio::time::timeout(DRAIN, self.drained()) => {}
            () = hurry => {}
        }
        // Their callers hear it from the node, and not from a program that breaks off.
        self.hosting.end_turns();
        let _ = tokio::time::timeout(TOLD, self.drained()).await;
        self.host.stop_all().await;
        self.agents.records().end_all().await;
        self.groups.shut_down().await;
        if let Err(error) = known_peers::write_changed(self.store.as_ref(), &self.discovery).await {
            tracing::warn!(%error, "the newest of the peers that are worth remembering were not stored");
        }
        self.governance.shut_down().await;
        // An empty synced batch: all that was written is on disk.
        if let Err(error) = self.store.write(Batch::new(), Durability::Synced).await {
            tracing::error!(%error, "the store could not be flushed");
        }
    }

    /// Waits until no turn runs.
    async fn drained(&self) {
        while self.hosting.live_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The keys of an owner, as they are recorded: the key of now, and the head of the log of all changes.
fn keys_of(owner: &Owner) -> String {
    format!("{} {}", owner::key_name(owner.key.public()), hex(&owner.log.head()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use althing_calls::{Asker, CallRequest, Callee, Operation, OperationRequest, Principal, Purpose, Refusal};
    use serde_json::json;

    use super::*;
    use crate::agents::tests::{program, started};

    #[tokio::test(flavor = "multi_thread")]
    async fn callers_whose_turns_end_with_the_node_are_told_so_and_may_try_again() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let id = node.agents.add(program("slow", false), folder.path(), None, false).await.expect("it is added");
        let (node, parts) = (Arc::new(node), json!([{ "text": "What is the weather?" }]));
        let params = json!({ "message": { "messageId": "one", "role": "ROLE_USER", "parts": parts } });
        let request = OperationRequest::parse(Operation::SendMessage, params.to_string().into_bytes());
        let target = node.calls.target(&Asker::Owner, &Callee::Id(id), Purpose::Call).await.expect("its owner's");
        let request = CallRequest::new(target, request.expect("a message"), vec![Principal::Local]);
        let calling = node.clone();
        let asking = tokio::spawn(async move { calling.calls.ask(request).await.err() });
        while node.hosting.running_turns().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(node.hosting.running_turns(), BTreeMap::from([("slow".to_owned(), 1)]));
        node.shut_down_at_once_on(std::future::ready(())).await;
        let refused = asking.await.expect("no panic").expect("it is refused");
        assert_eq!(refused.refusal, Refusal::Overloaded, "{refused}");
        assert!(refused.message.starts_with("its node is being stopped"), "{refused}");
        assert_eq!(node.hosting.running_turns(), BTreeMap::new());
    }
}

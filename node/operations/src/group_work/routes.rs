//! Calls of agents that stand for groups: a member that cannot do what is asked names another one that can. The choice is made
//! by [`althing_coordination::machine::route`].

use std::sync::{Arc, Weak};

use althing_calls::{Elsewhere, Redirect};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::route::{Candidate, route};
use althing_coordination::{Groups, WeakGroups, lacks_majority};
use althing_discovery::Found;
use althing_protocol::group::{Author, Charter, Rule, Target};
use althing_protocol::{AgentId, CallerId, PublicKey};

use super::{GroupWorker, wanted};

/// Names the members that serve calls. Weak, since groups and their worker hold what calls it.
struct Routes {
    worker: Weak<GroupWorker>,
    groups: WeakGroups,
}

impl GroupWorker {
    /// From now on calls that another member serves are redirected to it.
    pub(crate) fn redirect_calls(self: &Arc<GroupWorker>, groups: &Groups) {
        let routes = Routes { worker: Arc::downgrade(self), groups: WeakGroups::of(groups) };
        self.calls.redirect_by(Arc::new(routes));
    }

    /// The nodes, as far as they are known, that have an agent which can do what `agent` is told.
    fn able(&self, agent: &AgentId, target: &Target) -> Vec<Candidate> {
        let (capability, name) = wanted(target);
        let hosts = self.calls.discovery().hosts(agent);
        let is_meant = |found: &Found| name.is_none_or(|name| name == found.candidate.verified.agent.name());
        let candidate = |found: Found| Candidate {
            node: found.node,
            hosts_agent: hosts.contains(&found.node),
            is_connected: self.network.is_connected(found.node),
            load_permille: found.load_permille,
        };
        self.known(capability).into_iter().filter(is_meant).map(candidate).collect()
    }
}

impl Elsewhere for Routes {
    fn served_by(&self, agent: &AgentId) -> Option<Redirect> {
        let worker = self.worker.upgrade()?;
        // Nearly no agent stands for a group.
        let running = worker.host.agent(agent.name())?;
        let served = running.serves_group()?;
        let groups = self.groups.upgrade()?;
        let (group, here) = (groups.resolve(&served.group).ok()?, worker.here);
        // As a task of the group it would be done in the name of the owner, by an agent that answers it.
        let asker = groups.look(group, |state| on_whose_behalf(state, here)).ok()??;
        // Nothing is decided of what nobody gives this node: who is refused here then is told so.
        if worker.offers(&served.target, asker) {
            return None;
        }
        let able = worker.able(agent, &served.target);
        let member = groups.look(group, |state| route(here, state.members(), &able)).ok()??;
        let fence = groups.overview(group).ok()?.replica?.applied?;
        Some(Redirect { member, fence })
    }

    fn refused(&self, agent: &AgentId) -> Option<String> {
        let running = self.worker.upgrade()?.host.agent(agent.name())?;
        let groups = self.groups.upgrade()?;
        let group = groups.resolve(&running.serves_group()?.group).ok()?;
        lacks_majority(&groups, group).map(|error| error.to_string())
    }
}

/// In whose name the tasks of a member are done: its owner submits them where only owners may.
fn on_whose_behalf(state: &Group, node: PublicKey) -> Option<CallerId> {
    let owner = state.members().get(&node)?.owner;
    let as_owner = |charter: &Charter| charter.policy.assigners() == Rule::Owners && charter.owners.contains(&owner);
    let is_owner = state.charter().is_some_and(as_owner);
    Some(state.on_behalf_of(if is_owner { Author::Publisher(owner) } else { Author::Node(node) }))
}

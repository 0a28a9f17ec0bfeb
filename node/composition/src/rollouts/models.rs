//! Rollouts that begin by themselves: of an agent with `binding: smooth`, in a higher version of its model.
//!
//! Models come with the node's configuration, which is read when it starts, so that there is nothing to begin but what is then.

use std::collections::BTreeSet;
use std::time::Duration;

use super::orders::begin_with_model;
use crate::error::NodeError;
use crate::node::Node;
use crate::publish;
use crate::smooth;

/// Between two tries.
const LOOK: Duration = Duration::from_secs(60);

/// What is to become of an agent in whose range there is a higher version of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// It is tried again.
    Longer,
    /// There is nothing to begin any more.
    Over,
}

/// Begins the rollouts of agents for whose models there are higher versions since the node started.
pub(crate) async fn follow_models(node: &Node) {
    // Beside a version that does not run yet, no other one is tried.
    node.agents.starts.known().await;
    let mut waiting: BTreeSet<String> = match publish::permanent(node.store.as_ref()) {
        Ok(all) => {
            let newer = all.into_iter().filter(|added| smooth::newer(&node.host, added).is_some());
            newer.map(|added| added.file.name).collect()
        }
        Err(error) => return tracing::error!(%error, "no higher versions of models are tried: agents cannot be read"),
    };
    while !waiting.is_empty() {
        for name in std::mem::take(&mut waiting) {
            match Box::pin(attempt(node, &name)).await {
                Wait::Longer => {
                    waiting.insert(name);
                }
                Wait::Over => node.rollouts.held().release(&name),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Begins the rollout of one of them, if nothing keeps it from that now.
async fn attempt(node: &Node, name: &str) -> Wait {
    // One that is under way goes first, and it may be this very one; and there must be a version that everybody has.
    if node.rollouts.versions(name).is_some() || node.agents.starts.failed().contains_key(name) {
        node.rollouts.held().release(name);
        return Wait::Longer;
    }
    match begin_with_model(node, name).await {
        Ok(is_begun) => {
            if is_begun {
                tracing::info!(agent = name, "a rollout of a higher version of its model was begun");
            }
            Wait::Over
        }
        Err(NodeError::NoAgent(_)) => Wait::Over,
        Err(error) => {
            let why = error.to_string();
            if node.rollouts.held().hold(name, &why) {
                tracing::warn!(agent = name, why, "a higher version of its model is not tried yet; it is tried again");
            }
            Wait::Longer
        }
    }
}

//! What a node tells the owner's other nodes of rollouts, and what it does with what they tell.

use std::collections::BTreeSet;

use althing_protocol::{Digest, PublicKey};
use althing_store::Durability;
use althing_verification::machine::rollout::{Change, RolloutNews, RolloutWord, Versions};

use super::divided::AgentRollout;
use super::node_rollouts::Rollouts;
use super::open_decision::OpenDecision;
use super::orders::digest_of;
use super::records::Turnover;
use super::rows;
use crate::error::NodeError;
use crate::node::Node;
use crate::publish;

/// All that others are told.
pub(super) fn all_news(rollouts: &Rollouts) -> Result<Vec<RolloutNews>, NodeError> {
    let names = rows::names(rollouts.store())?.into_iter().collect();
    Ok(news_of(rollouts, &names))
}

/// What others are told of agents of these names. Of one that cannot be read, nothing.
pub(super) fn news_of(rollouts: &Rollouts, names: &BTreeSet<String>) -> Vec<RolloutNews> {
    let mut news = Vec::new();
    for name in names {
        // What holds is in memory, where anything of it is: a promotion is on disk before it holds.
        if let Some(divided) = rollouts.named(name) {
            news.extend(divided.versions().news(name));
            continue;
        }
        match rows::decided(rollouts.store(), name) {
            // Of these only one version is here, by whatever that came: no promotion of it is undone any more.
            Ok(versions) => {
                let all = versions.into_iter().flat_map(|versions| versions.news(name));
                news.extend(all.filter(|one| one.word == RolloutWord::Back));
            }
            Err(error) => tracing::error!(agent = name, %error, "other nodes are not told what was decided of it"),
        }
    }
    news
}

/// Hears what another node of the owner tells. Of agents whose calls are not divided here, it is remembered later.
pub(super) async fn hear(rollouts: &Rollouts, from: PublicKey, news: Vec<RolloutNews>) {
    for one in &news {
        match rollouts.named(&one.agent) {
            Some(divided) => decide(rollouts, &divided, from, (one, &news)).await,
            None if says_nothing(rollouts, one) => {}
            None => rollouts.news().put_off(from, one.clone()),
        }
    }
}

/// Whether nothing is to be remembered of news of an agent whose calls are not divided here: it is on disk that the version went back,
/// or there is no such agent.
fn says_nothing(rollouts: &Rollouts, news: &RolloutNews) -> bool {
    if news.word != RolloutWord::Back {
        return true;
    }
    match rows::decided(rollouts.store(), &news.agent) {
        Ok(Some(versions)) => versions.reversals().contains_key(&news.version),
        Ok(None) => !matches!(publish::named(rollouts.store(), &news.agent), Ok(Some(_))),
        Err(_) => true,
    }
}

/// Does what follows of news for an agent whose calls are divided here, and puts on record why; `beside` is what was told with it.
async fn decide(
    rollouts: &Rollouts,
    divided: &AgentRollout,
    from: PublicKey,
    (news, beside): (&RolloutNews, &[RolloutNews]),
) {
    let _deciding = divided.deciding.lock().await;
    if !rollouts.is_current(divided) {
        return rollouts.news().put_off(from, news.clone());
    }
    let mut versions = divided.versions();
    let before = versions.stable();
    let Some(mut change) = versions.hear(news, beside, from, rollouts.now_ms()) else { return };
    if versions.stable() != before && divided.name_of(versions.stable()).is_none() {
        // The clock was set back, and the version that would be stable again is not here any more.
        versions = divided.versions();
        if !versions.remember_back(news, from, rollouts.now_ms()) {
            return;
        }
        change = Change::Evidence;
    }
    // A version that is worse gets no more calls, whatever the disk does.
    let holds_anyway = matches!(change, Change::WentBack(_));
    if holds_anyway {
        divided.set(versions.clone());
    }
    let decision = decision((before, versions.stable()), news, change);
    if let Err(error) = write(rollouts, divided, &versions, decision.as_ref()).await {
        tracing::error!(agent = divided.name, %error, "what another node told of a rollout is not on disk");
        if !holds_anyway {
            return;
        }
        divided.note_unwritten(decision);
    } else {
        versions.settle();
        divided.set(versions);
    }
    tell(divided, news, from, change);
    rollouts.announce(&divided.name);
}

/// What is recorded of it; nothing where a version is only known to have gone back.
fn decision((before, to): (Digest, Digest), news: &RolloutNews, change: Change) -> Option<OpenDecision> {
    match change {
        Change::WentBack(reason) => {
            Some(OpenDecision { what: "going back", from: news.version, to, why: reason.words() })
        }
        Change::Promoted => {
            let why = "it was promoted on another node of its owner".to_owned();
            Some(OpenDecision { what: "promoting", from: before, to, why })
        }
        Change::Share(_) | Change::Evidence => None,
    }
}

async fn write(
    rollouts: &Rollouts,
    divided: &AgentRollout,
    versions: &Versions,
    decision: Option<&OpenDecision>,
) -> Result<(), NodeError> {
    let mut batch = rows::decision(rollouts.store(), &divided.name, versions)?;
    if let Some(OpenDecision { what, from, to, why }) = decision {
        let turnover = Turnover { divided, what, from: *from, to: *to, why };
        batch.append(rollouts.records().rows_in_any_case(&turnover));
    }
    Ok(rollouts.store().write(batch, Durability::Synced).await?)
}

/// Tells the log what was decided.
fn tell(divided: &AgentRollout, news: &RolloutNews, from: PublicKey, change: Change) {
    let (agent, name) = (&divided.name, divided.name_of(news.version));
    let version = name.as_deref().unwrap_or_default();
    match change {
        Change::WentBack(_) => tracing::warn!(agent, version, node = %from, "a version went back, as on another node"),
        Change::Promoted => tracing::info!(agent, version, node = %from, "a new version is stable, as on another node"),
        Change::Share(_) | Change::Evidence => {}
    }
}

/// Remembers what is heard of agents whose calls are not divided here, for as long as the node runs: what went back elsewhere is not
/// tried here.
pub(crate) async fn follow_news(node: &Node) {
    loop {
        let (from, news) = node.rollouts.news().next_waiting().await;
        // Nobody begins a rollout of it meanwhile.
        let _changing = node.agents.names.hold().await;
        match node.rollouts.named(&news.agent) {
            Some(divided) => decide(&node.rollouts, &divided, from, (&news, &[])).await,
            None => {
                if let Err(error) = remember(node, from, &news).await {
                    tracing::warn!(agent = news.agent, %error, "it is not remembered that a version went back elsewhere");
                }
            }
        }
    }
}

async fn remember(node: &Node, from: PublicKey, news: &RolloutNews) -> Result<(), NodeError> {
    let store = node.store.as_ref();
    let Some(stored) = publish::named(store, &news.agent)? else { return Ok(()) };
    let mut versions = match rows::decided(store, &news.agent)? {
        Some(versions) => versions,
        None => Versions::new(digest_of(node, &stored).await?),
    };
    if news.word == RolloutWord::Back && versions.remember_back(news, from, node.clock().now_ms()) {
        node.store.write(rows::change(&news.agent, &versions), Durability::Synced).await?;
        node.rollouts.news().tell(&news.agent);
    }
    Ok(())
}

//! What an owner orders of rollouts, and what follows of what was decided: which versions run, and which one peers are shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use althing_execution::definition::Pins;
use althing_execution::{AgentState, Host, StartError, answered};
use althing_protocol::contract::Class;
use althing_protocol::{AgentRef, Digest};
use althing_store::{Batch, Durability};
use althing_td::{AgentFile, RightsChanges};
use althing_verification::machine::rollout::{OrderError, Plan, Unit, Versions};
use tokio::time::timeout;

use super::divided::AgentRollout;
use super::error::RolloutError;
use super::node_rollouts::Rollouts;
use super::{rows, version};
use crate::admission::admit_replaced;
use crate::agents::{self, Agents};
use crate::agreements::Agreements;
use crate::blocking::run_blocking;
use crate::error::NodeError;
use crate::node::Node;
use crate::publish::{self, Stay, StoredAgent};

/// How long it is waited for the program of a new version.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Between two looks at versions that are needed no more, and at those that do not run.
const LOOK: Duration = Duration::from_secs(10);

/// What is given to a version as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutUnit {
    /// A conversation.
    Call,
    /// All conversations of a caller.
    Caller,
}

/// How a new version gets calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPlan {
    /// Its shares one after the other, percent: rising, the last one 100.
    pub steps: Vec<u8>,
    /// Of what these are shares.
    pub by: RolloutUnit,
    /// Whether it is given copies of all calls first, without effects and told to nobody.
    pub shadow: bool,
    /// Whether both versions are given labelled cases, which are counted with the calls.
    pub has_cases: bool,
}

/// What a file that is to be a new version of an agent changes of what was agreed to for that name, or for that file.
///
/// # Errors
/// [`NodeError::NoAgent`], [`NodeError::OfGroup`], those of the contract, and those of the store.
pub fn changes(node: &Node, agent: &str, file: &AgentFile, sources: &[PathBuf]) -> Result<RightsChanges, NodeError> {
    agents::stored(node.store.as_ref(), agent)?;
    let file = node.agents.normal(file.clone())?;
    Agreements(node.store.as_ref()).changes(&file, sources.first())
}

/// Begins a rollout: the agent of this file runs beside the one of that name, and gets a share of its calls. Where it may do more
/// than was agreed to, `agreed` is the digest of what was shown.
///
/// # Errors
/// [`RolloutError`], [`NodeError::Forbidden`], [`NodeError::Wider`]; see [`NodeError`].
pub async fn begin(
    node: &Node,
    agent: &str,
    file: AgentFile,
    (folder, sources): (&Path, &[PathBuf]),
    plan: RolloutPlan,
    agreed: Option<&str>,
) -> Result<(), NodeError> {
    node.identity.check_authority()?;
    node.agents.probed().await;
    let _changing = node.agents.names.hold().await;
    let before = agents::stored(node.store.as_ref(), agent)?;
    let mut added = node.agents.signed(file, folder, Stay::UntilRemoved)?;
    added.sources = sources.to_vec();
    check(node, &before, &added)?;
    let id = publish::agent_id(&node.owner(), &added.file)?;
    admit_replaced((&node.governance, node.revocations.as_ref()), (&id, &added.file), &before.file).await?;
    let rights = Agreements(node.store.as_ref()).changes(&added.file, sources.first())?;
    if rights.wider && agreed != Some(rights.digest.as_str()) {
        return Err(NodeError::Wider(agent.to_owned()));
    }
    let (from, to) = (digest_of(node, &before).await?, digest_of(node, &added).await?);
    let (mut versions, mut names) = known(node, agent, from)?;
    let by = match plan.by {
        RolloutUnit::Call => Unit::Call,
        RolloutUnit::Caller => Unit::Caller,
    };
    let (has_shadow, has_cases, first_token_ms) = (plan.shadow, plan.has_cases, first_token_ms(&before.file));
    let plan = Plan { steps: plan.steps, by, shadow: has_shadow, first_token_ms, ..Plan::of(to) };
    versions.begin(plan, node.clock.now_ms()).map_err(RolloutError::from)?;
    names.insert(from, before.file.version.as_str().into());
    names.insert(to, added.file.version.as_str().into());
    let all: Vec<PathBuf> = node.rollouts.sources(&before).into_iter().chain(sources.iter().cloned()).collect();
    node.host.process.agent_files.set(agent, &all);
    let reference = publish::agent_ref(&node.owner(), &added.file)?;
    added.pins = run_beside(node, &reference, &added).await?;
    let stable = has_cases.then_some(before.file.version.as_str());
    let rehearsed = stable.into_iter().chain((has_shadow || has_cases).then_some(&*reference.version));
    let open = rehearsed.map(|version| node.hosting.own_tasks().rehearsal(agent, Some(version))).find_map(Result::err);
    if let Some(error) = open {
        node.agents.stop_version(&reference).await;
        return Err(RolloutError::NoShadow { agent: agent.to_owned(), why: error.to_string() }.into());
    }
    let mut batch = rows::change(agent, &versions);
    let written = match rows::put_other(&mut batch, to, &added) {
        Ok(()) => node.store.write(batch, Durability::Synced).await.map_err(NodeError::from),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        node.agents.stop_version(&reference).await;
        return Err(error);
    }
    node.rollouts.insert(reference.id, AgentRollout::new(agent, versions, names));
    Ok(())
}

/// Refuses files that cannot be two versions of one agent.
fn check(node: &Node, before: &StoredAgent, added: &StoredAgent) -> Result<(), NodeError> {
    let (agent, file) = (&before.file.name, &added.file);
    if file.name != *agent {
        return Err(RolloutError::OtherName { agent: agent.clone(), file: file.name.clone() }.into());
    }
    let is_hard =
        |file: &AgentFile| file.contract.as_ref().is_some_and(|contract| matches!(contract.class, Class::Hrt(_)));
    if is_hard(&before.file) || is_hard(file) {
        return Err(RolloutError::HardRealTime(agent.clone()).into());
    }
    let is_here = |version: &str| version == file.version;
    let others = rows::others(node.store.as_ref(), agent)?;
    let mut kept = others.values().map(|other| other.file.version.as_str()).chain([before.file.version.as_str()]);
    let running = node.host.versions(agent);
    if kept.any(is_here) || running.iter().any(|running| is_here(&running.version)) {
        return Err(RolloutError::SameVersion { agent: agent.clone(), version: file.version.clone() }.into());
    }
    Ok(())
}

async fn digest_of(node: &Node, added: &StoredAgent) -> Result<Digest, NodeError> {
    let (file, folder) = (added.file.clone(), added.folder.clone());
    Ok(run_blocking(node.kernel.as_ref(), move || version::digest_of(&file, &folder)).await??)
}

/// What was decided of the versions of an agent whose stable one is this, and which of them are here.
fn known(node: &Node, agent: &str, stable: Digest) -> Result<(Versions, BTreeMap<Digest, Arc<str>>), NodeError> {
    let versions = match node.rollouts.named(agent) {
        Some(divided) => Some(divided.versions()),
        None => rows::decided(node.store.as_ref(), agent)?,
    };
    let versions = match versions {
        Some(versions) if versions.stable() == stable => versions,
        Some(versions) => {
            let is_running = node.rollouts.named(agent).is_some_and(|divided| divided.is_running());
            if is_running {
                return Err(RolloutError::from(OrderError::UnderWay).into());
            }
            versions.succeeded_by(stable)
        }
        None => Versions::new(stable),
    };
    let others = rows::others(node.store.as_ref(), agent)?;
    let names = others.into_iter().map(|(digest, other)| (digest, Arc::from(other.file.version.as_str())));
    Ok((versions, names.collect()))
}

/// When a first output is late, milliseconds, by the contract of the version that everybody has.
fn first_token_ms(file: &AgentFile) -> Option<u64> {
    match file.contract.as_ref().map(|contract| &contract.class) {
        Some(Class::Srt(srt)) => Some(srt.ttft_ms),
        _ => None,
    }
}

/// Starts a version beside the others, and waits for its program. Gives the tools that it is bound to.
async fn run_beside(node: &Node, agent: &AgentRef, added: &StoredAgent) -> Result<Option<Pins>, NodeError> {
    let started = match node.agents.start_version(added, None).await {
        Ok(_) => {
            answered(&node.host, agent, ANSWER_MAX).await;
            ended(&node.host, agent)
                .map_or(Ok(()), |why| Err(RolloutError::Ended { agent: agent.name().to_owned(), why }.into()))
        }
        Err(error) => Err(error),
    };
    if let Err(error) = started {
        node.agents.stop_version(agent).await;
        return Err(error);
    }
    Ok(node.host.tools(agent).and_then(|tools| tools.pins()))
}

/// Why the program of a version ended, if it did.
fn ended(host: &Host, agent: &AgentRef) -> Option<String> {
    let mut all = host.status().into_iter();
    let status = all.find(|status| status.name == agent.name() && status.version == agent.version)?;
    match status.state {
        AgentState::Restarting { why, .. } => Some(why),
        _ => None,
    }
}

/// Lets the new version have all calls: its file is the agent's from then on.
///
/// # Errors
/// [`RolloutError::Unknown`], [`OrderError::NotUnderWay`], and those of the store.
pub async fn promote(node: &Node, agent: &str) -> Result<(), NodeError> {
    let _changing = node.agents.names.hold().await;
    let divided = under_way(node, agent)?;
    {
        let _deciding = divided.deciding.lock().await;
        let mut versions = divided.versions();
        versions.promote(node.clock.now_ms()).map_err(RolloutError::from)?;
        let batch = rows::promotion(node.store.as_ref(), agent, &versions)?;
        node.store.write(batch, Durability::Synced).await?;
        divided.set(versions);
    }
    settle(node, &divided, false).await
}

/// Ends a rollout: the version that everybody had before has all new calls.
///
/// # Errors
/// As [`promote`].
pub async fn abort(node: &Node, agent: &str) -> Result<(), NodeError> {
    let _changing = node.agents.names.hold().await;
    let divided = under_way(node, agent)?;
    let _deciding = divided.deciding.lock().await;
    let mut versions = divided.versions();
    versions.abort().map_err(RolloutError::from)?;
    node.store.write(rows::change(agent, &versions), Durability::Synced).await?;
    divided.set(versions);
    Ok(())
}

fn under_way(node: &Node, agent: &str) -> Result<Arc<AgentRollout>, NodeError> {
    if let Some(divided) = node.rollouts.named(agent) {
        return Ok(divided);
    }
    agents::stored(node.store.as_ref(), agent)?;
    Err(match rows::decided(node.store.as_ref(), agent)? {
        Some(_) => RolloutError::from(OrderError::NotUnderWay).into(),
        None => RolloutError::Unknown(agent.to_owned()).into(),
    })
}

/// Does what follows of what was decided, for as long as the node runs.
pub(crate) async fn follow(node: &Node) {
    loop {
        // Whoever was routed to a version just before it went back has begun by the next look.
        let is_look = timeout(LOOK, node.rollouts.decided()).await.is_err();
        for divided in node.rollouts.all() {
            let _changing = node.agents.names.hold().await;
            if !node.rollouts.is_current(&divided) {
                continue;
            }
            if let Err(error) = settle(node, &divided, is_look).await {
                tracing::error!(agent = divided.name, %error, "what was decided of its versions is not done yet");
            }
        }
    }
}

/// Lets the stable version be the one that peers see, and starts and stops the others. Called while nobody else changes agents.
async fn settle(node: &Node, divided: &AgentRollout, retires: bool) -> Result<(), NodeError> {
    if let Some(version) = divided.name_of(divided.versions().stable()) {
        let stable = AgentRef::new(node.owner().id(), &divided.name, &version)?;
        let running = node.host.versions(&divided.name);
        if running.first() != Some(&stable) && running.contains(&stable) {
            node.host.prefer(&stable);
            node.hosting.prefer(&stable);
            show(node, &divided.name).await?;
        }
    }
    if retires {
        start_others(&node.agents, &node.rollouts, &divided.name).await;
        retire(node, divided).await?;
    }
    Ok(())
}

/// Signs the description of a version that took the place of another one, and shows it to peers: they take none that is older
/// than what they know.
async fn show(node: &Node, agent: &str) -> Result<(), NodeError> {
    let stored = agents::stored(node.store.as_ref(), agent)?;
    let anew = stored.signed_anew(&node.owner(), node.network(), node.clock.now_ms())?;
    publish::write(node.store.as_ref(), &anew).await?;
    node.agents.show(&anew)
}

/// Starts the versions of an agent that should run beside the stable one, and do not.
pub(crate) async fn start_others(agents: &Agents, rollouts: &Rollouts, agent: &str) {
    let Some(divided) = rollouts.named(agent) else { return };
    let stored = match rows::others(rollouts.store(), agent) {
        Ok(stored) => stored,
        Err(error) => return tracing::error!(agent, %error, "its versions cannot be read"),
    };
    for (digest, version) in divided.others() {
        let Some(added) = stored.get(&digest).filter(|_| divided.may_answer(&version)) else { continue };
        let started = match added.kept_pins() {
            Ok(pins) => agents.start_version(added, Some(pins)).await.map(drop),
            Err(error) => Err(error),
        };
        let failure = match started {
            Ok(()) | Err(NodeError::Start(StartError::Running(_))) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = &failure {
            tracing::warn!(agent, version = &*version, why, "a version does not start; it is tried again");
        }
        divided.note_failure(digest, failure);
    }
}

/// Stops and forgets the versions that answer nothing any more.
async fn retire(node: &Node, divided: &AgentRollout) -> Result<(), NodeError> {
    let agent = &divided.name;
    {
        let _deciding = divided.deciding.lock().await;
        let mut versions = divided.versions();
        versions.pass(node.clock.now_ms());
        divided.set(versions);
    }
    let turns = node.host.turns();
    for (digest, version) in divided.others() {
        let reference = AgentRef::new(node.owner().id(), agent, &version)?;
        let works = turns.get(&reference).is_some_and(|(_, turns)| *turns > 0);
        if works || divided.may_answer(&version) {
            continue;
        }
        node.agents.stop_version(&reference).await;
        let mut batch = Batch::new();
        rows::delete_other(&mut batch, agent, digest);
        node.store.write(batch, Durability::Synced).await?;
        divided.drop_version(digest);
    }
    if divided.others().is_empty() && !divided.is_running() {
        node.rollouts.finish(agent).await?;
    }
    Ok(())
}

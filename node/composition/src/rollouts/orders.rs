//! What an owner orders of rollouts, and what follows of what was decided: which versions run, and which one peers are shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use althing_execution::definition::Pins;
use althing_execution::{AgentState, Host, TurnCounts, answered, turn_counts};
use althing_protocol::contract::Class;
use althing_protocol::{AgentRef, Digest};
use althing_store::{Batch, Durability};
use althing_td::{AgentFile, RightsChanges};
use althing_verification::machine::evidence::Tally;
use althing_verification::machine::rollout::{OrderError, Phase, Plan, Rollout, Unit, Versions};
use tokio::time::timeout;

use super::consent::Consent;
use super::divided::AgentRollout;
use super::error::RolloutError;
use super::records::Turnover;
use super::starts::{is_hard, start_others};
use super::{loops, rows, version};
use crate::admission::admit_replaced;
use crate::agents;
use crate::agreements::Agreements;
use crate::blocking::run_blocking;
use crate::error::NodeError;
use crate::node::Node;
use crate::publish::{self, Stay, StoredAgent};
use crate::smooth;

/// Why a version takes the place of another one, where no calls decided that.
const ORDERED: &str = "it was ordered";
/// How long it is waited for the program of a new version.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The shares of a new version where nobody says others, percent.
const STEPS: [u8; 4] = [5, 25, 50, 100];
/// Between two looks at versions that are needed no more, and at those that do not run.
const LOOK: Duration = Duration::from_secs(10);

/// What is given to a version as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutUnit {
    /// A conversation.
    Call,
    /// All conversations of a caller.
    Caller,
    /// All work of a group.
    Group,
    /// All work of a group that comes by one channel.
    Channel,
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

impl Default for RolloutPlan {
    /// From a twentieth of the conversations on, without copies.
    fn default() -> RolloutPlan {
        RolloutPlan { steps: STEPS.to_vec(), by: RolloutUnit::Call, shadow: false, has_cases: false }
    }
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
    begin_by(node, agent, file, (folder, sources), plan, Consent::Owner(agreed)).await
}

/// Begins a rollout that nobody asked for: of a version that may do no more than the one of now.
///
/// # Errors
/// As [`begin`].
pub async fn begin_unasked(
    node: &Node,
    agent: &str,
    file: AgentFile,
    folder: &Path,
    plan: RolloutPlan,
) -> Result<(), NodeError> {
    begin_by(node, agent, file, (folder, &[]), plan, Consent::Nobody).await
}

async fn begin_by(
    node: &Node,
    agent: &str,
    file: AgentFile,
    (folder, sources): (&Path, &[PathBuf]),
    plan: RolloutPlan,
    consent: Consent<'_>,
) -> Result<(), NodeError> {
    node.identity.check_authority()?;
    node.agents.probed().await;
    let _changing = node.agents.names.hold().await;
    let before = agents::stored(node.store.as_ref(), agent)?;
    let mut added = node.agents.signed(file, folder, Stay::UntilRemoved)?;
    added.sources = sources.to_vec();
    // Large, and rare.
    Box::pin(begin_beside(node, &before, added, plan, consent)).await
}

/// Begins a rollout of an agent in the higher version of its model that is in the range of its contract, which nobody asked for;
/// whether it was begun. One that went back is not tried again, nor the one that was aborted last.
///
/// # Errors
/// As [`begin`].
pub(super) async fn begin_with_model(node: &Node, agent: &str) -> Result<bool, NodeError> {
    node.identity.check_authority()?;
    node.agents.probed().await;
    let _changing = node.agents.names.hold().await;
    let before = agents::stored(node.store.as_ref(), agent)?;
    let Some(newer) = smooth::newer(&node.host, &before) else { return Ok(false) };
    let version = smooth::version_with(&before.file.version, &newer, &versions_here(node, &before)?);
    let file = AgentFile { version, ..before.file.clone() };
    let added = StoredAgent { file, model: Some(newer), ..before.clone() };
    let added = added.signed_anew(&node.owner(), node.network(), node.clock().now_ms())?;
    let (from, to) = (digest_of(node, &before).await?, digest_of(node, &added).await?);
    if is_over(&known(node, agent, from)?.0, to) {
        return Ok(false);
    }
    Box::pin(begin_beside(node, &before, added, RolloutPlan::default(), Consent::Nobody)).await?;
    Ok(true)
}

/// Whether a version went back, or was aborted and nothing else was tried since.
fn is_over(versions: &Versions, version: Digest) -> bool {
    let is_aborted = |last: &Rollout| last.plan().to == version && last.phase() == Phase::Aborted;
    versions.reversals().contains_key(&version) || versions.rollout().is_some_and(is_aborted)
}

/// Lets a version run beside the stable one, and get a share of its calls. Called while nobody else changes agents.
async fn begin_beside(
    node: &Node,
    before: &StoredAgent,
    mut added: StoredAgent,
    plan: RolloutPlan,
    consent: Consent<'_>,
) -> Result<(), NodeError> {
    let agent = before.file.name.as_str();
    check(node, before, &added)?;
    let id = publish::agent_id(&node.owner(), &added.file)?;
    admit_replaced((&node.governance, node.revocations.as_ref()), (&id, &added.file), &before.file).await?;
    consent.check(node, &before.file, (&added.file, added.sources.as_slice()))?;
    let (from, to) = (digest_of(node, before).await?, digest_of(node, &added).await?);
    let (mut versions, mut names) = known(node, agent, from)?;
    let by = match plan.by {
        RolloutUnit::Call => Unit::Call,
        RolloutUnit::Caller => Unit::Caller,
        RolloutUnit::Group => Unit::Group,
        RolloutUnit::Channel => Unit::Channel,
    };
    let (has_shadow, has_cases, first_token_ms) = (plan.shadow, plan.has_cases, first_token_ms(&before.file));
    let salt = Some(u64::from_be_bytes(node.entropy().bytes()));
    let plan = Plan { steps: plan.steps, by, shadow: has_shadow, first_token_ms, salt, ..Plan::of(to) };
    let plan = plan.with_record(failures_of(node, &before.file)?);
    versions.begin(plan, node.clock().now_ms()).map_err(RolloutError::from)?;
    names.insert(from, before.file.version.as_str().into());
    names.insert(to, added.file.version.as_str().into());
    let all: Vec<PathBuf> = node.rollouts.sources(before).into_iter().chain(added.sources.iter().cloned()).collect();
    node.host.process.agent_files.set(agent, &all);
    let reference = publish::agent_ref(&node.owner(), &added.file)?;
    added.pins = run_beside(node, &reference, &added).await?;
    let stable = has_cases.then_some(before.file.version.as_str());
    let rehearsed = stable.into_iter().chain((has_shadow || has_cases).then_some(&*reference.version));
    let open = rehearsed.map(|version| node.hosting.own_tasks().rehearsal(agent, Some(version))).find_map(Result::err);
    if let Some(error) = open {
        node.agents.versions().stop(&reference).await;
        return Err(RolloutError::NoShadow { agent: agent.to_owned(), why: error.to_string() }.into());
    }
    let mut batch = rows::change(agent, &versions);
    let recorded = node.agents.records().change("rollout", Some(&before.file), Some(&added.file)).await;
    let written = match recorded.and_then(|()| rows::put_other(&mut batch, to, &added)) {
        Ok(()) => node.store.write(batch, Durability::Synced).await.map_err(NodeError::from),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        node.agents.versions().stop(&reference).await;
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
    if is_hard(&before.file) != is_hard(file) {
        return Err(RolloutError::HardRealTime(agent.clone()).into());
    }
    let outputs =
        |file: &AgentFile| file.contract.as_ref().map(|contract| contract.signals.outputs.clone()).unwrap_or_default();
    let old = outputs(&before.file);
    if let Some(signal) = outputs(file).into_iter().find(|signal| !is_hard(file) && old.contains(signal)) {
        return Err(RolloutError::SoftLoop { agent: agent.clone(), signal }.into());
    }
    if versions_here(node, before)?.contains(&file.version) {
        return Err(RolloutError::SameVersion { agent: agent.clone(), version: file.version.clone() }.into());
    }
    Ok(())
}

/// What the versions of an agent are called that are kept here, or run.
fn versions_here(node: &Node, stable: &StoredAgent) -> Result<Vec<String>, NodeError> {
    let agent = &stable.file.name;
    let others = rows::others(node.store.as_ref(), agent)?;
    let kept = others.into_values().map(|other| other.file.version).chain([stable.file.version.clone()]);
    let running = node.host.versions(agent);
    Ok(kept.chain(running.iter().map(|running| running.version.to_string())).collect())
}

pub(super) async fn digest_of(node: &Node, added: &StoredAgent) -> Result<Digest, NodeError> {
    let (file, folder, model) = (added.file.clone(), added.folder.clone(), added.model.clone());
    Ok(run_blocking(node.kernel(), move || version::digest_of(&file, &folder, model.as_ref())).await??)
}

/// What was decided of the versions of an agent whose stable one is this, and which of them are here.
fn known(node: &Node, agent: &str, stable: Digest) -> Result<(Versions, BTreeMap<Digest, Arc<str>>), NodeError> {
    let versions = match node.rollouts.named(agent) {
        Some(divided) => Some(divided.versions()),
        None => rows::resumed(node.store.as_ref(), agent)?,
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

/// Turns of the version that everybody has, since it was started, and how many of them failed; none of a control loop, of which jobs
/// are counted.
fn failures_of(node: &Node, file: &AgentFile) -> Result<Tally, NodeError> {
    let turns = turn_counts(&node.host, &publish::agent_ref(&node.owner(), file)?).filter(|_| !is_hard(file));
    Ok(turns.map_or(Tally::default(), |TurnCounts { all, failed }| Tally { calls: all, bad: failed }))
}

/// Starts a version beside the others, with the tools that are noted of it or else those of now, and waits for its program. Gives
/// the tools that it is bound to.
async fn run_beside(node: &Node, agent: &AgentRef, added: &StoredAgent) -> Result<Option<Pins>, NodeError> {
    let started = match node.agents.versions().start_version(added, added.pins.clone()).await {
        Ok(_) => {
            answered(&node.host, agent, ANSWER_MAX).await;
            ended(&node.host, agent)
                .map_or(Ok(()), |why| Err(RolloutError::Ended { agent: agent.name().to_owned(), why }.into()))
        }
        Err(error) => Err(error),
    };
    if let Err(error) = started {
        node.agents.versions().stop(agent).await;
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
        let from = versions.stable();
        versions.promote(node.clock().now_ms()).map_err(RolloutError::from)?;
        let mut batch = rows::promotion(node.store.as_ref(), agent, &versions)?;
        let to = versions.stable();
        let turnover = Turnover { divided: &divided, what: "promoting", from, to, why: ORDERED };
        batch.append(node.rollouts.records().rows(&turnover)?);
        node.store.write(batch, Durability::Synced).await?;
        divided.set(versions);
        node.rollouts.announce(agent);
    }
    settle(node, &divided, false).await
}

/// Ends a rollout: the version that everybody had before has all new calls.
///
/// # Errors
/// As [`promote`], but [`RolloutError::Unwritten`] in place of those of the store: it holds all the same.
pub async fn abort(node: &Node, agent: &str) -> Result<(), NodeError> {
    let _changing = node.agents.names.hold().await;
    let divided = under_way(node, agent)?;
    node.rollouts.abort(&divided, ORDERED).await
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
            divided.note_unshown();
        }
    }
    let shown = divided.show_once(show(node, &divided.name)).await;
    if retires {
        if let Err(error) = node.rollouts.write_again(divided).await {
            tracing::error!(agent = divided.name, %error, "what was decided of its versions is not on disk yet");
        }
        loops::weigh(node, divided).await;
        start_others(node.agents.versions(), &node.rollouts, &divided.name).await;
        // As long as something is to be shown, its versions are known here.
        if shown.is_ok() {
            retire(node, divided).await?;
        }
    }
    shown
}

/// Signs the description of a version that took the place of another one, and shows it to peers: they take none that is older
/// than what they know.
async fn show(node: &Node, agent: &str) -> Result<(), NodeError> {
    let stored = agents::stored(node.store.as_ref(), agent)?;
    let anew = stored.signed_anew(&node.owner(), node.network(), node.clock().now_ms())?;
    publish::write(node.store.as_ref(), &anew).await?;
    node.agents.show(&anew)
}

/// Stops and forgets the versions that answer nothing any more.
async fn retire(node: &Node, divided: &AgentRollout) -> Result<(), NodeError> {
    let agent = &divided.name;
    {
        let _deciding = divided.deciding.lock().await;
        let mut versions = divided.versions();
        versions.pass(node.clock().now_ms());
        divided.set(versions);
    }
    let turns = node.host.turns();
    for (digest, version) in divided.others() {
        let reference = AgentRef::new(node.owner().id(), agent, &version)?;
        let runs = turns.get(&reference).is_some_and(|(_, turns)| *turns > 0);
        // Work that it gave away, and what waits for somebody's answer, is no turn of it now.
        if runs || divided.may_answer(&version) || node.hosting.has_work(&reference).await {
            continue;
        }
        node.agents.versions().stop(&reference).await;
        // As long as a node that starts anew would go on with it, its file is needed.
        if divided.unwritten().is_some() {
            continue;
        }
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

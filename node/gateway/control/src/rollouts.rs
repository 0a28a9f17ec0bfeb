//! Two versions of an agent that divide its calls.

use std::sync::Arc;

use althing_api::{
    AddRequest, Folder, RightsChanges, RolloutCases, RolloutEffect, RolloutLeftOut, RolloutOrder, RolloutRequest,
    RolloutShadow, RolloutSide, RolloutSignal, RolloutState, RolloutStatus, RolloutUnit, VersionReversal,
    VersionStatus,
};
use althing_node::rollouts::{
    self, RolloutPhase, RolloutPlan, RolloutReport, ShadowReport, SignalReport, VersionReport,
};
use althing_operations::{AgentTests, Operations};
use axum::Json;
use axum::extract::{Path, State};

use crate::adding::told;
use crate::body::{Body, detached};
use crate::error::Answer;
use crate::near;
use crate::place::Place;
use crate::requester::Requester;

/// `POST /rollouts/{agent}/changes`: what a file changes of what was agreed to for the agent; begins nothing.
pub async fn changes(
    State(node): State<Arc<Operations>>,
    Path(agent): Path<String>,
    requester: Requester,
    Body(request): Body<AddRequest>,
) -> Answer<RightsChanges> {
    // Whoever may not name it is told before anybody agrees to anything.
    if let Folder::Here(path) = &request.folder {
        requester.path(path)?;
    }
    let sources = requester.paths(&request.sources)?;
    let changes = rollouts::changes(&node, &agent, &request.file, &sources);
    Ok(Json(told(changes.map_err(|error| near::agent_problem(&node, &agent, error))?)))
}

/// `POST /rollouts/{agent}`
pub async fn begin(
    State(node): State<Arc<Operations>>,
    Path(agent): Path<String>,
    requester: Requester,
    Body(request): Body<RolloutRequest>,
) -> Answer<RolloutStatus> {
    detached(async move {
        let RolloutRequest { to, steps, by, shadow, cases } = request;
        if cases.is_some() {
            requester.check_owner()?;
        }
        let cases = cases.as_deref().map(AgentTests::cases).transpose()?;
        let sources = requester.paths(&to.sources)?;
        let mut place = Place::of(&node, &requester, &to.folder)?;
        let by = match by {
            RolloutUnit::Call => rollouts::RolloutUnit::Call,
            RolloutUnit::Caller => rollouts::RolloutUnit::Caller,
            RolloutUnit::Group => rollouts::RolloutUnit::Group,
            RolloutUnit::Channel => rollouts::RolloutUnit::Channel,
        };
        let plan = RolloutPlan { steps, by, shadow, has_cases: cases.is_some() };
        let read = (place.path(), sources.as_slice());
        let begun = rollouts::begin(&node, &agent, to.file, read, plan, to.agreed.as_deref()).await;
        begun.map_err(|error| near::agent_problem(&node, &agent, error))?;
        place.keep();
        if let Some(cases) = &cases {
            AgentTests(&node).weigh(&agent, cases).await;
        }
        shown(&node, agent)
    })
    .await
}

/// `POST /rollouts/{agent}/end`
pub async fn end(
    State(node): State<Arc<Operations>>,
    Path(agent): Path<String>,
    Body(RolloutOrder { keep }): Body<RolloutOrder>,
) -> Answer<RolloutStatus> {
    detached(async move {
        let ended = match keep {
            RolloutSide::New => rollouts::promote(&node, &agent).await,
            RolloutSide::Stable => rollouts::abort(&node, &agent).await,
        };
        ended.map_err(|error| near::agent_problem(&node, &agent, error))?;
        shown(&node, agent)
    })
    .await
}

/// `GET /rollouts/{agent}`
pub async fn show(State(node): State<Arc<Operations>>, Path(agent): Path<String>) -> Answer<RolloutStatus> {
    shown(&node, agent)
}

fn shown(node: &Operations, agent: String) -> Answer<RolloutStatus> {
    let report = rollouts::report(node, &agent).map_err(|error| near::agent_problem(node, &agent, error))?;
    let release = release(node, &agent, &report);
    Ok(Json(status(agent, report, release)))
}

/// The release that the new version is, where the node began the rollout by itself.
fn release(node: &Operations, agent: &str, report: &RolloutReport) -> Option<String> {
    let row = node.revocations.installed_row(agent)?;
    let tried = row.trial.into_iter().map(|trial| (trial.version, trial.digest));
    let passed = row.passed.into_iter().map(|passed| (passed.version, passed.digest));
    let (version, _) = tried.chain(passed).find(|(_, digest)| digest.as_ref() == Some(&report.new.digest))?;
    Some(format!("{} {version}", row.agent))
}

fn status(agent: String, report: RolloutReport, release: Option<String>) -> RolloutStatus {
    let (state, reason) = match report.phase {
        RolloutPhase::Running => (RolloutState::Running, None),
        RolloutPhase::Promoted { by_owner: false } => (RolloutState::Promoted, None),
        RolloutPhase::Promoted { by_owner: true } => (RolloutState::PromotedByOwner, None),
        RolloutPhase::PromotedElsewhere(node) => {
            (RolloutState::PromotedElsewhere, Some(format!("it was promoted on {node}")))
        }
        RolloutPhase::WentBack(reason) => (RolloutState::WentBack, Some(reason)),
        RolloutPhase::Aborted => (RolloutState::Aborted, None),
    };
    let version = |report: VersionReport| VersionStatus {
        version: report.version.map(|version| version.to_string()),
        digest: report.digest,
        share_percent: report.share_percent,
        why: report.failure,
    };
    let signal = |SignalReport { words, stable, new }: SignalReport| RolloutSignal {
        what: words.to_owned(),
        stable_calls: stable.0,
        stable_bad: stable.1,
        new_calls: new.0,
        new_bad: new.1,
    };
    let by = match report.by {
        rollouts::RolloutUnit::Call => RolloutUnit::Call,
        rollouts::RolloutUnit::Caller => RolloutUnit::Caller,
        rollouts::RolloutUnit::Group => RolloutUnit::Group,
        rollouts::RolloutUnit::Channel => RolloutUnit::Channel,
    };
    let reversals = report.reversals.into_iter();
    RolloutStatus {
        agent,
        state,
        reason,
        stable: version(report.stable),
        new: version(report.new),
        steps: report.steps,
        by,
        calls: report.calls,
        calls_min: report.calls_min,
        one_in: report.one_in,
        limit: report.limit,
        signals: report.signals.into_iter().map(signal).collect(),
        left_out: left_out(report.left_out),
        shadow: report.shadow.map(shadow),
        cases: report.cases.map(|[stable, new]| RolloutCases {
            stable: stable.0,
            stable_wrong: stable.1,
            new: new.0,
            new_wrong: new.1,
        }),
        effects: report.effects.into_iter().map(|(tool, calls)| RolloutEffect { tool, calls }).collect(),
        went_back: reversals.map(|(digest, reason)| VersionReversal { digest, reason }).collect(),
        release,
    }
}

fn left_out([stable, new]: [(u64, u64); 2]) -> Option<RolloutLeftOut> {
    let left_out = RolloutLeftOut {
        stable_of_owners: stable.0,
        stable_of_conversations: stable.1,
        new_of_owners: new.0,
        new_of_conversations: new.1,
    };
    ([stable, new] != [(0, 0); 2]).then_some(left_out)
}

fn shadow(ShadowReport { is_running, calls, differing, denied, live, alike }: ShadowReport) -> RolloutShadow {
    RolloutShadow {
        running: is_running,
        calls: calls.0,
        bad: calls.1,
        differing,
        denied,
        live_calls: live.0,
        live_bad: live.1,
        alike,
    }
}

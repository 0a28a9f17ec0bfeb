//! Agents in the control API, and `althing run`: agents that run for as long as their client is connected.

use std::sync::Arc;
use std::time::Duration;

use althing_api::{
    AddRequest, AgentAddition, AgentCondition, AgentEntries, AgentEntry, AgentFailure, AgentFinding, AgentInstance,
    AgentStart, EnclosureLevel, FileAccess, FirstOutput, HardJobs, MachineStatus, ProgramContainment, ProgramRefusal,
    RunLine, ToolDifference, ToolRefusal, ToolServerAbsence, VersionShare, WakeUp,
};
use althing_execution::definition::{Difference, Unfit};
use althing_execution::realtime::{HardwareProfile, Privilege};
use althing_execution::{
    Access, Advice, AgentState, AgentStatus, Containment, FindingCount, HardStatus, Level, answered,
};
use althing_node::agent_statuses;
use althing_node::publish::Stay;
use althing_node::rollouts::shares;
use althing_operations::Operations;
use althing_operations::doctor::{refused_tools, silent_servers, tool_notes};
use althing_protocol::AgentId;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures::stream;

use crate::body::{Body, detached};
use crate::error::ApiError;
use crate::lines::ndjson;
use crate::logs;
use crate::place::Place;
use crate::requester::Requester;

/// Between two status lines of `althing run`.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long it is waited for the program, or the server, of an agent that was added.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Lines of a program that ended before it answered, as they are told.
const LAST_LINES: usize = 20;

/// An agent that was added, once its program or its server answered, or is known not to.
pub async fn added(node: &Operations, id: &AgentId) -> AgentAddition {
    answered(&node.host, id.name(), ANSWER_MAX).await;
    let card = node.gateway.as_ref().map(|gateway| format!("{gateway}/a2a/{}/.well-known/agent-card.json", id.name()));
    let status = node.agents.status(id.name()).map(|status| row(node, &status));
    AgentAddition { id: id.to_string(), name: id.name().to_owned(), card, status }
}

/// That the program of an agent which was added ended before it answered, with what it said last; none if it did not.
pub fn ended(node: &Operations, name: &str) -> Option<ApiError> {
    let AgentState::Restarting { why, .. } = node.agents.status(name)?.state else { return None };
    let lines = node.host.process.logs.of(name).page(0).lines;
    let said: Vec<&str> = lines.iter().filter(|line| &*line.program == "runtime").map(|line| &*line.text).collect();
    Some(ApiError::failed(ended_words(name, &why, &said)))
}

fn ended_words(name: &str, why: &str, said: &[&str]) -> String {
    // The last line follows, among those before it.
    let why = if said.is_empty() { why } else { why.split("; it said: ").next().unwrap_or(why) };
    let last: String = said[said.len().saturating_sub(LAST_LINES)..].iter().map(|line| format!("\n  {line}")).collect();
    let said = if last.is_empty() { "it said nothing".to_owned() } else { format!("it said last:{last}") };
    format!("{name:?} was not added: its program did not answer, {why}; {said}")
}

/// What a probe found.
pub fn machine(machine: &HardwareProfile) -> MachineStatus {
    let real_time = match machine.privilege {
        Privilege::Full => "at every priority",
        Privilege::Limited => "up to a limit",
        Privilege::None => "not permitted",
    };
    MachineStatus {
        grade: machine.grade,
        real_time: real_time.to_owned(),
        wake_up_us: WakeUp {
            p50: micros(machine.wake_p50_ns),
            p99: micros(machine.wake_p99_ns),
            p999: micros(machine.wake_p999_ns),
            max: micros(machine.wake_max_ns),
            samples: machine.samples,
        },
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn row(node: &Operations, agent: &AgentStatus) -> AgentInstance {
    let (state, why) = condition(agent);
    AgentInstance {
        why,
        pid: agent.pid,
        said: logs::last(node, &agent.name),
        containment: agent.containment.iter().map(|(program, how)| contained(program, how)).collect(),
        turns: agent.turns.running,
        turns_total: agent.turns.total,
        first_output_us: FirstOutput {
            p50: micros(agent.turns.first_p50_ns),
            p99: micros(agent.turns.first_p99_ns),
            late: agent.turns.late,
        },
        hrt: agent.hard.as_ref().map(hard),
        tools_away: agent.away.iter().map(absence).collect(),
        tools_refused: agent.unfit.iter().map(|(tool, unfit)| unfit_tool(tool, unfit)).collect(),
        findings: agent.findings.iter().map(|found| finding(agent, found)).collect(),
        ..AgentInstance::new(&agent.name, agent.class, agent.runtime, state)
    }
}

fn finding(agent: &AgentStatus, found: &FindingCount) -> AgentFinding {
    AgentFinding {
        finding: found.finding.to_owned(),
        count: found.count,
        task: found.task.clone(),
        version: agent.version.to_string(),
    }
}

/// What an agent can do now, and why.
fn condition(agent: &AgentStatus) -> (AgentCondition, Option<String>) {
    match &agent.state {
        AgentState::Ready => {
            let why = refused_tools(agent).into_iter().chain(silent_servers(agent)).collect::<Vec<_>>().join("; ");
            (AgentCondition::Ready, (!why.is_empty()).then_some(why))
        }
        AgentState::Starting => (AgentCondition::Starting, None),
        AgentState::Restarting { why, restarts } => {
            (AgentCondition::Restarting, Some(format!("{why} (restarts: {restarts})")))
        }
        AgentState::Unreachable { why } => (AgentCondition::Unreachable, Some(why.clone())),
        AgentState::Degraded { why } => (AgentCondition::Degraded, Some(why.clone())),
        AgentState::Suspended { why } => (AgentCondition::Suspended, Some(why.clone())),
    }
}

fn contained(program: &str, how: &Containment) -> ProgramContainment {
    let level = match how.level {
        Level::None => EnclosureLevel::None,
        Level::Account => EnclosureLevel::Account,
        Level::Landlock => EnclosureLevel::Landlock,
        Level::Namespaces => EnclosureLevel::Namespaces,
    };
    ProgramContainment {
        program: program.to_owned(),
        contained: how.level != Level::None,
        level,
        how: how.to_string(),
        refused: how.lacks.refused.iter().map(refused).collect(),
        more_refused: how.lacks.more,
        needs: (!how.lacks.needs.is_empty()).then(|| how.lacks.needs.to_string()),
    }
}

fn refused(advice: &Advice) -> ProgramRefusal {
    let access = match advice.refusal.access {
        Access::Read => FileAccess::Read,
        Access::Write => FileAccess::Write,
        Access::Execute => FileAccess::Execute,
        Access::Connect => FileAccess::Connect,
    };
    ProgramRefusal { access, path: advice.refusal.path.clone(), write: advice.block(), text: advice.words() }
}

fn hard(hard: &HardStatus) -> HardJobs {
    HardJobs {
        core: hard.core,
        jobs: hard.jobs,
        missed: hard.missed,
        explained: hard.explained,
        overruns: hard.overruns,
        failures: hard.failures,
        fallbacks: hard.fallbacks,
        response_bound_us: micros(hard.response_bound_ns),
        response_p99_us: micros(hard.response_p99_ns),
        response_max_us: micros(hard.response_max_ns),
    }
}

fn absence((server, why): (&String, &String)) -> ToolServerAbsence {
    ToolServerAbsence { server: server.clone(), why: why.clone() }
}

fn unfit_tool(tool: &str, unfit: &Unfit) -> ToolRefusal {
    let difference =
        |one: &Difference| ToolDifference { field: one.field.clone(), old: one.old.clone(), new: one.new.clone() };
    ToolRefusal {
        tool: tool.to_owned(),
        reason: unfit.reason().to_owned(),
        why: unfit.brief(),
        differences: unfit.differences().iter().map(difference).collect(),
    }
}

/// `GET /ps`
pub async fn ps(State(node): State<Arc<Operations>>) -> Json<AgentEntries> {
    Json(AgentEntries { agents: entries(&node) })
}

/// The agents of this node as they are now.
pub fn entries(node: &Operations) -> Vec<AgentEntry> {
    let there = agent_statuses(&node.host, &node.discovery);
    // What is started anew runs already before it is no failure any more.
    let is_missing = |name: &str| there.iter().all(|agent| agent.name != name);
    let failed = node.agents.starts.failed();
    let failed = failed.iter().filter(|(name, _)| is_missing(name)).map(|(name, why)| {
        let said = logs::last(node, name);
        let state = AgentCondition::Failed;
        AgentEntry::Failure(AgentFailure { name: name.clone(), state, why: why.clone(), said })
    });
    let starting = node.agents.starts.starting();
    let starting = starting.iter().filter(|(name, _)| is_missing(name)).map(|(name, class)| {
        let state = AgentCondition::Starting;
        AgentEntry::Start(AgentStart { name: name.clone(), class: (*class).to_owned(), state, why: None })
    });
    let shares = shares(node);
    let instance = |agent: &AgentStatus| {
        let share = shares.get(&(agent.name.clone(), agent.version.clone()));
        let version = |share: &u8| VersionShare { version: agent.version.to_string(), share_percent: *share };
        AgentEntry::Instance(Box::new(AgentInstance { rollout: share.map(version), ..row(node, agent) }))
    };
    let instances = there.iter().map(instance);
    let mut agents: Vec<AgentEntry> = instances.chain(starting).chain(failed).collect();
    for known in node.discovery.local() {
        let (name, notes) = (known.verified.agent.name(), tool_notes(&known));
        if let Some(agent) = agents.iter_mut().find(|agent| agent.name() == name && agent.why().is_none())
            && !notes.is_empty()
        {
            note(agent, notes.join("; "));
        }
    }
    agents
}

/// Says what is to be known of an agent of which nothing is said yet.
fn note(agent: &mut AgentEntry, words: String) {
    match agent {
        AgentEntry::Instance(agent) => agent.why = Some(words),
        AgentEntry::Start(agent) => agent.why = Some(words),
        // Why it could not be started is said.
        AgentEntry::Failure(_) => {}
    }
}

/// Ends an agent when its client disconnects.
struct EndOnDrop {
    node: Arc<Operations>,
    name: String,
    /// Where its files are, which it has to its end.
    place: Option<Place>,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let (node, name, place) = (self.node.clone(), std::mem::take(&mut self.name), self.place.take());
        tokio::spawn(async move {
            if let Err(error) = node.agents.end(&name).await {
                tracing::error!(name, %error, "an agent could not be ended");
            }
            drop(place);
        });
    }
}

/// `POST /run`: runs an agent for as long as the answer is read.
pub async fn run(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<AddRequest>,
) -> Response {
    // If the client hangs up meanwhile, the agent is ended on drop.
    let adding = detached(async move {
        let AddRequest { file, folder, sources, reservation, agreed } = request;
        let (sources, place) = (requester.paths(&sources)?, Place::of(&node, &requester, &folder)?);
        let how = (Stay::WhileConnected, agreed.as_deref());
        let id = node.agents.add_read(file, (place.path(), sources.as_slice()), reservation.as_deref(), how).await?;
        let name = id.name().to_owned();
        let held = EndOnDrop { node: node.clone(), name: name.clone(), place: Some(place) };
        let first = RunLine::Runs(Box::new(added(&node, &id).await));
        match ended(&node, &name) {
            Some(ended) => Err(ended),
            None => Ok((held, first)),
        }
    });
    let (held, first) = match adding.await {
        Ok(running) => running,
        Err(error) => {
            return ndjson(stream::iter([RunLine::Error(error.into())]));
        }
    };
    let lines = stream::unfold((held, Some(first)), |(held, first)| async move {
        if let Some(first) = first {
            return Some((first, (held, None)));
        }
        tokio::select! {
            () = held.node.stop.cancelled() => return None,
            () = tokio::time::sleep(STATUS_INTERVAL) => {}
        }
        let status = held.node.agents.status(&held.name)?;
        Some((RunLine::Status(Box::new(row(&held.node, &status))), (held, None)))
    });
    ndjson(lines)
}

#[cfg(test)]
mod tests {
    use althing_execution::{Lack, Lacks, Refusal};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_level_and_a_refusal_are_told_in_the_words_of_whoever_contains_the_program() {
        for level in [Level::None, Level::Account, Level::Landlock, Level::Namespaces] {
            let how = Containment {
                level,
                why: String::new(),
                gaps: Vec::new(),
                account: None,
                is_off: false,
                withheld: Vec::new(),
                unbounded: String::new(),
                lacks: Lacks::default(),
            };
            let told = contained("runtime", &how);
            assert_eq!((json!(told.level), told.contained), (json!(level), level != Level::None));
            assert_eq!((told.how, told.needs), (how.to_string(), None));
        }
        for access in [Access::Read, Access::Write, Access::Execute, Access::Connect] {
            let refusal = Refusal { access, path: "/srv/map".to_owned(), lack: Lack::NodesOwn };
            let told = refused(&Advice { refusal, remedy: Err("it is the node's own".to_owned()) });
            assert_eq!((json!(told.access), told.path.as_str()), (json!(access), "/srv/map"));
            assert!(told.write.is_none() && told.text.ends_with("(it is the node's own)"), "{}", told.text);
        }
    }

    #[test]
    fn who_adds_an_agent_whose_program_ends_reads_its_last_lines() {
        let why = "it ended with exit status 1; it said: No module";
        let said: Vec<String> = (0..30).map(|n| format!("line {n}")).chain(["No module".to_owned()]).collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let words = ended_words("weather", why, &said);
        let first = "\"weather\" was not added: its program did not answer, it ended with exit status 1; it said last:\n  line 11\n";
        assert!(words.starts_with(first) && words.ends_with("\n  line 29\n  No module"), "{words}");
        let silent = ended_words("weather", "it ended with exit status 1", &[]);
        assert!(silent.ends_with("did not answer, it ended with exit status 1; it said nothing"), "{silent}");
    }
}

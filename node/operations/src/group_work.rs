//! Tasks of groups on this node: each is a message to an agent that is hosted here.

mod routes;
mod tenures;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2a::{Part, Role};
use althing_calls::{
    Asker, CallRequest, Callee, Calls, Operation, OperationError, OperationRequest, Principal, Purpose, Refusal, Reply,
    TargetChoice,
};
use althing_communication::{Network, WallClock};
use althing_coordination::{Again, Answering, Assigned, Report, WorkFailure, Worker};
use althing_discovery::{Found, Query};
use althing_execution::lease::Leases;
use althing_execution::{CandidateList, Host, TurnRights};
use althing_node::{Identity, machine};
use althing_protocol::contract::Latency;
use althing_protocol::group::{Author, Deployment, GroupId, Target, WorkId};
use althing_protocol::{AgentId, Attributes, CallerId, Label, PublicKey, PublisherId};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::group_agents::Placements;

/// Tasks of groups that this node runs at once.
const SLOTS: u32 = 32;
/// Agents of this node that are looked at.
const AGENTS_MAX: usize = 10_000;
/// Between two looks at whether an agent that began a task has been started.
const LOOK: Duration = Duration::from_millis(250);
/// The member of a message's metadata that says of which task of which group it is.
const METADATA: &str = "https://althing.dev/ext/group-task/v1";

/// Runs tasks of groups.
pub(crate) struct GroupWorker {
    calls: Calls,
    host: Arc<Host>,
    network: Arc<dyn Network>,
    here: PublicKey,
    labels: Vec<String>,
    /// Where the node keeps its data; its file system is the disk that tasks may need.
    data: Option<PathBuf>,
    clock: WallClock,
    placements: watch::Sender<Placements>,
    /// Whether each agent that was added before the node started has been started by now, or does not start.
    agents_known: watch::Receiver<bool>,
    leases: Leases,
}

impl GroupWorker {
    /// What runs tasks of groups, and says by `placements` what they place here; `agents_known` says when each agent that was
    /// added before has been started, or does not start.
    pub(crate) fn new(
        calls: &Calls,
        (host, network): (Arc<Host>, Arc<dyn Network>),
        identity: &Identity,
        (labels, data): (Vec<String>, Option<PathBuf>),
        (placements, agents_known): (watch::Sender<Placements>, watch::Receiver<bool>),
    ) -> GroupWorker {
        GroupWorker {
            calls: calls.clone(),
            host,
            network,
            here: identity.key.public(),
            labels,
            data,
            clock: identity.clock().clone(),
            placements,
            agents_known,
            leases: Leases::default(),
        }
    }

    /// The agents that do tasks, on all nodes that are known. One that gives groups tasks here gets none, so that no task goes
    /// in circles.
    fn known(&self, capability: Option<String>) -> Vec<Found> {
        let running = self.host.status();
        let gives = |name: &str| running.iter().any(|agent| agent.gives_tasks && agent.name == name);
        let query = Query { capability, limit: Some(AGENTS_MAX), ..Query::default() };
        let (mut found, _) = self.calls.discovery().find(&query);
        found.retain(|found| !gives(found.candidate.verified.agent.name()));
        found
    }

    /// Those that are hosted here.
    fn hosted(&self, capability: Option<String>) -> Vec<Found> {
        let mut found = self.known(capability);
        found.retain(|found| found.node == self.here);
        found
    }

    /// The agent that does a task in the class that it needs, and answers whoever it is done for. One that only this node may
    /// call does tasks of this node, and of nobody else: not those of another node of the same owner.
    fn agent(&self, task: &Assigned) -> BoxFuture<'static, Result<AgentId, WorkFailure>> {
        let (capability, name) = wanted(&task.needs.target);
        let found = self.hosted(capability).into_iter().map(|found| found.candidate.verified.agent.clone());
        let mut agents: Vec<AgentId> = found.filter(|agent| name.is_none_or(|name| name == agent.name())).collect();
        agents.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        let agents = in_class(agents, task.needs.class, |name| self.host.latency(name));
        let asked = (task.author != Author::Node(self.here), self.label(task));
        let (calls, asker) = (self.calls.clone(), task.on_behalf_of);
        async move {
            let mut refused = None;
            for agent in agents? {
                match calls.check_task(&agent, asker, asked).await {
                    Ok(()) => return Ok(agent),
                    Err(why) => {
                        let told = || format!("the agent {} here: {}: {why}", agent.name(), why.reason());
                        // A group is told the beginning of it.
                        refused.get_or_insert_with(told);
                    }
                }
            }
            Err(match refused {
                // What a caller hears of it, whoever gave the task hears.
                Some(reason) => WorkFailure { reason, again: Again::Others },
                None => WorkFailure { reason: "no agent here can do it any more".to_owned(), again: Again::Any },
            })
        }
        .boxed()
    }

    /// Whether an agent here would do tasks for that target on behalf of `asker`, by its contract.
    fn offers(&self, target: &Target, asker: CallerId) -> bool {
        let (capability, name) = wanted(target);
        let found = self.hosted(capability).into_iter().map(|found| found.candidate.verified.agent.clone());
        let mut named = found.filter(|agent| name.is_none_or(|name| name == agent.name()));
        named.any(|agent| self.calls.offers_tasks(&agent, asker))
    }

    /// The agents here that a task could be for, and why each does not do it, unless it is the one that does.
    fn fitting(&self, task: &Assigned) -> Vec<(AgentId, &'static str)> {
        let (capability, name) = wanted(&task.needs.target);
        let found = self.hosted(capability).into_iter().map(|found| found.candidate.verified.agent.clone());
        let named = found.filter(|agent| name.is_none_or(|name| name == agent.name()));
        let with_why = named.map(|agent| {
            let is_of_class = task.needs.class.is_none_or(|class| self.host.latency(agent.name()) == Some(class));
            let why = match is_of_class {
                false => "left out: of another latency class",
                true if !self.calls.offers_tasks(&agent, task.on_behalf_of) => "left out: does not answer who asks",
                true => "left out: another comes before it",
            };
            (agent, why)
        });
        with_why.collect()
    }

    /// The agent that began an attempt before the node ended, if that is known here.
    fn began(&self, task: &Assigned) -> Option<AgentId> {
        let (capability, name) = wanted(&task.needs.target);
        let found = self.hosted(capability).into_iter().map(|found| found.candidate.verified.agent.clone());
        let mut agents = found.filter(|agent| name.is_none_or(|name| name == agent.name()));
        agents.find(|agent| self.calls.has_begun(agent, task.on_behalf_of, &message_id(task)))
    }

    /// The label of a task's input: what another node submitted without one counts as what nobody labelled.
    fn label(&self, task: &Assigned) -> Option<Label> {
        let is_own = task.author == Author::Node(self.here);
        task.label.or_else(|| (!is_own).then_some(Label::UNLABELLED))
    }

    /// Which of these owners an agent answers by its contract: what policies deny, whoever gives a task hears with the reason. One
    /// that only this node may call answers its owner: a report names no member, and [`GroupWorker::agent`] refuses what the owner's
    /// other nodes submitted.
    fn answered(&self, agent: &AgentId, askers: &BTreeSet<PublisherId>) -> BTreeSet<PublisherId> {
        let answers = |asker: &PublisherId| self.calls.offers_tasks(agent, CallerId::Publisher(*asker));
        askers.iter().copied().filter(answers).collect()
    }

    fn turns(&self) -> u64 {
        self.host.turns().values().map(|(_, turns)| turns).sum()
    }
}

impl Worker for GroupWorker {
    fn report(&self, askers: &BTreeSet<PublisherId>) -> Report {
        let mut by_owners: BTreeMap<BTreeSet<PublisherId>, Answering> = BTreeMap::new();
        let mut classes: Vec<Latency> = Vec::new();
        for found in self.hosted(None) {
            let agent = &found.candidate.verified.agent;
            let owners = self.answered(agent, askers);
            // One that answers nobody here is not the group's business.
            if owners.is_empty() && !askers.is_empty() {
                continue;
            }
            classes.extend(self.host.latency(agent.name()));
            let some = by_owners.entry(owners).or_default();
            some.agents.push(agent.name().to_owned());
            let capabilities = found.candidate.description.capabilities().iter();
            some.capabilities.extend(capabilities.map(|capability| capability.id.clone()));
        }
        let Answering { agents, capabilities, .. } = by_owners.remove(askers).unwrap_or_default();
        let answering = by_owners.into_iter();
        let answering = answering.map(|(owners, some)| Answering { owners: owners.into_iter().collect(), ..some });
        classes.sort_by_key(|class| class.name());
        classes.dedup();
        let turns = self.turns().min(u64::from(SLOTS)) * 1_000 / u64::from(SLOTS);
        Report {
            agents,
            capabilities,
            answering: Some(answering.collect()),
            labels: self.labels.clone(),
            memory_mib: machine::memory_mib("MemAvailable"),
            cores: machine::cores(),
            disk_mib: self.data.as_deref().map_or(0, machine::free_disk_mib),
            gpus: machine::gpus(),
            classes,
            load_permille: u16::try_from(turns).unwrap_or(1_000),
            slots: SLOTS,
        }
        .bounded()
    }

    fn admit<'a>(&'a self, task: &'a Assigned) -> BoxFuture<'a, Result<(), WorkFailure>> {
        async move {
            let later = |reason: String| WorkFailure { reason, again: Again::Any };
            if task.deadline_ms.is_some_and(|at_ms| at_ms <= self.clock.now_ms()) {
                return Err(later("its deadline has passed".to_owned()));
            }
            if self.turns() >= u64::from(SLOTS) * 2 {
                return Err(later(format!("{} turns run here already", self.turns())));
            }
            self.agent(task).await.map(drop)
        }
        .boxed()
    }

    fn host(&self, group: GroupId, agents: Vec<Deployment>) {
        self.placements.send_modify(|placements| drop(placements.insert(group, agents)));
    }

    fn supersede(&self, group: GroupId, task: WorkId, token: u64) {
        self.leases.supersede(&group.to_string(), &task.to_string(), token);
    }

    fn goes_on<'a>(&'a self, task: &'a Assigned) -> BoxFuture<'a, bool> {
        let mut known = self.agents_known.clone();
        async move {
            // It may be started long before the others.
            while self.began(task).is_none() {
                tokio::select! {
                    biased;
                    is_known = async { known.wait_for(|now| *now).await.is_ok() } => {
                        // Else the node is being stopped, and nobody asks any more.
                        return if is_known { self.began(task).is_some() } else { std::future::pending().await };
                    }
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
            true
        }
        .boxed()
    }

    fn verifies<'a>(&'a self, task: &'a Assigned) -> BoxFuture<'a, bool> {
        async move {
            let agent = match self.began(task) {
                Some(agent) => Some(agent),
                None => self.agent(task).await.ok(),
            };
            // Of several versions that divide its calls any may do it.
            let versions = agent.map(|agent| self.host.versions(agent.name())).unwrap_or_default();
            !versions.is_empty() && versions.iter().all(|version| self.host.verifies(version))
        }
        .boxed()
    }

    fn run(&self, task: Assigned) -> BoxFuture<'static, Result<Vec<u8>, WorkFailure>> {
        // An agent that has the message already is sent it again, and no other one.
        let agent = match self.began(&task) {
            Some(agent) => std::future::ready(Ok::<AgentId, WorkFailure>(agent)).boxed(),
            None => self.agent(&task),
        };
        let fitting = self.fitting(&task);
        let calls = self.calls.clone();
        let label = self.label(&task);
        let lease = self.leases.begin(&task.group.to_string(), &task.task.to_string(), task.token);
        let lease = lease.by_channel(task.channel.as_deref());
        async move {
            let agent = agent.await?;
            let candidates = candidates(&agent, &fitting);
            let failed = |reason: String, again| WorkFailure { reason, again };
            let is_step = task.is_step;
            let request = OperationRequest::parse(Operation::SendMessage, params(&task))
                .map_err(|error| failed(error.to_string(), Again::Nobody))?;
            let refused = |error: OperationError| failed(error.to_string(), again(&error));
            let mut target = calls.target(&Asker::Owner, &Callee::Id(agent), Purpose::Call).await.map_err(refused)?;
            target.choice = TargetChoice::Among(candidates);
            // The agent answers whom it would answer if they called it themselves.
            let principals = vec![Principal::Caller(task.on_behalf_of)];
            let attributes = Attributes { label, ..Attributes::default() };
            let request = CallRequest::new(target, request, principals).under(TurnRights::under(lease));
            let reply = calls.ask(request.with_attributes(attributes).adding_to(task.answer.clone())).await;
            match reply.map_err(refused)? {
                Reply::One(body) => {
                    let body = outcome(body)?;
                    let answer = || serde_json::from_slice(&body).unwrap_or_default();
                    Ok(if is_step { answer_text(&answer()).into_bytes() } else { body })
                }
                Reply::Events(_) => Err(failed("the agent answered with a stream".to_owned(), Again::Nobody)),
            }
        }
        .boxed()
    }
}

/// The agent that does a task first, and why the others that could do not.
fn candidates(chosen: &AgentId, fitting: &[(AgentId, &'static str)]) -> CandidateList {
    let mut list = CandidateList::default();
    list.add(chosen, None, "chosen");
    fitting.iter().filter(|(agent, _)| agent != chosen).for_each(|(agent, why)| list.add(agent, None, *why));
    list
}

/// The capability that an agent must have, or its name.
fn wanted(target: &Target) -> (Option<String>, Option<&str>) {
    match target {
        Target::Capability(capability) => (Some(capability.clone()), None),
        Target::Agent(name) => (None, Some(name.as_str())),
    }
}

/// Of the agents that could do a task, those that run in the class that it needs. If there is none, another member may have
/// one: a report says in which classes a member does tasks, not which agent runs in which.
fn in_class(
    agents: Vec<AgentId>,
    class: Option<Latency>,
    latency: impl Fn(&str) -> Option<Latency>,
) -> Result<Vec<AgentId>, WorkFailure> {
    let Some(class) = class.filter(|_| !agents.is_empty()) else { return Ok(agents) };
    let fit: Vec<AgentId> = agents.into_iter().filter(|agent| latency(agent.name()) == Some(class)).collect();
    if fit.is_empty() {
        let reason = format!("no agent here that can do it runs in the class {}", class.name());
        return Err(WorkFailure { reason, again: Again::Others });
    }
    Ok(fit)
}

/// The parameters of the message of a task.
#[derive(Serialize)]
struct TaskParams {
    message: TaskMessage,
}

/// The A2A message of a task.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskMessage {
    parts: TaskParts,
    message_id: String,
    role: Role,
    metadata: BTreeMap<&'static str, TaskMetadata>,
}

/// The parts of the message of a task.
#[derive(Serialize)]
#[serde(untagged)]
enum TaskParts {
    /// As whoever gave the task wrote them: they are checked with the parameters.
    Message(Value),
    /// What is no message is a text.
    Text(Vec<Part>),
}

/// Of which task of which group a message is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskMetadata {
    group: String,
    task: String,
    attempt: u8,
    fencing_token: u64,
    /// The same for each attempt: what an outside system executes once.
    idempotency_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// The steps of the workflow whose results are in it and that no gate judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_verified: Vec<String>,
}

/// The id of the message of an attempt. A second attempt is another message.
fn message_id(task: &Assigned) -> String {
    format!("{}-{}", task.task, task.token)
}

/// The parameters with which an agent is told a task. Its input is a message already, or a text.
fn params(task: &Assigned) -> Vec<u8> {
    let given: Option<Value> = serde_json::from_slice(&task.input).ok();
    // Only the parts: a task or context that it names could be somebody else's.
    let given = given.and_then(|mut given| given.get_mut("parts").filter(|parts| parts.is_array()).map(Value::take));
    let text = || TaskParts::Text(vec![Part::text(String::from_utf8_lossy(&task.input))]);
    let metadata = TaskMetadata {
        group: task.group.to_string(),
        task: task.task.to_string(),
        attempt: task.attempt,
        fencing_token: task.token,
        idempotency_key: task.task.to_string(),
        channel: task.channel.clone(),
        not_verified: task.unverified.clone(),
    };
    let message = TaskMessage {
        parts: given.map_or_else(text, TaskParts::Message),
        message_id: message_id(task),
        role: Role::User,
        metadata: BTreeMap::from([(METADATA, metadata)]),
    };
    serde_json::to_vec(&TaskParams { message }).expect("texts and numbers are JSON")
}

/// The text of an answer (`SendMessageResponse`): what the agent made; if it made nothing, what it said; nothing if neither is
/// text.
#[must_use]
pub fn answer_text(answer: &Value) -> String {
    let task = &answer["task"];
    let texts = |message: &Value| {
        let parts = message["parts"].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let made: Vec<String> = task["artifacts"].as_array().into_iter().flatten().flat_map(texts).collect();
    let said = || [&task["status"]["message"], &answer["message"]].into_iter().flat_map(texts).collect::<Vec<_>>();
    if made.is_empty() { said() } else { made }.join("\n")
}

/// Who may try again what an agent did not answer: what is not permitted here stays so.
fn again(error: &OperationError) -> Again {
    let is_unfit = matches!(
        error.refusal,
        Refusal::Unsupported
            | Refusal::ContentType
            | Refusal::InvalidParams
            | Refusal::InvalidRequest
            | Refusal::MethodNotFound
            | Refusal::VersionNotSupported
    );
    if is_unfit || error.refusal.is_of_host() { Again::Others } else { Again::Any }
}

/// What an agent's answer says of the task.
fn outcome(body: Vec<u8>) -> Result<Vec<u8>, WorkFailure> {
    let answer: Value = serde_json::from_slice(&body)
        .map_err(|error| WorkFailure { reason: format!("the agent's answer: {error}"), again: Again::Nobody })?;
    let Some(state) = answer["task"]["status"]["state"].as_str() else {
        let reason = || "the agent's answer is neither a task with a state nor a message".to_owned();
        let is_whole = answer["message"].is_object();
        return if is_whole { Ok(body) } else { Err(WorkFailure { reason: reason(), again: Again::Nobody }) };
    };
    let why = || {
        let parts = answer["task"]["status"]["message"]["parts"].as_array();
        let text = parts.into_iter().flatten().find_map(|part| part["text"].as_str());
        text.unwrap_or("it said no more").to_owned()
    };
    match state {
        "TASK_STATE_COMPLETED" => Ok(body),
        "TASK_STATE_FAILED" | "TASK_STATE_CANCELED" => {
            Err(WorkFailure { reason: format!("the agent ended it with {state}: {}", why()), again: Again::Any })
        }
        "TASK_STATE_REJECTED" | "TASK_STATE_AUTH_REQUIRED" => {
            Err(WorkFailure { reason: format!("the agent left it in {state}: {}", why()), again: Again::Others })
        }
        _ => Err(WorkFailure { reason: format!("the agent left it in {state}: {}", why()), again: Again::Nobody }),
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::AnswerAttributes;
    use althing_protocol::group::{Needs, Priority};
    use serde_json::json;

    use super::*;

    fn assigned(input: &str) -> Assigned {
        let owner = PublisherId::from_digest([1; 32]);
        Assigned {
            group: GroupId::from_digest([2; 32]),
            task: WorkId::from_bytes([3; 16]),
            token: 9,
            attempt: 2,
            author: Author::Publisher(owner),
            on_behalf_of: CallerId::Publisher(owner),
            needs: Needs::of(Target::Agent("clerk".to_owned())),
            input: input.as_bytes().to_vec(),
            priority: Priority::Normal,
            channel: None,
            deadline_ms: None,
            is_step: false,
            label: None,
            answer: AnswerAttributes::default(),
            unverified: Vec::new(),
        }
    }

    #[test]
    fn a_task_is_told_which_results_in_it_nobody_verified() {
        let task = Assigned { unverified: vec!["draft".to_owned()], ..assigned("{{step.draft}}") };
        let told: Value = serde_json::from_slice(&params(&task)).expect("JSON");
        assert_eq!(told["message"]["metadata"][METADATA]["notVerified"], json!(["draft"]));
    }

    #[test]
    fn an_agent_is_told_the_channel_of_its_task() {
        let task = Assigned { channel: Some("web".to_owned()), ..assigned("count the boats") };
        let told: Value = serde_json::from_slice(&params(&task)).expect("JSON");
        assert_eq!(told["message"]["metadata"][METADATA]["channel"], "web");
    }

    #[test]
    fn a_task_is_told_as_a_message_with_its_parts_and_nothing_else_of_what_was_given() {
        let one_text = |text: &str| format!(r#"[{{"text":{}}}]"#, json!(text));
        for (input, parts) in [
            ("count the boats", one_text("count the boats")),
            ("[7]", one_text("[7]")),
            (r#"{"parts":"no list"}"#, one_text(r#"{"parts":"no list"}"#)),
            (
                r#"{"messageId":"own","taskId":"another","role":"ROLE_AGENT","parts":[{"text":"a","media_type":"b/c"},7]}"#,
                r#"[{"text":"a","media_type":"b/c"},7]"#.to_owned(),
            ),
        ] {
            let task = assigned(input);
            let (group, id) = (task.group, task.task);
            let expected = format!(
                r#"{{"message":{{"parts":{parts},"messageId":"{id}-9","role":"ROLE_USER","metadata":{{"{METADATA}":{{"group":"{group}","task":"{id}","attempt":2,"fencingToken":9,"idempotencyKey":"{id}"}}}}}}}}"#
            );
            assert_eq!(String::from_utf8_lossy(&params(&task)), expected);
        }
    }

    #[test]
    fn the_parts_of_a_task_are_checked_as_those_of_any_message() {
        let parsed = |input: &str| OperationRequest::parse(Operation::SendMessage, params(&assigned(input)));
        assert!(parsed("count the boats").is_ok() && parsed(r#"{"parts":[{"data":{"boats":7}}]}"#).is_ok());
        for wrong in [r#"{"parts":[]}"#, r#"{"parts":[{"text":"a","url":"b"}]}"#, r#"{"parts":[7]}"#] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    fn agent(name: &str) -> AgentId {
        AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name")
    }

    #[test]
    fn only_a_task_that_is_completed_or_a_message_is_a_result() {
        let of = |answer: Value| outcome(answer.to_string().into_bytes());
        let state = |state: &str| json!({ "task": { "status": { "state": format!("TASK_STATE_{state}") } } });
        assert!(of(state("COMPLETED")).is_ok() && of(json!({ "message": { "parts": [] } })).is_ok());
        for state in
            ["WORKING", "SUBMITTED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"].map(state)
        {
            assert!(of(state.clone()).is_err(), "{state}");
        }
        assert!(of(json!({})).is_err() && of(json!({ "task": {} })).is_err());
    }

    #[test]
    fn a_task_that_needs_a_class_goes_to_an_agent_of_that_class_or_to_another_member() {
        let latency = |name: &str| match name {
            "arm" => Some(Latency::Hrt),
            "writer" => Some(Latency::Dt),
            _ => None,
        };
        let all = || vec![agent("arm"), agent("stopped"), agent("writer")];
        assert_eq!(in_class(all(), None, latency).ok(), Some(all()));
        assert_eq!(in_class(all(), Some(Latency::Hrt), latency).ok(), Some(vec![agent("arm")]));
        assert_eq!(in_class(all(), Some(Latency::Dt), latency).ok(), Some(vec![agent("writer")]));
        let refused = in_class(all(), Some(Latency::Srt), latency).expect_err("none of them");
        assert_eq!(refused.again, Again::Others);
        assert!(refused.reason.contains("srt"), "{}", refused.reason);
        assert_eq!(in_class(Vec::new(), Some(Latency::Srt), latency).ok(), Some(Vec::new()), "it may come back");
    }
}

//! The gate of an agent: the contract first, then the definition of the tool, labels and profiles, the owner's policies, and last
//! what people are asked. Any error denies.

use std::borrow::Cow;
use std::sync::Arc;

use althing_execution::Level;
use althing_execution::tools::{
    Ask, CallKind, Denied, GateVerdict, ModelClearance, Permission, Permit, ToolCall, ToolError, ToolGate, is_within,
};
use althing_policy::{EntityName, Gate, Kind, Verdict as PolicyVerdict};
use althing_protocol::audit::CallTerms;
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, AgentRef, Contract, Digest, Label, digest, digest_of_hex, hex};
use althing_store::{Batch, Durability};
use althing_td::Effect;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use crate::consultation::{self, Case, Consultation, unavailable};
use crate::decisions::DecisionRecord;
use crate::desk::by_policies;
use crate::governance::{Governance, person_of, profile, profile_elsewhere, revision};
use crate::leaves::CallFacts;
use crate::machine::arguments::{arguments_digest, canonical};
use crate::machine::consent::{DefinitionState, ToolChange};
use crate::machine::profile::ToolProfile;
use crate::machine::rules::{Conclusion, Rule, Statement, Statements, Wants, conclude};
use crate::machine::taint::{LabelFinding, LabelledCall, Origin, Taint, Verdict};
use crate::pending::until_answered;
use crate::policies::PolicyRequest;
use crate::records;
use crate::tool_changes;
use crate::toolset::Profiles;

/// What sends the texts of its arguments to the model that makes the embeddings of an agent's memory, where there is one.
const EMBEDDED: [&str; 2] = ["memory/recall", "memory/remember"];
/// Characters of a name that an agent chose, in what is said to whoever sent the message.
const NAME_CHARS: usize = 60;

/// The gate of one agent.
pub(crate) struct AgentGate {
    governance: Governance,
    base: Arc<dyn ToolGate>,
    /// The agent that it was made for, and its id and its publisher's as policies write them.
    agent: AgentId,
    written: [String; 2],
    contract: Digest,
    data_label: DataLabel,
    /// The highest tier of tools that its contract lets it call.
    tier_max: Option<u8>,
    profiles: Profiles,
}

/// One call, with all that is looked up for it once.
struct Look<'a> {
    call: &'a ToolCall<'a>,
    person: String,
    profile: ToolProfile,
    labels: Option<LabelFinding>,
    definition: Digest,
    server: Digest,
    label: Label,
    policy: Option<Digest>,
    /// That of policies and people, read before anything of these was.
    revision: u64,
}

/// What the rules say of a call.
struct Findings {
    conclusion: Conclusion,
    request: Option<PolicyRequest>,
    policy: Option<PolicyVerdict>,
    /// Rows of the contract's gate, and of definitions that are seen for the first time.
    rows: Batch,
    receipt: Option<[u8; 16]>,
}

impl Governance {
    /// The gate of an agent: `base` decides first, which goes by its contract, and what this wants consent for is asked.
    #[must_use]
    pub fn gate(
        &self,
        base: Arc<dyn ToolGate>,
        agent: &AgentRef,
        contract: &Contract,
        profiles: Profiles,
    ) -> Arc<dyn ToolGate> {
        Arc::new(AgentGate::new(self, base, (agent, contract), profiles))
    }
}

impl ToolGate for AgentGate {
    fn lists(&self, agent: &AgentRef, tool: &str) -> Permission {
        match self.base.lists(agent, tool) {
            Permission::Allowed | Permission::Ask if self.is_above(tool) => Permission::Denied,
            // Somebody can be asked here, so that a model may see it.
            Permission::Ask => Permission::Allowed,
            other => other,
        }
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        self.rule(call).boxed()
    }

    fn is_current(&self, _: &ToolCall<'_>, permit: &Permit) -> bool {
        // The contract stays what it is, and the definition of the tool is compared when it is called.
        permit.revision == revision(&self.governance)
            && permit.receipt.is_none_or(|receipt| consultation::is_granted(&self.governance, &receipt))
    }

    fn take_back(&self, receipt: &[u8; 16]) {
        consultation::take_back(&self.governance, receipt);
    }

    fn settle<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        permit: &'a Permit,
        outcome: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        self.settled(call, permit, outcome).boxed()
    }
}

impl AgentGate {
    /// The gate of an agent, as [`Governance::gate`] gives it; policies know the agent from now on.
    pub fn new(
        governance: &Governance,
        base: Arc<dyn ToolGate>,
        (agent, contract): (&AgentRef, &Contract),
        profiles: Profiles,
    ) -> AgentGate {
        governance.policies().take_own(agent);
        governance.policies().refusals.note_data(agent.name(), contract.data_label);
        AgentGate {
            governance: governance.clone(),
            base,
            agent: agent.id.clone(),
            written: [agent.id.to_string(), agent.id.publisher().to_string()],
            contract: contract.digest(),
            data_label: contract.data_label,
            tier_max: contract.security.max_tier,
            profiles,
        }
    }

    /// Denies a call of an agent that its owner stopped, on record as any other denial.
    pub(crate) async fn refuse(&self, call: &ToolCall<'_>, denied: Denied) -> GateVerdict {
        let look = self.look(call);
        let conclusion = Conclusion::Deny { rule: Rule::Stop, reason: denied.reason.clone() };
        let findings = Findings { conclusion, request: None, policy: None, rows: Batch::new(), receipt: None };
        self.deny(&look, &self.facts(&look, &[]), &findings, (Rule::Stop, denied.reason)).await
    }

    async fn rule(&self, call: &ToolCall<'_>) -> GateVerdict {
        let look = self.look(call);
        if call.kind == CallKind::Tool {
            self.governance.turns().note(call.task, false);
        }
        let mut findings = self.findings(&look).await;
        let deciding = findings.policy.as_ref().map(|policy| policy.policies.iter().cloned().collect::<Vec<_>>());
        let deciding = deciding.unwrap_or_default();
        let facts = self.facts(&look, &deciding);
        let conclusion = std::mem::replace(&mut findings.conclusion, Conclusion::Permit);
        match conclusion {
            Conclusion::Deny { rule, reason } => self.deny(&look, &facts, &findings, (rule, reason)).await,
            Conclusion::Permit => self.permit(&look, &facts, findings).await,
            Conclusion::Ask(wants) => self.consult(&look, &facts, findings, wants).await,
        }
    }

    fn look<'a>(&self, call: &'a ToolCall<'a>) -> Look<'a> {
        let revision = revision(&self.governance);
        let profile = self.profile(call);
        let labels = self.labels(call, &profile);
        let server = self.profiles.servers.get(call.server);
        Look {
            call,
            person: person_of(&self.governance, call.principals),
            profile,
            labels,
            definition: digest_of_hex(call.definition).unwrap_or_else(|| digest(call.definition.as_bytes())),
            server: server.copied().unwrap_or_else(|| digest(call.server.as_bytes())),
            label: labels.map_or_else(|| self.carried(call), |finding| finding.label),
            policy: self.governance.policies().digest(),
            revision,
        }
    }

    /// The id of an agent and its publisher's, as policies write them.
    fn written(&self, agent: &AgentId) -> [Cow<'_, str>; 2] {
        match *agent == self.agent {
            true => self.written.each_ref().map(|text| Cow::from(text.as_str())),
            false => [agent.to_string().into(), agent.publisher().to_string().into()],
        }
    }

    fn profile(&self, call: &ToolCall<'_>) -> ToolProfile {
        if call.kind != CallKind::Tool {
            return ToolProfile { effect: Effect::None, ..ToolProfile::unlimited() };
        }
        let said = match call.level {
            // By now it is known that a part of its network is open.
            Some(level) if level < Level::Namespaces => profile_elsewhere(call.tool, &self.profiles),
            _ => profile(call.tool, &self.profiles),
        };
        said.known(call.tool)
    }

    /// Whether the tier of a tool is above the highest that the contract lets the agent call.
    fn is_above(&self, tool: &str) -> bool {
        let tier_max = self.tier_max.filter(|_| !is_within(tool));
        tier_max.is_some() && profile(tool, &self.profiles).is_above(tier_max)
    }

    /// The label of all that the turn was given so far.
    fn carried(&self, call: &ToolCall<'_>) -> Label {
        Taint::of_message(call.carries, Origin::Here, self.data_label).label()
    }

    /// What labels say of a call; nothing of what nobody is given by it.
    fn labels(&self, call: &ToolCall<'_>, profile: &ToolProfile) -> Option<LabelFinding> {
        let taint = Taint::of_message(call.carries, Origin::Here, self.data_label);
        let is_demanded = self.governance.policies().labels_decide();
        if let Some(ModelClearance { level, is_written }) = self.model_of(call) {
            return Some(LabelFinding::of_model(taint, &ToolProfile::of_model(level, is_written), is_demanded));
        }
        if call.kind != CallKind::Tool {
            return None;
        }
        let labelled = LabelledCall {
            profile,
            has_arguments: call.arguments.as_object().is_none_or(|members| !members.is_empty()),
            hidden: None,
            // What is the node's own, and stays within it, has no tier.
            tier_max: self.tier_max.filter(|_| !is_within(call.tool)),
        };
        Some(LabelFinding::of(taint, &labelled, is_demanded))
    }

    /// How far the model is cleared that is given what a call has: the one that is asked, or that makes the embeddings of what is
    /// remembered, and of questions to that.
    fn model_of(&self, call: &ToolCall<'_>) -> Option<ModelClearance> {
        match call.kind {
            CallKind::Model => Some(call.clearance.unwrap_or_default()),
            CallKind::Tool | CallKind::Recall => self.profiles.embeddings.filter(|_| EMBEDDED.contains(&call.tool)),
        }
    }

    fn facts<'a>(&self, look: &'a Look<'a>, deciding: &'a [String]) -> CallFacts<'a> {
        CallFacts {
            call: look.call,
            definition: look.definition,
            label: look.label,
            policy: look.policy,
            person: &look.person,
            contract: self.contract,
            deciding,
            at_ms: self.governance.now_ms(),
        }
    }

    /// What each rule says.
    async fn findings(&self, look: &Look<'_>) -> Findings {
        let call = look.call;
        let (mut rows, mut receipt) = (Batch::new(), None);
        let asks = call.kind == CallKind::Tool && self.base.lists(call.agent, call.tool) == Permission::Ask;
        let wanted = || Statement::Ask(Wants::consent("the contract of the agent wants it (`security.consent_for`)"));
        let contract = match asks {
            true => wanted(),
            false => match self.base.decide(call).await {
                GateVerdict::Permit(permit) => {
                    (rows, receipt) = (permit.rows, permit.receipt);
                    Statement::Permit
                }
                GateVerdict::Ask(_) => wanted(),
                GateVerdict::Deny(Denied { reason }) => Statement::Deny(reason),
            },
        };
        // A contract that denies says nothing of whether there is such a tool.
        let definition = match &contract {
            Statement::Deny(_) => DefinitionState::Same,
            _ if call.definition.is_empty() => DefinitionState::Same,
            _ => {
                let [agent, _] = self.written(&call.agent.id);
                let now = (look.definition, look.server);
                let state = self.governance.definitions().see((&agent, call.tool), now).await;
                // One that is new may have been another one, to which somebody agreed when the agent was added again.
                if matches!(state, DefinitionState::Changed | DefinitionState::New) {
                    self.end_consents(call, Some(now)).await;
                }
                state
            }
        };
        let (mut request, mut policy, mut said) = (None, None, None);
        if !matches!(contract, Statement::Deny(_)) && self.governance.policies().is_loaded() {
            let asked = self.request(look);
            if let Some((statement, verdict)) = by_policies(&self.governance, &asked) {
                (said, policy) = (Some(statement), verdict);
            }
            request = Some(asked);
        }
        let conclusion = conclude(Statements { contract, definition, labels: look.labels, policy: said });
        Findings { conclusion, request, policy, rows, receipt }
    }

    /// The call as policies see it.
    fn request(&self, look: &Look<'_>) -> PolicyRequest {
        let (call, policies) = (look.call, self.governance.policies());
        let [agent, publisher] = self.written(&call.agent.id);
        let mut facts: Vec<_> = policies.act((&agent, &call.agent.version, &publisher)).into_iter().collect();
        let (gate, resource, arguments) = subject(call);
        match gate {
            Gate::Model => facts.extend(policies.take_model(&resource.id, call.clearance.unwrap_or_default())),
            // What has no definition a model may have made up: nothing is known of it.
            Gate::UseTool if !call.definition.is_empty() => policies.take_tool(&agent, call.tool, look.profile),
            _ => {}
        }
        PolicyRequest {
            principal: EntityName::new(Kind::Agent, agent),
            gate,
            resource,
            arguments,
            label: look.label,
            person: Some(look.person.clone()),
            facts,
        }
    }

    async fn deny(
        &self,
        look: &Look<'_>,
        facts: &CallFacts<'_>,
        findings: &Findings,
        (rule, reason): (Rule, String),
    ) -> GateVerdict {
        self.note(look, findings, ("deny", Some(rule)), &reason);
        // Nothing was done that would have to be known before.
        records::at_least(&self.governance, facts.denied(&reason), "the denial of a call").await;
        self.governance.turns().note(look.call.task, true);
        GateVerdict::Deny(Denied { reason })
    }

    async fn permit(&self, look: &Look<'_>, facts: &CallFacts<'_>, findings: Findings) -> GateVerdict {
        self.note(look, &findings, ("permit", None), "");
        let Findings { mut rows, receipt, .. } = findings;
        if look.has_effect() {
            match self.governance.audit().entry(facts.intent(None)) {
                Ok(leaf) => {
                    rows.append(leaf);
                    self.governance.turns().note(look.call.task, true);
                }
                Err(error) => return GateVerdict::Deny(Denied { reason: unavailable(&error) }),
            }
        }
        if look.call.is_journalled {
            return look.permit(rows, receipt);
        }
        let durability = if look.has_effect() { Durability::Synced } else { Durability::Buffered };
        match self.governance.write(rows, durability).await {
            Ok(()) => look.permit(Batch::new(), receipt),
            Err(error) => GateVerdict::Deny(Denied { reason: format!("AUDIT_UNAVAILABLE: {error}") }),
        }
    }

    async fn consult(&self, look: &Look<'_>, facts: &CallFacts<'_>, findings: Findings, wants: Wants) -> GateVerdict {
        let call = look.call;
        if call.asks_nobody {
            let reason = "somebody must agree, and a test asks nobody".to_owned();
            return self.deny(look, facts, &findings, (Rule::People, reason)).await;
        }
        let case = Case {
            terms: look.terms(),
            task: call.task,
            version: &call.agent.version,
            principals: call.principals,
            person: look.person.clone(),
            arguments: call.arguments,
            is_journalled: call.is_journalled,
            is_resumable: call.is_journalled,
            key: None,
            is_again: false,
            policies: facts.deciding,
            passed: &[],
        };
        let audit = &self.governance.audit();
        let leaf = |consent| {
            if look.has_effect() { audit.entry(facts.intent(consent)) } else { Ok(Batch::new()) }
        };
        match consultation::consult(&self.governance, &case, &wants, leaf).await {
            Consultation::Denied(reason) => self.deny(look, facts, &findings, (Rule::People, reason)).await,
            Consultation::Waits(id) => {
                self.governance.turns().note(call.task, true);
                self.note(look, &findings, ("ask", None), &wants.consent.join("; "));
                let tool: String = call.tool.chars().take(NAME_CHARS).collect();
                let agent = call.agent.name();
                let to = format!(
                    "somebody must agree before {agent} calls {tool}, and was asked (question {}); nothing is done until then",
                    hex(&id)
                );
                GateVerdict::Ask(Ask { id: hex(&id), to, answered: until_answered(&self.governance, id) })
            }
            Consultation::Given { rows: given, receipt } => {
                self.governance.turns().note(call.task, look.has_effect());
                self.note(look, &findings, ("permit", None), "people agreed");
                let (mut rows, receipt) = (findings.rows, receipt.or(findings.receipt));
                rows.append(given);
                if call.is_journalled {
                    return look.permit(rows, receipt);
                }
                match self.governance.write(rows, Durability::Buffered).await {
                    Ok(()) => look.permit(Batch::new(), receipt),
                    Err(error) => GateVerdict::Deny(Denied { reason: format!("AUDIT_UNAVAILABLE: {error}") }),
                }
            }
        }
    }

    /// The tool of a call is not what it was: ends what people were asked about it, and agreed to.
    async fn end_consents(&self, call: &ToolCall<'_>, now: Option<(Digest, Digest)>) {
        let change = ToolChange { agent: &call.agent.id, action: call.tool, now };
        // Boxed, or each call would have room for it.
        Box::pin(tool_changes::end_consents(&self.governance, &change)).await;
    }

    async fn settled(&self, call: &ToolCall<'_>, permit: &Permit, outcome: Result<&Value, &ToolError>) -> Batch {
        if tool_changes::is_changed(outcome) {
            self.end_consents(call, None).await;
        }
        let mut rows = self.base.settle(call, permit, outcome).await;
        // Of what has no effect nothing is on record, and nothing is looked up.
        if has_effect(call, &self.profile(call)) {
            let consent = permit.receipt.and_then(|receipt| consultation::consent_of(&self.governance, &receipt));
            let look = self.look(call);
            let said = match outcome {
                Ok(result) if result["isError"] == true => Err(result.to_string()),
                Ok(result) => Ok(result.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let after = look.label.join(look.profile.result_label(self.data_label));
            let facts = self.facts(&look, &[]);
            match self.governance.audit().entry_at_least(facts.outcome((consent, Some(after)), said)) {
                Ok(leaf) => {
                    rows.append(leaf);
                }
                Err(error) => tracing::error!(%error, "the outcome of a call has no entry in the audit log"),
            }
        }
        if call.is_journalled {
            return rows;
        }
        // On disk with the end of the task, which is written before anybody is told of it.
        if let Err(error) = self.governance.write(rows, Durability::Buffered).await {
            tracing::error!(%error, "the outcome of a call could not be written");
        }
        Batch::new()
    }

    /// Remembers the decision, where policies are in force, or it was no plain permit, or labels would have said something else.
    fn note(&self, look: &Look<'_>, findings: &Findings, (answer, rule): (&str, Option<Rule>), reason: &str) {
        let shadow = look.labels.filter(|finding| !finding.decides).map(|finding| finding.verdict);
        let is_plain = answer == "permit" && shadow.is_none_or(|verdict| verdict == Verdict::Permit);
        if findings.request.is_none() && is_plain {
            return;
        }
        let call = look.call;
        let without_policies = || {
            let (gate, resource, arguments) = subject(call);
            let principal = EntityName::new(Kind::Agent, call.agent.id.to_string());
            let (label, person, facts) = (look.label, Some(look.person.clone()), Vec::new());
            PolicyRequest { principal, gate, resource, arguments, label, person, facts }
        };
        let request = findings.request.as_ref().map_or_else(|| Cow::Owned(without_policies()), Cow::Borrowed);
        let at = (look.policy, self.governance.now_ms());
        let record = DecisionRecord::of(&request, findings.policy.as_ref(), (answer, rule, reason), at);
        let labels = shadow.map(|verdict| verdict.to_string());
        self.governance.decision_log().note(DecisionRecord { task: call.task.to_owned(), labels, ..record });
    }
}

impl Look<'_> {
    /// Whether the call may change something outside: it has an intent and an outcome in the audit log.
    fn has_effect(&self) -> bool {
        has_effect(self.call, &self.profile)
    }

    fn permit(&self, rows: Batch, receipt: Option<[u8; 16]>) -> GateVerdict {
        GateVerdict::Permit(Permit { rows, receipt, revision: self.revision })
    }

    /// What people are asked about, or agreed to.
    fn terms(&self) -> CallTerms {
        let Look { call, definition, server, label, policy, .. } = *self;
        let (agent, action) = (call.agent.id.clone(), call.tool.to_owned());
        CallTerms { agent, action, definition, server, arguments: arguments_digest(call.arguments), label, policy }
    }
}

/// See [`Look::has_effect`].
fn has_effect(call: &ToolCall<'_>, profile: &ToolProfile) -> bool {
    call.kind == CallKind::Tool && profile.effect != Effect::None
}

fn memory_of(call: &ToolCall<'_>) -> EntityName {
    EntityName::new(Kind::Memory, call.agent.name())
}

/// What is done by a call, with what, and its arguments, as policies write them.
fn subject(call: &ToolCall<'_>) -> (Gate, EntityName, Map<String, Value>) {
    let name = call.tool.split_once('/').map_or(call.tool, |(_, name)| name);
    match (call.kind, call.server, name) {
        (CallKind::Model, ..) => {
            let tokens = call.arguments.get("max_tokens").cloned().map(|most| ("tokens".to_owned(), most));
            (Gate::Model, EntityName::new(Kind::Model, name), tokens.into_iter().collect())
        }
        (CallKind::Recall, ..) | (CallKind::Tool, "memory", "get" | "keys" | "recall") => (
            Gate::Recall,
            memory_of(call),
            named(call.arguments, &[("key", &["key", "prefix"]), ("query", &["question"])]),
        ),
        (CallKind::Tool, "memory", _) => {
            let names: [(&str, &[&str]); 3] =
                [("key", &["key"]), ("text", &["text", "value"]), ("source", &["source"])];
            (Gate::Remember, memory_of(call), named(call.arguments, &names))
        }
        (CallKind::Tool, ..) => {
            let arguments = call.arguments.as_object().cloned().unwrap_or_default();
            (Gate::UseTool, EntityName::new(Kind::Tool, call.tool), arguments)
        }
    }
}

/// Arguments by the names that policies have for them; what is no text is shown as one, so that nothing is hidden.
fn named(arguments: &Value, names: &[(&str, &[&str])]) -> Map<String, Value> {
    let text = |value: &Value| value.as_str().map_or_else(|| canonical(value), str::to_owned);
    let of = |(name, own): &(&str, &[&str])| {
        let value = own.iter().find_map(|own| arguments.get(*own))?;
        Some(((*name).to_owned(), text(value).into()))
    };
    names.iter().filter_map(of).collect()
}

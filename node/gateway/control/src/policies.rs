//! Policies in the control API: which are in force, what they say, what others would say; and who may do something.

use std::sync::Arc;

use althing_api::{
    ActionQuery, ActionReport, ActionRight, DataReach, DecisionReport, Kind, PolicyCase, PolicyDifference,
    PolicyDifferences, PolicyExplanation, PolicyFinding, PolicyFindings, PolicyNode, PolicyQuestion, PolicyReason,
    PolicyReport, PolicyTest, PolicyTestReport, PolicyText, PolicyVerdict, TaskDecisions,
};
use althing_node::NodeError;
use althing_operations::Operations;
use althing_operations::governance::{
    ChangeError, DecisionRecord, Explanation, Finding, LabelOutlook, Outcome, PolicyDiff, PolicyStatus, TrialError,
    Turnabout, Verdict, demand_words, explain_labels, explain_policy, near_name, rights, test_policy, unload_policy,
};
use althing_protocol::{AgentId, Label, hex};
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value};

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};
use crate::requester::{Requester, actor};

/// Of the newest decisions, how many are looked at for those of one task.
const LOOKED_AT_MAX: usize = 1_024;

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> ApiError {
        let kind = match &error {
            ChangeError::Policies(_) | ChangeError::World(_) | ChangeError::People(_) => Kind::Invalid,
            ChangeError::NotOwner(_) | ChangeError::Profile { .. } => Kind::Refused,
            ChangeError::NoPolicies => Kind::Conflict,
            ChangeError::File { .. } | ChangeError::Audit(_) | ChangeError::Write(_) | ChangeError::Decisions(_) => {
                Kind::Failed
            }
        };
        ApiError::new(kind, error.to_string())
    }
}

impl From<TrialError> for ApiError {
    fn from(error: TrialError) -> ApiError {
        match error {
            TrialError::Policies(error) => error.into(),
            TrialError::None => ApiError::new(Kind::Conflict, error.to_string()),
            TrialError::Cases(_) => ApiError::invalid(error.to_string()),
        }
    }
}

/// `GET /policy`
pub async fn status(State(node): State<Arc<Operations>>) -> Json<PolicyReport> {
    let nodes = nodes(&node).await;
    Json(report(node.governance.policy(), nodes))
}

/// `POST /policy`
pub async fn load(
    State(node): State<Arc<Operations>>,
    Requester(principal): Requester,
    Body(PolicyText { text }): Body<PolicyText>,
) -> Answer<PolicyReport> {
    let by = actor(&node, &principal)?;
    detached(async move {
        let mut status = node.orders.put_in_force(node.governance.load_policy(&text, by)).await?;
        // They are in force here, whether the owner's other nodes can be told or not.
        if let Err(error) = node.orders.give_policy_set(&node.owner()).await {
            status.findings.push(untold(&error));
        }
        let nodes = nodes(&node).await;
        Ok(Json(report(status, nodes)))
    })
    .await
}

/// `DELETE /policy`
pub async fn unload(State(node): State<Arc<Operations>>, Requester(principal): Requester) -> Answer<PolicyReport> {
    let by = actor(&node, &principal)?;
    detached(async move {
        let status = node.orders.put_in_force(unload_policy(&node.governance, by)).await?;
        let nodes = nodes(&node).await;
        let mut report = report(status, nodes);
        report.findings.extend(kept(&report.nodes));
        Ok(Json(report))
    })
    .await
}

/// No order says that a set is taken out: whoever has one keeps it.
fn kept(nodes: &[PolicyNode]) -> Option<PolicyFinding> {
    let keeps = nodes.iter().filter(|node| node.digest.is_some()).count();
    let told = |what: String| {
        let remedy = "take the policies out on each of them".to_owned();
        PolicyFinding { line: None, column: None, policy: None, what, remedy }
    };
    (keeps > 0).then(|| told(format!("{keeps} of this owner's other nodes that are connected keep their policies")))
}

fn untold(error: &NodeError) -> Finding {
    Finding {
        file: String::new(),
        place: None,
        policy: None,
        what: format!("the other nodes of this owner were not told of it: {error}"),
        remedy: "put the policies in force there too".to_owned(),
    }
}

/// Which set each of the owner's other nodes has that are connected.
async fn nodes(node: &Operations) -> Vec<PolicyNode> {
    let known = node.orders.policy_sets().await.into_iter().map(|one| match one.standing {
        Ok(standing) => {
            let digest = standing.digest.map(|digest| hex(&digest));
            PolicyNode { node: one.node.did(), digest, why: standing.failure }
        }
        Err(why) => PolicyNode { node: one.node.did(), digest: None, why: Some(why) },
    });
    known.collect()
}

/// `POST /policy/lint`
pub async fn lint(
    State(node): State<Arc<Operations>>,
    Body(PolicyText { text }): Body<PolicyText>,
) -> Answer<PolicyFindings> {
    let found = node.governance.lint_policy(&text)?;
    Ok(Json(PolicyFindings { findings: found.into_iter().map(finding).collect() }))
}

/// `POST /policy/test`
pub async fn test(
    State(node): State<Arc<Operations>>,
    Body(PolicyTest { policy, cases }): Body<PolicyTest>,
) -> Answer<PolicyTestReport> {
    let outcomes = test_policy(&node.governance, policy.as_deref(), &cases)?;
    let failed = outcomes.iter().filter(|outcome| !outcome.holds()).count();
    let passed = outcomes.len() - failed;
    Ok(Json(PolicyTestReport { passed, failed, cases: outcomes.iter().map(case).collect() }))
}

/// `POST /policy/explain`
pub async fn explain(
    State(node): State<Arc<Operations>>,
    Body(question): Body<PolicyQuestion>,
) -> Answer<PolicyExplanation> {
    let PolicyQuestion { principal, action, resource, context } = question;
    let (principal, resource) = (of_owner(&node, principal), of_owner(&node, resource));
    let near: Vec<String> =
        [&principal, &resource].into_iter().filter_map(|name| near_name(&node.governance, name)).collect();
    let texts = [("principal", principal), ("action", action), ("resource", resource)];
    let mut members: Map<String, Value> =
        texts.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect();
    if !context.is_null() {
        members.insert("context".to_owned(), context);
    }
    let mut explained = match explain_policy(&node.governance, members.clone()) {
        Err(TrialError::None) => by_labels(explain_labels(&node.governance, members)?),
        explained => with_labels(explanation(explained?), explain_labels(&node.governance, members)?),
    };
    if !near.is_empty() {
        explained.rule = with_near(&explained.rule, &near);
    }
    Ok(Json(explained))
}

/// What is said, as a sentence, and then which names may be meant.
fn with_near(said: &str, near: &[String]) -> String {
    let stop = if said.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{said}{stop} Did you mean {}?", near.join(", "))
}

/// An agent that is named without its owner is one of this node's owner.
fn of_owner(node: &Operations, principal: String) -> String {
    let name = principal.strip_prefix("Agent::\"").and_then(|rest| rest.strip_suffix('"'));
    let agent = name.and_then(|name| AgentId::new(node.owner().id(), name).ok());
    agent.map_or(principal, |agent| format!("Agent::\"{agent}\""))
}

/// `POST /policy/diff`
pub async fn diff(
    State(node): State<Arc<Operations>>,
    Body(PolicyText { text }): Body<PolicyText>,
) -> Answer<PolicyDifferences> {
    let PolicyDiff { turned, unread, damaged } = node.governance.diff_policy(&text)?;
    // The newest first, as other lists of what happened.
    Ok(Json(PolicyDifferences { turned: turned.into_iter().rev().map(difference).collect(), unread, damaged }))
}

/// `GET /decisions/{decision}`
pub async fn decision(State(node): State<Arc<Operations>>, Path(decision): Path<String>) -> Answer<DecisionReport> {
    let number: u64 =
        decision.parse().map_err(|_| ApiError::invalid(format!("{decision:?} is no number of a decision")))?;
    let found = node.governance.decision(number).map_err(|error| ApiError::new(Kind::Failed, error.to_string()))?;
    let found = found.ok_or_else(|| {
        ApiError::new(Kind::NotFound, format!("no decision {number} is remembered: only the newest are"))
    })?;
    Ok(Json(decided(number, found)))
}

/// `GET /tasks/{task}/decisions`
pub async fn of_task(State(node): State<Arc<Operations>>, Path(task): Path<String>) -> Answer<TaskDecisions> {
    let newest = node.governance.decisions(LOOKED_AT_MAX).map_err(|error| ApiError::failed(error.to_string()))?;
    let of_task = newest.records.into_iter().filter(|(_, record)| record.task == task);
    Ok(Json(TaskDecisions { decisions: of_task.map(|(number, record)| decided(number, record)).collect() }))
}

/// `GET /who`
pub async fn who(
    State(node): State<Arc<Operations>>,
    Parameters(ActionQuery { action }): Parameters<ActionQuery>,
) -> Answer<ActionReport> {
    let right = |right: althing_operations::governance::ActionRight| ActionRight {
        agent: right.agent.id.to_string(),
        accountable: right.accountable,
        answer: right.answer.to_owned(),
        why: right.why,
    };
    let agents = rights(&node, &action)?.into_iter().map(right).collect();
    Ok(Json(ActionReport { action, agents }))
}

/// A label, as it is told.
pub fn reach(label: Label) -> DataReach {
    DataReach { level: label.level.name().to_owned(), trusted: label.trusted }
}

fn report(status: PolicyStatus, nodes: Vec<PolicyNode>) -> PolicyReport {
    let PolicyStatus { digest, policies, loaded_ms, is_broken, findings } = status;
    let loaded_ms = digest.is_some().then_some(loaded_ms);
    let findings = findings.into_iter().map(finding).collect();
    PolicyReport { digest, policies, loaded_ms, broken: is_broken, findings, nodes }
}

fn finding(found: Finding) -> PolicyFinding {
    let Finding { file: _, place, policy, what, remedy } = found;
    let (line, column) = (place.map(|place| place.line), place.map(|place| place.column));
    PolicyFinding { line, column, policy, what, remedy }
}

fn verdict(verdict: &Verdict) -> PolicyVerdict {
    PolicyVerdict {
        answer: verdict.answer.word().to_owned(),
        demands: demand_words(verdict),
        policies: verdict.policies.iter().cloned().collect(),
        errors: verdict.errors.iter().map(ToString::to_string).collect(),
    }
}

fn case(outcome: &Outcome) -> PolicyCase {
    PolicyCase {
        name: outcome.name.clone(),
        passed: outcome.holds(),
        expected: outcome.expect.word().to_owned(),
        verdict: verdict(&outcome.verdict),
    }
}

fn explanation(explained: Explanation) -> PolicyExplanation {
    let Explanation { verdict: decided, reasons, rule } = explained;
    let reasons = reasons.into_iter().map(|reason| PolicyReason {
        policy: reason.policy,
        line: reason.place.map(|place| place.line),
        text: reason.text,
        demands: reason.demands.iter().map(ToString::to_string).collect(),
    });
    PolicyExplanation { verdict: verdict(&decided), rule: rule.to_owned(), reasons: reasons.collect(), labels: None }
}

/// What follows where policies are in force, so that labels decide too: the stricter of both.
fn with_labels(explained: PolicyExplanation, LabelOutlook { words, answer }: LabelOutlook) -> PolicyExplanation {
    let strictness = |answer: &str| ["permit", "ask", "deny"].iter().position(|word| *word == answer);
    if answer == "permit" {
        return explained;
    }
    let mut told = PolicyExplanation { labels: words, ..explained };
    if strictness(answer) > strictness(&told.verdict.answer) {
        told.rule =
            format!("Labels decide too where policies are in force, and are stricter here. Of these: {}", told.rule);
        told.verdict.answer = answer.to_owned();
        told.verdict.demands.clear();
    }
    if told.verdict.answer == "ask" {
        told.verdict.demands.push("consent".to_owned());
        told.verdict.demands.dedup();
    }
    told
}

/// What is answered where no policies are in force: what labels decide, or would.
fn by_labels(LabelOutlook { words, answer }: LabelOutlook) -> PolicyExplanation {
    let rule = match (&words, answer) {
        (None, _) => {
            "no policies are in force: contracts and the profiles of tools decide alone, and labels say nothing of it"
        }
        (Some(_), "permit") => "no policies are in force: contracts and the profiles of tools decide alone",
        (Some(_), _) => "no policies are in force: labels decide about it, besides the contract",
    };
    let (demands, policies, errors) = (Vec::new(), Vec::new(), Vec::new());
    let verdict = PolicyVerdict { answer: answer.to_owned(), demands, policies, errors };
    PolicyExplanation { verdict, rule: rule.to_owned(), reasons: Vec::new(), labels: words }
}

fn difference(turned: Turnabout) -> PolicyDifference {
    let Turnabout { id, decision, becomes, policies } = turned;
    let DecisionRecord { principal, resource, answer, policy_answer, .. } = decision;
    let was = policy_answer.unwrap_or(answer);
    PolicyDifference { decision: id, principal, resource, was, becomes: becomes.to_owned(), policies }
}

fn decided(number: u64, record: DecisionRecord) -> DecisionReport {
    let (demands, policies) = (record.demands, record.policies);
    let said = record.policy_answer;
    DecisionReport {
        decision: number,
        at_ms: record.at_ms,
        principal: record.principal,
        action: record.gate,
        resource: record.resource,
        label: reach(record.label),
        person: record.person,
        answer: record.answer,
        rule: record.rule,
        reason: record.reason,
        verdict: said.map(|answer| PolicyVerdict { answer, demands, policies, errors: Vec::new() }),
        policy: record.set.map(|digest| hex(&digest)),
        labels: record.labels,
        task: Some(record.task).filter(|task| !task.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_meant_follow_a_sentence_that_is_over() {
        let near = ["\"biller\"".to_owned(), "\"clerk\"".to_owned()];
        let told = "labels say nothing of it. Did you mean \"biller\", \"clerk\"?";
        for said in ["labels say nothing of it", "labels say nothing of it."] {
            assert_eq!(with_near(said, &near), told);
        }
    }

    #[test]
    fn a_set_that_is_not_in_force_has_no_time() {
        let broken = PolicyStatus { digest: None, policies: 0, loaded_ms: 0, is_broken: true, findings: Vec::new() };
        let told = report(broken.clone(), Vec::new());
        assert!(told.broken && told.loaded_ms.is_none());
        let some = PolicyStatus { digest: Some("0a".to_owned()), loaded_ms: 7, is_broken: false, ..broken };
        let told = report(some, Vec::new());
        assert_eq!((told.broken, told.loaded_ms), (false, Some(7)));
    }

    #[test]
    fn where_no_policies_are_in_force_what_labels_would_say_is_told_beside_what_is_done() {
        let of = |words: Option<&str>, answer| by_labels(LabelOutlook { words: words.map(str::to_owned), answer });
        let told = of(Some("deny: no"), "permit");
        assert_eq!((told.verdict.answer.as_str(), told.labels.as_deref()), ("permit", Some("deny: no")));
        let decided = of(Some("deny: no"), "deny");
        assert!(decided.verdict.answer == "deny" && decided.rule.contains("labels decide about it"), "{decided:?}");
        let unknown = of(None, "permit");
        assert!(unknown.labels.is_none() && unknown.rule.ends_with("labels say nothing of it"), "{unknown:?}");
        for one in [told, decided, unknown] {
            assert!(one.rule.starts_with("no policies are in force"), "{one:?}");
        }
    }

    #[test]
    fn where_policies_are_in_force_the_stricter_of_these_and_of_labels_is_told() {
        let of = |policies: &str, labels: Option<&str>, answer| {
            let verdict = PolicyVerdict {
                answer: policies.to_owned(),
                demands: if policies == "ask" { vec!["consent (it costs money)".to_owned()] } else { Vec::new() },
                policies: vec!["pay".to_owned()],
                errors: Vec::new(),
            };
            let explained =
                PolicyExplanation { verdict, rule: "A permit applies.".to_owned(), reasons: Vec::new(), labels: None };
            with_labels(explained, LabelOutlook { words: labels.map(str::to_owned), answer })
        };
        for policies in ["permit", "ask"] {
            let told = of(policies, Some("deny: the data are internal"), "deny");
            assert_eq!((told.verdict.answer.as_str(), told.verdict.demands.len()), ("deny", 0), "{told:?}");
            assert_eq!(told.labels.as_deref(), Some("deny: the data are internal"));
            assert!(told.rule.starts_with("Labels decide") && told.rule.ends_with("A permit applies."), "{told:?}");
        }
        let told = of("ask", Some("ask: it has an effect"), "ask");
        assert_eq!((told.verdict.answer.as_str(), told.verdict.demands.len()), ("ask", 2), "{told:?}");
        assert!(told.rule == "A permit applies." && told.labels.is_some(), "{told:?}");
        let told = of("deny", Some("ask: it has an effect"), "ask");
        assert!(told.verdict.answer == "deny" && told.verdict.demands.is_empty(), "{told:?}");
        let told = of("permit", Some("permit"), "permit");
        assert!(told.verdict.answer == "permit" && told.labels.is_none(), "{told:?}");
    }

    #[test]
    fn whoever_takes_policies_out_hears_which_nodes_keep_theirs() {
        let node = |digest: Option<&str>| PolicyNode {
            node: "did:key:z6Mk".to_owned(),
            digest: digest.map(str::to_owned),
            why: None,
        };
        assert!(kept(&[node(None)]).is_none());
        let told = kept(&[node(None), node(Some("0a"))]).expect("one keeps it");
        assert!(told.what.starts_with("1 of this owner's other nodes"), "{told:?}");
    }

    #[test]
    fn what_cannot_be_tried_is_told_by_its_kind() {
        assert_eq!(ApiError::from(TrialError::None).0.kind, Kind::Conflict);
        assert_eq!(ApiError::from(ChangeError::NotOwner("ada".to_owned())).0.kind, Kind::Refused);
    }
}

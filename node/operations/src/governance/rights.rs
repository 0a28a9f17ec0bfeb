//! Who may do something: what the contract of each agent says of it, and what the policies in force say besides.

use althing_execution::tools::{ContractGate, Permission, ToolGate as _};
use althing_node::{NodeError, publish};
use althing_protocol::{AgentRef, Label};
use althing_td::AgentFile;
use serde_json::{Map, Value};

use super::{Explanation, LabelOutlook, demand_words, explain_policy, tool_labels};
use crate::operations::Operations;

/// What becomes of an agent's call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRight {
    /// Which agent.
    pub agent: AgentRef,
    /// The person who answers for it.
    pub accountable: String,
    /// `permit`, `ask`, `deny`, or `depends` where the policies in force decide by its arguments.
    pub answer: &'static str,
    /// The rule that says so, in words.
    pub why: String,
}

/// What becomes of `SERVER/TOOL` if one of the agents of this node calls it: as far as contracts and policies say it without its
/// arguments, for data that may go anywhere; and labels, for the data that the agent works with by its contract.
///
/// # Errors
/// See [`NodeError`].
pub fn rights(node: &Operations, tool: &str) -> Result<Vec<ActionRight>, NodeError> {
    let stored = publish::all(node.store.as_ref())?;
    let right = |file: &AgentFile| {
        let agent = AgentRef::new(node.owner().id(), &file.name, &file.version).ok()?;
        let (answer, why) = of_contract(file, &agent, tool);
        let (answer, why) = match answer {
            Permission::Denied => ("deny", why),
            Permission::Allowed | Permission::Ask => {
                let level = file.contract.as_ref().map(|contract| contract.data_label).unwrap_or_default();
                let label = Label { level, trusted: true };
                let labels = tool_labels(&node.governance, &agent.id.to_string(), tool, label);
                by_labels(by_policies(node, &agent, tool, (answer, why)), labels)
            }
        };
        Some(ActionRight { agent, accountable: node.governance.people().owner().to_owned(), answer, why })
    };
    Ok(stored.iter().filter_map(|added| right(&added.file)).collect())
}

fn of_contract(file: &AgentFile, agent: &AgentRef, tool: &str) -> (Permission, String) {
    let Some(contract) = &file.contract else {
        return (Permission::Denied, "it has no contract here".to_owned());
    };
    let answer = ContractGate::of(contract).lists(agent, tool);
    let why = match answer {
        Permission::Allowed => "its contract allows it (`capabilities`)",
        Permission::Ask => "its contract wants a person's consent for it (`security.consent_for`)",
        Permission::Denied => "its contract does not name it (`capabilities`)",
    };
    (answer, why.to_owned())
}

/// The same, where policies have a say too: the stricter of both counts.
fn by_policies(
    node: &Operations,
    agent: &AgentRef,
    tool: &str,
    (contract, why): (Permission, String),
) -> (&'static str, String) {
    let own = if contract == Permission::Ask { "ask" } else { "permit" };
    if node.governance.policy().digest.is_none() {
        return (own, why);
    }
    match explain_policy(&node.governance, request(agent, tool)) {
        Ok(explanation) => joined((own, why), &explanation),
        Err(error) => ("deny", error.to_string()),
    }
}

/// The stricter of what the contract and the policies say.
fn joined((own, why): (&'static str, String), explanation: &Explanation) -> (&'static str, String) {
    if explanation.verdict.goes_by_arguments() {
        return ("depends", format!("{why}; the policies in force decide by the arguments of each call"));
    }
    match words(explanation) {
        ("permit", _) => (own, why),
        stricter => stricter,
    }
}

/// The same, where labels decide: they deny calls with arguments whatever policies permit.
fn by_labels((answer, why): (&'static str, String), labels: LabelOutlook) -> (&'static str, String) {
    match (answer, labels.answer, labels.words) {
        ("permit" | "ask" | "depends", "deny", Some(words)) => ("deny", format!("labels {words}")),
        _ => (answer, why),
    }
}

/// A call of the tool as policies are asked about it, without arguments.
fn request(agent: &AgentRef, tool: &str) -> Map<String, Value> {
    let name = tool.split_once('/').map_or(tool, |(_, name)| name);
    [
        ("principal", format!("Agent::{:?}", agent.id.to_string())),
        ("action", name.to_owned()),
        ("resource", format!("Tool::{tool:?}")),
    ]
    .into_iter()
    .map(|(member, text)| (member.to_owned(), Value::from(text)))
    .collect()
}

fn words(explanation: &Explanation) -> (&'static str, String) {
    let verdict = &explanation.verdict;
    let mut why = explanation.rule.to_owned();
    for (name, all) in [
        ("it asks for", demand_words(verdict)),
        ("by", verdict.policies.iter().cloned().collect()),
        ("since", verdict.errors.iter().map(ToString::to_string).collect()),
    ] {
        if !all.is_empty() {
            why += &format!(" {name} {}", all.join(", "));
        }
    }
    (verdict.answer.word(), why)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use althing_governance::trials::{Answer, EvaluationError, Verdict};
    use althing_protocol::PublisherId;
    use serde_json::json;

    use super::*;

    fn agent() -> AgentRef {
        AgentRef::new(PublisherId::from_digest([1; 32]), "clerk", "1.0.0").expect("a name")
    }

    #[test]
    fn a_contract_says_who_may_and_who_is_asked_about() {
        let of = |contract: Value| {
            let file = json!({
                "name": "clerk",
                "description": "Orders",
                "runtime": { "model": { "prompt": "Order", "endpoints": [{ "url": "http://127.0.0.1:1", "model": "m" }] } },
                "tools": { "shop": { "command": ["shop"] } },
                "contract": contract,
            });
            let file = AgentFile::parse(&file.to_string()).expect("an agent file");
            of_contract(&file, &agent(), "shop/order").0
        };
        let class = json!({ "latency": "srt" });
        assert_eq!(of(json!({ "class": class })), Permission::Denied);
        assert_eq!(of(json!({ "class": class, "capabilities": ["shop/*"] })), Permission::Allowed);
        let asks = json!({ "consent_for": ["shop/order"] });
        assert_eq!(of(json!({ "class": class, "capabilities": ["shop/*"], "security": asks })), Permission::Ask);
    }

    #[test]
    fn what_policies_cannot_say_without_arguments_is_no_denial() {
        let said = |answer: Answer, errors: Vec<EvaluationError>| {
            let verdict = Verdict { answer, policies: BTreeSet::new(), errors };
            let explanation = Explanation { verdict, reasons: Vec::new(), rule: "No permit applies." };
            joined(("ask", "the contract".to_owned()), &explanation)
        };
        let missing = EvaluationError::Arguments { why: "input.run is missing".to_owned() };
        let (answer, why) = said(Answer::Deny, vec![missing]);
        assert!(answer == "depends" && why.starts_with("the contract; "), "{answer}: {why}");
        assert_eq!(said(Answer::Deny, vec![EvaluationError::Entity { name: "x".to_owned() }]).0, "deny");
        assert_eq!(said(Answer::Deny, Vec::new()).0, "deny");
        assert_eq!(said(Answer::Permit, Vec::new()), ("ask", "the contract".to_owned()));
    }

    #[test]
    fn labels_deny_whatever_policies_permit_and_are_not_told_where_they_decide_nothing() {
        let labels = |answer| LabelOutlook { words: Some("deny: the data are internal".to_owned()), answer };
        for answer in ["permit", "ask", "depends"] {
            let said = by_labels((answer, "policies".to_owned()), labels("deny"));
            assert_eq!(said, ("deny", "labels deny: the data are internal".to_owned()));
            let said = by_labels((answer, "policies".to_owned()), labels("permit"));
            assert_eq!(said, (answer, "policies".to_owned()));
        }
        assert_eq!(by_labels(("deny", "policies".to_owned()), labels("deny")).1, "policies");
    }

    #[test]
    fn policies_are_asked_about_the_tool_by_its_own_name() {
        let request = request(&agent(), "shop/order");
        assert_eq!(request["action"], "order");
        assert_eq!(request["resource"], r#"Tool::"shop/order""#);
        assert!(request["principal"].as_str().is_some_and(|text| text.ends_with(r#"clerk""#)), "{request:?}");
    }
}

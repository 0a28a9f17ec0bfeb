//! The policies of an owner: which are in force, what they say of a request, and what others would say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pending::DataReach;

/// What `GET /policy` answers, `POST /policy` once the set is in force, and `DELETE /policy` once none is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReport {
    /// SHA-256 over the text of the set in force; none where none is: contracts alone decide then.
    pub digest: Option<String>,
    /// How many policies it has.
    pub policies: usize,
    /// Since when it is in force, Unix milliseconds.
    pub loaded_ms: Option<u64>,
    /// Whether there is a file of policies that cannot be read: then what they would decide about is denied.
    pub broken: bool,
    /// What is wrong with a set that is not in force therefore, or what its owner should look at.
    pub findings: Vec<PolicyFinding>,
    /// The owner's other nodes that are connected, each with its set.
    pub nodes: Vec<PolicyNode>,
}

/// Which set another node of the owner has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyNode {
    /// Its DID.
    pub node: String,
    /// The digest of the set in force there; none where none is.
    pub digest: Option<String>,
    /// Why it is not the one that the owner gave last, or why nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One thing that is wrong with a set, or that its owner should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyFinding {
    /// Where in the text, from 1; none where it is about the set as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// In characters, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The policy that it is in, by its `@id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// The text of a set: what `POST /policy`, `POST /policy/lint` and `POST /policy/diff` are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyText {
    /// In Cedar, 1 MiB at most.
    pub text: String,
}

/// What `POST /policy/lint` answers of a set that could be put in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyFindings {
    /// What its owner should look at; empty where there is nothing.
    pub findings: Vec<PolicyFinding>,
}

/// What `POST /policy/test` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyTest {
    /// The set in Cedar; that in force where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The file of cases, as `docs/policies.md` says.
    pub cases: Value,
}

/// What `POST /policy/test` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyTestReport {
    /// Cases that came out as expected.
    pub passed: usize,
    /// Those that did not.
    pub failed: usize,
    /// Each, in the order of the file.
    pub cases: Vec<PolicyCase>,
}

/// How a case came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyCase {
    /// What the file calls it, or its number.
    pub name: String,
    /// Whether it is as expected.
    pub passed: bool,
    /// `permit`, `ask`, `deny` or `error`.
    pub expected: String,
    /// What was decided.
    pub verdict: PolicyVerdict,
}

/// What was decided of a request, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyVerdict {
    /// `permit`, `ask` or `deny`.
    pub answer: String,
    /// What is asked for, in words; where it asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demands: Vec<String>,
    /// The policies that decided, by their `@id`.
    pub policies: Vec<String>,
    /// What could not be evaluated, and denied therefore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// What `POST /policy/explain` is sent: a request that nobody made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyQuestion {
    /// Who does it, such as `Agent::"clerk"`.
    pub principal: String,
    /// What is done: the word of a gate, or for a tool its name.
    pub action: String,
    /// What it is done with, such as `Tool::"bank/pay"`.
    pub resource: String,
    /// `input`, `label`, `trusted` and `person`, as in a case of a test.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
}

/// What `POST /policy/explain` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyExplanation {
    /// What would be decided.
    pub verdict: PolicyVerdict,
    /// Which rule leads there, in one sentence.
    pub rule: String,
    /// The policies behind it, in the order of the text.
    pub reasons: Vec<PolicyReason>,
    /// What labels say of it: `permit`, or `ask` or `deny` with why; none where they say nothing, or permit beside policies that are in
    /// force. They decide only if `verdict` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
}

/// A policy that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyReason {
    /// By its `@id`.
    pub policy: String,
    /// Where it begins, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// As it was written.
    pub text: String,
    /// What it asks for, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demands: Vec<String>,
}

/// What `POST /policy/diff` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyDifferences {
    /// Those that come out otherwise, the newest first.
    pub turned: Vec<PolicyDifference>,
    /// How many could not be looked at: their arguments were too long to be remembered.
    pub unread: usize,
    /// How many rows of what is remembered are damaged: what was decided there is in the audit log alone.
    #[serde(default, skip_serializing_if = "is_none")]
    pub damaged: usize,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// A decision that another set turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyDifference {
    /// By which it can be explained.
    pub decision: u64,
    /// Who acted, as policies write it.
    pub principal: String,
    /// With what, as policies write it.
    pub resource: String,
    /// What the policies in force said: `permit`, `ask` or `deny`.
    pub was: String,
    /// What it becomes.
    pub becomes: String,
    /// The policies of the other set that decide, by their `@id`.
    pub policies: Vec<String>,
}

/// What `GET /decisions/{decision}` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionReport {
    /// Its number on this node.
    pub decision: u64,
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Who acted, as policies write it.
    pub principal: String,
    /// What was done: the word of a gate.
    pub action: String,
    /// With what, as policies write it.
    pub resource: String,
    /// How far the data may go.
    pub label: DataReach,
    /// On whose behalf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// `permit`, `ask` or `deny`.
    pub answer: String,
    /// The rule that decided: `stop`, `contract`, `definition`, `labels`, `policy` or `people`; none of a permit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, in words.
    pub reason: String,
    /// What the policies alone said; none where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<PolicyVerdict>,
    /// The digest of the set that was in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What labels would have decided, where they decided nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// The A2A task that it was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// What `GET /tasks/{task}/decisions` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskDecisions {
    /// Those of the newest decisions of this node that were made in the task, the newest first.
    pub decisions: Vec<DecisionReport>,
}

/// What `GET /who` answers: who may do something now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionReport {
    /// As it was asked about.
    pub action: String,
    /// Each agent of this node.
    pub agents: Vec<ActionRight>,
}

/// What becomes of an agent's call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionRight {
    /// By id.
    pub agent: String,
    /// The person who answers for it.
    pub accountable: String,
    /// `permit`, `ask`, `deny`, or `depends` where the policies in force decide by its arguments.
    pub answer: String,
    /// The rule that says so.
    pub why: String,
}

/// After the `?` of `GET /who`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionQuery {
    /// `SERVER/TOOL`, or the word of a gate.
    pub action: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::assert_json;

    fn verdict(answer: &str) -> PolicyVerdict {
        PolicyVerdict {
            answer: answer.to_owned(),
            demands: Vec::new(),
            policies: vec!["pay".to_owned()],
            errors: Vec::new(),
        }
    }

    #[test]
    fn the_set_in_force_is_told_and_so_is_that_none_is() {
        let none = PolicyReport {
            digest: None,
            policies: 0,
            loaded_ms: None,
            broken: false,
            findings: Vec::new(),
            nodes: Vec::new(),
        };
        assert_json(&none, r#"{"digest":null,"policies":0,"loadedMs":null,"broken":false,"findings":[],"nodes":[]}"#);
        let finding = PolicyFinding {
            line: Some(2),
            column: Some(3),
            policy: Some("pay".to_owned()),
            what: "it can never apply".to_owned(),
            remedy: "look at its conditions".to_owned(),
        };
        let whole = PolicyFinding { line: None, column: None, policy: None, ..finding.clone() };
        let some = PolicyReport {
            digest: Some("0a".to_owned()),
            policies: 4,
            loaded_ms: Some(9),
            broken: false,
            findings: vec![finding, whole],
            nodes: vec![PolicyNode { node: "did:n".to_owned(), digest: None, why: None }],
        };
        assert_json(
            &some,
            concat!(
                r#"{"digest":"0a","policies":4,"loadedMs":9,"broken":false,"findings":[{"line":2,"column":3,"policy":"pay","#,
                r#""what":"it can never apply","remedy":"look at its conditions"},{"what":"it can never apply","#,
                r#""remedy":"look at its conditions"}],"nodes":[{"node":"did:n","digest":null}]}"#,
            ),
        );
    }

    #[test]
    fn what_policies_are_asked_is_read_with_nothing_that_is_not_known() {
        let question: PolicyQuestion =
            serde_json::from_value(json!({ "principal": "p", "action": "a", "resource": "r" })).expect("a question");
        assert_json(&question, r#"{"principal":"p","action":"a","resource":"r"}"#);
        let test = PolicyTest { policy: None, cases: json!({ "cases": [] }) };
        assert_json(&test, r#"{"cases":{"cases":[]}}"#);
        assert!(serde_json::from_value::<PolicyText>(json!({ "text": "", "force": true })).is_err());
        assert_json(&ActionQuery { action: "shop/order".to_owned() }, r#"{"action":"shop/order"}"#);
    }

    #[test]
    fn a_verdict_is_told_with_what_led_there() {
        let asks = PolicyVerdict { demands: vec!["consent".to_owned()], ..verdict("ask") };
        let case =
            PolicyCase { name: "1".to_owned(), passed: false, expected: "permit".to_owned(), verdict: asks.clone() };
        assert_json(
            &PolicyTestReport { passed: 0, failed: 1, cases: vec![case] },
            concat!(
                r#"{"passed":0,"failed":1,"cases":[{"name":"1","passed":false,"expected":"permit","#,
                r#""verdict":{"answer":"ask","demands":["consent"],"policies":["pay"]}}]}"#,
            ),
        );
        let reason = PolicyReason {
            policy: "pay".to_owned(),
            line: Some(1),
            text: "permit(…);".to_owned(),
            demands: vec!["consent".to_owned()],
        };
        let labels = Some("deny: no".to_owned());
        assert_json(
            &PolicyExplanation { verdict: verdict("permit"), rule: "None.".to_owned(), reasons: Vec::new(), labels },
            concat!(
                r#"{"verdict":{"answer":"permit","policies":["pay"]},"rule":"None.","reasons":[],"#,
                r#""labels":"deny: no"}"#,
            ),
        );
        assert_json(
            &PolicyExplanation { verdict: asks, rule: "All ask.".to_owned(), reasons: vec![reason], labels: None },
            concat!(
                r#"{"verdict":{"answer":"ask","demands":["consent"],"policies":["pay"]},"rule":"All ask.","#,
                r#""reasons":[{"policy":"pay","line":1,"text":"permit(…);","demands":["consent"]}]}"#,
            ),
        );
        let turned = PolicyDifference {
            decision: 7,
            principal: "a".to_owned(),
            resource: "t".to_owned(),
            was: "permit".to_owned(),
            becomes: "deny".to_owned(),
            policies: vec!["pay".to_owned()],
        };
        assert_json(
            &PolicyDifferences { turned: vec![turned], unread: 1, damaged: 0 },
            concat!(
                r#"{"turned":[{"decision":7,"principal":"a","resource":"t","was":"permit","becomes":"deny","#,
                r#""policies":["pay"]}],"unread":1}"#,
            ),
        );
        let decision = DecisionReport {
            decision: 7,
            at_ms: 1,
            principal: "a".to_owned(),
            action: "useTool".to_owned(),
            resource: "t".to_owned(),
            label: DataReach { level: "public".to_owned(), trusted: true },
            person: None,
            answer: "deny".to_owned(),
            rule: Some("policy".to_owned()),
            reason: "no".to_owned(),
            verdict: Some(PolicyVerdict { errors: vec!["e".to_owned()], ..verdict("deny") }),
            policy: None,
            labels: None,
            task: None,
        };
        assert_json(
            &decision,
            concat!(
                r#"{"decision":7,"atMs":1,"principal":"a","action":"useTool","resource":"t","#,
                r#""label":{"level":"public","trusted":true},"answer":"deny","rule":"policy","reason":"no","#,
                r#""verdict":{"answer":"deny","policies":["pay"],"errors":["e"]}}"#,
            ),
        );
        let [agent, accountable, answer, why] = ["urn:a", "ada", "ask", "contract"].map(str::to_owned);
        let right = ActionRight { agent, accountable, answer, why };
        assert_json(
            &ActionReport { action: "shop/order".to_owned(), agents: vec![right] },
            r#"{"action":"shop/order","agents":[{"agent":"urn:a","accountable":"ada","answer":"ask","why":"contract"}]}"#,
        );
    }
}

//! The audit log of an owner's node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pending::DataReach;

/// Entries that one answer lists at most.
pub const AUDIT_LIMIT_MAX: usize = 1_000;

/// After the `?` of `GET /audit`: which entries. What is left out narrows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuditQuery {
    /// Of that agent, by id, or by name if it is the owner's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Of actions that begin so: `SERVER/TOOL`, or what was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// On behalf of that person, or by them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// `asked`, `answered`, `denied`, `intent`, `outcome`, `changed`, `started`, `ended` or `turn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// From then on, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Until then, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The newest so many, 1,000 at most; 100 where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// What `GET /audit` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditList {
    /// Entries of the log that goes on.
    pub size: u64,
    /// Its key, with which strangers verify what is exported.
    pub key: String,
    /// Those who are asked to sign it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<AuditWitnessEntry>,
    /// Those that are meant, the newest first.
    pub entries: Vec<AuditEntry>,
    /// Whether there may be older ones.
    pub more: bool,
}

/// How a witness stands to the log, since the node was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditWitnessEntry {
    /// As its signatures have it.
    pub name: String,
    /// Where it is asked.
    pub url: String,
    /// Entries of the log that it signed last; none where it signed nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<u64>,
    /// When that was, Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_ms: Option<u64>,
    /// Since when it does not sign, Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// Why it does not, or what it knows of the log that cannot be as the log is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An entry of the log: what happened, without what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Which of the node's logs, from 1; none of what is verified without the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<u32>,
    /// Which entry of it, from 0.
    pub entry: u64,
    /// Unix milliseconds.
    pub at_ms: u64,
    /// As in the query.
    pub stage: String,
    /// On whose behalf, the origin first; of an answer or a change, who did it.
    pub principals: Vec<String>,
    /// The person who answers for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accountable: Option<String>,
    /// By id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The digest of its contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// The digest of the manifest that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// `SERVER/TOOL`, or what was done or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The digest of the tool's definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// Of what was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<DataReach>,
    /// Of all that the turn had been given afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_after: Option<DataReach>,
    /// The digest of the policy set in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The ids of the policies that decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deciding: Vec<String>,
    /// The digest of the question: entries of the same question have the same, so that those of its answers say who allowed a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The digest of the row of the turn's journal or task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The digest of the trace's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// `done`, `failed`, `refused`, `inDoubt` or `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What gates said of a turn: names and words, nothing of what they judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<AuditGateVerdict>,
}

/// What a gate said of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditGateVerdict {
    /// As the contract names it, or the name of a finding.
    pub gate: String,
    /// `passed`, `refused`, or `finding`: the turn may have failed in silence.
    pub verdict: String,
}

/// What `GET /audit/{log}/{entry}` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditDetails {
    /// What is in the log.
    pub entry: AuditEntry,
    /// What lies beside the log and the entry only commits to.
    pub bodies: Vec<AuditBody>,
    /// The names of the witnesses that signed the checkpoint by which it is proved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<String>,
    /// The entry with its bodies, its proof and the signed checkpoint, as text: what can be verified without this node.
    pub export: String,
}

/// What an entry commits to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditBody {
    /// `arguments`, `result`, `reason`, `before` or `after`.
    pub role: String,
    /// What it says; none where it was erased, its time is over, or it was too large to be kept.
    pub text: Option<String>,
}

/// What `POST /audit/erase` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EraseRequest {
    /// Whose bodies: a principal as entries name it.
    pub subject: String,
}

/// What `POST /audit/erase` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EraseReply {
    /// As it was asked.
    pub subject: String,
    /// What there was of them, and nobody can read any more: of a name that is misspelt nothing.
    pub found: Vec<ErasePart>,
}

/// What is kept of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErasePart {
    /// What lies beside the audit log of calls on their behalf.
    Bodies,
    /// What people were asked about such calls and answered, what was agreed to last, and each standing yes.
    Consents,
    /// What decisions that are remembered were about, and why they were made.
    Decisions,
}

impl ErasePart {
    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            ErasePart::Bodies => "what lay beside the audit log",
            ErasePart::Consents => "what people were asked and agreed to",
            ErasePart::Decisions => "what was decided, and why",
        }
    }
}

/// What `POST /audit/prune` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PruneRequest {
    /// Bodies from before then go, Unix milliseconds.
    pub before_ms: u64,
    /// What `ssh-keygen -Y sign -n althing-consent` made of the text of those who must agree, by the file of people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
}

/// What `POST /audit/prune` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PruneReply {
    /// Bytes of the bodies that are gone; the entries stay.
    pub removed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn started() -> AuditEntry {
        AuditEntry {
            log: None,
            entry: 4,
            at_ms: 1,
            stage: "started".to_owned(),
            principals: Vec::new(),
            accountable: None,
            agent: Some("urn:a".to_owned()),
            version: None,
            contract: None,
            binding: None,
            action: None,
            definition: None,
            label: None,
            label_after: None,
            policy: None,
            deciding: Vec::new(),
            question: None,
            row: None,
            trace: None,
            outcome: None,
            verdicts: Vec::new(),
        }
    }

    #[test]
    fn an_entry_is_told_with_what_belongs_to_it() {
        let started = started();
        let short = r#"{"entry":4,"atMs":1,"stage":"started","principals":[],"agent":"urn:a"}"#;
        assert_json(&started, short);
        let done = AuditEntry {
            log: Some(1),
            stage: "outcome".to_owned(),
            principals: vec!["local".to_owned()],
            accountable: Some("ada".to_owned()),
            version: Some("1.0.0".to_owned()),
            contract: Some("0b".to_owned()),
            binding: Some("0c".to_owned()),
            action: Some("shop/order".to_owned()),
            definition: Some("0d".to_owned()),
            label: Some(DataReach { level: "public".to_owned(), trusted: true }),
            label_after: Some(DataReach { level: "internal".to_owned(), trusted: false }),
            policy: Some("0a".to_owned()),
            deciding: vec!["pay".to_owned()],
            question: Some("0e".to_owned()),
            row: Some("0f".to_owned()),
            trace: Some("10".to_owned()),
            outcome: Some("done".to_owned()),
            verdicts: vec![AuditGateVerdict { gate: "schema".to_owned(), verdict: "refused".to_owned() }],
            ..started.clone()
        };
        assert_json(
            &done,
            concat!(
                r#"{"log":1,"entry":4,"atMs":1,"stage":"outcome","principals":["local"],"accountable":"ada","agent":"urn:a","#,
                r#""version":"1.0.0","contract":"0b","binding":"0c","action":"shop/order","definition":"0d","#,
                r#""label":{"level":"public","trusted":true},"labelAfter":{"level":"internal","trusted":false},"#,
                r#""policy":"0a","deciding":["pay"],"question":"0e","row":"0f","trace":"10","outcome":"done","#,
                r#""verdicts":[{"gate":"schema","verdict":"refused"}]}"#,
            ),
        );
        let body = AuditBody { role: "arguments".to_owned(), text: None };
        let details = AuditDetails {
            entry: started,
            bodies: vec![body],
            witnesses: vec!["w.example".to_owned()],
            export: "AA==".to_owned(),
        };
        assert_json(
            &details,
            &format!(
                r#"{{"entry":{short},"bodies":[{{"role":"arguments","text":null}}],"witnesses":["w.example"],"export":"AA=="}}"#
            ),
        );
    }

    #[test]
    fn what_is_asked_of_the_log_and_answered_has_one_shape() {
        assert_json(&AuditQuery::default(), "{}");
        let query = AuditQuery { action: Some("shop/order".to_owned()), limit: Some(3), ..AuditQuery::default() };
        assert_json(&query, r#"{"action":"shop/order","limit":3}"#);
        assert!(serde_json::from_str::<AuditQuery>(r#"{"who":"ada"}"#).is_err());
        let found = vec![ErasePart::Bodies, ErasePart::Consents, ErasePart::Decisions];
        let erased = r#"{"subject":"ada","found":["bodies","consents","decisions"]}"#;
        assert_json(&EraseReply { subject: "ada".to_owned(), found }, erased);
        assert_json(&PruneReply { removed: 3 }, r#"{"removed":3}"#);
        assert_json(&PruneRequest { before_ms: 5, signatures: Vec::new() }, r#"{"beforeMs":5}"#);
    }
}

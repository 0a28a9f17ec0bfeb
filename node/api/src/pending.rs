//! What waits for the yes of a person, of all kinds in one list; and answers to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /pending` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingList {
    /// Calls first, then steps of workflows, then releases; of each kind the oldest first.
    pub pending: Vec<PendingEntry>,
    /// Groups and registries that were not heard: more may wait there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<PendingGap>,
}

/// Something that waits for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingEntry {
    /// What it is answered by: of a call 32 hexadecimal digits, of a step `GROUP/RUN/STEP`, of a release its id or
    /// `urn:althing:…@VERSION`.
    pub id: String,
    /// What kind of question it is, with what it is answered by in its own routes.
    pub source: PendingSource,
    /// The A2A task that rests until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Whose call or release it is, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Of a call `SERVER/TOOL`; of a step what its workflow asks, on one line, all of it visible, cut in its middle where it is long;
    /// of a release its version.
    pub action: String,
    /// The arguments, or what else is agreed to: one on each line, nothing of it formatted by an agent.
    pub outline: Vec<String>,
    /// How far the data may go; of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<DataReach>,
    /// How the call differs from the one that was last agreed to; empty where none was.
    pub difference: Vec<String>,
    /// Why it is asked; of calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Who must say yes; of a step whoever may answer in its group.
    pub wants: Vec<PendingWant>,
    /// Unix milliseconds; none where that is not told.
    pub asked_ms: Option<u64>,
    /// Until when it may be answered, Unix milliseconds; silence is a denial.
    pub expires_ms: Option<u64>,
    /// Who could not be told that it waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<PendingTrouble>,
}

/// Somebody who could not be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingTrouble {
    /// By name.
    pub person: String,
    /// How it was tried; none where nobody said how they are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it failed.
    pub why: String,
    /// When it is tried again, Unix milliseconds; none where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<u64>,
}

/// What kind of question it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PendingSource {
    /// A call of an agent of this node.
    Call,
    /// A step of a workflow.
    Workflow {
        /// The group's id.
        group: String,
        /// The run's id.
        run: String,
        /// The step's id.
        step: String,
    },
    /// A release that waits for approvals.
    Release {
        /// Where it waits.
        registry: String,
        /// A build machine handed it in, and nobody signed it yet.
        staged: bool,
    },
}

/// How far data may go, and whether all of their sources are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DataReach {
    /// `public`, `internal`, `confidential` or `restricted`.
    pub level: String,
    /// False where one source is nobody's word.
    pub trusted: bool,
}

/// A yes that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PendingWant {
    /// Of the person on whose behalf it is done.
    Consent {
        /// By name.
        person: String,
    },
    /// Of so many others who have a role.
    SignOff {
        /// How many in all.
        count: u32,
        /// How many of them did.
        given: u32,
        /// Which role.
        role: String,
    },
    /// Of so many who may approve in a registry, this owner among them.
    Approval {
        /// How many.
        count: u32,
    },
}

/// What a person is asked who is a user of the gateway: what its `GET /questions/{ask}` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PersonQuestion {
    /// What is asked.
    pub question: PendingEntry,
    /// What the person signs to say yes, all of it, with its last line end.
    pub approve: String,
    /// The same, to say no.
    pub deny: String,
}

/// A place that was not heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingGap {
    /// The group's name, or the registry's address.
    pub at: String,
    /// The reason.
    pub why: String,
}

/// What `POST /pending/{ask}` is sent: an answer to what is asked of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerRequest {
    /// Whether the call may be made.
    pub approved: bool,
    /// Why not, for the agent and for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For further calls like this one too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<StandingRequest>,
    /// What `ssh-keygen -Y sign -n althing-consent` made of the text that `GET /pending/{ask}/text` shows; none of the user of the
    /// node's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A yes that counts for further calls of the same tool by the same agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StandingRequest {
    /// How often, 1 to 10,000.
    pub count: u32,
    /// Until when, Unix milliseconds; within 90 days.
    pub until_ms: u64,
    /// Names of arguments that may be others then; all others must be as they are now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<String>,
}

/// What `GET /consents` answers: every yes that counts more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsentList {
    /// By their ids.
    pub consents: Vec<StandingConsent>,
}

/// A yes that counts more than once; `DELETE /consents/{consent}` answers with the one that it took back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingConsent {
    /// 32 hexadecimal digits.
    pub id: String,
    /// Who gave it.
    pub person: String,
    /// Whose calls, by id.
    pub agent: String,
    /// `SERVER/TOOL`.
    pub action: String,
    /// The arguments that must be these, one on each line, as `NAME = VALUE`, both cut in their middle where they are long.
    pub fixed: Vec<String>,
    /// The arguments that may be anything, cut in the same way.
    pub free: Vec<String>,
    /// How far the data may go at most.
    pub label: DataReach,
    /// How often it still counts.
    pub left: u32,
    /// When it was given, Unix milliseconds.
    pub given_ms: u64,
    /// Until when it counts, Unix milliseconds.
    pub until_ms: u64,
}

/// What was taken back.
pub type ConsentRemoval = StandingConsent;

/// What `POST /pending/{ask}` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerReply {
    /// Which question it was.
    pub id: String,
    /// How far it came by that.
    pub state: AnswerState,
    /// Other questions about the same call, which wait still: it is made once these are answered too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<PendingEntry>,
}

/// How far a question came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AnswerState {
    /// Others must answer too.
    Open,
    /// The call is made.
    Approved,
    /// The call is not made.
    Denied,
}

/// After the `?` of `GET /pending/{ask}/text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuery {
    /// Of a yes; otherwise of a no.
    pub approved: bool,
}

/// What `GET /pending/{ask}/text` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerText {
    /// What a person signs, byte for byte.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::assert_json;

    fn call() -> PendingEntry {
        PendingEntry {
            id: "0a".to_owned(),
            source: PendingSource::Call,
            task: Some("t-1".to_owned()),
            agent: Some("urn:a".to_owned()),
            action: "shop/order".to_owned(),
            outline: vec!["~ count = 2 (it was 1)".to_owned()],
            label: Some(DataReach { level: "internal".to_owned(), trusted: false }),
            difference: vec!["count".to_owned()],
            reasons: vec!["it costs money".to_owned()],
            wants: vec![
                PendingWant::Consent { person: "ada".to_owned() },
                PendingWant::SignOff { count: 2, given: 1, role: "auditor".to_owned() },
            ],
            asked_ms: Some(1),
            expires_ms: Some(2),
            untold: vec![PendingTrouble {
                person: "ada".to_owned(),
                way: Some("command notify".to_owned()),
                attempts: 2,
                why: "it is not there".to_owned(),
                next_ms: Some(9),
            }],
        }
    }

    #[test]
    fn a_call_that_waits_is_told_with_all_that_is_agreed_to() {
        assert_json(
            &PendingList { pending: vec![call()], unread: Vec::new() },
            concat!(
                r#"{"pending":[{"id":"0a","source":"call","task":"t-1","agent":"urn:a","action":"shop/order","#,
                r#""outline":["~ count = 2 (it was 1)"],"label":{"level":"internal","trusted":false},"#,
                r#""difference":["count"],"reasons":["it costs money"],"wants":[{"consent":{"person":"ada"}},"#,
                r#"{"signOff":{"count":2,"given":1,"role":"auditor"}}],"#,
                r#""askedMs":1,"expiresMs":2,"untold":[{"person":"ada","way":"command notify","attempts":2,"#,
                r#""why":"it is not there","nextMs":9}]}]}"#,
            ),
        );
    }

    #[test]
    fn steps_and_releases_are_told_with_where_they_wait_and_what_was_not_heard_is_named() {
        let of = |id: &str, source, wants| PendingEntry {
            id: id.to_owned(),
            source,
            task: None,
            agent: None,
            action: "Go on?".to_owned(),
            outline: Vec::new(),
            label: None,
            difference: Vec::new(),
            reasons: Vec::new(),
            wants,
            asked_ms: None,
            expires_ms: None,
            untold: Vec::new(),
        };
        let (group, run, step) = ("0b".to_owned(), "0c".to_owned(), "check".to_owned());
        let step = of("0b/0c/check", PendingSource::Workflow { group, run, step }, Vec::new());
        let source = PendingSource::Release { registry: "https://r".to_owned(), staged: true };
        let release = of("0d", source, vec![PendingWant::Approval { count: 1 }]);
        let gap = PendingGap { at: "https://s".to_owned(), why: "timed out".to_owned() };
        assert_json(
            &PendingList { pending: vec![step, release], unread: vec![gap] },
            concat!(
                r#"{"pending":[{"id":"0b/0c/check","source":{"workflow":{"group":"0b","run":"0c","step":"check"}},"#,
                r#""action":"Go on?","outline":[],"difference":[],"wants":[],"askedMs":null,"expiresMs":null},"#,
                r#"{"id":"0d","source":{"release":{"registry":"https://r","staged":true}},"action":"Go on?","outline":[],"#,
                r#""difference":[],"wants":[{"approval":{"count":1}}],"askedMs":null,"expiresMs":null}],"#,
                r#""unread":[{"at":"https://s","why":"timed out"}]}"#,
            ),
        );
    }

    #[test]
    fn a_standing_yes_is_told_with_all_that_it_is_for() {
        let one = StandingConsent {
            id: "0a".to_owned(),
            person: "ada".to_owned(),
            agent: "urn:a".to_owned(),
            action: "shop/order".to_owned(),
            fixed: vec!["item = \"lamp\"".to_owned()],
            free: vec!["note".to_owned()],
            label: DataReach { level: "internal".to_owned(), trusted: true },
            left: 3,
            given_ms: 1,
            until_ms: 2,
        };
        assert_json(
            &ConsentList { consents: vec![one] },
            concat!(
                r#"{"consents":[{"id":"0a","person":"ada","agent":"urn:a","action":"shop/order","#,
                r#""fixed":["item = \"lamp\""],"free":["note"],"label":{"level":"internal","trusted":true},"#,
                r#""left":3,"givenMs":1,"untilMs":2}]}"#,
            ),
        );
    }

    #[test]
    fn an_answer_is_read_with_as_much_as_somebody_says_and_nothing_else() {
        let short: AnswerRequest = serde_json::from_value(json!({ "approved": true })).expect("an answer");
        assert_eq!(short, AnswerRequest { approved: true, reason: None, standing: None, signature: None });
        let standing = StandingRequest { count: 3, until_ms: 9, free: vec!["note".to_owned()] };
        let full = AnswerRequest { standing: Some(standing), reason: Some("No.".to_owned()), ..short };
        assert_json(&full, r#"{"approved":true,"reason":"No.","standing":{"count":3,"untilMs":9,"free":["note"]}}"#);
        for foreign in [json!({}), json!({ "approved": true, "by": "ada" })] {
            assert!(serde_json::from_value::<AnswerRequest>(foreign).is_err());
        }
        let reply = AnswerReply { id: "0a".to_owned(), state: AnswerState::Open, waits: Vec::new() };
        assert_json(&reply, r#"{"id":"0a","state":"open"}"#);
        assert_json(&AnswerText { text: "a\n".to_owned() }, r#"{"text":"a\n"}"#);
    }
}

//! Sessions: conversations of agents with a turn that survives the end of its node, and calls of which nobody knows what became.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `GET /sessions` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// Each session that has a journal, the oldest first.
    pub sessions: Vec<SessionEntry>,
}

/// A conversation of an agent whose turn is journalled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEntry {
    /// Its id: 32 hexadecimal digits.
    pub session: String,
    /// The A2A task whose turn is journalled.
    pub task: String,
    /// The name of the agent.
    pub agent: String,
    /// The A2A context of the conversation.
    pub context: String,
    /// What becomes of it.
    pub state: SessionCondition,
    /// Rows of its journal.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Calls that were sent and have no result, the first one first.
    pub doubts: Vec<CallDoubt>,
}

/// What becomes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SessionCondition {
    /// Its turn runs.
    Working,
    /// Its turn goes on once its agent is here.
    Waiting,
    /// Its turn goes on once somebody says what became of a call.
    InDoubt,
}

impl SessionCondition {
    /// The words for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SessionCondition::Working => "working",
            SessionCondition::Waiting => "waiting",
            SessionCondition::InDoubt => "in doubt",
        }
    }
}

/// A call that was sent, or was about to be, when its node ended: nobody knows whether it was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallDoubt {
    /// The number of its step in the turn.
    pub step: u32,
    /// What was called: `SERVER/TOOL`.
    pub name: String,
    /// Since when that is not known, milliseconds since 1970.
    pub since_ms: u64,
}

/// Says what became of a call in doubt, so that its task goes on: what `POST /sessions/{task}` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// The number of the call's step in the turn.
    pub step: u32,
    /// What became of it.
    pub outcome: CallOutcome,
}

/// What became of a call in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CallOutcome {
    /// It was carried out, and this was its result: a text, or the result of a tool as MCP has it.
    Done(Value),
    /// It was not carried out, and is to be made again.
    Again,
    /// It failed, and its agent is told so.
    Failed,
}

/// A task goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResumption {
    /// The A2A task.
    pub resumed: String,
    /// The step whose outcome is now known.
    pub step: u32,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn sessions_are_told_with_what_nobody_knows_of_them() {
        let well = SessionEntry {
            session: "00ff".to_owned(),
            task: "t-1".to_owned(),
            agent: "clerk".to_owned(),
            context: "c-1".to_owned(),
            state: SessionCondition::Working,
            rows: 3,
            bytes: 812,
            doubts: Vec::new(),
        };
        let doubt = CallDoubt { step: 4, name: "bank/pay".to_owned(), since_ms: 1_700_000_000_000 };
        let doubtful = SessionEntry {
            task: "t-2".to_owned(),
            state: SessionCondition::InDoubt,
            doubts: vec![doubt],
            ..well.clone()
        };
        assert_json(
            &SessionList { sessions: vec![well, doubtful] },
            concat!(
                r#"{"sessions":[{"session":"00ff","task":"t-1","agent":"clerk","context":"c-1","state":"working","rows":3,"#,
                r#""bytes":812,"doubts":[]},{"session":"00ff","task":"t-2","agent":"clerk","context":"c-1","#,
                r#""state":"inDoubt","rows":3,"bytes":812,"doubts":[{"step":4,"name":"bank/pay","sinceMs":1700000000000}]}]}"#,
            ),
        );
        assert_json(&SessionCondition::Waiting, r#""waiting""#);
        let words = [SessionCondition::Working, SessionCondition::Waiting, SessionCondition::InDoubt];
        assert_eq!(words.map(SessionCondition::name), ["working", "waiting", "in doubt"]);
    }

    #[test]
    fn what_became_of_a_call_is_said_with_its_number() {
        let asked = |outcome| ResumeRequest { step: 4, outcome };
        assert_json(&asked(CallOutcome::Done(json!("paid"))), r#"{"step":4,"outcome":{"done":"paid"}}"#);
        assert_json(&asked(CallOutcome::Again), r#"{"step":4,"outcome":"again"}"#);
        assert_json(&asked(CallOutcome::Failed), r#"{"step":4,"outcome":"failed"}"#);
        assert_json(&SessionResumption { resumed: "t-2".to_owned(), step: 4 }, r#"{"resumed":"t-2","step":4}"#);
    }
}

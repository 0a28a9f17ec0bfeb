//! Sessions: conversations of agents with a turn that survives the end of its node, and calls of which nobody knows what became.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `GET /sessions` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// Each session that has a journal, the oldest first.
    pub sessions: Vec<SessionEntry>,
    /// Turns that stopped and may go on anew from one of their steps, the newest first, 32 at most.
    #[serde(default)]
    pub stopped: Vec<StoppedTurn>,
}

/// A turn that stopped with `DIVERGED` or `VERSION_CHANGED`: its task failed, and the owner of the node may have it go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedTurn {
    /// The A2A task.
    pub task: String,
    /// The name of the agent.
    pub agent: String,
    /// Why it stopped, as its task says.
    pub why: String,
    /// Until when it may go on, milliseconds since 1970.
    pub until_ms: u64,
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

/// What `GET /sessions/{task}/steps` answers: the journals of the task's turns, without what is in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSteps {
    /// The A2A task.
    pub task: String,
    /// The turns that have a journal, the oldest first, 16 at most.
    pub turns: Vec<SessionTurn>,
}

/// The journal of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTurn {
    /// The id of the message that began it.
    pub message: String,
    /// When it ended, milliseconds since 1970; none if it did not.
    pub ended_ms: Option<u64>,
    /// Its rows, in their order.
    pub rows: Vec<SessionRow>,
}

/// A row of a journal, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// Its number in the turn.
    pub row: u32,
    /// When it was written, milliseconds since 1970.
    pub at_ms: u64,
    /// What it is.
    pub kind: SessionRowKind,
    /// The number of the step that it belongs to, if it belongs to one.
    pub step: Option<u32>,
    /// What was called, where that is said: `SERVER/TOOL`, or what the node calls it.
    pub name: Option<String>,
    /// SHA-256 of the step's name and arguments, hexadecimal.
    pub digest: Option<String>,
    /// Its bytes with its key.
    pub bytes: u64,
    /// How far the data may go that the turn had been given by then: `public`, `internal`, `confidential` or `restricted`.
    pub label: Option<String>,
}

/// What a row of a journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SessionRowKind {
    /// The turn began.
    Begin,
    /// A call was about to be made.
    Intent,
    /// This came of a step.
    Result,
    /// A step gave no result, but the reason.
    Failure,
    /// Somebody said what came of a call in doubt.
    Resolved,
    /// The turn goes on from there.
    Checkpoint,
    /// What clocks said.
    Reads,
    /// The turn went on anew from that step.
    Restart,
}

impl SessionRowKind {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SessionRowKind::Begin => "begin",
            SessionRowKind::Intent => "intent",
            SessionRowKind::Result => "result",
            SessionRowKind::Failure => "failure",
            SessionRowKind::Resolved => "resolved",
            SessionRowKind::Checkpoint => "checkpoint",
            SessionRowKind::Reads => "reads",
            SessionRowKind::Restart => "restart",
        }
    }
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

/// Has a turn that stopped with `DIVERGED` or `VERSION_CHANGED` go on anew: what `POST /sessions/{task}/restart` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartRequest {
    /// The number of the first step that counts no more: those before it are told again, and are not made again.
    pub from: u32,
}

/// A task goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResumption {
    /// The A2A task.
    pub resumed: String,
    /// The step whose outcome is now known, or from which the turn goes on anew.
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
        let stopped = StoppedTurn {
            task: "t-3".to_owned(),
            agent: "clerk".to_owned(),
            why: "DIVERGED: no".to_owned(),
            until_ms: 1_700_000_000_000,
        };
        assert_json(
            &SessionList { sessions: vec![well, doubtful], stopped: vec![stopped] },
            concat!(
                r#"{"sessions":[{"session":"00ff","task":"t-1","agent":"clerk","context":"c-1","state":"working","rows":3,"#,
                r#""bytes":812,"doubts":[]},{"session":"00ff","task":"t-2","agent":"clerk","context":"c-1","#,
                r#""state":"inDoubt","rows":3,"bytes":812,"doubts":[{"step":4,"name":"bank/pay","sinceMs":1700000000000}]}],"#,
                r#""stopped":[{"task":"t-3","agent":"clerk","why":"DIVERGED: no","untilMs":1700000000000}]}"#,
            ),
        );
        assert_json(&SessionCondition::Waiting, r#""waiting""#);
        let words = [SessionCondition::Working, SessionCondition::Waiting, SessionCondition::InDoubt];
        assert_eq!(words.map(SessionCondition::name), ["working", "waiting", "in doubt"]);
    }

    #[test]
    fn steps_are_told_without_what_is_in_them() {
        let begin = SessionRow {
            row: 0,
            at_ms: 5,
            kind: SessionRowKind::Begin,
            step: None,
            name: None,
            digest: None,
            bytes: 300,
            label: Some("confidential".to_owned()),
        };
        let result = SessionRow {
            row: 1,
            kind: SessionRowKind::Result,
            step: Some(0),
            name: Some("bank/pay".to_owned()),
            digest: Some("0a".to_owned()),
            label: None,
            ..begin.clone()
        };
        let turn = SessionTurn { message: "m-1".to_owned(), ended_ms: Some(7), rows: vec![begin, result] };
        assert_json(
            &SessionSteps { task: "t-1".to_owned(), turns: vec![turn] },
            concat!(
                r#"{"task":"t-1","turns":[{"message":"m-1","endedMs":7,"rows":["#,
                r#"{"row":0,"atMs":5,"kind":"begin","step":null,"name":null,"digest":null,"bytes":300,"label":"confidential"},"#,
                r#"{"row":1,"atMs":5,"kind":"result","step":0,"name":"bank/pay","digest":"0a","bytes":300,"label":null}]}]}"#,
            ),
        );
        let kinds = [SessionRowKind::Intent, SessionRowKind::Failure, SessionRowKind::Resolved];
        let others = [SessionRowKind::Checkpoint, SessionRowKind::Reads, SessionRowKind::Restart];
        for kind in kinds.into_iter().chain(others) {
            assert_json(&kind, &format!("{:?}", kind.name()));
        }
    }

    #[test]
    fn what_became_of_a_call_is_said_with_its_number() {
        let asked = |outcome| ResumeRequest { step: 4, outcome };
        assert_json(&asked(CallOutcome::Done(json!("paid"))), r#"{"step":4,"outcome":{"done":"paid"}}"#);
        assert_json(&asked(CallOutcome::Again), r#"{"step":4,"outcome":"again"}"#);
        assert_json(&asked(CallOutcome::Failed), r#"{"step":4,"outcome":"failed"}"#);
        assert_json(&RestartRequest { from: 4 }, r#"{"from":4}"#);
        assert_json(&SessionResumption { resumed: "t-2".to_owned(), step: 4 }, r#"{"resumed":"t-2","step":4}"#);
    }
}

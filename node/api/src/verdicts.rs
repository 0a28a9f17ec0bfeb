//! What gates refused of a task's answers: for the owner of its node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trials::JudgeAgreement;

/// What `GET /tasks/{task}/verdict` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictReport {
    /// The A2A task.
    pub task: String,
    /// Its state by now, as A2A names it: `TASK_STATE_FAILED`.
    pub state: String,
    /// The answers that gates refused, the oldest first: the last 32 at most.
    pub refusals: Vec<AnswerRefusal>,
    /// How often the agents among these gates said what labelled cases say is right: of those alone with which the agent was tested
    /// since the node started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeAgreement>,
}

/// An answer that a gate refused, and that was not shown unless the contract says `deliver: early`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRefusal {
    /// The id of the message that was answered.
    pub message: String,
    /// Which answer to that message it was, from 1.
    pub attempt: u64,
    /// When the turn ended, milliseconds since 1970.
    pub ended_ms: u64,
    /// The gate: `schema`, `media`, `finished`, `grounding`, `SERVER/TOOL`, `agents/NAME`.
    pub gate: String,
    /// Where in the answer; empty for the whole.
    pub place: String,
    /// Where in the schema of the contract, as a JSON Pointer; empty for other gates.
    pub rule: String,
    /// Why, in the words of the gate.
    pub reason: String,
    /// What was answered: its texts, and its data as JSON, 64 KiB at most.
    pub answer: String,
    /// Bytes of the whole of it.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_verdict_tells_gate_place_and_reason_with_the_answer() {
        let refusal = AnswerRefusal {
            message: "m-1".to_owned(),
            attempt: 2,
            ended_ms: 1_700_000_000_000,
            gate: "schema".to_owned(),
            place: "/total".to_owned(),
            rule: "/properties/total/type".to_owned(),
            reason: "it breaks `type`".to_owned(),
            answer: "{}".to_owned(),
            bytes: 2,
        };
        let state = "TASK_STATE_FAILED".to_owned();
        let judge = JudgeAgreement { judge: "agents/j".to_owned(), agreed: 1, asked: 2, interval: None };
        let judged = VerdictReport { task: "t-1".to_owned(), state, refusals: Vec::new(), judges: vec![judge] };
        assert_json(
            &judged,
            concat!(
                r#"{"task":"t-1","state":"TASK_STATE_FAILED","refusals":[],"#,
                r#""judges":[{"judge":"agents/j","agreed":1,"asked":2,"interval":null}]}"#,
            ),
        );
        assert_json(
            &VerdictReport { refusals: vec![refusal], judges: Vec::new(), ..judged },
            concat!(
                r#"{"task":"t-1","state":"TASK_STATE_FAILED","refusals":[{"message":"m-1","attempt":2,"#,
                r#""endedMs":1700000000000,"gate":"schema","place":"/total","rule":"/properties/total/type","#,
                r#""reason":"it breaks `type`","answer":"{}","bytes":2}]}"#,
            ),
        );
    }
}

//! What led to an answer: what each turn of a task did, and those of the agents that it called; and whether that holds still.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /tasks/{task}/lineage` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineageReport {
    /// The task, and those of the agents that were called for it, each after the one that called it.
    pub tasks: Vec<LineageTask>,
    /// What is missing.
    pub gaps: Vec<LineageGap>,
    /// Whether there are more tasks than are followed.
    pub more: bool,
}

/// A task, and what its turns did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineageTask {
    /// The A2A task.
    pub task: String,
    /// The name of its agent.
    pub agent: String,
    /// The DID of the node that has it.
    pub node: String,
    /// The task whose turn called the agent; none of the first one.
    pub caller: Option<String>,
    /// Its turns that are over, the newest ones, the oldest first.
    pub turns: Vec<TurnRun>,
    /// Older turns, whose records made room for these.
    pub forgotten: u64,
}

/// What a turn did: names and hashes (SHA-256, hexadecimal, of canonical JSON), and nothing of what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnRun {
    /// The id of the message that began it.
    pub message: String,
    /// The version of the agent.
    pub version: String,
    /// The DID of the node that ran it.
    pub node: String,
    /// When it ended, milliseconds since 1970.
    pub ended_ms: u64,
    /// The id of its trace, if it was traced.
    pub trace: Option<String>,
    /// The hash of the manifest that its agent was bound to: `GET /bind/{hash}` shows that.
    pub binding: String,
    /// Whether it went on from its journal, after its node ended or it waited: what it did by then may not be among this.
    pub resumed: bool,
    /// The models that answered, as their endpoints named them.
    pub models: Vec<String>,
    /// The hash of the message.
    pub input: String,
    /// The ids of the passages that were recalled for it.
    pub passages: Vec<String>,
    /// Passages that are not among these.
    pub more_passages: u64,
    /// The calls of tools, in the order in which they ended.
    pub calls: Vec<TurnCall>,
    /// Calls that are not among these.
    pub more_calls: u64,
    /// The hash of what the task held when it ended: state, status message and artifacts.
    pub output: String,
    /// Whether the proof that its agent keeps its deadlines is kept with it.
    pub proof: bool,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnCall {
    /// `SERVER/TOOL`.
    pub tool: String,
    /// `done`, `error`, `denied`, `changed`, `superseded` or `failed`.
    pub outcome: String,
    /// The hash of the tool's definition, where it is known.
    pub definition: Option<String>,
    /// The hash of its arguments, where they could be read.
    pub arguments: Option<String>,
    /// The hash of its result, if it gave one.
    pub result: Option<String>,
    /// The task of the agent that was called, where the tool is another agent.
    pub task: Option<String>,
}

/// A task of which nothing is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineageGap {
    /// The A2A task.
    pub task: String,
    /// The id of its agent, where that is known.
    pub agent: Option<String>,
    /// The task whose turn called the agent; none of the first one.
    pub caller: Option<String>,
    /// Why, in words for a person.
    pub why: String,
}

/// What `GET /tasks/{task}/verification` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunVerification {
    /// The A2A task.
    pub task: String,
    /// The name of its agent.
    pub agent: String,
    /// All that could be checked holds, and something could.
    pub holds: bool,
    /// Its turns that are over, the newest ones, the oldest first.
    pub turns: Vec<TurnVerification>,
    /// Older turns, whose records made room for these.
    pub forgotten: u64,
}

/// What was checked of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnVerification {
    /// The id of the message that began it.
    pub message: String,
    /// What was checked.
    pub checks: Vec<RunCheck>,
}

/// One check of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCheck {
    /// What was checked: `binding`, `input`, `output`, `decisions` (once for each thing that came of these) or `admission`.
    pub what: String,
    /// What came of it.
    pub verdict: CheckVerdict,
    /// The same in words.
    pub why: String,
}

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    /// It holds.
    Holds,
    /// It does not.
    Broken,
    /// What it would be checked by is not there any more.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_lineage_is_told_with_what_is_missing() {
        let call = TurnCall {
            tool: "agents/echo".to_owned(),
            outcome: "done".to_owned(),
            definition: Some("0a".to_owned()),
            arguments: Some("0b".to_owned()),
            result: Some("0c".to_owned()),
            task: Some("t-2".to_owned()),
        };
        let turn = TurnRun {
            message: "m-1".to_owned(),
            version: "1.0.0".to_owned(),
            node: "did:key:z6Mk".to_owned(),
            ended_ms: 7,
            trace: None,
            binding: "0d".to_owned(),
            resumed: false,
            models: vec!["small".to_owned()],
            input: "0e".to_owned(),
            passages: vec!["p-1".to_owned()],
            more_passages: 0,
            calls: vec![call],
            more_calls: 1,
            output: "0f".to_owned(),
            proof: false,
        };
        let task = LineageTask {
            task: "t-1".to_owned(),
            agent: "clerk".to_owned(),
            node: "did:key:z6Mk".to_owned(),
            caller: None,
            turns: vec![turn],
            forgotten: 0,
        };
        let gap = LineageGap {
            task: "t-2".to_owned(),
            agent: Some("urn:a".to_owned()),
            caller: Some("t-1".to_owned()),
            why: "nobody has it".to_owned(),
        };
        assert_json(
            &LineageReport { tasks: vec![task], gaps: vec![gap], more: false },
            concat!(
                r#"{"tasks":[{"task":"t-1","agent":"clerk","node":"did:key:z6Mk","caller":null,"turns":[{"message":"m-1","#,
                r#""version":"1.0.0","node":"did:key:z6Mk","endedMs":7,"trace":null,"binding":"0d","resumed":false,"#,
                r#""models":["small"],"input":"0e","passages":["p-1"],"morePassages":0,"calls":[{"tool":"agents/echo","#,
                r#""outcome":"done","definition":"0a","arguments":"0b","result":"0c","task":"t-2"}],"moreCalls":1,"#,
                r#""output":"0f","proof":false}],"forgotten":0}],"gaps":[{"task":"t-2","agent":"urn:a","caller":"t-1","#,
                r#""why":"nobody has it"}],"more":false}"#,
            ),
        );
    }

    #[test]
    fn what_was_checked_is_told_with_what_came_of_it() {
        let check = RunCheck {
            what: "binding".to_owned(),
            verdict: CheckVerdict::Holds,
            why: "bound again, it is the same".to_owned(),
        };
        let turn = TurnVerification { message: "m-1".to_owned(), checks: vec![check] };
        let report = RunVerification {
            task: "t-1".to_owned(),
            agent: "clerk".to_owned(),
            holds: true,
            turns: vec![turn],
            forgotten: 0,
        };
        assert_json(
            &report,
            concat!(
                r#"{"task":"t-1","agent":"clerk","holds":true,"turns":[{"message":"m-1","checks":[{"what":"binding","#,
                r#""verdict":"holds","why":"bound again, it is the same"}]}],"forgotten":0}"#,
            ),
        );
        assert_json(&[CheckVerdict::Broken, CheckVerdict::Gone], r#"["broken","gone"]"#);
    }
}

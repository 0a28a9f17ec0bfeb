//! Tests of agents: cases, what came of them, and tasks that are run again from their tapes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs the cases of a file: what `POST /tests` is sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestRequest {
    /// The agent that is tested, by its name or its id: one of this node, or, for real, one of another node.
    pub agent: String,
    /// The cases: a line of JSON for each, in the form of Inspect's samples.
    pub cases: String,
    /// How often each case is run [default: 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// How texts are compared: `includes` (the default), `match`, `match:begin`, `match:any` or `match:exact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer: Option<String>,
    /// The least share of cases that are right in all of their runs, 0 to 1; without one, each run of each case has to be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Asks models and tools for real; without it, tapes answer and nothing outside is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveTest>,
    /// Whether it is accepted that an agent of another node may change something there, which nothing here can keep from it. Without
    /// this, such an agent is not called.
    #[serde(default)]
    pub effects_elsewhere: bool,
    /// Whether the report is wanted as JUnit's XML too.
    #[serde(default)]
    pub junit: bool,
}

/// A test for real: tools that may change something are denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveTest {
    /// The servers whose tools may change something all the same.
    #[serde(default)]
    pub test_servers: Vec<String>,
}

/// What is said of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TestOutcome {
    /// It passed.
    Pass,
    /// It failed.
    Fail,
    /// It cannot be told, which is not a pass.
    Undecided,
}

/// What came of a test: what `POST /tests` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestReply {
    /// For programs.
    pub report: TestReport,
    /// For people.
    pub table: String,
    /// As JUnit's XML, where that was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub junit: Option<String>,
}

/// A report of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// The name of the agent.
    pub agent: String,
    /// The version that was tested; absent of an agent of another node that told none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How texts were compared.
    pub scorer: String,
    /// What is said of all of it.
    pub verdict: TestOutcome,
    /// How often each case was run.
    pub k: u32,
    /// The share of cases that are right in all of `k` runs (pass^k).
    pub pass_hat: ShareEstimate,
    /// The share of cases that are right in one of `k` runs at least (pass@k).
    pub pass_at: ShareEstimate,
    /// The least that was asked of the first of both.
    pub floor: Option<f64>,
    /// Whether the agent runs on another node: its tools, tokens and effects there are not seen here.
    pub elsewhere: bool,
    /// The cases, in the order of their file.
    pub cases: Vec<CaseReport>,
    /// How often the agents that judge answers said what the cases say is right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeAgreement>,
}

/// The agreement of a judge with labelled cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeAgreement {
    /// The judge, as the contract names it: `agents/NAME`.
    pub judge: String,
    /// Runs of labelled cases in which it said what the case says.
    pub agreed: u32,
    /// Runs of labelled cases in which it was asked.
    pub asked: u32,
    /// Between which shares its agreement lies, with a probability of 95 %.
    pub interval: Option<(f64, f64)>,
}

/// What a judge said of the answer of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeVerdict {
    /// The judge, as the contract names it: `agents/NAME`.
    pub judge: String,
    /// Whether it let the answer pass; none where it gave no verdict.
    pub passed: Option<bool>,
}

/// An estimate of a share, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareEstimate {
    /// The share; none where runs of a case are undecided.
    pub estimate: Option<f64>,
    /// Between which shares it lies, with a probability of 95 %.
    pub interval: Option<(f64, f64)>,
}

/// The runs of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseReport {
    /// The case, by its name or the number of its line.
    pub id: String,
    /// What is said of it.
    pub verdict: TestOutcome,
    /// Runs that passed.
    pub passed: u32,
    /// Runs that were decided.
    pub decided: u32,
    /// The runs, in their order.
    pub runs: Vec<CaseRun>,
}

/// A run of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseRun {
    /// What is said of it.
    pub verdict: TestOutcome,
    /// What is not right, or why it is undecided.
    pub reasons: Vec<String>,
    /// The name of the agent that the message is for, where that was found.
    pub agent: Option<String>,
    /// The tools that the agent asked for, as `server/tool`, in their order, also those of `denied`; nothing where the agent runs on
    /// another node, since they are not seen there.
    pub tools: Vec<String>,
    /// Those of them that a live test denied, in their order: they were not called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// How long until the first words of the answer, milliseconds, in a live test.
    pub first_token_ms: Option<u64>,
    /// Tokens of prompts and answers; none where they are not known, as of an agent of another node.
    pub tokens: Option<u64>,
    /// Tokens in a second; none of a run that took no time, or whose tokens are not known.
    pub tokens_per_second: Option<f64>,
    /// What the agent's models cost, millionths of the currency of their `cost`; none where one does not tell it.
    pub cost: Option<u64>,
    /// What the agents said that judged its answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeVerdict>,
}

/// A task as a case: what `GET /tasks/{task}/case` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCase {
    /// Its line in a file of cases.
    pub case: String,
    /// Whether the task has a tape, which answers the case. One without has input and answer alone.
    pub recorded: bool,
}

/// Runs a task again from its tape: what `POST /replay` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// The A2A task.
    pub task: String,
}

/// What came of running a task again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReplay {
    /// The A2A task.
    pub task: String,
    /// The name of the agent.
    pub agent: String,
    /// The version that ran now.
    pub version: String,
    /// Whether all turns are equal.
    pub equal: bool,
    /// The turns, in their order.
    pub turns: Vec<TurnReplay>,
}

/// What came of running a turn again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnReplay {
    /// The id of the message that began it.
    pub message: String,
    /// Where it differs, in words; nothing of one that is equal.
    pub differences: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_test_is_ordered_and_told() {
        let order = TestRequest { agent: "clerk".to_owned(), cases: "{}".to_owned(), ..TestRequest::default() };
        assert_json(&order, r#"{"agent":"clerk","cases":"{}","effectsElsewhere":false,"junit":false}"#);
        let live = LiveTest { test_servers: vec!["desk".to_owned()] };
        let order = TestRequest { runs: Some(3), floor: Some(0.5), live: Some(live), ..order };
        assert_json(
            &order,
            r#"{"agent":"clerk","cases":"{}","runs":3,"floor":0.5,"live":{"testServers":["desk"]},"effectsElsewhere":false,"junit":false}"#,
        );
        let run = CaseRun {
            verdict: TestOutcome::Fail,
            reasons: vec!["why".to_owned()],
            agent: None,
            tools: vec!["a/x".to_owned()],
            denied: vec!["a/x".to_owned()],
            duration_ms: 5,
            first_token_ms: None,
            tokens: Some(7),
            tokens_per_second: Some(1.5),
            cost: Some(9),
            judges: vec![JudgeVerdict { judge: "agents/j".to_owned(), passed: Some(true) }],
        };
        let case =
            CaseReport { id: "1".to_owned(), verdict: TestOutcome::Fail, passed: 0, decided: 1, runs: vec![run] };
        let report = TestReport {
            agent: "clerk".to_owned(),
            version: Some("1.0.0".to_owned()),
            scorer: "includes".to_owned(),
            verdict: TestOutcome::Undecided,
            k: 1,
            pass_hat: ShareEstimate { estimate: Some(0.5), interval: Some((0.25, 0.75)) },
            pass_at: ShareEstimate { estimate: None, interval: None },
            floor: None,
            elsewhere: false,
            cases: vec![case],
            judges: vec![JudgeAgreement { judge: "agents/j".to_owned(), agreed: 1, asked: 2, interval: None }],
        };
        let unknown = TestReport { version: None, ..report.clone() };
        let written = serde_json::to_value(&unknown).expect("it is written");
        assert_eq!(written.get("version"), None, "it is absent, and no word stands for it");
        assert_eq!(serde_json::from_value::<TestReport>(written).ok(), Some(unknown));
        assert_json(
            &TestReply { report, table: "t".to_owned(), junit: None },
            concat!(
                r#"{"report":{"agent":"clerk","version":"1.0.0","scorer":"includes","verdict":"undecided","k":1,"#,
                r#""passHat":{"estimate":0.5,"interval":[0.25,0.75]},"passAt":{"estimate":null,"interval":null},"#,
                r#""floor":null,"elsewhere":false,"cases":[{"id":"1","verdict":"fail","passed":0,"decided":1,"runs":[{"verdict":"fail","#,
                r#""reasons":["why"],"agent":null,"tools":["a/x"],"denied":["a/x"],"durationMs":5,"firstTokenMs":null,"#,
                r#""tokens":7,"#,
                r#""tokensPerSecond":1.5,"cost":9,"judges":[{"judge":"agents/j","passed":true}]}]}],"#,
                r#""judges":[{"judge":"agents/j","agreed":1,"asked":2,"interval":null}]},"table":"t"}"#,
            ),
        );
        assert_json(&[TestOutcome::Pass, TestOutcome::Fail], r#"["pass","fail"]"#);
    }

    #[test]
    fn cases_and_replays_are_told() {
        assert_json(&TaskCase { case: "{}".to_owned(), recorded: true }, r#"{"case":"{}","recorded":true}"#);
        assert_json(&ReplayRequest { task: "t-1".to_owned() }, r#"{"task":"t-1"}"#);
        let turn = TurnReplay { message: "m-1".to_owned(), differences: vec!["why".to_owned()] };
        let replay = TaskReplay {
            task: "t-1".to_owned(),
            agent: "clerk".to_owned(),
            version: "1.0.0".to_owned(),
            equal: false,
            turns: vec![turn],
        };
        assert_json(
            &replay,
            concat!(
                r#"{"task":"t-1","agent":"clerk","version":"1.0.0","equal":false,"#,
                r#""turns":[{"message":"m-1","differences":["why"]}]}"#,
            ),
        );
    }
}

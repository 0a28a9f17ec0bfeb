//! What nodes of one owner ask each other about the turns of a task, and answer.

use althing_session::{RunCallee, RunRecord, TaskRuns};
use serde::{Deserialize, Serialize};

/// The operation.
pub(crate) const RUNS: &str = "runs";
/// Bytes of one answer.
pub const RUNS_BYTES_MAX: usize = 128 << 10;
/// Bytes of a task's id that is asked for.
const TASK_BYTES_MAX: usize = 64;

/// Which task.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunsQuestion {
    pub task: String,
}

/// What a node keeps of the task's turns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RunsAnswer {
    /// The name of its agent; none where the node has no such task.
    #[serde(default)]
    pub agent: Option<String>,
    /// The newest records, the oldest first.
    #[serde(default)]
    pub runs: Vec<RunRecord>,
    /// Older ones, which made room for them.
    #[serde(default)]
    pub forgotten: u64,
}

impl From<TaskRuns> for RunsAnswer {
    fn from(runs: TaskRuns) -> RunsAnswer {
        RunsAnswer { agent: Some(runs.agent), runs: runs.runs, forgotten: runs.forgotten }
    }
}

/// Whether that may be the id of a task.
pub(crate) fn is_task(task: &str) -> bool {
    !task.is_empty() && task.len() <= TASK_BYTES_MAX && task.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether what a node said can be shown: of an owner's own node, and still its words.
pub(crate) fn is_shown(answer: &RunsAnswer) -> bool {
    // No text may show as another one.
    let is_plain = |text: &str| althing_protocol::hidden_in(text).is_none() && !text.chars().any(char::is_control);
    let of_run = |run: &RunRecord| {
        let names = [&run.message, &run.agent, &run.version, &run.node, &run.binding, &run.input, &run.output];
        let calls = run.calls.iter().flat_map(|call| [&call.tool, &call.outcome, &call.definition, &call.arguments]);
        let results = run.calls.iter().filter_map(|call| call.result.as_ref());
        let callees = run.calls.iter().filter_map(|call| call.callee.as_ref());
        let callees = callees.flat_map(|RunCallee { agent, task }| [agent, task]);
        let lists = run.models.iter().chain(&run.passages).chain(&run.trace);
        names.into_iter().chain(calls).chain(results).chain(callees).chain(lists).all(|text| is_plain(text))
    };
    answer.agent.iter().all(|agent| is_plain(agent)) && answer.runs.iter().all(of_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_the_id_of_a_task_is_asked_for() {
        assert!(is_task("0193e7a0-7d4f-7abc-8def-0123456789ab"));
        for wrong in ["", "a b", "a\nb", "ä", &"x".repeat(TASK_BYTES_MAX + 1)] {
            assert!(!is_task(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn what_cannot_be_shown_is_not_taken() {
        let answer = |tool: &str| {
            let run = serde_json::json!({
                "message": "m", "agent": "a", "version": "1.0.0", "node": "n", "endedMs": 1, "binding": "0a",
                "input": "0b", "output": "0c", "calls": [{ "tool": tool, "outcome": "done" }],
            });
            let answer = serde_json::json!({ "agent": "a", "runs": [run], "new": 1 });
            serde_json::from_value::<RunsAnswer>(answer).expect("members that are not known are left out")
        };
        assert!(
            is_shown(&answer("shop/order"))
                && !is_shown(&answer("shop/\u{1b}[2J"))
                && !is_shown(&answer("shop/\u{202e}order"))
        );
    }
}

//! What the doctor says of turns that survive the end of the node.

use althing_calls::SessionSummary;
use althing_failure::CallStep;

use super::finding::{Finding, fine, wrong};

/// The turns that have a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sessions {
    /// How many.
    pub count: usize,
    /// Calls of them of which nobody knows whether they were carried out.
    pub doubts: Vec<TaskDoubt>,
}

/// A call that was under way when the node ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDoubt {
    /// The agent that made it.
    pub agent: String,
    /// The task that waits for it.
    pub task: String,
    /// The number of its step in the turn.
    pub step: u32,
    /// What was called: `SERVER/TOOL`.
    pub name: String,
}

impl Sessions {
    /// Those of a list.
    pub(super) fn of(list: Vec<SessionSummary>) -> Sessions {
        let count = list.len();
        let of_session = |session: SessionSummary| {
            let SessionSummary { agent, task, doubts, .. } = session;
            doubts.into_iter().map(move |doubt| TaskDoubt {
                agent: agent.clone(),
                task: task.clone(),
                step: doubt.seq,
                name: doubt.name,
            })
        };
        Sessions { count, doubts: list.into_iter().flat_map(of_session).collect() }
    }
}

/// Judges them: a call in doubt is wrong, as its task waits for a person.
pub(super) fn judge(sessions: &Sessions, findings: &mut Vec<Finding>) {
    let told = |doubt: &TaskDoubt| {
        let TaskDoubt { agent, task, step, name } = doubt;
        wrong(
            "L4",
            format!(
                "agent {agent:?} waits in task {task}: this node ended while step {step} called {name}, and nobody knows \
                 whether it was carried out. It is not repeated, and the task fails a day after it began to wait"
            ),
            "look where that call leads",
        )
        .then(CallStep::Resume { task: task.clone(), step: *step })
    };
    findings.extend(sessions.doubts.iter().map(told));
    if sessions.doubts.is_empty() && sessions.count != 0 {
        findings.push(fine("L4", format!("{} turns are journalled, and no call of them is in doubt", sessions.count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(sessions: &Sessions) -> Vec<Finding> {
        let mut findings = Vec::new();
        judge(sessions, &mut findings);
        findings
    }

    #[test]
    fn each_call_in_doubt_is_a_finding_with_the_step_that_ends_it() {
        let doubt =
            |step| TaskDoubt { agent: "clerk".to_owned(), task: "t-1".to_owned(), step, name: "bank/pay".to_owned() };
        let found = findings(&Sessions { count: 1, doubts: vec![doubt(4), doubt(6)] });
        let [first, second] = found.as_slice() else { panic!("{found:?}") };
        assert!(!first.fine && first.layer == "L4" && first.what.contains("step 4 called bank/pay"), "{first:?}");
        assert_eq!(first.next, Some(CallStep::Resume { task: "t-1".to_owned(), step: 4 }.into()), "{first:?}");
        assert!(second.what.contains("step 6"), "{second:?}");
    }

    #[test]
    fn journals_without_doubt_are_fine_and_where_there_are_none_nothing_is_said() {
        assert_eq!(findings(&Sessions::default()), []);
        let found = findings(&Sessions { count: 2, doubts: Vec::new() });
        assert!(found.len() == 1 && found[0].fine && found[0].what.starts_with("2 turns"), "{found:?}");
    }
}

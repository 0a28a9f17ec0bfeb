//! What the doctor says of turns that survive the end of the node.

use althing_calls::{SessionSummary, TurnLoss};
use althing_failure::CallStep;

use super::finding::{Finding, counted, fine, fitting, wrong};

/// The turns that have a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sessions {
    /// How many.
    pub count: usize,
    /// Calls of them of which nobody knows whether they were carried out.
    pub doubts: Vec<TaskDoubt>,
    /// Turns that did not go on after the node had ended.
    pub lost: Vec<TurnLoss>,
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
    /// Those of a list, and those that are in none any more since they were lost.
    pub(super) fn of(list: Vec<SessionSummary>, lost: Vec<TurnLoss>) -> Sessions {
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
        Sessions { count, doubts: list.into_iter().flat_map(of_session).collect(), lost }
    }
}

/// A turn that was lost: its agent does not know any more what it was doing.
fn lost(loss: &TurnLoss) -> Finding {
    let TurnLoss { agent, task, why, restart_until_ms } = loss;
    let what = format!("agent {agent:?} lost what it was doing in task {task} when this node ended: {why}");
    if restart_until_ms.is_some() {
        return wrong("L4", what, "find the step that it is to go on from").then(CallStep::Restart(task.clone()));
    }
    let remedy = "send the message again; `session` in the file of an agent says whether its turns go on when their node ended. \
                  This is told for a day, or until the node is started again";
    wrong("L4", what, remedy)
}

/// Judges them: a call in doubt is wrong, as its task waits for a person, and so is a turn that was lost.
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
    findings.extend(sessions.lost.iter().map(lost));
    if sessions.doubts.is_empty() && sessions.count != 0 {
        let (are, them) = (fitting(sessions.count, "is", "are"), fitting(sessions.count, "it", "them"));
        let turns = counted(sessions.count, "turn");
        findings.push(fine("L4", format!("{turns} {are} journalled, and no call of {them} is in doubt")));
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
        let found = findings(&Sessions { count: 1, doubts: vec![doubt(4), doubt(6)], lost: Vec::new() });
        let [first, second] = found.as_slice() else { panic!("{found:?}") };
        assert!(!first.fine && first.layer == "L4" && first.what.contains("step 4 called bank/pay"), "{first:?}");
        assert_eq!(first.next, Some(CallStep::Resume { task: "t-1".to_owned(), step: 4 }.into()), "{first:?}");
        assert!(second.what.contains("step 6"), "{second:?}");
    }

    #[test]
    fn a_turn_that_was_lost_is_wrong_and_says_whether_it_may_go_on() {
        let lost = |restart_until_ms| {
            let (agent, task, why) = ("clerk".to_owned(), "t-7".to_owned(), "VERSION_CHANGED: no".to_owned());
            Sessions { lost: vec![TurnLoss { agent, task, why, restart_until_ms }], ..Sessions::default() }
        };
        for restart_until_ms in [Some(1_700_000_000_000), None] {
            let next: Option<althing_failure::Remedy> =
                restart_until_ms.map(|_| CallStep::Restart("t-7".to_owned()).into());
            let found = findings(&lost(restart_until_ms));
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert!(!one.fine && one.layer == "L4" && !one.remedy.is_empty(), "{one:?}");
            assert!(one.what.contains("\"clerk\"") && one.what.contains("task t-7 "), "{one:?}");
            assert!(one.what.ends_with("VERSION_CHANGED: no"), "{one:?}");
            assert_eq!(one.next, next);
        }
    }

    #[test]
    fn journals_without_doubt_are_fine_and_where_there_are_none_nothing_is_said() {
        assert_eq!(findings(&Sessions::default()), []);
        let found = findings(&Sessions { count: 2, ..Sessions::default() });
        assert!(found.len() == 1 && found[0].fine && found[0].what.starts_with("2 turns"), "{found:?}");
    }
}

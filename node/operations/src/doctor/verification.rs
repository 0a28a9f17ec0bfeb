//! What the doctor says of the answers of this node's agents: turns that failed in silence, and answers that were refused.

use althing_execution::hrt::OUTPUT_OUT_OF_LIMITS;
use althing_execution::{ANSWER_REFUSED, AgentStatus, FindingCount};
use althing_failure::CallStep;
use althing_node::rollouts::{RolloutFault, RolloutTrouble};

use super::finding::{Finding, counted, fine, note, wrong};

/// What was found of turns of one version of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFinding {
    /// The agent's name.
    pub agent: String,
    /// Its version, as its file has it.
    pub version: String,
    /// What was found, by its name.
    pub finding: String,
    /// In how many turns, or jobs.
    pub count: u64,
    /// The newest of their tasks; empty of jobs that belong to none.
    pub task: String,
}

/// The findings of all agents that run.
pub(super) fn of(running: &[AgentStatus]) -> Vec<TurnFinding> {
    let one = |agent: &AgentStatus, found: &FindingCount| TurnFinding {
        agent: agent.name.clone(),
        version: agent.version.to_string(),
        finding: found.finding.to_owned(),
        count: found.count,
        task: found.task.clone(),
    };
    running.iter().flat_map(|agent| agent.findings.iter().map(move |found| one(agent, found))).collect()
}

/// What a finding says, and what to do about it.
fn words(finding: &str) -> (&'static str, &'static str) {
    match finding {
        ANSWER_REFUSED => (
            "a gate refused its answer",
            "look which gate refused it and why; mend the agent, or `verify` in its contract",
        ),
        OUTPUT_OUT_OF_LIMITS => (
            "an output broke its limits and was not shown, so that what was good last stayed",
            "look why its outputs leave `signals.limits` of its contract, and mend the module or the limits",
        ),
        "said-nothing" => (
            "it was done, and said nothing",
            "mend the agent, or say `output: optional` under `verify` in its contract where that is meant",
        ),
        "answer-cut" => (
            "its model was stopped in the middle of its answer",
            "raise `model.output_tokens` in its contract; `finished: true` under `verify` refuses such answers",
        ),
        "no-effect-succeeded" => (
            "no call that changes something succeeded, and its answer does not say so",
            "look why the calls failed, and have its prompt tell failures",
        ),
        "result-breaks-its-schema" => (
            "a tool answered something else than its definition says",
            "mend the server of the tool, or ask its author",
        ),
        "effect-without-call" => (
            "it says that it did what only a tool does, and called none",
            "do not rely on that answer; a check under `verify` in its contract refuses such answers",
        ),
        "same-answer" => {
            ("it gives different questions the same answer", "look whether its model, or what it asks, answers at all")
        }
        "few-tools" => ("it calls far fewer tools than in its tests", "look whether its tools are still offered to it"),
        _ => ("its answer may be wrong", "look at the task"),
    }
}

/// Judges them: each is wrong, since whoever asked was told that all is well, or was told nothing.
pub(super) fn judge(found: &[TurnFinding], findings: &mut Vec<Finding>) {
    let told = |one: &TurnFinding| {
        let TurnFinding { agent, version, finding, count, task } = one;
        let (what, remedy) = words(finding);
        let unit = if task.is_empty() { "job" } else { "turn" };
        let what = format!("in {} of agent {agent:?} ({version}) {what} ({finding})", counted(*count, unit));
        let remedy = format!("{remedy}. It is counted until the agent is added again");
        if task.is_empty() {
            return wrong("L6", what, remedy);
        }
        let next = match finding.as_str() {
            ANSWER_REFUSED => CallStep::ShowVerdict(task.clone()),
            _ => CallStep::ShowLineage(task.clone()),
        };
        wrong("L6", format!("{what}, the last time in task {task}"), remedy).then(next)
    };
    findings.extend(found.iter().map(told));
    if found.is_empty() {
        findings.push(fine("L6", "no turn of the agents that run failed in silence, and no answer was refused"));
    }
}

/// Judges what is the matter with versions of an agent.
pub(super) fn judge_rollout(RolloutTrouble { agent, what }: &RolloutTrouble) -> Finding {
    match what {
        RolloutFault::Held(why) => note(
            "L6",
            format!("no rollout of agent {agent:?} in a higher version of its model could be begun: {why}"),
            "it goes on with the version that it has, and the rollout is tried again each minute: mend what keeps it from beginning",
        ),
        RolloutFault::Down { version, why } => wrong(
            "L6",
            format!(
                "version {version} of agent {agent:?} does not run, and another one answers its conversations: {why}"
            ),
            "mend what keeps it from starting, or end its rollout; it is tried again every ten seconds",
        ),
        RolloutFault::WentBack(why) => note(
            "L6",
            format!("the last new version of agent {agent:?} went back: {why}"),
            format!(
                "the version before answers everything again. Look at the rollout of {agent:?}: it has the evidence, and what that \
                 version may have changed. It is told until another one begins"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_higher_version_of_a_model_is_not_tried_is_told_with_what_can_be_done() {
        let what = RolloutFault::Held("a policy forbids it".to_owned());
        let told = judge_rollout(&RolloutTrouble { agent: "clerk".to_owned(), what });
        assert!(told.fine && told.layer == "L6" && told.remedy.contains("each minute"), "{told:?}");
        let what = "no rollout of agent \"clerk\" in a higher version of its model could be begun: a policy forbids it";
        assert_eq!(told.what, what);
        let (version, why) = ("1.1.0".to_owned(), "no such file".to_owned());
        let what = RolloutFault::Down { version, why };
        let down = judge_rollout(&RolloutTrouble { agent: "clerk".to_owned(), what });
        assert!(!down.fine && down.layer == "L6" && down.what.contains("version 1.1.0 of agent"), "{down:?}");
        let what = RolloutFault::WentBack("it crashed".to_owned());
        let told = judge_rollout(&RolloutTrouble { agent: "clerk".to_owned(), what });
        assert!(told.fine && told.what.ends_with("went back: it crashed"), "{told:?}");
        assert!(told.remedy.contains("the rollout of \"clerk\""), "{told:?}");
    }

    fn judged(found: &[TurnFinding]) -> Vec<Finding> {
        let mut findings = Vec::new();
        judge(found, &mut findings);
        findings
    }

    #[test]
    fn each_finding_is_told_with_its_agent_its_count_its_newest_task_and_what_to_do() {
        let found = |finding: &str, count| TurnFinding {
            agent: "clerk".to_owned(),
            version: "1.2.0".to_owned(),
            finding: finding.to_owned(),
            count,
            task: "t-9".to_owned(),
        };
        let told = judged(&[found("said-nothing", 1), found(ANSWER_REFUSED, 3)]);
        assert!(told.iter().all(|one| !one.fine && one.layer == "L6"), "{told:?}");
        assert_eq!(told[0].next, Some(CallStep::ShowLineage("t-9".to_owned()).into()));
        assert_eq!(told[1].next, Some(CallStep::ShowVerdict("t-9".to_owned()).into()), "a gate said why");
        for words in ["in 1 turn of agent \"clerk\" (1.2.0)", "said-nothing", "task t-9"] {
            assert!(told[0].what.contains(words), "{told:?}");
        }
        assert!(told[1].what.starts_with("in 3 turns"), "{told:?}");
        let jobs = TurnFinding { task: String::new(), ..found(OUTPUT_OUT_OF_LIMITS, 12) };
        let told = judged(&[jobs]);
        let what = &told[0].what;
        assert!(what.starts_with("in 12 jobs of agent") && what.ends_with("(output-out-of-limits)"), "{told:?}");
        assert!(told[0].next.is_none() && !told[0].fine && told[0].remedy.contains("signals.limits"), "{told:?}");
        let well = judged(&[]);
        assert!(well.len() == 1 && well[0].fine && well[0].layer == "L6", "{well:?}");
    }
}

//! Whether one run of a case was right.

use std::fmt;

use althing_protocol::contract::Breach;
use serde_json::Value;

use super::judges::JudgeWord;
use super::scorer::Scorer;
use crate::machine::cases::{Case, Expectation, Grade, ToolRule, excerpt};
use crate::machine::json::strict;

/// What one run of a case brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// The text of the last answer, or why there is none.
    pub answer: Option<Result<String, String>>,
    /// What it asked that is not on its tape, where it broke off.
    pub missing: Option<String>,
    /// The data of the last answer, where it has a part of JSON.
    pub data: Option<Value>,
    /// Whom the message was for, where that was found: name and id.
    pub agent: Option<(String, String)>,
    /// The tools that the agent asked for, as `server/tool`, in their order, also those that it was denied.
    pub tools: Vec<String>,
    /// Those of them that the test denied, in their order.
    pub denied: Vec<String>,
    /// Why the run could not be made, if it could not: it says nothing of the agent.
    pub obstacle: Option<String>,
    /// Whether a gate refused the last answer, after all repairs.
    pub is_refused: bool,
    /// The gate that could not judge the last answer, where that is held back for this.
    pub unjudged: Option<String>,
    /// What the agents said that judged the last answer.
    pub judges: Vec<JudgeWord>,
    /// Why a call was denied, the first one that was.
    pub denial: Option<String>,
}

/// What is said of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// All that was judged is right.
    Pass,
    /// Something is not.
    Fail(Vec<Finding>),
    /// It cannot be told: why.
    Undecided(String),
}

/// One thing that is not right.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// There is no answer: why.
    NoAnswer(String),
    /// It asked something that is not on its tape: what.
    NotOnTape(String),
    /// The text is none of those that are right.
    Answer {
        /// By what the texts were compared.
        scorer: Scorer,
        /// Answers that are right.
        targets: Vec<String>,
        /// What the agent said, cut where it is long.
        answer: String,
    },
    /// The message is for another agent.
    Agent {
        /// Whom it should be for.
        wanted: String,
        /// Whom it was for.
        found: Option<String>,
    },
    /// Other tools were called, or in another order.
    Tools {
        /// What was right.
        rule: ToolRule,
        /// What was called.
        calls: Vec<String>,
    },
    /// A tool was called that should not be.
    Forbidden(String),
    /// The answer is not what its schema says.
    Schema {
        /// Where, as JSON pointers: in the answer, and in the schema.
        places: Vec<(String, String)>,
    },
    /// The answer has a schema and is no JSON, or one in which a name stands twice.
    NoData,
    /// A gate should have refused the answer, and none did.
    Unrefused,
    /// A call was denied, which may be why the rest is not right: why it was.
    Denied(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::NoAnswer(why) => write!(f, "no answer: {why}"),
            Finding::NotOnTape(what) => write!(f, "NOT_ON_TAPE: {what}"),
            Finding::Answer { scorer, targets, answer } => {
                let first = targets.first().map(|target| excerpt(target)).unwrap_or_default();
                let others = targets.len().saturating_sub(1);
                let or = if others > 0 { format!(" or {others} others") } else { String::new() };
                write!(f, "the answer {:?} is not right ({}): wanted {first:?}{or}", excerpt(answer), scorer.word())
            }
            Finding::Agent { wanted, found: Some(found) } => {
                write!(f, "found agent {:?}, wanted {:?}", excerpt(found), excerpt(wanted))
            }
            Finding::Agent { wanted, found: None } => write!(f, "found no agent, wanted {:?}", excerpt(wanted)),
            Finding::Tools { rule, calls } => {
                let list = |tools: &[String]| match tools {
                    [] => "none".to_owned(),
                    tools => tools.iter().map(|tool| excerpt(tool)).collect::<Vec<_>>().join(", "),
                };
                write!(f, "called {}, wanted ({}) {}", list(calls), rule.name(), list(rule.tools()))
            }
            Finding::Forbidden(tool) => write!(f, "called {}, which should never be called", excerpt(tool)),
            Finding::Schema { places } => {
                f.write_str("the answer is not as its schema says")?;
                for (at, rule) in places {
                    let at = if at.is_empty() { "the whole" } else { at.as_str() };
                    write!(f, "; {} breaks {}", excerpt(at), excerpt(rule))?;
                }
                Ok(())
            }
            Finding::NoData => f.write_str("the answer has a schema, and is no JSON that all read alike"),
            Finding::Unrefused => f.write_str("no gate refused the answer, and one should"),
            Finding::Denied(why) => write!(f, "a call was denied: {why}"),
        }
    }
}

/// Of what a case names (its answers, agent, tools, forbidden tools and schema), the share that is right in a run with these
/// findings, from 0 to 1. Without an answer nothing is.
pub(super) fn score(case: &Case, findings: &[Finding]) -> f64 {
    if findings.iter().any(|finding| matches!(finding, Finding::NoAnswer(_) | Finding::NotOnTape(_))) {
        return 0.0;
    }
    let Expectation { agent, tools, never, schema, label: _, task: _, verdict } = &case.expectation;
    let (has_targets, is_graded) = (!case.targets.is_empty(), verdict.is_some());
    let named = [has_targets, agent.is_some(), tools.is_some(), !never.is_empty(), schema.is_some(), is_graded];
    let named = named.into_iter().filter(|is_named| *is_named).count();
    let forbidden = findings.iter().filter(|finding| matches!(finding, Finding::Forbidden(_))).count();
    // Nothing that a case names.
    let denied = findings.iter().filter(|finding| matches!(finding, Finding::Denied(_))).count();
    // However many forbidden tools were called, that is one thing.
    let wrong = findings.len() - denied - forbidden.saturating_sub(1);
    1.0 - wrong as f64 / named.max(wrong).max(1) as f64
}

/// Judges a run of a case.
#[must_use]
pub fn judge(case: &Case, scorer: Scorer, seen: &Observation) -> Verdict {
    if let Some(obstacle) = &seen.obstacle {
        return Verdict::Undecided(obstacle.clone());
    }
    let mut findings = Vec::new();
    if let Some(wanted) = &case.expectation.agent {
        let is_right = seen.agent.as_ref().is_some_and(|(name, id)| wanted == name || wanted == id);
        if !is_right {
            let found = seen.agent.as_ref().map(|(name, _)| name.clone());
            findings.push(Finding::Agent { wanted: wanted.clone(), found });
        }
    }
    match &seen.answer {
        _ if let Some(missing) = &seen.missing => findings.push(Finding::NotOnTape(missing.clone())),
        // Nobody is shown a bad answer, so that nothing else of it is judged.
        _ if case.expectation.verdict == Some(Grade::Fail) => {
            let is_let_pass = !seen.is_refused && unjudged(case, seen).is_none();
            findings.extend(is_let_pass.then_some(Finding::Unrefused));
        }
        None => findings.push(Finding::NoAnswer("nothing was said".to_owned())),
        Some(Err(why)) => findings.push(Finding::NoAnswer(why.clone())),
        Some(Ok(answer)) => judge_answer(case, scorer, (answer.as_str(), seen.data.as_ref()), &mut findings),
    }
    if let Some(rule) = case.expectation.tools.as_ref().filter(|rule| !rule.holds(&seen.tools)) {
        findings.push(Finding::Tools { rule: rule.clone(), calls: seen.tools.clone() });
    }
    let never = case.expectation.never.iter().filter(|tool| seen.tools.contains(tool));
    findings.extend(never.cloned().map(Finding::Forbidden));
    if let Some(why) = seen.denial.as_ref().filter(|_| !findings.is_empty()) {
        findings.push(Finding::Denied(why.clone()));
    }
    match findings.is_empty() {
        false => Verdict::Fail(findings),
        true if let Some(why) = unjudged(case, seen) => Verdict::Undecided(why),
        true if case.is_open() => Verdict::Undecided("the case does not say what is right".to_owned()),
        true => Verdict::Pass,
    }
}

/// Why it cannot be told whether the gates refuse what they should: one of them could not judge, or an agent that judges gave no
/// verdict when it was asked first. Nothing of a case whose answer is good, or that does not say.
fn unjudged(case: &Case, seen: &Observation) -> Option<String> {
    if case.expectation.verdict != Some(Grade::Fail) {
        return None;
    }
    let silent = || seen.judges.iter().find(|said| said.passed.is_none()).map(|said| said.judge.as_str());
    let gate = seen.unjudged.as_deref().or_else(silent)?;
    let denied = seen.denial.as_ref().map(|why| format!(": a call was denied: {why}")).unwrap_or_default();
    Some(format!("the gate {} could not judge the answer{denied}", excerpt(gate)))
}

fn judge_answer(case: &Case, scorer: Scorer, (answer, data): (&str, Option<&Value>), findings: &mut Vec<Finding>) {
    if !case.targets.is_empty() && !scorer.is_right(answer, &case.targets) {
        let (targets, answer) = (case.targets.clone(), answer.to_owned());
        findings.push(Finding::Answer { scorer, targets, answer });
    }
    let Some(schema) = &case.expectation.schema else { return };
    let parsed;
    let data = match data {
        Some(data) => Some(data),
        None => {
            parsed = strict(answer).ok();
            parsed.as_ref()
        }
    };
    match data {
        None => findings.push(Finding::NoData),
        Some(data) => {
            let broken = |breach: Breach| Finding::Schema { places: vec![(breach.place, breach.rule)] };
            findings.extend(schema.breach(data).map(broken));
        }
    }
}

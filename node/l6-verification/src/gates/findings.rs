//! What failed in silence in a turn that is complete: named in the log, and counted for the version that ran.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_execution::run_notes::{CallFacts, RunNotes, TurnFacts};
use althing_execution::tools::Tools;
use althing_execution::{FindingCounts, GatedTurn};
use althing_protocol::contract::OutputRule;
use althing_protocol::{AgentRef, digest};
use althing_td::Effect;

use super::known::AnswerBook;
use crate::machine::answer::{Answer, AnswerEnd};
use crate::machine::rules::is_cut;
use crate::machine::silent::{Call, SAME_BYTES_MIN, Turn, findings};

/// What is to be known of a turn beside its answer, and where findings are counted.
pub(super) struct Findings {
    agent: AgentRef,
    task: String,
    /// The number of the turn in its task, from 1.
    number: usize,
    tools: Arc<Tools>,
    /// The tools with an effect that it may call.
    effects: Vec<String>,
    silence_is_meant: bool,
    /// Whether the runtime is the node's own: all that such an agent does is a call that is noted.
    notes: bool,
    known: Arc<AnswerBook>,
    counts: Arc<FindingCounts>,
    /// Whether the turn is one of a task that is kept: tests and shadows count for nothing, since they may be denied what they need.
    is_kept: bool,
    run: RunNotes,
}

impl Findings {
    pub fn of(turn: &GatedTurn<'_>, known: &Arc<AnswerBook>) -> Findings {
        let verify = &turn.contract.verify;
        let named = named(&turn.contract.capabilities, turn.tools);
        let has_effect = |tool: &String| turn.tools.effect_of(tool) != Effect::None;
        Findings {
            agent: turn.agent.clone(),
            task: turn.task.to_owned(),
            number: turn.number,
            tools: turn.tools.clone(),
            effects: named.into_iter().filter(has_effect).collect(),
            silence_is_meant: verify.output == OutputRule::Optional,
            notes: turn.notes,
            known: known.clone(),
            counts: turn.findings.clone(),
            is_kept: turn.verdicts.is_some(),
            run: turn.run.clone(),
        }
    }

    /// What earlier turns of the task called of the tools with an effect, of which this one may speak; none where that is not
    /// known. Remembers what this one called.
    fn earlier(&self, facts: &TurnFacts) -> Option<BTreeSet<String>> {
        let is_first = self.number == 1;
        if self.effects.is_empty() || !self.is_kept {
            return is_first.then(BTreeSet::new);
        }
        let called = facts.calls.iter().filter(|call| call.outcome == "done" && self.effects.contains(&call.tool));
        let earlier = self.known.add_called(&self.task, called.map(|call| call.tool.clone()));
        if is_first { Some(BTreeSet::new()) } else { earlier }
    }

    /// Reports what failed in silence in a turn that answers that message so.
    pub fn report(&self, message: &str, answer: &Answer) {
        let facts = self.run.facts();
        let earlier = self.earlier(&facts);
        if answer.ending != AnswerEnd::Complete {
            return;
        }
        let is_own = |call: &&CallFacts| !call.is_check;
        let call = |call: &CallFacts| (call.clone(), self.tools.effect_of(&call.tool) != Effect::None);
        let noted: Vec<(CallFacts, bool)> = facts.calls.iter().filter(is_own).map(call).collect();
        let calls: Vec<Call<'_>> = noted
            .iter()
            .map(|(call, has_effect)| Call {
                tool: &call.tool,
                succeeded: call.outcome == "done",
                has_effect: *has_effect,
                breaks_schema: call.breaks_schema,
            })
            .collect();
        let text = answer.text();
        // What else a program or a server does is not known, so that it may say what it likes of that.
        let is_told = self.notes && earlier.is_some();
        let effects: Vec<&str> = if is_told { self.effects.iter().map(String::as_str).collect() } else { Vec::new() };
        let earlier: Vec<&str> = earlier.iter().flatten().map(String::as_str).collect();
        let is_known = (self.notes || !calls.is_empty()) && facts.more_calls == 0;
        let turn = Turn {
            answer: &text,
            says_something: answer.says_something(),
            silence_is_meant: self.silence_is_meant,
            is_cut: is_cut(answer),
            calls: is_known.then_some(calls.as_slice()),
            effects: &effects,
            earlier: &earlier,
        };
        let mut found = findings(&turn);
        if self.is_kept {
            let of = (&self.agent, &self.counts);
            if text.len() >= SAME_BYTES_MIN {
                let question = digest(message.as_bytes());
                found.extend(self.known.add_answer(of, question, digest(text.as_bytes()), text.len()));
            }
            // Of a version that was tested all calls are noted: no other one can be.
            if let Some(norm) = self.counts.call_norm() {
                let made = u64::try_from(calls.len()).unwrap_or(u64::MAX).saturating_add(facts.more_calls);
                found.extend(self.known.add_calls(of, made, norm));
            }
        }
        for finding in found {
            let is_of_several = finding.is_of_several_turns();
            let (agent, task, finding) = (self.agent.name(), self.task.as_str(), finding.name());
            if is_of_several {
                self.run.add_finding_of_several(finding);
            } else {
                self.run.add_finding(finding);
            }
            if self.is_kept {
                tracing::warn!(agent, task, finding, "a turn may have failed in silence");
                self.counts.add(finding, task);
            }
        }
    }
}

/// The tools that a contract permits by their names, and those of servers of which it permits all.
fn named(capabilities: &[String], tools: &Tools) -> Vec<String> {
    let all = capabilities.iter().any(|capability| capability.ends_with("/*")).then(|| tools.pins()).flatten();
    let of = |capability: &String| match capability.strip_suffix('*') {
        Some(server) if server.ends_with('/') => {
            let pinned = all.iter().flat_map(|all| all.keys());
            pinned.filter(|tool| tool.starts_with(server)).cloned().collect()
        }
        Some(_) => Vec::new(),
        None => vec![capability.clone()],
    };
    capabilities.iter().flat_map(of).collect()
}

//! What labels would decide where they decide nothing, of calls that were made; and what they say of one that nobody made.

use althing_execution::tools::is_within;
use althing_policy::{Gate, Kind, Request};
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use serde_json::{Map, Value};

use crate::decisions::DECISIONS_MAX;
use crate::error::OpenError;
use crate::governance::Governance;
use crate::machine::profile::ToolProfile;
use crate::machine::taint::{LabelFinding, LabelledCall, Origin, Taint};
use crate::trials::{TrialError, only_case};

/// Of the decisions that are remembered, those that labels would have turned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelTally {
    /// How many calls were made that labels would have denied.
    pub denials: usize,
    /// How many they would have asked somebody about.
    pub questions: usize,
    /// The number of the newest of them.
    pub newest: Option<u64>,
}

/// What labels say of a request that nobody made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelOutlook {
    /// `permit`, or `ask` or `deny` with why; nothing where nothing is known of what the request names, or labels say nothing of such.
    pub words: Option<String>,
    /// `permit`, `ask` or `deny`: what follows.
    pub answer: &'static str,
}

impl LabelOutlook {
    fn of(finding: Option<LabelFinding>) -> LabelOutlook {
        let answer = finding.map_or("permit", |finding| finding.in_force().word());
        LabelOutlook { words: finding.map(|finding| finding.verdict.to_string()), answer }
    }
}

impl LabelTally {
    /// Adds a call that was made, of which labels said that.
    fn add(&mut self, number: u64, said: &str) {
        let count = match said.split(':').next() {
            Some("deny") => &mut self.denials,
            Some("ask") => &mut self.questions,
            _ => return,
        };
        *count += 1;
        self.newest = self.newest.max(Some(number));
    }
}

/// What labels would have turned of the decisions that are remembered.
///
/// # Errors
/// [`OpenError::Read`].
pub fn tally_labels(governance: &Governance) -> Result<LabelTally, OpenError> {
    let most = usize::try_from(DECISIONS_MAX).unwrap_or(usize::MAX);
    let mut tally = LabelTally::default();
    for (number, record) in governance.decisions(most)?.records {
        // One that was asked about is remembered again once it was made.
        if let Some(said) = record.labels.as_deref().filter(|_| record.answer == "permit") {
            tally.add(number, said);
        }
    }
    Ok(tally)
}

/// Says what labels decide about a request, or would; it has the members of a case.
///
/// # Errors
/// [`TrialError::Cases`], and [`TrialError::None`] where there are policies that cannot be read: these deny.
pub fn explain_labels(governance: &Governance, request: Map<String, Value>) -> Result<LabelOutlook, TrialError> {
    let policies = governance.policies();
    if policies.is_loaded() && policies.text().is_none() {
        return Err(TrialError::None);
    }
    let case = only_case(request)?;
    Ok(LabelOutlook::of(finding(governance, &case.request())))
}

/// Says what labels decide, or would, if an agent (by its id) calls `server/tool` with any arguments, and its turn has data of that
/// label.
#[must_use]
pub fn tool_labels(governance: &Governance, agent: &str, tool: &str, label: Label) -> LabelOutlook {
    let taint = Taint::of_message(Some(label), Origin::Here, DataLabel::Public);
    LabelOutlook::of(tool_finding(governance, (agent, tool), taint, true))
}

fn finding(governance: &Governance, request: &Request<'_>) -> Option<LabelFinding> {
    let (policies, resource) = (governance.policies(), &request.resource.id);
    let taint = Taint::of_message(Some(request.label), Origin::Here, DataLabel::Public);
    let is_demanded = policies.labels_decide();
    match (request.gate, request.resource.kind) {
        (Gate::Model, Kind::Model) => {
            let cleared = policies.clearance_of(resource)?;
            let model = ToolProfile::of_model(cleared.level, cleared.is_written);
            Some(LabelFinding::of_model(taint, &model, is_demanded))
        }
        (Gate::UseTool, Kind::Tool) => {
            let has_arguments = !request.arguments.is_empty();
            tool_finding(governance, (&request.principal.id, resource), taint, has_arguments)
        }
        _ => None,
    }
}

fn tool_finding(
    governance: &Governance,
    (agent, tool): (&str, &str),
    taint: Taint,
    has_arguments: bool,
) -> Option<LabelFinding> {
    let policies = governance.policies();
    let said = if is_within(tool) { ToolProfile::default() } else { policies.profile_of(agent, tool)? };
    let profile = said.known(tool);
    let call = LabelledCall { profile: &profile, has_arguments, hidden: None, tier_max: None };
    Some(LabelFinding::of(taint, &call, policies.labels_decide()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_labels_would_have_let_be_are_not_counted() {
        let mut tally = LabelTally::default();
        for (number, said) in [(3, "deny: the data are confidential"), (9, "permit"), (5, "ask: why"), (4, "deny: no")]
        {
            tally.add(number, said);
        }
        assert_eq!(tally, LabelTally { denials: 2, questions: 1, newest: Some(5) });
    }
}

//! What the gate of an agent says of calls that follow one another, before the first of them is made.

use std::collections::VecDeque;

use crate::context;
use crate::decisions::Decisions;
use crate::journal::JournalError;
use crate::ruling::{GateVerdict, RulingAhead};
use crate::tool_call::ToolCall;
use crate::tools::Tools;

/// What the gate said of calls that follow one another. What is left when these are over, or when their turn ends, goes back to it:
/// a turn that goes on later decides on them anew.
pub(crate) struct StepRulings<'a> {
    decisions: &'a Decisions,
    rulings: VecDeque<Option<RulingAhead>>,
}

impl StepRulings<'_> {
    /// That of the next call; none where nothing was said of it.
    pub fn take(&mut self) -> Option<RulingAhead> {
        self.rulings.pop_front().flatten()
    }
}

impl Drop for StepRulings<'_> {
    fn drop(&mut self) {
        for ruling in self.rulings.drain(..).flatten() {
            if let GateVerdict::Permit(permit) = ruling.verdict {
                self.decisions.give_back(&permit);
            }
        }
    }
}

/// What the gate says of calls that follow one another, before the first of them is made: their names for models, or
/// `server/tool`, and their arguments. Nothing is said of those that are refused before they reach the gate, and of those
/// that are answered from the journal of the turn.
///
/// # Errors
/// [`JournalError::Parked`]: somebody is asked about some of them, and none is made until then.
pub(crate) async fn rule_all<'a>(
    tools: &'a Tools,
    calls: &[(String, String)],
) -> Result<StepRulings<'a>, JournalError> {
    let turn = context::now();
    let journal = turn.rights.journal.as_deref();
    let mut ahead = match journal {
        Some(journal) => journal.ahead().await,
        None => 0,
    };
    let decisions = tools.decisions();
    let mut said = StepRulings { decisions, rulings: VecDeque::with_capacity(calls.len()) };
    let mut parking = None;
    for (name, arguments) in calls {
        let name = tools.known().real_name(name);
        let Ok((arguments, turn, _)) = tools.filled(&name, arguments) else {
            said.rulings.push_back(None);
            continue;
        };
        let is_journalled = journal.is_some() && tools.servers().is_step(&name, &arguments);
        if is_journalled && ahead > 0 {
            ahead -= 1;
            said.rulings.push_back(None);
            continue;
        }
        let definition = tools.known().expected(&name).unwrap_or_default();
        let level = tools.servers().level(&name);
        let call = ToolCall { is_journalled, level, ..decisions.call(&turn, &name, &definition, &arguments) };
        let ruling = match decisions.decide(&call).await {
            // The others are decided too, so that all that is to be asked is asked at once.
            GateVerdict::Ask(ask) if journal.is_some_and(|journal| journal.is_parkable()) => {
                parking.get_or_insert_with(|| ask.rest());
                None
            }
            GateVerdict::Ask(ask) => {
                ask.answered.await;
                Some(decisions.rule(&call, None).await)
            }
            ruling @ (GateVerdict::Permit(_) | GateVerdict::Deny(_)) => Some(ruling),
        };
        let ToolCall { carries, level, .. } = call;
        said.rulings.push_back(ruling.map(|verdict| RulingAhead { verdict, carries, level }));
    }
    match (parking, journal) {
        (Some(parking), Some(journal)) => {
            journal.park(&parking);
            Err(JournalError::Parked(parking))
        }
        _ => Ok(said),
    }
}

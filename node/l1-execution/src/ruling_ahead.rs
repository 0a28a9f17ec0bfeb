//! What the gate of an agent says of calls that follow one another, before the first of them is made.

use crate::context;
use crate::journal::JournalError;
use crate::known::real_name;
use crate::ruling::GateVerdict;
use crate::tool_call::ToolCall;
use crate::tools::Tools;

/// What the gate says of calls that follow one another, before the first of them is made: their names for models, or
/// `server/tool`, and their arguments. Nothing is said of those that are refused before they reach the gate, and of those
/// that are answered from the journal of the turn.
///
/// # Errors
/// [`JournalError::Parked`]: somebody is asked about some of them, and none is made until then.
pub(crate) async fn rule_all(
    tools: &Tools,
    calls: &[(String, String)],
) -> Result<Vec<Option<GateVerdict>>, JournalError> {
    let turn = context::now();
    let journal = turn.rights.journal.as_deref();
    let mut ahead = match journal {
        Some(journal) => journal.ahead().await,
        None => 0,
    };
    let (mut rulings, mut parking) = (Vec::with_capacity(calls.len()), None);
    for (name, arguments) in calls {
        let name = real_name(name);
        let Ok((arguments, turn, _)) = tools.filled(&name, arguments) else {
            rulings.push(None);
            continue;
        };
        let is_journalled = journal.is_some() && tools.servers().is_step(&name, &arguments);
        if is_journalled && ahead > 0 {
            ahead -= 1;
            rulings.push(None);
            continue;
        }
        let definition = tools.known().expected(&name).unwrap_or_default();
        let call = ToolCall { is_journalled, ..tools.decisions().call(&turn, &name, &definition, &arguments) };
        let ruling = match tools.decisions().decide(&call).await {
            // The others are decided too, so that all that is to be asked is asked at once.
            GateVerdict::Ask(ask) if journal.is_some_and(|journal| journal.is_parkable()) => {
                parking.get_or_insert_with(|| ask.rest());
                None
            }
            GateVerdict::Ask(ask) => {
                ask.answered.await;
                Some(tools.decisions().rule(&call).await)
            }
            ruling @ (GateVerdict::Permit(_) | GateVerdict::Deny(_)) => Some(ruling),
        };
        rulings.push(ruling);
    }
    match (parking, journal) {
        (Some(parking), Some(journal)) => {
            journal.park(&parking);
            Err(JournalError::Parked(parking))
        }
        _ => Ok(rulings),
    }
}

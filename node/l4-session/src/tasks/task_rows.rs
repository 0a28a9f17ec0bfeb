//! Reads tasks whose turns have not ended, with the rows of their journals.

use althing_protocol::AgentRef;

use crate::machine::record::Record;
use crate::machine::session::{Damage, TurnRows};
use crate::tasks::begin;
use crate::tasks::runner::TaskRunner;
use crate::tasks::store::TaskStoreError;

/// An unfinished task, with the rows of its journal.
pub(super) type TaskRows = (Record, Result<TurnRows, Damage>);

/// Reads an unfinished task with its journal; none if it is finished by now, or gone.
pub(super) fn read(runner: &TaskRunner, id: &str) -> Result<Option<TaskRows>, TaskStoreError> {
    let Some(record) = runner.store().read(id)? else { return Ok(None) };
    if !record.goes_on() {
        return Ok(None);
    }
    let Some(began) = record.read_begin() else { return Ok(None) };
    let rows = began.and_then(|began| {
        let nobody = || Damage { step: 0, what: "its beginning names no agent".to_owned() };
        let turn = begin::turn(&record, &began).ok_or_else(nobody)?;
        let agent = AgentRef { id: began.agent.parse().map_err(|_| nobody())?, version: began.version.as_str().into() };
        runner.store().journals().read(turn, began, &begin::row_seal(runner, &agent))
    });
    Ok(Some((record, rows)))
}

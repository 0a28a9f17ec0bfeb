//! The notes of a turn's session.

use std::sync::Arc;

use althing_execution::notes::{Note, NoteError, Notes, SessionNotes};
use althing_protocol::{AgentRef, Digest};
use futures::future::BoxFuture;

use crate::journal::RowSeal;
use crate::machine::record::{Record, Scope};
use crate::machine::session::{SessionId, context_of};
use crate::tasks::begin;
use crate::tasks::runner::TaskRunner;

/// The session of one turn. Its name is made only when it is used: most turns make no notes.
struct TurnNotes {
    runner: TaskRunner,
    agent: AgentRef,
    scope: Scope,
    context: String,
}

/// The notes of the session in which an agent is given a task's message.
pub(super) fn of(runner: &TaskRunner, agent: &AgentRef, record: &Record) -> SessionNotes {
    let (scope, context) = (record.scope, record.task.context_id.clone());
    SessionNotes(Arc::new(TurnNotes { runner: runner.clone(), agent: agent.clone(), scope, context }))
}

impl TurnNotes {
    /// The session, and what its tasks have in common.
    fn session(&self) -> (SessionId, Digest) {
        let scope = String::from(self.scope);
        let session = SessionId::of(&self.agent.id, &scope, &self.context);
        (session, context_of(self.agent.name(), &scope, &self.context))
    }

    /// How its notes are stored.
    fn seal(&self) -> RowSeal {
        begin::row_seal(&self.runner, &self.agent)
    }
}

impl Notes for TurnNotes {
    fn add(&self, note: Note, key: Option<[u8; 32]>) -> BoxFuture<'_, Result<(), NoteError>> {
        Box::pin(async move {
            let (seal, now_ms) = (self.seal(), self.runner.now_ms());
            self.runner.store().notes().add(self.session(), &seal, note, key, now_ms).await
        })
    }

    fn all(&self) -> Result<Vec<Note>, NoteError> {
        self.runner.store().notes().all(self.session().0, &self.seal(), self.runner.now_ms())
    }
}

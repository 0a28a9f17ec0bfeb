//! What a model agent is told of its session beside the message: its last notes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::chat::{self, ChatMessage};
use super::replay;
use crate::agent::AgentError;
use crate::context;
use crate::note_server::{self, READ};
use crate::notes::{self, Note, Notes, SessionNotes};
use crate::tools::{CallKind, Denied, Tools};

/// The notes that a turn is told.
#[derive(Serialize, Deserialize)]
struct LastNotes {
    /// The last ones, the oldest first.
    notes: Vec<Note>,
    /// How many are earlier.
    more: usize,
}

/// The message with the notes of the turn's session, of the turn's journal or as they are now; none where there are none, or where
/// the contract permits no notes.
pub(super) async fn noted(tools: &Tools) -> Result<Option<ChatMessage>, AgentError> {
    let Some(SessionNotes(kept)) = context::current().notes.filter(|_| note_server::is_open(tools)) else {
        return Ok(None);
    };
    let arguments = json!({});
    let reading = read(tools, &*kept, &arguments);
    let last = match context::current_journal() {
        None => reading.await?,
        Some(journal) => {
            let step = replay::repeatable(CallKind::Recall, READ, &arguments);
            let (last, _) = Box::pin(replay::make(&*journal, step, reading, |_| 0)).await?;
            last
        }
    };
    Ok(chat::notes_message(&last.notes, last.more))
}

/// Reads the notes, if the gate allows it. Notes that cannot be read keep no turn from running.
async fn read(tools: &Tools, kept: &dyn Notes, arguments: &Value) -> Result<LastNotes, AgentError> {
    let read = tools.gated(CallKind::Recall, READ, arguments, async { kept.all() }).await;
    let told = |denied: Denied| format!("the notes of its session may not be read for this message: {denied}");
    let read = read.map_err(|refusal| refusal.rejection(told))?;
    let all = read.unwrap_or_else(|error| {
        let agent = tools.decisions().agent().name();
        tracing::warn!(agent, %error, "a turn runs without the notes of its session");
        Vec::new()
    });
    let (notes, more) = notes::last(all, chat::NOTES_BYTES_MAX);
    note_server::hear(&notes);
    Ok(LastNotes { notes, more })
}

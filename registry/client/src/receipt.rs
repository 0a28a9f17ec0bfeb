//! What a registry answers to statements that were sent to it: the proof that its log has each of them.

use althing_protocol::object::Kind;
use althing_protocol::registry::{Logged, Receipt, Submission};
use althing_protocol::tlog::{Checkpoint, NoteKey};

use crate::RegistryError;

/// Statements that a registry accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Each with its proof, in the order in which they were sent.
    pub logged: Vec<Logged>,
    /// The checkpoint of all proofs.
    pub checkpoint: Checkpoint,
}

impl Accepted {
    /// Verifies a receipt: it has each statement that was sent, of these kinds, and proves it under one checkpoint.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub(crate) fn verified(
        receipt: &[u8],
        (submission, kinds): (&Submission, &[Kind]),
        key: &NoteKey,
    ) -> Result<Accepted, RegistryError> {
        let mut answered = Receipt::decode(receipt)?.accepted;
        // Before the statements there may be the newest event of the key log.
        let skipped = answered.len().saturating_sub(submission.statements.len());
        answered.drain(..skipped);
        let mut proven: Option<Checkpoint> = None;
        for (at, sent) in submission.statements.iter().enumerate() {
            let missing = || RegistryError::Answer { what: "receipt", why: format!("statement {at} is not in it") };
            let logged = answered.get(at).filter(|logged| logged.statement == *sent).ok_or_else(missing)?;
            let kind = kinds.get(at).copied().ok_or_else(missing)?;
            let shown = logged.verify(kind, key).map_err(|error| RegistryError::Receipt { at, error })?;
            // Only the one that is given on is compared with what was seen before.
            if proven.as_ref().is_some_and(|proven| proven.head != shown.head) {
                let why = "its proofs are under several checkpoints".to_owned();
                return Err(RegistryError::Answer { what: "receipt", why });
            }
            proven = Some(shown);
        }
        let none = || RegistryError::Answer { what: "receipt", why: "nothing was sent".to_owned() };
        Ok(Accepted { logged: answered, checkpoint: proven.ok_or_else(none)? })
    }
}

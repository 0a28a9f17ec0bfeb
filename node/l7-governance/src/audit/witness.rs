//! Has the log's head signed by witnesses (C2SP tlog-witness), and goes on in another log where one of them knows better.

use althing_log::LogError;
use althing_protocol::audit::{AuditLeaf, AuditStage};
use althing_protocol::tlog::{AddCheckpoint, Checkpoint, NoteError, NoteKey};
use althing_store::{Durability, WriteError};
use futures::future::BoxFuture;

use super::error::AuditFault;
use super::families::INDEX;
use super::ledger::Ledger;
use super::log::AuditLog;
use super::rows::{LeafId, Place, id_at, place_of};

/// The beginning of the action of the first leaf of a log that goes on after another.
const BEGIN_AFTER: &str = "audit/begin-after/";
/// Characters of an answer that a message repeats.
const SAID_CHARS: usize = 512;

/// What a witness answered: a status of HTTP and the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAnswer {
    /// 200 with signatures, 409 with a size, or another one.
    pub status: u16,
    /// At most 8 KiB.
    pub body: String,
}

/// Carries a request to a witness: `POST …/add-checkpoint`.
pub trait AskWitness: Send + Sync {
    /// Sends the request, and gives the answer, or why there is none.
    fn ask(&self, request: String) -> BoxFuture<'_, Result<WitnessAnswer, String>>;
}

/// Why a witness did not sign.
#[derive(Debug, thiserror::Error)]
pub enum WitnessFault {
    /// There is no answer.
    #[error("the witness {witness} does not answer: {reason}")]
    Unreachable {
        /// Its name.
        witness: String,
        /// Why.
        reason: String,
    },
    /// It refuses.
    #[error("the witness {witness} answers {status}: {said}")]
    Refusal {
        /// Its name.
        witness: String,
        /// Of HTTP.
        status: u16,
        /// The beginning of what it says.
        said: String,
    },
    /// Its answer is no signature of its.
    #[error("the answer of the witness is none: {0}")]
    Answer(#[from] NoteError),
    /// It knows more of the log than there is here.
    #[error(
        "the witness {witness} signed {known} entries of the audit log {log}, which has {size} here: an older copy of the node's \
         folder was restored. The log goes on under another name, and its first entry names this one"
    )]
    Ahead {
        /// Its name.
        witness: String,
        /// The name of the log.
        log: String,
        /// Entries that it signed.
        known: u64,
        /// Entries that there are.
        size: u64,
    },
    /// It signed another history.
    #[error(
        "the witness {witness} signed another history of the audit log {log}: entries were changed after they were signed, an \
         older copy of the node's folder was restored, or another node runs with its key. The log goes on under another name, \
         and its first entry names this one"
    )]
    Fork {
        /// Its name.
        witness: String,
        /// The name of the log.
        log: String,
    },
    /// It does so again, too soon after another log was begun on its word.
    #[error(
        "the witness {witness} contradicts the audit log {log} too, less than an hour after another log was begun on its word: this          one goes on. If it contradicts each log that it is shown, it is the one that is wrong"
    )]
    Repeat {
        /// Its name.
        witness: String,
        /// The name of the log.
        log: String,
    },
    /// The log itself fails.
    #[error(transparent)]
    Log(#[from] AuditFault),
}

impl From<LogError> for WitnessFault {
    fn from(error: LogError) -> WitnessFault {
        WitnessFault::Log(error.into())
    }
}

impl From<WriteError> for WitnessFault {
    fn from(error: WriteError) -> WitnessFault {
        WitnessFault::Log(error.into())
    }
}

impl AuditLog {
    /// Asks a witness to sign the newest checkpoint. Where it signed more, or something else, the node goes on in another log, on the
    /// word of one witness once in an hour.
    ///
    /// # Errors
    /// [`WitnessFault`]; after [`WitnessFault::Ahead`] and [`WitnessFault::Fork`] the other log was begun.
    pub async fn cosign(&self, witness: &NoteKey, asker: &dyn AskWitness) -> Result<(), WitnessFault> {
        let ledger = self.ledger();
        match ask(&ledger, witness, asker).await {
            Ok((checkpoint, lines)) => {
                let rows = ledger.add(&checkpoint, &lines, witness)?;
                // A cosignature that is lost is asked for again.
                self.ports().store.write(rows, Durability::Buffered).await?;
                Ok(())
            }
            Err(fault @ (WitnessFault::Ahead { .. } | WitnessFault::Fork { .. })) => {
                if begin_after(self, &ledger, witness).await? {
                    return Err(fault);
                }
                let (witness, log) = (witness.name().to_owned(), ledger.key().name().to_owned());
                Err(WitnessFault::Repeat { witness, log })
            }
            Err(fault) => Err(fault),
        }
    }
}

impl AuditLog {
    /// After which log this one began, as `NAME@ENTRIES`, where a witness knew better than that one.
    ///
    /// # Errors
    /// [`AuditFault`].
    pub fn began_after(&self) -> Result<Option<String>, AuditFault> {
        match self.ledger().number() {
            1 => Ok(None),
            number => {
                let action = self.record_at(number, 0)?.leaf.action;
                Ok(action.and_then(|action| action.strip_prefix(BEGIN_AFTER).map(str::to_owned)))
            }
        }
    }
}

/// Asks from the start, and once more from where the witness is.
async fn ask(ledger: &Ledger, witness: &NoteKey, asker: &dyn AskWitness) -> Result<(Checkpoint, String), WitnessFault> {
    let checkpoint = ledger.newest();
    let (size, mut old) = (checkpoint.head.size, ledger.cosigned_size(witness));
    let mut is_last = false;
    loop {
        let hashes = if old == 0 || old == size { Vec::new() } else { ledger.log().consistency(old, size)? };
        let request = AddCheckpoint { old, hashes, checkpoint: checkpoint.note().to_owned() };
        let (name, log) = (witness.name().to_owned(), ledger.key().name().to_owned());
        let answer = match asker.ask(request.to_string()).await {
            Ok(answer) => answer,
            Err(reason) => return Err(WitnessFault::Unreachable { witness: name, reason }),
        };
        match (answer.status, answer.body.trim().parse::<u64>()) {
            (200, _) => return Ok((checkpoint, answer.body)),
            (409, Ok(known)) if known > size => return Err(WitnessFault::Ahead { witness: name, log, known, size }),
            (409, Ok(known)) if known != old && !is_last => (old, is_last) = (known, true),
            (409, Err(_)) | (422, _) => return Err(WitnessFault::Fork { witness: name, log }),
            (status, _) => {
                let said = answer.body.chars().filter(|one| !one.is_control()).take(SAID_CHARS).collect();
                return Err(WitnessFault::Refusal { witness: name, status, said });
            }
        }
    }
}

/// Goes on in another log, whose first leaf names the one before; false where the old one goes on, since that witness had one begun
/// within the hour.
async fn begin_after(log: &AuditLog, old: &Ledger, witness: &NoteKey) -> Result<bool, AuditFault> {
    let _books = log.books().await;
    // Somebody else heard of it first.
    if log.ledger().number() != old.number() {
        return Ok(true);
    }
    let (named, now_ms) = (witness.to_string(), log.ports().clock.now_ms());
    let is_heeded = log.successions().may_begin(&named, now_ms);
    if !is_heeded {
        return Ok(false);
    }
    let size = old.writer().await.next().await?;
    let mut leaf = AuditLeaf::new(AuditStage::Changed, now_ms);
    leaf.action = Some(format!("{BEGIN_AFTER}{}@{size}", old.key().name()));
    let entry = leaf.encode().map_err(|error| AuditFault::Unavailable(error.into()))?;
    let (ledger, mut rows) = log.ledgers().next()?;
    let id: LeafId = log.ports().entropy.bytes();
    let place = Place { log: ledger.number(), index: 0 };
    rows.put(INDEX, place_of(&id), place.bytes()).put(INDEX, id_at(place), id);
    let over = |head| {
        rows.append(ledger.sign(head));
        rows
    };
    ledger.writer().await.append(&[entry], over).await?;
    ledger.follow()?;
    log.ledgers().turn_to(ledger);
    log.successions().note(&named, now_ms);
    Ok(true)
}

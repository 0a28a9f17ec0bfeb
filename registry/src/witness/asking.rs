//! A registry asks witnesses to cosign its checkpoints.

use std::sync::Arc;
use std::time::Duration;

use althing_fetch::{Fetch, FetchError, Given, Limits, Method, Url};
use althing_protocol::tlog::{AddCheckpoint, Checkpoint, NoteError, NoteKey, NoteKeyKind};
use tokio::time::Instant;

use crate::service::{Registry, RequestError};

/// How long one may take: with the wait for another that is being asked this is within the second of a checkpoint.
const ANSWERS_WITHIN: Duration = Duration::from_millis(400);
/// How long one may take when the registry starts.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(3);
const ANSWER_BYTES_MAX: usize = 8 * 1024;
/// A witness that does not answer is asked again after this, then after twice as long, and so on.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The longest such pause.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);

/// Why a witness cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum NoWitness {
    /// Its address is none.
    #[error("{0:?} is no address of a witness: write http://… or https://…")]
    Address(String),
    /// The key is that of a log.
    #[error("{0} is the key of a log, and no witness's: `althing-registry witness` prints its key when it starts")]
    Key(NoteKey),
    /// It knows more of the log than the registry has.
    #[error(
        "the witness {witness} signed {known} entries of this log, which has {size} here: an older copy of the folder was \
         restored. Restore the newest one; going on would show others two histories"
    )]
    Ahead {
        /// Its name.
        witness: String,
        /// Entries that it signed.
        known: u64,
        /// Entries that there are.
        size: u64,
    },
    /// It signed another history.
    #[error(
        "the witness {0} signed another history of this log: the folder was replaced, or another registry runs with its key. \
         Restore the newest copy; going on would show others two histories"
    )]
    Forked(String),
}

/// Why a checkpoint was not cosigned this time.
#[derive(Debug, thiserror::Error)]
enum NotSigned {
    #[error(transparent)]
    Unreachable(#[from] FetchError),
    #[error("it answers {0}: {1}")]
    Refused(u16, String),
    #[error("its answer is none: {0}")]
    Answer(#[from] NoteError),
    #[error(transparent)]
    Log(#[from] RequestError),
    #[error(transparent)]
    Never(NoWitness),
}

/// The witnesses of a registry.
pub struct Witnesses {
    fetch: Fetch,
    all: Vec<Asked>,
}

/// A witness that is asked.
struct Asked {
    url: Url,
    key: NoteKey,
    /// Entries that it signed last, as far as is known here.
    known: u64,
    /// Entries of the checkpoint that it signed since this program runs.
    signed: Option<u64>,
    failures: u32,
    due: Instant,
}

impl Witnesses {
    /// Those at these addresses, which have these keys.
    ///
    /// # Errors
    /// [`NoWitness::Address`], [`NoWitness::Key`].
    pub fn new(fetch: Fetch, all: &[(String, NoteKey)]) -> Result<Witnesses, NoWitness> {
        let asked = |(at, key): &(String, NoteKey)| {
            let whole = format!("{}/add-checkpoint", at.trim_end_matches('/'));
            let url = Url::parse(&whole).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            let url = url.ok_or_else(|| NoWitness::Address(at.clone()))?;
            if key.kind() != NoteKeyKind::Cosignature {
                return Err(NoWitness::Key(key.clone()));
            }
            Ok(Asked { url, key: key.clone(), known: 0, signed: None, failures: 0, due: Instant::now() })
        };
        Ok(Witnesses { fetch, all: all.iter().map(asked).collect::<Result<_, _>>()? })
    }

    /// Asks all once, before anything else is accepted: a witness remembers what an older copy of the folder forgot.
    ///
    /// # Errors
    /// [`NoWitness::Ahead`], [`NoWitness::Forked`].
    pub async fn begin(&mut self, registry: &Registry) -> Result<(), NoWitness> {
        let (fetch, checkpoint) = (&self.fetch, registry.checkpoint());
        let asked = self.all.iter_mut().map(|one| one.ask(fetch, registry, &checkpoint, FIRST_ANSWER_WITHIN));
        for outcome in futures::future::join_all(asked).await {
            if let Err(NotSigned::Never(never)) = outcome {
                return Err(never);
            }
        }
        registry.witnessing().expect(self.answering());
        Ok(())
    }

    /// Has each checkpoint cosigned, for as long as the registry runs. What one round does not reach, the next one does: a
    /// witness that is down keeps nobody waiting.
    pub async fn keep(mut self, registry: Arc<Registry>) {
        loop {
            let checkpoint = registry.checkpoint();
            let (fetch, now) = (&self.fetch, Instant::now());
            let due = self.all.iter_mut().filter(|one| one.signed != Some(checkpoint.head.size) && one.due <= now);
            let asked = due.map(|one| one.ask(fetch, &registry, &checkpoint, ANSWERS_WITHIN));
            futures::future::join_all(asked).await;
            registry.witnessing().expect(self.answering());
            let failed = self.all.iter().filter(|one| one.failures > 0).map(|one| one.due).min();
            let witnessing = registry.witnessing();
            tokio::select! {
                () = witnessing.grown(checkpoint.head.size) => {}
                () = tokio::time::sleep_until(failed.unwrap_or_else(Instant::now)), if failed.is_some() => {}
            }
        }
    }

    fn answering(&self) -> usize {
        self.all.iter().filter(|one| one.failures == 0 && one.signed.is_some()).count()
    }
}

impl Asked {
    async fn ask(
        &mut self,
        fetch: &Fetch,
        registry: &Registry,
        checkpoint: &Checkpoint,
        within: Duration,
    ) -> Result<(), NotSigned> {
        let outcome = self.attempt(fetch, registry, checkpoint, within).await;
        match &outcome {
            Ok(()) => {
                if self.failures > 0 {
                    tracing::info!(witness = self.key.name(), "a witness cosigns again");
                }
                (self.failures, self.signed) = (0, Some(checkpoint.head.size));
            }
            Err(error) => {
                if self.failures == 0 {
                    tracing::warn!(witness = self.key.name(), %error, "a witness does not cosign");
                }
                let pause = AGAIN_AFTER.saturating_mul(1 << self.failures.min(5)).min(AGAIN_AFTER_MAX);
                (self.failures, self.due) = (self.failures.saturating_add(1), Instant::now() + pause);
            }
        }
        outcome
    }

    /// Asks with what it signed last, and once more where it knows that better.
    async fn attempt(
        &mut self,
        fetch: &Fetch,
        registry: &Registry,
        checkpoint: &Checkpoint,
        within: Duration,
    ) -> Result<(), NotSigned> {
        let (size, limits) = (checkpoint.head.size, Limits { bytes: ANSWER_BYTES_MAX, time: within });
        for is_last in [false, true] {
            let old = self.known;
            let hashes = if old == 0 || old == size { Vec::new() } else { registry.growth(old, size)? };
            let asked = AddCheckpoint { old, hashes, checkpoint: checkpoint.note().to_owned() };
            let sent = ("text/plain; charset=utf-8", asked.to_string().into_bytes());
            let (status, body) = fetch.exchange(Method::POST, &self.url, Given::Operator, sent, limits).await?;
            let body = String::from_utf8_lossy(&body);
            match (status, body.trim().parse::<u64>()) {
                (200, _) => {
                    registry.witnessing().add(checkpoint, &body, &self.key)?;
                    self.known = size;
                    return Ok(());
                }
                (409, Ok(known)) if known > size => {
                    let witness = self.key.name().to_owned();
                    return Err(NotSigned::Never(NoWitness::Ahead { witness, known, size }));
                }
                (409, Ok(known)) if known != old && !is_last => self.known = known,
                (409, Err(_)) | (422, _) => {
                    return Err(NotSigned::Never(NoWitness::Forked(self.key.name().to_owned())));
                }
                _ => {
                    let said = body.chars().filter(|one| !one.is_control()).take(512).collect();
                    return Err(NotSigned::Refused(status, said));
                }
            }
        }
        Ok(())
    }
}

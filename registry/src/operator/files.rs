//! Orders in files: whoever may write into the data folder of a registry is its operator, as with its tokens. A command leaves
//! an order in a folder there, and the registry that runs takes it, carries it out, and leaves an answer beside it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use althing_store::file::{self, FileError};
use althing_store::keyfile::{self, SECRET_BYTES_MAX};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{Order, OrderError, carry_out};
use crate::service::{Clock, Registry};

/// The folder of orders, in the data folder.
const FOLDER: &str = "orders";
/// How the name of an order ends.
const ORDER: &str = "order";
/// How that of its answer ends.
const ANSWER: &str = "answer";
const ORDER_BYTES_MAX: usize = 16 << 10;
/// Characters of an answer, which may name the versions of an agent.
const SAID_CHARS_MAX: usize = 8_192;
/// How often orders are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often an answer is looked for.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How long a command waits for its answer.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// After this, in milliseconds, nobody waits for an order or an answer any more.
const OLD_MS: u64 = 60_000;
/// Orders that are taken at one look.
const AT_ONCE_MAX: usize = 64;

/// What goes back.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done(String),
    Refused(String),
}

/// Makes the folder of orders in a data folder, whose store is this process's.
///
/// # Errors
/// The system refuses.
pub fn prepare(data: &Path) -> io::Result<PathBuf> {
    let folder = data.join(FOLDER);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Carries out what comes into the folder, one order after the other, for as long as the registry runs.
pub async fn serve(registry: Arc<Registry>, folder: PathBuf, clock: Clock) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        for path in waiting(&folder, clock()) {
            if let Some(answer) = taken(&registry, &path).await
                && let Err(error) = left(&path, &answer)
            {
                tracing::error!(%error, "the operator cannot be answered");
            }
        }
    }
}

/// The orders that wait, without those that are old: these go, as old answers do.
fn waiting(folder: &Path, now_ms: u64) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut waiting = Vec::new();
    for file in files.take(AT_ONCE_MAX) {
        let path = file.path();
        let changed = file.metadata().and_then(|facts| facts.modified()).ok();
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_millis();
        if u128::from(now_ms.saturating_sub(OLD_MS)) > changed {
            let _ = std::fs::remove_file(&path);
        } else if path.extension().is_some_and(|end| end == ORDER) {
            waiting.push(path);
        }
    }
    waiting.sort();
    waiting
}

/// Takes an order, and carries it out; none if it was taken back meanwhile.
async fn taken(registry: &Registry, path: &Path) -> Option<Answer> {
    let read = file::read_text(path, ORDER_BYTES_MAX as u64).ok();
    std::fs::remove_file(path).ok()?;
    let Some(order) = read.and_then(|text| serde_json::from_str::<Order>(&text).ok()) else {
        let other = "the running registry does not know such an order: it is of another version than this program";
        return Some(Answer::Refused(format!("{other}. Stop it first")));
    };
    tracing::info!(?order, "an order of the operator");
    Some(match carry_out(registry, order).await {
        Ok(said) => Answer::Done(said.chars().take(SAID_CHARS_MAX).collect()),
        Err(error) => Answer::Refused(error.to_string().chars().take(SAID_CHARS_MAX).collect()),
    })
}

fn left(path: &Path, answer: &Answer) -> Result<(), OrderError> {
    let text = serde_json::to_vec(answer).map_err(|_| OrderError::Unanswered)?;
    Ok(keyfile::replace_secret(&path.with_extension(ANSWER), &text)?)
}

/// Has the registry that runs on a data folder carry out an order; what it says. `name` is random. None where nobody takes
/// orders there.
///
/// # Errors
/// See [`OrderError`].
pub async fn ask(data: &Path, name: [u8; 16], order: &Order) -> Result<Option<String>, OrderError> {
    let folder = data.join(FOLDER);
    if !folder.is_dir() {
        return Ok(None);
    }
    let text = serde_json::to_vec(order).map_err(|_| OrderError::Unanswered)?;
    if text.len() > ORDER_BYTES_MAX {
        return Err(OrderError::TooLong { bytes: text.len(), max: ORDER_BYTES_MAX });
    }
    let path = folder.join(format!("{:032x}.{ORDER}", u128::from_be_bytes(name)));
    keyfile::replace_secret(&path, &text)?;
    let (answer, until) = (path.with_extension(ANSWER), Instant::now() + WAIT_MAX);
    while Instant::now() < until {
        match file::read_text(&answer, SECRET_BYTES_MAX) {
            Ok(text) => {
                let _ = std::fs::remove_file(&answer);
                return said(&text).map(Some);
            }
            Err(error) if error.is_missing() => sleep(ASK_EVERY).await,
            Err(error) => return Err(unread(answer, error)),
        }
    }
    // What can be taken back, nobody took.
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(None),
        Err(_) => Err(OrderError::Unanswered),
    }
}

fn unread(path: PathBuf, error: FileError) -> OrderError {
    OrderError::File { path, error }
}

fn said(text: &str) -> Result<String, OrderError> {
    match serde_json::from_str(text) {
        Ok(Answer::Done(said)) => Ok(said),
        Ok(Answer::Refused(why)) => Err(OrderError::Refused(why)),
        Err(_) => Err(OrderError::Unanswered),
    }
}

//! Calls that wait for what their callers were asked: the next request of the same caller brings the answer, and the call goes on.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use althing_execution::relayed::Progress;
use althing_execution::tools::Fault;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::call::{Call, Step};
use crate::questions::Question;

/// Calls of one server that wait.
const PARKED_MAX: usize = 64;
/// Those of one caller among them.
const OF_CALLER_MAX: usize = 8;
/// How long one waits: as long as people take.
const WAIT: Duration = Duration::from_secs(600);
/// How long one waits at least, and another call for its turn, before it is given up for that one: less than a call waits for its turn,
/// with what the server takes to end it.
pub const OTHERS: Duration = Duration::from_secs(40);
/// How long a server may take to end a call whose question was cancelled, before it is told that nobody waits for it.
const ENDING: Duration = Duration::from_secs(5);
/// How states begin that were made here. A server of the version without sessions has its own.
const STATE: &str = "althing-call-";

/// Whose call it is, and of what: no other caller may answer it, and no other call goes on with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    pub principals: Arc<[String]>,
    pub tool: String,
    pub arguments: Value,
}

/// The calls of one server that wait, by their states.
#[derive(Default)]
pub struct Parking(Mutex<BTreeMap<String, Parked>>);

struct Parked {
    call: Call,
    question: Question,
    caller: Caller,
    since: Instant,
}

impl Parking {
    /// Whether a state was made here, or by another node like this.
    pub fn is_own(state: &str) -> bool {
        state.starts_with(STATE)
    }

    /// Has a call wait; gives what its caller is asked.
    ///
    /// # Errors
    /// Too many wait, of this caller or in all ([`Fault::Busy`]); the call is given up.
    pub fn park(self: &Arc<Parking>, call: Call, question: Question, caller: Caller) -> Result<Value, Fault> {
        let state = state();
        let required = question.required(&state);
        {
            let mut all = self.lock();
            room(all.values().map(|parked| &parked.caller), &caller)?;
            all.insert(state.clone(), Parked { call, question, caller, since: Instant::now() });
        }
        // Without an answer the question is cancelled, and the call with it.
        let parking: Weak<Parking> = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep(WAIT).await;
            let late = parking.upgrade().and_then(|parking| parking.lock().remove(&state));
            drop(late);
        });
        Ok(required)
    }

    /// The call that waits in that state for this caller.
    pub fn take(&self, state: &str, caller: &Caller) -> Option<(Call, Question)> {
        let mut all = self.lock();
        if all.get(state)?.caller != *caller {
            return None;
        }
        all.remove(state).map(|parked| (parked.call, parked.question))
    }

    /// Gives those up that wait for long and keep others from their turns: their questions are cancelled, so that their servers end them,
    /// and may ask for the next.
    pub fn give_up(&self, keeps_others: impl Fn(&Call) -> bool) {
        let is_late = |parked: &Parked| parked.since.elapsed() >= OTHERS && keeps_others(&parked.call);
        let late: Vec<Parked> = {
            let mut all = self.lock();
            let states = all.iter().filter(|(_, parked)| is_late(parked)).map(|(state, _)| state.clone());
            let states: Vec<String> = states.collect();
            states.iter().filter_map(|state| all.remove(state)).collect()
        };
        for Parked { call, question, .. } in late {
            tracing::info!(
                "a question that nobody answered is cancelled, since others wait for the server that asked it"
            );
            tokio::spawn(end(call, question));
        }
    }

    /// Whether a call waits in that state.
    pub fn has(&self, state: &str) -> bool {
        self.lock().contains_key(state)
    }

    /// Gives all up.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Parked>> {
        self.0.lock().expect("no holder of the calls that wait panics")
    }
}

/// Cancels a question and all that follow it, until the call is over.
async fn end(mut call: Call, question: Question) {
    drop(question);
    let nobody = Progress::default();
    let ended = async {
        // Dropping what else it asks cancels it.
        while let Step::Asks(_) = call.next(&nobody).await {}
    };
    // What does not end is given up with the call.
    let _ = timeout(ENDING, ended).await;
}

/// Whether one more call of this caller may wait beside those of `all`.
fn room<'a>(all: impl Iterator<Item = &'a Caller>, caller: &Caller) -> Result<(), Fault> {
    let (mut in_all, mut of_caller) = (0, 0);
    for other in all {
        in_all += 1;
        of_caller += usize::from(other.principals == caller.principals);
    }
    let why = if of_caller >= OF_CALLER_MAX {
        format!("{OF_CALLER_MAX} of your calls wait for your answers to it; answer or cancel one, and call again")
    } else if in_all >= PARKED_MAX {
        format!("{PARKED_MAX} calls wait for answers to it, as many as may; call again later")
    } else {
        return Ok(());
    };
    Err(Fault::Busy(why))
}

/// A state that nobody guesses: of two keys that the system drew.
fn state() -> String {
    let [one, other] = [RandomState::new(), RandomState::new()].map(|keys| keys.hash_one(STATE));
    format!("{STATE}{one:016x}{other:016x}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn caller(name: &str) -> Caller {
        Caller { principals: [name.to_owned()].into(), tool: "ask".to_owned(), arguments: Value::Null }
    }

    #[test]
    fn one_caller_takes_no_room_of_others_and_each_is_told_why() {
        let mut all: Vec<Caller> = Vec::new();
        while room(all.iter(), &caller("ada")).is_ok() {
            all.push(caller("ada"));
        }
        assert_eq!(all.len(), OF_CALLER_MAX);
        let refused = room(all.iter(), &Caller { tool: "other".to_owned(), ..caller("ada") });
        assert!(matches!(refused, Err(Fault::Busy(why)) if why.contains("8 of your calls wait")));
        while all.len() < PARKED_MAX {
            let next = caller(&format!("caller-{}", all.len()));
            room(all.iter(), &next).expect("there is room for others");
            all.push(next);
        }
        assert!(matches!(room(all.iter(), &caller("ben")), Err(Fault::Busy(why)) if why.contains("64 calls wait")));
    }

    #[test]
    fn states_differ_and_are_told_from_those_of_servers() {
        let all: BTreeSet<String> = (0..1_000).map(|_| state()).collect();
        assert!(all.len() == 1_000 && all.iter().all(|state| Parking::is_own(state)));
        assert!(!Parking::is_own("eyJzdGVwIjoxfQ"));
    }
}

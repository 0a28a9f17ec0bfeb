//! Bytes of incomplete frames: carries out what [`machine::frame_budget`](crate::machine::frame_budget) decides, for streams that
//! wait for their grant.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::error::StreamError;
use crate::machine::frame_budget::{Effect, FrameBudget, FrameId, FrameLimits, Input, PATIENCE};
use crate::machine::trust_level::Holder;

/// The state of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    Waiting,
    Granted,
    Ended,
}

/// The budget of one node.
pub(crate) struct Frames {
    begun: Instant,
    state: Mutex<State>,
}

struct State {
    budget: FrameBudget,
    grants: BTreeMap<FrameId, watch::Sender<Grant>>,
    next: FrameId,
}

/// The bytes of one frame, which dropping it frees.
pub(crate) struct Reserved {
    frames: Arc<Frames>,
    frame: FrameId,
    grant: watch::Receiver<Grant>,
}

impl Frames {
    pub fn new(limits: FrameLimits) -> Frames {
        let state = State { budget: FrameBudget::new(limits), grants: BTreeMap::new(), next: 0 };
        Frames { begun: Instant::now(), state: Mutex::new(state) }
    }

    /// Asks for the bytes of an announced frame.
    pub fn reserve(self: &Arc<Frames>, holder: Holder, bytes: usize) -> Reserved {
        let (grant, changes) = watch::channel(Grant::Waiting);
        let frame = {
            let mut state = self.lock();
            let frame = state.next;
            state.next += 1;
            state.grants.insert(frame, grant);
            state.step(Input::Announced { frame, holder, bytes, now: self.now() });
            frame
        };
        Reserved { frames: self.clone(), frame, grant: changes }
    }

    /// Granted bytes of frames that are not handed on yet.
    pub fn held(&self) -> usize {
        self.lock().budget.held()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the frames' budget panics")
    }
}

impl State {
    fn step(&mut self, input: Input) {
        for effect in self.budget.step(input) {
            let (frame, grant) = match effect {
                Effect::Grant { frame } => (frame, Grant::Granted),
                Effect::End { frame } => (frame, Grant::Ended),
            };
            if let Some(waiting) = self.grants.get(&frame) {
                waiting.send_replace(grant);
            }
        }
    }
}

impl Reserved {
    /// Waits until the frame's bytes may be read. Cancel-safe.
    pub async fn granted(&mut self) -> Result<(), StreamError> {
        loop {
            let decided = timeout(PATIENCE, self.grant.wait_for(|grant| *grant != Grant::Waiting)).await;
            match decided {
                Ok(Ok(grant)) if *grant == Grant::Granted => return Ok(()),
                Ok(_) => return Err(StreamError::Displaced),
                Err(_) => {
                    let input = Input::Pressed { frame: self.frame, now: self.frames.now() };
                    self.frames.lock().step(input);
                }
            }
        }
    }

    /// Waits until another frame displaces it.
    pub async fn ended(&mut self) {
        // No error: the sender lives in the budget, which `frames` keeps alive.
        let _ = self.grant.wait_for(|grant| *grant == Grant::Ended).await;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let now = self.frames.now();
        let mut state = self.frames.lock();
        state.grants.remove(&self.frame);
        state.step(Input::Done { frame: self.frame, now });
    }
}

//! The bytes of frames that are not finished yet: what [`machine::frame_budget`](crate::machine::frame_budget) decides, for the
//! streams that wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::error::StreamError;
use crate::machine::frame_budget::{Effect, FrameBudget, FrameId, FrameLimits, Input, PATIENCE};
use crate::machine::nearness::Holder;

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Waits,
    Reads,
    Ended,
}

/// The budget of one node.
pub(crate) struct Frames {
    begun: Instant,
    state: Mutex<State>,
}

struct State {
    budget: FrameBudget,
    turns: BTreeMap<FrameId, watch::Sender<Turn>>,
    next: FrameId,
}

/// The bytes of one frame; free again when it is dropped.
pub(crate) struct Reserved {
    frames: Arc<Frames>,
    frame: FrameId,
    turn: watch::Receiver<Turn>,
}

impl Frames {
    pub fn new(limits: FrameLimits) -> Frames {
        let state = State { budget: FrameBudget::new(limits), turns: BTreeMap::new(), next: 0 };
        Frames { begun: Instant::now(), state: Mutex::new(state) }
    }

    /// A frame of so many bytes is announced.
    pub fn reserve(self: &Arc<Frames>, holder: Holder, bytes: usize) -> Reserved {
        let (turn, told) = watch::channel(Turn::Waits);
        let frame = {
            let mut state = self.lock();
            let frame = state.next;
            state.next += 1;
            state.turns.insert(frame, turn);
            state.step(Input::Announced { frame, holder, bytes, now: self.now() });
            frame
        };
        Reserved { frames: self.clone(), frame, turn: told }
    }

    /// Bytes that may be read of frames that are not handed on yet.
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
            let (frame, turn) = match effect {
                Effect::Grant { frame } => (frame, Turn::Reads),
                Effect::End { frame } => (frame, Turn::Ended),
            };
            if let Some(told) = self.turns.get(&frame) {
                told.send_replace(turn);
            }
        }
    }
}

impl Reserved {
    /// Waits until the frame's bytes may be read. Cancel-safe.
    pub async fn granted(&mut self) -> Result<(), StreamError> {
        loop {
            let decided = timeout(PATIENCE, self.turn.wait_for(|turn| *turn != Turn::Waits)).await;
            match decided {
                Ok(Ok(turn)) if *turn == Turn::Reads => return Ok(()),
                Ok(_) => return Err(StreamError::Displaced),
                Err(_) => {
                    let input = Input::Pressed { frame: self.frame, now: self.frames.now() };
                    self.frames.lock().step(input);
                }
            }
        }
    }

    /// Waits until it is ended for another.
    pub async fn ended(&mut self) {
        // An error would mean that its budget is gone, which it holds itself.
        let _ = self.turn.wait_for(|turn| *turn == Turn::Ended).await;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let now = self.frames.now();
        let mut state = self.frames.lock();
        state.turns.remove(&self.frame);
        state.step(Input::Done { frame: self.frame, now });
    }
}

//! What a listener of a task receives: its events, and after the last one why there are no more of them here, where the task goes
//! on.

use std::sync::{Arc, OnceLock};

use a2a::StreamResponse;
use althing_call::{OperationError, Refusal};
use tokio::sync::mpsc;

/// What callers are told whose turns go on when the node is up again.
const GOES_ON: &str =
    "its node is being stopped: the task goes on once it is up again; subscribe to it then, or send the message again";

/// The events of a task, as one listener receives them.
pub(crate) struct TaskEvents {
    receiver: mpsc::Receiver<StreamResponse>,
    /// Why there are no more, where the task goes on. Set before the last sender is dropped.
    left: Arc<OnceLock<OperationError>>,
}

impl TaskEvents {
    pub fn new(receiver: mpsc::Receiver<StreamResponse>, left: Arc<OnceLock<OperationError>>) -> TaskEvents {
        TaskEvents { receiver, left }
    }

    /// Those of a task of which nothing more is told.
    pub fn none() -> TaskEvents {
        TaskEvents::new(mpsc::channel(1).1, Arc::default())
    }

    /// The next event; none after the last one.
    pub async fn recv(&mut self) -> Option<StreamResponse> {
        self.receiver.recv().await
    }

    /// After the last event: why there are no more here, though the task goes on; told once.
    pub fn take_left(&mut self) -> Option<OperationError> {
        std::mem::take(&mut self.left).get().cloned()
    }
}

/// What callers are told whose turns go on when the node is up again.
#[must_use]
pub(crate) fn left_turn() -> OperationError {
    OperationError { refusal: Refusal::TurnLeft, ..OperationError::busy(GOES_ON) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_goes_on_is_told_apart_from_one_that_found_no_room() {
        let (left, busy) = (left_turn(), OperationError::busy(GOES_ON));
        assert_ne!(left.refusal, busy.refusal, "though the words are the same");
        assert_eq!((left.reason(), left.to_string()), (busy.reason(), busy.to_string()), "clients are told the same");
    }

    #[tokio::test]
    async fn why_there_are_no_more_events_is_told_once_and_after_all_of_them() {
        assert!(TaskEvents::none().recv().await.is_none());
        assert_eq!(TaskEvents::none().take_left(), None, "it is over");
        let why = Arc::new(OnceLock::from(left_turn()));
        let mut events = TaskEvents::new(mpsc::channel(1).1, why);
        assert!(events.recv().await.is_none());
        assert_eq!((events.take_left(), events.take_left()), (Some(left_turn()), None));
    }
}

//! How often a part on one connection is heard: who asks without a pause waits.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use althing_communication::turns::Turns;
use tokio::time::{Instant, Sleep};

/// When a part may say something again; see [`Turns`].
pub(crate) struct Pace {
    a_second: u32,
    begun: Instant,
    turns: Turns,
    /// Until its next turn.
    wait: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub fn new(a_second: u32) -> Pace {
        Pace { a_second, begun: Instant::now(), turns: Turns::default(), wait: None }
    }

    /// Ready when it is the part's turn; the task is woken then.
    pub fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(())
    }

    /// The part said something.
    pub fn spend(&mut self) {
        let wait = self.turns.take(self.a_second, self.begun.elapsed());
        self.wait = (wait > Duration::ZERO).then(|| Box::pin(tokio::time::sleep(wait)));
    }
}

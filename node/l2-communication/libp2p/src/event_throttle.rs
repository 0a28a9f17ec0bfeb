//! A rate limit on the events of one connection handler.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use althing_communication::rate_limiter::RateLimiter;
use tokio::time::{Instant, Sleep};

/// When a handler may emit its next event; see [`RateLimiter`].
pub(crate) struct EventThrottle {
    per_second: u32,
    begun: Instant,
    limiter: RateLimiter,
    /// Until the next event.
    wait: Option<Pin<Box<Sleep>>>,
}

impl EventThrottle {
    pub fn new(per_second: u32) -> EventThrottle {
        EventThrottle { per_second, begun: Instant::now(), limiter: RateLimiter::default(), wait: None }
    }

    /// Ready when the handler may emit an event; the task is woken then.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(())
    }

    /// The handler emitted an event.
    pub fn on_event(&mut self) {
        let wait = self.limiter.take(self.per_second, self.begun.elapsed());
        self.wait = (wait > Duration::ZERO).then(|| Box::pin(tokio::time::sleep(wait)));
    }
}

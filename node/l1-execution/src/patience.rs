//! How long a server is waited for.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::fault::Fault;
use crate::relayed::Life;

/// How long a call may take at most, however often it tells how far it is.
const CALL_MAX: Duration = Duration::from_secs(3_600);

/// Waits for a call: each sign of life ([`Life`]) renews `patience`, up to an hour in all.
pub(crate) async fn of_call<T>(call: impl Future<Output = Result<T, Fault>>, patience: Duration) -> Result<T, Fault> {
    let begun = Instant::now();
    let life = Life::beginning(begun);
    let call = life.clone().of(call);
    tokio::pin!(call);
    loop {
        let most = begun + CALL_MAX;
        let until = (life.last() + patience).min(most);
        tokio::select! {
            biased;
            done = &mut call => return done,
            () = sleep_until(until) => {}
        }
        let now = Instant::now();
        if now >= most {
            return Err(Fault::Silent(CALL_MAX));
        }
        if now >= life.last() + patience {
            return Err(Fault::Silent(patience));
        }
    }
}

/// Waits for a listing. A server that is busy may answer late, up to `most`.
pub(crate) async fn while_busy<T>(
    listing: impl Future<Output = T>,
    is_busy: impl Fn() -> bool,
    patience: Duration,
    most: Duration,
) -> Result<T, Fault> {
    let until = Instant::now() + most;
    tokio::pin!(listing);
    loop {
        match timeout(patience, &mut listing).await {
            Ok(listed) => return Ok(listed),
            Err(_) if !is_busy() => return Err(Fault::Silent(patience)),
            Err(_) if Instant::now() >= until => {
                let why = "it works on other calls, one after the other; try again later".to_owned();
                return Err(Fault::Busy(why));
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::relayed::alive;

    const PATIENCE: Duration = Duration::from_secs(120);

    /// Tells every 100 s how far it is, so many times.
    async fn work(steps: u32) -> Result<u32, Fault> {
        for _ in 0..steps {
            tokio::time::sleep(Duration::from_secs(100)).await;
            alive();
        }
        Ok(steps)
    }

    /// So long of the paused clock, which counts whole milliseconds.
    fn took(begun: Instant, whole: Duration) -> bool {
        (whole..whole + Duration::from_secs(1)).contains(&begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_tells_how_far_it_is_is_waited_for_up_to_an_hour() {
        let begun = Instant::now();
        assert_eq!(of_call(work(30), PATIENCE).await, Ok(30));
        assert_eq!(of_call(work(1_000), PATIENCE).await, Err(Fault::Silent(CALL_MAX)));
        assert!(took(begun, Duration::from_secs(30 * 100) + CALL_MAX));
        let silent = async {
            work(2).await?;
            std::future::pending::<Result<u32, Fault>>().await
        };
        let begun = Instant::now();
        assert_eq!(of_call(silent, PATIENCE).await, Err(Fault::Silent(PATIENCE)));
        assert!(took(begun, Duration::from_secs(200) + PATIENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_is_waited_for_while_its_server_works() {
        let (patience, most) = (Duration::from_secs(20), Duration::from_secs(120));
        let busy = AtomicBool::new(true);
        let is_busy = || busy.load(Ordering::SeqCst);
        let late = async {
            tokio::time::sleep(Duration::from_secs(70)).await;
            7
        };
        assert_eq!(while_busy(late, is_busy, patience, most).await, Ok(7));
        let never = while_busy(std::future::pending::<()>(), is_busy, patience, most).await;
        assert!(matches!(never, Err(Fault::Busy(_))), "{never:?}");
        busy.store(false, Ordering::SeqCst);
        let idle = while_busy(std::future::pending::<()>(), is_busy, patience, most).await;
        assert_eq!(idle, Err(Fault::Silent(patience)));
    }
}

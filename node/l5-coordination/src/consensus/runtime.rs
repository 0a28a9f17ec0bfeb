//! The runtime that openraft runs on: tokio's, but that a simulation can repeat what it draws, and in which order it wakes; and
//! where work is done that takes long.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::TokioRuntime;
use rand_core::TryRng;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::spawn_blocking;

use super::watch::Watch;

thread_local! {
    /// The generator of this thread, where a simulation has seeded it.
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Lets the random draws of all replicas on this thread, such as those of election time-outs, follow from `seed`: a
/// simulation, which runs all members on one thread, then decides the same twice. Without it they come from the operating
/// system.
pub fn seed_randomness(seed: u64) {
    SEEDED.set(Some(seed));
}

/// Random draws of replicas.
#[derive(Debug, Clone, Copy)]
pub struct Draws;

/// The next number of `SplitMix64`, which suffices to tell time-outs apart.
fn next(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state, mixed ^ (mixed >> 31))
}

impl TryRng for Draws {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|drawn| u32::try_from(drawn >> 32).expect("32 bits"))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        match SEEDED.get() {
            None => TokioRuntime::thread_rng().try_next_u64(),
            Some(state) => {
                let (state, drawn) = next(state);
                SEEDED.set(Some(state));
                Ok(drawn)
            }
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Ok(())
    }
}

/// Tokio's runtime with [`Draws`] and our [`Watch`].
#[derive(Debug)]
pub struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = Draws;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Draws {
        Draws
    }

    fn new(threads: usize) -> Runtime {
        Runtime(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

/// Does work that takes long where it holds up nothing else: on a thread for that. On a runtime of one thread it is done at once,
/// before anything else: that is where time may be virtual, and where a simulation must do the same things in the same order twice.
/// Nodes have several threads.
///
/// # Errors
/// The program ends, and it was not begun.
///
/// # Panics
/// As the work does.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    match spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(io::Error::other("the program ends")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> Vec<u8> {
        let mut bytes = vec![0; 20];
        let Ok(()) = Draws.try_fill_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn a_seed_repeats_the_draws_of_its_thread_and_of_no_other() {
        let seeded = |seed| {
            seed_randomness(seed);
            drawn()
        };
        assert_eq!(seeded(7), seeded(7));
        assert_ne!(seeded(7), seeded(8));
        let elsewhere = || std::thread::spawn(drawn).join().expect("no panic");
        assert_ne!(elsewhere(), elsewhere(), "from the operating system");
    }

    #[test]
    fn it_is_a_runtime_by_the_tests_of_openraft() {
        openraft::rt::testing::Suite::<Runtime>::test_all();
    }

    async fn is_done_here() -> bool {
        let here = std::thread::current().id();
        here == apart(|| std::thread::current().id()).await.expect("it is done")
    }

    #[tokio::test(start_paused = true)]
    async fn on_one_thread_work_that_takes_long_is_done_at_once() {
        let (begun, task) = (tokio::time::Instant::now(), tokio::spawn(async {}));
        assert!(is_done_here().await);
        assert!(!task.is_finished() && begun.elapsed() == Duration::ZERO, "nothing else came between");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn on_several_threads_it_holds_up_nothing() {
        assert!(!is_done_here().await);
        // It waits for a task that the only worker must run.
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let waiting = tokio::spawn(apart(move || receiver.recv().expect("it is sent")));
        tokio::spawn(async move { sender.send(7).expect("it is received") });
        assert_eq!(waiting.await.expect("no panic").expect("it is done"), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_of_the_work_is_one_of_whoever_waits() {
        let waiting = tokio::spawn(apart::<()>(|| panic!("of the work")));
        assert!(waiting.await.is_err_and(|error| error.is_panic()));
    }
}

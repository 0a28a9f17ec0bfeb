//! A turn whose journal stays as a tape (`record: tape`), beside one of which nothing stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use althing_execution::Turn;
use althing_protocol::contract::TurnRecord;
use futures::future::BoxFuture;

use crate::figures::{Goals, percentile, us};
use crate::sessions::desk::{Desk, Work, store};
use crate::sessions::resume::{STEPS, steps};

const TURNS: usize = 1_000;
const WARMING: usize = 100;
/// A turn that is kept, as a multiple of one that is not; by their medians.
const RATIO_MAX: f64 = 1.5;

async fn timed(desk: &Desk, number: usize) -> Duration {
    let begun = Instant::now();
    let task = desk.send(number, false).await;
    let took = begun.elapsed();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    took
}

/// Prints the figure.
pub async fn run(goals: &mut Goals) {
    let work: Work = Arc::new(|turn: Turn| -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move { steps(&turn).await })
    });
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let taped = Desk::recording(store(folders[0].path()), work.clone(), TurnRecord::Tape).await;
    let bare = Desk::open(store(folders[1].path()), work).await;
    let (mut ours, mut floor) = (Vec::with_capacity(TURNS), Vec::with_capacity(TURNS));
    for number in 0..WARMING + TURNS {
        let times = (timed(&bare, number).await, timed(&taped, number).await);
        if number >= WARMING {
            floor.push(times.0);
            ours.push(times.1);
        }
    }
    let (p50, floor_p50) = (percentile(&mut ours, 0.5), percentile(&mut floor, 0.5));
    let ratio = p50.as_secs_f64() / floor_p50.as_secs_f64();
    println!(
        "  a turn of {STEPS} steps that is kept as a tape: p50 {:.0} µs, p99 {:.0} µs; one of which nothing stays: p50 {:.0} µs, p99 {:.0} µs; ratio of p50 {ratio:.2} {}",
        us(p50),
        us(percentile(&mut ours, 0.99)),
        us(floor_p50),
        us(percentile(&mut floor, 0.99)),
        goals.at_most(ratio, RATIO_MAX),
    );
}

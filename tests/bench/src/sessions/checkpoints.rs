//! What a turn pays to save how far it came: a state is written, and the rows of the turn before it are deleted.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use althing_execution::{Turn, steps};
use futures::future::BoxFuture;

use super::desk::{Desk, store};
use crate::figures::{percentile, us};

/// States of an agent that counts, and of one that saves as much as it may.
const SIZES: [(&str, usize); 2] = [("1 KiB", 1 << 10), ("1 MiB", 1 << 20)];
/// Checkpoints of each size, after those that warm up.
const ROUNDS: usize = 100;
const WARMING: usize = 10;

/// The time that each took.
type Times = Vec<Duration>;

async fn saved(bytes: usize) -> Result<Times, String> {
    let mut times = Vec::with_capacity(ROUNDS);
    for number in 0..WARMING + ROUNDS {
        let state = vec![7; bytes];
        let begun = Instant::now();
        steps::save(state, Vec::new()).await.map_err(|error| error.to_string())?;
        if number >= WARMING {
            times.push(begun.elapsed());
        }
    }
    Ok(times)
}

/// Prints the figure.
pub async fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    let measured = Arc::new(Mutex::new(Vec::<(&str, Times)>::new()));
    let measuring = measured.clone();
    let desk = Desk::open(
        store(folder.path()),
        Arc::new(move |_: Turn| -> BoxFuture<'static, Result<(), String>> {
            let measured = measuring.clone();
            Box::pin(async move {
                for (size, bytes) in SIZES {
                    let times = saved(bytes).await?;
                    measured.lock().expect("no holder of it panics").push((size, times));
                }
                Ok(())
            })
        }),
    )
    .await;
    let task = desk.send(0, false).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let measured = std::mem::take(&mut *measured.lock().expect("no holder of it panics"));
    let told = measured.into_iter().map(|(size, mut times)| {
        let (p50, p99) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
        format!("{size}: p50 {:.0} µs, p99 {:.0} µs", us(p50), us(p99))
    });
    println!("  a checkpoint of {}", told.collect::<Vec<String>>().join("; of "));
}

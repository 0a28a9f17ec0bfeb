//! A few connections that send at full rate, and count how they are answered.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::http::{Client, connection};

/// How many connections.
const CONNECTIONS: usize = 8;
/// How long they send, and how much in all.
const TIME: Duration = Duration::from_secs(15);
const SENT_MAX: u64 = 1_000_000;

/// A request that was made beforehand.
pub struct Shot {
    /// What it is counted as.
    pub what: &'static str,
    pub request: Vec<u8>,
}

#[derive(Default)]
struct Tally {
    sent: u64,
    /// By what was sent and the status; none where the connection was closed without one.
    answers: BTreeMap<(&'static str, Option<u16>), u64>,
    took: Duration,
}

/// The attackers of one registry.
#[derive(Clone)]
pub struct Attackers {
    /// Where the registry is.
    pub address: String,
    from: Ipv4Addr,
    tally: Arc<Mutex<Tally>>,
}

impl Attackers {
    pub fn new(address: &str, from: Ipv4Addr) -> Attackers {
        Attackers { address: address.to_owned(), from, tally: Arc::default() }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no holder panics")
    }

    /// Sends these over each connection, in turn and again and again, each as soon as the one before it is answered. Prints a
    /// line when it begins.
    pub async fn send(&self, shots: Vec<Shot>) {
        connection(&self.address, Some(self.from)).await.expect("the registry can be reached from there");
        println!("begun");
        let (begun, shots, mut sending) = (Instant::now(), Arc::new(shots), JoinSet::new());
        for number in 0..CONNECTIONS {
            sending.spawn(self.clone().send_over_one(number, shots.clone()));
        }
        let all = async { while sending.join_next().await.is_some() {} };
        // What is not answered by then is told as such.
        let _ = tokio::time::timeout(TIME, all).await;
        self.tally().took = begun.elapsed();
    }

    async fn send_over_one(self, number: usize, shots: Arc<Vec<Shot>>) {
        let mut client = Client::from_address(&self.address, self.from);
        for shot in shots.iter().cycle().skip(number) {
            {
                let mut tally = self.tally();
                if tally.sent >= SENT_MAX {
                    return;
                }
                tally.sent += 1;
            }
            let answered = client.exchange_early(&shot.request).await.ok();
            *self.tally().answers.entry((shot.what, answered.map(|(status, _)| status))).or_default() += 1;
            // SCHED_IDLE alone does not yield: some kernels let a running attacker continue until the next tick.
            std::thread::yield_now();
        }
    }

    /// What was sent, and how it was answered.
    pub fn told(&self) -> String {
        let tally = self.tally();
        let answered: u64 = tally.answers.values().sum();
        let mut told =
            vec![format!("{} in {:.1} s over {CONNECTIONS} connections", tally.sent, tally.took.as_secs_f64())];
        for ((what, status), count) in &tally.answers {
            let status = status.map_or_else(|| "closed".to_owned(), |status| status.to_string());
            told.push(format!("{what} {status}: {count}"));
        }
        told.push(format!("not answered at the end: {}", tally.sent - answered));
        told.join("; ")
    }
}

//! The honest crowd: clients that ask what everybody asks of a registry, each from an address of its own.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use super::THINGS;
use crate::data::title;
use crate::http::{Client, escaped};

/// How many they are.
pub const CLIENTS: u8 = 8;
/// The time between two requests of one of them.
pub const EVERY: Duration = Duration::from_millis(20);
/// What they ask, in turn.
pub const ASKS: [&str; 3] = ["GET /checkpoint", "GET /things", "GET /search/jsonpath"];
/// The last byte of the first one's address, 127.0.0.11.
const FIRST: u8 = 11;
/// Things of one page.
const PAGE: usize = 20;
/// How long one waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What clients heard.
#[derive(Default)]
pub struct Heard {
    /// How long right answers took, by what was asked.
    pub times: [Vec<Duration>; ASKS.len()],
    /// How often there was none, or another, by what was asked and why.
    pub errors: BTreeMap<String, usize>,
}

impl Heard {
    fn add(&mut self, other: Heard) {
        for (times, more) in self.times.iter_mut().zip(other.times) {
            times.extend(more);
        }
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }
}

/// Where one asks; `number` chooses a Thing.
fn path(ask: usize, number: usize) -> String {
    match ask {
        0 => "/checkpoint".to_owned(),
        1 => format!("/things?limit={PAGE}"),
        _ => {
            let query = format!("$[?@['title']=='{}']", title(number % THINGS));
            format!("/search/jsonpath?query={}", escaped(&query))
        }
    }
}

/// Whether an answer has what was asked for.
fn is_right(ask: usize, body: &[u8]) -> bool {
    let listed = || serde_json::from_slice::<Value>(body).ok()?.as_array().map(Vec::len);
    match ask {
        0 => !body.is_empty(),
        1 => listed() == Some(PAGE),
        _ => listed() == Some(1),
    }
}

/// One request over the connection that the client has; how long the right answer took, or why there was none.
async fn asked(client: &mut Client, ask: usize, number: usize) -> Result<Duration, String> {
    let request = client.request("GET", &path(ask, number), "application/json", &[]);
    let begun = Instant::now();
    let answered = tokio::time::timeout(ANSWER_MAX, client.exchange(&request)).await;
    let took = begun.elapsed();
    let (status, body) =
        answered.map_err(|_| format!("nothing within {ANSWER_MAX:?}"))?.map_err(|it| it.to_string())?;
    match status {
        200 if is_right(ask, &body) => Ok(took),
        200 => Err("another answer".to_owned()),
        status => Err(status.to_string()),
    }
}

/// One client, until it is over.
async fn client(address: String, number: u8, is_over: Arc<AtomicBool>) -> Heard {
    let mut client = Client::from_address(&address, Ipv4Addr::new(127, 0, 0, FIRST + number));
    // Not all of them at the same moment.
    let mut next = Instant::now() + EVERY * u32::from(number) / u32::from(CLIENTS);
    let (mut heard, number) = (Heard::default(), usize::from(number));
    for turn in 0.. {
        tokio::time::sleep_until(next.into()).await;
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let ask = (turn + number) % ASKS.len();
        match asked(&mut client, ask, turn * usize::from(CLIENTS) + number).await {
            Ok(took) => heard.times[ask].push(took),
            Err(why) => *heard.errors.entry(format!("{}: {why}", ASKS[ask])).or_default() += 1,
        }
        next = (next + EVERY).max(Instant::now());
    }
    heard
}

/// What the crowd hears while something goes on, and what came of that.
pub async fn during<T>(address: &str, work: impl Future<Output = T>) -> (Heard, T) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut asking = JoinSet::new();
    for number in 0..CLIENTS {
        asking.spawn(client(address.to_owned(), number, is_over.clone()));
    }
    let done = work.await;
    is_over.store(true, Ordering::Relaxed);
    let mut heard = Heard::default();
    while let Some(one) = asking.join_next().await {
        heard.add(one.expect("it ends when it is told to"));
    }
    (heard, done)
}

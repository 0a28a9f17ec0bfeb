//! The registry beside a floor (axum over RocksDB, as durable, with the same schema and signature checks) and beside
//! PostgreSQL with the same Things. They take turns; a ratio is the median of all turns.
//!
//! `althing-bench-registry [--things NUMBER]`; `hostile [--from ADDRESS]` is the registry under attack, alone. `floor FOLDER`
//! and `attack …` are its own child processes.
#![expect(clippy::disallowed_methods, reason = "shell: measures real time")]

mod data;
mod floor;
mod hostile;
mod http;
mod ours;
mod postgres;
mod server;

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use data::Publisher;
use http::Client;
use ours::{Ours, load};
use postgres::Postgres;
use server::{Ask, Server, Work};

/// As the nodes' own program.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Things, if nothing else is said.
const THINGS: usize = 100_000;
/// Alternating turns.
const TURNS: usize = 11;
/// Writers at once, and what each writes in one turn.
const WRITERS: u32 = 16;
const EACH_WRITES: u32 = 40;
/// Starts that are measured.
const STARTS: usize = 3;
/// Searches whose slowest one in a hundred is told of.
const SEARCHES: u32 = 500;

/// Things of which one in a hundred is not more than a search finds.
const PERCENT_THINGS_MAX: usize = 400_000;

const OF_FLOOR: f64 = 1.5;
const OF_POSTGRES: f64 = 1.0;
const OF_WRITERS: f64 = 0.6;
const CAPABILITY_MS_MAX: f64 = 5.0;
const OWN_MIB_MAX: f64 = 1_024.0;
const START_MS_MAX: f64 = 2_000.0;

/// The share `at` (0 to 1) of the times lies below the result.
fn percentile(times: &mut [Duration], at: f64) -> Duration {
    times.sort_unstable();
    // A position in a short list.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "see above"
    )]
    let index = (times.len().saturating_sub(1) as f64 * at).round() as usize;
    times[index]
}

/// The middle of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// All that is measured.
struct Bench {
    things: usize,
    /// The number of the next one that is created.
    next: usize,
    publisher: Publisher,
    ours: Ours,
    floor: (Child, String),
    postgres: Option<Postgres>,
}

/// Of one that takes turns: what each turn gave, against ours in the same turn.
#[derive(Default)]
struct Turns {
    figures: Vec<f64>,
    ratios: Vec<f64>,
}

/// `at` and `among` choose a Thing that is there.
fn some(at: usize, among: usize) -> usize {
    at * 7_919 % among
}

/// Whether a goal is a ratio to PostgreSQL.
fn is_beside_postgres(work: Work) -> bool {
    matches!(work, Work::One | Work::Percent)
}

impl Bench {
    async fn start(folder: &Path, things: usize) -> Bench {
        let ours = Ours::start(&folder.join("registry"), things).await;
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("floor").arg(folder.join("floor")).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("a child process");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let address = lines.next_line().await.expect("a line").expect("an address");
        let rate = load(&ours.address, &ours.tokens, "/things", things).await;
        let floor_rate = load(&address, &[floor::TOKEN.to_owned()], "/grouped", things).await;
        println!("  loaded by 64 clients: {rate:.0}/s, floor {floor_rate:.0}/s");
        let postgres = match Postgres::start().await {
            Ok(postgres) => {
                let begun = Instant::now();
                let version = postgres.load(things).await;
                println!("  PostgreSQL {version}, filled and indexed in {:.0} s", begun.elapsed().as_secs_f64());
                Some(postgres)
            }
            Err(why) => {
                println!("  not measured: all rows of PostgreSQL: {why}");
                None
            }
        };
        Bench { things, next: things, publisher: Publisher::new(), ours, floor: (child, address), postgres }
    }

    /// Connections to all that take turns: ours, the floor, PostgreSQL.
    async fn servers(&self, is_grouped: bool) -> Vec<Server> {
        let floor = Client::new(&self.floor.1, Some(floor::TOKEN));
        let mut servers = vec![Server::Ours(self.ours.client()), Server::Floor { client: floor, is_grouped }];
        if let Some(postgres) = &self.postgres {
            servers.push(Server::Postgres(postgres.connect().await));
        }
        servers
    }

    fn asks(&mut self, work: Work, turn: usize, count: u32) -> Vec<Ask> {
        let count = count as usize;
        let numbers = (0..count).map(|at| match work {
            Work::Create | Work::Publish => self.next + at,
            _ => some(turn * count + at, self.things),
        });
        let asks = numbers.map(|number| Ask::new(work, number, self.things, &self.publisher)).collect();
        if matches!(work, Work::Create | Work::Publish) {
            self.next += count;
        }
        asks
    }

    /// One request after the other, in turns; false if a bound is not met, or not measured.
    async fn latency(&mut self, what: &str, work: Work, count: u32) -> bool {
        let mut servers = self.servers(false).await;
        servers.retain(|server| server.does(work));
        let mut turns: Vec<Turns> = servers.iter().map(|_| Turns::default()).collect();
        // The first turn warms caches.
        for turn in 0..=TURNS {
            let asks = self.asks(work, turn, count);
            let mut own = 0.0;
            for (server, turns) in servers.iter_mut().zip(&mut turns) {
                let mut times = Vec::new();
                for ask in &asks {
                    times.push(server.ask(ask).await);
                }
                let half = ms(percentile(&mut times, 0.5));
                if matches!(server, Server::Ours(_)) {
                    own = half;
                }
                if turn > 0 {
                    turns.figures.push(half);
                    turns.ratios.push(own / half);
                }
            }
        }
        let fine = told(what, "ms", &servers, turns, |name, ratio| match name {
            "floor" => Some((ratio <= OF_FLOOR, format!("≤ {OF_FLOOR}"))),
            _ if is_beside_postgres(work) => Some((ratio <= OF_POSTGRES, format!("≤ {OF_POSTGRES:.1}"))),
            _ => None,
        });
        if self.postgres.is_none() && is_beside_postgres(work) {
            println!("    not measured: the ratio to PostgreSQL (goal: ≤ {OF_POSTGRES:.1})");
            return false;
        }
        fine
    }

    /// Writers at once, in turns; false if a bound is not met.
    async fn writers(&mut self, what: &str, work: Work) -> bool {
        let mut all = Vec::new();
        for _ in 0..WRITERS {
            all.push(self.servers(true).await);
        }
        let kinds: Vec<Server> = self.servers(true).await.into_iter().filter(|server| server.does(work)).collect();
        let mut turns: Vec<Turns> = kinds.iter().map(|_| Turns::default()).collect();
        for turn in 0..=TURNS {
            let mut asks = Vec::new();
            for _ in 0..WRITERS {
                self.publisher = Publisher::new();
                asks.push(std::sync::Arc::new(self.asks(work, turn, EACH_WRITES)));
            }
            let mut own = 0.0;
            for (at, turns) in turns.iter_mut().enumerate() {
                let begun = Instant::now();
                let running: Vec<_> = (all.iter_mut().zip(&asks))
                    .map(|(servers, asks)| {
                        let (mut server, asks) = (servers.remove(at), asks.clone());
                        tokio::spawn(async move {
                            for ask in asks.iter() {
                                server.ask(ask).await;
                            }
                            server
                        })
                    })
                    .collect();
                for (one, servers) in running.into_iter().zip(&mut all) {
                    servers.insert(at, one.await.expect("it ends"));
                }
                let rate = f64::from(WRITERS * EACH_WRITES) / begun.elapsed().as_secs_f64();
                if at == 0 {
                    own = rate;
                }
                if turn > 0 {
                    turns.figures.push(rate);
                    turns.ratios.push(own / rate);
                }
            }
        }
        told(what, "/s", &kinds, turns, |name, ratio| {
            (name == "floor").then(|| (ratio >= OF_WRITERS, format!("≥ {OF_WRITERS}")))
        })
    }

    /// The slowest of many searches for a capability.
    async fn capability(&mut self) -> bool {
        let mut server = Server::Ours(self.ours.client());
        let mut times = Vec::new();
        for ask in self.asks(Work::Capability, 0, SEARCHES) {
            times.push(server.ask(&ask).await);
        }
        let (half, most) = (ms(percentile(&mut times, 0.5)), ms(percentile(&mut times, 0.99)));
        println!("  by capability (10 hits): p50 {half:.2} ms, p99 {most:.2} ms (goal: ≤ {CAPABILITY_MS_MAX})");
        most <= CAPABILITY_MS_MAX
    }

    async fn size(&mut self) -> bool {
        let (resident, own) = self.ours.memory();
        println!("  memory: resident {resident:.0} MiB, its own {own:.0} MiB (goal: < {OWN_MIB_MAX})");
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            starts.push(ms(self.ours.restart().await));
        }
        let (start, (_, after)) = (median(starts), self.ours.memory());
        println!(
            "  killed and started again: answers after {start:.0} ms (goal: < {START_MS_MAX}); its own {after:.0} MiB then"
        );
        own.max(after) < OWN_MIB_MAX && start < START_MS_MAX
    }
}

/// Prints a figure of all that took turns; false if ours misses a bound beside one of them.
fn told(
    what: &str,
    unit: &str,
    servers: &[Server],
    turns: Vec<Turns>,
    bound: impl Fn(&str, f64) -> Option<(bool, String)>,
) -> bool {
    let (mut text, mut fine) = (format!("  {what}:"), true);
    for (server, Turns { figures, ratios }) in servers.iter().zip(turns) {
        let figure = median(figures);
        let shown = if figure < 10.0 { format!("{figure:.3}") } else { format!("{figure:.1}") };
        let name = match server {
            Server::Ours(_) => {
                text += &format!(" {shown} {unit}");
                continue;
            }
            Server::Floor { .. } => "floor",
            Server::Postgres(_) => "PostgreSQL",
        };
        let ratio = median(ratios);
        text += &format!("; {name} {shown}, ratio {ratio:.2}");
        if let Some((is_met, goal)) = bound(name, ratio) {
            text += &format!(" (goal: {goal}{})", if is_met { "" } else { ", missed" });
            fine &= is_met;
        }
    }
    println!("{text}");
    fine
}

/// What it ran on.
fn machine() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("\t: unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine: {cores} cores,{}", model.trim_start_matches(['\t', ':']));
}

/// Prints all figures; false if one misses its goal, or is not measured.
async fn run(things: usize) -> bool {
    machine();
    println!("the registry with {things} Things, beside axum over RocksDB, and PostgreSQL");
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::start(folder.path(), things).await;
    let mut fine = true;
    fine &= bench.latency("get", Work::Get, 200).await;
    fine &= bench.latency("list of 100", Work::List, 30).await;
    fine &= bench.latency("JSONPath, one hit", Work::One, 10).await;
    if things <= PERCENT_THINGS_MAX {
        fine &= bench.latency("JSONPath, 1 % hit", Work::Percent, 3).await;
    } else {
        println!("  JSONPath, 1 % hit: left out, since a search finds at most 8 MiB");
    }
    fine &= bench.capability().await;
    fine &= bench.latency("create", Work::Create, 40).await;
    fine &= bench.latency("publish a release", Work::Publish, 40).await;
    fine &= bench.writers("16 writers, Things", Work::Create).await;
    fine &= bench.writers("16 writers, releases", Work::Publish).await;
    fine & bench.size().await
}

/// Where the attackers come from, if these words are for that.
fn hostile_from(words: &[&str]) -> Option<Ipv4Addr> {
    match words {
        ["hostile"] => Some(hostile::FROM),
        ["hostile", "--from", address] => address.parse().ok(),
        _ => None,
    }
}

fn ended(is_fine: bool) -> ExitCode {
    if is_fine {
        return ExitCode::SUCCESS;
    }
    eprintln!("a figure misses its goal, or is not measured");
    ExitCode::FAILURE
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(from) = hostile_from(&words) {
        return ended(hostile::run(from).await);
    }
    let things = match words.as_slice() {
        ["floor", folder] => {
            floor::serve(folder).await;
            return ExitCode::SUCCESS;
        }
        ["attack", name, address, from, agent] => {
            hostile::attack(name, address, from, agent).await;
            return ExitCode::SUCCESS;
        }
        [] => Some(THINGS),
        ["--things", number] => number.parse().ok().filter(|things| *things >= 1_000),
        _ => None,
    };
    let Some(things) = things else {
        eprintln!("althing-bench-registry [--things NUMBER | hostile [--from ADDRESS]], of Things at least 1000");
        return ExitCode::from(2);
    };
    ended(run(things).await)
}

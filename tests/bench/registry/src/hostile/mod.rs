//! A registry under attack: queries that are nested beyond all bounds, megabytes of bundles of nobody and of publishers that
//! nobody knows, key logs that cost much to verify. Measured is what an honest crowd notices of it, and the memory that the
//! registry takes.
//!
//! The attackers send at full rate over a few connections from one address, and run when nobody else wants the processors
//! (SCHED_IDLE). The crowd runs at once (SCHED_FIFO), as on machines of its own, where this account may do that.
//!
//! From loopback a registry counts nobody, since a proxy there may stand for many: no share of an origin helps it, so that is
//! the harder case. From another address of this machine (`--from`) the attackers are one net, and have its shares.

mod attackers;
mod crowd;
mod long_key_logs;
mod nested_filters;
mod signed_in_uploads;
mod staged_uploads;

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use attackers::Attackers;
use crowd::{ASKS, CLIENTS, EVERY, Heard};
use long_key_logs::long_key_logs;
use nested_filters::nested_filters;
use signed_in_uploads::signed_in_uploads;
use staged_uploads::staged_uploads;

use crate::data::Publisher;
use crate::http::Client;
use crate::ours::{Ours, load};
use crate::{machine, ms, percentile};

/// The address of the attackers, unless another is given.
pub const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
/// The attacks, and whether the registry is open to anyone; else it is for one publisher, which is none of the attackers.
const SCENES: [(&str, bool); 5] = [
    ("nested-filters", true),
    ("staged-uploads", false),
    ("signed-in-uploads", true),
    ("long-key-logs", true),
    ("long-key-logs", false),
];
/// What the registry has. Releases are of agents whose numbers follow those of the Things.
const THINGS: usize = 300;
const RELEASES: usize = 5;
/// How long the crowd asks before it counts, and without an attack.
const WARM: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(8);
/// When attackers are ended that do not end themselves.
const ATTACK_MAX: Duration = Duration::from_secs(20);
/// How often the registry's memory is looked at.
const SAMPLE: Duration = Duration::from_millis(100);
/// How much slower an honest answer may be under attack, p99.
const RATIO_MAX: f64 = 3.0;
/// Memory limit of the registry, MiB.
const RESIDENT_MIB_MAX: f64 = 512.0;

/// Child: attacks the registry at an address from another one, and prints how it was answered. The agent is published there.
pub async fn attack(name: &str, address: &str, from: &str, agent: &str) {
    let attackers = Attackers::new(address, from.parse().expect("an address"));
    match name {
        "nested-filters" => nested_filters(&attackers).await,
        "staged-uploads" => staged_uploads(&attackers).await,
        "signed-in-uploads" => signed_in_uploads(&attackers).await,
        "long-key-logs" => long_key_logs(&attackers, &agent.parse().expect("an agent")).await,
        other => panic!("there is no attack {other:?}"),
    }
    println!("{}", attackers.told());
}

/// Lets this process run at once, as on a machine of its own, or as all others; whether this account may do that.
async fn run_at_once(is_so: bool) -> bool {
    let mut command = Command::new("chrt");
    match is_so {
        true => command.args(["--all-tasks", "--reset-on-fork", "--fifo", "--pid", "1"]),
        false => command.args(["--all-tasks", "--other", "--pid", "0"]),
    };
    command.arg(std::process::id().to_string()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

/// A registry with Things and releases, and where it is asked: by the crowd, and by attackers from that address.
async fn registry(folder: &Path, publisher: &Publisher, is_open: bool, from: Ipv4Addr) -> (Ours, String, String) {
    let (id, is_near) = (publisher.id().to_string(), from.is_loopback());
    let mut flags = vec!["--listen", if is_near { "127.0.0.1:0" } else { "0.0.0.0:0" }];
    match is_open {
        true => flags.push("--anyone"),
        false => flags.extend(["--publisher", id.as_str()]),
    }
    let ours = Ours::start_with(&folder.join("registry"), THINGS, &flags).await;
    let (_, port) = ours.address.rsplit_once(':').expect("a port");
    let honest = format!("127.0.0.1:{port}");
    let hostile = if is_near { honest.clone() } else { format!("{from}:{port}") };
    load(&honest, &ours.tokens, "/things", THINGS).await;
    let mut client = Client::new(&honest, None);
    for number in THINGS..THINGS + RELEASES {
        client.ask("POST", "/submissions", "application/cbor", &publisher.release(number)).await;
    }
    (ours, honest, hostile)
}

/// The attackers, once they have prepared what they send and begin.
async fn attackers(name: &str, address: &str, from: Ipv4Addr, agent: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(program).args(["attack", name, address, &from.to_string(), agent]);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("attackers");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    lines.next_line().await.expect("a line").expect("they reach the registry");
    (child, lines)
}

/// Waits for the end of an attack; what the attackers told, if they did, and the most memory that the registry had, MiB.
async fn watch(ours: &Ours, lines: &mut Lines<BufReader<ChildStdout>>) -> (Option<String>, f64) {
    let (begun, mut most) = (Instant::now(), ours.memory().0);
    while begun.elapsed() < ATTACK_MAX {
        tokio::select! {
            told = lines.next_line() => return (told.expect("its output"), ours.memory().0.max(most)),
            () = tokio::time::sleep(SAMPLE) => most = ours.memory().0.max(most),
        }
    }
    (None, most)
}

/// Prints what the crowd heard; false if a goal is missed.
fn compared(mut quiet: Heard, mut under_attack: Heard) -> bool {
    let mut is_fine = true;
    for ((what, quiet), attacked) in ASKS.iter().zip(&mut quiet.times).zip(&mut under_attack.times) {
        if quiet.is_empty() || attacked.is_empty() {
            println!("  honest {what}: not answered");
            is_fine = false;
            continue;
        }
        let (quiet99, attacked99) = (percentile(quiet, 0.99), percentile(attacked, 0.99));
        let ratio = attacked99.as_secs_f64() / quiet99.as_secs_f64();
        println!(
            "  honest {what}: quiet p50 {:.2} p99 {:.2} ms; under attack p50 {:.2} p99 {:.2} ms, ratio of p99 {ratio:.2} \
             (wanted: at most {RATIO_MAX}); {} answers",
            ms(percentile(quiet, 0.5)),
            ms(quiet99),
            ms(percentile(attacked, 0.5)),
            ms(attacked99),
            attacked.len(),
        );
        is_fine &= ratio <= RATIO_MAX;
    }
    for (when, heard) in [("quiet", &quiet), ("under attack", &under_attack)] {
        let errors: usize = heard.errors.values().sum();
        println!("  honest requests without their answer, {when}: {errors} (wanted: 0)");
        heard.errors.iter().for_each(|(error, count)| println!("    {error}: {count}"));
        is_fine &= errors == 0;
    }
    is_fine
}

/// One attack on a registry of its own; false if a goal is missed.
async fn scene(name: &str, is_open: bool, from: Ipv4Addr) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let publisher = Publisher::new();
    let (ours, honest, hostile) = registry(folder.path(), &publisher, is_open, from).await;
    let is_own = run_at_once(true).await;
    println!(
        "{name}, the registry {}; the crowd {}",
        if is_open { "open to anyone" } else { "for one publisher" },
        if is_own { "as on machines of its own" } else { "on the same processors, since this account may not more" },
    );
    crowd::during(&honest, tokio::time::sleep(WARM)).await;
    let (quiet, ()) = crowd::during(&honest, tokio::time::sleep(QUIET)).await;
    let before = ours.memory().0;
    let (mut child, mut lines) = attackers(name, &hostile, from, &publisher.agent(THINGS).to_string()).await;
    let (under_attack, (told, most)) = crowd::during(&honest, watch(&ours, &mut lines)).await;
    child.kill().await.expect("they end");
    run_at_once(false).await;
    let has_told = told.is_some();
    println!(
        "  attacks: {}",
        told.unwrap_or_else(|| "not counted: the attackers ended too late, or without a word".to_owned())
    );
    let is_fine = compared(quiet, under_attack);
    println!("  resident: {before:.1} MiB before, {most:.1} MiB at most (wanted: below {RESIDENT_MIB_MAX:.0})");
    is_fine && has_told && most < RESIDENT_MIB_MAX
}

/// Prints what the crowd notices of all attacks; false if a goal is missed.
pub async fn run(from: Ipv4Addr) -> bool {
    machine();
    println!(
        "a registry under attack, {THINGS} Things and {RELEASES} releases; {CLIENTS} honest clients, each with a request every \
         {} ms; attackers at {from}",
        EVERY.as_millis()
    );
    let mut is_fine = true;
    for (name, is_open) in SCENES {
        is_fine &= scene(name, is_open, from).await;
    }
    is_fine
}

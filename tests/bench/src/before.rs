//! What is to stay as it was: an idle node, and how soon it is ready; a call of an agent that keeps nothing, the first piece of a
//! stream, and the jobs of a control loop; beside an earlier program of the node, in turn. `make bench BEFORE=PROGRAM` names it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::faces::{Node, first, latency, node_program};
use crate::figures::{Goals, median, us};
use crate::idle::{node_saying, resident};

/// Where the earlier program is named.
const NAMED: &str = "ALTHING_BENCH_BEFORE";
/// Pairs of nodes, and of measurements.
const ROUNDS: usize = 7;
/// How long both idle before their memory is read: a few heartbeats.
const IDLE: Duration = Duration::from_secs(5);
/// What is as it was takes at most so many times as long: smaller differences are noise between two programs.
const SAME_MAX: f64 = 1.1;
/// Jobs of the control loop, of each program.
const JOBS: &str = "500";
/// Misses that nothing explains, of all jobs, that two runs of one program differ by.
const MISSES_MORE_MAX: f64 = 1.0;

/// The earlier program.
pub struct Before(PathBuf);

impl Before {
    /// That which is named; says what is not measured if none is, or if it is not there.
    pub fn named(what: &str) -> Option<Before> {
        let program = std::env::var_os(NAMED).filter(|named| !named.is_empty()).map(PathBuf::from);
        match program {
            Some(program) if program.is_file() => return Some(Before(program)),
            Some(program) => println!("  {what}: not measured: {} is no program", program.display()),
            None => println!("  {what}: not measured: BEFORE=PROGRAM names an earlier program to be compared with"),
        }
        None
    }

    /// What an idle node holds more, MiB, and how soon it is ready.
    pub async fn idle(&self, goals: &mut Goals, added_max: f64) {
        let (mut more, mut held, mut ratios, mut ready) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
            let (then, then_took, _) = node_saying(&self.0, folders[0].path(), &[]).await;
            let (now, now_took, _) = node_saying(&node_program(), folders[1].path(), &[]).await;
            tokio::time::sleep(IDLE).await;
            let (less, all) = (resident(&then), resident(&now));
            held.push(less);
            more.push(all - less);
            ready.push(us(then_took) / 1e3);
            ratios.push(now_took.as_secs_f64() / then_took.as_secs_f64());
        }
        let (more, ratio) = (median(more), median(ratios));
        println!(
            "  an idle node before: {:.1} MiB resident; now {more:.1} MiB more {}; ready before: {:.0} ms; ratio {ratio:.2} {}",
            median(held),
            goals.at_most(more, added_max),
            median(ready),
            goals.at_most(ratio, SAME_MAX),
        );
    }

    /// A call of an agent that may call nothing and keeps no task, and the first piece of a stream of one.
    pub async fn calls(&self, goals: &mut Goals) {
        let (then, now) = (Node::of(self.0.clone(), &[]).await, Node::start(&[]).await);
        for node in [&then, &now] {
            node.add("say", "message").await;
            node.add("work", "task").await;
        }
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let of = |node: &Node| [node.agent("say"), node.agent("work")];
        let ([then_say, then_work], [now_say, now_work]) = (of(&then), of(&now));
        let (mut calls, mut firsts) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for round in 0..=ROUNDS {
            let call = [latency(&http, &then_say).await, latency(&http, &now_say).await];
            let piece = [first(&http, &then_work).await, first(&http, &now_work).await];
            if round == 0 {
                continue; // warming up
            }
            for (all, pair) in [(&mut calls, call), (&mut firsts, piece)] {
                all[0].push(us(pair[0]));
                all[1].push(us(pair[1]) / us(pair[0]));
            }
        }
        for (what, [before, ratios]) in
            [("a call of an agent that keeps nothing", calls), ("the first piece of a stream without gates", firsts)]
        {
            let ratio = median(ratios);
            println!(
                "  {what}, before: p50 {:.0} µs; ratio {ratio:.2} {}",
                median(before),
                goals.at_most(ratio, SAME_MAX)
            );
        }
    }

    /// Jobs of a control loop that miss their deadline, where no stall of the machine explains it; false if one of the programs
    /// cannot run them here.
    pub async fn loops(&self, goals: &mut Goals) -> bool {
        let (then, now) = match (unexplained(&self.0).await, unexplained(&node_program()).await) {
            (Ok(then), Ok(now)) => (then, now),
            (Err(why), _) | (_, Err(why)) => {
                println!("  jobs of a control loop: not measured: {why}");
                return false;
            }
        };
        println!(
            "  {JOBS} jobs of a control loop under load: {now:.0} missed without a reason, before {then:.0} {}",
            goals.at_most(now, then + MISSES_MORE_MAX),
        );
        true
    }
}

/// Misses of a program's own benchmark that no stall of the machine explains.
async fn unexplained(program: &Path) -> Result<f64, String> {
    let mut command = Command::new(program);
    command.args(["--json", "bench", "hrt", "--jobs", JOBS]);
    let ran = command.output().await.map_err(|error| error.to_string())?;
    // Its goals are its own affair, so that it may have failed.
    let told: Value = serde_json::from_slice(&ran.stdout).map_err(|_| {
        String::from_utf8_lossy(&ran.stderr).lines().next_back().unwrap_or("it said nothing").to_owned()
    })?;
    let count = |name: &str| told["agent"][name].as_f64().ok_or_else(|| format!("it does not say `agent.{name}`"));
    Ok(count("missed")? - count("explained")?)
}

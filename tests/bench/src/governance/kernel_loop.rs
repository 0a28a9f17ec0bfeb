//! Governed calls of many clients at once, beside the kernel loop of agent-os-kernel, a library in Python whose audit is in memory.
//! It is only wanted that ours are as many.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::calls::{Caller, governed};
use super::office;
use crate::commands::done;
use crate::figures::median;

const PACKAGE: &str = "agent-os-kernel==3.7.0";
/// It imports this, and does not require it.
const IMPORTED: &str = "pyyaml==6.0.2";
const SCRIPT: &str = include_str!("kernel_loop.py");
const ROUNDS: usize = 11;
const CLIENTS: usize = 64;
/// Calls of a client in a round: of all clients fewer than the decisions that wait for the next write.
const CALLS: usize = 15;
/// The same of the kernel loop, which keeps all in memory.
const PEERS_CALLS: usize = 200;
const WANTED: f64 = 1.0;

/// The kernel loop, which makes a round when it is asked.
struct KernelLoop {
    _child: Child,
    orders: ChildStdin,
    rates: Lines<BufReader<ChildStdout>>,
}

/// The Python that has the package, beside this program; it is fetched once.
async fn python() -> Result<PathBuf, String> {
    let mut folder = std::env::current_exe().map_err(|error| error.to_string())?;
    folder.set_file_name("althing-bench-python");
    let python = folder.join("bin/python");
    let mut having = Command::new(&python);
    having.args(["-c", "import agent_os.stateless"]);
    if done(&mut having).await.is_ok() {
        return Ok(python);
    }
    done(Command::new("python3").args(["-m", "venv"]).arg(&folder)).await?;
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", PACKAGE, IMPORTED];
    done(Command::new(&python).args(install)).await?;
    Ok(python)
}

impl KernelLoop {
    async fn start() -> Result<KernelLoop, String> {
        let mut command = Command::new(python().await?);
        command.arg("-c").arg(SCRIPT).args([CLIENTS, PEERS_CALLS, office::POLICIES].map(|number| number.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (Some(orders), Some(rates)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it cannot be told anything".to_owned());
        };
        Ok(KernelLoop { _child: child, orders, rates: BufReader::new(rates).lines() })
    }

    /// Calls a second.
    async fn rate(&mut self) -> Result<f64, String> {
        self.orders.write_all(b"go\n").await.map_err(|error| error.to_string())?;
        let said = self.rates.next_line().await.map_err(|error| error.to_string())?.unwrap_or_default();
        said.parse().map_err(|_| format!("it said {said:?}"))
    }
}

/// Calls a second of all clients, with what is written of the decisions.
async fn rate(caller: &Arc<Caller>) -> f64 {
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|_| {
        let caller = caller.clone();
        tokio::spawn(async move {
            for _ in 0..CALLS {
                caller.call().await;
            }
        })
    });
    for ended in futures::future::join_all(clients).await {
        ended.expect("no client panics");
    }
    caller.sweep().await;
    f64::from(u32::try_from(CLIENTS * CALLS).expect("few")) / begun.elapsed().as_secs_f64()
}

/// Prints the figure, which is no goal.
pub async fn run() {
    let mut peer = match KernelLoop::start().await {
        Ok(peer) => peer,
        Err(why) => {
            println!("  governed calls of {CLIENTS} clients: not measured, {PACKAGE} cannot be run here: {why}");
            return;
        }
    };
    let folder = tempfile::tempdir().expect("a folder");
    let ruled = governed(folder.path()).await;
    office::load(&ruled).await;
    let caller = Arc::new(Caller::new(Some(ruled)).await);
    let (mut ours, mut peers, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (own, theirs) = match (rate(&caller).await, peer.rate().await) {
            (own, Ok(theirs)) => (own, theirs),
            (_, Err(why)) => {
                println!("  governed calls of {CLIENTS} clients: not measured, the kernel loop ended: {why}");
                return;
            }
        };
        if round == 0 {
            continue; // warming up
        }
        ours.push(own);
        peers.push(theirs);
        ratios.push(own / theirs);
    }
    println!(
        "  governed calls of {CLIENTS} clients: {:.0} a second, the kernel loop of {PACKAGE}: {:.0}; ratio {:.2} (wanted: {WANTED})",
        median(ours),
        median(peers),
        median(ratios),
    );
}

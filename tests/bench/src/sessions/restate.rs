//! Turns of ten calls that must not be made twice, beside services of Restate that do the same in durable steps: a program each,
//! the same tool, and a client that waits for the answer.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{node, syncs};
use crate::calls;
use crate::commands::done;
use crate::faces::Node;
use crate::figures::{Goals, median};
use crate::tool;

/// The package of the server for this system, without the one that chooses it.
const SERVER: &str = "@restatedev/restate-server-linux-x64@1.7.12";
const SDK: &str = "@restatedev/restate-sdk@1.17.2";
const SERVICE: &str = include_str!("restate.mjs");
/// Calls of a turn.
const STEPS: usize = 10;
/// Turns of one measurement, of each client.
const TURNS: usize = 20;
/// Alternating measurements of each kind.
const ROUNDS: usize = 5;
/// Turns while syncs are counted.
const COUNTED: usize = 20;
/// The time of a step at one client, and steps a second at sixteen, as multiples of Restate's.
const ALONE_MAX: f64 = 0.5;
const CROWD: usize = 16;
const CROWD_MIN: f64 = 2.0;
/// How long its server may take until it answers.
const START: Duration = Duration::from_secs(30);

/// Restate's server, and a service of it.
struct Restate {
    server: Child,
    _service: Child,
    ingress: String,
    _folder: tempfile::TempDir,
}

/// The folder with both packages, beside this program; they are fetched once.
async fn packages() -> Result<PathBuf, String> {
    done(Command::new("node").arg("--version")).await?;
    let mut folder = std::env::current_exe().map_err(|error| error.to_string())?;
    folder.set_file_name("althing-bench-restate");
    if folder.join("package/bin/restate-server").exists() && folder.join("node_modules").exists() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    done(Command::new("npm").args(["pack", "--silent", "--fetch-retries=1", SERVER]).current_dir(&folder)).await?;
    done(Command::new("sh").args(["-c", "tar xzf restatedev-restate-server-*.tgz"]).current_dir(&folder)).await?;
    let install = ["install", "--fetch-retries=1", "--ignore-scripts", "--no-fund", "--no-audit", "--prefix", ".", SDK];
    done(Command::new("npm").args(install).current_dir(&folder)).await?;
    Ok(folder)
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Restate {
    /// Starts both, and registers the service.
    async fn start(http: &reqwest::Client) -> Result<Restate, String> {
        let packages = packages().await?;
        let script = packages.join("service.mjs");
        std::fs::write(&script, SERVICE).map_err(|error| error.to_string())?;
        let mut command = Command::new("node");
        // Of each step it would write a line, which nobody reads.
        command.arg(&script).env("RESTATE_LOGGING", "ERROR").stderr(Stdio::null());
        let (service, _, port) = calls::started(command).await;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let [ingress, admin, fabric] = [free_port(), free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let server = Command::new(packages.join("package/bin/restate-server"))
            .args(["--no-logo", "--listen-mode", "tcp", "--base-dir"])
            .arg(folder.path())
            .env("RESTATE_INGRESS__BIND_ADDRESS", &ingress)
            .env("RESTATE_ADMIN__BIND_ADDRESS", &admin)
            .env("RESTATE_BIND_ADDRESS", fabric)
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| error.to_string())?;
        let registered = async {
            let url = format!("http://{admin}/deployments");
            let service = json!({ "uri": format!("http://127.0.0.1:{port}") });
            while !http.post(&url).json(&service).send().await.is_ok_and(|answer| answer.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(START, registered).await.map_err(|_| format!("it takes no service within {START:?}"))?;
        Ok(Restate { server, _service: service, ingress: format!("http://{ingress}/steps/run"), _folder: folder })
    }
}

/// What a turn of Restate's service is told.
fn order(tool: &str) -> Value {
    let headers = json!({
        "content-type": "application/json", "accept": "application/json, text/event-stream",
        "mcp-protocol-version": tool::VERSION, "mcp-method": "tools/call", "mcp-name": "say",
    });
    let request = tool::request("say", "");
    json!({ "count": STEPS, "tool": { "url": tool, "headers": headers, "request": request } })
}

/// One turn through a node.
async fn our_turn(http: &reqwest::Client, here: &Node) {
    let answer = node::told(http, here, &STEPS.to_string(), false).await;
    assert!(answer["result"].to_string().contains(&format!("\"{STEPS}\"")), "{answer}");
}

/// One turn through Restate.
async fn their_turn(http: &reqwest::Client, ingress: &str, order: &Value) {
    let answer = http.post(ingress).json(order).send().await.expect("an answer");
    let answered: Value = answer.json().await.expect("JSON");
    assert_eq!(answered, STEPS, "{answered}");
}

/// Steps a second by so many clients.
async fn rate<F: Future<Output = ()>>(clients: usize, turn: impl Fn() -> F) -> f64 {
    let (begun, turns) = (Instant::now(), TURNS * clients);
    futures::stream::iter(0..turns).map(|_| turn()).buffer_unordered(clients).collect::<Vec<()>>().await;
    f64::from(u32::try_from(turns * STEPS).expect("few")) / begun.elapsed().as_secs_f64()
}

/// Syncs of a step, where they could be counted.
async fn counted<F: Future<Output = ()>>(child: &Child, folder: &Path, turn: impl Fn() -> F) -> String {
    let work = async {
        for _ in 0..COUNTED {
            turn().await;
        }
    };
    match syncs::during(child.id().expect("it runs"), folder, work).await {
        Some(count) => {
            let steps = u32::try_from(COUNTED * STEPS).expect("few");
            format!("{:.2}", f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / f64::from(steps))
        }
        None => "not counted: there is no strace here".to_owned(),
    }
}

/// Prints the figures; false if they are not measured.
pub async fn run(goals: &mut Goals) -> bool {
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(64).build().expect("a client");
    let restate = match Restate::start(&http).await {
        Ok(restate) => restate,
        Err(why) => {
            println!("  {STEPS} final steps beside Restate: not measured, Restate cannot be run here: {why}");
            return false;
        }
    };
    let (_tool, tool) = tool::started().await;
    let order = order(&tool);
    let here = Node::start(&[]).await;
    node::add(&here, &http, &tool).await;
    let ours = || our_turn(&http, &here);
    let theirs = || their_turn(&http, &restate.ingress, &order);
    for clients in [1, CROWD] {
        let (mut own, mut peers, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        rate(clients, ours).await; // warming up
        rate(clients, theirs).await;
        for _ in 0..ROUNDS {
            let (own_rate, peer_rate) = (rate(clients, ours).await, rate(clients, theirs).await);
            own.push(own_rate);
            peers.push(peer_rate);
            ratios.push(own_rate / peer_rate);
        }
        let (own, peer, ratio) = (median(own), median(peers), median(ratios));
        if clients == 1 {
            let (ratio, own, peer) = (1.0 / ratio, 1e3 / own, 1e3 / peer);
            println!(
                "  {STEPS} final steps, 1 client: {own:.2} ms a step, Restate {peer:.2} ms; ratio {ratio:.2} {}",
                goals.at_most(ratio, ALONE_MAX)
            );
        } else {
            println!(
                "  {STEPS} final steps, {clients} clients: {own:.0} steps/s, Restate {peer:.0}; ratio {ratio:.2} {}",
                goals.at_least(ratio, CROWD_MIN)
            );
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let own = counted(&here.child, folder.path(), ours).await;
    let peer = counted(&restate.server, folder.path(), theirs).await;
    println!("  syncs of a step, 1 client: {own}; Restate: {peer}");
    true
}

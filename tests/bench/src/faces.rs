//! The gateway beside the official Rust server of A2A: what a request costs each whole process, from the same clients, of
//! agents that do the same; and what the way through a node adds to a call.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::calls;
use crate::figures::{median, percentile};
use crate::idle::node_saying;
use crate::tool;

/// Requests of one measurement.
const REQUESTS: usize = 4_000;
/// Alternating measurements of each kind.
const ROUNDS: usize = 5;
/// Calls one after the other.
const CALLS: usize = 300;
/// Clients at once; the goals hold for the last two.
const CLIENTS: [usize; 3] = [1, 16, 64];
/// Processor time for a request, as a multiple of the peer's: of replies that are messages, and of tasks, which a node has on
/// disk before it answers.
const MESSAGE_MAX: f64 = 1.2;
const TASK_MAX: f64 = 2.0;
/// How much later a stream's first artifact may arrive through the node, milliseconds.
const FIRST_MAX: f64 = 2.0;
/// A call of an agent on another node, beside one here and a signed call together.
const REMOTE_MAX: f64 = 1.2;
/// What is wanted of a call of a tool through the node, beside one at its server.
const TOOL_WANTED: f64 = 1.3;

/// Processor time of a whole process so far, milliseconds.
fn cpu(child: &Child) -> f64 {
    let pid = child.id().expect("it runs");
    let mut total = 0.0;
    // Nanoseconds of each thread; `stat` counts in ticks of 10 ms. No thread of these ends while it is measured.
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten() {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let nanoseconds: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
        total += nanoseconds / 1e6;
    }
    total
}

fn request(method: &str) -> Value {
    let id = format!("{:032x}", rand::random::<u128>());
    json!({ "jsonrpc": "2.0", "id": 1, "method": method,
        "params": { "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "Hello" }] } } })
}

fn post(client: &reqwest::Client, url: &str, method: &str) -> reqwest::RequestBuilder {
    client.post(url).header("A2A-Version", "1.0").json(&request(method))
}

/// One message, which is said again.
pub async fn call(client: &reqwest::Client, url: &str) {
    let response = post(client, url, "SendMessage").send().await.expect("an answer");
    let answer: Value = response.json().await.expect("JSON");
    let result = &answer["result"];
    let parts = if result["task"].is_null() { &result["message"] } else { &result["task"]["artifacts"][0] };
    assert_eq!(parts["parts"][0]["text"], "Hello", "{answer}");
}

/// Processor time of the server for a request, milliseconds, and requests a second.
async fn load(client: &reqwest::Client, url: &str, clients: usize, server: &Child) -> (f64, f64) {
    let (before, begun) = (cpu(server), Instant::now());
    let all = futures::stream::iter(0..REQUESTS).map(|_| call(client, url)).buffer_unordered(clients);
    all.collect::<Vec<()>>().await;
    let count = f64::from(u32::try_from(REQUESTS).expect("few"));
    ((cpu(server) - before) / count, count / begun.elapsed().as_secs_f64())
}

/// Prints the costs of one kind of reply; true if they are within `most`.
async fn compare(
    what: &str,
    most: f64,
    client: &reqwest::Client,
    ours: (&str, &Child),
    theirs: (&str, &Child),
) -> bool {
    let mut fine = true;
    for clients in CLIENTS {
        let (mut costs, mut peers, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rate, mut peer_rate) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (ours, ours_rate) = load(client, ours.0, clients, ours.1).await;
            let (theirs, theirs_rate) = load(client, theirs.0, clients, theirs.1).await;
            costs.push(ours);
            peers.push(theirs);
            ratios.push(ours / theirs);
            rate.push(ours_rate);
            peer_rate.push(theirs_rate);
        }
        let ratio = median(ratios);
        println!(
            "  {what}, {clients:>2} clients: {:.3} ms of processor, peer {:.3}; ratio {ratio:.2} (goal: {most:.1} at 16 and 64); {:.0} /s, peer {:.0}",
            median(costs),
            median(peers),
            median(rate),
            median(peer_rate),
        );
        fine &= clients == 1 || ratio <= most;
    }
    fine
}

/// The median time of a call.
pub async fn latency(client: &reqwest::Client, url: &str) -> Duration {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        call(client, url).await;
        times.push(begun.elapsed());
    }
    percentile(&mut times, 0.5)
}

/// The median time until the first piece of a stream that has the answer.
pub async fn first(client: &reqwest::Client, url: &str) -> Duration {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        let response = post(client, url, "SendStreamingMessage").send().await.expect("an answer");
        let (mut pieces, mut seen) = (response.bytes_stream(), Vec::new());
        while !String::from_utf8_lossy(&seen).contains("\"artifact") {
            seen.extend_from_slice(&pieces.next().await.expect("an artifact").expect("a piece"));
        }
        times.push(begun.elapsed());
        while pieces.next().await.is_some() {}
    }
    percentile(&mut times, 0.5)
}

/// The program of a node, beside this one.
pub fn node_program() -> PathBuf {
    let mut program: PathBuf = std::env::current_exe().expect("this program");
    program.set_file_name("althing");
    program
}

/// A running node, with what drives it.
pub struct Node {
    pub child: Child,
    program: PathBuf,
    pub folder: tempfile::TempDir,
    pub said: Value,
}

impl Node {
    pub async fn start(flags: &[&str]) -> Node {
        Node::of(node_program(), flags).await
    }

    /// One of that program.
    pub async fn of(program: PathBuf, flags: &[&str]) -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let (child, _, said) = node_saying(&program, folder.path(), flags).await;
        Node { child, program, folder, said }
    }

    /// Runs a command of the program.
    async fn ended(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new(&self.program);
        command.args(["--json", "--data"]).arg(self.data()).args(words);
        command.env("XDG_CONFIG_HOME", self.folder.path()).output().await.expect("the program")
    }

    /// Runs a command that must succeed, and gives what it printed.
    pub async fn althing(&self, words: &[&str]) -> Value {
        let ended = self.ended(words).await;
        assert!(ended.status.success(), "{words:?}: {ended:?}");
        serde_json::from_slice(&ended.stdout).unwrap_or_default()
    }

    /// Whether it knows an agent of that name.
    pub async fn finds(&self, name: &str) -> bool {
        // Where it knows none at all, the command says so with its exit code.
        String::from_utf8_lossy(&self.ended(&["find"]).await.stdout).contains(&format!("\"{name}\""))
    }

    /// Where it keeps its data.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Adds an echo agent that whoever asks may call.
    pub async fn add(&self, name: &str, answer: &str) {
        let file = self.folder.path().join(format!("{name}.yaml"));
        let text = format!(
            "name: {name}\ndescription: Says it again.\nskills: [{{id: {name}.say, name: Say, description: Repeats.}}]\n\
             runtime: {{ native: {{ builtin: echo, config: {{ answer: {answer} }} }} }}\n\
             contract: {{ class: {{ latency: srt }} }}\ncallers: anyone\n"
        );
        std::fs::write(&file, text).expect("a file");
        self.althing(&["agent", "add", &path(&file)]).await;
    }

    /// Where an agent answers.
    pub fn agent(&self, name: &str) -> String {
        format!("{}/a2a/{name}", self.said["gateway"].as_str().expect("an address"))
    }
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Costs for a request beside the official server.
async fn costs(client: &reqwest::Client, node: &Node, server: &Child, address: &str) -> bool {
    let (message, task) = (format!("{address}/message"), format!("{address}/task"));
    let (said, worked) = (node.agent("say"), node.agent("work"));
    let messages =
        compare("replies that are messages", MESSAGE_MAX, client, (&said, &node.child), (&message, server)).await;
    messages & compare("replies that are tasks", TASK_MAX, client, (&worked, &node.child), (&task, server)).await
}

/// What the way through a node adds.
async fn ways(client: &reqwest::Client, node: &Node, address: &str) -> bool {
    let direct = format!("{address}/task");
    node.althing(&["adopt", "--as", "adopted", &direct]).await;
    let (mut here, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        here.push(ms(first(client, &direct).await));
        through.push(ms(first(client, &node.agent("adopted")).await));
    }
    let (here, through) = (median(here), median(through));
    println!(
        "  first artifact of a stream: direct {here:.2} ms, through the node {through:.2} ms (goal: {FIRST_MAX} ms later)"
    );

    let reached = node.said["listening"][0].as_str().expect("an address");
    let far = Node::start(&["--peer", reached]).await;
    far.add("far", "message").await;
    // A stranger is served 200 requests a second, and the others wait.
    far.althing(&["trust", node.said["owner"].as_str().expect("an owner")]).await;
    let described = far.althing(&["describe", "far"]).await;
    let remote_url = node.agent(described["id"].as_str().expect("an id"));
    let (mut local, mut remote, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let signed = ms(calls::signed_call().await);
    for _ in 0..ROUNDS {
        let (near, away) = (ms(latency(client, &node.agent("say")).await), ms(latency(client, &remote_url).await));
        local.push(near);
        remote.push(away);
        ratios.push(away / (near + signed));
    }
    let ratio = median(ratios);
    println!(
        "  an agent on another node: {:.2} ms, here {:.2} ms, a signed call {signed:.2} ms; ratio to both {ratio:.2} (goal: {REMOTE_MAX})",
        median(remote),
        median(local),
    );
    (through - here <= FIRST_MAX) & (ratio <= REMOTE_MAX)
}

/// What the way through a node adds to the call of a tool.
async fn tools(client: &reqwest::Client, node: &Node) {
    let (_server, direct) = tool::started().await;
    node.althing(&["adopt", "--as", "tools", &direct]).await;
    let through_url = format!("{}/mcp/tools", node.said["gateway"].as_str().expect("an address"));
    let (mut here, mut through, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (near, away) = (tool::latency(client, &direct).await, tool::latency(client, &through_url).await);
        here.push(near);
        through.push(away);
        ratios.push(away / near);
    }
    println!(
        "  a tool of an MCP server: {:.2} ms at the server, {:.2} ms through the node; ratio {:.2} (wanted: {TOOL_WANTED})",
        median(here),
        median(through),
        median(ratios),
    );
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Prints all figures; false if one misses its goal, or is not measured because the peer is missing.
pub async fn run() -> bool {
    println!("the gateway beside the official Rust server of A2A, which keeps tasks in memory");
    let client = reqwest::Client::builder().pool_max_idle_per_host(128).build().expect("a client");
    let mut program = std::env::current_exe().expect("this program");
    program.set_file_name("althing-bench-peer");
    if !program.exists() {
        println!("  not measured: {} is missing; `make bench BENCH=faces` builds it", program.display());
        return false;
    }
    let (server, _, address) = calls::started(Command::new(program)).await;
    let node = Node::start(&[]).await;
    node.add("say", "message").await;
    node.add("work", "task").await;
    let costs = costs(&client, &node, &server, &address).await;
    let ways = ways(&client, &node, &address).await;
    tools(&client, &node).await;
    costs & ways
}

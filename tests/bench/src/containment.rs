//! What containment costs: the start of a program that is contained beside that of one whose file says `sandbox: none`,
//! both by a keeper, and a request through the node's proxy beside the guarded fetch that asks the same host.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use althing_egress::{Bounds, Egress, Event, Rules};
use althing_execution::process::{
    AccountHold, Asker, EgressRules, Entrance, Folder, Guarded, Outlet, ProcessConfig, Program, ProgramOf, ProgramSpec,
    ServeEgress, Work, job, refusals, variables,
};
use althing_execution::secrets::ServerSecrets;
use althing_execution::tools::{Fault, ToolServer};
use althing_execution::{Containment, Level, ServerOf};
use althing_fetch::header::HeaderMap;
use althing_fetch::{Body, Fetch, Given, Method, Net, StreamLimits, StreamRequest, SystemResolver, Url};
use althing_td::{Demand, Sandbox, ToolServerSpec};
use axum::Router;
use axum::routing::get;
use futures::future::BoxFuture;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::figures::{Goals, percentile};
use crate::idle::resident_of;

/// Starts of each kind, alternating.
const STARTS: usize = 101;
/// Requests of each kind, alternating, and those before them that are not counted.
const REQUESTS: usize = 1_000;
const WARMING: usize = 50;
/// What the host answers, bytes.
const BODY: usize = 1_024;
/// How long a keeper idles before its memory is read.
const IDLE: Duration = Duration::from_secs(1);
/// A contained start, as a multiple of one that is not, p50.
const START_RATIO_MAX: f64 = 1.2;
/// A request through the proxy, as a multiple of the fetch alone, p50.
const REQUEST_RATIO_MAX: f64 = 1.5;

/// The agent whose programs these are.
const AGENT: &str = "bench";
const PLAIN_MCP: &str = include_str!("../../e2e/python/plain_mcp.py");
/// A server with one tool.
const SERVER: &str = "
import plain_mcp
TOOLS = [{'name': 'says', 'description': 'Says a word.', 'inputSchema': {'type': 'object'}}]
plain_mcp.serve('says', TOOLS, lambda tool, arguments: 'here')
";
const PYTHON: &str = "/usr/bin/python3";

/// Times of both kinds: contained or through the proxy, and the floor.
type Pair = [Vec<Duration>; 2];

/// A folder of an agent file, and what a node has for its programs.
struct Ground {
    folder: PathBuf,
    config: ProcessConfig,
    _place: TempDir,
}

impl Ground {
    fn new() -> Ground {
        let place = tempfile::tempdir().expect("a folder");
        let at = place.path().canonicalize().expect("it is there");
        let (folder, data) = (at.join("agent"), at.join("data"));
        for folder in [&folder, &data] {
            std::fs::create_dir(folder).expect("a folder");
        }
        for (name, text) in [("plain_mcp.py", PLAIN_MCP), ("server.py", SERVER)] {
            std::fs::write(folder.join(name), text).expect("a file");
        }
        let config = ProcessConfig {
            sockets: Some(data.join("run")),
            guarded: Guarded { hidden: vec![data] },
            egress: Some(way_out()),
            ..ProcessConfig::default()
        };
        Ground { folder, config, _place: place }
    }

    /// Starts a program as a node does, and waits until it runs.
    async fn start(&self, command: &[String], sandbox: &Sandbox) -> Result<Trial, String> {
        let config = &self.config;
        let own = Folder::new(config.sockets.as_deref()).map_err(told)?;
        let environment = variables(&BTreeMap::new());
        let spec = ProgramSpec { command, folder: &self.folder, cwd: &self.folder, environment: &environment, sandbox };
        let of = ProgramOf { agent: AGENT, program: "runtime" };
        let of_node = (&config.guarded, &config.accounts, &config.agent_files);
        let (mut job, account) = job(of, &spec, of_node, &own).map_err(told)?;
        let refusals = refusals(&config.guarded, command, &BTreeMap::new());
        let asker = Asker { agent: AGENT.to_owned(), work: Work::default(), refusals };
        let outlet = match &config.egress {
            Some(serve) => Outlet::prepare(&mut job, serve, &EgressRules::default(), &asker),
            None => Ok(None),
        };
        let outlet = outlet.map_err(told)?;
        let started = Program::start(&job, &[], outlet, (AGENT, &asker.refusals));
        let mut program = started.map_err(told)?;
        let enclosed = program.started().await.map_err(told)?;
        Ok(Trial { program, containment: Containment::of(sandbox, enclosed), _own: own, _account: account })
    }

    /// The time until a server of tools has answered what its tools are, from its start.
    async fn answered(&self, sandbox: &Sandbox) -> Result<Duration, Fault> {
        let command = vec![PYTHON.to_owned(), "server.py".to_owned()];
        let (env, env_secrets) = (BTreeMap::new(), BTreeMap::new());
        let spec = ToolServerSpec::Command { command, cwd: None, env, env_secrets, sandbox: sandbox.clone() };
        let of = ServerOf { agent: AGENT, server: "says", folder: &self.folder, memory_kib: 0 };
        let begun = Instant::now();
        let server: Arc<dyn ToolServer> = althing_mcp::server(of, &spec, ServerSecrets::default(), &self.config);
        let listed = server.tools().await;
        let took = begun.elapsed();
        server.stop().await;
        assert_eq!(listed?.len(), 1, "it has one tool");
        Ok(took)
    }
}

/// A program that runs, with what it has of its node.
struct Trial {
    program: Program,
    containment: Containment,
    _own: Folder,
    _account: Option<AccountHold>,
}

/// As a node serves what programs ask of hosts, which its file does not name here.
fn way_out() -> ServeEgress {
    let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver)).expect("a client");
    let serve = Arc::new(move |entrance: Entrance, rules: EgressRules, _| serve(&fetch, entrance.listeners, &rules));
    // Of one run: nobody else is kept from this proxy.
    ServeEgress { serve, entropy: Arc::new(|bytes: &mut [u8]| bytes.fill(7)) }
}

fn serve(
    fetch: &Fetch,
    listeners: Vec<std::net::TcpListener>,
    rules: &EgressRules,
) -> Result<BoxFuture<'static, ()>, String> {
    let hosts = Rules::read(rules.hosts.iter().map(String::as_str)).map_err(told)?;
    let listener = listeners.into_iter().next().ok_or("a socket of its loopback is missing")?;
    listener.set_nonblocking(true).map_err(told)?;
    let listener = TcpListener::from_std(listener).map_err(told)?;
    Ok(Box::pin(egress(fetch).serve(listener, hosts, None)))
}

fn egress(fetch: &Fetch) -> Egress {
    Egress::new(fetch.clone(), Arc::new(|_: Event| {}), Bounds::default())
}

/// Contained as well as this machine can, and not at all.
fn sandboxes() -> [Sandbox; 2] {
    [Sandbox::default(), Sandbox { demand: Demand::None, ..Sandbox::default() }]
}

/// Both kinds, each the first in every other round.
fn order(round: usize) -> [usize; 2] {
    [round % 2, (round + 1) % 2]
}

/// Why something cannot be measured, for people.
fn told(error: impl Display) -> String {
    error.to_string()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Both times on one line, and what they are to each other; the ratio of p50.
fn compared(what: &str, [ours, floor]: [&str; 2], times: &mut Pair) -> (String, f64) {
    let [our_times, floor_times] = times;
    let (our50, floor50) = (percentile(our_times, 0.5), percentile(floor_times, 0.5));
    let (our99, floor99) = (percentile(our_times, 0.99), percentile(floor_times, 0.99));
    let (ratio, ratio99) = (ms(our50) / ms(floor50), ms(our99) / ms(floor99));
    let line = format!(
        "  {what}: {ours} p50 {:.2} p99 {:.2} ms; {floor} p50 {:.2} p99 {:.2} ms; ratio of p99 {ratio99:.2}, of p50 {ratio:.2}",
        ms(our50),
        ms(our99),
        ms(floor50),
        ms(floor99),
    );
    (line, ratio)
}

/// Starts a program that does nothing.
async fn small(ground: &Ground, goals: &mut Goals) -> Result<(), String> {
    let (command, sandboxes) = (["true".to_owned()], sandboxes());
    let (mut running, mut ended) = (Pair::default(), Pair::default());
    for round in 0..=STARTS {
        for kind in order(round) {
            let begun = Instant::now();
            let mut trial = ground.start(&command, &sandboxes[kind]).await?;
            let runs_after = begun.elapsed();
            trial.program.ended().await;
            let ended_after = begun.elapsed();
            // The first round warms up.
            if round > 0 {
                running[kind].push(runs_after);
                ended[kind].push(ended_after);
            }
        }
    }
    let kinds = ["contained", "not"];
    let (line, ratio) = compared("`true` until it runs", kinds, &mut running);
    println!("{line} {}", goals.at_most(ratio, START_RATIO_MAX));
    println!("{}", compared("`true` until nothing of it is left", kinds, &mut ended).0);
    Ok(())
}

/// Starts a server of tools in Python.
async fn serving(ground: &Ground, goals: &mut Goals) -> Result<(), String> {
    if !Path::new(PYTHON).is_file() {
        return Err(format!("{PYTHON} is missing"));
    }
    let (sandboxes, mut times) = (sandboxes(), Pair::default());
    for round in 0..=STARTS {
        for kind in order(round) {
            let took = ground.answered(&sandboxes[kind]).await.map_err(told)?;
            if round > 0 {
                times[kind].push(took);
            }
        }
    }
    let what = "a server of tools in Python until it has answered";
    let (line, ratio) = compared(what, ["contained", "not"], &mut times);
    println!("{line} {}", goals.at_most(ratio, START_RATIO_MAX));
    Ok(())
}

/// What a keeper holds whose program does nothing, contained and not, MiB.
async fn memory(ground: &Ground) -> Result<[f64; 2], String> {
    let command = ["sleep".to_owned(), "1000".to_owned()];
    let mut resident = [0.0; 2];
    for (resident, sandbox) in resident.iter_mut().zip(sandboxes()) {
        let mut trial = ground.start(&command, &sandbox).await?;
        tokio::time::sleep(IDLE).await;
        *resident = resident_of(trial.program.pid().ok_or("its keeper ended")?);
        trial.program.end(Duration::ZERO).await;
    }
    Ok(resident)
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let at = listener.local_addr().expect("an address");
    (listener, at)
}

/// The node's fetch asks, as its proxy has it ask, and reads all of the answer.
async fn fetched(fetch: &Fetch, url: &Url) -> Duration {
    let begun = Instant::now();
    let Bounds { bytes, idle, whole, .. } = Bounds::default();
    let limits = StreamLimits { sent: bytes, received: bytes, first: idle, idle, whole };
    let request =
        StreamRequest { method: Method::GET, url: url.clone(), headers: HeaderMap::new(), body: Body::default() };
    let mut reply = fetch.open(Given::Stranger, request, limits).await.expect("an answer");
    let mut count = 0;
    while let Some(chunk) = reply.body.chunk().await.expect("a body") {
        count += chunk.len();
    }
    let took = begun.elapsed();
    assert_eq!((reply.status.as_u16(), count), (200, BODY));
    took
}

/// A program's client asks through the proxy, and reads all of the answer.
async fn proxied(client: &reqwest::Client, url: &Url) -> Duration {
    let begun = Instant::now();
    let response = client.get(url.clone()).send().await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.bytes().await.expect("a body");
    let took = begun.elapsed();
    assert_eq!((status, body.len()), (200, BODY));
    took
}

/// A request through the proxy, by a client that keeps its connection to it and by one that makes one for each, and by
/// the fetch alone. Each of them has a new connection to the host.
async fn requests(goals: &mut Goals) {
    let (listener, host) = listen().await;
    let router = Router::new().route("/", get(|| std::future::ready(vec![b'x'; BODY])));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    let fetch = Fetch::new(vec![Net::host(host.ip())], Arc::new(SystemResolver)).expect("a client");
    let (listener, proxy) = listen().await;
    let rules = Rules::read([host.to_string().as_str()]).expect("a host");
    let proxying = tokio::spawn(egress(&fetch).serve(listener, rules, None));
    let client = || {
        let proxy = reqwest::Proxy::http(format!("http://{proxy}")).expect("an address");
        reqwest::Client::builder().proxy(proxy)
    };
    let keeps = client().build().expect("a client");
    let keeps_none = client().pool_max_idle_per_host(0).build().expect("a client");
    let url = Url::parse(&format!("http://{host}/")).expect("an address");
    let (mut kept, mut anew) = (Pair::default(), Pair::default());
    for round in 0..WARMING + REQUESTS {
        let took = [fetched(&fetch, &url).await, proxied(&keeps, &url).await, proxied(&keeps_none, &url).await];
        if round >= WARMING {
            let [alone, by_one, by_another] = took;
            kept[0].push(by_one);
            anew[0].push(by_another);
            kept[1].push(alone);
            anew[1].push(alone);
        }
    }
    proxying.abort();
    serving.abort();
    let kinds = ["through the proxy", "the fetch alone"];
    let (line, ratio) = compared("a request on a connection that the client keeps", kinds, &mut kept);
    println!("{line} {}", goals.at_most(ratio, REQUEST_RATIO_MAX));
    println!("{}", compared("a request on a connection of its own", kinds, &mut anew).0);
}

/// How a program is contained here, in words; the error says why nothing contains it.
async fn strength(ground: &Ground) -> Result<String, String> {
    let mut trial = ground.start(&["true".to_owned()], &Sandbox::default()).await?;
    trial.program.ended().await;
    let told = format!("a program on this machine is {}", trial.containment);
    if trial.containment.level == Level::None { Err(told) } else { Ok(told) }
}

/// Prints how long starts take, and what keepers hold; the error says why that is not known.
async fn starts(goals: &mut Goals) -> Result<(), String> {
    // Said once, and not of each start.
    althing_keeper::executable().map_err(told)?;
    let ground = Ground::new();
    println!("  {}", strength(&ground).await?);
    small(&ground, goals).await?;
    let [contained, not] = memory(&ground).await?;
    println!("  its keeper, idle: {contained:.1} MiB resident; not contained {not:.1} MiB");
    serving(&ground, goals).await
}

/// Prints the times of starts and of requests, contained and not; true if they are measured and meet their goals.
pub async fn run() -> bool {
    println!("containment ({STARTS} starts and {REQUESTS} requests of each kind, alternating)");
    let mut goals = Goals::default();
    let measured = starts(&mut goals).await;
    if let Err(why) = &measured {
        println!("  not measured: {why}");
    }
    requests(&mut goals).await;
    measured.is_ok() && goals.are_met()
}

//! `althing bench srt`: what a node adds until the first word of a model's answer, with many answers at once and
//! delay-tolerant work beside them; and how soon a new message stops an answer.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use althing_client::{NodeProcess, Out, agent_file};
use althing_execution::realtime::{Lateness, now_ns};
use althing_protocol::contract::Srt;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::args::BenchSrt;
use crate::error::BenchError;
use crate::figures::times;
use crate::stub::Stub;
use crate::summary::{Summary, adherence};
use crate::{goal, progress};

/// Words of an answer.
const WORDS: u64 = 5;
/// Words of one that is interrupted.
const MANY: u64 = 10_000;
/// Timeout until the stub notices that its client hung up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time to the first word that a contract aims at by default.
const AIM: Duration = Duration::from_millis(Srt::TTFT_MS_DEFAULT);
/// Delay-tolerant turns at once.
const PLANS: usize = 4;
const PLANNER: [(&str, &str); 2] = [
    ("planner.yaml", include_str!("../../../../examples/city-planning/planner.yaml")),
    ("planner.wat", include_str!("../../../../examples/city-planning/planner.wat")),
];

/// What was measured, nanoseconds.
struct Measured {
    direct: Vec<u64>,
    through: Vec<u64>,
    /// From a message to the first word of its answer, the endpoint's time included.
    first: Vec<u64>,
    /// Words of these answers, by the endpoint.
    words: u64,
    refused: u64,
    barge: Vec<u64>,
}

/// One answer through the node.
struct Asked {
    ours_ns: u64,
    first_ns: u64,
    words: u64,
}

/// Runs the benchmark with a node of its own.
pub async fn run(args: &BenchSrt, out: &Out, program: &Path) -> Result<Value, BenchError> {
    let failed = |error: std::io::Error| BenchError::not_measured(error);
    let folder = tempfile::Builder::new().prefix("althing-bench-").tempdir().map_err(failed)?;
    let stub = Stub::start().await?;
    let mut node = NodeProcess::start(program, folder.path(), "bench", "us", "bench-srt").await?;
    let measured = measure(args, &node, &stub, folder.path(), out).await;
    node.stop().await;
    let Measured { direct, through, first, words, refused, barge } = measured?;
    let adherence = Box::pin(adherence()).await?;
    let late = first.iter().filter(|ns| **ns > AIM.as_nanos() as u64).count() as u64 + refused;
    let asked = first.len() as u64 + refused;
    let p = |ns: &[u64], permille| Lateness::of(ns.to_vec()).quantile(permille) as f64 / 1e6;
    let summary = Summary {
        class: "srt",
        jobs: asked,
        completed: first.len() as u64,
        missed: Some(late),
        onset_ns: first.clone(),
        adherence,
        // The work beside it runs in the same process.
        processor_us: None,
        tokens: (!first.is_empty()).then(|| words as f64 / first.len() as f64),
    };
    Ok(json!({
        "benchmark": "althing-srt/1",
        "streams": args.streams,
        "classes": [summary.report()],
        "endpoint": { "firstWordMs": crate::stub::FIRST.as_millis() },
        "overheadUs": { "direct": times(direct.clone()), "throughTheNode": times(through.clone()) },
        "firstWordUs": times(first),
        "refused": refused,
        "bargeInUs": times(barge.clone()),
        "goals": [
            goal("our part until the first word, p50, ms over a direct client's", p(&through, 500) - p(&direct, 500), "≤", 5.0),
            goal("our part until the first word, p99, ms over a direct client's", p(&through, 990) - p(&direct, 990), "≤", 25.0),
            goal("first words later than the contract's aim of 250 ms, or refused, share", late as f64 / asked.max(1) as f64, "≤", 0.01),
            goal("from a new message until the answer under way is stopped, p99, ms", p(&barge, 990), "≤", 50.0),
        ],
    }))
}

async fn measure(
    args: &BenchSrt,
    node: &NodeProcess,
    stub: &Stub,
    folder: &Path,
    out: &Out,
) -> Result<Measured, BenchError> {
    deploy(node, stub, folder).await?;
    let http = reqwest::Client::builder().no_proxy().build().map_err(BenchError::not_measured)?;
    let (mut direct, mut through) = (Vec::new(), Vec::<Option<Asked>>::new());
    let over = AtomicBool::new(false);
    let load = futures::future::join_all((0..PLANS).map(|_| plan(node, &http, &over)));
    let work = async {
        for round in 0..args.rounds {
            progress(out, &format!("round {} of {}", round + 1, args.rounds));
            let name = |way: &str, at: u64| format!("{way}-{round}-{at} {WORDS}");
            let asking = (0..args.streams).map(|at| ask_direct(stub, &http, name("direct", at)));
            direct.extend(all(futures::future::join_all(asking).await)?);
            let asking = (0..args.streams).map(|at| ask_node(node, stub, &http, name("node", at)));
            through.extend(all(futures::future::join_all(asking).await)?);
        }
        let mut barge = Vec::new();
        for round in 0..args.rounds.max(20) {
            barge.push(interrupt(node, stub, &http, round).await?);
        }
        over.store(true, Ordering::Release);
        Ok::<Vec<u64>, BenchError>(barge)
    };
    let (_, barge) = tokio::join!(load, work);
    // The first round opens connections and is left out.
    let warm = usize::try_from(args.streams).unwrap_or_default();
    let warm = if args.rounds > 1 { warm } else { 0 };
    let through: Vec<Option<Asked>> = through.into_iter().skip(warm).collect();
    Ok(Measured {
        direct: direct.into_iter().skip(warm).collect(),
        refused: through.iter().filter(|asked| asked.is_none()).count() as u64,
        first: through.iter().flatten().map(|asked| asked.first_ns).collect(),
        words: through.iter().flatten().map(|asked| asked.words).sum(),
        through: through.iter().flatten().map(|asked| asked.ours_ns).collect(),
        barge: barge?,
    })
}

fn all<T>(outcomes: Vec<Result<T, BenchError>>) -> Result<Vec<T>, BenchError> {
    outcomes.into_iter().collect()
}

async fn deploy(node: &NodeProcess, stub: &Stub, folder: &Path) -> Result<(), BenchError> {
    let talker = json!({
        "name": "talker",
        "description": "Talks for as long as it is asked to",
        "runtime": { "model": { "prompt": "Talk.", "endpoints": [{ "url": stub.url, "model": "stub" }] } },
        "contract": {
            // The default aim of contracts.
            "class": { "latency": "srt", "ttft_ms": AIM.as_millis() as u64 },
            "model": { "output_tokens": 2 * MANY },
        },
    });
    let written = std::fs::write(folder.join("talker.yaml"), talker.to_string())
        .and_then(|()| PLANNER.iter().try_for_each(|(name, text)| std::fs::write(folder.join(name), text)));
    written.map_err(|error| BenchError::Write { path: folder.to_owned(), error })?;
    let client = node.client().await?;
    for name in ["talker", "planner"] {
        client.post("/agents", &agent_file::read(&folder.join(format!("{name}.yaml")))?).await?;
    }
    Ok(())
}

fn message(agent: &str, said: &str, task: Option<&str>) -> Value {
    static MESSAGES: AtomicU64 = AtomicU64::new(0);
    let id = format!("bench-{}", MESSAGES.fetch_add(1, Ordering::Relaxed));
    let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": said }] });
    if let Some(task) = task {
        message["taskId"] = json!(task);
    }
    json!({ "jsonrpc": "2.0", "id": agent, "method": "SendStreamingMessage", "params": { "message": message } })
}

/// Events of a server, as they come.
struct Events {
    bytes: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: String,
}

impl Events {
    async fn open(request: reqwest::RequestBuilder) -> Result<Events, BenchError> {
        let response = request.send().await.map_err(BenchError::not_measured)?;
        Ok(Events { bytes: response.bytes_stream().boxed(), buffer: String::new() })
    }

    async fn next(&mut self) -> Result<Option<Value>, BenchError> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data: String = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
                self.buffer = rest.to_owned();
                match serde_json::from_str(data.trim()) {
                    Ok(event) => return Ok(Some(event)),
                    Err(_) => continue,
                }
            }
            match self.bytes.next().await {
                Some(Ok(more)) => self.buffer.push_str(&String::from_utf8_lossy(&more)),
                Some(Err(error)) => return Err(BenchError::not_measured(error.to_string())),
                None => return Ok(None),
            }
        }
    }
}

/// The time that is not the endpoint's own, nanoseconds.
fn ours(stub: &Stub, asked: &str, sent_ns: u64, first_ns: u64) -> Result<u64, BenchError> {
    let times =
        stub.times(asked).ok_or_else(|| BenchError::not_measured(format!("{asked:?} never reached the endpoint")))?;
    Ok((first_ns - sent_ns).saturating_sub(times.first_ns - times.received_ns))
}

async fn ask_direct(stub: &Stub, http: &reqwest::Client, asked: String) -> Result<u64, BenchError> {
    let body = json!({ "model": "stub", "stream": true, "messages": [{ "role": "user", "content": asked }] });
    let sent = now_ns();
    let mut events = Events::open(http.post(format!("{}/chat/completions", stub.url)).json(&body)).await?;
    let mut first = None;
    while events.next().await?.is_some() {
        first.get_or_insert_with(now_ns);
    }
    ours(stub, &asked, sent, first.ok_or_else(|| BenchError::not_measured("the endpoint did not answer"))?)
}

fn at_node(node: &NodeProcess, http: &reqwest::Client, agent: &str, body: &Value) -> reqwest::RequestBuilder {
    http.post(format!("{}/a2a/{agent}", node.announced("gateway"))).header("A2A-Version", "1.0").json(body)
}

fn has_words(event: &Value) -> bool {
    event["result"]["artifactUpdate"]["artifact"]["parts"].as_array().is_some_and(|parts| !parts.is_empty())
}

/// `None` if the node refused because it would have answered too late.
async fn ask_node(
    node: &NodeProcess,
    stub: &Stub,
    http: &reqwest::Client,
    asked: String,
) -> Result<Option<Asked>, BenchError> {
    let sent = now_ns();
    let mut events = Events::open(at_node(node, http, "talker", &message("talker", &asked, None))).await?;
    let mut first = None;
    while let Some(event) = events.next().await? {
        if has_words(&event) {
            first.get_or_insert_with(now_ns);
        }
        if is_refusal(&event) {
            return Ok(None);
        }
    }
    let first = first.ok_or_else(|| BenchError::not_measured("the node did not answer"))?;
    let words = stub.times(&asked).map_or(0, |times| times.words);
    Ok(Some(Asked { ours_ns: ours(stub, &asked, sent, first)?, first_ns: first - sent, words }))
}

/// Whether the stream ends with an error, or with a task that failed or was rejected.
fn is_refusal(event: &Value) -> bool {
    let failed = ["TASK_STATE_FAILED", "TASK_STATE_REJECTED"];
    let state = event["result"]["statusUpdate"]["status"]["state"].as_str();
    event["error"].is_object() || state.is_some_and(|state| failed.contains(&state))
}

/// From a new message until the endpoint is hung up on, nanoseconds.
async fn interrupt(node: &NodeProcess, stub: &Stub, http: &reqwest::Client, round: u64) -> Result<u64, BenchError> {
    let asked = format!("long-{round} {MANY}");
    let mut events = Events::open(at_node(node, http, "talker", &message("talker", &asked, None))).await?;
    let mut task = String::new();
    while let Some(event) = events.next().await? {
        if let Some(id) = event["result"]["task"]["id"].as_str() {
            id.clone_into(&mut task);
        }
        if has_words(&event) {
            break;
        }
    }
    let sent = now_ns();
    let next = message("talker", &format!("next-{round} 1"), Some(&task));
    let mut next = Events::open(at_node(node, http, "talker", &next)).await?;
    while next.next().await?.is_some() {}
    let hung_up = || stub.times(&asked).map(|times| times.hung_up_ns).filter(|at| *at > 0);
    let noticed = tokio::time::timeout(PATIENCE, async {
        loop {
            match hung_up() {
                Some(at) => return at,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    });
    let at = noticed.await.map_err(|_| BenchError::not_measured("the answer under way was not stopped"))?;
    Ok(at.saturating_sub(sent))
}

/// Delay-tolerant work until all measurements are done.
async fn plan(node: &NodeProcess, http: &reqwest::Client, over: &AtomicBool) -> Result<(), BenchError> {
    let said = json!({ "inputs": { "planner.millions": 100 } }).to_string();
    while !over.load(Ordering::Acquire) {
        let mut events = Events::open(at_node(node, http, "planner", &message("planner", &said, None))).await?;
        while events.next().await?.is_some() {}
    }
    Ok(())
}

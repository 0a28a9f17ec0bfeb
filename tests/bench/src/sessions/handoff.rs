//! The work of a task that goes to an agent of another node, with a document that is nearly as long as one may be, beside what it
//! cannot do without: its bytes on loopback, two signed calls, and a sync.

use std::time::{Duration, Instant};

use althing_api::{HandoffCondition, HandoffReply, HandoffRequest};
use althing_client::{Client, socket};
use althing_store::{Batch, Durability};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::desk::{FLOOR, store};
use super::node;
use crate::calls;
use crate::faces::Node;
use crate::figures::{Goals, percentile};
use crate::tool;

const ROUNDS: usize = 15;
/// Bytes of a text of a list, and of all that the document says: its description, three full lists, and a part of a fourth. With
/// its other members and its signature it has a little less than a signed object may have, which is 960 KiB.
const TEXT: usize = 4 << 10;
const LIST: usize = 64;
const REST: usize = 26;
const DESCRIPTION: usize = 64 << 10;
const BYTES: usize = DESCRIPTION + (3 * LIST + REST) * TEXT;
const RATIO_MAX: f64 = 3.0;
/// The agent that is given the work.
const RECIPIENT: &str = "recipient";
/// How long nodes may take to hear of each other's agents.
const PATIENCE: Duration = Duration::from_secs(30);

/// So many bytes to another socket of loopback, and one back.
async fn bytes() -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let receiving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut bytes = vec![0; BYTES];
        stream.read_exact(&mut bytes).await.expect("all of them");
        stream.write_all(&[1]).await.expect("a write");
    });
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let sent = vec![7; BYTES];
    let begun = Instant::now();
    stream.write_all(&sent).await.expect("a write");
    stream.read_u8().await.expect("an answer");
    let took = begun.elapsed();
    receiving.await.expect("it ends");
    took
}

/// The median times of the bytes, of two signed calls and of a sync of the bytes, together.
async fn floor() -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store(folder.path());
    let (mut sent, mut synced) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        sent.push(bytes().await);
        let mut batch = Batch::large();
        batch.put(FLOOR, b"document".to_vec(), vec![7; BYTES]);
        let begun = Instant::now();
        store.write(batch, Durability::Synced).await.expect("it is written");
        synced.push(begun.elapsed());
    }
    percentile(&mut sent, 0.5) + 2 * calls::signed_call().await + percentile(&mut synced, 0.5)
}

/// The task of a turn that waits.
async fn waiting(http: &reqwest::Client, here: &Node) -> String {
    let answer = node::told(http, here, "wait", true).await;
    let task = answer["result"]["task"]["id"].as_str().map(str::to_owned);
    task.unwrap_or_else(|| panic!("{answer}"))
}

async fn ask(client: &Client, task: &str, request: &HandoffRequest) -> Result<HandoffReply, String> {
    let asked = client.ask(&format!("/tasks/{task}/handoff"), request).await;
    asked.map_err(|error| error.to_string())
}

/// A document of a task, with as much to say as it may have.
async fn document(client: &Client, task: &str) -> Result<Value, String> {
    let request = HandoffRequest {
        agent: RECIPIENT.to_owned(),
        remaining: Vec::new(),
        checklist: Vec::new(),
        document: None,
        draft: true,
    };
    let HandoffReply::Draft(draft) = ask(client, task, &request).await? else {
        return Err("a draft is what was asked for".to_owned());
    };
    let mut document = draft.document;
    let texts = |count: usize| json!(vec!["x".repeat(TEXT); count]);
    document["context"]["task_description"] = json!("x".repeat(DESCRIPTION));
    for list in ["key_decisions", "discovered_pitfalls", "pending_items"] {
        document["context"]["agent_memory"][list] = texts(LIST);
    }
    document["assumptions"] = texts(REST);
    Ok(document)
}

/// The time until the work is given away, of each round.
async fn handoffs(http: &reqwest::Client, here: &Node) -> Result<Vec<Duration>, String> {
    let connected = Client::connect(&socket(&here.data()), String::new()).await;
    let client = connected.map_err(|error| error.to_string())?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let task = waiting(http, here).await;
        let request = HandoffRequest {
            agent: RECIPIENT.to_owned(),
            remaining: Vec::new(),
            checklist: Vec::new(),
            document: Some(document(&client, &task).await?),
            draft: false,
        };
        let begun = Instant::now();
        match ask(&client, &task, &request).await? {
            HandoffReply::Outcome(outcome) if outcome.state == HandoffCondition::Given => times.push(begun.elapsed()),
            other => return Err(format!("the work was not given away: {other:?}")),
        }
    }
    Ok(times)
}

/// Prints the figure; false if it is not measured.
pub async fn run(goals: &mut Goals) -> bool {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let (_tool, tool) = tool::started().await;
    let here = Node::start(&[]).await;
    node::add(&here, &http, &tool).await;
    let far = Node::start(&["--peer", here.said["listening"][0].as_str().expect("an address")]).await;
    far.add(RECIPIENT, "task").await;
    // A stranger is served less often.
    far.althing(&["trust", here.said["owner"].as_str().expect("an owner")]).await;
    here.althing(&["trust", far.said["owner"].as_str().expect("an owner")]).await;
    let known = async {
        while !here.finds(RECIPIENT).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("the other agent is found");
    let mut times = match handoffs(&http, &here).await {
        Ok(times) => times,
        Err(why) => {
            println!("  a handoff of {BYTES} bytes: not measured: {why}");
            return false;
        }
    };
    let (ours, floor) = (percentile(&mut times, 0.5), floor().await);
    let ratio = ours.as_secs_f64() / floor.as_secs_f64();
    println!(
        "  a handoff of {BYTES} bytes: p50 {:.1} ms; its bytes, two signed calls and a sync: {:.1} ms; ratio {ratio:.1} {}",
        ours.as_secs_f64() * 1e3,
        floor.as_secs_f64() * 1e3,
        goals.at_most(ratio, RATIO_MAX),
    );
    true
}

//! Chapter "assembly": five nodes meet, an agent is found by what it can do and answers, and what breaks the rules is
//! refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_discovery::Query;
use althing_protocol::{AgentId, PublicKey};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::args::Demo;
use crate::commands::rows;
use crate::demo::intruder::Intruder;
use crate::demo::nodes::DemoNode;
use crate::demo::stage::{Stage, told_to_stop, until};
use crate::exit::{Failure, code};
use althing_control::{CallLine, CallRequest};

/// This project's documentation, which the knowledge agent is given when the user names no folder of their own.
const DOCS: [(&str, &str); 6] = [
    ("README.md", include_str!("../../../../README.md")),
    ("ARCHITECTURE.md", include_str!("../../../../ARCHITECTURE.md")),
    ("getting-started.md", include_str!("../../../../docs/getting-started.md")),
    ("configuration.md", include_str!("../../../../docs/configuration.md")),
    ("agents.md", include_str!("../../../../docs/agents.md")),
    ("protocol.md", include_str!("../../../../protocol/SPEC.md")),
];
const CAPABILITY: &str = "knowledge.answer";
/// Four nodes of one owner, and a stranger's.
const NODES: [(&str, &str); 5] =
    [("north", "us"), ("east", "us"), ("south", "us"), ("west", "us"), ("stranger", "them")];

/// Plays the chapter; every node is gone afterwards, whatever happened.
pub async fn play(stage: &mut Stage, demo: &Demo) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("althing-demo-").tempdir();
    let folder = folder.map_err(|error| Failure::failed(format!("no temporary folder: {error}")))?;
    let mut nodes = Vec::new();
    let played = tokio::select! {
        played = scenes(stage, demo, folder.path(), &mut nodes) => played,
        () = told_to_stop() => Err(Failure::new(code::INTERRUPTED, "interrupted")),
    };
    futures::future::join_all(nodes.iter_mut().map(DemoNode::stop)).await;
    played
}

async fn scenes(stage: &mut Stage, demo: &Demo, folder: &Path, nodes: &mut Vec<DemoNode>) -> Result<(), Failure> {
    let docs = documents(demo, folder)?;
    let network = format!("demo-{}", std::process::id());
    stage.say("Five nodes start on this machine: four of one owner, one of a stranger.");
    *nodes = stage.step("start five nodes", start(folder, &network)).await?;
    stage.step("they find each other by mDNS", meet(nodes)).await?;
    let [north, east, south, _, stranger] = &mut nodes[..] else { return Err(Failure::failed("five nodes")) };
    stage.say("north runs an agent that answers from a folder of text files.");
    let agent = stage.step("run the knowledge agent on north", add(north, &docs, folder)).await?;
    stage.step("south finds it by what it can do", find(south)).await?;
    stage.say(&format!("south's gateway is asked by plain A2A over HTTP: {:?}", demo.question));
    let quiet = stage.is_json();
    let first = stage.step("the cited answer streams in", ask(south, &demo.question, quiet)).await?;
    stage.note("… its first piece", first, "from question to text");
    stage.step("a stranger finds it too, and is refused", strange(stranger)).await?;
    let intruder = connect(north, &network).await?;
    stage.step("a forged message is refused", attack(north, intruder.forge(&agent))).await?;
    stage.step("a replayed message is refused", attack(north, intruder.replay(&agent))).await?;
    stage.say("north is killed with kill -9.");
    north.kill().await?;
    stage.step("its agent vanishes everywhere", vanish([&*east, &*south, &*stranger])).await
}

/// The folder of text files: the user's own, or this project's documentation.
fn documents(demo: &Demo, folder: &Path) -> Result<PathBuf, Failure> {
    if let Some(docs) = &demo.docs {
        return docs.canonicalize().map_err(|error| Failure::usage(format!("--docs {}: {error}", docs.display())));
    }
    let docs = folder.join("docs");
    let written = std::fs::create_dir_all(&docs)
        .and_then(|()| DOCS.iter().try_for_each(|(name, text)| std::fs::write(docs.join(name), text)));
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", docs.display())))?;
    Ok(docs)
}

async fn start(folder: &Path, network: &str) -> Result<(Vec<DemoNode>, String), Failure> {
    let starting = NODES.map(|(name, owner)| DemoNode::start(folder, name, owner, network));
    let started: Result<Vec<DemoNode>, Failure> = futures::future::join_all(starting).await.into_iter().collect();
    let started = started?;
    let names: Vec<&str> = started.iter().map(|node| node.name.as_str()).collect();
    let said = names.join(", ");
    Ok((started, said))
}

/// Every node knows all five.
async fn meet(nodes: &[DemoNode]) -> Result<((), String), Failure> {
    let all = nodes.len() as u64;
    for node in nodes {
        let client = node.client().await?;
        until(Duration::from_secs(15), "meeting", || async {
            let status = client.get("/status").await?;
            Ok((status["layers"]["l3Discovery"]["nodes"].as_u64() == Some(all)).then_some(()))
        })
        .await?;
    }
    Ok(((), "each knows all five, no configuration".to_owned()))
}

async fn add(node: &DemoNode, docs: &Path, folder: &Path) -> Result<(AgentId, String), Failure> {
    let text = format!(
        "name: knowledge\ntitle: Knowledge\nversion: 1.0.0\ncallers: trusted\nexposure: public\ninput_modes: [text/plain]\noutput_modes: [text/plain]\ndescription: Answers questions from a folder of text files, and cites file and line.\n\
         skills:\n  - id: {CAPABILITY}\n    name: Answer\n    description: Finds the passages of the documents that answer a question.\n\
         \x20   action: answer\n    target: documents\n    tags: [documents, search]\n    examples: [How do nodes find each other?]\n\
         runtime:\n  native:\n    builtin: knowledge\n    config: {{ folder: {} }}\ncontract: {{ class: {{ latency: srt }} }}\n",
        json!(docs)
    );
    let path = folder.join("knowledge.yaml");
    std::fs::write(&path, text)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    let request = crate::commands::agent::read(&path)?;
    let added = node.client().await?.post("/agents", &request).await?;
    let id = added["id"].as_str().unwrap_or_default().parse();
    let id: AgentId = id.map_err(|error| Failure::failed(format!("{error}")))?;
    Ok((id, format!("it reads {}", docs.display())))
}

async fn find(node: &DemoNode) -> Result<((), String), Failure> {
    let client = node.client().await?;
    let query = Query { capability: Some(CAPABILITY.to_owned()), max_load: Some(0.5), ..Query::default() };
    let found = until(Duration::from_secs(10), "finding", || async {
        let found = client.post("/find", &query).await?;
        Ok(rows(&found, "agents").first().cloned())
    })
    .await?;
    let learned = found["learned"].as_str().unwrap_or_default();
    Ok((
        (),
        format!("{CAPABILITY} is on {}, {learned}", crate::commands::short(&crate::commands::text(&found, "node"))),
    ))
}

/// Asks through the gateway as any A2A client would; gives the time to the first piece.
async fn ask(node: &DemoNode, question: &str, quiet: bool) -> Result<(Duration, String), Failure> {
    let begun = Instant::now();
    let message = json!({ "messageId": "demo-1", "role": "ROLE_USER", "parts": [{ "text": question }] });
    let request =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": { "message": message } });
    let url = format!("{}/a2a/knowledge", node.said("gateway"));
    let failed = |error: reqwest::Error| Failure::failed(error.to_string());
    let http = reqwest::Client::builder().no_proxy().build().map_err(failed)?;
    let response = http.post(url).header("A2A-Version", "1.0").json(&request).send().await.map_err(failed)?;
    let mut bytes = response.bytes_stream();
    let (mut buffer, mut first, mut cited) = (String::new(), None, 0);
    while let Some(chunk) = bytes.next().await {
        buffer.push_str(&String::from_utf8_lossy(&chunk.map_err(failed)?));
        while let Some((event, rest)) = buffer.split_once("\n\n") {
            let data: String = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
            let rest = rest.to_owned();
            if !data.is_empty() {
                let event: Value = serde_json::from_str(&data).map_err(|error| Failure::failed(error.to_string()))?;
                if let Some(error) = event.get("error") {
                    return Err(Failure::failed(error["message"].to_string()));
                }
                let parts = event["result"]["artifactUpdate"]["artifact"]["parts"].as_array().cloned();
                for part in parts.unwrap_or_default() {
                    if let Some(text) = part["text"].as_str() {
                        first.get_or_insert_with(|| begun.elapsed());
                        if !quiet {
                            text.lines().for_each(|line| crate::commands::print_line(&format!("      {line}")));
                        }
                    }
                    cited += part["data"]["citations"].as_array().map_or(0, Vec::len);
                }
            }
            buffer = rest;
        }
    }
    match first {
        Some(first) if cited > 0 => Ok((first, format!("{cited} passages, each with file and line"))),
        Some(_) => Err(Failure::failed("nothing in the files answers the question; ask another with --question")),
        None => Err(Failure::failed("no answer came")),
    }
}

async fn strange(node: &DemoNode) -> Result<((), String), Failure> {
    find(node).await?;
    let request = CallRequest {
        agent: "knowledge".to_owned(),
        text: "Tell me.".to_owned(),
        task: None,
        explain: false,
        // The owner of the others is a stranger to this one.
        anyone: true,
    };
    let refused = |failure: Failure| match failure.code {
        code::REFUSED => Ok(((), "CALLER_NOT_ALLOWED, before anything ran".to_owned())),
        _ => Err(failure),
    };
    let mut lines = match node.client().await?.lines("/call", &request).await {
        Ok(lines) => lines,
        Err(failure) => return refused(failure),
    };
    match lines.next().await? {
        Some(CallLine::Error(problem)) => refused(problem.into()),
        _ => Err(Failure::failed("the stranger was answered")),
    }
}

async fn connect(node: &DemoNode, network: &str) -> Result<Intruder, Failure> {
    let target = PublicKey::from_did(node.said("node")).map_err(|error| Failure::failed(error.to_string()))?;
    let address = node.address().ok_or_else(|| Failure::failed("the node listens nowhere"))?;
    Intruder::connect(target, &address, network).await
}

/// The attack must fail, and the node must have counted it.
async fn attack(node: &DemoNode, attack: impl Future<Output = Result<(), Failure>>) -> Result<((), String), Failure> {
    let client = node.client().await?;
    let count = || async {
        let status = client.get("/status").await?;
        Ok::<u64, Failure>(status["layers"]["l2Communication"]["streamsRefused"].as_u64().unwrap_or(0))
    };
    let before = count().await?;
    attack.await?;
    until(Duration::from_secs(5), "counting the refusal", || async { Ok((count().await? > before).then_some(())) })
        .await?;
    Ok(((), "stream closed and counted".to_owned()))
}

async fn vanish(nodes: [&DemoNode; 3]) -> Result<((), String), Failure> {
    let query = Query { capability: Some(CAPABILITY.to_owned()), ..Query::default() };
    for node in nodes {
        let client = node.client().await?;
        until(Duration::from_secs(8), "vanishing", || async {
            let found = client.post("/find", &query).await?;
            Ok(rows(&found, "agents").is_empty().then_some(()))
        })
        .await?;
    }
    Ok(((), "no node finds it any more".to_owned()))
}

//! Chapter "assembly": five nodes meet, an agent is found by what it can do and answers, and what breaks the rules is
//! refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_api::{CallLine, CallRequest, FindQuery};
use althing_client::{ClientError, NodeProcess, agent_file, print_line, rows, text};
use althing_operations::doctor::short;
use althing_protocol::{AgentId, PublicKey};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::DemoError;
use crate::intruder::Intruder;
use crate::stage::{Stage, stop_signal, until};
use crate::{Demo, Ports};

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

/// Plays the chapter; stops every node afterwards in any case.
pub async fn play(stage: &mut Stage, demo: &Demo, ports: &Ports) -> Result<(), DemoError> {
    let folder = tempfile::Builder::new().prefix("althing-demo-").tempdir();
    let folder = folder.map_err(DemoError::Folder)?;
    let mut nodes = Vec::new();
    let played = tokio::select! {
        played = scenes(stage, demo, ports, folder.path(), &mut nodes) => played,
        () = stop_signal() => Err(DemoError::Interrupted),
    };
    futures::future::join_all(nodes.iter_mut().map(NodeProcess::stop)).await;
    played
}

async fn scenes(
    stage: &mut Stage,
    demo: &Demo,
    ports: &Ports,
    folder: &Path,
    nodes: &mut Vec<NodeProcess>,
) -> Result<(), DemoError> {
    let docs = documents(demo, folder)?;
    let network = format!("demo-{}", std::process::id());
    stage.say("Five nodes start on this machine: four of one owner, one of a stranger.");
    *nodes = stage.step("start five nodes", start(&ports.program, folder, &network)).await?;
    stage.step("they find each other by mDNS", meet(nodes)).await?;
    let [north, east, south, _, stranger] = &mut nodes[..] else { return Err(DemoError::unexpected("five nodes")) };
    stage.say("north runs an agent that answers from a folder of text files.");
    let agent = stage.step("run the knowledge agent on north", add(north, &docs, folder)).await?;
    stage.step("south finds it by what it can do", find(south)).await?;
    stage.say(&format!("south's gateway is asked by plain A2A over HTTP: {:?}", demo.question));
    let quiet = stage.is_json();
    let first = stage.step("the cited answer streams in", ask(south, &demo.question, quiet)).await?;
    stage.note("… its first piece", first, "from question to text");
    stage.step("a stranger finds it too, and is refused", strange(stranger)).await?;
    let intruder = connect(north, &network, ports).await?;
    stage.step("a forged message is refused", attack(north, intruder.forge(&agent))).await?;
    stage.step("a replayed message is refused", attack(north, intruder.replay(&agent))).await?;
    stage.say("north is killed with kill -9.");
    north.kill().await?;
    stage.step("its agent vanishes everywhere", vanish([&*east, &*south, &*stranger])).await
}

/// The folder of text files: the user's own, or this project's documentation.
fn documents(demo: &Demo, folder: &Path) -> Result<PathBuf, DemoError> {
    if let Some(docs) = &demo.docs {
        return docs.canonicalize().map_err(|error| DemoError::Docs { path: docs.clone(), error });
    }
    let docs = folder.join("docs");
    let written = std::fs::create_dir_all(&docs)
        .and_then(|()| DOCS.iter().try_for_each(|(name, text)| std::fs::write(docs.join(name), text)));
    written.map_err(|error| DemoError::Write { path: docs.to_owned(), error })?;
    Ok(docs)
}

async fn start(program: &Path, folder: &Path, network: &str) -> Result<(Vec<NodeProcess>, String), DemoError> {
    let starting = NODES.map(|(name, owner)| NodeProcess::start(program, folder, name, owner, network));
    let started = futures::future::join_all(starting).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = started.iter().map(|node| node.name.as_str()).collect();
    let said = names.join(", ");
    Ok((started, said))
}

/// Every node knows all five.
async fn meet(nodes: &[NodeProcess]) -> Result<((), String), DemoError> {
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

async fn add(node: &NodeProcess, docs: &Path, folder: &Path) -> Result<(AgentId, String), DemoError> {
    let text = format!(
        "name: knowledge\ntitle: Knowledge\nversion: 1.0.0\ncallers: trusted\nexposure: public\ninput_modes: [text/plain]\noutput_modes: [text/plain]\ndescription: Answers questions from a folder of text files, and cites file and line.\n\
         skills:\n  - id: {CAPABILITY}\n    name: Answer\n    description: Finds the passages of the documents that answer a question.\n\
         \x20   action: answer\n    target: documents\n    tags: [documents, search]\n    examples: [How do nodes find each other?]\n\
         runtime:\n  native:\n    builtin: knowledge\n    config: {{ folder: {} }}\ncontract: {{ class: {{ latency: srt }} }}\n",
        json!(docs)
    );
    let path = folder.join("knowledge.yaml");
    std::fs::write(&path, text).map_err(|error| DemoError::Write { path: path.to_owned(), error })?;
    let request = agent_file::read(&path)?;
    let added = node.client().await?.post("/agents", &request).await?;
    let id = added["id"].as_str().unwrap_or_default().parse();
    let id: AgentId = id.map_err(DemoError::unexpected)?;
    Ok((id, format!("it reads {}", docs.display())))
}

async fn find(node: &NodeProcess) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    let query = FindQuery { capability: Some(CAPABILITY.to_owned()), max_load: Some(0.5), ..FindQuery::default() };
    let found = until(Duration::from_secs(10), "finding", || async {
        let found: Value = client.query("/find", &query).await?;
        Ok(rows(&found, "agents").first().cloned())
    })
    .await?;
    let learned = found["learned"].as_str().unwrap_or_default();
    Ok(((), format!("{CAPABILITY} is on {}, {learned}", short(&text(&found, "node")))))
}

/// Asks through the gateway as any A2A client would; gives the time to the first piece.
async fn ask(node: &NodeProcess, question: &str, quiet: bool) -> Result<(Duration, String), DemoError> {
    let begun = Instant::now();
    let message = json!({ "messageId": "demo-1", "role": "ROLE_USER", "parts": [{ "text": question }] });
    let request =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": { "message": message } });
    let url = format!("{}/a2a/knowledge", node.announced("gateway"));
    let failed = |error: reqwest::Error| DemoError::unexpected(error);
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
                let event: Value = serde_json::from_str(&data).map_err(DemoError::unexpected)?;
                if let Some(error) = event.get("error") {
                    return Err(DemoError::unexpected(error["message"].to_string()));
                }
                let parts = event["result"]["artifactUpdate"]["artifact"]["parts"].as_array().cloned();
                for part in parts.unwrap_or_default() {
                    if let Some(text) = part["text"].as_str() {
                        first.get_or_insert_with(|| begun.elapsed());
                        if !quiet {
                            text.lines().for_each(|line| print_line(&format!("      {line}")));
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
        Some(_) => Err(DemoError::unexpected("nothing in the files answers the question; ask another with --question")),
        None => Err(DemoError::unexpected("no answer came")),
    }
}

async fn strange(node: &NodeProcess) -> Result<((), String), DemoError> {
    find(node).await?;
    let request = CallRequest {
        agent: "knowledge".to_owned(),
        text: "Tell me.".to_owned(),
        task: None,
        explain: false,
        // This node does not trust the owner of the others.
        anyone: true,
    };
    let refused = |error: ClientError| match error.is_refusal() {
        true => Ok(((), "CALLER_NOT_ALLOWED, before anything ran".to_owned())),
        false => Err(error.into()),
    };
    let mut lines = match node.client().await?.lines("/call", &request).await {
        Ok(lines) => lines,
        Err(error) => return refused(error),
    };
    match lines.next().await? {
        Some(CallLine::Error(problem)) => refused(problem.into()),
        _ => Err(DemoError::unexpected("the stranger was answered")),
    }
}

async fn connect(node: &NodeProcess, network: &str, ports: &Ports) -> Result<Intruder, DemoError> {
    let target = PublicKey::from_did(node.announced("node")).map_err(DemoError::unexpected)?;
    let address = node.address().ok_or_else(|| DemoError::unexpected("the node listens nowhere"))?;
    Intruder::connect(target, &address, network, ports).await
}

/// The attack must fail, and the node must have counted it.
async fn attack(
    node: &NodeProcess,
    attack: impl Future<Output = Result<(), DemoError>>,
) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    let count = || async {
        let status = client.get("/status").await?;
        Ok::<u64, DemoError>(status["layers"]["l2Communication"]["streamsRefused"].as_u64().unwrap_or(0))
    };
    let before = count().await?;
    attack.await?;
    until(Duration::from_secs(5), "counting the refusal", || async { Ok((count().await? > before).then_some(())) })
        .await?;
    Ok(((), "stream closed and counted".to_owned()))
}

async fn vanish(nodes: [&NodeProcess; 3]) -> Result<((), String), DemoError> {
    let query = FindQuery { capability: Some(CAPABILITY.to_owned()), ..FindQuery::default() };
    for node in nodes {
        let client = node.client().await?;
        until(Duration::from_secs(8), "vanishing", || async {
            let found: Value = client.query("/find", &query).await?;
            Ok(rows(&found, "agents").is_empty().then_some(()))
        })
        .await?;
    }
    Ok(((), "no node finds it any more".to_owned()))
}

//! Chapter "registry": an agent is published, found by a node that never met its host, installed, yanked and revoked; a registry
//! that shows two histories is caught.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use althing_api::{
    AddRegistry, CallLine, CallRequest, Folder, InstallRequest, InstallTerms, MarkRequest, PublishRequest, UpdateRule,
};
use althing_client::{NodeProcess, agent_file, rows, text};
use althing_td::Callers;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::chapter;
use crate::error::DemoError;
use crate::stage::{Stage, until};

/// Hosts are told of, and revocations heard, within this.
const HEARD: Duration = Duration::from_secs(20);
const STARTS: Duration = Duration::from_secs(10);

/// Plays the chapter; stops every node afterwards in any case.
pub async fn play(stage: &mut Stage, program: &Path) -> Result<(), DemoError> {
    chapter::play(stage, program, scenes).await
}

async fn scenes(
    stage: &mut Stage,
    program: &Path,
    folder: &Path,
    nodes: &mut Vec<NodeProcess>,
) -> Result<(), DemoError> {
    let network = format!("demo-registry-{}", std::process::id());
    stage.say("A registry starts, and two nodes of owners who know neither each other nor each other's nodes.");
    for (name, owner) in [("maker", "makers"), ("office", "clerks")] {
        nodes.push(NodeProcess::start_with(program, folder, name, owner, &network, &["--no-lan"]).await?);
    }
    let [maker, office] = &nodes[..] else { return Err(DemoError::unexpected("two nodes were started")) };
    let publisher = maker.announced("owner");
    let (data, forked) = (folder.join("registry"), folder.join("forked"));
    let mut registry = Registry::start(program, &data, &network, publisher, "127.0.0.1:0").await?;
    for node in [maker, office] {
        node.client().await?.post("/registries", &registry.address()).await?;
    }
    let agent = format!("{publisher}:echo");
    stage.step("maker publishes an agent", publish(maker, folder, "1.0.0")).await?;
    stage.step("maker hosts it", host(maker, folder)).await?;
    stage.step("office finds its host by the registry, and calls it", call(office, &agent, &agent)).await?;
    stage.step("office installs it, after a look at its contract", install(office, &agent, "copy")).await?;
    publish(maker, folder, "1.1.0").await?;
    mark(maker, "1.1.0", "yanked", "it forgets").await?;
    stage.step("maker yanked 1.1.0: a range leaves it out", install(office, &agent, "other")).await?;
    mark(maker, "1.0.0", "revoked", "it leaks").await?;
    stage.step("maker revokes 1.0.0: office stops what it installed", stopped(office)).await?;
    stage.step("and nobody calls it any more", refused(office, &agent)).await?;
    stage
        .say("The registry is killed. Another one starts in its place, with its key and a log without the revocation.");
    registry.kill().await?;
    copy_key(&data, &forked)?;
    let _forked =
        Registry::start_as(program, &forked, &network, publisher, &registry.listens(), Some(registry.name())).await?;
    // What is handed in makes the new log as long as the old one was, whose entries were others.
    for version in ["2.0.0", "2.0.1", "2.0.2", "2.0.3", "2.0.4"] {
        if publish(maker, folder, version).await.is_ok() {
            return Err(DemoError::unexpected("the publisher's own node believed the second history"));
        }
    }
    stage.step("office catches it, and keeps both histories", caught(office)).await
}

/// A registry; it ends when this is dropped.
struct Registry {
    child: Child,
    at: String,
    key: String,
}

impl Registry {
    async fn start(
        node: &Path,
        data: &Path,
        network: &str,
        publisher: &str,
        listen: &str,
    ) -> Result<Registry, DemoError> {
        Registry::start_as(node, data, network, publisher, listen, None).await
    }

    /// With the name of its log.
    async fn start_as(
        node: &Path,
        data: &Path,
        network: &str,
        publisher: &str,
        listen: &str,
        name: Option<&str>,
    ) -> Result<Registry, DemoError> {
        let program = node.with_file_name("althing-registry");
        let failed = |why: String| DemoError::Registry { program: program.clone(), why };
        let mut child = Command::new(&program)
            .arg("--data")
            .arg(data)
            .args(["--network", network, "--publisher", publisher, "--listen", listen])
            .args(name.map(|name| format!("--origin={name}")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let mut lines = BufReader::new(stdout).lines();
        let (mut at, mut key) = (None, None);
        loop {
            let next = tokio::time::timeout(STARTS, lines.next_line()).await;
            let line = next.map_err(|_| failed("it says nothing".to_owned()))?;
            let line = line.map_err(|error| failed(error.to_string()))?;
            let line = line.ok_or_else(|| failed("it ended".to_owned()))?;
            at = at.or_else(|| line.strip_prefix("at").map(|at| at.trim().to_owned()));
            key = key.or_else(|| line.strip_prefix("key").map(|key| key.trim().to_owned()));
            // The last that it says.
            if line.starts_with("entries") {
                break;
            }
        }
        Ok(Registry { child, at: at.unwrap_or_default(), key: key.unwrap_or_default() })
    }

    fn address(&self) -> AddRegistry {
        AddRegistry { url: self.at.clone(), key: self.key.clone(), witnesses: Vec::new(), wanted: None }
    }

    /// The name of its log.
    fn name(&self) -> &str {
        self.key.split('+').next().unwrap_or_default()
    }

    fn listens(&self) -> String {
        self.at.rsplit('/').next().unwrap_or_default().to_owned()
    }

    async fn kill(&mut self) -> Result<(), DemoError> {
        self.child.kill().await.map_err(DemoError::unexpected)
    }
}

fn copy_key(from: &Path, to: &Path) -> Result<(), DemoError> {
    let failed = |path: PathBuf| move |error| DemoError::Write { path, error };
    std::fs::create_dir_all(to).map_err(failed(to.to_owned()))?;
    let key = to.join("registry.key");
    std::fs::copy(from.join("registry.key"), &key).map_err(failed(key.clone()))?;
    Ok(())
}

fn echo_file(folder: &Path, version: &str) -> Result<PathBuf, DemoError> {
    let path = folder.join("echo.yaml");
    let file = json!({
        "name": "echo",
        "version": version,
        "description": "Repeats what it receives",
        "skills": [{ "id": "echo.say", "name": "Say", "description": "Repeats a text" }],
        "runtime": { "native": { "builtin": "echo" } },
        "contract": { "class": { "latency": "srt" } },
        "callers": "anyone",
        "exposure": "public",
    });
    std::fs::write(&path, file.to_string()).map_err(|error| DemoError::Write { path: path.clone(), error })?;
    Ok(path)
}

async fn publish(node: &NodeProcess, folder: &Path, version: &str) -> Result<((), String), DemoError> {
    echo_file(folder, version)?;
    let (folder, file) = (Folder::here(folder), "echo.yaml".to_owned());
    let request = PublishRequest { folder, file, with: Vec::new(), audience: None, registry: None };
    let published = node.client().await?.post("/publish", &request).await?;
    let entries = &published["entries"];
    Ok(((), format!("echo {version} is in the registry's log, which has {entries} entries and proves it")))
}

async fn host(node: &NodeProcess, folder: &Path) -> Result<((), String), DemoError> {
    let request = agent_file::read(&echo_file(folder, "1.0.0")?)?;
    node.client().await?.post("/agents", &request).await?;
    Ok(((), "it runs, and the registry is told where".to_owned()))
}

/// The answer to a call, or why there is none.
async fn ask(node: &NodeProcess, agent: &str) -> Result<Result<String, String>, DemoError> {
    let request = CallRequest {
        agent: agent.to_owned(),
        text: "good morning".to_owned(),
        task: None,
        explain: false,
        anyone: true,
    };
    let mut lines = match node.client().await?.lines("/call", &request).await {
        Ok(lines) => lines,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let mut said = String::new();
    while let Some(line) = lines.next::<CallLine>().await? {
        match line {
            CallLine::Event(event) => said.push_str(&event.to_string()),
            CallLine::Error(problem) => return Ok(Err(problem.message)),
            CallLine::Explain(_) => {}
        }
    }
    Ok(Ok(said))
}

async fn call(node: &NodeProcess, agent: &str, shown: &str) -> Result<((), String), DemoError> {
    until(HEARD, "the registry naming the host", || async {
        Ok(ask(node, agent).await?.ok().filter(|said| said.contains("good morning")))
    })
    .await?;
    let name = shown.rsplit(':').next().unwrap_or(shown);
    Ok(((), format!("{name} on maker's node answers")))
}

async fn install(node: &NodeProcess, agent: &str, name: &str) -> Result<((), String), DemoError> {
    let mut request = InstallRequest {
        reference: format!("{agent}@^1"),
        name: Some(name.to_owned()),
        callers: Callers::ThisNode,
        registry: None,
        update: UpdateRule::Asked,
        terms: InstallTerms { young: true, ..InstallTerms::default() },
    };
    let client = node.client().await?;
    let offer = client.post("/install", &request).await?;
    request.terms.agreed = Some(text(&offer, "digest"));
    let installed = client.post("/install", &request).await?;
    if installed["version"] != "1.0.0" {
        return Err(DemoError::unexpected(format!("{} was installed", installed["version"])));
    }
    Ok(((), format!("{} {} runs as {name}", text(&installed, "agent"), text(&installed, "version"))))
}

async fn mark(node: &NodeProcess, version: &str, standing: &str, reason: &str) -> Result<(), DemoError> {
    let request = MarkRequest {
        agent: "echo".to_owned(),
        version: version.to_owned(),
        standing: standing.to_owned(),
        reason: reason.to_owned(),
        registry: None,
    };
    node.client().await?.post("/releases/mark", &request).await?;
    Ok(())
}

async fn stopped(node: &NodeProcess) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    let why = until(HEARD, "the end of both copies", || async {
        let list = client.get("/ps").await?;
        let failed: Vec<&Value> = rows(&list, "agents").iter().filter(|agent| agent["state"] == "failed").collect();
        Ok((failed.len() == 2).then(|| text(failed[0], "why")))
    })
    .await?;
    let reason = why.rsplit(": ").next().unwrap_or_default().to_owned();
    Ok(((), format!("both copies end; the publisher says why: {reason}")))
}

async fn refused(node: &NodeProcess, agent: &str) -> Result<((), String), DemoError> {
    match ask(node, agent).await? {
        // Its own publisher's node has stopped it too.
        Err(why) => Ok(((), why)),
        other @ Ok(_) => Err(DemoError::unexpected(format!("the call of a revoked agent ended with {other:?}"))),
    }
}

async fn caught(node: &NodeProcess) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    until(HEARD, "the second history being caught", || async {
        let list = client.get("/registries").await?;
        Ok(rows(&list, "registries").iter().any(|row| row.get("forked").is_some()).then_some(()))
    })
    .await?;
    Ok(((), "two checkpoints, signed by one key, of which neither goes on from the other".to_owned()))
}

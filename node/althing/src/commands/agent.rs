//! `althing agent`.

use std::path::Path;

use althing_api::{AddRequest, RunLine};
use althing_client::{Client, agent_file};
use althing_td::AgentFile;
use serde_json::{Value, json};

use crate::args::{Agent, Run};
use crate::commands::agreement::agree;
use crate::commands::panes::exposed;
use crate::commands::{Out, print_line, rows, table, text, waiting};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Adds, lists or removes agents.
pub async fn run(at: &Paths, agent: &Agent, out: &Out) -> Result<(), Failure> {
    match agent {
        Agent::Add { file, reservation, yes } => {
            let mut request = AddRequest { reservation: reservation.clone(), ..agent_file::read(file)? };
            let (client, escaped) = (at.connect().await?, escape(&request.file.name));
            let changes = compared(&client, &mut request, (*yes, "add"), out).await?;
            let changed = changed(&changes);
            let look = async || waiting::of_call(&client, &escaped, false).await;
            let mut added = waiting::telling(client.post("/agents", &request), look, out).await?;
            if !changed.is_empty() {
                added["changes"] = changes["changes"].clone();
            }
            out.show(&added, |added| {
                let promise = promised(&added["status"]);
                let changed = if changed.is_empty() { String::new() } else { format!("{changed}\n") };
                format!(
                    "{}\n{changed}{promise}{}its card: {}",
                    standing(&text(added, "name"), added),
                    exposed(&added["status"]),
                    text(added, "card")
                )
            });
        }
        Agent::List => {
            let list = at.connect().await?.get("/agents").await?;
            out.show(&list, |list| {
                let cells = |agent| {
                    vec![
                        text(agent, "name"),
                        text(agent, "title"),
                        callers(&agent["callers"]),
                        text(agent, "exposure"),
                        rows(agent, "skills").iter().filter_map(|skill| skill.as_str()).collect::<Vec<_>>().join(" "),
                    ]
                };
                let all: Vec<Vec<String>> = rows(list, "agents").iter().map(cells).collect();
                table(&["name", "title", "callers", "exposure", "skills"], &all)
            });
        }
        Agent::Remove { name } => {
            let path = format!("/agents/{}", escape(name));
            let removed = at.connect().await?.delete(&path).await?;
            out.show(&removed, |removed| {
                let secrets: Vec<&str> = rows(removed, "secretsKept").iter().filter_map(Value::as_str).collect();
                let with = if secrets.is_empty() {
                    String::new()
                } else {
                    format!("; its secrets stay ({}): `althing secret remove NAME`", secrets.join(", "))
                };
                format!("{} is stopped and removed{with}", text(removed, "removed"))
            });
        }
    }
    Ok(())
}

/// What an agent file changes of what was agreed to here; the request has the agreement to it, where one is needed.
async fn compared(
    client: &Client,
    request: &mut AddRequest,
    (yes, verb): (bool, &str),
    out: &Out,
) -> Result<Value, Failure> {
    let changes = client.post("/adding", &*request).await?;
    if changes["wider"] == true {
        let name = &request.file.name;
        let shown = format!("{name} would reach more than was agreed to here\n{}", changed(&changes));
        request.agreed = Some(agree(&changes, &shown, yes, verb, out)?);
    }
    Ok(changes)
}

/// What changed of what an agent may do, a line or more for each; empty if that is nothing.
fn changed(changes: &Value) -> String {
    let line = |change: &Value| {
        let or_none = |key: &str| Some(text(change, key)).filter(|it| !it.is_empty()).unwrap_or("none".to_owned());
        let mark = if change["wider"] == true { "wider    " } else { "changed  " };
        format!("{mark}{}\n  was  {}\n  is   {}", text(change, "what"), or_none("old"), or_none("new"))
    };
    rows(changes, "changes").iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How an agent stands that was added, by its name, perhaps with its version: it runs only where its program, or its server,
/// answered.
pub fn standing(named: &str, added: &Value) -> String {
    let (name, id, status) = (text(added, "name"), text(added, "id"), &added["status"]);
    match status["state"].as_str() {
        None | Some("ready" | "degraded") => format!("{named} runs as {id}"),
        Some("starting") => {
            format!("{named} is starting as {id}: its program does not answer yet, and `althing ps` shows when it does")
        }
        Some(state) => {
            format!("{named} is added as {id} and {state}: {}; `althing logs {name}` says more", text(status, "why"))
        }
    }
}

/// That the program of an agent which was put in the place of another, or installed, ended: the agent stays, and does not run.
pub fn stays(added: &Value) -> Result<(), Failure> {
    if added["status"]["state"] == "restarting" { Err(Failure::shown(code::FAILED)) } else { Ok(()) }
}

fn callers(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| "listed".to_owned(), str::to_owned)
}

/// The guarantee of a hard real-time agent.
fn promised(status: &Value) -> String {
    let hard = &status["hrt"];
    match hard["responseBoundUs"].as_f64() {
        None => String::new(),
        Some(bound) => format!("admitted on core {}: every job is done within {bound:.0} µs\n", hard["core"]),
    }
}

/// `althing run`: runs an agent for as long as this command runs.
pub async fn hold(at: &Paths, run: &Run, out: &Out) -> Result<(), Failure> {
    let mut request = match run.file.extension().and_then(|ending| ending.to_str()) {
        Some("wasm" | "wat") => module(run)?,
        _ => {
            let mut request = agent_file::read(&run.file)?;
            if let Some(contract) = &run.contract {
                request.file.contract = Some(agent_file::read_contract(contract)?);
                request.file.requested = Some(agent_file::read_partial_contract(contract)?);
                agent_file::check(&request.file, &run.file)?;
            }
            request
        }
    };
    let client = at.connect().await?;
    let changed = changed(&compared(&client, &mut request, (run.yes, "run"), out).await?);
    let changed = if changed.is_empty() { changed } else { format!("{changed}\n") };
    let mut lines = client.lines("/run", &request).await?;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let line = tokio::select! {
            line = lines.next::<RunLine>() => line?,
            // The node stops the agent when this connection closes.
            _ = &mut interrupted => return Ok(()),
        };
        match line {
            Some(RunLine::Runs(added)) => out.show(&added, |added| {
                let promise = promised(&added["status"]);
                let promise = promise + &exposed(&added["status"]);
                format!("{}\n{changed}{promise}Ctrl-C stops it", standing(&text(added, "name"), added))
            }),
            Some(RunLine::Status(status)) if out.json => print_line(&status.to_string()),
            Some(RunLine::Status(status)) if status["state"] == "suspended" => {
                return Err(Failure::failed(format!("it was stopped: {}", text(&status, "why"))));
            }
            Some(RunLine::Status(_)) => {}
            Some(RunLine::Error(problem)) => return Err(problem.into()),
            None => return Err(Failure::new(code::NO_NODE, "the node stopped")),
        }
    }
}

/// An agent of a module without an agent file.
fn module(run: &Run) -> Result<AddRequest, Failure> {
    let path = run.file.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", run.file.display())))?;
    let stem = || path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase().replace(['_', '.', ' '], "-"));
    let name = run.agent.clone().or_else(stem).unwrap_or_default();
    let yaml = json!({
        "name": name,
        "description": format!("Runs {}", path.display()),
        "runtime": { "wasm": { "module": path } },
    });
    let parsed = AgentFile::parse(&yaml.to_string());
    let mut file =
        parsed.map_err(|error| Failure::usage(format!("{}: {error}; choose a name with --as", path.display())))?;
    file.contract = run.contract.as_deref().map(agent_file::read_contract).transpose()?;
    file.requested = run.contract.as_deref().map(agent_file::read_partial_contract).transpose()?;
    agent_file::check(&file, &path)?;
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(AddRequest { file, folder, sources: Vec::new(), reservation: None, agreed: None })
}

/// Escapes a path segment.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_agent_that_answered_is_said_to_run() {
        let of = |state: Value, why: &str| {
            let added = json!({ "name": "weather", "id": "urn:x", "status": { "state": state, "why": why } });
            (standing("weather 1.2.0", &added), stays(&added).is_ok())
        };
        assert_eq!(of(json!("ready"), ""), ("weather 1.2.0 runs as urn:x".to_owned(), true));
        let (starting, goes_on) = of(json!("starting"), "");
        assert!(starting.starts_with("weather 1.2.0 is starting as urn:x: ") && goes_on, "{starting}");
        let (again, goes_on) = of(json!("restarting"), "it ended with exit status 1");
        let words = "weather 1.2.0 is added as urn:x and restarting: it ended with exit status 1; `althing logs weather` says more";
        assert_eq!((again.as_str(), goes_on), (words, false));
        let gone = of(json!("unreachable"), "connection refused");
        assert!(gone.0.contains("and unreachable: connection refused") && gone.1, "{gone:?}");
    }
}

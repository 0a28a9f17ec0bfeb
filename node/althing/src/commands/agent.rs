//! `althing agent`.

use std::path::Path;

use althing_protocol::Contract;
use althing_store::file::read_text;
use althing_td::{AgentFile, parse_contract, parse_partial_contract};
use serde_json::{Value, json};

use crate::args::{Agent, Run};
use crate::client::Client;
use crate::commands::{Out, print_line, rows, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;
use althing_control::{AddRequest, RunLine};

/// Largest agent file.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Adds, lists or removes agents.
pub async fn run(at: &Paths, agent: &Agent, out: &Out) -> Result<(), Failure> {
    match agent {
        Agent::Add { file, reservation } => {
            let request = AddRequest { reservation: reservation.clone(), ..read(file)? };
            let added = Client::connect(at).await?.post("/agents", &request).await?;
            out.show(&added, |added| {
                let promise = promised(&added["status"]);
                format!(
                    "{} runs as {}\n{promise}its card: {}",
                    text(added, "name"),
                    text(added, "id"),
                    text(added, "card")
                )
            });
        }
        Agent::List => {
            let list = Client::connect(at).await?.get("/agents").await?;
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
            let removed = Client::connect(at).await?.delete(&path).await?;
            out.show(&removed, |removed| format!("{} is stopped and forgotten", text(removed, "removed")));
        }
    }
    Ok(())
}

fn callers(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| "listed".to_owned(), str::to_owned)
}

/// What a hard real-time agent was promised.
fn promised(status: &Value) -> String {
    let hard = &status["hrt"];
    match hard["responseBoundUs"].as_f64() {
        None => String::new(),
        Some(bound) => format!("admitted on core {}: every job is done within {bound:.0} µs\n", hard["core"]),
    }
}

/// `althing run`: an agent for as long as this runs.
pub async fn hold(at: &Paths, run: &Run, out: &Out) -> Result<(), Failure> {
    let request = match run.file.extension().and_then(|ending| ending.to_str()) {
        Some("wasm" | "wat") => module(run)?,
        _ => {
            let mut request = read(&run.file)?;
            if let Some(contract) = &run.contract {
                request.file.contract = Some(read_contract(contract)?);
                request.file.requested = Some(read_partial_contract(contract)?);
                checked(&request.file, &run.file)?;
            }
            request
        }
    };
    let mut lines = Client::connect(at).await?.lines("/run", &request).await?;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let line = tokio::select! {
            line = lines.next::<RunLine>() => line?,
            // The node takes the agent away when this hangs up.
            _ = &mut interrupted => return Ok(()),
        };
        match line {
            Some(RunLine::Runs(added)) => out.show(&added, |added| {
                let promise = promised(&added["status"]);
                format!("{} runs as {}\n{promise}Ctrl-C stops it", text(added, "name"), text(added, "id"))
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

/// A module without an agent file: an agent of that name, which says no more of itself.
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
    file.contract = run.contract.as_deref().map(read_contract).transpose()?;
    file.requested = run.contract.as_deref().map(read_partial_contract).transpose()?;
    checked(&file, &path)?;
    Ok(AddRequest { file, folder: path.parent().unwrap_or(Path::new("/")).to_owned(), reservation: None })
}

fn content(path: &Path) -> Result<String, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    read_text(path, FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))
}

/// What an agent file and its contract must fulfil together: for `contract lint` and `agent add` alike.
fn checked(file: &AgentFile, path: &Path) -> Result<(), Failure> {
    file.check().map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Reads and checks a contract.
pub fn read_contract(path: &Path) -> Result<Contract, Failure> {
    parse_contract(&content(path)?).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Reads what may be a part of a contract.
fn read_partial_contract(path: &Path) -> Result<Value, Failure> {
    parse_partial_contract(&content(path)?).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// The contract of a file that is one, or of an agent file.
pub fn read_any_contract(path: &Path) -> Result<Contract, Failure> {
    let text = content(path)?;
    let is_agent = |tree: Value| tree.get("runtime").is_some() || tree.get("name").is_some();
    if !parse_partial_contract(&text).is_ok_and(is_agent) {
        return read_contract(path);
    }
    let request = read(path)?;
    let none =
        || Failure::usage(format!("{}: no contract: add `contract: {{ class: {{ latency: srt }} }}`", path.display()));
    request.file.contract.ok_or_else(none)
}

/// Reads and checks an agent file; relative paths in it start at its folder.
pub fn read(path: &Path) -> Result<AddRequest, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let mut file = AgentFile::parse(&content(path)?).map_err(|error| wrong(error.to_string()))?;
    let whole = path.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let folder = whole.parent().unwrap_or(Path::new("/")).to_owned();
    if let Some(contract) = &file.contract_file {
        let path = folder.join(contract);
        // With a role it need not be whole.
        if file.role.is_none() {
            file.contract = Some(read_contract(&path)?);
        }
        file.requested = Some(read_partial_contract(&path)?);
        checked(&file, &whole)?;
    }
    Ok(AddRequest { file, folder, reservation: None })
}

/// A path segment.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

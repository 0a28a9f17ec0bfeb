//! `althing agent`.

use std::path::Path;

use althing_td::AgentFile;

use crate::args::Agent;
use crate::commands::{Out, rows, table, text};
use crate::control::AddRequest;
use crate::control::client::Client;
use crate::exit::Failure;
use crate::paths::Paths;

/// Largest agent file.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Adds, lists or removes agents.
pub async fn run(at: &Paths, agent: &Agent, out: &Out) -> Result<(), Failure> {
    match agent {
        Agent::Add { file } => {
            let request = read(file)?;
            let added = Client::connect(at).await?.post("/agents", &request).await?;
            out.show(&added, |added| {
                format!("{} runs as {}\nits card: {}", text(added, "name"), text(added, "id"), text(added, "card"))
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

/// Reads and checks an agent file; relative paths in it start at its folder.
pub fn read(path: &Path) -> Result<AddRequest, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let meta = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if meta.len() > FILE_BYTES_MAX {
        return Err(wrong(format!("an agent file has at most {FILE_BYTES_MAX} bytes")));
    }
    let content = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file = AgentFile::parse(&content).map_err(|error| wrong(error.to_string()))?;
    let whole = path.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let folder = whole.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(AddRequest { file, folder })
}

/// A path segment.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

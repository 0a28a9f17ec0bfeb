//! `althing adopt`.

use althing_control::{AcceptRequest, AdoptRequest};
use althing_td::{Callers, ToolServerSpec};
use serde_json::Value;

use crate::args::Adopt;
use crate::commands::{Out, rows, table, text};
use crate::exit::Failure;
use crate::paths::Paths;

/// Shows what is at an address or behind a command, and adds it as an agent.
pub async fn run(at: &Paths, adopt: &Adopt, out: &Out) -> Result<(), Failure> {
    if let Some(name) = &adopt.accept {
        let accepted = at.connect().await?.post("/adopt/accept", &AcceptRequest { name: name.clone() }).await?;
        out.show(&accepted, shown);
        return Ok(());
    }
    let folder = std::env::current_dir().map_err(|error| Failure::failed(format!("the current folder: {error}")))?;
    let request = AdoptRequest {
        at: source(adopt)?,
        folder,
        name: adopt.agent.clone(),
        callers: callers(&adopt.callers),
        dry_run: adopt.dry_run,
    };
    let adopted = at.connect().await?.post("/adopt", &request).await?;
    out.show(&adopted, shown);
    Ok(())
}

fn source(adopt: &Adopt) -> Result<ToolServerSpec, Failure> {
    let is_address = |word: &String| word.starts_with("http://") || word.starts_with("https://");
    match adopt.what.as_slice() {
        [url] if is_address(url) => Ok(ToolServerSpec::Url { url: url.clone(), secret: adopt.secret.clone() }),
        [url, ..] if is_address(url) => Err(Failure::usage("write one address, and the flags before it")),
        _ if adopt.secret.is_some() => Err(Failure::usage("--secret is sent to an address; a command takes none")),
        command => Ok(ToolServerSpec::Command { command: command.to_vec(), cwd: None, env: Default::default() }),
    }
}

/// Who may call an agent, by the word for it.
pub fn callers(word: &str) -> Callers {
    match word {
        "own" => Callers::Own,
        "trusted" => Callers::Trusted,
        "anyone" => Callers::Anyone,
        _ => Callers::ThisNode,
    }
}

fn shown(adopted: &Value) -> String {
    let file = &adopted["file"];
    let who = who(&text(file, "callers"));
    let skills =
        rows(file, "skills").iter().map(|skill| vec![text(skill, "id"), first_line(skill)]).collect::<Vec<_>>();
    let left_out = rows(adopted, "leftOut");
    let left_out: String =
        left_out.iter().map(|one| format!("\nleft out: {}: {}", text(one, "what"), text(one, "why"))).collect();
    let outcome = match adopted.get("added") {
        None if adopted["taken"] == true => {
            "nothing was published. Its name is taken here: --as gives it another; --accept adopts that agent again"
                .to_owned()
        }
        None => "nothing was published: without --dry-run it would be".to_owned(),
        Some(added) => format!("{} runs as {}", text(added, "name"), text(added, "id")),
    };
    format!(
        "found    {} \"{}\"\nagent    {}, version {}\ncallers  {who}\n\n{}{left_out}\n\n{outcome}",
        text(adopted, "kind"),
        text(file, "title"),
        text(file, "name"),
        text(file, "version"),
        table(&["skill", "what it does"], &skills),
    )
}

/// Who may call an agent, for people.
pub fn who(callers: &str) -> String {
    match callers {
        "this-node" => "what runs on this node".to_owned(),
        "own" => "the owner's nodes".to_owned(),
        "trusted" => "those whom the owner trusts".to_owned(),
        other => other.to_owned(),
    }
}

/// The first line of a skill's description, at most 80 characters.
fn first_line(skill: &Value) -> String {
    let description = text(skill, "description");
    description.lines().next().unwrap_or_default().chars().take(80).collect()
}

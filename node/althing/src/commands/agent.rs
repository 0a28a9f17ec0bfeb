//! `althing agent`.

use std::path::Path;

use althing_api::{
    AddRequest, AgentAddition, AgentCondition, AgentInstance, AgentList, AgentRemoval, AgentSummary, Folder,
    RightsChange, RightsChanges, RunLine,
};
use althing_client::{Client, agent_file};
use althing_td::{AgentFile, Exposure};
use serde::Serialize;
use serde_json::json;

use crate::args::{Agent, Run};
use crate::commands::agreement::agree;
use crate::commands::panes::exposed;
use crate::commands::{Out, one_line, print_line, table, waiting};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// An agent that was added, with what its file changed of what was agreed to.
#[derive(Serialize)]
struct Addition<'a> {
    #[serde(flatten)]
    added: &'a AgentAddition,
    #[serde(skip_serializing_if = "<[RightsChange]>::is_empty")]
    changes: &'a [RightsChange],
}

/// Adds, lists or removes agents.
pub async fn run(at: &Paths, agent: &Agent, out: &Out) -> Result<(), Failure> {
    match agent {
        Agent::Add { file, reservation, yes } => {
            let mut request = AddRequest { reservation: reservation.clone(), ..agent_file::read(file)? };
            let (client, escaped) = (at.connect().await?, escape(&request.file.name));
            let changes = compared(&client, "/adding", &mut request, (*yes, "add"), out).await?;
            let changed = changed(&changes);
            let look = async || waiting::of_call(&client, &escaped, false).await;
            let added: AgentAddition = waiting::telling(client.ask("/agents", &request), look, out).await?;
            out.show(&Addition { added: &added, changes: &changes.changes }, |Addition { added, .. }| {
                let promise = promised(added.status.as_ref());
                let changed = if changed.is_empty() { String::new() } else { format!("{changed}\n") };
                format!(
                    "{}\n{changed}{promise}{}its card: {}",
                    standing(&added.name, added),
                    exposed(added.status.as_ref()),
                    added.card.as_deref().unwrap_or_default()
                )
            });
        }
        Agent::List => {
            let list: AgentList = at.connect().await?.read("/agents").await?;
            out.show(&list, |list| {
                let cells = |agent: &AgentSummary| {
                    vec![
                        agent.name.clone(),
                        agent.title.clone(),
                        agent.callers.word().unwrap_or("listed").to_owned(),
                        exposure(agent.exposure).to_owned(),
                        agent.skills.join(" "),
                    ]
                };
                let all: Vec<Vec<String>> = list.agents.iter().map(cells).collect();
                table(&["name", "title", "callers", "exposure", "skills"], &all)
            });
        }
        Agent::Remove { name } => {
            let path = format!("/agents/{}", escape(name));
            let removed: AgentRemoval = at.connect().await?.remove(&path).await?;
            out.show(&removed, |AgentRemoval { removed, secrets_kept: secrets }| {
                let with = if secrets.is_empty() {
                    String::new()
                } else {
                    format!("; its secrets stay ({}): `althing secret remove NAME`", secrets.join(", "))
                };
                format!("{removed} is stopped and removed{with}")
            });
        }
    }
    Ok(())
}

/// What an agent file changes of what was agreed to here, as that path of the API shows it; the request has the agreement to it,
/// where one is needed.
pub async fn compared(
    client: &Client,
    path: &str,
    request: &mut AddRequest,
    (yes, verb): (bool, &str),
    out: &Out,
) -> Result<RightsChanges, Failure> {
    let changes: RightsChanges = client.ask(path, &*request).await?;
    if changes.wider {
        let name = &request.file.name;
        let shown = format!("{name} would reach more than was agreed to here\n{}", changed(&changes));
        agree(&changes, &shown, yes, verb, out)?;
        request.agreed = Some(changes.digest.clone());
    }
    Ok(changes)
}

/// What changed of what an agent may do, a line or more for each; empty if that is nothing.
pub fn changed(changes: &RightsChanges) -> String {
    let line = |RightsChange { what, old, new, wider }: &RightsChange| {
        let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        let mark = if *wider { "wider    " } else { "changed  " };
        // A sandbox that is `none` was not `none` before: nothing was agreed to.
        if old.is_empty() && new.starts_with("none") {
            return format!("{mark}{what}\n  is   {new}");
        }
        format!("{mark}{what}\n  was  {}\n  is   {}", or_none(old), or_none(new))
    };
    changes.changes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How an agent stands that was added, by its name, perhaps with its version: it runs only where its program, or its server,
/// answered.
pub fn standing(named: &str, added: &AgentAddition) -> String {
    let AgentAddition { id, name, status, .. } = added;
    let Some(status) = status else { return format!("{named} runs as {id}") };
    match status.state {
        AgentCondition::Ready | AgentCondition::Degraded if !status.tools_away.is_empty() => {
            let each = status.tools_away.iter().map(|away| format!("{} ({})", away.server, away.why));
            let each = one_line(&each.collect::<Vec<_>>().join(", "));
            format!(
                "{named} runs as {id}, without the tools of servers that have not answered yet: {each}; `althing ps` \
                 shows when they do"
            )
        }
        AgentCondition::Ready | AgentCondition::Degraded => format!("{named} runs as {id}"),
        AgentCondition::Starting => {
            format!("{named} is starting as {id}: its program does not answer yet, and `althing ps` shows when it does")
        }
        state => {
            // What its program, or its server, answered is in it.
            let (state, why) = (state.name(), one_line(status.why.as_deref().unwrap_or_default()));
            let more = if has_programs(status) { "logs" } else { "doctor" };
            format!("{named} is added as {id} and {state}: {why}; `althing {more} {name}` says more")
        }
    }
}

/// Whether an agent has programs, which may have said something: its own, or those of its tool servers.
fn has_programs(status: &AgentInstance) -> bool {
    status.runtime == "process" || !status.containment.is_empty() || status.said.is_some()
}

/// That the program of an agent which was put in the place of another, or installed, ended: the agent stays, and does not run.
pub fn stays(added: &AgentAddition) -> Result<(), Failure> {
    let ended = added.status.as_ref().is_some_and(|status| status.state == AgentCondition::Restarting);
    if ended { Err(Failure::shown(code::FAILED)) } else { Ok(()) }
}

/// The word for who may see an agent.
fn exposure(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::Public => "public",
        Exposure::Trusted => "trusted",
        Exposure::Own => "own",
        Exposure::Hidden => "hidden",
    }
}

/// The guarantee of a hard real-time agent.
fn promised(status: Option<&AgentInstance>) -> String {
    let Some(hard) = status.and_then(|status| status.hrt.as_ref()) else { return String::new() };
    format!("admitted on core {}: every job is done within {:.0} µs\n", hard.core, hard.response_bound_us)
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
    let changed = changed(&compared(&client, "/adding", &mut request, (run.yes, "run"), out).await?);
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
                let status = added.status.as_ref();
                let promise = promised(status) + &exposed(status);
                format!("{}\n{changed}{promise}Ctrl-C stops it", standing(&added.name, added))
            }),
            Some(RunLine::Status(status)) if out.json => print_line(&json!(status).to_string()),
            Some(RunLine::Status(status)) if status.state == AgentCondition::Suspended => {
                return Err(Failure::failed(format!("it was stopped: {}", status.why.unwrap_or_default())));
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
    let folder = Folder::here(path.parent().unwrap_or(Path::new("/")));
    Ok(AddRequest { file, folder, sources: Vec::new(), reservation: None, agreed: None })
}

/// Escapes a path segment.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use althing_api::ToolServerAbsence;

    use super::*;
    use crate::commands::panes::tests::{instance, jobs};

    fn gone() -> AgentAddition {
        AgentAddition { id: "urn:x".to_owned(), name: "weather".to_owned(), card: None, status: None }
    }

    #[test]
    fn scripts_read_of_an_addition_what_changed_only_where_something_did() {
        let added = gone();
        let shown = |changes: &[RightsChange]| json!(Addition { added: &added, changes }).to_string();
        assert_eq!(shown(&[]), r#"{"id":"urn:x","name":"weather","card":null,"status":null}"#);
        let change = RightsChange {
            what: "runtime: command".to_owned(),
            old: String::new(),
            new: "python3".to_owned(),
            wider: true,
        };
        let changes = RightsChanges { changes: vec![change], wider: true, digest: "9c0d".to_owned() };
        assert_eq!(changed(&changes), "wider    runtime: command\n  was  none\n  is   python3");
        let none = "none: it reaches whatever your account does".to_owned();
        let first = RightsChange { what: "runtime: sandbox".to_owned(), new: none, ..changes.changes[0].clone() };
        let first = RightsChanges { changes: vec![first], ..changes.clone() };
        let words = "wider    runtime: sandbox\n  is   none: it reaches whatever your account does";
        assert_eq!(changed(&first), words);
        let expected = concat!(
            r#"{"id":"urn:x","name":"weather","card":null,"status":null,"#,
            r#""changes":[{"what":"runtime: command","old":"","new":"python3","wider":true}]}"#,
        );
        assert_eq!(shown(&changes.changes), expected);
    }

    #[test]
    fn what_is_promised_of_a_hard_real_time_agent_is_said() {
        let arm = AgentInstance { hrt: Some(jobs(0)), ..instance("arm", "hrt") };
        assert_eq!(promised(Some(&arm)), "admitted on core 0: every job is done within 812 µs\n");
        assert_eq!(promised(Some(&instance("clerk", "srt"))) + &promised(None), "");
    }

    #[test]
    fn only_an_agent_that_answered_is_said_to_run() {
        let of = |state: AgentCondition, why: &str| {
            let why = Some(why.to_owned());
            let status = AgentInstance { state, why, runtime: "process".to_owned(), ..instance("weather", "srt") };
            let added = AgentAddition { status: Some(status), ..gone() };
            (standing("weather 1.2.0", &added), stays(&added).is_ok())
        };
        assert_eq!(standing("weather", &gone()), "weather runs as urn:x");
        assert_eq!(of(AgentCondition::Ready, ""), ("weather 1.2.0 runs as urn:x".to_owned(), true));
        let away = ToolServerAbsence { server: "maps".to_owned(), why: "it did not answer within 20 s".to_owned() };
        let status = AgentInstance { tools_away: vec![away], ..instance("weather", "srt") };
        let silent = standing("weather", &AgentAddition { status: Some(status), ..gone() });
        assert!(silent.contains("have not answered yet: maps (it did not answer within 20 s)"), "{silent}");
        let (starting, goes_on) = of(AgentCondition::Starting, "");
        assert!(starting.starts_with("weather 1.2.0 is starting as urn:x: ") && goes_on, "{starting}");
        let (again, goes_on) = of(AgentCondition::Restarting, "it ended with exit status 1");
        let words = "weather 1.2.0 is added as urn:x and restarting: it ended with exit status 1; `althing logs weather` says more";
        assert_eq!((again.as_str(), goes_on), (words, false));
        // A control loop has no program that could have said anything.
        let why = Some("its module trapped".to_owned());
        let stuck = AgentInstance { state: AgentCondition::Suspended, why, ..instance("stuck", "hrt") };
        let stuck = standing("stuck", &AgentAddition { name: "stuck".to_owned(), status: Some(stuck), ..gone() });
        assert!(stuck.ends_with("and suspended: its module trapped; `althing doctor stuck` says more"), "{stuck}");
        let (forged, _) = of(AgentCondition::Restarting, "it ended\nweather 1.2.0 runs as urn:x");
        assert_eq!(forged.lines().count(), 1, "{forged}");
        let gone = of(AgentCondition::Unreachable, "connection refused");
        assert!(gone.0.contains("and unreachable: connection refused") && gone.1, "{gone:?}");
    }
}

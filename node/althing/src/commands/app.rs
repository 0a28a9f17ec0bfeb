//! `althing app`

use std::collections::BTreeMap;
use std::path::Path;

use althing_api::AppRequest;
use althing_store::file::read_text;
use althing_td::{
    AGENT_FILE_BYTES_MAX, APP_FILE_BYTES_MAX, AgentFile, AppAgent, Demand, RuntimeSpec, ToolServerSpec, parse_app,
};
use serde_json::Value;

use crate::args::App;
use crate::commands::agreement::agree;
use crate::commands::{Out, rows, short, table, text};
use crate::exit::Failure;
use crate::paths::Paths;

/// Brings applications up and removes them.
pub async fn run(at: &Paths, app: &App, out: &Out) -> Result<(), Failure> {
    let request = match app {
        App::Apply { file, dry_run, yes } => {
            let (request, agents) = read(file, *dry_run)?;
            if *dry_run { request } else { formed(at, file, (request, agents.as_slice()), *yes, out).await? }
        }
        App::List { group } => AppRequest::List { group: group.clone() },
        App::Show { group, app } => AppRequest::Show { group: group.clone(), app: app.clone() },
        App::Remove { group, app } => AppRequest::Remove { group: group.clone(), app: app.clone() },
    };
    let done = at.connect().await?.post("/apps", &request).await;
    let done = done.map_err(|error| match app {
        App::Apply { file, .. } => Failure::from(error).in_file(file),
        _ => Failure::from(error),
    })?;
    out.show(&done, |done| match app {
        App::Apply { dry_run: true, .. } => changes(done, "would be"),
        App::Apply { .. } => {
            let waiting: Vec<&str> = rows(done, "waiting").iter().filter_map(Value::as_str).collect();
            let note =
                if waiting.is_empty() { String::new() } else { format!("\nnot everywhere yet: {}", waiting.join(" ")) };
            let next = format!("\nnext: althing app show {} {}", text(done, "group"), text(done, "app"));
            format!("{}{note}{next}", changes(done, "is"))
        }
        App::Remove { .. } => changes(done, "is"),
        App::List { .. } => {
            let names: Vec<&str> = rows(done, "apps").iter().filter_map(Value::as_str).collect();
            if names.is_empty() {
                "no application; `althing app apply FILE` brings one up".to_owned()
            } else {
                names.join("\n")
            }
        }
        App::Show { .. } => shown(done),
    });
    Ok(())
}

/// The request, with the agreement to form the group where there is none of that name, which may be mistyped, and to the programs
/// without a sandbox of agents that the group does not run already as they are.
async fn formed(
    at: &Paths,
    file: &Path,
    (mut request, agents): (AppRequest, &[AppAgent]),
    yes: bool,
    out: &Out,
) -> Result<AppRequest, Failure> {
    if let AppRequest::Apply { dry_run, .. } = &mut request {
        *dry_run = true;
    }
    let planned = at.connect().await?.post("/apps", &request).await;
    let planned = planned.map_err(|error| Failure::from(error).in_file(file))?;
    let forms = planned["forms"] == true;
    let open = unbounded(&planned, agents);
    if forms || !open.is_empty() {
        let described = if forms { described(&planned) } else { changes(&planned, "would be") };
        agree(&planned, &format!("{described}{open}"), yes, "bring up", out)?;
    }
    if let AppRequest::Apply { dry_run, form, .. } = &mut request {
        (*dry_run, *form) = (false, forms);
    }
    Ok(request)
}

/// What would be formed, and which groups there are.
fn described(planned: &Value) -> String {
    let groups: Vec<&str> = rows(planned, "groups").iter().filter_map(Value::as_str).collect();
    let known = if groups.is_empty() { "none".to_owned() } else { groups.join(" ") };
    format!(
        "this node has no group {:?}; its groups: {known}\n{}",
        text(planned, "group"),
        changes(planned, "would be")
    )
}

/// The programs without a sandbox of agents that would be added or changed, two lines for each.
fn unbounded(planned: &Value, agents: &[AppAgent]) -> String {
    let is_same = |name: &str| {
        let mut rows = rows(planned, "changes").iter();
        rows.any(|row| row["what"] == "agent" && row["name"] == name && row["change"] == "same")
    };
    let of = |agent: &AppAgent| {
        let line = |program: String| {
            let reaches = "none: it reaches whatever the account of each node that runs it does";
            format!("\nwider    {}: {program}: sandbox\n  is   {reaches}", agent.name)
        };
        without_sandbox(&agent.file).into_iter().map(line).collect::<String>()
    };
    agents.iter().filter(|agent| !is_same(&agent.name)).map(of).collect()
}

/// What the programs of an agent file without a sandbox are called.
fn without_sandbox(file: &AgentFile) -> Vec<String> {
    let own = match &file.runtime {
        RuntimeSpec::Process { sandbox, .. } => Some(("runtime".to_owned(), sandbox)),
        _ => None,
    };
    let tools = file.tools.iter().filter_map(|(name, server)| match server {
        ToolServerSpec::Command { sandbox, .. } => Some((format!("tools.{name}"), sandbox)),
        _ => None,
    });
    let open = own.into_iter().chain(tools).filter(|(_, sandbox)| sandbox.demand == Demand::None);
    open.map(|(name, _)| name).collect()
}

/// An app file with the files that it names, and its agents.
fn read(file: &Path, dry_run: bool) -> Result<(AppRequest, Vec<AppAgent>), Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let most = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let text = read_text(file, most(APP_FILE_BYTES_MAX)).map_err(|error| wrong(error.to_string()))?;
    let file_at = file.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let folder = file_at.parent().unwrap_or(Path::new("/")).to_owned();
    let parsed = parse_app(&text).map_err(|error| wrong(error.to_string()))?;
    let mut files = BTreeMap::new();
    // The node resolves it again: it believes no command line.
    let resolved = parsed.resolve(|path| {
        let text = read_text(&folder.join(path), most(AGENT_FILE_BYTES_MAX)).map_err(|error| error.to_string())?;
        files.insert(path.to_owned(), text.clone());
        Ok(text)
    });
    let agents = resolved.map_err(|error| wrong(error.to_string()))?.agents;
    Ok((AppRequest::Apply { file: text, files, folder, dry_run, form: false }, agents))
}

fn changes(done: &Value, is: &str) -> String {
    let mut lines = Vec::new();
    if done["forms"] == true {
        lines.push(format!("the group {} {is} formed", text(done, "group")));
    }
    for change in rows(done, "changes").iter().filter(|change| change["change"] != "same") {
        lines.push(format!("{} {} {is} {}", text(change, "what"), text(change, "name"), text(change, "change")));
    }
    if lines.is_empty() { "nothing differs".to_owned() } else { lines.join("\n") }
}

fn shown(app: &Value) -> String {
    let list = |agent: &Value, key: &str| {
        let nodes: Vec<String> = rows(agent, key).iter().filter_map(Value::as_str).map(short).collect();
        nodes.join(" ")
    };
    let cells = |agent: &Value| {
        let instances = match agent["instances"].as_u64() {
            Some(0) => "each member".to_owned(),
            other => match agent["instancesMax"].as_u64() {
                Some(most) => format!("{} to {most}", other.unwrap_or_default()),
                None => other.unwrap_or_default().to_string(),
            },
        };
        let runs = if agent["signed"] == false {
            "nowhere: signed with an earlier key, apply it again".to_owned()
        } else {
            list(agent, "runs")
        };
        vec![text(agent, "agent"), instances, list(agent, "placed"), runs]
    };
    let agents: Vec<Vec<String>> = rows(app, "agents").iter().map(cells).collect();
    let names = |key: &str| rows(app, key).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    format!(
        "{}\nworkflows  {}\nschedules  {}",
        table(&["agent", "instances", "placed on", "runs on"], &agents),
        names("workflows"),
        names("schedules")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_brings_an_application_up_is_shown_its_programs_without_a_sandbox_that_are_new() {
        let app = "name: desk\ngroup: team\nagents: [{ file: open.yaml }, { file: held.yaml }, { file: old.yaml }]\n";
        let none = "{ command: [a], sandbox: none }";
        let agent = |path: &str| {
            let name = path.trim_end_matches(".yaml");
            let process = if name == "held" { "{ command: [a] }" } else { none };
            Ok(format!(
                "name: {name}\ndescription: Works\ncontract: {{ class: {{ latency: srt }} }}\nruntime: {{ process: {process} }}\n\
                 tools: {{ box: {process} }}\n"
            ))
        };
        let agents = parse_app(app).and_then(|app| app.resolve(agent)).unwrap_or_else(|error| panic!("{error}")).agents;
        let row = |name: &str, change: &str| json!({ "what": "agent", "name": name, "change": change });
        let planned = json!({ "changes": [row("open", "changed"), row("held", "added"), row("old", "same")] });
        let shown = unbounded(&planned, &agents);
        let told: Vec<&str> = shown.lines().filter(|line| line.starts_with("wider")).collect();
        assert_eq!(told, ["wider    open: runtime: sandbox", "wider    open: tools.box: sandbox"], "{shown}");
    }

    #[test]
    fn a_group_that_would_be_formed_is_shown_beside_those_that_there_are() {
        let changes = json!([{ "what": "agent", "name": "echo", "change": "added" }]);
        let planned = json!({ "group": "taem", "forms": true, "groups": ["team"], "changes": changes });
        let shown = described(&planned);
        for told in ["no group \"taem\"", "its groups: team", "taem would be formed", "agent echo would be added"] {
            assert!(shown.contains(told), "{shown}");
        }
    }
}

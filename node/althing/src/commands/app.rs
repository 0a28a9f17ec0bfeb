//! `althing app`

use std::collections::BTreeMap;
use std::path::Path;

use althing_api::{AppAgentStatus, AppChanges, AppList, AppRequest, AppStatus, LocalPath};
use althing_client::{Client, ClientError};
use althing_store::file::read_text;
use althing_td::{
    AGENT_FILE_BYTES_MAX, APP_FILE_BYTES_MAX, AgentFile, AppAgent, Demand, RuntimeSpec, ToolServerSpec, parse_app,
};

use crate::args::App;
use crate::commands::agent::escape;
use crate::commands::agreement::agree;
use crate::commands::{Out, short, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Brings applications up and removes them.
pub async fn run(at: &Paths, app: &App, out: &Out) -> Result<(), Failure> {
    match app {
        App::Apply { file, dry_run, yes } => {
            let (request, agents) = read(file, *dry_run)?;
            let request =
                if *dry_run { request } else { formed(at, file, (request, agents.as_slice()), *yes, out).await? };
            let done = ask(&at.connect().await?, &request).await;
            let done = done.map_err(|error| Failure::from(error).in_file(file))?;
            out.show(&done, |done| if *dry_run { changes(done, "would be") } else { applied(done) });
        }
        App::List { group } => {
            let list: AppList = at.connect().await?.read(&path(group)).await?;
            out.show(&list, |list| {
                if list.apps.is_empty() {
                    "no application; `althing app apply FILE` brings one up".to_owned()
                } else {
                    list.apps.join("\n")
                }
            });
        }
        App::Show { group, app } => {
            let path = format!("{}/{}", path(group), escape(app));
            let status: AppStatus = at.connect().await?.read(&path).await?;
            out.show(&status, shown);
        }
        App::Remove { group, app } => {
            let request = AppRequest::Remove { group: group.clone(), app: app.clone() };
            let done = ask(&at.connect().await?, &request).await?;
            out.show(&done, |done| changes(done, "is"));
        }
    }
    Ok(())
}

/// Has the node change an application.
async fn ask(client: &Client, request: &AppRequest) -> Result<AppChanges, ClientError> {
    client.ask("/apps", request).await
}

fn path(group: &str) -> String {
    format!("/groups/{}/apps", escape(group))
}

/// What was brought up, and what does not run yet.
fn applied(done: &AppChanges) -> String {
    let waiting = done.waiting.as_deref().unwrap_or_default();
    let note = if waiting.is_empty() { String::new() } else { format!("\nnot everywhere yet: {}", waiting.join(" ")) };
    let next = format!("\nnext: althing app show {} {}", done.group, done.app);
    format!("{}{note}{next}", changes(done, "is"))
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
    let planned = ask(&at.connect().await?, &request).await;
    let planned = planned.map_err(|error| Failure::from(error).in_file(file))?;
    let forms = planned.forms == Some(true);
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
fn described(planned: &AppChanges) -> String {
    let groups = planned.groups.as_deref().unwrap_or_default();
    let known = if groups.is_empty() { "none".to_owned() } else { groups.join(" ") };
    format!("this node has no group {:?}; its groups: {known}\n{}", planned.group, changes(planned, "would be"))
}

/// The programs without a sandbox of agents that would be added or changed, two lines for each.
fn unbounded(planned: &AppChanges, agents: &[AppAgent]) -> String {
    let is_same = |name: &str| {
        let mut all = planned.changes.iter();
        all.any(|one| one.what == "agent" && one.name == name && one.change == "same")
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
    let folder = Some(LocalPath::new(folder));
    Ok((AppRequest::Apply { file: text, files, folder, dry_run, form: false }, agents))
}

fn changes(done: &AppChanges, is: &str) -> String {
    let mut lines = Vec::new();
    if done.forms == Some(true) {
        lines.push(format!("the group {} {is} formed", done.group));
    }
    let differing = done.changes.iter().filter(|one| one.change != "same");
    lines.extend(differing.map(|one| format!("{} {} {is} {}", one.what, one.name, one.change)));
    if lines.is_empty() { "nothing differs".to_owned() } else { lines.join("\n") }
}

fn shown(app: &AppStatus) -> String {
    let list = |nodes: &[String]| nodes.iter().map(|node| short(node)).collect::<Vec<_>>().join(" ");
    let cells = |agent: &AppAgentStatus| {
        let instances = match (agent.instances, agent.instances_max) {
            (0, _) => "each member".to_owned(),
            (least, Some(most)) => format!("{least} to {most}"),
            (count, None) => count.to_string(),
        };
        let runs = if agent.signed {
            list(&agent.runs)
        } else {
            "nowhere: signed with an earlier key, apply it again".to_owned()
        };
        vec![agent.agent.clone(), instances, list(&agent.placed), runs]
    };
    let agents: Vec<Vec<String>> = app.agents.iter().map(cells).collect();
    format!(
        "{}\nworkflows  {}\nschedules  {}",
        table(&["agent", "instances", "placed on", "runs on"], &agents),
        app.workflows.join(" "),
        app.schedules.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use althing_api::AppChange;

    use super::*;

    fn planned(group: &str, rows: &[(&str, &str)]) -> AppChanges {
        let change = |(name, change): &(&str, &str)| AppChange {
            what: "agent".to_owned(),
            name: (*name).to_owned(),
            change: (*change).to_owned(),
        };
        AppChanges {
            app: "desk".to_owned(),
            group: group.to_owned(),
            forms: Some(false),
            changes: rows.iter().map(change).collect(),
            groups: None,
            waiting: None,
        }
    }

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
        let planned = planned("team", &[("open", "changed"), ("held", "added"), ("old", "same")]);
        let shown = unbounded(&planned, &agents);
        let told: Vec<&str> = shown.lines().filter(|line| line.starts_with("wider")).collect();
        assert_eq!(told, ["wider    open: runtime: sandbox", "wider    open: tools.box: sandbox"], "{shown}");
    }

    #[test]
    fn a_group_that_would_be_formed_is_shown_beside_those_that_there_are() {
        let groups = Some(vec!["team".to_owned()]);
        let planned = AppChanges { forms: Some(true), groups, ..planned("taem", &[("echo", "added")]) };
        let shown = described(&planned);
        for told in ["no group \"taem\"", "its groups: team", "taem would be formed", "agent echo would be added"] {
            assert!(shown.contains(told), "{shown}");
        }
    }

    #[test]
    fn what_was_brought_up_is_told_with_what_does_not_run_yet() {
        let mut done = planned("team", &[("echo", "added"), ("old", "same")]);
        done.waiting = Some(Vec::new());
        assert_eq!(applied(&done), "agent echo is added\nnext: althing app show team desk");
        done.waiting = Some(vec!["echo".to_owned()]);
        assert!(applied(&done).contains("\nnot everywhere yet: echo\n"), "{}", applied(&done));
        assert_eq!(changes(&planned("team", &[("old", "same")]), "is"), "nothing differs");
    }

    #[test]
    fn an_application_is_shown_with_where_its_agents_run() {
        let agent = |name: &str, instances, instances_max, signed| AppAgentStatus {
            agent: name.to_owned(),
            instances,
            instances_max,
            placed: vec!["did:key:z6Mk".to_owned()],
            runs: Vec::new(),
            app: Some("desk".to_owned()),
            signed,
        };
        let agents = vec![agent("a", 0, None, true), agent("b", 1, Some(3), true), agent("c", 2, None, false)];
        let (workflows, schedules) = (vec!["letter".to_owned(), "post".to_owned()], Vec::new());
        let said = shown(&AppStatus { app: "desk".to_owned(), agents, workflows, schedules });
        for part in ["each member", "1 to 3", "nowhere: signed with an earlier key", "workflows  letter post"] {
            assert!(said.contains(part), "{part} in\n{said}");
        }
    }
}

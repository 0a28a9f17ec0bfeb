use std::collections::BTreeSet;

use althing_coordination::machine::placement::{Demand, Placed};
use althing_protocol::PublisherId;
use althing_protocol::group::{GroupId, Missed, Target, Workflow};
use althing_td::AgentFile;

use super::*;
use crate::groups::machine::question::one_task;

/// 2026-01-01, Unix milliseconds.
const NOW_MS: u64 = 1_767_225_600_000;

fn agent(name: &str, instances: u8) -> AppAgent {
    let text = format!(
        r#"{{"name":"{name}","description":"Does it","runtime":{{"native":{{"builtin":"echo"}}}},"contract":{{"class":{{"latency":"srt"}}}}}}"#
    );
    let file = AgentFile::parse(&text).expect("an agent file");
    let (labels, needs) = (vec!["roof".to_owned()], Vec::new());
    let path = format!("agents/{name}.yaml");
    AppAgent { name: name.to_owned(), path, text, file, instances, instances_max: None, labels, needs }
}

fn workflow(name: &str) -> Workflow {
    one_task(name, Target::Agent("clerk".to_owned()))
}

fn schedule(name: &str, cron: &str) -> Schedule {
    Schedule {
        name: name.to_owned(),
        cron: cron.to_owned(),
        zone: "Europe/Berlin".to_owned(),
        missed: Missed::Skip,
        workflow: workflow("daily"),
        input: String::new(),
        overlap: None,
    }
}

fn app(agents: Vec<AppAgent>, workflows: Vec<Workflow>, schedules: Vec<Schedule>) -> App {
    App { name: "harbour".to_owned(), group: "crew".to_owned(), agents, workflows, schedules }
}

/// That agent, deployed for the application.
fn hosted(agent: &AppAgent) -> Deployed {
    let made = AppDeployment::of(agent, "harbour", folder()).expect("it is JSON");
    let (group, owner) = (GroupId::from_digest([1; 32]), PublisherId::from_digest([2; 32]));
    let deployment = made.describe(Deployment::new(group, owner, &agent.name, made.file.clone(), 1));
    let placed = Placed { deployment, hosts: Vec::new(), demand: Demand::default() };
    Deployed { placed, is_signed: true }
}

fn folder() -> &'static Path {
    Path::new("/srv/harbour")
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// What a group has where the application was brought up before, with an agent, a workflow and a schedule that it has no more.
fn before() -> GroupParts {
    GroupParts {
        inventory: AppInventory {
            agents: names(["clerk", "gone", "scout"]),
            workflows: names(["left", "review"]),
            schedules: names(["daily", "past"]),
        },
        agents: [agent("clerk", 1), agent("scout", 1)].iter().map(|it| (it.name.clone(), hosted(it))).collect(),
        workflows: [("review".to_owned(), workflow("review").to_bytes())].into(),
        schedules: [("daily".to_owned(), schedule("daily", "30 6 * * *"))].into(),
        others: BTreeMap::new(),
    }
}

fn now() -> App {
    let agents = vec![agent("clerk", 1), agent("scout", 2), agent("new", 1)];
    app(agents, vec![workflow("review"), workflow("other")], vec![schedule("daily", "30 7 * * *")])
}

fn plan() -> AppPlan {
    AppPlan::of(&now(), folder(), &before()).expect("a plan")
}

/// A step in words.
fn told(step: &PlanStep) -> String {
    match step {
        PlanStep::Deploy(made) => format!("deploy {}", made.agent),
        PlanStep::Undeploy(agent) => format!("undeploy {agent}"),
        PlanStep::Execute(command) => match &**command {
            Command::Set(set) if set.key.starts_with(APPS) => {
                format!("{} = {}", set.key, String::from_utf8_lossy(&set.value))
            }
            Command::Set(set) => format!("set {}", set.key),
            Command::Remove(remove) => format!("remove {}", remove.key),
            Command::Schedule(schedule) => format!("schedule {} {}", schedule.name, schedule.cron),
            Command::Unschedule(name) => format!("unschedule {name}"),
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn each_part_is_added_changed_left_or_removed() {
    let plan = plan();
    let changes = plan.changes.iter().map(|it| (it.kind.name(), it.name.as_str(), it.difference.name()));
    let expected = [
        ("agent", "clerk", "same"),
        ("agent", "scout", "changed"),
        ("agent", "new", "added"),
        ("workflow", "review", "same"),
        ("workflow", "other", "added"),
        ("schedule", "daily", "changed"),
        ("schedule", "past", "removed"),
        ("workflow", "left", "removed"),
        ("agent", "gone", "removed"),
    ];
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

#[test]
fn what_an_attempt_may_leave_is_written_down_before_it_and_what_is_left_after_it() {
    let steps: Vec<String> = plan().steps().iter().map(told).collect();
    let expected = [
        r#"app/harbour = {"agents":["clerk","gone","new","scout"],"workflows":["left","other","review"],"schedules":["daily","past"]}"#,
        "deploy scout",
        "deploy new",
        "set workflow/other",
        "schedule daily 30 7 * * *",
        "unschedule past",
        "remove workflow/left",
        "undeploy gone",
        r#"app/harbour = {"agents":["clerk","new","scout"],"workflows":["other","review"],"schedules":["daily"]}"#,
    ];
    assert_eq!(steps, expected);
    // A second attempt that finds what the first one wrote first has as much to do.
    let mut interrupted = before();
    interrupted.inventory.agents = names(["clerk", "gone", "new", "scout"]);
    interrupted.inventory.workflows = names(["left", "other", "review"]);
    assert_eq!(AppPlan::of(&now(), folder(), &interrupted).expect("a plan").steps(), plan().steps());
}

#[test]
fn an_application_is_removed_with_what_is_written_of_it() {
    let steps = AppPlan::removal("harbour", &before().inventory).steps();
    let steps: Vec<String> = steps.iter().map(told).collect();
    let (first, rest) = steps.split_first().expect("steps");
    assert!(first.starts_with("app/harbour = ") && first.contains("scout"), "{first}");
    let expected = [
        "unschedule daily",
        "unschedule past",
        "remove workflow/left",
        "remove workflow/review",
        "undeploy clerk",
        "undeploy gone",
        "undeploy scout",
        "remove app/harbour",
    ];
    assert_eq!(rest, expected);
}

#[test]
fn an_agent_is_deployed_as_the_app_file_says_and_again_once_anything_of_it_differs() {
    let agent = agent("scout", 2);
    let made = hosted(&agent).placed.deployment;
    assert_eq!((made.folder.as_str(), made.app.as_deref()), ("/srv/harbour/agents", Some("harbour")));
    assert_eq!((made.instances, made.labels.as_slice()), (2, &["roof".to_owned()][..]));
    let differs = |change: fn(&mut Deployed)| {
        let mut there = hosted(&agent);
        change(&mut there);
        let parts = GroupParts { agents: [("scout".to_owned(), there)].into(), ..GroupParts::default() };
        let plan = AppPlan::of(&app(vec![agent.clone()], Vec::new(), Vec::new()), folder(), &parts).expect("a plan");
        plan.changes[0].difference
    };
    assert_eq!(differs(|_| ()), Difference::Same);
    let changes: [fn(&mut Deployed); 7] = [
        |it| it.is_signed = false,
        |it| it.placed.deployment.folder.clear(),
        |it| it.placed.deployment.instances_max = Some(9),
        |it| it.placed.deployment.labels.clear(),
        |it| it.placed.deployment.needs.push("clerk".to_owned()),
        |it| it.placed.deployment.app = None,
        |it| it.placed.deployment.file = b"{}".to_vec().into(),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert_eq!(differs(change), Difference::Changed, "{at}");
    }
}

#[test]
fn what_belongs_to_another_application_is_left_to_it() {
    let mut parts = before();
    parts.others.insert((PartKind::Workflow, "other".to_owned()), "ferry".to_owned());
    parts.others.insert((PartKind::Agent, "other".to_owned()), "barge".to_owned());
    let refused = AppPlan::of(&now(), folder(), &parts).expect_err("it is another's");
    let words = r#"the workflow "other" belongs to the application "ferry" of the group; choose another name"#;
    assert_eq!((refused.to_string().as_str(), refused.kind()), (words, Kind::Refused));
}

#[test]
fn a_schedule_without_times_is_named_with_its_place_and_field() {
    let with = |schedules: Vec<Schedule>| check_times(&app(Vec::new(), Vec::new(), schedules), NOW_MS);
    assert_eq!(with(vec![schedule("daily", "30 6 * * *")]), Ok(()));
    let nowhere = Schedule { zone: "Mars/Olympus".to_owned(), ..schedule("late", "30 6 * * *") };
    for (wrong, place) in [(schedule("late", "61 6 * * *"), "schedules[1].cron"), (nowhere, "schedules[1].zone")] {
        let refused = with(vec![schedule("daily", "30 6 * * *"), wrong]).expect_err("it never comes");
        assert!(refused.to_string().starts_with(&format!("{place} of \"late\": ")), "{refused}");
        assert_eq!(refused.kind(), Kind::Invalid);
    }
}

use std::collections::BTreeMap;
use std::path::PathBuf;

use althing_protocol::group::{Action, Missed, Overlap, Target};

use super::*;

/// Files by path.
type Files = BTreeMap<String, String>;

fn agent(name: &str) -> String {
    format!("name: {name}\ndescription: Works.\nruntime: {{ native: {{ builtin: echo }} }}\n")
}

fn workflow(name: &str, target: &str) -> String {
    format!("name: {name}\nsteps:\n  - {{ id: only, {target} }}\n")
}

/// Three agents `a`, `b` and `c`, and two workflows `x` and `y`, each in the file of its name.
fn files() -> Files {
    let agents = ["a", "b", "c"].map(|name| (format!("{name}.yaml"), agent(name)));
    let flows = [("x", "agent: a"), ("y", "capability: not.here")];
    let flows = flows.map(|(name, target)| (format!("{name}.yaml"), workflow(name, target)));
    agents.into_iter().chain(flows).collect()
}

fn resolved(text: &str, files: &Files) -> Result<App, AppFileError> {
    parse_app(text)?.resolve(|path| files.get(path).cloned().ok_or_else(|| "no such file".to_owned()))
}

#[track_caller]
fn problems(found: Result<impl std::fmt::Debug, AppFileError>) -> Vec<FileProblem> {
    match found {
        Err(AppFileError::Invalid(problems)) => problems,
        other => panic!("expected problems, got {other:?}"),
    }
}

#[track_caller]
fn one(found: Result<impl std::fmt::Debug, AppFileError>) -> FileProblem {
    let all = problems(found);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(!all[0].message.is_empty() && !all[0].fix.is_empty(), "{all:?}");
    all.into_iter().next().expect("one")
}

/// A file of this project, from the folder of the crate. Asked at run time: checkouts may share a build.
fn project(path: &str) -> Result<String, String> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    std::fs::read_to_string(here.join(path)).map_err(|error| error.to_string())
}

#[test]
fn the_reference_names_every_key_and_its_example_is_an_app_file() {
    let text = project("../docs/workflows.md").expect("the reference");
    let lists = read::AGENT_KEYS.iter().chain(&read::WORKFLOW_KEYS).chain(&read::SCHEDULE_KEYS);
    for key in read::FILE_KEYS.iter().chain(lists) {
        assert!(text.contains(&format!("`{key}`")), "{key} is not in docs/workflows.md");
    }
    let example = text.split("```yaml\n").nth(2).and_then(|rest| rest.split_once("```")).expect("an example").0;
    let file = parse_app(example).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((file.name.as_str(), file.agents.len(), file.schedules.len()), ("shop", 2, 1));
}

#[test]
fn the_example_is_an_app() {
    let read = |path: &str| project(&format!("../docs/examples/apps/echo/{path}"));
    let file = parse_app(&read("app.yaml").expect("the example")).expect("an app file");
    let app = file.resolve(read).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((app.name.as_str(), app.group.as_str()), ("echo-twice", "team"));
    let [echo] = app.agents.as_slice() else { panic!("one agent: {:?}", app.agents) };
    assert_eq!((echo.name.as_str(), echo.instances), ("echo", 2));
    assert_eq!(AgentFile::parse(&echo.text).as_ref(), Ok(&echo.file));
    let original = project("examples/echo.yaml");
    assert_eq!(AgentFile::parse(&original.expect("the agent")).as_ref(), Ok(&echo.file), "a copy of that agent file");
    let [nightly] = app.schedules.as_slice() else { panic!("one schedule: {:?}", app.schedules) };
    assert_eq!((nightly.name.as_str(), nightly.zone.as_str()), ("nightly", "Europe/Berlin"));
    assert_eq!((nightly.missed, &nightly.workflow), (Missed::RunOnce, &app.workflows[0]));
    assert_eq!(nightly.workflow.check(), Ok(()));
}

#[test]
fn agents_stand_after_those_that_they_need_and_defaults_are_filled_in() {
    let text = "name: shop\ngroup: team\nagents:\n  \
                - { file: ./c.yaml, needs: [b, a], instances: 16, labels: fast }\n  \
                - { file: b.yaml, needs: a }\n  \
                - { file: a.yaml }\n\
                workflows: [{ file: x.yaml }, { file: y.yaml }]\n\
                schedules: [{ name: daily, cron: \"0 3 * * *\", workflow: y }]\n";
    let mut files = files();
    files.insert("./c.yaml".to_owned(), agent("c"));
    let app = resolved(text, &files).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = app.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let (first, last) = (&app.agents[0], &app.agents[2]);
    assert_eq!((first.instances, first.labels.len(), first.needs.len()), (1, 0, 0));
    assert_eq!(
        (last.instances, &last.labels[..], &last.needs[..]),
        (16, &["fast".to_owned()][..], &["b".to_owned(), "a".to_owned()][..])
    );
    let daily = &app.schedules[0];
    assert_eq!((daily.zone.as_str(), daily.input.as_str(), daily.missed), ("UTC", "", Missed::Skip));
    assert_eq!(daily.overlap, Some(Overlap::Skip));
    assert_eq!(daily.workflow.name, "y");
    let Action::Task(job) = &daily.workflow.steps[0].action else { panic!("a task") };
    assert_eq!(job.needs.target, Target::Capability("not.here".to_owned()), "other members may offer it");
    let id = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw";
    let small = format!("name: small\ngroup: {id}\nagents: [{{ file: a.yaml }}]\n");
    let small = resolved(&small, &files).expect("workflows and schedules may be left out");
    assert_eq!((small.group.as_str(), small.workflows.len(), small.schedules.len()), (id, 0, 0));
}

#[test]
fn each_problem_of_the_file_has_its_field_its_rule_and_its_line() {
    let long = "x".repeat(129);
    let schedule = |field: &str| format!("schedules: [{{ name: s, cron: \"* * * * *\", workflow: x, {field} }}]");
    let times = |field: &str| format!("schedules: [{{ name: s, workflow: x, {field} }}]");
    let agent = |field: &str| format!("agents: [{{ file: a.yaml, {field} }}]");
    for (entry, field, rule) in [
        ("agent: x".to_owned(), "agent", "unknown-key"),
        (agent("instance: 2"), "agents[0].instance", "unknown-key"),
        (agent("instances: 0"), "agents[0].instances", "out-of-range"),
        (agent("instances: 17"), "agents[0].instances", "out-of-range"),
        (agent("instances: two"), "agents[0].instances", "wrong-type"),
        (agent("instances: 3, instances_max: 2"), "agents[0].instances_max", "out-of-range"),
        (agent("instances_max: 17"), "agents[0].instances_max", "out-of-range"),
        (agent("labels: { a: b }"), "agents[0].labels", "wrong-type"),
        (agent("labels: [a, a]"), "agents[0].labels", "twice"),
        (agent(&format!("labels: [{long}]")), "agents[0].labels", "out-of-range"),
        (agent("needs: [b, b]"), "agents[0].needs", "twice"),
        ("agents: [{}]".to_owned(), "agents[0].file", "missing"),
        ("agents: [a.yaml]".to_owned(), "agents[0]", "wrong-type"),
        ("agents: []".to_owned(), "agents", "out-of-range"),
        ("agents: [{ file: /a.yaml }]".to_owned(), "agents[0].file", "path"),
        ("agents: [{ file: ../a.yaml }]".to_owned(), "agents[0].file", "path"),
        ("agents: [{ file: b/../../a.yaml }]".to_owned(), "agents[0].file", "path"),
        ("agents: [{ file: . }]".to_owned(), "agents[0].file", "path"),
        ("agents: [{ file: b/ }]".to_owned(), "agents[0].file", "path"),
        ("agents: [{ file: \"a\\0.yaml\" }]".to_owned(), "agents[0].file", "path"),
        ("workflows: [{ file: 5 }]".to_owned(), "workflows[0].file", "wrong-type"),
        ("workflows: [{ name: x, file: x.yaml }]".to_owned(), "workflows[0].name", "unknown-key"),
        ("workflows: x.yaml".to_owned(), "workflows", "wrong-type"),
        (schedule("missed: twice"), "schedules[0].missed", "unknown-word"),
        (schedule("overlap: wait"), "schedules[0].overlap", "unknown-word"),
        (schedule("zone: \"Europe Berlin\""), "schedules[0].zone", "zone"),
        (schedule("input: 5"), "schedules[0].input", "wrong-type"),
        (schedule("every: day"), "schedules[0].every", "unknown-key"),
        (schedule(&format!("input: {}", "x".repeat((64 << 10) + 1))), "schedules[0].input", "out-of-range"),
        (times("cron: \"0 0 3 * * *\""), "schedules[0].cron", "cron"),
        (times("cron: daily"), "schedules[0].cron", "cron"),
        (times("zone: UTC"), "schedules[0].cron", "missing"),
        ("schedules: [{ name: S, cron: \"@daily\", workflow: x }]".to_owned(), "schedules[0].name", "name-form"),
        ("schedules: [{ name: s, cron: \"@daily\" }]".to_owned(), "schedules[0].workflow", "missing"),
        ("group: The team".to_owned(), "group", "group-form"),
        ("name: -shop".to_owned(), "name", "name-form"),
    ] {
        let all = [("name", "name: shop"), ("group", "group: team"), ("agents", "agents: [{ file: a.yaml }]")];
        let others = all.iter().filter(|(key, _)| !entry.starts_with(&format!("{key}:")));
        let others: Vec<&str> = others.map(|(_, line)| *line).collect();
        let workflows = if entry.starts_with("workflows") { "" } else { "\nworkflows: [{ file: x.yaml }]" };
        let text = format!("{}{workflows}\n{entry}\n", others.join("\n"));
        let line = u64::try_from(text.trim_end().lines().count()).ok();
        let found = problems(parse_app(&text));
        let expected = found.iter().find(|found| (found.field.as_str(), found.rule) == (field, rule));
        let found_line = expected.map(|found| found.line);
        assert_eq!(found_line, Some(line), "{entry:.80}: {found:?}");
        assert!(found.iter().all(|found| !found.fix.is_empty()) && found.len() == 1, "{entry:.80}: {found:?}");
    }
}

#[test]
fn a_file_has_bounds_and_a_name_is_given_once() {
    let many = |entry: &str, count: usize| vec![entry; count].join(", ");
    let app = |rest: &str| parse_app(&format!("name: shop\ngroup: team\nagents: [{{ file: a.yaml }}]\n{rest}\n"));
    let agents =
        |count: usize| parse_app(&format!("name: shop\ngroup: team\nagents: [{}]\n", many("{ file: a.yaml }", count)));
    assert!(agents(APP_AGENTS_MAX).is_ok());
    assert_eq!(one(agents(APP_AGENTS_MAX + 1)).message, "the list has 65 items");
    let flows = |count: usize| app(&format!("workflows: [{}]", many("{ file: x.yaml }", count)));
    assert!(flows(APP_WORKFLOWS_MAX).is_ok());
    assert_eq!(one(flows(APP_WORKFLOWS_MAX + 1)).field, "workflows");
    let schedules = |count: usize| {
        let each = (0..count).map(|n| format!("{{ name: s{n}, cron: \"@daily\", workflow: x }}"));
        app(&format!("schedules: [{}]", each.collect::<Vec<_>>().join(", ")))
    };
    assert!(schedules(APP_SCHEDULES_MAX).is_ok());
    assert_eq!(one(schedules(APP_SCHEDULES_MAX + 1)).field, "schedules");
    let twice =
        app("schedules:\n- { name: s, cron: \"@daily\", workflow: x }\n- { name: s, cron: \"@daily\", workflow: x }");
    let twice = one(twice);
    assert_eq!((twice.field.as_str(), twice.rule, twice.line), ("schedules[1].name", "name-twice", Some(6)));
    let long = " ".repeat(APP_FILE_BYTES_MAX + 1);
    assert_eq!(parse_app(&long), Err(AppFileError::TooLarge(APP_FILE_BYTES_MAX + 1)));
    assert!(matches!(parse_app("name: [\n"), Err(AppFileError::Yaml { .. })));
    let all = problems(parse_app("nam: shop\n"));
    assert_eq!(all.iter().map(|it| it.rule).collect::<Vec<_>>(), ["unknown-key", "missing", "missing", "missing"]);
    assert!(all[0].fix.starts_with("Did you mean \"name\"?"), "{}", all[0]);
}

#[test]
fn what_does_not_fit_together_is_refused_with_its_line() {
    let (agents, none) = ("agents:\n- { file: a.yaml }\n- { file: b.yaml }\n", "");
    let needs =
        |a: &str, b: &str| format!("agents:\n- {{ file: a.yaml, needs: [{a}] }}\n- {{ file: b.yaml, needs: [{b}] }}\n");
    let flow = |file: &str| format!("workflows:\n- {{ file: x.yaml }}\n- {{ file: {file} }}\n");
    let schedule = |of: &str| format!("schedules:\n- {{ name: s, cron: \"@daily\", workflow: {of} }}\n");
    let mut files = files();
    files.insert("other-a.yaml".to_owned(), agent("a"));
    files.insert("other-x.yaml".to_owned(), workflow("x", "agent: a"));
    files.insert("stranger.yaml".to_owned(), workflow("stranger", "agent: bb"));
    for (rest, field, rule, line, told) in [
        (needs("a.yaml", none), "agents[0].needs", "unknown-agent", 4, "\"a.yaml\""),
        (needs("b", "a"), "agents[0].needs", "circle", 4, "a → b → a"),
        (needs(none, "b"), "agents[1].needs", "circle", 5, "b → b"),
        ("agents:\n- { file: a.yaml }\n- { file: a.yaml }\n".to_owned(), "agents[1].file", "name-twice", 5, "\"a\""),
        (
            "agents:\n- { file: a.yaml }\n- { file: other-a.yaml }\n".to_owned(),
            "agents[1].file",
            "name-twice",
            5,
            "\"a\"",
        ),
        (format!("{agents}{}", flow("other-x.yaml")), "workflows[1].file", "name-twice", 8, "\"x\""),
        (format!("{agents}{}", flow("stranger.yaml")), "workflows[1].file", "unknown-agent", 8, "\"bb\""),
        (format!("{agents}{}", flow("none.yaml")), "workflows[1].file", "unreadable", 8, "no such file"),
        ("agents:\n- { file: sub/none.yaml }\n".to_owned(), "agents[0].file", "unreadable", 4, "no such file"),
        (
            format!("{agents}{}{}", flow("y.yaml"), schedule("xx")),
            "schedules[0].workflow",
            "unknown-workflow",
            10,
            "\"xx\"",
        ),
        (format!("{agents}{}", schedule("x")), "schedules[0].workflow", "unknown-workflow", 7, "\"x\""),
    ] {
        let found = one(resolved(&format!("name: shop\ngroup: team\n{rest}"), &files));
        assert_eq!((found.field.as_str(), found.rule, found.line), (field, rule, Some(line)), "{rest}{found}");
        assert!(found.message.contains(told), "{found}");
    }
}

#[test]
fn what_is_wrong_in_a_file_that_is_named_is_told_with_both_places() {
    let mut files = files();
    files.insert("a.yaml".to_owned(), agent("a").replace("runtime", "runtimes"));
    files.insert("b.yaml".to_owned(), "name: [".to_owned());
    files.insert("x.yaml".to_owned(), workflow("x", "agent: a, after: b"));
    files.insert("y.yaml".to_owned(), "x".repeat(200_000));
    let text = "name: shop\ngroup: team\nagents:\n- { file: a.yaml, needs: nobody }\n- { file: b.yaml }\n\
                workflows:\n- { file: x.yaml }\n- { file: y.yaml }\n";
    let found = problems(resolved(text, &files));
    let rules: Vec<_> = found.iter().map(|it| (it.field.as_str(), it.rule, it.line.unwrap_or_default())).collect();
    assert_eq!(
        rules,
        [
            ("agents[0].file", "unknown-key", 4),
            ("agents[0].file", "missing", 4),
            ("agents[1].file", "not-valid", 5),
            ("workflows[0].file", "unknown-step", 7),
            ("workflows[1].file", "not-valid", 8),
        ],
        "and nothing that follows from it"
    );
    assert!(found[0].message.starts_with("in \"a.yaml\", line 3, runtimes: "), "{}", found[0]);
    assert!(found[3].message.starts_with("in \"x.yaml\", line 3, steps[0].after: "), "{}", found[3]);
}

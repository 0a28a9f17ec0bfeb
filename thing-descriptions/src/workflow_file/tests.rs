use std::path::PathBuf;

use althing_protocol::contract::Latency;
use althing_protocol::group::{Action, Priority, Target, Test};

use super::*;

fn problems(text: &str) -> Vec<FileProblem> {
    match parse_workflow(text) {
        Err(WorkflowFileError::Invalid(problems)) => problems,
        other => panic!("expected problems, got {other:?}"),
    }
}

#[track_caller]
fn one(text: &str) -> FileProblem {
    let all = problems(text);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(!all[0].message.is_empty() && !all[0].fix.is_empty(), "{all:?}");
    all.into_iter().next().expect("one")
}

/// A place in `docs`. Asked at run time: checkouts may share a build.
fn docs(path: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is")).join("../docs").join(path)
}

#[test]
fn the_reference_names_every_key_and_its_example_can_run() {
    let text = std::fs::read_to_string(docs("workflows.md")).expect("the reference");
    let steps = read::STEP_KEYS.iter().chain(&read::WHEN_KEYS).chain(&read::REPEAT_KEYS);
    for key in read::FILE_KEYS.iter().chain(steps).chain(&read::NEEDS_KEYS) {
        assert!(text.contains(&format!("`{key}`")), "{key} is not in docs/workflows.md");
    }
    let example = text.split("```yaml\n").nth(1).and_then(|rest| rest.split_once("```")).expect("an example").0;
    let workflow = parse_workflow(example).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(workflow.name, "report");
}

#[test]
fn steps_are_brought_into_order_and_get_their_defaults() {
    let text = "name: some\nsteps:\n\
                - { id: last, after: first, agent: writer, timeout: 2m, attempts: 3, lease: 30s, verify: true }\n\
                - { id: each, capability: a.b, for_each: first, needs: { labels: [x], cores: 2, class: dt } }\n\
                - { id: first, capability: a.b, priority: high, when: { step: zero, contains: yes } }\n\
                - { id: loop, capability: a.b, after: first, repeat: { from: loop, equals: 17 } }\n\
                - { id: zero, approve: \"Go on?\" }\n";
    let workflow = parse_workflow(text).expect("it can run");
    let ids: Vec<&str> = workflow.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["zero", "first", "last", "each", "loop"]);
    let job = |at: usize| match &workflow.steps[at].action {
        Action::Task(job) => job.as_ref(),
        Action::Approval(_) => panic!("a task"),
    };
    let (first, last, each) = (&workflow.steps[1], &workflow.steps[2], job(3));
    assert_eq!(first.when.as_ref().map(|when| &when.test), Some(&Test::Contains("yes".to_owned())));
    assert_eq!(first.after, ["zero"], "a condition on a step waits for it");
    assert_eq!((job(1).priority, job(1).input.as_str()), (Priority::High, "{{input}}"));
    let repeat = workflow.steps[4].repeat.as_ref().expect("a loop");
    assert_eq!((&repeat.until, repeat.rounds_max), (&Test::Equals("17".to_owned()), 3));
    assert_eq!(last.timeout_ms, Some(120_000));
    assert_eq!((job(2).attempts_max, job(2).lease_ms), (3, 30_000));
    assert_eq!((job(1).verify, job(2).verify), (None, Some(true)));
    assert_eq!(job(2).needs.target, Target::Agent("writer".to_owned()));
    assert_eq!((job(1).attempts_max, job(1).lease_ms, first.timeout_ms), (1, 10_000, None));
    assert_eq!((each.input.as_str(), each.for_each.as_deref()), ("{{item}}", Some("first")));
    assert_eq!((each.needs.labels.len(), each.needs.cores, each.needs.class), (1, Some(2), Some(Latency::Dt)));
}

#[test]
fn each_problem_has_its_field_its_rule_and_its_line() {
    let of_a_task = |field: &str| format!("{{ id: b, capability: a.b, {field} }}");
    let long = "x".repeat(129);
    let labels = format!("needs: {{ labels: [{}] }}", (0..17).map(|n| format!("l{n}")).collect::<Vec<_>>().join(", "));
    for (step, field, rule) in [
        (of_a_task("afer: a"), "afer", "unknown-key"),
        (of_a_task("after: aa"), "after", "unknown-step"),
        (of_a_task("after: [a, a]"), "after", "twice"),
        (of_a_task("after: [1]"), "after[0]", "wrong-type"),
        (of_a_task("for_each: c"), "for_each", "unknown-step"),
        (of_a_task("when: { step: c, equals: x }"), "when.step", "unknown-step"),
        (of_a_task("repeat: { from: c, equals: x }"), "repeat.from", "unknown-step"),
        (of_a_task("when: { step: a }"), "when", "test-choice"),
        (of_a_task("when: { step: a, equals: x, contains: y }"), "when", "test-choice"),
        (of_a_task("when: { equals: x }"), "when.step", "missing"),
        (of_a_task("when: { step: a, equals: [x] }"), "when.equals", "wrong-type"),
        (of_a_task("when: { step: a, contains: \"\" }"), "when.contains", "out-of-range"),
        (of_a_task("repeat: { from: a, equals: x, rounds: 17 }"), "repeat.rounds", "out-of-range"),
        (of_a_task("attempts: many"), "attempts", "wrong-type"),
        (of_a_task("attempts: 300"), "attempts", "out-of-range"),
        (of_a_task("verify: always"), "verify", "wrong-type"),
        (of_a_task("timeout: 5"), "timeout", "wrong-type"),
        (of_a_task("timeout: 5 minutes"), "timeout", "time-form"),
        (of_a_task("timeout: 31d"), "timeout", "out-of-range"),
        (of_a_task("lease: 11m"), "lease", "out-of-range"),
        (of_a_task("priority: urgent"), "priority", "unknown-word"),
        (of_a_task("needs: { class: fast }"), "needs.class", "unknown-word"),
        (of_a_task("needs: { gpu: 1 }"), "needs.gpu", "unknown-key"),
        (of_a_task("needs: { cores: -1 }"), "needs.cores", "wrong-type"),
        (of_a_task(&labels), "needs.labels", "out-of-range"),
        (of_a_task("input: \"{{step.a}}\""), "input", "not-valid"),
        (of_a_task("input: \"{{steps.a}}\""), "input", "not-valid"),
        (of_a_task("input: \"{{item}}\""), "input", "not-valid"),
        ("{ id: a, capability: a.b }".to_owned(), "id", "id-twice"),
        ("{ id: B, capability: a.b }".to_owned(), "id", "id-form"),
        ("{ capability: a.b }".to_owned(), "id", "missing"),
        ("{ id: b, agent: The-Writer }".to_owned(), "agent", "name-form"),
        (format!("{{ id: b, capability: {long} }}"), "capability", "out-of-range"),
        ("{ id: b, approve: x, lease: 5s }".to_owned(), "lease", "not-both"),
        ("{ id: b, approve: x, verify: true }".to_owned(), "verify", "not-both"),
        ("{ id: b, approve: x, repeat: { from: b, equals: x } }".to_owned(), "repeat", "not-valid"),
    ] {
        let text = format!("name: some\nsteps:\n  - {{ id: a, capability: a.b }}\n  - {step}\n");
        let found = one(&text);
        assert_eq!((found.field, found.rule), (format!("steps[1].{field}"), rule), "{step}: {}", found.message);
        assert_eq!(found.line, Some(4), "{step}");
    }
    for step in ["{ id: b }", "{ id: b, approve: x, agent: y }"] {
        let found = one(&format!("name: some\nsteps:\n  - {step}\n"));
        assert_eq!((found.field.as_str(), found.rule, found.line), ("steps[0]", "action-choice", Some(3)), "{step}");
    }
}

#[test]
fn a_problem_of_the_whole_file_is_named_too() {
    let step = |id: usize, input: &str| format!("  - {{ id: s{id}, agent: n, input: \"{input}\" }}\n");
    let steps = |count: usize, input: &str| (0..count).map(|id| step(id, input)).collect::<String>();
    let (many, long) = (steps(65, ""), steps(2, &"x".repeat(40 << 10)));
    for (text, field, rule, line) in [
        ("name: some\n".to_owned(), "steps", "missing", 1),
        ("name: some\nsteps: []\n".to_owned(), "steps", "out-of-range", 2),
        ("name: some\nsteps: { id: a }\n".to_owned(), "steps", "wrong-type", 2),
        (format!("name: some\nsteps:\n{many}"), "steps", "out-of-range", 3),
        (format!("name: some\nsteps:\n{long}"), "steps", "not-valid", 2),
        ("name: So me\nsteps: [{ id: a, agent: n }]\n".to_owned(), "name", "name-form", 1),
    ] {
        let found = one(&text);
        assert_eq!((found.field.as_str(), found.rule, found.line), (field, rule, Some(line)), "{found}");
    }
    let all = problems("steps: [{ id: a }, { agent: b }]\n");
    assert_eq!(all.len(), 3, "all of them are told at once: {all:?}");
    let error =
        parse_workflow("name: some\nsteps:\n  - { id: a, capability: a.b, afer: x }\n").expect_err("a typing error");
    let told = "line 3: steps[0].afer: this key is not known [unknown-key]. Did you mean \"after\"?";
    assert!(error.to_string().contains(told), "{error}");
    let unknown = one("name: some\nsteps:\n  - { id: first, agent: n }\n  - { id: b, agent: n, after: frist }\n");
    assert_eq!(unknown.fix, "Did you mean \"first\"? Known: first, b");
    assert!(matches!(parse_workflow("name: [\n"), Err(WorkflowFileError::Yaml { .. })));
    let long = " ".repeat(WORKFLOW_FILE_BYTES_MAX + 1);
    assert_eq!(parse_workflow(&long), Err(WorkflowFileError::TooLarge(WORKFLOW_FILE_BYTES_MAX + 1)));
}

#[test]
fn what_the_protocol_refuses_is_told_with_what_to_do() {
    let found = one("name: some\nsteps: [{ id: a, agent: n }, { id: b, agent: n, input: \"{{x; y}}\" }]\n");
    assert_eq!(found.message, "{{x; y}} is no placeholder");
    assert_eq!(found.fix, "Write {{input}}, {{item}} or {{step.ID}}");
    let names: Vec<String> = (0..17).map(|n| format!("s{n}")).collect();
    let steps: String = names.iter().map(|id| format!("  - {{ id: {id}, agent: n }}\n")).collect();
    let found = one(&format!("name: some\nsteps:\n{steps}  - {{ id: b, agent: n, after: [{}] }}\n", names.join(", ")));
    assert_eq!((found.field.as_str(), found.line), ("steps[17].after", Some(20)));
    assert!(found.message.contains("at most 16"), "{found}");
}

#[test]
fn a_circle_is_named() {
    let text = "name: some\nsteps:\n  - { id: x, agent: n, after: c }\n  - { id: a, agent: n, after: b }\n  \
                - { id: b, agent: n, after: c }\n  - { id: c, agent: n, after: a }\n";
    let found = one(text);
    assert_eq!((found.field.as_str(), found.rule, found.line), ("steps[3].after", "circle", Some(6)));
    assert!(found.message.contains("c → a → b → c"), "{found}");
    let itself = one("name: some\nsteps: [{ id: a, agent: n, after: a }]\n");
    assert!(itself.message.ends_with("a → a"), "{itself}");
}

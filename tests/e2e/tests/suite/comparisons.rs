//! Two versions of an agent run the same cases: what broke is found, also in a slice that is small; what cannot be told is undecided,
//! with how much would decide; and the figures are those of scipy.

use std::path::Path;
use std::time::Duration;

use althing_e2e::python::python_with_scipy;
use althing_e2e::{ADD_MAX, Machine, Node, Outcome, Running};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);
const MODEL: &str = include_str!("../../python/scripted.py");
const FIGURES: &str = include_str!("../../python/scipy_figures.py");
/// The usual order of both versions.
const BOTH: [&str; 2] = ["clerk@1.0.0", "clerk@1.1.0"];

/// A node on which an agent runs in two versions: one says what a message has for `old`, the other one what it has for `new`.
struct Scene {
    machine: Machine,
    _node: Node,
    _model: Running,
}

impl Scene {
    fn start() -> Scene {
        let machine = Machine::new();
        machine.write("scripted.py", MODEL);
        let mut model = Running::start(machine.command(Path::new("python3")).arg("scripted.py"));
        let port = model.line(SOON).expect("it says its port").trim().to_owned();
        let node = machine.up_alone(&[]);
        machine.add("clerk", &clerk("1.0.0", "old", &port));
        let newer = machine.write("newer.yaml", &clerk("1.1.0", "new", &port));
        let mut begin = machine.althing(&["--json", "rollout", "clerk", "--steps", "50,100", "--yes", "--to"]);
        let begun = Running::start(begin.arg(&newer)).end(ADD_MAX);
        assert_eq!(begun.code, 0, "{begun:?}");
        Scene { machine, _node: node, _model: model }
    }

    fn compared(&self, versions: [&str; 2], cases: &[Value], more: &[&str]) -> Outcome {
        let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
        let file = self.machine.write("cases.jsonl", &lines.join("\n"));
        let mut command = self.machine.althing(&["--json", "compare"]);
        command.args(versions).arg("--cases").arg(&file).args(more);
        Running::start(&mut command).end(SOON)
    }

    /// Compares with the models asked; gives the exit code with the report.
    fn told(&self, versions: [&str; 2], cases: &[Value], more: &[&str]) -> (i32, Value) {
        let more = [&["--live"][..], more].concat();
        let ended = self.compared(versions, cases, &more);
        let report = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        (ended.code, report)
    }
}

fn clerk(version: &str, model: &str, port: &str) -> String {
    let endpoint = json!({ "url": format!("http://127.0.0.1:{port}/v1"), "model": model });
    let file = json!({
        "name": "clerk",
        "description": "Answers",
        "version": version,
        "runtime": { "model": { "prompt": "Answer.", "endpoints": [endpoint] } },
        "contract": { "class": { "latency": "srt" } },
    });
    file.to_string()
}

/// So many cases in a language, to which both versions answer so, where "yes" is right.
fn cases(lang: &str, count: usize, [old, new]: [&str; 2]) -> Vec<Value> {
    let input = format!("old={old} new={new}");
    let case = |at: usize| {
        let id = format!("{lang}-{old}-{new}-{at}");
        json!({ "id": id, "input": input, "target": "yes", "metadata": { "lang": lang } })
    };
    (0..count).map(case).collect()
}

#[test]
fn a_slice_that_broke_is_told_and_what_cannot_be_told_is_undecided() {
    let scene = Scene::start();
    let mixed = [cases("en", 20, ["no", "yes"]), cases("fi", 8, ["yes", "no"])].concat();
    let (code, report) = scene.told(BOTH, &mixed, &[]);
    assert_eq!((code, &report["verdict"]), (0, &json!("better")), "{report}");
    assert_eq!((&report["before"]["version"], &report["after"]["version"]), (&json!("1.0.0"), &json!("1.1.0")));
    let (code, report) = scene.told(BOTH, &mixed, &["--slice", "lang"]);
    assert_eq!((code, &report["verdict"]), (1, &json!("worse")), "{report}");
    assert_eq!((&report["whole"]["verdict"], &report["against"]), (&json!("better"), &json!(["lang=fi"])), "{report}");
    assert_eq!(report["slices"]["lang=fi"]["broken"], 8, "{report}");
    let [old, new] = BOTH;
    let (code, report) = scene.told([new, old], &mixed, &[]);
    assert_eq!((code, &report["verdict"]), (1, &json!("worse")), "{report}");

    let same = cases("en", 5, ["yes", "yes"]);
    let (code, report) = scene.told(BOTH, &same, &[]);
    assert_eq!((code, &report["verdict"]), (9, &json!("undecided")), "{report}");
    let needed = report["needed"].as_u64().expect("a number");
    assert!(needed > 5, "{report}");
    let runs = needed.div_ceil(5).to_string();
    let (code, report) = scene.told(BOTH, &same, &["--runs", &runs]);
    assert_eq!((code, &report["verdict"]), (0, &json!("noWorse")), "{report}");

    // Nobody is asked, and there is no tape: nothing is known, and that is no pass.
    let silent = scene.compared(BOTH, &same, &["--runs", "40"]);
    assert!(silent.code == 9 && silent.stdout.contains("names no task whose tape"), "{silent:?}");
    for (versions, more, code, word) in [
        ([old, "clerk@2.0.0"], &["--live"][..], 4, "does not run here in version"),
        ([old, "nobody"], &["--live"][..], 4, "no agent"),
        (BOTH, &["--live", "--slice", "tongue"][..], 2, "in its metadata"),
        (BOTH, &["--live", "--margin", "1"][..], 2, "margin"),
    ] {
        let refused = scene.compared(versions, &same, more);
        assert!(refused.code == code && refused.stderr.contains(word), "{more:?}: {refused:?}");
    }
}

/// Cases that name two things, the text and its form, of which the answers have none, one or both.
fn scored() -> Vec<Value> {
    const ANSWERS: [&str; 3] = [r#"{"says":"yes"}"#, r#"{"says":"no"}"#, "no"];
    let case = |at: usize| {
        let (old, new) = (ANSWERS[usize::from(at.is_multiple_of(4))], ANSWERS[at % 3]);
        let own = json!({ "schema": { "type": "object", "required": ["says"] } });
        let (id, input) = (format!("case-{at}"), format!("old={old} new={new}"));
        json!({ "id": id, "input": input, "target": "yes", "metadata": { "althing": own } })
    };
    (0..24).map(case).collect()
}

#[test]
fn the_figures_of_a_comparison_are_those_of_scipy() {
    let Some(python) = python_with_scipy() else { return };
    let scene = Scene::start();
    scene.machine.write("scipy_figures.py", FIGURES);
    let equal = |report: &Value| {
        scene.machine.write("report.json", &report.to_string());
        let mut command = scene.machine.command(python);
        let ended = Running::start(command.args(["-B", "scipy_figures.py", "report.json"])).end(SOON);
        assert_eq!(ended.code, 0, "{report}: {ended:?}");
        ended.stdout.trim().to_owned()
    };
    let answers = [["yes", "yes"], ["no", "yes"], ["yes", "no"]];
    let counts = [("en", [9, 7, 2]), ("fi", [4, 0, 3])];
    let of = |(lang, counts): (&str, [usize; 3])| -> Vec<Value> {
        answers.iter().zip(counts).flat_map(|(both, count)| cases(lang, count, *both)).collect()
    };
    let passes: Vec<Value> = counts.into_iter().flat_map(of).collect();
    let (_, report) = scene.told(BOTH, &passes, &["--slice", "lang", "--runs", "2"]);
    assert_eq!((&report["whole"]["pairs"], equal(&report).as_str()), (&json!(50), "12"), "{report}");

    let (_, report) = scene.told(BOTH, &scored(), &["--scores", "--seed", "7"]);
    assert_eq!((&report["whole"]["p"], equal(&report).as_str()), (&Value::Null, "3"), "{report}");
    assert_eq!(report["cases"][1], json!({ "id": "case-1", "before": 1.0, "after": 0.5 }), "{report}");
    let (_, again) = scene.told(BOTH, &scored(), &["--scores", "--seed", "7"]);
    assert_eq!(again["whole"], report["whole"], "the same seed gives the same figures");
}

//! A2A's own test suite, a2a-tck, against an agent that does what the suite's agent does: directly, and adopted, through
//! its node and another one. The suite is on no package registry: `ALTHING_A2A_TCK` names a checkout of
//! <https://github.com/a2aproject/a2a-tck>, made ready with `uv sync` (tests/testing/exceptions.txt).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use althing_e2e::python::{done, python};
use althing_e2e::{Machine, Node, Running, until};

const PLUGIN: &str = include_str!("../../python/a2a_tck.py");
const AGENT: &str = include_str!("../../python/a2a_tck_agent.py");
const DOCS: &str = include_str!("../../../../docs/a2a.md");
const SOON: Duration = Duration::from_secs(30);
const RUN_MAX: Duration = Duration::from_secs(600);
/// What CI may skip.
const TEST: &str = "a2a_tck::what_passes_directly_passes_through_a_node_and_another_one";
/// The ways on which the suite asks, as docs/a2a.md has them.
const WAYS: [&str; 3] = ["directly", "through one node", "through two nodes"];

/// How each test ended (`passed`, `failed` or `skipped`), and why.
type Outcomes = BTreeMap<String, (String, String)>;
/// How often a test did not pass, by its name and how it ended: it may run over each binding.
type Left = BTreeMap<(String, String), usize>;

/// What docs/a2a.md says of a run.
struct Told {
    /// Passed, failed and skipped on each of the ways.
    counts: Vec<[usize; 3]>,
    /// What does not pass through nodes.
    left: Left,
    /// Why: a test, and the reason.
    reasons: Vec<(String, String)>,
}

impl Told {
    fn read() -> Told {
        let section = DOCS.split("\n## Conformance\n").nth(1).and_then(|rest| rest.split("\n## ").next());
        let rows: Vec<Vec<&str>> = section.expect("a section").lines().filter_map(cells).collect();
        let number = |text: &str| text.parse::<usize>().unwrap_or_else(|error| panic!("{text}: {error}"));
        let counts = WAYS.map(|way| {
            let row = rows.iter().find(|row| row[0] == way).unwrap_or_else(|| panic!("a row {way}"));
            [1, 2, 3].map(|at| number(row[at]))
        });
        let (mut left, mut reasons) = (Left::new(), Vec::new());
        // Tests of one reason share a row.
        for row in rows.iter().filter(|row| row[0].starts_with('`')) {
            for test in row[0].split(", ").map(|name| name.trim_matches('`')) {
                let known = left.insert((test.to_owned(), row[1].to_owned()), number(row[2]));
                assert_eq!(known, None, "{test} twice");
                reasons.push((test.to_owned(), row[3].to_owned()));
            }
        }
        Told { counts: counts.to_vec(), left, reasons }
    }

    fn left(&self, ended: &str) -> usize {
        self.left.iter().filter(|((_, how), _)| how == ended).map(|(_, times)| times).sum()
    }
}

/// The cells of a row of a table with four columns.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    (row.len() == 4).then_some(row)
}

struct Bench {
    machine: Machine,
    suite: PathBuf,
}

impl Bench {
    fn run(&self, agent: &str) -> Outcomes {
        self.machine.write("a2a_tck.py", PLUGIN);
        let outcomes = self.machine.folder().join("outcomes.json");
        let mut pytest = self.machine.command(&self.suite.join(".venv/bin/python"));
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "a2a_tck", "tests/compatibility"]);
        pytest.args(["--webhook-host", "127.0.0.1", "--sut-host", agent]).current_dir(&self.suite);
        pytest.env("PYTHONPATH", self.machine.folder()).env("PYTHONDONTWRITEBYTECODE", "1").env("OUTCOMES", &outcomes);
        let said = Running::start(&mut pytest).end(RUN_MAX);
        let written = std::fs::read(&outcomes).unwrap_or_else(|error| panic!("{agent}: {error}: {said:?}"));
        std::fs::remove_file(&outcomes).expect("it is there");
        serde_json::from_slice(&written).expect("JSON")
    }

    /// Starts an agent that behaves as the suite's; its address.
    fn agent(&self, python: &Path) -> (Running, String) {
        self.machine.write("a2a_tck_agent.py", AGENT);
        let mut program = self.machine.command(python);
        let mut running = Running::start(program.arg("a2a_tck_agent.py").arg(&self.suite));
        let ports = running.line(SOON).expect("its ports");
        (running, format!("http://127.0.0.1:{}", ports.split(' ').next().unwrap_or_default()))
    }

    /// Whether the suite is of the commit that docs/a2a.md has figures of.
    fn is_documented(&self) -> bool {
        let head = done(Command::new("git").arg("-C").arg(&self.suite).args(["rev-parse", "--short=7", "HEAD"]));
        let head = head.expect("it is a checkout").trim().to_owned();
        DOCS.contains(&format!("`{head}`"))
    }
}

/// A node that adopted the agent, and one that trusts it.
fn mesh(bench: &Bench, url: &str) -> (Machine, [Node; 2]) {
    let two = Machine::new();
    // The suite receives notifications on this machine.
    two.configure("[push]\nnets = [\"127.0.0.0/8\"]\n");
    let caller = bench.machine.up_alone(&[]);
    let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
    two.json(&["trust", &caller.owner()]);
    bench.machine.json(&["trust", &host.owner()]);
    two.json(&["adopt", "--callers", "trusted", "--as", "sut", url]);
    until(SOON, "it is found", || bench.machine.finds("sut"));
    (two, [host, caller])
}

fn counted(outcomes: &Outcomes) -> [usize; 3] {
    ["passed", "failed", "skipped"].map(|which| outcomes.values().filter(|(outcome, _)| outcome == which).count())
}

/// `TEST[REQUIREMENT]` of `FILE::CLASS::TEST[REQUIREMENT-binding]`, or `TEST`.
fn short(name: &str) -> String {
    let test = name.rsplit("::").next().unwrap_or_default();
    let Some((test, of)) = test.strip_suffix(']').and_then(|test| test.split_once('[')) else { return test.to_owned() };
    let binding = ["grpc", "jsonrpc", "http_json"].into_iter().find(|binding| of.ends_with(binding));
    let of = binding.and_then(|binding| of.strip_suffix(binding)).map_or(of, |of| of.trim_end_matches('-'));
    if of.is_empty() { test.to_owned() } else { format!("{test}[{of}]") }
}

/// What did not pass.
fn left(outcomes: &Outcomes) -> Left {
    let mut left = Left::new();
    for (name, (outcome, _)) in outcomes.iter().filter(|(_, (outcome, _))| outcome != "passed") {
        *left.entry((short(name), outcome.clone())).or_default() += 1;
    }
    left
}

#[test]
fn what_passes_directly_passes_through_a_node_and_another_one() {
    let Some(suite) = std::env::var_os("ALTHING_A2A_TCK") else {
        return althing_testing::exception(TEST, "ALTHING_A2A_TCK names no checkout of a2a-tck");
    };
    let Some(python) = python() else { return };
    let bench = Bench { machine: Machine::new(), suite: suite.into() };
    let (agent, url) = bench.agent(python);
    let (_two, nodes) = mesh(&bench, &url);
    let mut all = vec![bench.run(&url)];
    all.extend(nodes.iter().map(|node| bench.run(&format!("{}/a2a/sut", node.gateway()))));
    for (way, outcomes) in WAYS.iter().zip(&all) {
        println!("{way}: {:?} passed, failed and skipped; not passed: {:#?}", counted(outcomes), left(outcomes));
    }
    let passed: Vec<&String> = all[0].iter().filter(|(_, ended)| ended.0 == "passed").map(|(name, _)| name).collect();
    assert!(passed.len() > 200, "the suite ran: {:?}", all[0]);
    let told = Told::read();
    for (way, through) in WAYS.iter().zip(&all).skip(1) {
        let known =
            |test: &str| through.get(test).is_some_and(|(how, _)| told.left.contains_key(&(short(test), how.clone())));
        let is_lost = |test: &str| through.get(test).is_none_or(|(outcome, _)| outcome != "passed") && !known(test);
        let lost: Vec<_> = passed.iter().filter(|test| is_lost(test)).map(|test| (test, through.get(*test))).collect();
        assert!(lost.is_empty(), "{way}, and docs/a2a.md says nothing of it: {lost:#?}");
    }
    if bench.is_documented() {
        assert_eq!(all.iter().map(counted).collect::<Vec<_>>(), told.counts, "docs/a2a.md");
        for (way, through) in WAYS.iter().zip(&all).skip(1) {
            assert_eq!(left(through), told.left, "{way}: docs/a2a.md");
        }
    }
    agent.kill();
}

#[test]
fn what_is_left_out_has_a_reason() {
    let told = Told::read();
    let items: Vec<usize> = told.counts.iter().map(|counts| counts.iter().sum()).collect();
    assert!(items[0] > 200 && items.iter().all(|all| *all == items[0]), "each way is asked the same: {items:?}");
    let [directly, one, two] = told.counts[..] else { panic!("three ways") };
    assert_eq!(one, two, "both ways through nodes");
    assert!(one[0] >= directly[0], "more passes through nodes");
    assert_eq!(
        (told.left("failed"), told.left("skipped")),
        (one[1], one[2]),
        "each that does not pass is in the table"
    );
    assert_eq!(told.left.values().sum::<usize>(), one[1] + one[2], "and ends in one of these ways");
    for (test, reason) in &told.reasons {
        assert!(reason.split_whitespace().count() >= 4, "{test} has no reason: {reason:?}");
    }
    assert_eq!(short("a.py::B::test_c[CORE-SEND-003-http_json]"), "test_c[CORE-SEND-003]");
    assert_eq!([short("a.py::B::test_c[grpc]"), short("a.py::test_c")], ["test_c", "test_c"]);
}

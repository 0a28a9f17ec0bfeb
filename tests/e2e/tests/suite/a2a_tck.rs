//! A2A's own test suite, a2a-tck, against the agent that comes with it: directly, and adopted, through its node and another one.
//! The suite is on no package registry: `ALTHING_A2A_TCK` names a checkout of <https://github.com/a2aproject/a2a-tck>, made ready
//! with `uv sync`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::python::python;
use althing_e2e::{Machine, Node, Running, until};

const PLUGIN: &str = include_str!("../../python/a2a_tck.py");
const DOCS: &str = include_str!("../../../../docs/a2a.md");
const SOON: Duration = Duration::from_secs(30);
/// What CI may skip.
const TEST: &str = "a2a_tck::what_passes_directly_passes_through_a_node_and_another_one";
const RUN_MAX: Duration = Duration::from_secs(300);

/// Tests of what an agent does that has something not. A node has it for every agent: docs/a2a.md says so.
const LEFT: [&str; 2] = ["push_not_supported", "extended_card_not_supported"];

/// How each test ended (`passed`, `failed` or `skipped`), and why.
type Outcomes = BTreeMap<String, (String, String)>;

struct Bench {
    machine: Machine,
    suite: PathBuf,
}

impl Bench {
    fn run(&self, agent: &str) -> Outcomes {
        self.machine.write("a2a_tck.py", PLUGIN);
        let outcomes = self.machine.home().join("outcomes.json");
        let mut pytest = self.machine.command(&self.suite.join(".venv/bin/python"));
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "a2a_tck", "tests/compatibility"]);
        pytest.args(["--sut-host", agent]).current_dir(&self.suite);
        pytest.env("PYTHONPATH", self.machine.home()).env("PYTHONDONTWRITEBYTECODE", "1").env("OUTCOMES", &outcomes);
        let said = Running::start(&mut pytest).end(RUN_MAX);
        let written = std::fs::read(&outcomes).unwrap_or_else(|error| panic!("{agent}: {error}: {said:?}"));
        std::fs::remove_file(&outcomes).expect("it is there");
        serde_json::from_slice(&written).expect("JSON")
    }

    /// Starts the suite's agent; its address.
    fn agent(&self, python: &Path) -> (Running, String) {
        let [http_port, grpc_port] = free_ports();
        let host = format!("127.0.0.1:{http_port}");
        let mut program = self.machine.command(python);
        program.arg(self.suite.join("sut/a2a-python/sut_agent.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        program.env("SUT_HOST", &host).env("GRPC_PORT", grpc_port.to_string());
        let running = Running::start(&mut program);
        until(SOON, "the suite's agent listens", || std::net::TcpStream::connect(&host).is_ok());
        (running, format!("http://{host}"))
    }
}

/// Two that nobody listens on now: the agent prints none of its own.
fn free_ports() -> [u16; 2] {
    let listening = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listening.map(|listener| listener.local_addr().expect("its address").port())
}

/// A node that adopted the agent, and one that trusts it.
fn mesh(bench: &Bench, url: &str) -> (Machine, [(&'static str, Node); 2]) {
    let two = Machine::new();
    let caller = bench.machine.up_alone(&[]);
    let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
    two.json(&["trust", &caller.owner()]);
    bench.machine.json(&["trust", &host.owner()]);
    two.json(&["adopt", "--callers", "trusted", "--as", "sut", url]);
    until(SOON, "it is found", || bench.machine.finds("sut"));
    (two, [("one node", host), ("two nodes", caller)])
}

fn counted(outcomes: &Outcomes) -> String {
    let of = |which: &str| outcomes.values().filter(|(outcome, _)| outcome == which).count();
    format!("{} passed, {} failed, {} skipped", of("passed"), of("failed"), of("skipped"))
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
    let directly = bench.run(&url);
    let passed: Vec<&String> =
        directly.iter().filter(|(_, (outcome, _))| outcome == "passed").map(|(name, _)| name).collect();
    assert!(passed.len() > 50, "the suite ran: {directly:?}");
    eprintln!("directly: {}", counted(&directly));
    for (way, node) in nodes {
        let through = bench.run(&format!("{}/a2a/sut", node.gateway()));
        eprintln!("through {way}: {}", counted(&through));
        for name in LEFT {
            let failed = through.iter().any(|(test, (outcome, _))| test.contains(name) && outcome == "failed");
            assert!(!failed, "{way}: {name}: {through:?}");
        }
        let required = passed.iter().filter(|test| !LEFT.iter().any(|name| test.contains(name)));
        let worse: Vec<_> =
            required.map(|test| (test, through.get(*test))).filter(|(_, ended)| !is_passed(*ended)).collect();
        assert!(worse.is_empty(), "{way} does worse: {worse:#?}");
    }
    agent.kill();
}

fn is_passed(ended: Option<&(String, String)>) -> bool {
    ended.is_some_and(|(outcome, _)| outcome == "passed")
}

#[test]
fn what_is_left_out_has_a_reason() {
    let without: Vec<&&str> = LEFT.iter().filter(|name| !DOCS.contains(&format!("`{name}`"))).collect();
    assert!(without.is_empty(), "docs/a2a.md says nothing of {without:?}");
}

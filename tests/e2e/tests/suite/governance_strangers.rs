//! Others come to the same: Cedar for Python on what policies decide, Go's checksum database on the log and its proofs, OpenSSH on
//! what people sign.

use std::path::Path;
use std::time::Duration;

use althing_e2e::python::python_with_dojo;
use althing_e2e::registry::RegistryProcess;
use althing_e2e::{Machine, Node, Outcome, Running, cast, go, http, ssh, text, until};
use althing_testing::at_night;
use serde_json::{Value, json};

const FILES: [(&str, &str); 3] = [
    ("policies.py", include_str!("../../python/policies.py")),
    ("plain_mcp.py", include_str!("../../python/plain_mcp.py")),
    ("model.py", include_str!("../../python/model.py")),
];
/// Cases of one file, and files by day and at night.
const CASES: usize = 500;
const CASE_FILES: [usize; 2] = [2, 20];
/// Bytes of a signature that are changed, one at a time.
const FORGERIES: usize = 8;
const SOON: Duration = Duration::from_secs(60);

/// A node with the agent `clerk`, which calls what it is told to, and its tools `shop`.
struct Scene {
    machine: Machine,
    node: Node,
    _model: Running,
}

impl Scene {
    fn start() -> Scene {
        let machine = Machine::new();
        for (name, content) in FILES {
            machine.write(name, content);
        }
        let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
        let port = model.line(SOON).expect("the endpoint says its port");
        let node = machine.up_alone(&[]);
        let url = format!("http://127.0.0.1:{}/v1", port.trim());
        let file = end_of(&machine, Path::new("python3"), &["-B", "policies.py", "agent", &url]);
        machine.add("clerk", &file.stdout);
        Scene { machine, node, _model: model }
    }

    /// Says who there is: two auditors, with these public keys.
    fn load_people(&self, keys: [&str; 2]) {
        let [ada, bob] = keys.map(|key| if key.is_empty() { json!([]) } else { json!([key.trim()]) });
        let people = json!({
            "owner": "owner",
            "people": {
                "owner": {},
                "ada": { "keys": ada, "roles": ["tenant", "auditor"] },
                "bob": { "keys": bob, "roles": ["auditor"] },
            },
        });
        self.machine.write("people.yaml", &people.to_string());
        self.machine.json(&["people", "load", "people.yaml"]);
    }

    fn load_policies(&self, set: &str) {
        self.machine.write("set.cedar", set);
        self.machine.json(&["policy", "load", "set.cedar"]);
    }

    /// Has the agent call a tool; its task.
    fn begin(&self, tool: &str, arguments: &Value) -> String {
        let mut params = http::says(&format!("call shop__{tool} {arguments}"));
        params["configuration"] = json!({ "returnImmediately": true });
        text(&http::ask(&self.node.gateway(), "clerk", "SendMessage", &params)["task"]["id"])
    }

    fn state(&self, task: &str) -> String {
        let task = http::ask(&self.node.gateway(), "clerk", "GetTask", &json!({ "id": task }));
        text(&task["status"]["state"])
    }

    /// Waits until a task is in this state.
    fn rests(&self, task: &str, state: &str) {
        until(SOON, &format!("the task is {state}"), || self.state(task) == state);
    }

    /// The question for which a task rests.
    fn asked(&self, task: &str) -> String {
        self.rests(task, "TASK_STATE_AUTH_REQUIRED");
        let list = self.machine.json(&["pending"]);
        let mut pending = list["pending"].as_array().expect("a list").iter();
        let found = pending.find(|one| one["task"] == task);
        text(&found.unwrap_or_else(|| panic!("{task} rests, and nobody is asked: {list}"))["id"])
    }
}

/// Runs a program to its end, in the folder of a machine.
fn end_of(machine: &Machine, program: &Path, arguments: &[&str]) -> Outcome {
    Running::start(machine.command(program).args(arguments)).end(Duration::from_secs(120))
}

/// The same with a file as its standard input.
fn end_with(machine: &Machine, line: &str, input: &str) -> Outcome {
    end_of(machine, Path::new("/bin/sh"), &["-c", &format!("{line} < {input}")])
}

#[test]
fn cedar_for_python_decides_as_the_node_does() {
    let Some(python) = python_with_dojo() else { return };
    let scene = Scene::start();
    scene.load_people(["", ""]);
    let agent = format!("{}:clerk", scene.node.owner());
    for seed in 0..CASE_FILES[usize::from(at_night())] {
        let (seed, count) = (seed.to_string(), CASES.to_string());
        let made = end_of(&scene.machine, python, &["-B", "policies.py", "make", &seed, &count, &agent]);
        assert_eq!(made.code, 0, "{made:?}");
        scene.machine.write("cases.json", &made.stdout);
        let decided = scene.machine.run(&["--json", "policy", "test", "cases.json", "--policy", "set.cedar"]);
        // Each is expected to be permitted, and most are not.
        assert_eq!(decided.code, 1, "{decided:?}");
        scene.machine.write("report.json", &decided.stdout);
        let checked = end_of(&scene.machine, python, &["-B", "policies.py", "check", "cases.json", "report.json"]);
        assert_eq!(checked.code, 0, "seed {seed}: {}\n{}", checked.stdout, checked.stderr);
        let totals: Value = serde_json::from_str(&checked.stdout).expect("the totals");
        for answer in ["permit", "ask", "deny"] {
            assert!(totals[answer].as_u64() > Some(0), "the cases have some of each: {totals}");
        }
    }
}

/// The lines that `notes.go` says of these proofs.
fn said_by_go(machine: &Machine, program: &Path, shown: &[Value]) -> Vec<String> {
    let lines: Vec<String> = shown.iter().map(|one| format!("{one}\n")).collect();
    machine.write("proofs", &lines.concat());
    let ran = end_with(machine, program.to_str().expect("a plain path"), "proofs");
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

/// An exported leaf (P-212), as `notes.go` reads it.
fn shown_to_go(export: &str) -> Value {
    let (head, proof) = export.split_once("\n\n").unwrap_or_else(|| panic!("it has no proof: {export}"));
    let word = |name: &str| {
        let found = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("it has no {name}: {export}"))
    };
    json!({ "key": word("log"), "entry": word("leaf"), "proof": proof })
}

#[test]
fn gos_checksum_database_opens_the_audit_log_and_its_proofs() {
    let scene = Scene::start();
    let Some(program) = go::notes(&scene.machine) else { return };
    scene.load_people(["", ""]);
    scene.load_policies("@id(\"all\")\npermit(principal, action, resource);\n");
    let task = scene.begin("order", &json!({ "count": 1 }));
    scene.rests(&task, "TASK_STATE_COMPLETED");
    // People, policies, the intent of the call and its outcome.
    let entries = || -> Vec<u64> {
        let list = scene.machine.json(&["audit", "query"]);
        let entries = list["entries"].as_array().expect("a list").iter();
        entries.map(|one| one["entry"].as_u64().expect("a number")).collect()
    };
    until(SOON, "all of it is in the log", || entries().len() >= 4);
    let entries = entries();
    let exports: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let name = format!("leaf-{entry}");
            scene.machine.json(&["audit", "show", &format!("1.{entry}"), "--export", &name]);
            let verified = scene.machine.run(&["audit", "verify", &name]);
            assert_eq!(verified.code, 0, "{verified:?}");
            shown_to_go(&std::fs::read_to_string(scene.machine.folder().join(name)).expect("it was written"))
        })
        .collect();
    let said = said_by_go(&scene.machine, &program, &exports);
    assert_eq!(said.len(), exports.len());
    for (entry, said) in entries.iter().zip(&said) {
        assert!(said.starts_with(&format!("ok {entry} ")), "{said}");
    }
    // The proof of another entry, and a log of another name.
    let [first, .., last] = exports.as_slice() else { panic!("there are several") };
    let (mut other, mut renamed) = (first.clone(), first.clone());
    other["proof"] = last["proof"].clone();
    renamed["key"] = text(&first["key"]).replacen("audit/", "audit/x", 1).into();
    for said in said_by_go(&scene.machine, &program, &[other, renamed]) {
        assert!(said.starts_with("refused "), "{said}");
    }
}

/// P-172, P-174
#[test]
fn gos_checksum_database_opens_receipts_of_a_registry() {
    let machine = Machine::new();
    let Some(program) = go::notes(&machine) else { return };
    let node = machine.up_alone(&[]);
    let flags = ["--publisher", &node.owner()];
    let registry = RegistryProcess::start(&machine, &machine.folder().join("registry"), &flags);
    machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    let mut shown = Vec::new();
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        let file = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
        let path = machine.write("echo.yaml", &file);
        machine.json(&["publish", path.to_str().expect("a path")]);
        let receipts = machine.json(&["release", "receipt", &format!("echo@{version}")]);
        for one in receipts["receipts"].as_array().expect("a list") {
            shown.push(json!({ "key": registry.key, "entryHex": one["leaf"], "proof": one["proof"] }));
        }
    }
    let said = said_by_go(&machine, &program, &shown);
    assert!(said.len() >= 3 && said.iter().all(|line| line.starts_with("ok ")), "{said:?}");
}

/// A signature with one of its characters changed, somewhere in the bytes that were signed with.
fn forged(signature: &str, nth: usize) -> String {
    let lines: Vec<&str> = signature.lines().collect();
    // The last line of base64 is short; of the one before it, what is behind these characters is the signature itself.
    let at = lines.len() - 3;
    let (before, rest) = lines[at].split_at(24 + 4 * nth);
    let other = if rest.starts_with('A') { "B" } else { "A" };
    let line = format!("{before}{other}{}", &rest[1..]);
    let changed = lines.iter().enumerate().map(|(number, one)| if number == at { line.as_str() } else { *one });
    changed.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn what_openssh_verifies_is_a_sign_off_and_nothing_else_is() {
    if ssh::is_missing() {
        return;
    }
    let scene = Scene::start();
    let machine = &scene.machine;
    let [ada, bob, _] = ["ada", "bob", "mallory"].map(|name| ssh::key(machine, name, "ed25519"));
    scene.load_people([&ada, &bob]);
    machine.write("signers", &format!("ada {ada}\nbob {bob}\n"));
    scene.load_policies(
        "permit(principal, action in [Action::\"call\", Action::\"model\"], resource);\n@id(\"pay\") @sign_off(\"1:auditor\")\npermit(principal, \
         action == Action::\"pay\", resource);\n",
    );
    let task = scene.begin("pay", &json!({ "to": "landlord", "amount": 900 }));
    let ask = scene.asked(&task);
    let answer = machine.run(&["approve", &ask, "--text"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    machine.write("answer", &answer.stdout);

    let verifies = |signature: &str, person: &str| {
        machine.write("answer.sig", signature);
        let line = format!("ssh-keygen -Y verify -f signers -I {person} -n althing-consent -s answer.sig");
        end_with(machine, &line, "answer").code == 0
    };
    let counts = |signature: &str| {
        machine.write("given.sig", signature);
        machine.run(&["approve", &ask, "--signature", "given.sig", "--yes"])
    };
    let good = ssh::signed(machine, "ada", "althing-consent", "answer");
    let mut refused: Vec<String> = (0..FORGERIES).map(|nth| forged(&good, nth)).collect();
    refused.push(ssh::signed(machine, "ada", "file", "answer"));
    refused.push(ssh::signed(machine, "mallory", "althing-consent", "answer"));
    for signature in &refused {
        assert!(!["ada", "bob"].into_iter().any(|person| verifies(signature, person)), "{signature}");
        let told = counts(signature);
        assert!(![0, 101].contains(&told.code), "it does not count: {told:?}");
    }
    // Of other words: what OpenSSH finds good there is not what was asked.
    machine.write("answer", &answer.stdout.replace("answer: approve", "answer: deny"));
    let turned = ssh::signed(machine, "ada", "althing-consent", "answer");
    assert!(verifies(&turned, "ada"));
    assert_ne!(counts(&turned).code, 0, "a no is no yes");
    assert_eq!(scene.state(&task), "TASK_STATE_AUTH_REQUIRED", "nobody agreed");

    machine.write("answer", &answer.stdout);
    assert!(verifies(&good, "ada") && !verifies(&good, "bob"));
    let told = counts(&good);
    assert_eq!(told.code, 0, "{told:?}");
    scene.rests(&task, "TASK_STATE_COMPLETED");
    assert_ne!(counts(&good).code, 0, "once");
}

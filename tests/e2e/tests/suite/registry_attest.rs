//! Attestations, Things that are no agents, and blueprints: through the registry's program, by nodes of owners who do not know
//! each other.

use std::path::Path;
use std::time::Duration;

use althing_e2e::registry::RegistryProcess;
use althing_e2e::{Machine, Node, Outcome, Running, cast};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(30);
const MODEL: &str = include_str!("../../python/model.py");

/// A registry, a publisher's node and an auditor's. The nodes know the registry, and not each other.
struct Scene {
    registry: RegistryProcess,
    publisher: Machine,
    auditor: Machine,
    nodes: [Node; 2],
}

fn scene() -> Scene {
    let (publisher, auditor) = (Machine::new(), Machine::new());
    let nodes = [publisher.up_alone(&[]), auditor.up_alone(&[])];
    let registry = RegistryProcess::start(&publisher, &publisher.folder().join("registry"), &["--anyone"]);
    for machine in [&publisher, &auditor] {
        machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    }
    Scene { registry, publisher, auditor, nodes }
}

impl Scene {
    fn agent(&self) -> String {
        format!("{}:echo", self.nodes[0].owner())
    }

    fn publish(&self) {
        let path = self.publisher.write("echo.yaml", &cast::echo("echo", "anyone"));
        self.publisher.json(&["publish", path.to_str().expect("a path")]);
    }

    /// A node that demands an audit by the auditor.
    fn careful(&self, more: &str) -> (Machine, Node) {
        let user = Machine::new();
        let auditor = self.nodes[1].owner();
        let demand = format!(
            "[[install]]\nagents = \"urn:althing:*\"\nattestations = [\"audit\"]\nby = [\"{auditor}\"]\n{more}"
        );
        user.configure(&demand);
        let node = user.up_alone(&[]);
        user.json(&["registry", "add", &self.registry.at, "--key", &self.registry.key]);
        (user, node)
    }
}

fn said(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

#[test]
fn what_must_be_attested_is_demanded_before_it_is_installed() {
    let scene = scene();
    scene.publish();
    let (user, _node) = scene.careful("max_age_days = 30\n");
    let (agent, release) = (scene.agent(), format!("{}@1.0.0", scene.agent()));
    let install = || user.run(&["install", &release, "--as", "copy", "--young", "--yes"]);
    let refused = install();
    assert!(refused.code != 0 && said(&refused).contains("must have the attestation \"audit\""), "{refused:?}");
    // The publisher's own word does not count, nor that of anybody else.
    scene.publisher.json(&["release", "attest", "echo@1.0.0", "--claim", "audit"]);
    assert_ne!(install().code, 0, "only the auditor's counts");
    scene.auditor.json(&["release", "attest", &release, "--claim", "audit", "--value", "{\"passed\":false}"]);
    let refused = install();
    assert!(refused.code != 0 && said(&refused).contains("does not pass \"audit\""), "{refused:?}");
    scene.auditor.json(&["release", "attest", &release, "--claim", "audit", "--value", "{\"passed\":true}"]);
    let shown = user.json(&["release", "show", &release]);
    assert_eq!(shown["attested"].as_array().map(Vec::len), Some(2), "{shown}");
    let listed = user.run(&["release", "list", &agent]);
    assert!(listed.stdout.contains("audit of 1.0.0: {\"passed\":true}"), "{listed:?}");
    let offered = user.run(&["install", &release, "--as", "copy", "--young"]);
    assert!(said(&offered).contains("attested  audit of 1.0.0"), "{offered:?}");
    let installed = install();
    assert_eq!(installed.code, 0, "{installed:?}");
    // It is taken back, and an update would not pass any more.
    scene.auditor.json(&["release", "attest", &release, "--claim", "audit", "--value", "null"]);
    let again = user.run(&["install", &release, "--as", "other", "--young", "--yes"]);
    assert!(again.code != 0 && said(&again).contains("shows none that is in force"), "{again:?}");
}

#[test]
fn an_auditor_signs_only_what_was_looked_at() {
    let scene = scene();
    scene.publish();
    let release = format!("{}@1.0.0", scene.agent());
    let shown = scene.auditor.json(&["release", "show", &release]);
    let content = shown["content"].as_str().expect("a digest").to_owned();
    assert!(scene.auditor.run(&["release", "show", &release]).stdout.contains(&content));
    let attest =
        |digest: &str| scene.auditor.run(&["release", "attest", &release, "--claim", "build", "--digest", digest]);
    assert_eq!(attest("5f2b").code, 2, "it is no digest");
    let other = attest(&"0".repeat(64));
    assert!(
        other.code == 5 && said(&other).contains(&content) && said(&other).contains("nothing was signed"),
        "{other:?}"
    );
    let shown = scene.auditor.json(&["release", "show", &release]);
    assert_eq!(shown["attested"].as_array().map(Vec::len), Some(0), "{shown}");
    let attested = attest(&content.to_uppercase());
    assert!(attested.code == 0 && attested.stdout.contains(&content), "{attested:?}");
    let shown = scene.auditor.json(&["release", "show", &release]);
    assert_eq!(shown["attested"].as_array().map(Vec::len), Some(1), "{shown}");
}

#[test]
fn once_something_is_demanded_nothing_else_is_installed() {
    let scene = scene();
    scene.publish();
    let user = Machine::new();
    user.configure("[[install]]\nagents = \"example.org/*\"\n");
    let _node = user.up_alone(&[]);
    user.json(&["registry", "add", &scene.registry.at, "--key", &scene.registry.key]);
    let refused = user.run(&["install", &format!("{}@1.0.0", scene.agent()), "--young", "--yes"]);
    assert!(refused.code != 0 && said(&refused).contains("`attestations = []`"), "{refused:?}");
}

#[test]
fn a_thing_that_is_no_agent_is_released_and_found_with_its_forms() {
    let scene = scene();
    let td = r#"{"@context":"https://www.w3.org/2022/wot/td/v1.1","title":"Build server","version":{"instance":"1.0.0"},
        "securityDefinitions":{"nosec":{"scheme":"nosec"}},"security":"nosec",
        "actions":{"build":{"forms":[{"href":"https://build.example.org/build"}]}}}"#;
    let path = scene.publisher.write("builds.td.json", td);
    let published = scene.publisher.json(&["publish", path.to_str().expect("a path")]);
    let id = format!("{}:builds", scene.nodes[0].owner());
    assert_eq!((published["agent"].as_str(), published["bytes"].as_u64()), (Some(id.as_str()), Some(0)));
    let again = scene.publisher.run(&["publish", path.to_str().expect("a path")]);
    assert!(again.code == 0 && again.stdout.contains("a Thing that runs elsewhere"), "{again:?}");
    let found = scene.auditor.json(&["find", "--action", "build"]);
    let thing = &found["things"][0];
    assert_eq!((thing["id"].as_str(), thing["title"].as_str()), (Some(id.as_str()), Some("Build server")), "{found}");
    assert_eq!(thing["forms"][0]["href"], "https://build.example.org/build");
    assert_eq!(scene.auditor.run(&["find", "--action", "bake"]).code, 4);
    let install = scene.auditor.run(&["install", &format!("{id}@1.0.0"), "--yes"]);
    assert!(install.code != 0 && said(&install).contains("has nothing to run here"), "{install:?}");
    let shown = scene.auditor.run(&["release", "show", &format!("{id}@1.0.0")]);
    assert!(shown.stdout.contains("https://build.example.org/build"), "{shown:?}");
    // Another content needs another version, and what is yanked is found no more.
    scene.publisher.write("builds.td.json", &td.replace("Build server", "Builds"));
    let changed = scene.publisher.run(&["publish", path.to_str().expect("a path")]);
    assert!(changed.code != 0 && said(&changed).contains("a version never changes"), "{changed:?}");
    scene.publisher.json(&["release", "yank", "builds@1.0.0"]);
    assert_eq!(scene.auditor.run(&["find", "--action", "build"]).code, 4);
}

#[test]
fn a_name_that_looks_like_anothers_is_flagged_and_not_refused() {
    let scene = scene();
    let publish = |machine: &Machine, name: &str| {
        let path = machine.write(&format!("{name}.yaml"), &cast::echo(name, "anyone"));
        machine.json(&["publish", path.to_str().expect("a path")])["agent"].as_str().expect("an id").to_owned()
    };
    let first = publish(&scene.publisher, "billing");
    let near = publish(&scene.auditor, "bi11ing");
    let user = &scene.publisher;
    for words in [
        &["release", "show", &format!("{near}@1.0.0")][..],
        &["release", "list", &near],
        &["install", &near, "--young", "--as", "copy"],
    ] {
        let told = said(&user.run(words));
        assert!(told.contains("CAREFUL") && told.contains(&first), "{words:?}: {told}");
    }
    assert_eq!(user.json(&["release", "list", &near])["agents"][0]["twins"][0].as_str(), Some(first.as_str()));
    let own = user.run(&["release", "show", "billing@1.0.0"]);
    assert!(own.code == 0 && !own.stdout.contains("CAREFUL"), "{own:?}");
    let installed = user.run(&["install", &near, "--young", "--as", "copy", "--yes"]);
    assert_eq!(installed.code, 0, "{installed:?}");
}

fn model(machine: &Machine) -> (Running, String) {
    machine.write("model.py", MODEL);
    let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
    let port = model.line(SOON).expect("the endpoint says its port");
    (model, format!("http://127.0.0.1:{}/v1", port.trim()))
}

#[test]
fn a_model_is_measured_here_and_suggested_to_others() {
    let scene = scene();
    let measurer = Machine::new();
    let (_model, url) = model(&measurer);
    let elsewhere = "[[models]]\nmodel = \"far\"\nurl = \"http://192.0.2.1/v1\"\n";
    let config = format!("[[models]]\nname = \"small\"\nmodel = \"stub\"\nurl = \"{url}\"\n{elsewhere}");
    measurer.configure(&config);
    let node = measurer.up_alone(&[]);
    measurer.json(&["registry", "add", &scene.registry.at, "--key", &scene.registry.key]);
    let several = measurer.run(&["blueprint", "measure"]);
    assert!(several.code != 0 && said(&several).contains("small, far"), "{several:?}");
    let far = measurer.run(&["blueprint", "measure", "far"]);
    assert!(far.code != 0 && said(&far).contains("measure it where it runs"), "{far:?}");
    let measured = measurer.json(&["blueprint", "measure", "small", "--tokens", "16"]);
    let figures = &measured["figures"];
    // The endpoint says at most 500 in a second.
    assert!(figures["tokensPerSecond"].as_f64().is_some_and(|rate| rate > 0.0 && rate <= 500.0), "{measured}");
    assert_eq!((figures["tokens"].as_u64(), figures["estimated"].as_bool()), (Some(16), Some(true)), "{measured}");
    assert!(figures["memoryMib"].as_u64().is_some_and(|mib| mib > 0), "Python has some memory: {measured}");
    assert_eq!((measured["registry"].clone(), figures["rounds"].as_u64()), (Value::Null, Some(3)));
    let none = scene.auditor.json(&["blueprint", "suggest"]);
    assert_eq!(none["suggestions"], serde_json::json!([]), "nothing was sent");
    measurer.json(&["blueprint", "measure", "small", "--tokens", "16", "--publish"]);
    let suggested = scene.auditor.json(&["blueprint", "suggest"]);
    let first = &suggested["suggestions"][0];
    assert_eq!((first["model"].as_str(), first["likeness"].as_str()), (Some("stub"), Some("same")), "{suggested}");
    assert_eq!((first["by"].as_str(), first["trusted"].as_bool()), (Some(node.owner().as_str()), Some(false)));
    scene.auditor.json(&["trust", &node.owner()]);
    assert_eq!(scene.auditor.json(&["blueprint", "suggest"])["suggestions"][0]["trusted"], true);
    assert_eq!(scene.auditor.json(&["blueprint", "suggest", "--model", "large"])["suggestions"], serde_json::json!([]));
}

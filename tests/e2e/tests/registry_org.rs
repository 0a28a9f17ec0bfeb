//! An organisation in a registry's program: its domain, its name, who sees its releases and who approves them.

mod support;

use support::registry::{RegistryProcess, program};
use support::{Machine, Node, Outcome, cast};

/// A registry whose operator says whose example.org is; an organisation's node and a member's.
struct Scene {
    _registry: RegistryProcess,
    organisation: Machine,
    member: Machine,
    nodes: [Node; 2],
}

fn scene() -> Scene {
    let (organisation, member) = (Machine::new(), Machine::new());
    let nodes = [organisation.up_alone(&[]), member.up_alone(&[])];
    let owner = nodes[0].owner();
    let data = organisation.home().join("registry");
    let mut command = organisation.command(&program());
    command.args(["domain", "add", "example.org", &owner, "--data"]).arg(&data);
    let said = command.output().expect("it runs");
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("by the operator's word"), "{said:?}");
    let registry = RegistryProcess::start(&organisation, &data, &["--publisher", &owner]);
    for machine in [&organisation, &member] {
        machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    }
    Scene { _registry: registry, organisation, member, nodes }
}

impl Scene {
    /// Releases `echo` in that version, for that audience.
    fn publish(&self, version: &str, audience: &str) -> Outcome {
        let file = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
        let path = self.organisation.write("echo.yaml", &file);
        self.organisation.run(&["publish", path.to_str().expect("a path"), "--audience", audience])
    }
}

fn said(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

#[test]
fn an_organisation_is_installed_from_by_name_shows_to_its_members_and_approves_together() {
    let scene = scene();
    let (org, member) = (&scene.organisation, &scene.member);
    let made = org.run(&["org", "init", "example.org"]);
    assert!(made.code == 0 && said(&made).contains("_althing.example.org"), "{made:?}");
    assert_eq!(scene.publish("1.0.0", "public").code, 0);
    let name = "example.org/echo@^1";
    let unasked = member.run(&["install", name, "--young"]);
    assert!(said(&unasked).contains("example.org, proven by operator"), "{unasked:?}");
    let disguised = member.run(&["install", "ex\u{430}mple.org/echo", "--young", "--yes"]);
    assert!(disguised.code != 0 && said(&disguised).contains("U+0430"), "{disguised:?}");
    let unknown = member.run(&["install", "example.com/echo", "--young", "--yes"]);
    assert!(unknown.code != 0 && said(&unknown).contains("example.com"), "{unknown:?}");

    // A release for the organisation, seen by its members alone.
    assert_eq!(scene.publish("1.1.0", "organisation").code, 0);
    let exact = format!("{}:echo@1.1.0", scene.nodes[0].owner());
    let hidden = member.run(&["install", &exact, "--young", "--yes"]);
    assert!(hidden.code != 0 && said(&hidden).contains("404"), "{hidden:?}");
    let joined =
        org.run(&["org", "member", &scene.nodes[1].owner(), "--role", "read", "--role", "approve", "--agents", "*"]);
    assert!(joined.code == 0 && said(&joined).contains("read approve"), "{joined:?}");
    let installed = member.run(&["install", &exact, "--young", "--yes"]);
    assert_eq!(installed.code, 0, "{installed:?}");

    // Two must approve from now on.
    assert_eq!(org.run(&["org", "init", "example.org", "--approvals", "2"]).code, 0);
    assert_eq!(scene.publish("1.2.0", "public").code, 0);
    let exact = format!("{}:echo@1.2.0", scene.nodes[0].owner());
    let waits = org.run(&["release", "list", "echo"]);
    assert!(!said(&waits).contains("1.2.0"), "{waits:?}");
    let pending = member.run(&["release", "pending"]);
    assert!(said(&pending).contains(&exact) && said(&pending).contains("2 must approve"), "{pending:?}");
    let approved = member.run(&["release", "approve", &exact]);
    assert!(approved.code == 0 && said(&approved).contains("you approve"), "{approved:?}");
    let listed = org.run(&["release", "list", "echo"]);
    assert!(said(&listed).contains("1.2.0"), "{listed:?}");

    let watched = org.json(&["org", "watch"]);
    let what: Vec<&str> =
        watched["watched"].as_array().expect("a list").iter().filter_map(|row| row["what"].as_str()).collect();
    for kind in ["domain", "roster", "release", "approval"] {
        assert!(what.contains(&kind), "{what:?}");
    }
}

//! An organisation in a registry's program: its domain, its name, who sees its releases and who approves them.

use althing_e2e::http::{raw, request};
use althing_e2e::registry::{RegistryProcess, program};
use althing_e2e::{COMMAND_MAX, Machine, Node, Outcome, Running, cast};
use althing_protocol::registry::BundleFiles;
use althing_protocol::{digest, hex};
use althing_td::AgentFile;
use serde_json::json;

/// A registry whose operator says whose example.org is; an organisation's node and a member's.
struct Scene {
    registry: RegistryProcess,
    organisation: Machine,
    member: Machine,
    nodes: [Node; 2],
}

fn scene() -> Scene {
    let (organisation, member) = (Machine::new(), Machine::new());
    let nodes = [organisation.up_alone(&[]), member.up_alone(&[])];
    let owner = nodes[0].owner();
    let data = organisation.folder().join("registry");
    let mut command = organisation.command(&program());
    command.args(["domain", "add", "example.org", &owner, "--data"]).arg(&data);
    let said = command.output().expect("it runs");
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("by the operator's word"), "{said:?}");
    let registry = RegistryProcess::start(&organisation, &data, &["--publisher", &owner]);
    for machine in [&organisation, &member] {
        machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    }
    Scene { registry, organisation, member, nodes }
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
    let approved = member.run(&["release", "approve", &exact, "--yes"]);
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

/// P-185
#[test]
fn members_find_what_is_for_the_organisation() {
    let scene = scene();
    let (org, member, outsider) = (&scene.organisation, &scene.member, Machine::new());
    let _node = outsider.up_alone(&[]);
    outsider.json(&["registry", "add", &scene.registry.at, "--key", &scene.registry.key]);
    assert_eq!(org.run(&["org", "init", "example.org"]).code, 0);
    assert_eq!(org.run(&["org", "member", &scene.nodes[1].owner(), "--role", "read"]).code, 0);
    let td = r#"{"@context":"https://www.w3.org/2022/wot/td/v1.1","title":"Build server","version":{"instance":"1.0.0"},
        "securityDefinitions":{"nosec":{"scheme":"nosec"}},"security":"nosec",
        "actions":{"build":{"forms":[{"href":"https://build.example.org/build"}]}}}"#;
    let path = org.write("builds.td.json", td);
    org.json(&["publish", path.to_str().expect("a path"), "--audience", "organisation"]);
    let id = format!("{}:builds", scene.nodes[0].owner());
    let find =
        |machine: &Machine, flags: &[&str]| machine.run(&[&["--json", "find", "--action", "build"], flags].concat());
    let is_found = |found: &Outcome| found.code == 0 && found.stdout.contains(&id);
    let own = find(org, &[]);
    assert!(is_found(&own), "a registry knows its organisations anyway: {own:?}");
    assert_eq!(find(member, &[]).code, 4, "a registry does not hear who searches unless the owner wants that");
    let members = find(member, &["--signed-in"]);
    assert!(is_found(&members), "{members:?}");
    for flags in [Vec::new(), vec!["--signed-in"]] {
        let outside = find(&outsider, &flags);
        assert!(outside.code == 4 && !outside.stdout.contains("builds"), "{outside:?}");
    }
}

/// P-179
#[test]
fn a_name_that_passes_to_another_publisher_is_not_followed_unasked() {
    let scene = scene();
    let (org, member) = (&scene.organisation, &scene.member);
    let [first, other] = [scene.nodes[1].owner(), scene.nodes[0].owner()];
    assert_eq!(org.run(&["org", "init", "example.org"]).code, 0);
    assert_eq!(org.run(&["org", "member", &first, "--role", "approve", "--agents", "echo"]).code, 0);
    let path = member.write("echo.yaml", &cast::echo("echo", "anyone"));
    member.json(&["publish", path.to_str().expect("a path")]);
    let install = |name: &str, flags: &[&str]| {
        org.run(&[&["install", "example.org/echo@^1", "--young", "--yes", "--as", name], flags].concat())
    };
    let runs_of = |publisher: &str| {
        let outdated = org.json(&["outdated"]);
        outdated["installed"][0]["agent"].as_str().is_some_and(|agent| agent == format!("{publisher}:echo"))
    };
    let installed = install("bought", &[]);
    assert!(installed.code == 0 && runs_of(&first), "the member's: {installed:?}");
    // The organisation's own agent comes first: the name leads to it from now on.
    assert_eq!(scene.publish("1.0.0", "public").code, 0);
    let outdated = org.run(&["outdated"]);
    assert!(outdated.stdout.contains(&format!("example.org/echo leads to {other} now")), "{outdated:?}");
    let update = |flags: &[&str]| org.run(&[&["update", "bought", "--young", "--yes"], flags].concat());
    for refused in [update(&[]), install("two", &[])] {
        assert_eq!(refused.code, 5, "{refused:?}");
        for told in ["\"bought\"", &first, &format!("--publisher {other}")] {
            assert!(said(&refused).contains(told), "{told}: {refused:?}");
        }
    }
    let former = update(&["--publisher", &first]);
    assert!(former.code == 5 && said(&former).contains("nothing was changed"), "{former:?}");
    assert!(runs_of(&first));
    let updated = update(&["--publisher", &other]);
    assert!(updated.code == 0 && runs_of(&other), "of the same version, and another's: {updated:?}");
    assert!(said(&update(&[])).contains("up to date"));
    assert!(!org.run(&["outdated"]).stdout.contains("leads to"));
}

#[test]
fn a_release_that_is_not_for_everybody_is_purged() {
    let scene = scene();
    let (org, member, reader) = (&scene.organisation, &scene.member, scene.nodes[1].owner());
    assert_eq!(scene.publish("1.0.0", &reader).code, 0);
    assert_eq!(scene.publish("1.1.0", "public").code, 0);
    let exact = format!("{}:echo@1.0.0", scene.nodes[0].owner());
    assert_eq!(member.run(&["release", "show", &exact]).code, 0, "a reader sees it");
    let unasked = org.run(&["release", "purge", "echo@1.0.0"]);
    assert!(unasked.code == 5 && said(&unasked).contains("nothing was changed"), "{unasked:?}");
    let public = org.run(&["release", "purge", "echo@1.1.0", "--yes"]);
    assert!(public.code == 5 && said(&public).contains("cannot be purged"), "{public:?}");
    let other = member.run(&["release", "purge", &exact, "--yes"]);
    assert_eq!(other.code, 4, "only its publisher purges it: {other:?}");
    assert_eq!(org.run(&["release", "show", &exact]).code, 0, "nothing is gone yet");
    let purged = org.run(&["release", "purge", "echo@1.0.0", "--yes"]);
    assert!(purged.code == 0 && said(&purged).contains("1.0.0 is purged"), "{purged:?}");
    assert_eq!(org.run(&["release", "purge", "echo@1.0.0", "--yes"]).code, 0, "once more is no error");
    for machine in [org, member] {
        let gone = machine.run(&["release", "show", &exact]);
        assert_eq!(gone.code, 4, "{gone:?}");
    }
    let installed = member.run(&["install", &exact, "--young", "--yes"]);
    assert_eq!(installed.code, 4, "{installed:?}");
    let again = scene.publish("1.0.0", &reader);
    assert!(again.code == 5 && said(&again).contains("a version never changes"), "{again:?}");
    assert_eq!(scene.publish("1.2.0", &reader).code, 0, "the next version is fine");
    assert_eq!(org.run(&["release", "purge", "echo", "--yes"]).code, 2, "without a version");
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let number = (0..3).fold(0, |number, at| number << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        let letter = |at: usize| char::from(LETTERS[(number >> (18 - 6 * at) & 63) as usize]);
        (0..4).map(|at| if at <= three.len() { letter(at) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn a_build_machine_stages_what_a_person_approves_or_rejects() {
    let scene = scene();
    let (org, owner) = (&scene.organisation, scene.nodes[0].owner());
    let mut command = org.command(&program());
    command.args(["token", "add", "ci", "--scope", "releases:stage", "--publisher", &owner, "--data"]);
    let made = command.arg(org.folder().join("registry")).output().expect("it runs");
    let token = String::from_utf8(made.stdout).expect("text").trim().to_owned();
    assert!(token.starts_with("althing_registry_"), "{token}");
    let stage = |version: &str, description: Option<String>, token: &str| {
        let text = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
        let agent = format!("{owner}:echo");
        let td = althing_td::describe(&AgentFile::parse(&text).expect("a file"), &agent);
        let described = String::from_utf8(td.bytes().to_vec()).expect("text");
        let bundle = BundleFiles { agent: text, files: [].into() }.encode().expect("a bundle");
        let body = json!({
            "agent": agent, "version": version, "description": description.unwrap_or(described),
            "bundle": base64(&bundle), "digest": hex(&digest(&bundle)),
        });
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        raw(&scene.registry.at, &request(&scene.registry.at, "POST", "/staged", &headers, body.to_string().as_bytes()))
    };
    // A machine that has neither a key nor a node, and the token in its environment.
    let build = Machine::new();
    let file = build.write("echo.yaml", &cast::echo("echo", "anyone"));
    let command = |token: &str| {
        let mut command = build.althing(&["--json", "release", "stage"]);
        command
            .arg(&file)
            .args(["--publisher", &owner, "--registry", &scene.registry.at])
            .env("ALTHING_REGISTRY_TOKEN", token);
        Running::start(&mut command).end(COMMAND_MAX)
    };
    let without = command("");
    assert!(without.code == 2 && without.stderr.contains("releases:stage"), "{without:?}");
    let refused = command("althing_registry_other");
    assert!(refused.code == 5 && refused.stderr.contains("401"), "{refused:?}");
    let staged = command(&token);
    assert_eq!(staged.code, 0, "{staged:?}");
    let staged: serde_json::Value = serde_json::from_str(&staged.stdout).expect("JSON");
    let id = staged["id"].as_str().expect("an id").to_owned();
    assert!(!build.data().exists(), "neither key nor node was made there");
    let pending = org.json(&["release", "pending"]);
    assert_eq!(pending["staged"][0]["id"], id.as_str());
    let stranger = scene.member.run(&["release", "pending"]);
    assert!(stranger.code == 5 && stranger.stderr.contains("may not publish in this registry"), "{stranger:?}");
    assert!(!said(&org.run(&["release", "list", "echo"])).contains("1.0.0"), "nobody signed it");
    let approved = org.run(&["release", "approve", &id, "--yes"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let exact = format!("{owner}:echo@1.0.0");
    let installed = scene.member.run(&["install", &exact, "--young", "--yes"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    let again = org.run(&["release", "approve", &id, "--yes"]);
    let hint = "`althing release pending`";
    assert!(again.code != 0 && said(&again).contains("no staged release") && said(&again).contains(hint), "{again:?}");

    // A description that is not the bundle's is not signed, whatever it says.
    let other = json!({
        "@context": ["https://www.w3.org/2022/wot/td/v1.1"], "id": format!("{owner}:echo"), "title": "Not so",
        "version": { "instance": "1.1.0" }, "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
    });
    let staged = stage("1.1.0", Some(other.to_string()), &token);
    assert_eq!(staged.status, 201, "{staged:?}");
    let id = staged.json()["id"].as_str().expect("an id").to_owned();
    let refused = org.run(&["release", "approve", &id, "--yes"]);
    assert!(refused.code != 0 && said(&refused).contains("description"), "{refused:?}");
    assert_eq!(org.run(&["release", "reject", &id]).code, 0);
    assert!(org.json(&["release", "pending"])["staged"].as_array().is_some_and(Vec::is_empty));
}

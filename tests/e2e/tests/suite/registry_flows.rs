//! Workflows that are shared through the registry's program, by owners who do not know each other: published, found, installed
//! and run in a group of another owner's, revoked; and what hostile publishers put in their place.

#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use althing_e2e::registry::RegistryProcess;
use althing_e2e::{Machine, Node, Outcome, cast, http, until};
use althing_protocol::object::{self, Description};
use althing_protocol::registry::{Audience, Bundle, BundleFiles, Release, Submission};
use althing_protocol::{AgentId, KeyLog, SecretKey, digest, keylog};
use althing_td::SharedFile;
use serde_json::Value;

const HEARD: Duration = Duration::from_secs(10);
const REVIEW: &str = "name: review\nversion: 1.0.0\ntitle: Review of a text\ndescription: Says it, and says it again.\nsteps:\n  \
                      - { id: first, capability: echo.say, input: \"First {{input}}\" }\n  \
                      - { id: then, after: first, agent: echo, input: \"then {{step.first}}\" }\n";

/// A registry, a publisher's node and a user's, who has a group. The nodes know the registry, and not each other.
struct Scene {
    registry: RegistryProcess,
    publisher: Machine,
    user: Machine,
    nodes: [Node; 2],
}

fn scene() -> Scene {
    let (publisher, user) = (Machine::new(), Machine::new());
    let nodes = [publisher.up_alone(&[]), user.up_alone(&[])];
    let registry = RegistryProcess::start(&publisher, &publisher.folder().join("registry"), &["--anyone"]);
    for machine in [&publisher, &user] {
        machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    }
    user.json(&["group", "create", "team"]);
    user.add("echo", &cast::echo("echo", "own"));
    Scene { registry, publisher, user, nodes }
}

impl Scene {
    fn workflow(&self) -> String {
        format!("{}:review", self.nodes[0].owner())
    }

    fn publish(&self, text: &str) -> Outcome {
        let path = self.publisher.write("review.yaml", text);
        self.publisher.run(&["--json", "publish", path.to_str().expect("a path")])
    }

    fn install(&self, reference: &str, flags: &[&str]) -> Outcome {
        self.user.run(&[&["install", reference, "--young"], flags].concat())
    }
}

fn said(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

#[test]
fn a_workflow_is_published_found_installed_run_updated_and_revoked() {
    let scene = scene();
    let (user, publisher, id) = (&scene.user, &scene.publisher, scene.workflow());
    let published = scene.publish(REVIEW);
    assert!(published.code == 0 && published.stdout.contains(&id), "{published:?}");
    assert_eq!(scene.publish(REVIEW).code, 0, "the same again is no error");
    let changed = scene.publish(&REVIEW.replace("First", "Last"));
    assert!(changed.code == 5 && said(&changed).contains("a version never changes"), "{changed:?}");
    // It is found by its capability, and by what it does.
    for words in [["--cap", "workflow.review"], ["--action", "run"], ["--target", "review"]] {
        let found = user.json(&[&["find"], &words[..]].concat());
        assert_eq!(found["things"][0]["id"].as_str(), Some(id.as_str()), "{words:?}: {found}");
    }
    let shown = user.run(&["release", "show", &format!("{id}@1.0.0")]);
    assert!(shown.stdout.contains("a workflow of"), "{shown:?}");
    // What it would do is shown, and what of it is not known here.
    let offered = scene.install(&format!("{id}@^1"), &[]);
    assert!(offered.code == 5 && said(&offered).contains("nothing was changed"), "{offered:?}");
    for told in ["whoever can echo.say: First {{input}}", "the agent echo: then", "unknown   none", "rights    none"] {
        assert!(said(&offered).contains(told), "{told}: {offered:?}");
    }
    assert_ne!(user.run(&["workflow", "run", "team", "review", "x"]).code, 0, "it is not installed yet");
    let installed = scene.install(&format!("{id}@^1"), &["--yes"]);
    assert!(installed.code == 0 && installed.stdout.contains("althing workflow run GROUP review"), "{installed:?}");
    // By its name here, and by what it was installed by.
    for name in ["review", id.as_str()] {
        let ran = user.run(&["workflow", "run", "team", name, "--wait", "Hello"]);
        assert!(ran.code == 0 && ran.stdout.contains("then First Hello"), "{name}: {ran:?}");
    }
    let taken = scene.install(&format!("{id}@^1"), &["--yes"]);
    assert!(taken.code == 1 && said(&taken).contains("--as"), "{taken:?}");
    let echo = scene.install(&format!("{id}@^1"), &["--yes", "--as", "echo"]);
    assert!(echo.code == 1 && said(&echo).contains("--as"), "an agent has that name: {echo:?}");
    // A newer version.
    let newer = REVIEW.replace("version: 1.0.0", "version: 1.1.0").replace("First", "Newly");
    assert_eq!(scene.publish(&newer).code, 0);
    let outdated = user.json(&["outdated"]);
    let row = &outdated["installed"][0];
    assert_eq!((row["version"].as_str(), row["newest"].as_str()), (Some("1.0.0"), Some("1.1.0")), "{outdated}");
    let updated = user.run(&["update", "review", "--young", "--yes"]);
    assert!(updated.code == 0 && updated.stdout.contains("1.1.0"), "{updated:?}");
    let ran = user.run(&["workflow", "run", "team", "review", "--wait", "Hello"]);
    assert!(ran.code == 0 && ran.stdout.contains("then Newly Hello"), "{ran:?}");
    // A revoked one is not started any more.
    publisher.json(&["release", "revoke", "review@1.1.0", "--reason", "it leaks", "--yes"]);
    until(HEARD, "the user's node hears it", || {
        let outdated = user.run(&["--json", "outdated"]);
        outdated.code == 1 && outdated.stdout.contains("was revoked by its publisher")
    });
    let refused = user.run(&["workflow", "run", "team", "review", "x"]);
    assert!(refused.code == 5 && said(&refused).contains("was revoked by its publisher: it leaks"), "{refused:?}");
    assert_eq!(scene.install(&format!("{id}@1.1.0"), &["--yes", "--as", "other"]).code, 5);
    assert_eq!(user.run(&["uninstall", "review"]).code, 0);
    assert_eq!(user.run(&["uninstall", "review"]).code, 4, "it is gone");
    assert_eq!(user.run(&["workflow", "run", "team", "review", "x"]).code, 4);
    let left = std::fs::read_dir(user.data().join("installed")).expect("the folder").count();
    assert_eq!(left, 0, "its files are gone");
}

#[test]
fn an_installed_workflow_brings_no_rights_and_no_agents() {
    let scene = scene();
    let text = REVIEW.replace("agent: echo", "agent: mailer");
    assert_eq!(scene.publish(&text).code, 0);
    // The publisher has that agent, and the user's group does not.
    scene.publisher.add("mailer", &cast::echo("mailer", "own"));
    let offered = scene.install(&scene.workflow(), &[]);
    assert!(said(&offered).contains("unknown   mailer"), "{offered:?}");
    assert_eq!(scene.install(&scene.workflow(), &["--yes"]).code, 0);
    let run = scene.user.json(&["workflow", "run", "team", "review", "Hello"]);
    let run = run["run"].as_str().expect("a run").to_owned();
    let step = |at: usize| scene.user.json(&["workflow", "show", "team", &run])["step"][at].clone();
    until(HEARD, "the first step is done", || step(0)["state"] == "completed");
    assert_ne!(step(1)["state"], "completed", "nobody of the group hosts that agent");
    scene.user.json(&["workflow", "cancel", "team", &run]);
}

#[test]
fn a_build_machine_stages_a_workflow_and_its_publisher_approves_it() {
    let scene = scene();
    let Scene { registry, publisher, nodes, .. } = scene;
    let (owner, data) = (nodes[0].owner(), publisher.folder().join("registry"));
    let mut command = publisher.command(&althing_e2e::registry::program());
    let flags = ["token", "add", "ci", "--scope", "releases:stage", "--publisher", &owner, "--data"];
    let token = command.args(flags).arg(&data).output().expect("it runs");
    let token = publisher.write("ci.token", &String::from_utf8_lossy(&token.stdout));
    let path = publisher.write("review.yaml", REVIEW);
    let words = ["release", "stage", path.to_str().expect("a path"), "--publisher", &owner, "--registry", &registry.at];
    let staged = publisher.json(&[&words[..], &["--token-file", token.to_str().expect("a path")]].concat());
    let id = staged["id"].as_str().expect("an id");
    let looked = publisher.run(&["release", "approve", id]);
    assert!(looked.code == 5 && said(&looked).contains("whoever can echo.say"), "{looked:?}");
    let approved = publisher.run(&["release", "approve", id, "--yes"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    assert!(publisher.run(&["release", "list", "review"]).stdout.contains("1.0.0"));
}

/// A publisher who signs whatever it likes.
struct Hostile {
    keys: [SecretKey; 3],
    log: KeyLog,
    network: String,
    at: String,
}

impl Hostile {
    fn new(registry: &RegistryProcess) -> Hostile {
        let keys = [1, 2, 3].map(|seed| SecretKey::from_seed(&[seed; 32]));
        let inception = keylog::inception(&keys[0], [keys[1].public(), keys[2].public()], now_ms() - 1_000);
        let log = KeyLog::verify(&[inception.bytes]).expect("an inception");
        let shown: Value = http::get(&registry.at, "/", &[]).json();
        let network = shown["network"].as_str().expect("a network").to_owned();
        Hostile { keys, log, network, at: registry.at.clone() }
    }

    /// Releases a bundle under that name, with a description of its choice.
    fn release(&self, name: &str, described: &str, bundle: &[u8]) -> String {
        let agent = AgentId::new(self.log.publisher(), name).expect("a name");
        let (now_ms, key) = (now_ms(), &self.keys[0]);
        let td = SharedFile::parse(described).expect("a good file").describe(&agent.to_string());
        let td = Description::new(agent.clone(), now_ms, now_ms, td.bytes().to_vec());
        let td = object::sign(td, &self.network, "", key).expect("signed");
        let version = "1.0.0".parse().expect("a version");
        let mut release = Release::new(agent.clone(), version, td.digest(), Audience::public(), now_ms);
        release.bundle = Some(Bundle { digest: digest(bundle), bytes: bundle.len() as u64 });
        let release = object::sign(release, &self.network, "", key).expect("signed");
        let submission = Submission {
            key_log: self.log.to_bytes().into_iter().map(Into::into).collect(),
            statements: vec![release.bytes.into()],
            descriptions: vec![td.bytes.into()],
        };
        let send = |method: &str, path: &str, of: &str, body: &[u8]| {
            let answer = http::raw(&self.at, &http::request(&self.at, method, path, &[("Content-Type", of)], body));
            assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        };
        send("POST", "/submissions", "application/cbor", &submission.encode());
        send("PUT", &format!("/agents/{agent}/1.0.0/bundle"), "application/octet-stream", bundle);
        agent.to_string()
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("not so far")
}

/// P-181
#[test]
fn a_hostile_bundle_is_refused_and_leaves_nothing() {
    let scene = scene();
    let hostile = Hostile::new(&scene.registry);
    let bundle = |text: &str, files: &[&str]| {
        let files = files.iter().map(|path| ((*path).to_owned(), vec![1].into())).collect();
        encoded(&BundleFiles { agent: text.to_owned(), files })
    };
    let named = |name: &str| REVIEW.replace("name: review", &format!("name: {name}"));
    let large = format!("{}# {}\n", named("large"), "x".repeat(200 * 1024));
    let agent = cast::echo("kind", "anyone");
    for (name, described, content, told) in [
        ("none", named("none"), bundle("name: none\nsteps: []\n", &[]), "workflow file needs"),
        ("circle", named("circle"), bundle("name: circle\nsteps: [{ id: a, agent: x, after: a }]\n", &[]), "change"),
        ("other", named("other"), bundle(REVIEW, &[]), "holds review 1.0.0"),
        ("more", named("more"), bundle(&named("more"), &["run.sh"]), "the workflow file alone"),
        ("climbs", named("climbs"), unchecked(&named("climbs"), &["../../evil"]), "no path in a bundle"),
        ("twice", named("twice"), unchecked(&named("twice"), &["a", "a"]), "CBOR"),
        ("large", named("large"), bundle(&large, &[]), "the limit is"),
        ("kind", named("kind"), bundle(&agent, &[]), "is described as a workflow, and its bundle holds an agent"),
        ("echo2", cast::echo("echo2", "anyone"), bundle(&named("echo2"), &[]), "its bundle holds a workflow"),
        ("noise", named("noise"), vec![0xff; 64], "CBOR"),
    ] {
        let id = hostile.release(name, &described, &content);
        let refused = scene.install(&format!("{id}@1.0.0"), &["--yes"]);
        assert!(refused.code != 0 && said(&refused).contains(told), "{name}: {refused:?}");
    }
    assert!(!scene.user.data().join("installed").exists(), "nothing was written");
    let outdated = scene.user.json(&["outdated"]);
    assert_eq!(outdated["installed"].as_array().map(Vec::len), Some(0), "{outdated}");
}

/// The bytes of a good bundle.
fn encoded(bundle: &BundleFiles) -> Vec<u8> {
    bundle.encode().expect("a bundle")
}

/// The bytes of a bundle with these paths, as nobody should write them: `{ 0: text, 1: { path: h'01', … } }`.
fn unchecked(text: &str, paths: &[&str]) -> Vec<u8> {
    let tstr = |text: &str| {
        let len = text.len();
        let head = match len {
            0..24 => vec![0x60 + u8::try_from(len).expect("small")],
            24..256 => vec![0x78, u8::try_from(len).expect("a byte")],
            _ => [&[0x79][..], &u16::try_from(len).expect("two bytes").to_be_bytes()].concat(),
        };
        [head, text.as_bytes().to_vec()].concat()
    };
    let files = paths.iter().flat_map(|path| [tstr(path), vec![0x41, 1]].concat());
    let count = 0xa0 + u8::try_from(paths.len()).expect("few");
    [vec![0xa2, 0x00], tstr(text), vec![0x01, count], files.collect()].concat()
}

//! Publishing, finding, installing and revoking through the registry's program, by nodes of owners who do not know each other.

use std::time::Duration;

use althing_e2e::registry::RegistryProcess;
use althing_e2e::{Machine, Node, Outcome, cast, until};
use althing_protocol::registry::Entry;
use althing_protocol::tlog::{LogProof, NoteKey};
use serde_json::Value;

/// Revocations are heard within this (issue's bound), and hosts are told of sooner.
const HEARD: Duration = Duration::from_secs(10);

/// A registry, a publisher's node and a user's node. The nodes know the registry, and not each other.
struct Scene {
    registry: RegistryProcess,
    publisher: Machine,
    user: Machine,
    nodes: [Node; 2],
}

fn scene() -> Scene {
    let (publisher, user) = (Machine::new(), Machine::new());
    let nodes = [publisher.up_alone(&[]), user.up_alone(&[])];
    let owner = nodes[0].owner();
    let registry = RegistryProcess::start(&publisher, &publisher.folder().join("registry"), &["--publisher", &owner]);
    for machine in [&publisher, &user] {
        let added = machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
        assert_eq!(added["key"], registry.key.as_str());
    }
    Scene { registry, publisher, user, nodes }
}

impl Scene {
    fn agent(&self) -> String {
        format!("{}:echo", self.nodes[0].owner())
    }

    /// Releases `echo` in that version.
    fn publish(&self, version: &str) -> Value {
        let file = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
        let path = self.publisher.write("echo.yaml", &file);
        self.publisher.json(&["publish", path.to_str().expect("a path")])
    }

    fn install(&self, reference: &str, flags: &[&str]) -> Outcome {
        let mut words = vec!["install", reference];
        words.extend(flags);
        self.user.run(&words)
    }
}

fn said(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

#[test]
fn a_release_is_published_installed_updated_and_revoked() {
    let scene = scene();
    let agent = scene.agent();
    let published = scene.publish("1.0.0");
    assert_eq!((&published["agent"], &published["version"]), (&agent.as_str().into(), &"1.0.0".into()));
    assert_eq!(scene.publish("1.0.0")["entries"], published["entries"], "the same again is no entry");

    let changed = cast::echo("echo", "anyone").replace("Plays the part", "Takes the part");
    let path = scene.publisher.write("changed.yaml", &changed);
    let refused = scene.publisher.run(&["publish", path.to_str().expect("a path")]);
    assert!(refused.code == 5 && said(&refused).contains("a version never changes"), "{refused:?}");

    let ranged = format!("{agent}@^1");
    let young = scene.install(&ranged, &["--yes"]);
    assert!(young.code == 5 && said(&young).contains("--young"), "{young:?}");
    let unasked = scene.install(&ranged, &["--young"]);
    assert!(unasked.code == 5 && said(&unasked).contains("nothing was changed"), "{unasked:?}");
    assert!(
        said(&unasked).contains("you do not trust its publisher")
            && said(&unasked).contains("echo, which is a part of the node"),
        "{unasked:?}"
    );
    let installed = scene.install(&ranged, &["--young", "--yes"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    let called = scene.user.run(&["call", "echo", "hello"]);
    assert!(called.code == 0 && called.stdout.contains("hello"), "{called:?}");
    let taken = scene.install(&ranged, &["--young", "--yes"]);
    assert!(taken.code == 1 && said(&taken).contains("--as"), "{taken:?}");

    scene.publish("1.1.0");
    let outdated = scene.user.json(&["outdated"]);
    assert_eq!(
        (&outdated["installed"][0]["version"], &outdated["installed"][0]["newest"]),
        (&"1.0.0".into(), &"1.1.0".into())
    );
    let updated = scene.user.run(&["update", "echo", "--young", "--yes"]);
    assert!(updated.code == 0 && updated.stdout.contains("1.1.0"), "{updated:?}");
    assert!(said(&scene.user.run(&["update", "echo", "--young"])).contains("up to date"));

    let yanked = scene.publisher.run(&["release", "yank", "echo@1.1.0", "--reason", "it forgets"]);
    assert_eq!(yanked.code, 0, "{yanked:?}");
    let listed = scene.user.run(&["release", "list", &agent]);
    assert!(listed.stdout.contains("yanked") && listed.stdout.contains("it forgets"), "{listed:?}");
    let stays = scene.user.run(&["update", "echo", "--young", "--yes"]);
    let why = "1.1.0 was yanked: it forgets";
    assert!(stays.code == 0 && stays.stdout.contains(&format!("{why}; nothing newer")), "{stays:?}");
    let outdated = scene.user.run(&["outdated"]);
    assert!(outdated.code == 0 && outdated.stdout.contains(why), "no lower version is an update: {outdated:?}");
    let other = scene.install(&ranged, &["--young", "--yes", "--as", "other"]);
    assert!(other.code == 0 && other.stdout.contains("1.0.0"), "a range leaves out what was yanked: {other:?}");
    let exact = scene.install(&format!("{agent}@1.1.0"), &["--young", "--yes", "--as", "exact"]);
    assert!(exact.code == 0 && exact.stdout.contains("1.1.0"), "{exact:?}");

    let careful = scene.publisher.run(&["release", "revoke", "echo@1.1.0", "--reason", "it leaks"]);
    assert!(careful.code == 5 && careful.stderr.contains("--yes"), "{careful:?}");
    assert!(!scene.publisher.run(&["release", "list", "echo"]).stdout.contains("revoked"));
    let revoked = scene.publisher.run(&["release", "revoke", "echo@1.1.0", "--reason", "it leaks", "--yes"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    until(HEARD, "the user's node ends it", || {
        let list = scene.user.run(&["ps"]);
        list.stdout.lines().any(|line| line.contains("exact") && line.contains("revoked by its publisher"))
    });
    let called = scene.user.run(&["call", "exact", "hello"]);
    assert!(called.code == 5 && called.stderr.contains("revoked by its publisher: it leaks"), "{called:?}");
    let outdated = scene.user.run(&["outdated"]);
    assert!(outdated.code == 1 && outdated.stdout.contains("REVOKED"), "{outdated:?}");
    let doctor = scene.user.run(&["doctor", "exact"]);
    assert!(doctor.stdout.contains("L1") && doctor.stdout.contains("it leaks"), "{doctor:?}");
    let called = scene.user.run(&["call", "other", "hello"]);
    assert!(called.code == 0 && called.stdout.contains("hello"), "1.0.0 runs on: {called:?}");
    let again = scene.install(&format!("{agent}@1.1.0"), &["--young", "--yes", "--as", "again"]);
    assert!(again.code == 5 && said(&again).contains("it leaks"), "{again:?}");
    let removed = scene.user.run(&["agent", "remove", "other"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    let folders = std::fs::read_dir(scene.user.data().join("installed")).expect("the folder of installed agents");
    let left: Vec<String> =
        folders.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    assert!(!left.iter().any(|folder| folder.starts_with("other-")), "{left:?}");
}

/// P-177
#[test]
fn an_agent_is_found_and_called_through_a_registry() {
    let scene = scene();
    scene.publish("1.0.0");
    scene.publisher.add("echo", &cast::echo("echo", "anyone"));
    let find = || {
        let found = scene.user.run(&["--json", "find", "--cap", "echo.say", "--explain"]);
        serde_json::from_str::<Value>(&found.stdout).unwrap_or_default()
    };
    until(HEARD, "the registry names the host", || find()["agents"].as_array().is_some_and(|found| !found.is_empty()));
    let called = scene.user.run(&["call", &scene.agent(), "hello"]);
    assert!(called.code == 0 && called.stdout.contains("hello"), "{called:?}");
    let doctor = scene.user.run(&["doctor"]);
    assert!(doctor.stdout.contains("its log of 2 entries goes on"), "{doctor:?}");
    let Scene { registry, user, .. } = scene;
    registry.running.kill();
    let doctor = user.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.stdout.contains("cannot be asked"), "{doctor:?}");
    let called = user.run(&["find", "--cap", "echo.say"]);
    assert_eq!(called.code, 0, "a registry that is down costs nothing else: {called:?}");
}

#[test]
fn a_channel_leaves_out_what_was_yanked() {
    let scene = scene();
    let file = cast::echo("echo", "anyone").replace("  action: say", "  version: 1.4.0\n  action: say");
    let path = scene.publisher.write("echo.yaml", &file);
    scene.publisher.json(&["publish", path.to_str().expect("a path")]);
    scene.publisher.add("echo", &file);
    let channel = |wanted: &str| scene.user.run(&["route", "channel", wanted, "--anyone"]);
    until(HEARD, "the registry names the host", || channel("echo.say@^1").code == 0);
    scene.publisher.json(&["release", "yank", "echo@1.0.0", "--reason", "it forgets"]);
    let yanked = channel("echo.say@^1");
    assert!(yanked.code == 4 && yanked.stderr.contains("yanked or revoked"), "{yanked:?}");
    let exact = channel("echo.say@=1.4.0");
    assert!(exact.code == 0 && exact.stdout.contains("1.4.0"), "it is there by its exact version: {exact:?}");
    scene.publisher.json(&["release", "revoke", "echo@1.0.0", "--reason", "it leaks", "--yes"]);
    assert_eq!(channel("echo.say@=1.4.0").code, 4, "a revoked one is not");
}

#[test]
fn a_revoked_agent_is_not_called_where_its_host_does_not_know() {
    let publisher = Machine::new();
    let node = publisher.up_alone(&[]);
    let (host, user) = (publisher.of_same_owner(), Machine::new());
    let hosting = host.up_alone(&[]);
    let calling = user.up_alone(&["--peer", &hosting.address("/ip4/127.0.0.1")]);
    let data = publisher.folder().join("registry");
    let registry = RegistryProcess::start(&publisher, &data, &["--publisher", &node.owner()]);
    for machine in [&publisher, &user] {
        machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    }
    let scene = Scene { registry, publisher, user, nodes: [node, calling] };
    scene.publish("1.0.0");
    // The host follows no registry.
    host.add("echo", &cast::echo("echo", "anyone"));
    let agent = scene.agent();
    until(HEARD, "the host is known", || scene.user.run(&["call", &agent, "hello"]).code == 0);
    let revoked = scene.publisher.run(&["release", "revoke", "echo@1.0.0", "--reason", "it leaks", "--yes"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    until(HEARD, "the user's node refuses to call it", || scene.user.run(&["call", &agent, "hello"]).code == 5);
    let refused = scene.user.run(&["call", &agent, "hello"]);
    assert!(said(&refused).contains("it leaks"), "{refused:?}");
    drop(hosting);
}

/// What a release's programs ask for is said before anybody is asked, and without a sandbox none is installed by itself.
#[test]
fn a_release_says_what_its_programs_reach_and_only_its_owner_lets_one_out() {
    let scene = scene();
    let publish = |version: &str, sandbox: &str| {
        let file = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
        let file = format!("{file}tools: {{ box: {{ command: [cat], sandbox: {sandbox} }} }}\n");
        let path = scene.publisher.write("echo.yaml", &file);
        scene.publisher.json(&["publish", path.to_str().expect("a path")]);
        format!("{}@{version}", scene.agent())
    };
    let open = publish("1.0.0", "none");
    let refused = scene.install(&open, &["--young", "--yes"]);
    let said_so = said(&refused);
    assert!(refused.code == 5 && said_so.contains("cat (tools.box) runs without a sandbox"), "{refused:?}");
    assert!(said_so.contains("--sandbox none"), "{refused:?}");
    let asked = scene.install(&open, &["--young", "--sandbox", "none"]);
    assert!(asked.code == 5 && said(&asked).contains("nothing was changed"), "{asked:?}");
    assert!(said(&asked).contains("reaches   the program cat (tools.box) runs without a sandbox"), "{asked:?}");

    let named = publish("1.1.0", "{ read: [~/models], egress: [api.example.org] }");
    let asked = scene.install(&named, &["--young"]);
    assert!(asked.code == 5 && said(&asked).contains("reads ~/models; reaches api.example.org"), "{asked:?}");
}

#[test]
fn a_registry_with_two_histories_is_asked_nothing_more() {
    let scene = scene();
    scene.publish("1.0.0");
    let installed = scene.install(&format!("{}@^1", scene.agent()), &["--young", "--yes"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    let Scene { registry, publisher, user, nodes } = scene;
    let (listen, key, owner) = (registry.listens().to_owned(), registry.key.clone(), nodes[0].owner());
    registry.running.kill();
    // The same key and name, and a log that begins anew: what was published is not in it.
    let (before, after) = (publisher.folder().join("registry"), publisher.folder().join("forked"));
    std::fs::create_dir_all(&after).expect("a folder");
    std::fs::copy(before.join("registry.key"), after.join("registry.key")).expect("copied");
    let name = key.split('+').next().expect("a name");
    let flags = ["--publisher", owner.as_str(), "--listen", listen.as_str(), "--origin", name];
    let forked = RegistryProcess::start(&publisher, &after, &flags);
    assert_eq!(forked.key, key);
    let other = publisher.write("other.yaml", &cast::echo("other", "anyone"));
    let refused = publisher.run(&["publish", other.to_str().expect("a path")]);
    assert!(refused.code == 5 && said(&refused).contains("two histories"), "{refused:?}");
    let is_caught = |machine: &Machine| machine.run(&["registry", "list"]).stdout.contains("two histories");
    until(HEARD, "both nodes catch it", || is_caught(&publisher) && is_caught(&user));
    let refused = user.run(&["release", "list"]);
    assert!(refused.code == 5 && said(&refused).contains("two histories"), "{refused:?}");
    let again = user.run(&["registry", "add", &forked.at, "--key", &key]);
    assert!(again.stdout.contains("still asked nothing"), "{again:?}");
    let evidence = user.run(&["registry", "list"]).stdout;
    assert_eq!(evidence.matches("\u{2014} ").count(), 2, "both signed checkpoints are shown: {evidence}");
    let called = user.run(&["call", "echo", "hello"]);
    assert_eq!(called.code, 0, "what was installed runs on: {called:?}");
    // Whoever believes the new history all the same learns what the old one had.
    assert_eq!(publisher.run(&["registry", "remove", &forked.at]).code, 0);
    publisher.json(&["registry", "add", &forked.at, "--key", &key]);
    let watched = publisher.run(&["org", "watch"]);
    let lost = format!("MISSING   entry 1, release {owner}:echo 1.0.0");
    assert!(watched.code == 1 && watched.stdout.contains(&lost), "{watched:?}");
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits")).collect()
}

/// P-174
#[test]
fn a_receipt_proves_what_was_published_without_the_registry() {
    let scene = scene();
    let agent = scene.agent();
    scene.publish("1.0.0");
    scene.publisher.json(&["release", "yank", "echo@1.0.0", "--reason", "it forgets"]);
    let Scene { registry, publisher, user, nodes: _nodes } = scene;
    let key: NoteKey = registry.key.parse().expect("a key");
    registry.running.kill();
    let shown = publisher.json(&["release", "receipt", "echo@1.0.0"]);
    let receipts = shown["receipts"].as_array().expect("a list");
    let entries: Vec<_> = receipts.iter().map(|one| (one["what"].as_str(), one["entry"].as_u64())).collect();
    assert_eq!(entries, [(Some("mark"), Some(2)), (Some("release"), Some(1))], "{shown}");
    for one in receipts {
        // By anybody who has the key of the log.
        let proof: LogProof = one["proof"].as_str().expect("a proof").parse().expect("a proof");
        let leaf = unhex(&one["leaf"]);
        assert!(proof.check(&leaf, &key, &[], 0).is_ok(), "{one}");
        let entry = Entry::decode(&leaf).expect("an entry");
        assert!(entry.names(&unhex(&one["statement"]), None), "{one}");
    }
    let told = publisher.run(&["release", "receipt", "--entry", "1"]);
    assert!(told.code == 0 && told.stdout.contains("\n\nc2sp.org/tlog-proof@v1\nindex 1\n"), "{told:?}");
    assert!(told.stdout.contains(&format!("release {agent} 1.0.0")), "{told:?}");
    let list = publisher.run(&["release", "receipt"]);
    assert!(list.code == 0 && list.stdout.contains("1.0.0 is yanked"), "{list:?}");
    let none = user.run(&["release", "receipt", &format!("{agent}@1.0.0")]);
    assert!(none.code == 4 && said(&none).contains("keeps no receipt"), "{none:?}");
}

#[test]
fn what_is_no_registry_or_no_release_is_refused_with_what_to_do() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    let none =
        machine.run(&["publish", machine.write("echo.yaml", &cast::echo("echo", "own")).to_str().expect("a path")]);
    assert!(none.code == 4 && said(&none).contains("althing registry add"), "{none:?}");
    let registry = RegistryProcess::start(&machine, &machine.folder().join("registry"), &[]);
    let wrong = machine.run(&["registry", "add", &registry.at, "--key", "nonsense"]);
    assert!(wrong.code == 2 && said(&wrong).contains("key"), "{wrong:?}");
    let gateway = machine.run(&["registry", "add", &node.gateway(), "--key", &registry.key]);
    assert_ne!(gateway.code, 0, "a gateway is no registry: {gateway:?}");
    let nobody = machine.run(&["registry", "add", "http://127.0.0.1:1", "--key", &registry.key]);
    assert!(nobody.code == 6 && said(&nobody).contains("cannot be reached"), "{nobody:?}");
    let elsewhere = RegistryProcess::start(&machine, &machine.folder().join("elsewhere"), &["--network", "other"]);
    let other = machine.run(&["registry", "add", &elsewhere.at, "--key", &elsewhere.key]);
    assert!(other.code == 5 && said(&other).contains("starts another registry"), "{other:?}");
    assert_eq!(machine.run(&["registry", "add", &registry.at, "--key", &registry.key]).code, 0);
    let unadmitted = machine.run(&["publish", "echo.yaml"]);
    assert!(unadmitted.code == 5 && said(&unadmitted).contains("--publisher"), "{unadmitted:?}");
    let unknown = machine.run(&["install", &format!("{}:nothing@^1", node.owner()), "--yes"]);
    assert_eq!(unknown.code, 4, "{unknown:?}");
    let unreleased = machine.run(&["release", "yank", "nothing@1.0.0"]);
    assert!(unreleased.code == 5 && said(&unreleased).contains("--publisher"), "{unreleased:?}");
    let range = machine.run(&["install", &format!("{}:echo@one", node.owner()), "--yes"]);
    assert!(range.code == 2 && said(&range).contains("no range"), "{range:?}");
    let unversioned = machine.run(&["release", "yank", "echo"]);
    assert!(unversioned.code == 2 && said(&unversioned).contains("echo@1.2.3"), "{unversioned:?}");
}

#[test]
fn who_may_publish_changes_while_the_registry_runs() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    let data = machine.folder().join("registry");
    let registry = RegistryProcess::start(&machine, &data, &[]);
    assert_eq!(machine.run(&["registry", "add", &registry.at, "--key", &registry.key]).code, 0);
    let list = |words: &[&str]| {
        let mut command = machine.command(&althing_e2e::registry::program());
        let ran = command.arg("publisher").args(words).arg("--data").arg(&data).output().expect("it runs");
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    let publish = |version: &str| {
        let file = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
        machine.run(&["publish", machine.write("echo.yaml", &file).to_str().expect("a path")])
    };
    let refused = publish("1.0.0");
    assert!(refused.code == 5 && said(&refused).contains("althing-registry publisher add"), "{refused:?}");
    list(&["add", &node.owner()]);
    let published = publish("1.0.0");
    assert_eq!(published.code, 0, "{published:?}");
    assert_eq!(list(&["list"]).trim(), node.owner());
    list(&["remove", &node.owner()]);
    let refused = publish("1.1.0");
    assert!(refused.code == 5 && said(&refused).contains("may not publish"), "{refused:?}");
    assert_eq!(list(&["list"]).trim(), "");
}

/// P-192, P-177
#[test]
fn a_quarantine_is_the_operators_word_and_stops_no_call() {
    let scene = scene();
    let agent = scene.agent();
    scene.publish("1.0.0");
    let exact = format!("{agent}@1.0.0");
    let installed = scene.install(&exact, &["--young", "--yes"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    let Scene { registry: _registry, publisher, user, nodes: _nodes } = scene;
    let data = publisher.folder().join("registry");
    let operate = |words: &[&str]| {
        let mut command = publisher.command(&althing_e2e::registry::program());
        let ran = command.args(words).arg("--data").arg(&data).output().expect("it runs");
        (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
    };
    // What goes from the disk needs the registry stopped; what the log alone says does not.
    let (done, why) = operate(&["purge", &agent, "1.0.0"]);
    assert!(!done && why.contains("althing-registry (pid"), "it runs: {why}");
    assert!(why.contains(data.to_str().expect("a plain path")), "{why}");
    let (done, why) = operate(&["quarantine", &agent, "1.0.0", "--reason", "it sends data away"]);
    assert!(done && why.contains("this registry hides it"), "{why}");
    let (done, why) = operate(&["quarantine", &agent, "9.0.0", "--reason", "it sends data away"]);
    assert!(!done && why.contains("9.0.0"), "the registry that runs says why: {why}");
    let outdated = user.run(&["outdated"]);
    assert!(outdated.stdout.contains("operator hides 1.0.0: it sends data away"), "{outdated:?}");
    let called = user.run(&["call", "echo", "hello"]);
    assert!(called.code == 0 && called.stdout.contains("hello"), "its publisher did not take it back: {called:?}");
    let again = user.run(&["install", &exact, "--young", "--yes", "--as", "again"]);
    assert!(again.code != 0 && said(&again).contains("the operator's word"), "{again:?}");
    let listed = user.run(&["release", "list", &agent]);
    assert!(listed.stdout.contains("quarantined"), "{listed:?}");
    let own = publisher.run(&["release", "list"]);
    assert!(own.stdout.contains("quarantined") && own.stdout.contains("it sends data away"), "{own:?}");
    let ranged = user.run(&["install", &format!("{agent}@^1"), "--young", "--yes", "--as", "ranged"]);
    assert!(ranged.code == 4 && said(&ranged).contains("1.0.0 is hidden by the registry's operator"), "{ranged:?}");
    let (done, why) = operate(&["quarantine", &agent, "1.0.0", "--lift"]);
    assert!(done && why.contains("is lifted"), "{why}");
    let again = user.run(&["install", &exact, "--young", "--yes", "--as", "again"]);
    assert_eq!(again.code, 0, "{again:?}");
}

//! What was installed follows its publisher by rollouts: a newer release begins one by itself, and none that may do more, or that went
//! back before.

use std::time::Duration;

use althing_e2e::registry::RegistryProcess;
use althing_e2e::{Machine, Node, cast, http, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(90);
/// Far more calls than it takes until a twentieth of them has one.
const CALLS_MAX: usize = 600;
/// The media types of answers that a release permits, which are texts.
const ANY: &str = "[text/plain, application/json]";

/// A release of `echo` that plays its part so and permits such answers, with more in its file.
fn release(version: &str, plays: &str, media: &str, more: &str) -> String {
    let contract = format!("latency: srt }}, verify: {{ repair: 0, media: {media} }} }}");
    let file = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
    format!("{}{more}", file.replace("latency: srt } }", &contract).replace("Plays the part", plays))
}

/// What the user's node says of what is installed.
fn installed(user: &Machine) -> Value {
    user.json(&["outdated"])["installed"][0].take()
}

fn is_held(user: &Machine, why: &str) -> bool {
    installed(user)["held"].as_str().is_some_and(|held| held.starts_with(why))
}

/// The rollout, or nothing where none was begun.
fn rollout(user: &Machine) -> Value {
    serde_json::from_str(&user.run(&["--json", "rollout", "show", "echo"]).stdout).unwrap_or_default()
}

fn is_answered(node: &Node) -> bool {
    let task = http::ask(&node.gateway(), "echo", "SendMessage", &http::says("a mug, please"))["task"].take();
    task["artifacts"][0]["parts"][0]["text"] == "a mug, please"
}

#[test]
fn a_newer_release_begins_a_rollout_by_itself_and_one_that_went_back_does_not_again() {
    let (publisher, user) = (Machine::new(), Machine::new());
    let (publishing, node) = (publisher.up_alone(&[]), user.up_alone(&[]));
    let owner = publishing.owner();
    let registry = RegistryProcess::start(&publisher, &publisher.folder().join("registry"), &["--publisher", &owner]);
    for machine in [&publisher, &user] {
        machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    }
    // Else its releases would have to be three days old.
    user.json(&["trust", &owner]);
    let publish = |version: &str, plays: &str, media: &str, more: &str| {
        let path = publisher.write("echo.yaml", &release(version, plays, media, more));
        publisher.json(&["publish", path.to_str().expect("a path")]);
    };
    publish("1.0.0", "Plays the part", ANY, "");
    let agent = format!("{owner}:echo");
    let exact = user.run(&["install", &format!("{agent}@1.0.0"), "--update", "rollout", "--yes"]);
    assert!(exact.code != 0 && exact.stderr.contains("install a range"), "{exact:?}");
    let range = format!("{agent}@^1");
    let added = user.run(&["install", &range, "--callers", "trusted", "--update", "rollout", "--yes"]);
    assert_eq!(added.code, 0, "{added:?}");
    assert!(is_answered(&node) && installed(&user)["update"] == "rollout");

    publish("1.1.0", "Plays the part", ANY, "tools: { box: { command: [cat] } }\n");
    until(SOON, "what may do more is left to the owner", || is_held(&user, "1.1.0: it may do more"));
    assert_eq!(rollout(&user), Value::Null, "nothing was begun");
    let doctor = user.run(&["doctor"]);
    assert!(doctor.stdout.contains("no rollout of 1.1.0 is under way: it may do more"), "{doctor:?}");

    publish("1.2.0", "Plays another part", "[application/json]", "");
    until(SOON, "a rollout begins", || rollout(&user)["state"] == "running");
    let told = rollout(&user);
    assert_eq!((&told["new"]["version"], &told["new"]["sharePercent"]), (&json!("1.2.0"), &json!(5)), "{told}");
    assert_eq!(told["release"], format!("{agent} 1.2.0"), "{told}");
    let tried = (0..CALLS_MAX).any(|_| !is_answered(&node));
    assert!(tried, "no call was the new version's: {}", rollout(&user));
    until(SOON, "one refused answer is enough", || rollout(&user)["state"] == "wentBack");
    until(SOON, "it is not tried again", || is_held(&user, "1.2.0: it went back: it gave what a gate refused"));
    assert_eq!(installed(&user)["version"], "1.0.0");

    publish("1.3.0", "Takes the part", ANY, "");
    let is_next = || rollout(&user)["release"] == format!("{agent} 1.3.0");
    until(SOON, "the next release is tried", is_next);
    assert_eq!(installed(&user)["tried"], "1.3.0");
    user.json(&["rollout", "promote", "echo"]);
    until(SOON, "it is what is installed", || installed(&user)["version"] == "1.3.0");
    assert!((0..5).all(|_| is_answered(&node)), "{}", rollout(&user));
    let folders = || std::fs::read_dir(user.data().join("installed")).expect("its folder").count();
    until(SOON, "the files of what went back are removed", || folders() == 2);

    let set = user.run(&["update", "echo", "--update", "asked"]);
    assert_eq!(set.code, 0, "{set:?}");
    assert_eq!(installed(&user)["update"], "asked");
}

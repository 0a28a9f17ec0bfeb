//! A ban that does not fire is worse than none: a crate that does everything forbidden is handed to clippy.

use cargo_metadata::{Message, MetadataCommand};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use toml::{Table, Value};

/// One line of Rust for each banned path.
const USES: &[(&str, &str)] = &[
    (
        "ed25519_dalek::Verifier::verify",
        "pub fn a(k: &ed25519_dalek::VerifyingKey, s: &ed25519_dalek::Signature) -> bool { ed25519_dalek::Verifier::verify(k, b\"\", s).is_ok() }",
    ),
    (
        "signature::Verifier::verify",
        "pub fn b<S>(k: &impl signature::Verifier<S>, s: &S) -> bool { k.verify(b\"\", s).is_ok() }",
    ),
    ("std::time::Instant::now", "pub fn c() -> std::time::Instant { std::time::Instant::now() }"),
    ("std::time::SystemTime::now", "pub fn d() -> std::time::SystemTime { std::time::SystemTime::now() }"),
    ("std::thread::sleep", "pub fn e() { std::thread::sleep(std::time::Duration::ZERO) }"),
    ("rand::thread_rng", "#[allow(deprecated)] pub fn f() { drop(rand::thread_rng()) }"),
    ("rand::rng", "pub fn g() { drop(rand::rng()) }"),
    ("rand::random", "pub fn h() -> u8 { rand::random() }"),
    ("uuid::Uuid::new_v4", "pub fn i() -> uuid::Uuid { uuid::Uuid::new_v4() }"),
    ("uuid::Uuid::now_v7", "pub fn j() -> uuid::Uuid { uuid::Uuid::now_v7() }"),
    ("tokio::sync::mpsc::unbounded_channel", "pub fn k() { drop(tokio::sync::mpsc::unbounded_channel::<u8>()) }"),
    ("futures::channel::mpsc::unbounded", "pub fn l() { drop(futures::channel::mpsc::unbounded::<u8>()) }"),
    ("std::sync::mpsc::channel", "pub fn m() { drop(std::sync::mpsc::channel::<u8>()) }"),
];

/// What stays allowed beside what is banned.
const ALLOWED: &[&str] = &[
    "pub fn n() -> tokio::time::Instant { tokio::time::Instant::now() }",
    "pub fn o(k: &ed25519_dalek::VerifyingKey, s: &ed25519_dalek::Signature) -> bool { k.verify_strict(b\"\", s).is_ok() }",
    "pub fn p() { drop(tokio::sync::mpsc::channel::<u8>(1)) }",
    "pub fn q() { drop(std::sync::mpsc::sync_channel::<u8>(1)) }",
];

/// Bans of what our features leave out, so that nothing can use it: (path, the library, the feature).
const LEFT_OUT: &[(&str, &str, &str)] = &[("ed25519_dalek::verify_batch", "ed25519-dalek", "batch")];

/// What the canary needs of each library.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("ed25519-dalek", &[]),
    ("signature", &[]),
    ("rand", &["thread_rng"]),
    ("uuid", &["std", "v4", "v7"]),
    ("tokio", &["sync", "time"]),
    ("futures", &["std"]),
];

fn table(file: &str) -> Table {
    crate::support::text(Path::new(file)).parse().unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The banned paths with their reasons.
fn bans() -> BTreeMap<String, String> {
    let config = table("clippy.toml");
    let text = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let entries = config["disallowed-methods"].as_array().expect("a list");
    entries.iter().map(|entry| (text(entry, "path"), text(entry, "reason"))).collect()
}

#[test]
fn every_ban_has_a_reason_and_a_proof() {
    let bans = bans();
    for (path, reason) in &bans {
        assert!(!reason.is_empty(), "the ban of {path} has no reason in clippy.toml");
    }
    let proven: BTreeSet<&str> =
        USES.iter().map(|(path, _)| *path).chain(LEFT_OUT.iter().map(|(path, ..)| *path)).collect();
    assert_eq!(
        bans.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        proven,
        "clippy.toml against USES and LEFT_OUT"
    );
}

#[test]
fn what_is_left_out_stays_out() {
    let metadata = MetadataCommand::new().manifest_path(crate::support::root().join("Cargo.toml")).no_deps().exec();
    for package in metadata.expect("cargo metadata").packages {
        for dependency in package.dependencies {
            for (path, library, feature) in LEFT_OUT {
                let is_in = dependency.name == *library && dependency.features.iter().any(|on| on == feature);
                assert!(!is_in, "{} turns on {library}/{feature}, and with it {path}", package.name);
            }
        }
    }
}

#[test]
fn every_ban_fires() {
    let clippy = Command::new(env!("CARGO")).args(["clippy", "--version"]).output();
    if !clippy.is_ok_and(|output| output.status.success()) {
        return althing_testing::skip("clippy is not installed", althing_testing::remedy::CLIPPY);
    }
    let dir = canary();
    let fired = clippy_lines(&dir);
    for (index, (path, _)) in USES.iter().enumerate() {
        assert!(fired.contains(&(index + 1)), "the ban of {path} does not fire; see the comments in clippy.toml");
    }
    for (index, line) in ALLOWED.iter().enumerate() {
        assert!(!fired.contains(&(USES.len() + index + 1)), "a ban fires where it should not: {line}");
    }
}

/// Writes the crate, with the workspace's versions, into the target directory; returns where.
fn canary() -> PathBuf {
    let root = crate::support::root();
    let metadata =
        MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec().expect("cargo metadata");
    let dir = metadata.target_directory.as_std_path().join("tidy-canary");
    fs::create_dir_all(dir.join("src")).expect("the target directory is writable");
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).expect("the workspace is locked");
    let wanted = table("Cargo.toml");
    let mut manifest = String::from("[package]\nname = \"canary\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n");
    for (library, features) in LIBRARIES {
        let listed = &wanted["workspace"]["dependencies"].get(library);
        let version =
            listed.and_then(|listed| listed.as_str().or_else(|| listed.get("version")?.as_str())).unwrap_or("*");
        manifest +=
            &format!("{library} = {{ version = {version:?}, default-features = false, features = {features:?} }}\n");
    }
    fs::write(dir.join("Cargo.toml"), manifest).expect("writable");
    let source: String =
        USES.iter().map(|(_, line)| *line).chain(ALLOWED.iter().copied()).map(|line| format!("{line}\n")).collect();
    // Written anew each time: cargo then checks it again, whatever has changed beside it.
    fs::write(dir.join("src/lib.rs"), source).expect("writable");
    dir
}

/// The lines of the canary at which clippy reports a banned method.
fn clippy_lines(dir: &Path) -> BTreeSet<usize> {
    let mut child = Command::new(env!("CARGO"))
        .args(["clippy", "--offline", "--message-format=json", "--manifest-path"])
        .arg(dir.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(althing_testing::cache().expect("a folder").join("interop/canary"))
        .env("CLIPPY_CONF_DIR", crate::support::root())
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo runs this test");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = BTreeSet::new();
    for message in Message::parse_stream(output) {
        let Message::CompilerMessage(message) = message.expect("cargo writes JSON") else { continue };
        if message.message.code.as_ref().is_some_and(|code| code.code == "clippy::disallowed_methods") {
            lines.extend(message.message.spans.iter().filter(|span| span.is_primary).map(|span| span.line_start));
        }
    }
    assert!(
        child.wait().expect("it ran").success(),
        "the canary does not compile: run cargo clippy in {}",
        dir.display()
    );
    lines
}

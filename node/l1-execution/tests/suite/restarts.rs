//! How often a program is started that does not stay.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use althing_execution::process::ProcessConfig;
use althing_execution::{AgentState, Builtins, Host};
use althing_td::AgentFile;
use serde_json::json;

/// Between two looks at whether the first start is over.
const STEP: Duration = Duration::from_millis(1);

fn restarts(host: &Host) -> Option<u32> {
    match &host.status()[0].state {
        AgentState::Restarting { restarts, .. } => Some(*restarts),
        _ => None,
    }
}

/// An agent whose program is this script.
fn script(folder: &std::path::Path, script: &str) -> (AgentFile, std::path::PathBuf) {
    let program = folder.join("program.sh");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("its mode");
    let file = json!({
        "name": "program",
        "description": "does not stay",
        "skills": [{ "id": "x.y", "name": "X", "description": "x" }],
        "contract": { "class": { "latency": "srt" } },
        "runtime": { "process": { "command": [program], "startup_timeout_ms": 1_000 } },
    });
    (AgentFile::parse(&file.to_string()).expect("an agent file"), program)
}

/// Whoever waits for its answer hears at once that it ended, and what it said is kept over its restarts.
#[tokio::test]
async fn a_program_that_ends_at_once_is_not_waited_for_and_its_words_are_kept() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, _) = script(folder.path(), "echo first; echo No module named weather >&2; exit 1");
    let config = ProcessConfig { backoff_min: Duration::from_secs(3_600), ..ProcessConfig::default() };
    let host = Host::new(Builtins::new(), config);
    host.start(&file, folder.path()).expect("it starts");
    althing_execution::answered(&host, "program", Duration::from_secs(3_600)).await;
    let state = host.status().remove(0).state;
    let AgentState::Restarting { why, .. } = state else { panic!("{state:?}") };
    assert!(why.ends_with("it said: No module named weather"), "{why}");
    assert!(host.stop("program").await);
    let log = host.process.logs.get("program").expect("it said something");
    let page = log.page(0);
    let lines: Vec<(&str, &str)> = page.lines.iter().map(|line| (&*line.program, line.text.as_str())).collect();
    assert_eq!(lines[..2], [("runtime", "first"), ("runtime", "No module named weather")]);
    assert_eq!(log.last().map(|line| line.text).as_deref(), Some("No module named weather"));
}

/// Each time it waits twice as long, however long ago the first start was: what counts is how long it ran last.
#[tokio::test]
async fn a_program_that_ends_again_and_again_is_started_more_and_more_rarely() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, program) = script(folder.path(), "exit 0");
    let config = ProcessConfig {
        backoff_min: Duration::from_secs(1),
        backoff_max: Duration::from_secs(86_400),
        steady_after: Duration::from_secs(60),
        ..ProcessConfig::default()
    };
    let host = Host::new(Builtins::new(), config);
    host.start(&file, folder.path()).expect("it starts");
    // The next starts fail at once: from here on no other process has a say in how time passes.
    std::fs::remove_file(&program).expect("removable");
    while restarts(&host).is_none() {
        tokio::time::sleep(STEP).await;
    }
    assert_eq!(restarts(&host), Some(1));
    tokio::time::pause();
    // Again after 1 s, 3 s, 7 s and so on.
    let begun = tokio::time::Instant::now();
    for (after_s, expected) in [(2, 2), (60, 6), (3_600, 12), (36_000, 16)] {
        tokio::time::sleep_until(begun + Duration::from_secs(after_s)).await;
        assert_eq!(restarts(&host), Some(expected), "after {after_s} s");
    }
    assert!(host.stop("program").await);
}

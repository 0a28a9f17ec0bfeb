//! The real program: tokens on the command line, and what is left when it is killed.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::{Client, StatusCode};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_althing-registry");

/// A running registry; it is killed when this is dropped.
struct Running {
    child: Child,
    url: String,
    /// It says more: the pipe stays open.
    _said: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(data: &Path, options: &[&str]) -> Running {
        let mut command = Command::new(PROGRAM);
        command.arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let url = said.by_ref().map_while(Result::ok).find_map(|line| Some(line.strip_prefix("at")?.trim().to_owned()));
        Running { child, url: url.expect("it says where it listens"), _said: said }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }
}

fn client() -> Client {
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new()
}

fn thing(id: &str) -> String {
    json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1", "id": id, "title": "Lamp",
        "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
    })
    .to_string()
}

async fn put(client: &Client, url: &str, id: &str, token: Option<&str>) -> reqwest::Result<StatusCode> {
    let request =
        client.put(format!("{url}/things/{id}")).header("content-type", "application/td+json").body(thing(id));
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    Ok(request.send().await?.status())
}

fn token(data: &Path, arguments: &[&str]) -> (bool, String) {
    let ran = Command::new(PROGRAM).arg("token").args(arguments).arg("--data").arg(data).output().expect("it runs");
    let said = if ran.status.success() { ran.stdout } else { ran.stderr };
    (ran.status.success(), String::from_utf8(said).expect("text").trim().to_owned())
}

#[tokio::test]
async fn tokens_are_made_listed_and_taken_back_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let running = Running::start(folder.path(), &[]);
    let client = client();
    assert_eq!(put(&client, &running.url, "urn:a", None).await.expect("an answer"), StatusCode::UNAUTHORIZED);
    let (is_made, made) = token(folder.path(), &["add", "alice"]);
    assert!(is_made && made.starts_with("althing_registry_"), "{made}");
    assert_eq!(put(&client, &running.url, "urn:a", Some(&made)).await.expect("an answer"), StatusCode::CREATED);
    assert!(token(folder.path(), &["add", "bob", "--scope", "things:read", "--scope", "things:admin"]).0);
    assert_eq!(
        token(folder.path(), &["list"]),
        (true, "alice  things:write\nbob  things:read things:admin".to_owned())
    );
    let (is_made, said) = token(folder.path(), &["add", "alice"]);
    assert!(!is_made && said.contains("token remove alice"), "{said}");
    assert!(!token(folder.path(), &["add", "carol", "--scope", "write"]).0);
    assert!(token(folder.path(), &["remove", "alice"]).0);
    assert_eq!(put(&client, &running.url, "urn:a", Some(&made)).await.expect("an answer"), StatusCode::UNAUTHORIZED);
    assert!(!Command::new(PROGRAM).output().expect("it runs").status.success(), "without --data it does not start");
}

/// SR-6
#[tokio::test]
async fn it_is_asked_by_its_address_and_by_the_names_that_it_was_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let running = Running::start(folder.path(), &["--host", "registry.example.org", "--host", "registry"]);
    let names = [("registry.example.org", 200), ("registry:7480", 200), ("localhost:80", 200), ("evil.example", 421)];
    for (host, status) in names {
        let answer = client().get(format!("{}/checkpoint", running.url)).header("host", host).send().await;
        assert_eq!(answer.expect("an answer").status(), status, "{host}");
    }
}

#[test]
fn it_does_not_start_where_its_store_is_not_mounted() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("registry");
    let (key, origin, store) = (data.join("registry.key"), data.join("origin"), data.join("store"));
    drop(Running::start(&data, &["--origin", "registry.example.org/log"]));
    assert_eq!(std::fs::read_to_string(&origin).expect("it is kept"), "registry.example.org/log");
    // It goes on before anything was published, too.
    drop(Running::start(&data, &[]));
    // A command that ends by itself starts the registry in the same way.
    let organisation = althing_protocol::PublisherId::from_digest([1; 32]).to_string();
    let starts = |data: &Path| {
        let mut command = Command::new(PROGRAM);
        command.args(["domain", "add", "example.org", &organisation, "--data"]).arg(data).output().expect("it runs")
    };
    std::fs::remove_dir_all(&store).expect("it is there");
    let refused = starts(&data);
    let said = String::from_utf8(refused.stderr).expect("text");
    assert!(!refused.status.success() && said.contains("Mount it"), "{said}");
    assert!(!starts(&data).status.success(), "nor at the second attempt");
    // The key alone is a new beginning: whoever copies it says so.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    std::fs::copy(&key, other.join("registry.key")).expect("copied");
    drop(Running::start(&other, &["--origin", "registry.example.org/log"]));
    assert!(starts(&other).status.success());
}

#[test]
fn a_first_start_that_fails_leaves_no_name_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(PROGRAM);
    command.args(["--listen", "127.0.0.1:0", "--origin", "no+name", "--data"]).arg(folder.path());
    let refused = command.output().expect("it runs");
    let said = String::from_utf8(refused.stderr).expect("text");
    assert!(!refused.status.success() && said.contains("the name of the log is refused"), "{said}");
    let origin = folder.path().join("origin");
    assert!(!origin.exists(), "its log has not begun");
    drop(Running::start(folder.path(), &["--origin", "registry.example.org/log"]));
    assert_eq!(std::fs::read_to_string(&origin).expect("it is kept"), "registry.example.org/log");
}

#[test]
fn what_nobody_on_the_lan_reaches_is_not_announced_there() {
    let folder = tempfile::tempdir().expect("a folder");
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let mut command = Command::new(PROGRAM);
        command.args(["--mdns", "--listen", listen, "--data"]).arg(folder.path());
        let refused = command.output().expect("it runs");
        let said = String::from_utf8(refused.stderr).expect("text");
        assert!(!refused.status.success() && said.contains("--listen 0.0.0.0:7480"), "{said}");
    }
    assert!(!folder.path().join("store").exists(), "nothing was begun");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_it_was_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = client();
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let running = Running::start(folder.path(), &["--things-anyone"]);
        let url: Arc<str> = running.url.as_str().into();
        let so_far = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (client, url, so_far) = (client.clone(), url.clone(), so_far.clone());
                tokio::spawn(async move {
                    let mut accepted = Vec::new();
                    for number in 0.. {
                        let id = format!("urn:example:{round}-{writer}-{number}");
                        match put(&client, &url, &id, None).await {
                            Ok(StatusCode::CREATED) => accepted.push(id),
                            Ok(status) => panic!("{id}: {status}"),
                            Err(_) => break,
                        }
                        so_far.fetch_add(1, Ordering::SeqCst);
                    }
                    accepted
                })
            })
            .collect();
        while so_far.load(Ordering::SeqCst) < 40 && !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
        // In the middle of four writes.
        drop(running);
        for writer in writers {
            acknowledged.extend(writer.await.expect("it ends"));
        }
    }
    assert!(acknowledged.len() >= 120);
    let running = Running::start(folder.path(), &["--things-anyone"]);
    for id in &acknowledged {
        let answer = client.get(format!("{}/things/{id}/submitted", running.url)).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{id}");
        assert_eq!(answer.text().await.expect("text"), thing(id));
    }
    let all: serde_json::Value = client
        .get(format!("{}/things?format=collection&limit=1", running.url))
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    assert!(all["total"].as_u64().expect("a number") >= acknowledged.len() as u64);
    // However far the index had come when it was killed, nothing is missing.
    let search = format!("{}/search/jsonpath?query=$%5B?@.title=='Lamp'%5D.id", running.url);
    let found: Vec<String> = client.get(search).send().await.expect("an answer").json().await.expect("a list of ids");
    let missing = acknowledged.iter().find(|id| found.binary_search(id).is_err());
    assert_eq!(missing, None);
}

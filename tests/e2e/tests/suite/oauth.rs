//! The gateway as a resource server of OAuth 2.1: tokens of a stock issuer open what their scopes say.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use althing_e2e::http::{Answer, HONEST, get, raw, request, says};
use althing_e2e::{Machine, cast, node};
use serde_json::{Value, json};

const ISSUER: &str = include_str!("../../js/issuer.cjs");
const AUDIENCE: &str = "https://mesh.example";

/// The issuer, killed on drop.
struct Issuer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    url: String,
}

impl Issuer {
    fn start(machine: &Machine, packages: &Path) -> Issuer {
        machine.write("issuer.cjs", ISSUER);
        let mut command = machine.command(Path::new("node"));
        let command = command.arg("issuer.cjs").env("NODE_PATH", packages).stdin(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut issuer = Issuer { process, input, output, url: String::new() };
        issuer.url = format!("http://127.0.0.1:{}", issuer.line());
        issuer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// A token for these claims.
    fn token(&mut self, claims: &Value) -> String {
        writeln!(self.input, "{claims}").expect("it reads");
        self.line()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn authorization(token: &str) -> String {
    format!("Bearer {token}")
}

/// Sends a message to the agent.
fn send(gateway: &str, token: &str) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says("hello") }).to_string();
    let authorization = authorization(token);
    let headers = [&HONEST[..], &[("Authorization", authorization.as_str())]].concat();
    raw(gateway, &request(gateway, "POST", "/a2a/echo", &headers, body.as_bytes()))
}

#[test]
fn tokens_of_an_issuer_open_what_their_scopes_say() {
    let Some(packages) = node::packages() else { return };
    let machine = Machine::new();
    let mut issuer = Issuer::start(&machine, packages);
    let config = format!("[gateway.oauth]\nissuer = {:?}\naudience = {AUDIENCE:?}\n", issuer.url);
    machine.configure(&config);
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let gateway = node.gateway();
    let mut token =
        |scope: &str, audience: &str| issuer.token(&json!({ "sub": "alice", "aud": audience, "scope": scope }));
    let list = |token: &str| get(&gateway, "/agents", &[("Authorization", authorization(token).as_str())]);

    let reads = token("openid althing.read", AUDIENCE);
    assert_eq!(list(&reads).status, 200);
    let refused = send(&gateway, &reads);
    assert!(refused.status == 403 && refused.head.contains("insufficient_scope"), "{refused:?}");
    let calls = token("althing.read althing.call", AUDIENCE);
    let answered = send(&gateway, &calls);
    assert!(answered.status == 200 && answered.json().get("result").is_some(), "{answered:?}");

    let elsewhere = list(&token("althing.read", "https://other.example"));
    assert!(elsewhere.status == 401 && elsewhere.head.contains("invalid_token"), "{elsewhere:?}");
    let (start, end) = calls.split_at(calls.len() - 20);
    assert_eq!(list(&format!("{start}{}", end.chars().rev().collect::<String>())).status, 401, "tampered with");
    let nobody = get(&gateway, "/agents", &[]);
    let metadata = "/.well-known/oauth-protected-resource";
    assert!(nobody.status == 401 && nobody.head.contains(&format!("{gateway}{metadata}")), "{nobody:?}");
    let told = get(&gateway, metadata, &[]).json();
    assert_eq!((&told["resource"], &told["authorization_servers"][0]), (&json!(AUDIENCE), &json!(issuer.url)));
}

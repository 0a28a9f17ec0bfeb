//! The second connection to a server over HTTP: with a session, for callers who can be asked only in one.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use althing_execution::relayed::Relayed;
use althing_execution::tools::{Definition, Fault};
use althing_td::ToolServerSpec;
use tokio::time::{Instant, timeout};

use crate::connection::{Client, Speech};
use crate::exchange::Exchange;
use crate::{CONNECT, Server};

/// How long a server that had no session is not asked for one again.
const SESSIONLESS: Duration = Duration::from_secs(60);

impl Server {
    /// A connection with a session, for a caller whose client has one and can be asked: there the server can ask by itself. None
    /// if the present one will do, or the server has none, or describes the tool otherwise there.
    pub(crate) async fn session(
        &self,
        tool: &str,
        relayed: &Relayed,
        client: &Client,
    ) -> Option<(Arc<Client>, Exchange)> {
        let has_session = client.peer_info().is_none_or(|info| info.protocol_version.has_initialize());
        let ToolServerSpec::Url { .. } = &self.target.spec else { return None };
        let has_none = || self.sessionless().is_some_and(|since| since.elapsed() < SESSIONLESS);
        if has_session || !relayed.may_be_asked || !relayed.has_session || has_none() {
            return None;
        }
        // The server may have ended the session that was there: then the listing says so, and another is opened.
        for _ in 0..2 {
            let (client, exchange) = self.in_session().await?;
            match self.pages(&client).await {
                Ok(there) => {
                    let ((there, _), (here, _)) = (there.done(), self.listed().clone());
                    let of = |all: &[Definition]| all.iter().find(|one| one.name == tool).cloned();
                    let is_same = of(&there)?.check_pin(of(&here).as_ref()).is_ok();
                    return is_same.then_some((client, exchange));
                }
                Err(Fault::Failed(_)) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// The connection with a session, or a new one.
    async fn in_session(&self) -> Option<(Arc<Client>, Exchange)> {
        let mut now = self.session.lock().await;
        // The call that wants it runs already.
        if now.as_ref().is_none_or(|connection| !self.is_usable(connection, 1)) {
            *now = None;
            let connected = timeout(CONNECT, self.target.connect(Speech::Session)).await.ok().and_then(Result::ok);
            let connected = connected.filter(|one| one.behaviour.as_ref().is_some_and(|seen| seen.has_session()));
            *self.sessionless() = connected.is_none().then(Instant::now);
            *now = connected;
        }
        now.as_ref().map(|one| (one.client.clone(), one.exchange.clone()))
    }

    pub(crate) fn sessionless(&self) -> MutexGuard<'_, Option<Instant>> {
        self.sessionless.lock().expect("no holder of a time panics")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Mutex;

    use althing_execution::process::{EgressRules, ProcessConfig};
    use althing_execution::{Refusals, ServerOf};
    use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
    use rmcp::service::ServiceError;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::connection::Target;
    use crate::lines::MESSAGE_BYTES_MAX;
    use crate::requests::PROBE;

    /// A server of both versions over HTTP.
    #[derive(Debug, Default)]
    struct Stub {
        /// Whether it gives those sessions who begin by themselves.
        gives: bool,
        begun: usize,
        sessions: BTreeSet<String>,
        /// The status and the result with which it answers what it does not know of the newest version.
        probed: Option<(u16, Value)>,
        /// Whether it knows no earlier version than the newest.
        is_new: bool,
        /// How often it says nothing to the question of the newest version.
        silences: usize,
        /// How often it was asked for the rest of a call's answer, if it gives that on another stream: as an event that is too long.
        rests: Option<usize>,
    }

    type Shared = Arc<Mutex<Stub>>;

    impl Stub {
        fn is_silent(&mut self, message: &Value) -> bool {
            let is_silent = self.silences > 0 && message["method"] == "server/discover";
            self.silences -= usize::from(is_silent);
            is_silent
        }

        /// The events with which it answers a call, and whoever asks for the rest of them.
        fn events(&mut self, message: &Value) -> Option<String> {
            let rests = self.rests.as_mut()?;
            match message["method"].as_str() {
                Some("tools/call") => Some("id: 7\nretry: 100\n\n".to_owned()),
                Some(_) => None,
                None => {
                    *rests += 1;
                    Some(format!("data: {}", "A".repeat(MESSAGE_BYTES_MAX + 1)))
                }
            }
        }

        /// Its answer to a message that came in a session, or in none: status, new session, and body.
        fn answer(&mut self, message: &Value, session: Option<&str>) -> (u16, Option<String>, Value) {
            if session.is_some_and(|session| !self.sessions.contains(session)) {
                return (404, None, Value::Null);
            }
            let mut given = None;
            if let (Some((status, result)), Some("server/discover")) = (&self.probed, message["method"].as_str()) {
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                return (*status, None, if result.is_null() { Value::Null } else { answer });
            }
            let result = match message["method"].as_str() {
                Some("initialize") if self.is_new => {
                    let error = json!({ "code": -32_601, "message": "no such method" });
                    return (200, None, json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
                }
                Some("server/discover") => {
                    json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                        "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
                }
                Some("initialize") => {
                    self.begun += 1;
                    given = self.gives.then(|| format!("session-{}", self.begun));
                    self.sessions.extend(given.clone());
                    json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                        "serverInfo": { "name": "stub", "version": "1" } })
                }
                Some("tools/list") => {
                    json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                        "tools": [{ "name": "work", "inputSchema": { "type": "object" } }] })
                }
                _ => return (202, None, Value::Null),
            };
            (200, given, json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
        }
    }

    /// Answers the one request of a connection.
    async fn serve(stream: TcpStream, stub: Shared) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let (mut head, mut line) = (Vec::new(), String::new());
        while stream.read_line(&mut line).await? > 2 {
            head.push(std::mem::take(&mut line));
        }
        let header = |name: &str| {
            let mut all = head.iter().filter_map(|line| line.split_once(':'));
            all.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
        };
        let mut body = vec![0; header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (is_silent, events) = {
            let mut stub = stub.lock().expect("nobody panics with it");
            (stub.is_silent(&message), stub.events(&message))
        };
        if is_silent {
            return std::future::pending().await;
        }
        if let Some(events) = events {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            stream.write_all(format!("{head}{events}").as_bytes()).await?;
            return stream.shutdown().await;
        }
        let (status, given, answer) = match head.first().is_some_and(|line| line.starts_with("POST ")) {
            true => stub.lock().expect("nobody panics with it").answer(&message, header("mcp-session-id")),
            false => (405, None, Value::Null),
        };
        let body = if answer.is_null() { String::new() } else { answer.to_string() };
        let given = given.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nConnection: close\r\n");
        let text = format!("{head}{given}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    }

    /// A stub that gives sessions, or none, and the node's side of it, which listed its tools.
    async fn scene(gives: bool) -> (Shared, Server, Arc<Client>) {
        scene_of(Stub { gives, ..Stub::default() }).await
    }

    async fn scene_of(stub: Stub) -> (Shared, Server, Arc<Client>) {
        let (stub, server) = served(stub, PROBE).await;
        let (tools, _) = server.list().await.expect("it lists its tools");
        assert_eq!(tools.len(), 1);
        let (client, _) = server.client().await.expect("it is connected");
        (stub, server, client)
    }

    /// A stub, and the node's side of it, which did not connect yet.
    async fn served(stub: Stub, probe: Duration) -> (Shared, Server) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let stub = Arc::new(Mutex::new(stub));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let shared = stub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        let spec = ToolServerSpec::Url { url, secret: None, leads_to: Vec::new() };
        let of = ServerOf { agent: "a", server: "stub", folder: Path::new("."), memory_kib: 0 };
        let nothing = (EgressRules::default(), Refusals::default());
        let target = Target::new(of, &spec, None, &ProcessConfig::default(), nothing);
        (stub, Server::new(Target { probe, ..target }))
    }

    async fn has_session(server: &Server, client: &Client) -> bool {
        let relayed = Relayed { may_be_asked: true, has_session: true, ..Relayed::default() };
        server.session("work", &relayed, client).await.is_some()
    }

    fn begun(stub: &Shared) -> usize {
        stub.lock().expect("nobody panics with it").begun
    }

    #[tokio::test]
    async fn a_server_that_answers_the_question_of_the_newest_version_oddly_is_asked_as_an_earlier_one() {
        for (status, result) in [
            (500, json!(null)),
            (501, json!(null)),
            (202, json!(null)),
            (204, json!(null)),
            (200, json!(null)),
            (200, json!({})),
            (200, json!([])),
        ] {
            let probed = Some((status, result.clone()));
            let (stub, _, client) = scene_of(Stub { probed, ..Stub::default() }).await;
            let has_session = client.peer_info().is_some_and(|info| info.protocol_version.has_initialize());
            assert!(has_session, "{status} {result}");
            assert_eq!(begun(&stub), 1, "{status} {result}");
        }
    }

    #[tokio::test]
    async fn a_server_that_knows_the_newest_version_alone_may_start_when_it_is_asked() {
        for (silences, answers) in [(1, true), (2, false)] {
            let probe = Duration::from_secs(1);
            let (_, server) = served(Stub { is_new: true, silences, ..Stub::default() }, probe).await;
            match server.client().await {
                Ok((client, _)) => {
                    assert!(answers && client.peer_info().is_some_and(|info| !info.protocol_version.has_initialize()));
                }
                Err(fault) => {
                    let why = fault.to_string();
                    assert!(!answers && why.contains("-32601: no such method") && why.contains("for 1 s"), "{why}");
                }
            }
        }
    }

    /// Threat: a server whose stream is too long where it goes on is asked for that again and again, and whoever called waits.
    #[tokio::test]
    async fn an_answer_that_is_too_long_where_it_goes_on_is_asked_for_once_and_fails_at_once() {
        let (stub, _, client) = scene_of(Stub { rests: Some(0), ..Stub::default() }).await;
        let call = CallToolRequest::new(CallToolRequestParams::new("work"));
        let called = timeout(Duration::from_secs(20), client.send_request(ClientRequest::CallToolRequest(call)));
        let failed = called.await.expect("it is not waited for").expect_err("it has no answer");
        assert!(matches!(failed, ServiceError::TransportClosed), "{failed}");
        assert_eq!(stub.lock().expect("nobody panics with it").rests, Some(1));
        assert!(!client.is_transport_closed(), "other calls go on");
    }

    #[tokio::test]
    async fn a_session_that_its_server_ended_is_opened_anew() {
        let (stub, server, client) = scene(true).await;
        for _ in 0..2 {
            assert!(has_session(&server, &client).await);
            assert_eq!(begun(&stub), 1, "it is used again");
        }
        for again in [2, 3] {
            stub.lock().expect("nobody panics with it").sessions.clear();
            assert!(has_session(&server, &client).await);
            assert_eq!(begun(&stub), again);
        }
    }

    #[tokio::test]
    async fn a_server_that_had_no_session_is_asked_for_one_again() {
        let (stub, server, client) = scene(false).await;
        for _ in 0..2 {
            assert!(!has_session(&server, &client).await);
            assert_eq!(begun(&stub), 1, "not with each call");
        }
        stub.lock().expect("nobody panics with it").gives = true;
        // As if the time had passed.
        let asked = *server.sessionless();
        *server.sessionless() = asked.and_then(|asked| asked.checked_sub(SESSIONLESS));
        assert!(has_session(&server, &client).await);
        assert_eq!(begun(&stub), 2);
    }
}

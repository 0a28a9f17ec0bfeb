//! `GET /events` over the control socket, of a node of all layers.

use std::path::PathBuf;
use std::time::Duration;

use althing_api::{EventLine, NodeEvent};
use althing_calls::Principal;
use althing_control::router;
use althing_node::Event;
use althing_protocol::CallerId;
use althing_simnet::{LinkConfig, SimNet};
use althing_simulations::mesh::{Node, file, store};
use axum::Extension;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// For whatever is waited for.
const SOON: Duration = Duration::from_secs(60);

/// A node whose owner's API is served on a socket.
struct Served {
    node: Node,
    socket: PathBuf,
    _folder: TempDir,
}

impl Served {
    async fn start() -> Served {
        let net = SimNet::new(1, LinkConfig::default());
        let node = Node::start(&net, 1, 100, &[], store()).await;
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("control.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let serving = axum::serve(listener, router(node.shared()).layer(Extension(Principal::Local)));
        tokio::spawn(async move { serving.await });
        Served { node, socket, _folder: folder }
    }

    /// The connection, with the answer before it, to whoever says that it heard that event last.
    async fn ask(&self, last: Option<&str>) -> Answer {
        let mut connection = UnixStream::connect(&self.socket).await.expect("it listens");
        // An answer of HTTP/1.0 is not sent in chunks.
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let request = format!("GET /events HTTP/1.0\r\nHost: node\r\n{last}\r\n");
        connection.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = Answer(BufReader::new(connection));
        let status = answer.line().await.expect("an answer");
        assert!(status.contains(" 200 "), "{status}");
        while answer.line().await.is_some_and(|line| !line.is_empty()) {}
        answer
    }

    /// What is answered to a request that is refused.
    async fn refusal(&self, last: &str) -> String {
        let mut connection = UnixStream::connect(&self.socket).await.expect("it listens");
        let request = format!("GET /events HTTP/1.0\r\nHost: node\r\nLast-Event-ID: {last}\r\n\r\n");
        connection.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("it answers");
        answer
    }
}

struct Answer(BufReader<UnixStream>);

impl Answer {
    /// The next line; none at the end.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(SOON, self.0.read_line(&mut line)).await.expect("in time").expect("a line");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event; none at the end.
    async fn event(&mut self) -> Option<EventLine> {
        let (mut id, mut name) = (None, None);
        loop {
            let line = self.line().await?;
            let (field, value) = line.split_once(": ").unwrap_or((line.as_str(), ""));
            match field {
                "id" => id = value.parse::<u64>().ok(),
                "event" => name = Some(value.to_owned()),
                "data" => {
                    let line: EventLine = serde_json::from_str(value).expect("an event is JSON");
                    assert_eq!((id, name.as_deref()), (Some(line.id), Some(line.event.name())));
                    return Some(line);
                }
                _ => {}
            }
        }
    }

    async fn next(&mut self) -> EventLine {
        self.event().await.expect("it goes on")
    }

    /// The next event of which that is true.
    async fn until(&mut self, is_meant: impl Fn(&NodeEvent) -> bool) -> EventLine {
        loop {
            let line = self.next().await;
            if is_meant(&line.event) {
                return line;
            }
        }
    }
}

#[tokio::test]
async fn what_happens_is_told_to_whoever_listens_and_to_whoever_comes_back() {
    let served = Served::start().await;
    let node = &served.node;
    let mut listening = served.ask(Some("0")).await;
    let first = listening.next().await;
    let NodeEvent::Snapshot(snapshot) = &first.event else { panic!("{first:?}") };
    assert_eq!((snapshot.missed, snapshot.agents.len(), snapshot.live_tasks), (None, 0, 0));

    let agent = node.host(&file("echo", "Says it again", "text.echo", "echo", "text")).await;
    let start = listening.next().await;
    assert_eq!(start.event, NodeEvent::AgentStart { agent: "echo".to_owned(), agent_id: agent.to_string() });
    let task = node.send(&agent, "hello").await;
    let turn = listening.until(|event| matches!(event, NodeEvent::Task { .. })).await;
    let NodeEvent::Task { task: id, agent, state } = turn.event else { panic!("{:?}", turn.event) };
    assert_eq!((Some(id.as_str()), agent.as_str()), (task["id"].as_str(), "echo"));
    assert_eq!(task["status"]["state"].as_str(), Some(state.as_str()));
    let whom = CallerId::Node(node.id());
    node.trust.set(whom, true).await.expect("it is written");
    node.trust.set(whom, true).await.expect("it is written");
    node.trust.set(whom, false).await.expect("it is written");
    for trusted in [true, false] {
        let told = listening.next().await.event;
        assert_eq!(
            told,
            NodeEvent::TrustChange { whom: whom.to_string(), trusted },
            "what changes nothing is no event"
        );
    }
    node.agents.remove("echo").await.expect("it is removed");
    let end = listening.next().await;
    assert_eq!(end.event, NodeEvent::AgentEnd { agent: "echo".to_owned() });
    drop(listening);

    let mut back = served.ask(Some(&turn.id.to_string())).await;
    for trusted in [true, false] {
        assert_eq!(back.next().await.event, NodeEvent::TrustChange { whom: whom.to_string(), trusted });
    }
    assert_eq!(back.next().await, end);
    node.stop.cancel();
    assert_eq!(back.event().await, None, "the node ends, and so does the answer");
}

#[tokio::test]
async fn whoever_asks_for_events_that_are_gone_gets_a_snapshot_and_is_told_how_many_are_missing() {
    let served = Served::start().await;
    let node = &served.node;
    let first = served.ask(Some("0")).await.next().await.id;
    node.host(&file("echo", "Says it again", "text.echo", "echo", "text")).await;
    for number in 0..5_000 {
        node.events.note(Event::AgentEnd { agent: number.to_string() });
    }
    let mut late = served.ask(Some(&first.to_string())).await;
    let line = late.next().await;
    let NodeEvent::Snapshot(snapshot) = &line.event else { panic!("{line:?}") };
    assert_eq!((snapshot.missed, line.id), (Some(5_001), first + 5_001));
    assert_eq!(snapshot.agents.iter().map(|agent| agent.name()).collect::<Vec<_>>(), ["echo"]);
    // The newest 4,096 are told one by one.
    let oldest = line.id - 4_096;
    assert_eq!(served.ask(Some(&oldest.to_string())).await.next().await.id, oldest + 1);
    // Whoever comes with a number of this run's end waits for the next event.
    let mut now = served.ask(Some(&line.id.to_string())).await;
    node.events.note(Event::AgentEnd { agent: "last".to_owned() });
    for answer in [&mut late, &mut now] {
        let told = answer.next().await;
        assert_eq!((told.id, told.event), (line.id + 1, NodeEvent::AgentEnd { agent: "last".to_owned() }));
    }
}

#[tokio::test]
async fn what_is_no_number_of_an_event_is_refused_with_the_reason() {
    let served = Served::start().await;
    for wrong in ["x", "-1", "1.5", "18446744073709551616", ""] {
        let answer = served.refusal(wrong).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.contains(" 422 "), "{wrong:?}: {answer}");
        assert!(body.contains("invalid") && body.contains("Last-Event-ID is the number of an event"), "{answer}");
    }
}

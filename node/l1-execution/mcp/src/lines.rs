//! The pipes to a server's program: a message a line. What is no message of JSON-RPC is passed over without an answer, since its
//! writer may log what it reads; of a message that is too long, whoever waits for it is told.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::io::{Error, ErrorKind};
use std::sync::Arc;

use althing_execution::tools::RESULT_BYTES_MAX;
use rmcp::model::{CustomResult, ErrorData, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use crate::greetings;
use crate::machine::greeting::{self, DISCOVER, INITIALIZE, UNREADABLE};
use crate::machine::line::{self, Line, NO_ANSWER, excerpt};
use crate::machine::skim::Skim;

/// The longest message of a server, bytes: the longest result, and what is written around it.
pub const MESSAGE_BYTES_MAX: usize = RESULT_BYTES_MAX + (64 << 10);
/// Requests whose answers are read as they stand, at one time.
const RAW_MAX: usize = 4_096;
/// Requests whose answers the library would read as a whole, or not at all.
const READ_HERE: [&str; 6] = [INITIALIZE, DISCOVER, "tools/list", "tools/call", "tasks/get", "tasks/result"];

type Message = RxJsonRpcMessage<RoleClient>;

/// Both pipes.
pub struct Lines<R, W> {
    read: BufReader<R>,
    /// The line that is being read.
    line: Vec<u8>,
    /// What is known of it, if it is too long.
    skim: Option<Skim>,
    /// Messages that were read and wait.
    ready: VecDeque<Message>,
    /// The methods of requests whose answers are read here, by their ids.
    raw: BTreeMap<String, String>,
    /// The id of the first question, until it is answered.
    first: Option<String>,
    write: Arc<Mutex<Option<W>>>,
    /// Its program, for the log.
    program: String,
    has_logged: bool,
}

impl<R: AsyncRead, W> Lines<R, W> {
    pub fn new(read: R, write: W, program: &str) -> Lines<R, W> {
        Lines {
            read: BufReader::new(read),
            line: Vec::new(),
            skim: None,
            ready: VecDeque::new(),
            raw: BTreeMap::new(),
            first: None,
            write: Arc::new(Mutex::new(Some(write))),
            program: program.to_owned(),
            has_logged: false,
        }
    }

    /// Takes what was read of a line, up to its end if that is among it.
    fn take(&mut self, has_ended: bool) {
        if let Some(skim) = &mut self.skim {
            if let Some(id) = skim.answered().and_then(|id| serde_json::from_value(id).ok()) {
                self.ready.push_back(line::too_long(id));
            }
            if has_ended {
                self.skim = None;
                self.log("a message that is too long");
            }
            return;
        }
        if !has_ended {
            return;
        }
        let line = std::mem::take(&mut self.line);
        match line::read(&line) {
            Line::Blank => {}
            Line::Noise => self.log(&excerpt(&line)),
            Line::Unreadable { id, why } => {
                let told = self.message(line::error(&id, &why));
                self.ready.extend(told);
                self.log(&excerpt(&line));
            }
            Line::Messages(all) => {
                for message in all {
                    match self.message(message) {
                        Some(message) => self.ready.push_back(message),
                        None => self.log(&excerpt(&line)),
                    }
                }
            }
        }
    }

    /// A message as the library has it; none if it has no such message.
    fn message(&mut self, mut message: Value) -> Option<Message> {
        if message["method"].is_string() {
            return serde_json::from_value(message).ok();
        }
        let id = self.answered(&mut message)?;
        let method = self.raw.remove(&id);
        if let (Some(method), true) = (method, message.get("result").is_some()) {
            // All ids of ours are numbers.
            let id = RequestId::Number(id.parse().ok()?);
            let result = message["result"].take();
            if greeting::is_asked_by(&method) {
                return Some(self.greeted(&method, result, id));
            }
            return Some(JsonRpcMessage::response(ServerResult::CustomResult(CustomResult::new(result)), id));
        }
        serde_json::from_value(message).ok()
    }

    /// The id of the request that a message answers. Until the first question is answered, an answer to another one is none: the
    /// library would give the server up for it. An error that does not say of what refuses the first question, or the probe before
    /// it as long as that has no answer.
    fn answered(&mut self, message: &mut Value) -> Option<String> {
        let id = written(&message["id"]);
        let Some(first) = self.first.clone() else { return Some(id) };
        if message["id"].is_null() {
            let probe = self.raw.iter().find(|(id, method)| **id != first && *method == DISCOVER);
            if let Some(probe) = probe.map(|(id, _)| id.clone()) {
                self.raw.remove(&probe);
                return None;
            }
        } else if id != first {
            self.raw.remove(&id);
            return None;
        }
        message["id"] = first.parse::<i64>().map_or_else(|_| first.clone().into(), Value::from);
        self.first = None;
        Some(first)
    }

    /// What the first question is answered with. A probe that is answered oddly is refused: the server may speak an earlier version.
    fn greeted(&self, method: &str, result: Value, id: RequestId) -> Message {
        let read = greetings::read(&self.program, method, result).and_then(|result| match method {
            DISCOVER => serde_json::from_value(result).ok().map(ServerResult::DiscoverResult),
            _ => serde_json::from_value(result).ok().map(ServerResult::InitializeResult),
        });
        match read {
            Some(result) => JsonRpcMessage::response(result, id),
            None => JsonRpcMessage::error(ErrorData::new(NO_ANSWER, UNREADABLE, None), Some(id)),
        }
    }

    /// Logs once that something is passed over.
    fn log(&mut self, what: &str) {
        if !std::mem::replace(&mut self.has_logged, true) {
            let program = &self.program;
            tracing::warn!(program, what, "a server of tools writes what is no message of MCP; that is passed over");
        }
    }
}

/// An id, whether it is a number or a text that is one.
fn written(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = Error;

    fn name() -> Cow<'static, str> {
        "pipes".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && READ_HERE.contains(&request.request.method())
        {
            if self.raw.len() == RAW_MAX {
                self.raw.pop_first();
            }
            let (id, method) = (request.id.to_string(), request.request.method().to_owned());
            if greeting::is_asked_by(&method) {
                self.first = Some(id.clone());
            }
            self.raw.insert(id, method);
        }
        let (written, write) = (serde_json::to_vec(&item), self.write.clone());
        async move {
            let mut bytes = written?;
            bytes.push(b'\n');
            let mut write = write.lock().await;
            let closed = || Error::new(ErrorKind::NotConnected, "its input is closed");
            let write = write.as_mut().ok_or_else(closed)?;
            write.write_all(&bytes).await?;
            write.flush().await
        }
    }

    /// Nothing is lost where this is dropped.
    async fn receive(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let available = self.read.fill_buf().await.ok()?;
            if available.is_empty() {
                // A last line need not have an end.
                if self.line.is_empty() {
                    return None;
                }
                self.take(true);
                continue;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.map_or(available.len(), |end| end + 1)];
            if let Some(skim) = &mut self.skim {
                skim.pass(piece);
            } else if self.line.len() + piece.len() > MESSAGE_BYTES_MAX {
                let mut skim = Skim::default();
                skim.pass(&std::mem::take(&mut self.line));
                skim.pass(piece);
                self.skim = Some(skim);
            } else {
                self.line.extend_from_slice(piece);
            }
            let taken = piece.len();
            self.read.consume(taken);
            self.take(end.is_some());
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.write.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::tools::RESULT_TOO_LONG;
    use rmcp::model::{
        ClientRequest, DiscoverRequest, DiscoverRequestParams, InitializeRequest, InitializeRequestParams,
        ListToolsRequest, PingRequest, ServerNotification,
    };
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;

    type Pipes = Lines<DuplexStream, DuplexStream>;

    /// The pipes, and the server's ends of them: where it writes, and what it is sent.
    fn pipes() -> (Pipes, DuplexStream, DuplexStream) {
        let (read, output) = duplex(8 << 20);
        let (write, input) = duplex(1 << 20);
        (Lines::new(read, write, "stub"), output, input)
    }

    async fn ask(pipes: &mut Pipes, id: i64, request: ClientRequest) {
        pipes.send(JsonRpcMessage::request(request, RequestId::Number(id))).await.expect("it is sent");
    }

    fn list() -> ClientRequest {
        ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params: None,
            extensions: Default::default(),
        })
    }

    async fn said(output: &mut DuplexStream, text: &str) {
        output.write_all(text.as_bytes()).await.expect("there is room");
    }

    #[tokio::test]
    async fn what_is_no_message_is_passed_over_without_an_answer() {
        let (mut pipes, mut output, mut input) = pipes();
        let noise = ["Ready.", r#"{"level":"info"}"#, "", "[]", r#"{"jsonrpc":"2.0"}"#];
        said(&mut output, &format!("{}\n", noise.join("\n"))).await;
        said(&mut output, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n").await;
        let JsonRpcMessage::Notification(told) = pipes.receive().await.expect("a message") else { panic!("no notice") };
        assert!(matches!(told.notification, ServerNotification::ToolListChangedNotification(_)));
        drop(output);
        assert!(pipes.receive().await.is_none());
        drop(pipes);
        let mut sent = Vec::new();
        input.read_to_end(&mut sent).await.expect("the other end is closed");
        assert_eq!(String::from_utf8_lossy(&sent), "", "nothing was answered");
    }

    #[tokio::test]
    async fn answers_that_are_read_here_come_as_they_stand_and_others_as_the_library_has_them() {
        let (mut pipes, mut output, _input) = pipes();
        ask(&mut pipes, 3, list()).await;
        let result = json!({ "tools": [{ "name": "bad" }, 7], "nextCursor": 7, "odd": null });
        // A server may write the id as a text, and end its last line or not.
        let answer = json!({ "jsonrpc": "2.0", "id": "3", "result": result });
        said(&mut output, &answer.to_string()).await;
        drop(output);
        let JsonRpcMessage::Response(response) = pipes.receive().await.expect("an answer") else { panic!("no answer") };
        let ServerResult::CustomResult(read) = response.result else { panic!("it was read otherwise") };
        assert_eq!(read.0, result);
    }

    fn probe() -> ClientRequest {
        ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}))
    }

    fn initialize() -> ClientRequest {
        ClientRequest::InitializeRequest(InitializeRequest::new(InitializeRequestParams::default()))
    }

    #[tokio::test]
    async fn a_server_is_not_refused_for_an_odd_greeting_nor_for_what_it_says_before_it() {
        let (mut pipes, mut output, _input) = pipes();
        ask(&mut pipes, 0, probe()).await;
        said(&mut output, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}\n").await;
        let JsonRpcMessage::Error(told) = pipes.receive().await.expect("an answer") else { panic!("no error") };
        assert_eq!(told.id, Some(RequestId::Number(0)));
        ask(&mut pipes, 1, initialize()).await;
        for before in [
            json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -32_601, "message": "late" } }),
            json!({ "jsonrpc": "2.0", "id": "x", "result": {} }),
            json!({ "jsonrpc": "2.0", "id": "1", "result": { "capabilities": { "tools": true }, "serverInfo": "a" } }),
        ] {
            said(&mut output, &format!("{before}\n")).await;
        }
        let JsonRpcMessage::Response(response) = pipes.receive().await.expect("an answer") else { panic!("no answer") };
        assert_eq!(response.id, RequestId::Number(1));
        let ServerResult::InitializeResult(info) = response.result else { panic!("it was read otherwise") };
        assert_eq!((info.server_info.name.as_str(), info.capabilities.tools), ("unknown", None));
    }

    #[tokio::test]
    async fn an_error_that_does_not_say_of_what_is_that_of_the_first_question_that_has_no_answer() {
        let unaddressed = |why: &str| json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -1, "message": why } });
        let late = json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -32_601, "message": "late" } });
        for of_probe in [Some(unaddressed("late")), Some(late), None] {
            let (mut pipes, mut output, _input) = pipes();
            // The library asks for an earlier version where the probe has no answer for long.
            if of_probe.is_some() {
                ask(&mut pipes, 0, probe()).await;
            }
            ask(&mut pipes, 1, initialize()).await;
            for said_of_it in of_probe.into_iter().chain([unaddressed("no licence")]) {
                said(&mut output, &format!("{said_of_it}\n")).await;
            }
            let JsonRpcMessage::Error(told) = pipes.receive().await.expect("an answer") else { panic!("no error") };
            assert_eq!((told.id, told.error.message.as_ref()), (Some(RequestId::Number(1)), "no licence"));
        }
    }

    #[tokio::test]
    async fn a_probe_that_is_answered_with_nothing_is_refused_so_that_an_earlier_version_is_spoken() {
        for result in [json!({}), json!(null), json!([])] {
            let (mut pipes, mut output, _input) = pipes();
            ask(&mut pipes, 0, probe()).await;
            let answer = json!({ "jsonrpc": "2.0", "id": 0, "result": result });
            said(&mut output, &format!("{answer}\n")).await;
            let JsonRpcMessage::Error(told) = pipes.receive().await.expect("an answer") else { panic!("{answer}") };
            assert_eq!(told.error.code, NO_ANSWER, "{answer}");
        }
    }

    #[tokio::test]
    async fn whoever_waits_for_what_is_no_json_is_told() {
        let (mut pipes, mut output, _input) = pipes();
        ask(&mut pipes, 3, list()).await;
        said(&mut output, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{'tools':[]}}\n").await;
        let JsonRpcMessage::Error(told) = pipes.receive().await.expect("it is told") else { panic!("no error") };
        assert_eq!(told.id, Some(RequestId::Number(3)));
        assert!(told.error.message.starts_with("its answer is no JSON: "), "{}", told.error.message);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_message_that_is_too_long_is_told_and_the_next_is_read() {
        let long = "A".repeat(MESSAGE_BYTES_MAX);
        for text in [
            format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"data":"{long}"}}}}"#),
            format!(r#"{{"result":{{"data":"{long}"}},"id":3,"jsonrpc":"2.0"}}"#),
        ] {
            let (mut pipes, mut output, _input) = pipes();
            ask(&mut pipes, 3, list()).await;
            ask(&mut pipes, 4, ClientRequest::PingRequest(PingRequest::default())).await;
            said(&mut output, &text).await;
            said(&mut output, "\n{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n").await;
            let JsonRpcMessage::Error(told) = pipes.receive().await.expect("it is told") else { panic!("no error") };
            assert_eq!((told.id, told.error.code), (Some(RequestId::Number(3)), line::TOO_LONG));
            assert_eq!(told.error.message, RESULT_TOO_LONG);
            let next = pipes.receive().await.expect("the next");
            assert!(matches!(next, JsonRpcMessage::Response(response) if response.id == RequestId::Number(4)));
        }
    }
}

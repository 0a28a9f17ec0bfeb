//! What servers over HTTP answer, as the library can take it: it reads an answer as a whole, and by its members alone, whatever
//! was asked. So that it is read as over pipes, bad members are set aside before, an answer of another kind is none, and what
//! answers another request, or is no message, is passed over.

use std::sync::Arc;

use rmcp::model::{
    CustomResult, ErrorData, JsonRpcMessage, ListToolsResult, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde_json::{Value, json};

use crate::greetings;
use crate::machine::greeting::{self, DISCOVER, UNREADABLE};
use crate::machine::line::{self, Line, NO_ANSWER};
use crate::machine::{answer, listing};

const LIST: &str = "tools/list";
/// What is answered with the result of a tool.
const CALLS: [&str; 2] = ["tools/call", "tasks/result"];
const ANOTHERS: &str = "its answer is to another request";

/// A request that was asked.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    pub method: String,
    pub id: RequestId,
    /// Whom it was sent to, for the log.
    pub server: Arc<str>,
}

/// What a message is to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// What whoever sent it waits for.
    Answer(Value),
    /// An error that does not say of what: its answer, if there is no other.
    Unaddressed(Value),
    /// What a server says or asks beside answers.
    Beside(Value),
    /// The answer to another request.
    Foreign,
}

impl OpenRequest {
    /// What the data of an event says, in order. Nothing of it is no message.
    pub fn event(&self, data: &str) -> Vec<Meaning> {
        match line::read(data.as_bytes()) {
            Line::Messages(all) => all.into_iter().map(|message| self.said(message)).collect(),
            Line::Unreadable { id, why } if self.is_own(&id) => vec![Meaning::Answer(self.error(&why))],
            Line::Unreadable { .. } | Line::Blank | Line::Noise => Vec::new(),
        }
    }

    /// The messages of a body, with one that answers it; none if it is nothing of MCP.
    pub fn body(&self, body: &[u8]) -> Option<Vec<Value>> {
        let all = match line::read(body) {
            Line::Messages(all) => all,
            Line::Unreadable { id, why } if self.is_own(&id) => return Some(vec![self.error(&why)]),
            Line::Unreadable { .. } | Line::Blank | Line::Noise => return None,
        };
        let (mut beside, mut answer, mut unaddressed) = (Vec::new(), None, None);
        for message in all {
            match self.said(message) {
                Meaning::Answer(own) => answer = answer.or(Some(own)),
                Meaning::Unaddressed(error) => unaddressed = Some(error),
                Meaning::Beside(message) => beside.push(message),
                Meaning::Foreign => {}
            }
        }
        beside.push(answer.or(unaddressed).unwrap_or_else(|| self.error(ANOTHERS)));
        Some(beside)
    }

    /// The error in a body that refuses it, whatever request that names; none if there is none.
    pub fn refusal(&self, body: &[u8]) -> Option<Value> {
        let Line::Messages(mut all) = line::read(body) else { return None };
        let mut error = all.pop().filter(|message| all.is_empty() && message["error"].is_object())?;
        error["id"] = json!(self.id);
        Some(error)
    }

    /// An answer as the library has it, by what was asked.
    pub fn typed(&self, mut message: Value) -> ServerJsonRpcMessage {
        let result = message.get_mut("result").map(Value::take);
        let result = match (self.method.as_str(), result) {
            (_, None) => return serde_json::from_value(message).unwrap_or_else(|_| self.unreadable(UNREADABLE)),
            // So that the library learns which tools there are: it names some arguments in headers.
            (LIST, Some(page)) => match serde_json::from_value::<ListToolsResult>(page.clone()) {
                Ok(listed) => ServerResult::ListToolsResult(listed),
                Err(_) => ServerResult::CustomResult(CustomResult(page)),
            },
            // Read as another result, it would lose that the tool failed.
            (method, Some(result)) if CALLS.contains(&method) => ServerResult::CustomResult(CustomResult(result)),
            (_, Some(result)) => match serde_json::from_value(result) {
                Ok(result) => result,
                Err(_) => return self.unreadable(UNREADABLE),
            },
        };
        JsonRpcMessage::response(result, self.id.clone())
    }

    /// Instead of an answer that is none; why.
    pub fn unreadable(&self, why: &str) -> ServerJsonRpcMessage {
        JsonRpcMessage::error(ErrorData::new(NO_ANSWER, why.to_owned(), None), Some(self.id.clone()))
    }

    /// The same, as it stands in a message.
    pub fn error(&self, why: &str) -> Value {
        line::error(&json!(self.id), why)
    }

    /// Whether its answer is read here.
    pub fn is_read_here(&self) -> bool {
        self.method == LIST || CALLS.contains(&self.method.as_str())
    }

    /// Whether it asks whether the server speaks the newest version. One that answers that oddly may speak an earlier one.
    pub fn is_probe(&self) -> bool {
        self.method == DISCOVER
    }

    /// Whether it is the first of a connection.
    pub fn is_first(&self) -> bool {
        greeting::is_asked_by(&self.method)
    }

    fn said(&self, mut message: Value) -> Meaning {
        if message["method"].is_string() {
            return Meaning::Beside(message);
        }
        let is_unaddressed = message["id"].is_null();
        if !is_unaddressed && !self.is_own(&message["id"]) {
            return Meaning::Foreign;
        }
        message["id"] = json!(self.id);
        if let Some(result) = message.get_mut("result").map(Value::take) {
            match self.readable(result) {
                Some(result) => message["result"] = result,
                None => message = self.error(UNREADABLE),
            }
        }
        if is_unaddressed { Meaning::Unaddressed(message) } else { Meaning::Answer(message) }
    }

    fn readable(&self, result: Value) -> Option<Value> {
        match self.method.as_str() {
            LIST => Some(listing::readable(result)),
            method if CALLS.contains(&method) => Some(answer::readable(result)),
            method if greeting::is_asked_by(method) => greetings::read(&self.server, method, result),
            _ => Some(result),
        }
    }

    /// Whether an id is that of the request; some servers write a number as a text.
    fn is_own(&self, id: &Value) -> bool {
        *id == json!(self.id) || id.as_str().is_some_and(|id| id == self.id.to_string())
    }
}

/// The data of an event that answers no request.
pub fn unasked(data: String) -> String {
    let Line::Messages(mut all) = line::read(data.as_bytes()) else { return data };
    match all.pop().filter(|message| all.is_empty() && message["method"].is_string()) {
        Some(message) => message.to_string(),
        None => data,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ServerRequest;

    use super::*;
    use crate::machine::question::{AS_WRITTEN, ELICITATION};

    fn asked(method: &str) -> OpenRequest {
        OpenRequest { method: method.to_owned(), id: RequestId::Number(4), server: "stub".into() }
    }

    /// Results as the node has them: of an event, and of a body.
    fn both(method: &str, result: &Value) -> [ServerJsonRpcMessage; 2] {
        let answer = json!({ "jsonrpc": "2.0", "id": 4, "result": result });
        let event = asked(method).event(&answer.to_string()).pop();
        let Some(Meaning::Answer(event)) = event else { panic!("no answer: {event:?}") };
        let event = serde_json::from_str(&event.to_string()).expect("a message");
        let body = asked(method).body(answer.to_string().as_bytes()).and_then(|mut all| all.pop());
        [event, asked(method).typed(body.expect("an answer"))]
    }

    fn result(message: ServerJsonRpcMessage) -> Option<Value> {
        match message {
            JsonRpcMessage::Response(response) => serde_json::to_value(response.result).ok(),
            _ => None,
        }
    }

    #[test]
    fn one_bad_tool_spoils_no_list() {
        let good = json!({ "name": "good", "inputSchema": { "type": "object" } });
        let page = json!({ "tools": [{ "name": "bad" }, good], "resultType": "complete", "ttlMs": 0 });
        for message in both(LIST, &page) {
            let JsonRpcMessage::Response(response) = message else { panic!("no list") };
            assert!(matches!(&response.result, ServerResult::ListToolsResult(listed) if listed.tools.len() == 1));
            let page = serde_json::to_value(response.result).expect("JSON");
            let mut listing = listing::Listing::default();
            listing.take(&page).expect("a list");
            let (tools, left_out) = listing.done();
            assert_eq!((tools.len(), tools[0].name.as_str(), left_out[0].0.as_str()), (1, "good", "bad"));
        }
    }

    #[test]
    fn a_result_of_a_tool_is_taken_for_nothing_else() {
        let text = json!({ "type": "text", "text": "no" });
        for (more, value) in [("action", json!("accept")), ("tools", json!([])), ("prompts", json!([]))] {
            let mut failed = json!({ "content": [text], "isError": true });
            failed[more] = value;
            for message in both("tools/call", &failed) {
                assert_eq!(result(message).map(|read| read["isError"].clone()), Some(json!(true)), "{more}");
            }
        }
        let some = json!({ "content": [text, { "type": "text" }, 7] });
        for message in both("tools/call", &some) {
            let read = result(message).expect("a result");
            let answer::Answer::Result(read) = answer::read(&read) else { panic!("{read}") };
            assert_eq!(read["content"][0], text);
            assert!(read["content"][1]["text"].as_str().is_some_and(|said| said.starts_with("2 of 3")), "{read}");
        }
        let structured = json!({ "content": null, "structuredContent": { "n": null } });
        for message in both("tools/call", &structured) {
            assert_eq!(result(message).map(|read| read["structuredContent"].clone()), Some(json!({ "n": null })));
        }
    }

    #[test]
    fn a_question_comes_as_it_was_written_on_each_stream() {
        let schema = json!({ "properties": { "a": { "$ref": "#/$defs/a", "pattern": "^a" } } });
        let params = json!({ "message": "Which?", "requestedSchema": schema });
        let question = json!({ "jsonrpc": "2.0", "id": 9, "method": ELICITATION, "params": params }).to_string();
        let beside = asked("tools/call").event(&question).pop();
        let Some(Meaning::Beside(beside)) = beside else { panic!("no question: {beside:?}") };
        for data in [beside.to_string(), unasked(question)] {
            let message: ServerJsonRpcMessage = serde_json::from_str(&data).expect("a message");
            let JsonRpcMessage::Request(request) = message else { panic!("no request") };
            let ServerRequest::CustomRequest(custom) = request.request else { panic!("it was read otherwise") };
            assert_eq!((custom.method.as_str(), custom.params), (AS_WRITTEN, Some(params.clone())));
        }
        for same in ["", "{null", r#"{"jsonrpc":"2.0","id":5,"result":{"content":null}}"#] {
            assert_eq!(unasked(same.to_owned()), same);
        }
    }

    #[test]
    fn what_is_no_message_or_answers_another_request_is_passed_over() {
        for none in ["", "null", "[null]", "{null", "{}", "hello", r#"{"level":"info"}"#] {
            assert_eq!(asked("tools/call").event(none), Vec::new(), "{none}");
            assert_eq!(asked("tools/call").body(none.as_bytes()), None, "{none}");
        }
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1}}"#;
        let beside = Meaning::Beside(serde_json::from_str(notice).expect("JSON"));
        assert_eq!(asked("tools/call").event(notice), [beside]);
        let other = r#"{"jsonrpc":"2.0","id":5,"result":{"content":null}}"#;
        assert_eq!(asked("tools/call").event(other), [Meaning::Foreign]);
        let told = asked("tools/call").body(other.as_bytes()).expect("messages");
        assert_eq!(told, [asked("tools/call").error(ANOTHERS)], "nobody waits for another");
        let unaddressed = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#;
        let error = json!({ "jsonrpc": "2.0", "id": 4, "error": { "code": -1, "message": "no" } });
        assert_eq!(asked("tools/call").event(unaddressed), [Meaning::Unaddressed(error.clone())]);
        assert_eq!(asked("tools/call").body(unaddressed.as_bytes()), Some(vec![error]));
    }

    #[test]
    fn a_bad_error_is_one_and_what_is_no_json_is_told_to_whoever_waits() {
        let said = asked("tools/call").event(r#"{"jsonrpc":"2.0","id":"4","error":"no"}"#);
        let [Meaning::Answer(event)] = said.as_slice() else { panic!("no answer: {said:?}") };
        assert_eq!((&event["id"], &event["error"]["message"]), (&json!(4), &json!("no")));
        let JsonRpcMessage::Error(told) = asked("tools/call").unreadable("no") else { panic!("no error") };
        assert_eq!(told.id, Some(RequestId::Number(4)));
        let bad = r#"{"jsonrpc":"2.0","id":4,"result":{'a':1}}"#;
        let said = asked("tools/call").event(bad);
        let [Meaning::Answer(event)] = said.as_slice() else { panic!("no answer: {said:?}") };
        assert!(event["error"]["message"].as_str().is_some_and(|why| why.contains("is no JSON")), "{event}");
        assert_eq!(asked("tools/call").body(bad.as_bytes()), Some(vec![event.clone()]));
    }

    #[test]
    fn an_odd_greeting_is_one_and_the_probe_that_is_answered_otherwise_tells_an_earlier_version() {
        let odd = json!({ "capabilities": [], "serverInfo": null });
        for message in both("initialize", &odd) {
            let JsonRpcMessage::Response(response) = message else { panic!("no answer") };
            assert!(matches!(&response.result, ServerResult::InitializeResult(it) if it.server_info.name == "unknown"));
        }
        for none in [json!({}), json!(null), json!([])] {
            for message in both(DISCOVER, &none) {
                let JsonRpcMessage::Error(told) = message else { panic!("no error: {none}") };
                assert_eq!((told.error.code, told.error.message.as_ref()), (NO_ANSWER, UNREADABLE), "{none}");
            }
        }
        let listed = json!([{ "jsonrpc": "2.0", "method": "notifications/message", "params": {} },
            { "jsonrpc": "2.0", "id": 4, "result": odd }]);
        let all = asked("initialize").body(listed.to_string().as_bytes()).expect("messages");
        assert_eq!((all.len(), &all[0]["method"]), (2, &json!("notifications/message")));
        assert_eq!(all[1]["result"]["capabilities"], json!({}));
    }
}

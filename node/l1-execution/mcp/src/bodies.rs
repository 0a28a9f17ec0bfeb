//! What servers over HTTP answer, as the library can take it: it reads an answer as a whole, and by its members alone, whatever
//! was asked. So that it is read as over pipes, bad members are set aside before, and an answer of another kind is none.

use rmcp::model::{CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};
use serde_json::{Value, json};

use crate::machine::line::{self, Line};
use crate::machine::{answer, listing};

const LIST: &str = "tools/list";
/// What is answered with the result of a tool.
const CALLS: [&str; 2] = ["tools/call", "tasks/result"];

/// A request that was asked.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    pub method: String,
    pub id: RequestId,
}

impl OpenRequest {
    /// The data of an event. What answers another request stays as it is.
    pub fn event(&self, data: String) -> String {
        let Line::Messages(mut all) = line::read(data.as_bytes()) else { return data };
        let Some(mut message) = all.pop().filter(|_| all.is_empty()) else { return data };
        if message["method"].is_string() {
            return message.to_string();
        }
        if !self.is_own(&message["id"]) {
            return data;
        }
        message["id"] = json!(self.id);
        if let Some(result) = message.get_mut("result") {
            *result = self.readable(result.take());
        }
        message.to_string()
    }

    /// The answer that the library read.
    pub fn body(&self, message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        let response = match message {
            JsonRpcMessage::Response(response) => response,
            JsonRpcMessage::Error(error) => return JsonRpcMessage::error(error.error, error.id.map(|id| self.own(id))),
            other => return other,
        };
        let is_call = CALLS.contains(&self.method.as_str());
        let result = match response.result {
            // So that the library learns which tools there are: it names some arguments in headers.
            ServerResult::CustomResult(CustomResult(page)) if self.method == LIST => {
                let page = self.readable(page);
                match serde_json::from_value(page.clone()) {
                    Ok(listed) => ServerResult::ListToolsResult(listed),
                    Err(_) => ServerResult::CustomResult(CustomResult(page)),
                }
            }
            result @ (ServerResult::CallToolResult(_)
            | ServerResult::InputRequiredResult(_)
            | ServerResult::CreateTaskResult(_)
            | ServerResult::CustomResult(_)) => result,
            // What it lost of that may have said that the tool failed.
            _ if is_call => return self.unreadable(),
            result => result,
        };
        JsonRpcMessage::response(result, self.own(response.id))
    }

    /// Instead of a body that is no message.
    pub fn unreadable(&self) -> ServerJsonRpcMessage {
        let why = "its answer cannot be read as one of MCP to what it was asked";
        JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None), Some(self.id.clone()))
    }

    /// Whether its answer is read here.
    pub fn is_read_here(&self) -> bool {
        self.method == LIST || CALLS.contains(&self.method.as_str())
    }

    fn readable(&self, result: Value) -> Value {
        match self.method.as_str() {
            LIST => listing::readable(result),
            method if CALLS.contains(&method) => answer::readable(result),
            _ => result,
        }
    }

    /// An id as the library knows it.
    fn own(&self, id: RequestId) -> RequestId {
        if self.is_own(&json!(id)) { self.id.clone() } else { id }
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
        OpenRequest { method: method.to_owned(), id: RequestId::Number(4) }
    }

    /// Results as the node has them: of an event, and of a body.
    fn both(method: &str, result: &Value) -> [ServerJsonRpcMessage; 2] {
        let answer = json!({ "jsonrpc": "2.0", "id": 4, "result": result });
        let event = asked(method).event(answer.to_string());
        let event = serde_json::from_str(&event).expect("a message");
        [event, asked(method).body(serde_json::from_value(answer).expect("a message"))]
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
            let [event, body] = both("tools/call", &failed);
            assert_eq!(result(event).map(|read| read["isError"].clone()), Some(json!(true)), "{more}");
            assert!(result(body).is_none_or(|read| read["isError"] == true), "{more}");
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
        for data in [asked("tools/call").event(question.clone()), unasked(question)] {
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
    fn what_answers_nothing_stays_and_a_bad_error_is_one() {
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1}}"#;
        let other = r#"{"jsonrpc":"2.0","id":5,"result":{"content":null}}"#;
        for same in ["", "null", "[null]", "{null", notice, other] {
            assert_eq!(asked("tools/call").event(same.to_owned()), same);
        }
        let event = asked("tools/call").event(r#"{"jsonrpc":"2.0","id":"4","error":"no"}"#.to_owned());
        let event: Value = serde_json::from_str(&event).expect("JSON");
        assert_eq!((&event["id"], &event["error"]["message"]), (&json!(4), &json!("no")));
        let JsonRpcMessage::Error(told) = asked("tools/call").unreadable() else { panic!("no error") };
        assert_eq!(told.id, Some(RequestId::Number(4)));
    }
}

//! Messages of the sub-protocol, as they are asked and answered. Pure.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

/// Bytes of an id that a client chooses.
const ID_BYTES_MAX: usize = 256;
/// Bytes of a member that is kept.
const MEMBER_BYTES_MAX: usize = 1_024;
/// The members that are kept of a request, beside its input.
const MEMBERS: [&str; 8] = ["action", "event", "input", "name", "properties", "property", "traceparent", "tracestate"];

/// A request.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its type in lower case, since clients differ in that too.
    pub kind: String,
    /// The Thing that it is for.
    pub thing: String,
    /// What the answer shares with it.
    correlation: String,
    /// How it ends the names of ids: `ID` or `Id`.
    ending: &'static str,
    members: Map<String, Value>,
}

impl Asked {
    /// Reads a message.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Asked, String> {
        let read: Result<Value, _> = serde_json::from_str(text);
        let Value::Object(mut members) = read.map_err(|error| format!("the message is not JSON: {error}"))? else {
            return Err("a message is an object".to_owned());
        };
        let ending = if members.contains_key("thingId") || members.contains_key("messageId") { "Id" } else { "ID" };
        let id = |name: &str| {
            let either = ["ID", "Id"].iter().find_map(|ending| members.get(&format!("{name}{ending}"))?.as_str());
            either.filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX).map(str::to_owned)
        };
        let missing = |name: &str| format!("`{name}{ending}` is missing, or longer than {ID_BYTES_MAX} bytes");
        let message = id("message").ok_or_else(|| missing("message"))?;
        let thing = id("thing").ok_or_else(|| missing("thing"))?;
        let kind = members.get("messageType").and_then(Value::as_str).ok_or("`messageType` is missing")?;
        let kind: String = kind.chars().take(64).collect();
        let (kind, correlation) = (kind.to_ascii_lowercase(), id("correlation").unwrap_or(message));
        members.retain(|name, value| MEMBERS.contains(&name.as_str()) && (name == "input" || is_small(value)));
        Ok(Asked { kind, thing, correlation, ending, members })
    }

    /// What an error answers that nobody could read.
    pub fn unreadable(thing: &str) -> Asked {
        let (kind, correlation) = (String::new(), String::new());
        Asked { kind, thing: thing.to_owned(), correlation, ending: "ID", members: Map::new() }
    }

    /// The input of an action. It can be large, so that whoever takes it decides how long it is kept.
    pub fn take_input(&mut self) -> Value {
        self.members.remove("input").unwrap_or_default()
    }

    pub fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// The name of a property, and the members in which name and value are answered.
    pub fn property(&self) -> (String, (&'static str, &'static str)) {
        let text = |name: &str| self.member(name).and_then(Value::as_str).map(str::to_owned);
        match text("property") {
            Some(name) => (name, ("property", "data")),
            None => (text("name").unwrap_or_default(), ("name", "value")),
        }
    }

    /// An answer with an id of its own.
    pub fn reply(&self, kind: &str, members: Value, message: &str) -> Value {
        let mut reply = Map::new();
        let named = |name: &str| format!("{name}{}", self.ending);
        reply.insert(named("thing"), json!(self.thing));
        reply.insert(named("message"), json!(message));
        reply.insert("messageType".to_owned(), json!(kind));
        if !self.correlation.is_empty() {
            reply.insert(named("correlation"), json!(self.correlation));
        }
        if let Value::Object(members) = members {
            reply.extend(members);
        }
        Value::Object(reply)
    }

    /// An error: problem details, with the status as text.
    pub fn error(&self, status: StatusCode, detail: &str, message: &str) -> Value {
        let members = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Error"),
            "status": status.as_str(),
            "detail": detail,
            "instance": format!("urn:uuid:{message}"),
        });
        self.reply("error", members, message)
    }
}

/// A short text, or a short list of texts.
fn is_small(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= MEMBER_BYTES_MAX,
        Value::Array(items) => {
            let bytes = |item: &Value| item.as_str().map_or(MEMBER_BYTES_MAX + 1, |text| text.len() + 1);
            items.iter().map(bytes).sum::<usize>() <= MEMBER_BYTES_MAX
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_in_its_own_names() {
        let asked = json!({ "thingID": "urn:x", "messageID": "m1", "messageType": "readProperty", "name": "status",
            "correlationID": "c1" });
        let asked = Asked::parse(&asked.to_string()).expect("a message");
        assert_eq!((asked.kind.as_str(), asked.property()), ("readproperty", ("status".to_owned(), ("name", "value"))));
        let wanted = json!({ "thingID": "urn:x", "messageID": "m2", "messageType": "propertyReading",
            "correlationID": "c1", "value": 1 });
        assert_eq!(asked.reply("propertyReading", json!({ "value": 1 }), "m2"), wanted);
        let asked =
            json!({ "thingId": "urn:x", "messageId": "m1", "messageType": "readProperty", "property": "status" });
        let asked = Asked::parse(&asked.to_string()).expect("a message");
        assert_eq!(asked.property().1, ("property", "data"));
        let error = asked.error(StatusCode::NOT_FOUND, "nothing", "m2");
        assert_eq!(
            (&error["correlationId"], &error["status"], &error["thingId"]),
            (&json!("m1"), &json!("404"), &json!("urn:x"))
        );
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for text in [
            "",
            "7",
            "[]",
            "{}",
            "{\"thingID\":\"t\",\"messageType\":\"x\"}",
            "{\"messageID\":\"m\",\"messageType\":\"x\"}",
            "{\"thingID\":\"t\",\"messageID\":\"m\"}",
            "{\"thingID\":\"t\",\"messageID\":7,\"messageType\":\"x\"}",
            &format!("{{\"thingID\":\"t\",\"messageID\":\"{long}\",\"messageType\":\"x\"}}"),
        ] {
            assert!(Asked::parse(text).is_err(), "{text}");
        }
    }

    /// Threat: requests that wait for an hour, each with a megabyte that nobody reads.
    #[test]
    fn of_a_large_request_only_what_is_read_is_kept() {
        let long = "x".repeat(MEMBER_BYTES_MAX + 1);
        let asked = json!({ "thingID": "t", "messageID": "m", "messageType": long, "input": { "messages": [long] },
            "padding": long, "action": "chat", "name": long, "properties": vec![""; MEMBER_BYTES_MAX + 1] });
        let mut asked = Asked::parse(&asked.to_string()).expect("a message");
        assert_eq!(asked.take_input()["messages"][0], long);
        assert_eq!(
            (asked.kind.len(), asked.members.into_iter().map(|(name, _)| name).collect::<Vec<_>>()),
            (64, vec!["action".to_owned()])
        );
    }
}

//! Parameters of requests, read before the SDK reads them: it takes a request whose parameters are odd for one of a method that it
//! does not know, or for none. What a client need not say counts as not said, and of what it must say the member is named. Pure.

use rmcp::model::{ClientCapabilities, Implementation};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Mends the parameters of a request, which is an object; whether it is another one now.
///
/// # Errors
/// Why its parameters are none, naming the member (-32602).
pub(crate) fn mend(message: &mut Value) -> Result<bool, String> {
    match message["method"].as_str() {
        Some("initialize") => mend_initialize(message),
        Some("tools/call") => check_call(message).map(|()| false),
        _ => Ok(false),
    }
}

fn mend_initialize(message: &mut Value) -> Result<bool, String> {
    let before = message.get("params").cloned().unwrap_or_default();
    let mut params = before.as_object().cloned().unwrap_or_default();
    match params.get("protocolVersion") {
        Some(Value::String(_)) => {}
        None | Some(Value::Null) => {
            return Err("`protocolVersion` is missing: name a version of MCP, such as \"2025-11-25\"".to_owned());
        }
        Some(_) => return Err("`protocolVersion` is a text, such as \"2025-11-25\"".to_owned()),
    }
    if params.get("_meta").is_some_and(|meta| !meta.is_object()) {
        params.remove("_meta");
    }
    let capabilities = fit::<ClientCapabilities>(params.remove("capabilities"), Map::new());
    let nameless = Map::from_iter([("name".to_owned(), json!("")), ("version".to_owned(), json!(""))]);
    let info = fit::<Implementation>(params.remove("clientInfo"), nameless);
    params.insert("capabilities".to_owned(), Value::Object(capabilities));
    params.insert("clientInfo".to_owned(), Value::Object(info));
    let after = Value::Object(params);
    let is_other = before != after;
    message["params"] = after;
    Ok(is_other)
}

/// The members that can be read, each alone, beside those that must be there.
fn fit<T: DeserializeOwned>(value: Option<Value>, needed: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Object(members)) = value else { return needed };
    let mut kept = needed.clone();
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        let mut alone = needed.clone();
        alone.insert(name.clone(), value.clone());
        if serde_json::from_value::<T>(Value::Object(alone)).is_ok() {
            kept.insert(name, value);
        }
    }
    kept
}

fn check_call(message: &Value) -> Result<(), String> {
    let params = &message["params"];
    match params.get("name") {
        Some(Value::String(_)) => {}
        None | Some(Value::Null) => return Err("`name` is missing: it names the tool".to_owned()),
        Some(_) => return Err("`name` is a text: it names the tool".to_owned()),
    }
    match params.get("arguments") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => Err("`arguments` is an object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientJsonRpcMessage, ClientRequest};

    use super::*;

    fn initialize(params: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
    }

    /// Whether the SDK knows it for what it is.
    fn is_initialize(message: &Value) -> bool {
        let read: Result<ClientJsonRpcMessage, _> = serde_json::from_value(message.clone());
        matches!(read, Ok(ClientJsonRpcMessage::Request(request)) if matches!(request.request, ClientRequest::InitializeRequest(_)))
    }

    #[test]
    fn what_a_client_need_not_say_counts_as_not_said() {
        let whole = json!({ "protocolVersion": "2025-06-18", "capabilities": { "roots": { "listChanged": true } },
            "clientInfo": { "name": "c", "version": "1" } });
        let mut message = initialize(whole.clone());
        assert_eq!(mend(&mut message), Ok(false));
        assert_eq!(message["params"], whole, "it is passed on as it came");
        let empty = json!({ "name": "", "version": "" });
        for (member, value, read) in [
            ("clientInfo", json!(null), empty.clone()),
            ("clientInfo", json!("c"), empty),
            ("clientInfo", json!({ "name": "c" }), json!({ "name": "c", "version": "" })),
            ("clientInfo", json!({ "name": 7, "version": null, "icons": 7 }), json!({ "name": "", "version": "" })),
            (
                "clientInfo",
                json!({ "name": "c", "version": "1", "title": null }),
                json!({ "name": "c", "version": "1" }),
            ),
            ("capabilities", json!(null), json!({})),
            ("capabilities", json!([]), json!({})),
            ("capabilities", json!({ "roots": null, "elicitation": {} }), json!({ "elicitation": {} })),
            ("capabilities", json!({ "roots": true, "sampling": 7, "own": 7 }), json!({ "own": 7 })),
        ] {
            let mut params = whole.clone();
            params[member] = value.clone();
            let mut message = initialize(params);
            assert_eq!(mend(&mut message), Ok(true), "{member}: {value}");
            assert_eq!(message["params"][member], read, "{member}: {value}");
            assert!(is_initialize(&message), "{message}");
        }
        let mut bare = initialize(json!({ "protocolVersion": "2025-06-18", "_meta": null }));
        assert_eq!(mend(&mut bare), Ok(true));
        assert!(is_initialize(&bare), "{bare}");
    }

    #[test]
    fn of_what_a_client_must_say_the_member_is_named() {
        let call = |params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        for (message, named) in [
            (initialize(json!({ "protocolVersion": null })), "`protocolVersion` is missing"),
            (initialize(json!({ "protocolVersion": 7 })), "`protocolVersion` is a text"),
            (initialize(json!(null)), "`protocolVersion` is missing"),
            (call(json!({ "arguments": {} })), "`name` is missing"),
            (call(json!(null)), "`name` is missing"),
            (call(json!({ "name": 7 })), "`name` is a text"),
            (call(json!({ "name": "a", "arguments": "{}" })), "`arguments` is an object"),
            (call(json!({ "name": "a", "arguments": [] })), "`arguments` is an object"),
        ] {
            let why = mend(&mut message.clone()).expect_err("refused");
            assert!(why.contains(named), "{message}: {why}");
        }
        for fine in
            [json!({ "name": "a" }), json!({ "name": "a", "arguments": null }), json!({ "name": "a", "arguments": {} })]
        {
            assert_eq!(mend(&mut call(fine.clone())), Ok(false), "{fine}");
        }
        assert_eq!(mend(&mut json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })), Ok(false));
    }
}

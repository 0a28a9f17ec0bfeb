//! Checks an operation's raw JSON before a2a-lf's types parse it: limits, required members, exactly one kind
//! of Part, and ProtoJSON's other spellings (snake-case names, enum numbers, integers as strings).

use a2a::PartContent;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::OperationError;
use crate::operation::Operation;

/// Deepest nesting of an operation's JSON.
const DEPTH_MAX: usize = 32;
/// Parts of one message.
const PARTS_MAX: usize = 256;
/// Bytes of an id that a client chooses.
const ID_BYTES_MAX: usize = 256;

/// The snake-case spellings that ProtoJSON's readers accept beside lowerCamelCase, in the objects of our operations.
const SPELLINGS: [(&str, &str); 14] = [
    ("message_id", "messageId"),
    ("context_id", "contextId"),
    ("task_id", "taskId"),
    ("reference_task_ids", "referenceTaskIds"),
    ("media_type", "mediaType"),
    ("accepted_output_modes", "acceptedOutputModes"),
    ("task_push_notification_config", "taskPushNotificationConfig"),
    ("history_length", "historyLength"),
    ("return_immediately", "returnImmediately"),
    ("page_size", "pageSize"),
    ("page_token", "pageToken"),
    ("status_timestamp_after", "statusTimestampAfter"),
    ("include_artifacts", "includeArtifacts"),
    ("last_chunk", "lastChunk"),
];
const ROLES: [&str; 3] = ["ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"];
const STATES: [&str; 9] = [
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];
const PART_KINDS: [&str; 4] = ["text", "raw", "url", "data"];

fn wrong(message: impl Into<String>) -> OperationError {
    OperationError::invalid_params(message)
}

/// The parameters of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Params {
    /// Of SendMessage and SendStreamingMessage.
    Send(Box<a2a::SendMessageRequest>),
    /// Of GetTask.
    Get(a2a::GetTaskRequest),
    /// Of ListTasks.
    List(a2a::ListTasksRequest),
    /// Of CancelTask.
    Cancel(a2a::CancelTaskRequest),
    /// Of SubscribeToTask.
    Subscribe(a2a::SubscribeToTaskRequest),
    /// Of CreateTaskPushNotificationConfig.
    CreatePush(Box<a2a::TaskPushNotificationConfig>),
    /// Of GetTaskPushNotificationConfig.
    GetPush(a2a::GetTaskPushNotificationConfigRequest),
    /// Of ListTaskPushNotificationConfigs.
    ListPush(a2a::ListTaskPushNotificationConfigsRequest),
    /// Of DeleteTaskPushNotificationConfig.
    DeletePush(a2a::DeleteTaskPushNotificationConfigRequest),
    /// Of GetExtendedAgentCard, which has none.
    Card,
}

impl Params {
    /// Reads the parameters of an operation.
    ///
    /// # Errors
    /// `InvalidParams` with the member that breaks a rule.
    pub fn parse(operation: Operation, bytes: &[u8]) -> Result<Params, OperationError> {
        match operation {
            Operation::SendMessage | Operation::SendStreamingMessage => {
                send(bytes).map(|request| Params::Send(Box::new(request)))
            }
            Operation::GetTask => task(bytes).map(Params::Get),
            Operation::ListTasks => list(bytes).map(Params::List),
            Operation::CancelTask => task(bytes).map(Params::Cancel),
            Operation::SubscribeToTask => task(bytes).map(Params::Subscribe),
            Operation::CreatePushConfig => push(bytes, &["taskId", "url"]).map(|c| Params::CreatePush(Box::new(c))),
            Operation::GetPushConfig => push(bytes, &["taskId", "id"]).map(Params::GetPush),
            Operation::ListPushConfigs => push(bytes, &["taskId"]).map(Params::ListPush),
            Operation::DeletePushConfig => push(bytes, &["taskId", "id"]).map(Params::DeletePush),
            Operation::ExtendedCard => object(bytes).map(|_| Params::Card),
        }
    }

    /// The task that it names, or that its message continues.
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        match self {
            Params::Send(request) => request.message.task_id.as_deref(),
            Params::Get(request) => Some(&request.id),
            Params::List(_) | Params::Card => None,
            Params::Cancel(request) => Some(&request.id),
            Params::Subscribe(request) => Some(&request.id),
            Params::CreatePush(config) => Some(&config.task_id),
            Params::GetPush(request) => Some(&request.task_id),
            Params::ListPush(request) => Some(&request.task_id),
            Params::DeletePush(request) => Some(&request.task_id),
        }
    }
}

fn send(bytes: &[u8]) -> Result<a2a::SendMessageRequest, OperationError> {
    let mut request = object(bytes)?;
    let message = member(&mut request, "message").ok_or_else(|| wrong("`message` is missing"))?;
    check_message(message)?;
    let contents = take_contents(message);
    if let Some(configuration) = member(&mut request, "configuration") {
        respell(configuration);
        integers(configuration, &["historyLength"])?;
        if let Some(push) = member(configuration, "taskPushNotificationConfig") {
            respell(push);
        }
    }
    let mut request: a2a::SendMessageRequest = typed(Value::Object(request))?;
    for (part, content) in request.message.parts.iter_mut().zip(contents) {
        if let Some(content) = content {
            part.content = content;
        }
    }
    Ok(request)
}

/// The texts and the data of the parts, in whose places something short is left: a2a-lf copies them, and they may be a megabyte.
fn take_contents(message: &mut Map<String, Value>) -> Vec<Option<PartContent>> {
    let parts = message.get_mut("parts").and_then(Value::as_array_mut);
    let content = |part: &mut Value| match part.get_mut("text") {
        Some(Value::String(text)) => Some(PartContent::Text(std::mem::take(text))),
        _ => part.get_mut("data").map(|data| PartContent::Data(data.take())),
    };
    parts.into_iter().flatten().map(content).collect()
}

/// Parameters with `id`, and optionally `historyLength`.
fn task<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, OperationError> {
    let mut request = object(bytes)?;
    id(&request, "id")?;
    integers(&mut request, &["historyLength"])?;
    typed(Value::Object(request))
}

/// Parameters of push notifications, with what they must name. A URL has a limit of its own.
fn push<T: DeserializeOwned>(bytes: &[u8], required: &[&str]) -> Result<T, OperationError> {
    let mut request = object(bytes)?;
    for name in required {
        if *name == "url" {
            let url = request.get("url").and_then(Value::as_str).unwrap_or_default();
            (!url.is_empty()).then_some(()).ok_or_else(|| wrong("`url` is missing"))?;
        } else {
            id(&request, name)?;
        }
    }
    integers(&mut request, &["pageSize"])?;
    typed(Value::Object(request))
}

fn list(bytes: &[u8]) -> Result<a2a::ListTasksRequest, OperationError> {
    let mut request = object(bytes)?;
    integers(&mut request, &["pageSize", "historyLength"])?;
    enumeration(&mut request, "status", &STATES)?;
    typed(Value::Object(request))
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, OperationError> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| wrong(format!("not JSON: {error}")))?;
    if !shallow(&value, DEPTH_MAX) {
        return Err(wrong(format!("nested deeper than {DEPTH_MAX}")));
    }
    match value {
        Value::Object(mut request) => {
            respell(&mut request);
            Ok(request)
        }
        _ => Err(wrong("the parameters are not an object")),
    }
}

fn shallow(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|item| shallow(item, depth - 1)),
        Value::Object(members) => depth > 0 && members.values().all(|item| shallow(item, depth - 1)),
        _ => true,
    }
}

fn member<'a>(object: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// Renames the other spellings, unless both are present.
fn respell(object: &mut Map<String, Value>) {
    for (snake, camel) in SPELLINGS {
        if !object.contains_key(camel)
            && let Some(value) = object.remove(snake)
        {
            object.insert(camel.to_owned(), value);
        }
    }
}

fn integers(object: &mut Map<String, Value>, names: &[&str]) -> Result<(), OperationError> {
    for name in names {
        let Some(value) = object.get_mut(*name) else { continue };
        let number = match value {
            Value::String(text) => text.parse::<i32>().ok(),
            Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
            Value::Null => continue,
            _ => None,
        };
        let number = number.filter(|number| *number >= 0);
        *value = number.ok_or_else(|| wrong(format!("`{name}` must be a whole number from 0 up")))?.into();
    }
    Ok(())
}

fn enumeration(object: &mut Map<String, Value>, name: &str, names: &[&str]) -> Result<(), OperationError> {
    let Some(value) = object.get_mut(name) else { return Ok(()) };
    let known = match value {
        Value::Number(number) => number.as_u64().and_then(|at| names.get(usize::try_from(at).ok()?)).copied(),
        Value::String(text) => names.iter().find(|known| **known == text.as_str()).copied(),
        _ => None,
    };
    let known = known.ok_or_else(|| wrong(format!("`{name}` must be one of {}", names.join(", "))))?;
    *value = known.into();
    Ok(())
}

fn id<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str, OperationError> {
    let text = object.get(name).and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() || text.len() > ID_BYTES_MAX {
        return Err(wrong(format!("`{name}` is missing, empty, or longer than {ID_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn check_message(message: &mut Map<String, Value>) -> Result<(), OperationError> {
    respell(message);
    id(message, "messageId")?;
    for name in ["taskId", "contextId"] {
        // ProtoJSON: an empty string is an absent one.
        if matches!(message.get(name), Some(Value::String(text)) if text.is_empty()) {
            message.remove(name);
        } else if message.get(name).is_some_and(|value| !value.is_null()) {
            id(message, name)?;
        }
    }
    if !message.contains_key("role") {
        return Err(wrong("`message.role` is missing; a client's is ROLE_USER"));
    }
    enumeration(message, "role", &ROLES)?;
    if message["role"] == ROLES[0] {
        return Err(wrong("`message.role` is ROLE_UNSPECIFIED; a client's is ROLE_USER"));
    }
    let parts =
        message.get_mut("parts").and_then(Value::as_array_mut).ok_or_else(|| wrong("`message.parts` is missing"))?;
    if parts.is_empty() || parts.len() > PARTS_MAX {
        return Err(wrong(format!("`message.parts` has {} parts; 1 to {PARTS_MAX} are allowed", parts.len())));
    }
    for (part, at) in parts.iter_mut().zip(0..) {
        let part = part.as_object_mut().ok_or_else(|| wrong(format!("`message.parts[{at}]` is not an object")))?;
        respell(part);
        let kinds: Vec<&str> = PART_KINDS.iter().filter(|kind| part.contains_key(**kind)).copied().collect();
        if kinds.len() != 1 {
            let message =
                format!("`message.parts[{at}]` has {} of text, raw, url, data; a part has exactly one", kinds.len());
            return Err(wrong(message));
        }
    }
    Ok(())
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, OperationError> {
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sent(message: Value) -> Result<a2a::SendMessageRequest, OperationError> {
        send(json!({ "message": message }).to_string().as_bytes())
    }

    #[test]
    fn protojsons_other_spellings_mean_the_same() {
        let one = sent(
            json!({"messageId": "m", "role": "ROLE_USER", "contextId": "c", "parts": [{"text": "x", "mediaType": "text/plain"}]}),
        );
        let two = sent(
            json!({"message_id": "m", "role": 1, "context_id": "c", "task_id": "", "parts": [{"text": "x", "media_type": "text/plain"}]}),
        );
        assert_eq!(one.expect("the usual spelling"), two.expect("the other spelling"));
        let listed = list(br#"{"page_size":"7","status":2}"#).expect("numbers and strings");
        assert_eq!((listed.page_size, listed.status), (Some(7), Some(a2a::TaskState::Working)));
    }

    #[test]
    fn parts_are_read_as_the_types_of_a2a_read_them() {
        let parts = json!([
            { "text": "x", "mediaType": "text/plain", "metadata": { "a": 1 } },
            { "data": { "deep": ["y", null] }, "mediaType": "application/json", "filename": "f" },
            { "data": null },
            { "raw": "AAEC" },
            { "url": "https://a.example/" },
            { "text": "" },
        ]);
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": parts });
        let plain: a2a::SendMessageRequest =
            serde_json::from_value(json!({ "message": message.clone() })).expect("a request");
        assert_eq!(sent(message), Ok(plain));
        let number = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": 7 }] });
        assert!(sent(number).is_err(), "a text is a text");
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        let part = json!([{"text": "x"}]);
        let cases = [
            (json!({"role": "ROLE_USER", "parts": part}), "messageId"),
            (json!({"messageId": "", "role": "ROLE_USER", "parts": part}), "messageId"),
            (json!({"messageId": "m", "parts": part}), "role"),
            (json!({"messageId": "m", "role": "USER", "parts": part}), "role"),
            (json!({"messageId": "m", "role": 9, "parts": part}), "role"),
            (json!({"messageId": "m", "role": 0, "parts": part}), "role"),
            (json!({"messageId": "m", "role": "ROLE_UNSPECIFIED", "parts": part}), "role"),
            (json!({"messageId": "m", "role": "ROLE_USER"}), "parts"),
            (json!({"messageId": "m", "role": "ROLE_USER", "parts": []}), "parts"),
            (json!({"messageId": "m", "role": "ROLE_USER", "parts": [7]}), "parts[0]"),
            (json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x", "url": "y"}]}), "parts[0]"),
            (json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}, {}]}), "parts[1]"),
        ];
        for (message, named) in cases {
            let error = sent(message.clone()).expect_err(named);
            assert!(error.code() == -32_602 && error.message.contains(named), "{message} {error}");
        }
        let deep = format!(r#"{{"message":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
        assert!(send(deep.as_bytes()).expect_err("too deep").message.contains("deep"));
        assert!(send(b"{").expect_err("no JSON").message.contains("not JSON"));
        let message = |parts: usize, id: usize| json!({"messageId": "m".repeat(id), "role": "ROLE_USER", "parts": vec![json!({"text": "x"}); parts]});
        assert!(sent(message(PARTS_MAX, ID_BYTES_MAX)).is_ok());
        assert!(sent(message(PARTS_MAX + 1, 1)).expect_err("too many parts").message.contains("parts"));
        assert!(sent(message(1, ID_BYTES_MAX + 1)).expect_err("too long an id").message.contains("messageId"));
        assert!(list(br#"{"pageSize":-1}"#).is_err() && list(br#"{"pageSize":1.5}"#).is_err());
    }
}

//! Parameters of operations in a query (A2A 1.0.1 §11.5).

use althing_calls::{Operation, OperationError};
use serde_json::{Map, Value};

/// Where clients that cannot set headers put the version.
const VERSION: &str = "a2a-version";

/// A parameter, as the table of routes has it: its name, its JSON type, which is how a query spells its values, and what it
/// means. An empty string is absent, as in ProtoJSON; `calls` reads numbers from strings too.
type Parameter = (&'static str, &'static str, &'static str);

pub(super) const GET_TASK: &[Parameter] = &[("historyLength", "integer", "How many messages of the history to show")];
pub(super) const LIST_TASKS: &[Parameter] = &[
    ("contextId", "string", "Only those of this conversation"),
    ("status", "string", "Only those in this state, such as TASK_STATE_COMPLETED"),
    ("pageSize", "integer", "How many to list"),
    ("pageToken", "string", "Where to go on: nextPageToken of the page before"),
    ("historyLength", "integer", "How many messages of each history to show"),
    ("statusTimestampAfter", "string", "Only those whose state changed since this time (RFC 3339)"),
    ("includeArtifacts", "boolean", "Whether to show artifacts"),
];
pub(super) const LIST_PUSH_CONFIGS: &[Parameter] = &[
    ("pageSize", "integer", "How many to list"),
    ("pageToken", "string", "Where to go on: nextPageToken of the page before"),
];

/// The parameters that an operation takes from the query.
fn known(operation: Operation) -> &'static [Parameter] {
    match operation {
        Operation::GetTask => GET_TASK,
        Operation::ListTasks => LIST_TASKS,
        Operation::ListPushConfigs => LIST_PUSH_CONFIGS,
        _ => &[],
    }
}

/// The version that a query names, whatever else it says.
pub(super) fn version(pairs: &[(String, String)]) -> Option<&str> {
    pairs.iter().find(|(name, _)| name.eq_ignore_ascii_case(VERSION)).map(|(_, value)| value.as_str())
}

/// Reads an operation's parameters. Unknown ones are refused, so that a misspelt filter does not mean no filter.
pub(super) fn read(operation: Operation, pairs: &[(String, String)]) -> Result<Map<String, Value>, OperationError> {
    let mut params = Map::new();
    for (name, value) in pairs.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(VERSION)) {
        let Some((name, kind, _)) = known(operation).iter().find(|(known, ..)| known == name) else {
            let names: Vec<&str> = known(operation).iter().map(|(name, ..)| *name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let name: String = name.chars().take(100).collect();
            let message = format!("there is no query parameter {name:?}; {} takes {known}", operation.name());
            return Err(OperationError::invalid_params(message));
        };
        let value = match (*kind, value.as_str()) {
            ("string", "") => continue,
            ("boolean", "true") => Value::Bool(true),
            ("boolean", "false") => Value::Bool(false),
            ("boolean", _) => return Err(OperationError::invalid_params(format!("`{name}` is true or false"))),
            (_, value) => Value::String(value.to_owned()),
        };
        if params.insert((*name).to_owned(), value).is_some() {
            return Err(OperationError::invalid_params(format!("`{name}` is in the query twice")));
        }
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_are_those_of_the_operation() {
        let all = [
            ("contextId", "c"),
            ("pageSize", "7"),
            ("pageToken", ""),
            ("includeArtifacts", "true"),
            ("A2A-Version", "1.0"),
        ];
        let expected = json!({ "contextId": "c", "pageSize": "7", "includeArtifacts": true });
        assert_eq!(read(Operation::ListTasks, &pairs(&all)).map(Value::Object), Ok(expected));
        assert_eq!(version(&pairs(&all)), Some("1.0"));
        assert_eq!(version(&pairs(&[("a2a-version", "0.3")])), Some("0.3"));
        let wrong: [(Operation, &[(&str, &str)]); 5] = [
            (Operation::GetTask, &[("pageSize", "7")]),
            (Operation::ListTasks, &[("page_size", "7")]),
            (Operation::ListTasks, &[("contextId", "c"), ("contextId", "d")]),
            (Operation::ListTasks, &[("includeArtifacts", "yes")]),
            (Operation::SendMessage, &[("x", "")]),
        ];
        for (operation, given) in wrong {
            let error = read(operation, &pairs(given)).expect_err("it is refused");
            assert_eq!(error.reason(), "INVALID_PARAMS", "{given:?}");
        }
    }
}

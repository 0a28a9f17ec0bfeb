//! Parameters of operations in a query (A2A 1.0.1 §11.5).

use althing_calls::{Operation, OperationError};
use serde_json::{Map, Value};

/// Where clients that cannot set headers put the version.
const VERSION: &str = "a2a-version";

/// How a query spells the values of a parameter.
#[derive(Clone, Copy)]
enum Kind {
    /// As it is; an empty one is absent, as in ProtoJSON.
    Text,
    /// A decimal number, which `calls` reads from a string too.
    Number,
    /// `true` or `false`.
    Flag,
}

/// The parameters that an operation takes from the query.
fn known(operation: Operation) -> &'static [(&'static str, Kind)] {
    match operation {
        Operation::GetTask => &[("historyLength", Kind::Number)],
        Operation::ListTasks => &[
            ("contextId", Kind::Text),
            ("status", Kind::Text),
            ("pageSize", Kind::Number),
            ("pageToken", Kind::Text),
            ("historyLength", Kind::Number),
            ("statusTimestampAfter", Kind::Text),
            ("includeArtifacts", Kind::Flag),
        ],
        Operation::ListPushConfigs => &[("pageSize", Kind::Number), ("pageToken", Kind::Text)],
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
        let Some((name, kind)) = known(operation).iter().find(|(known, _)| known == name) else {
            let names: Vec<&str> = known(operation).iter().map(|(name, _)| *name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let name: String = name.chars().take(100).collect();
            let message = format!("there is no query parameter {name:?}; {} takes {known}", operation.name());
            return Err(OperationError::invalid_params(message));
        };
        let value = match (kind, value.as_str()) {
            (Kind::Text, "") => continue,
            (Kind::Flag, "true") => Value::Bool(true),
            (Kind::Flag, "false") => Value::Bool(false),
            (Kind::Flag, _) => return Err(OperationError::invalid_params(format!("`{name}` is true or false"))),
            (Kind::Text | Kind::Number, value) => Value::String(value.to_owned()),
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

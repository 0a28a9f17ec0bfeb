//! What programs of agents say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shows what the programs of an agent of this node said.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsRequest {
    /// The agent's name.
    pub agent: String,
    /// Whether what they say from now on is shown too.
    #[serde(default)]
    pub follow: bool,
}

/// A line of the answer: what a program said, or that older lines are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LogEntry {
    /// Lines are missing before the next one.
    Gap(LogGap),
    /// What a program said.
    Line(ProgramLine),
}

/// Older lines that are not kept any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogGap {
    /// How many.
    pub gone: u64,
}

/// What a program of an agent said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramLine {
    /// Which program: `runtime` is the agent's own, `tools.NAME` that of a tool server; `node` is the node.
    pub program: String,
    /// What it said, without control characters.
    pub text: String,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_log_has_lines_and_says_where_some_are_missing() {
        let line = ProgramLine { program: "tools.maps".to_owned(), text: "no map".to_owned(), at_ms: 8_500 };
        assert_json(&LogEntry::Line(line), r#"{"program":"tools.maps","text":"no map","atMs":8500}"#);
        assert_json(&LogEntry::Gap(LogGap { gone: 3 }), r#"{"gone":3}"#);
    }
}

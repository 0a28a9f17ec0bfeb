//! What a call waits for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /waits/{agent}` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitReply {
    /// What a call of that agent waits for now, for people; empty where that is nothing.
    pub waits: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn what_is_waited_for_is_told_in_words() {
        let waits = "echo is starting".to_owned();
        assert_json(&WaitReply { waits }, r#"{"waits":"echo is starting"}"#);
    }
}

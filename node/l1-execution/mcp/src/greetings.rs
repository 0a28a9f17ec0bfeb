//! What servers answer the first question with, and the line of the log that names what is odd of it.

use serde_json::Value;

use crate::machine::greeting;

/// The answer as the library can take it; none if that is none. `server` names whose it is.
pub fn read(server: &str, method: &str, answer: Value) -> Option<Value> {
    let greeting = greeting::read(method, answer)?;
    if let Some(left_out) = greeting.oddities() {
        tracing::warn!(server, method, left_out, "a server of tools says of itself what is odd; that is left out");
    }
    Some(greeting.result)
}

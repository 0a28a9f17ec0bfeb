//! Agents that a registry names because they look like another one.

use althing_protocol::AgentId;
use serde::{Deserialize, Deserializer};

/// Agents of one answer.
const TWINS_MAX: usize = 8;

/// Reads ids of agents. What is none is left out: a registry writes nothing else here that people read.
pub fn agents<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<AgentId>, D::Error> {
    let all = Vec::<String>::deserialize(from)?;
    Ok(all.iter().filter_map(|id| id.parse().ok()).take(TWINS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;
    use crate::ListedAgent;

    #[test]
    fn twins_are_agents_and_few() {
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "echo").expect("a name");
        let read = |twins: &str| {
            let json = format!("{{\"id\":\"a\",\"versions\":[]{twins}}}");
            serde_json::from_str::<ListedAgent>(&json).map(|listed| listed.twins)
        };
        let list = |count: usize| format!(",\"twins\":[{}\"{agent}\"]", format!("\"{agent}\",").repeat(count - 1));
        assert_eq!(read("").expect("an older registry says nothing"), []);
        assert_eq!(read(&list(2)).expect("ids"), [agent.clone(), agent.clone()]);
        assert_eq!(read(&list(50)).expect("ids").len(), 8);
        assert_eq!(read(",\"twins\":[\"trust me\"]").expect("a text"), []);
    }
}

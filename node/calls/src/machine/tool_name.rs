//! Names of skills as tools of MCP. Clients put the name of the server before them, and the APIs of models refuse a whole
//! request with a name that is too long. Pure.

use althing_protocol::{AgentId, digest};

/// Characters of a tool's name: of the 64 that models take, clients use up to 14 for `mcp__althing__`.
pub const NAME_MAX: usize = 50;
/// Characters of a suffix, the underscore not counted; each holds five bits of a digest.
const SUFFIX: usize = 12;
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// What tells one skill from all others: its agent, and its id, or its name if it has none. It does not change when others
/// come and go.
#[must_use]
pub fn place(agent: &AgentId, skill: &str) -> String {
    format!("{agent} {skill}")
}

/// The name of a skill without a suffix, and whether it is whole; where it was cut, its tool has a suffix. An agent without
/// skills has an empty one.
#[must_use]
pub fn plain(agent: &str, skill: &str) -> (String, bool) {
    let name = if skill.is_empty() { agent.to_owned() } else { format!("{agent}_{skill}") };
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let is_whole = name.chars().count() <= NAME_MAX;
    (name.chars().map(allowed).take(NAME_MAX).collect(), is_whole)
}

/// The name with a suffix that only this agent and skill have.
#[must_use]
pub fn suffixed(agent: &AgentId, skill: &str) -> String {
    let (plain, _) = plain(agent.name(), skill);
    let digest = digest(place(agent, skill).as_bytes());
    let bits = digest.iter().take(8).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let letter = |at: usize| char::from(ALPHABET[(bits >> (59 - 5 * at)) as usize & 31]);
    let kept: String = plain.chars().take(NAME_MAX - SUFFIX - 1).collect();
    format!("{kept}_{}", (0..SUFFIX).map(letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: &str = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:files";

    #[test]
    fn a_name_that_is_cut_says_so_and_its_suffix_is_of_this_skill_alone() {
        let agent: AgentId = AGENT.parse().expect("an id");
        assert_eq!(plain("files", "read.text"), ("files_read_text".to_owned(), true));
        assert_eq!(plain("files", ""), ("files".to_owned(), true));
        let whole = "x".repeat(NAME_MAX - "files_".len());
        assert!(plain("files", &whole).1 && !plain("files", &format!("{whole}x")).1);
        let (one, other) = (suffixed(&agent, &format!("{whole}x")), suffixed(&agent, &format!("{whole}y")));
        assert_ne!(one, other);
        for name in [one, other, suffixed(&agent, "a"), suffixed(&agent, "")] {
            assert!(name.len() <= NAME_MAX && format!("mcp__althing__{name}").len() <= 64, "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{name}");
        }
        assert_eq!(suffixed(&agent, "a"), suffixed(&agent, "a"));
    }
}

//! The names of tools for models, which may have only some characters, and fewer of them than tools have: an endpoint refuses a
//! whole request with one that it cannot read. Everybody else names a tool `server/tool`. Pure.

use althing_protocol::{digest, hex};

/// Characters of the longest name of a tool that a model is shown.
const MODEL_NAME_MAX: usize = 64;
/// Characters of a tool's own name that a contract can have.
const NAME_MAX: usize = 128;
/// Between a server and its tool, in names that models are shown: they may hold no slash.
const JOINT: &str = "__";
/// Digits of the digest by which a name that is changed is told from others.
const SUFFIX: usize = 12;

/// The name of a tool for models. One that they cannot have is changed, and ends with what only this tool has.
pub(crate) fn model_name(name: &str) -> String {
    let plain = name.replacen('/', JOINT, 1);
    if is_model_name(&plain) {
        return plain;
    }
    let fit = |c: char| if is_model_char(c) { c } else { '_' };
    let kept: String = plain.chars().map(fit).take(MODEL_NAME_MAX - SUFFIX - 1).collect();
    format!("{kept}_{}", &hex(&digest(name.as_bytes()))[..SUFFIX])
}

/// The `server/tool` of a name for models, if that is not a changed one; of those [`among`] knows.
pub(crate) fn real_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { name.replacen(JOINT, "/", 1) }
}

/// The `server/tool` of a name for models, which is that of one of these tools, or of one that nobody knows.
pub(crate) fn among<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let plain = real_name(name);
    if plain == name {
        return plain;
    }
    let mut changed = None;
    for tool in known {
        if *tool == plain {
            return plain;
        }
        if changed.is_none() && model_name(tool) == name {
            changed = Some(tool.clone());
        }
    }
    changed.unwrap_or(plain)
}

/// Whether a contract can name a tool of that name.
pub(crate) fn is_tool_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name.chars().all(|c| is_model_char(c) || c == '.')
}

fn is_model_name(name: &str) -> bool {
    name.len() <= MODEL_NAME_MAX && name.chars().all(is_model_char)
}

fn is_model_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-".contains(c)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_name_goes_to_models_and_back() {
        let long = "x".repeat(NAME_MAX);
        let tools: Vec<String> =
            ["read", "read.text", "read_text", "read.tex-t", "a__b", &long, &format!("{}y", &long[1..])]
                .into_iter()
                .map(|tool| format!("files/{tool}"))
                .collect();
        let shown: BTreeSet<String> = tools.iter().map(|tool| model_name(tool)).collect();
        assert_eq!(shown.len(), tools.len(), "no two have one name: {shown:?}");
        for tool in &tools {
            let name = model_name(tool);
            assert!(is_model_name(&name), "{name}");
            assert_eq!(among(&name, tools.iter()), *tool, "{name}");
            assert_eq!(among(tool, tools.iter()), *tool, "by its own name");
        }
        assert_eq!(model_name("files/read"), "files__read");
        assert!(model_name("files/read.text").starts_with("files__read_text_"));
        assert_eq!(among("files__none", tools.iter()), "files/none", "nobody knows it");
        assert_eq!(among("nonsense", tools.iter()), "nonsense");
    }

    #[test]
    fn a_tool_has_a_name_that_a_contract_can_have() {
        for (name, is_one) in [
            ("read.text", true),
            ("A_b-9", true),
            ("x".repeat(NAME_MAX).as_str(), true),
            ("x".repeat(NAME_MAX + 1).as_str(), false),
            ("", false),
            ("a b", false),
            ("a/b", false),
            ("zw\u{f6}lf", false),
            ("a\n", false),
        ] {
            assert_eq!(is_tool_name(name), is_one, "{name:?}");
        }
    }
}

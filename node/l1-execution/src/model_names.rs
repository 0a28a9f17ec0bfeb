//! The names of tools for models, which may have only some characters, and fewer of them than tools have: an endpoint refuses a
//! whole request with one that it cannot read. Everybody else names a tool `server/tool`. Pure.

use althing_protocol::{digest, hex};

/// Characters of the longest name of a tool that a model is shown.
const MODEL_NAME_MAX: usize = 64;
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
pub(crate) fn among<'a>(name: &str, mut known: impl Iterator<Item = &'a String> + Clone) -> String {
    let plain = real_name(name);
    // Only what may be a changed name is looked for: that takes a digest of each tool whose name models cannot have.
    if plain == name || !ends_with_digest(name) || known.clone().any(|tool| *tool == plain) {
        return plain;
    }
    known.find(|tool| model_name(tool) == name).cloned().unwrap_or(plain)
}

/// Whether a name ends as those do that [`model_name`] changes.
fn ends_with_digest(name: &str) -> bool {
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    name.rsplit_once('_').is_some_and(|(_, end)| end.len() == SUFFIX && end.chars().all(is_digit))
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

    use althing_protocol::contract::TOOL_NAME_MAX;

    use super::*;

    #[test]
    fn each_name_goes_to_models_and_back() {
        let long = "x".repeat(TOOL_NAME_MAX);
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
    fn a_name_that_was_not_changed_is_looked_for_nowhere() {
        let nobody = || std::iter::from_fn(|| -> Option<&'static String> { panic!("it is looked for") });
        for name in
            ["files__none", "files__read_text", "files__none_0123456789a", "files__none_0123456789aB", "files__"]
        {
            assert_eq!(among(name, nobody()), name.replacen("__", "/", 1));
        }
        let tool = "files/none_0123456789ab".to_owned();
        assert_eq!(among("files__none_0123456789ab", [&tool].into_iter()), tool, "one that has such a name by itself");
    }
}

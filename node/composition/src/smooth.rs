//! Agents whose contracts have `binding: smooth`: a version of one stays with the version of its model that it was bound to, and a
//! higher one makes another version of the agent, which is rolled out.

use althing_execution::smooth::{ModelVersion, SmoothModel, limited};
use althing_execution::{Host, model_of};
use althing_td::AgentFile;

use crate::publish::StoredAgent;

/// What stands, in the build metadata of an agent's version, before the model that makes it another one.
const MARK: &str = "smooth.";
/// Characters of a model's name in the version of an agent.
const NAME_CHARS_MAX: usize = 64;

/// What an agent is bound to. Of one that is to have no rollouts nothing is held back.
fn choice(host: &Host, added: &StoredAgent) -> Option<SmoothModel> {
    let has_rollouts = !added.once && added.group.is_none();
    if has_rollouts { model_of(host, &added.file, added.model.as_ref()) } else { None }
}

/// Notes the version of its model that an agent is bound to; whether another one was noted before.
pub(crate) fn note(host: &Host, added: &mut StoredAgent) -> bool {
    let bound = choice(host, added).map(|choice| choice.bound);
    let is_other = bound != added.model;
    added.model = bound;
    is_other
}

/// The version of its model that is to be tried beside the one that an agent is bound to.
pub(crate) fn newer(host: &Host, added: &StoredAgent) -> Option<ModelVersion> {
    choice(host, added)?.newer
}

/// The file by which an agent is started: its range ends at the version that it is bound to, where a higher one is to be tried.
pub(crate) fn bound_file(host: &Host, added: &StoredAgent) -> AgentFile {
    let mut file = added.file.clone();
    if let Some(SmoothModel { bound, newer: Some(_) }) = choice(host, added) {
        file.contract = file.contract.map(|contract| limited(&contract, &bound));
    }
    file
}

/// What a version of an agent is called that differs from the one of that version by its model, and as none of those that are here.
pub(crate) fn version_with(version: &str, model: &ModelVersion, here: &[String]) -> String {
    let release = release_of(version);
    let joint = if release.contains('+') { '.' } else { '+' };
    let plain = |one: char| if one.is_ascii_alphanumeric() { one } else { '-' };
    let name: String = model.name.chars().take(NAME_CHARS_MAX).map(plain).collect();
    let called = format!("{release}{joint}{MARK}{name}.{}", model.version.replace('+', "."));
    let mut version = called.clone();
    let mut number = 1_u32;
    while here.contains(&version) {
        number += 1;
        version = format!("{called}.{number}");
    }
    version
}

/// The version that the file of an agent said, without what a model made of it.
pub(crate) fn release_of(version: &str) -> &str {
    let Some((_, build)) = version.split_once('+') else { return version };
    // It stands first, or behind the file's own.
    let before = if build.starts_with(MARK) { Some(0) } else { build.find(&format!(".{MARK}")) };
    let made = before.map(|at| build.len() - at + usize::from(at == 0));
    made.and_then(|made| version.get(..version.len() - made)).unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(name: &str, version: &str) -> ModelVersion {
        ModelVersion { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn a_version_says_which_model_made_it_and_of_which_release_it_is() {
        let small = model("small", "1.3.0");
        for (of, with, called) in [
            ("1.0.0", &small, "1.0.0+smooth.small.1.3.0"),
            ("1.0.0+smooth.small.1.2.0", &small, "1.0.0+smooth.small.1.3.0"),
            ("1.0.0+b7", &small, "1.0.0+b7.smooth.small.1.3.0"),
            ("1.0.0+b7.smooth.small.1.2.0.2", &small, "1.0.0+b7.smooth.small.1.3.0"),
            ("1.0.0-smooth.1", &model("qwen2.5/it", "7.1.0-rc.1+g2"), "1.0.0-smooth.1+smooth.qwen2-5-it.7.1.0-rc.1.g2"),
        ] {
            let version = version_with(of, with, &[]);
            assert_eq!((version.as_str(), release_of(&version)), (called, release_of(of)));
            let file = json!({
                "name": "clerk",
                "description": "Answers",
                "version": version,
                "runtime": { "model": { "prompt": "Help." } },
                "contract": { "class": { "latency": "srt" } },
            });
            assert!(AgentFile::parse(&file.to_string()).is_ok(), "{file}");
        }
        assert_eq!(["1.0.0", "1.0.0+b7"].map(release_of), ["1.0.0", "1.0.0+b7"]);
    }

    #[test]
    fn no_two_versions_that_are_here_have_one_name() {
        let (small, called) = (model("small", "1.3.0"), "1.0.0+smooth.small.1.3.0".to_owned());
        let again = version_with(&called, &small, std::slice::from_ref(&called));
        assert_eq!(again, "1.0.0+smooth.small.1.3.0.2");
        assert_eq!(version_with(&again, &small, &[called, again.clone()]), "1.0.0+smooth.small.1.3.0.3");
    }
}

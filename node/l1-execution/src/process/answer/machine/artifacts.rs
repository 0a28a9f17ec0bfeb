//! What of a whole artifact is new to whoever was told pieces of it.

use std::collections::BTreeMap;

use a2a::{Artifact, Part, PartContent};

use crate::agent::Metadata;

/// The artifacts of a task as they were told so far, by their ids.
#[derive(Debug, Default)]
pub struct Artifacts(BTreeMap<String, ArtifactContent>);

#[derive(Debug, Default)]
struct ArtifactContent {
    parts: Vec<Part>,
    metadata: Option<Metadata>,
}

/// How much a task has of what was told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Each artifact, as far as it was told, or another one in its place.
    All,
    /// There is nothing in any artifact, and nothing was told of one.
    Nothing,
    /// Less than was told: something was.
    Less,
}

impl Artifacts {
    /// How much a task with these artifacts has of what was told.
    pub fn share(&self, whole: &[Artifact]) -> Share {
        if whole.iter().all(|one| one.parts.is_empty()) {
            let is_empty = self.0.values().all(|told| told.parts.is_empty());
            return if is_empty { Share::Nothing } else { Share::Less };
        }
        let has = |(id, told): (&String, &ArtifactContent)| {
            let is_it = |one: &&Artifact| one.artifact_id == *id;
            whole
                .iter()
                .find(is_it)
                .is_some_and(|one| rest(&told.parts, &joined(&one.parts)).is_none_or(|rest| rest.is_empty()))
        };
        if self.0.iter().all(has) { Share::All } else { Share::Less }
    }

    /// Notes an artifact, or a piece of one, that is told as it is.
    pub fn note(&mut self, artifact: &Artifact, append: bool) {
        let told = self.0.entry(artifact.artifact_id.clone()).or_default();
        if !append {
            *told = ArtifactContent::default();
        }
        artifact.parts.iter().cloned().for_each(|part| join(&mut told.parts, part));
        if let Some(metadata) = &artifact.metadata {
            told.metadata.get_or_insert_default().extend(metadata.clone());
        }
    }

    /// Whether a whole artifact has all that was told of it, and that first.
    pub fn has_told(&self, whole: &Artifact) -> bool {
        self.0.get(&whole.artifact_id).is_none_or(|told| rest(&joined(&whole.parts), &told.parts).is_some())
    }

    /// What has to be told of a whole artifact, and whether that is appended: what follows the pieces that were told, or all
    /// of it where it is another one; nothing where it was told, or is only the beginning of what was told.
    pub fn news(&mut self, whole: Artifact) -> Option<(Artifact, bool)> {
        let parts = joined(&whole.parts);
        let Some(told) = self.0.get(&whole.artifact_id) else {
            self.note(&whole, false);
            return Some((whole, false));
        };
        let is_same = told.metadata == whole.metadata || whole.metadata.is_none();
        if is_same && rest(&told.parts, &parts).is_some() {
            return None;
        }
        match rest(&parts, &told.parts).filter(|rest| is_same && !rest.is_empty()) {
            Some(rest) => {
                let artifact_id = whole.artifact_id;
                let (name, description, metadata, extensions) = Default::default();
                let piece = Artifact { artifact_id, name, description, parts: rest, metadata, extensions };
                self.note(&piece, true);
                Some((piece, true))
            }
            None => {
                self.note(&whole, false);
                Some((whole, false))
            }
        }
    }
}

/// The parts, of which text that follows text is one.
fn joined(parts: &[Part]) -> Vec<Part> {
    let mut all = Vec::new();
    parts.iter().cloned().for_each(|part| join(&mut all, part));
    all
}

/// Adds a part; text joins the text before it, as in the task that is told.
fn join(parts: &mut Vec<Part>, part: Part) {
    if let Some(Part { content: PartContent::Text(before), filename: None, media_type, metadata: None }) =
        parts.last_mut()
        && let Part { content: PartContent::Text(more), filename: None, metadata: None, .. } = &part
        && *media_type == part.media_type
    {
        before.push_str(more);
        return;
    }
    parts.push(part);
}

/// The parts that follow `begin` in `whole`, if that begins so.
fn rest(whole: &[Part], begin: &[Part]) -> Option<Vec<Part>> {
    let Some((last, before)) = begin.split_last() else { return Some(whole.to_vec()) };
    let at = before.len();
    if whole.len() <= at || whole[..at] != *before {
        return None;
    }
    if whole[at] == *last {
        return Some(whole[at + 1..].to_vec());
    }
    let (text, told) = (whole[at].as_text()?, last.as_text()?);
    let more = text.strip_prefix(told)?;
    let is_plain = |part: &Part| part.filename.is_none() && part.metadata.is_none();
    if !is_plain(&whole[at]) || !is_plain(last) || whole[at].media_type != last.media_type {
        return None;
    }
    let mut rest = vec![Part { content: PartContent::Text(more.to_owned()), ..whole[at].clone() }];
    rest.extend_from_slice(&whole[at + 1..]);
    Some(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact(texts: &[&str]) -> Artifact {
        let parts: Vec<_> = texts.iter().map(|text| json!({ "text": text })).collect();
        serde_json::from_value(json!({ "artifactId": "a", "parts": parts })).expect("an artifact")
    }

    fn texts(artifact: &Artifact) -> Vec<&str> {
        artifact.parts.iter().filter_map(Part::as_text).collect()
    }

    #[test]
    fn only_what_follows_the_pieces_is_told() {
        let mut told = Artifacts::default();
        told.note(&artifact(&["one "]), false);
        told.note(&artifact(&["two "]), true);
        assert_eq!(told.news(artifact(&["one ", "two "])), None, "it was told in other pieces");
        assert_eq!(told.news(artifact(&["one t"])), None, "a server that is behind takes nothing back");
        let (piece, append) = told.news(artifact(&["one two three"])).expect("something is new");
        assert_eq!((texts(&piece), append), (vec!["three"], true));
        assert_eq!(told.news(artifact(&["one two three"])), None);
    }

    #[test]
    fn a_task_that_has_less_than_was_told_is_no_proof_that_this_was_all() {
        let mut told = Artifacts::default();
        assert_eq!(told.share(&[]), Share::Nothing);
        assert_eq!(told.share(&[artifact(&[])]), Share::Nothing, "an artifact without parts shows nothing");
        assert_eq!(told.share(&[artifact(&["one"])]), Share::All);
        told.note(&artifact(&["one ", "three"]), false);
        for (texts, share) in [
            (&["one ", "two ", "three"][..], Share::All),
            (&["one three"][..], Share::All),
            (&["one "][..], Share::Less),
            (&[][..], Share::Less),
        ] {
            assert_eq!(told.share(&[artifact(texts)]), share, "{texts:?}");
        }
        assert_eq!(told.share(&[]), Share::Less);
        let other = Artifact { artifact_id: "b".to_owned(), ..artifact(&["one three"]) };
        assert_eq!(told.share(&[other]), Share::Less);
    }

    #[test]
    fn another_artifact_is_told_whole() {
        let mut told = Artifacts::default();
        let (first, append) = told.news(artifact(&["one"])).expect("it is new");
        assert_eq!((texts(&first), append), (vec!["one"], false));
        let (other, append) = told.news(artifact(&["two"])).expect("it is another one");
        assert_eq!((texts(&other), append), (vec!["two"], false));
        let mut about = artifact(&["two"]);
        about.metadata = Some([("about".to_owned(), json!("x"))].into());
        assert!(told.news(about.clone()).is_some_and(|(_, append)| !append), "its metadata is new");
        assert_eq!(told.news(about), None);
    }

    #[test]
    fn parts_that_are_no_text_are_compared_whole() {
        let data = |number: u32| -> Artifact {
            let parts: Vec<_> = (0..number).map(|number| json!({ "data": { "n": number } })).collect();
            serde_json::from_value(json!({ "artifactId": "a", "parts": parts })).expect("an artifact")
        };
        let mut told = Artifacts::default();
        told.note(&data(2), false);
        let (piece, append) = told.news(data(3)).expect("one more");
        assert_eq!((piece.parts.len(), append), (1, true));
    }
}

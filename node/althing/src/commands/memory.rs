//! `althing memory`

use std::path::Path;

use althing_api::{
    BODY_BYTES_MAX, EntryQuery, MemoryContent, MemoryDeletion, MemoryEntry, MemoryNamespace, MemoryNamespaces,
    MemoryPassage, MemoryPassages, MemoryRemoval, MemoryRequest, MemorySource, PassagesQuery,
};
use althing_client::{Client, ClientError};
use althing_execution::memory::QUESTION_BYTES_MAX;
use althing_store::file::read_text;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::Memory;
use crate::commands::agent::escape;
use crate::commands::{Out, date_time, one_line, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Bytes of a file: what the node accepts in one request.
const FILE_BYTES_MAX: u64 = BODY_BYTES_MAX as u64;

/// Hex digits of a hash that are shown.
const HASH_SHOWN: usize = 12;

/// What was stored, as it is printed.
#[derive(Serialize)]
struct Additions {
    added: Vec<MemorySource>,
}

/// Lists what agents keep, adds to it, or deletes it.
pub async fn run(at: &Paths, memory: &Memory, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match memory {
        Memory::List { namespace: None } => {
            let all: MemoryNamespaces = client.read("/memory").await?;
            out.show(&all, namespaces);
        }
        Memory::List { namespace: Some(namespace) } => {
            let held: MemoryContent = client.read(&path(namespace)).await?;
            out.show(&held, content);
        }
        Memory::Add { namespace, files } => {
            let mut added: Vec<MemorySource> = Vec::new();
            for file in files {
                let request = MemoryRequest::Add { source: file.display().to_string(), text: read(file)? };
                added.push(ask(&client, namespace, &request).await?);
            }
            out.show(&Additions { added }, |all| {
                let line = |one: &MemorySource| format!("{}: {} passages\n", one.source, one.passages);
                all.added.iter().map(line).collect()
            });
        }
        Memory::Search { namespace, question, limit } => {
            let most = usize::try_from(*limit).unwrap_or(usize::MAX);
            let mut question = question.join(" ");
            // The node reads no more of it.
            question.truncate(question.floor_char_boundary(QUESTION_BYTES_MAX));
            let path = format!("{}/passages", path(namespace));
            let found: MemoryPassages = client.query(&path, &PassagesQuery { question, most }).await?;
            out.show(&found, |found| {
                if found.passages.is_empty() {
                    "no passage resembles it".to_owned()
                } else {
                    found.passages.iter().map(passage).collect()
                }
            });
        }
        Memory::Show { namespace, what } => {
            let path = format!("{}/entry", path(namespace));
            let entry: MemoryEntry = client.query(&path, &EntryQuery { what: what.clone() }).await?;
            out.show(&entry, shown);
        }
        Memory::Forget { namespace, what } => {
            let done: MemoryDeletion = ask(&client, namespace, &MemoryRequest::Forget { what: what.clone() }).await?;
            out.show(&done, |done| format!("{} is deleted", done.forgotten));
        }
        Memory::Remove { namespace } => {
            let done: MemoryRemoval = client.remove(&path(namespace)).await?;
            out.show(&done, |done| format!("{} is removed with all that was in it", done.removed));
        }
    }
    Ok(())
}

/// Has the node carry out an operation on a namespace.
async fn ask<T: DeserializeOwned>(client: &Client, namespace: &str, request: &MemoryRequest) -> Result<T, ClientError> {
    client.ask(&path(namespace), request).await
}

fn path(namespace: &str) -> String {
    format!("/memory/{}", escape(namespace))
}

fn read(file: &Path) -> Result<String, Failure> {
    read_text(file, FILE_BYTES_MAX).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

fn namespaces(all: &MemoryNamespaces) -> String {
    let row = |one: &MemoryNamespace| {
        vec![
            one.namespace.clone(),
            one.owner.clone(),
            one.share_with.join(", "),
            one.retention_s.map_or_else(|| "for ever".to_owned(), |seconds| format!("{seconds} s")),
            one.quota_bytes.to_string(),
            one.encryption_secret.clone().unwrap_or_default(),
            one.embedder.clone(),
        ]
    };
    let list: Vec<Vec<String>> = all.namespaces.iter().map(row).collect();
    if list.is_empty() {
        return "no agent of this node keeps anything: no contract has `memory`".to_owned();
    }
    table(&["namespace", "owner", "shared with", "kept", "quota bytes", "encrypted by", "vectors by"], &list)
}

fn content(all: &MemoryContent) -> String {
    let mut lines = vec![format!("{} bytes", all.bytes)];
    let source = |(source, passages): (&String, &usize)| format!("source  {} ({passages} passages)", one_line(source));
    lines.extend(all.sources.iter().map(source));
    lines.extend(all.keys.iter().map(|key| format!("key     {}", one_line(key))));
    lines.join("\n")
}

fn passage(one: &MemoryPassage) -> String {
    format!(
        "[#{}] {} (likeness {:.2}, source hash {})\n{}\n\n",
        one.id,
        one_line(&one.source),
        one.likeness,
        one.source_hash.get(..HASH_SHOWN).unwrap_or_default(),
        one.text
    )
}

fn shown(entry: &MemoryEntry) -> String {
    match entry {
        MemoryEntry::Passage(one) => passage(one),
        MemoryEntry::Value(one) => one.value.clone(),
        MemoryEntry::Tombstone(one) => format!("{} is gone: {} at {}", one.gone, one.why.name(), date_time(one.at_ms)),
    }
}

#[cfg(test)]
mod tests {
    use althing_api::{MemoryLoss, MemoryTombstone, MemoryValue};

    use super::*;

    #[test]
    fn what_is_under_a_name_is_shown_or_what_became_of_it() {
        let found = MemoryPassage {
            id: "3f2a".to_owned(),
            source: "rules.txt".to_owned(),
            source_hash: "0123456789abcdef".to_owned(),
            place: 0,
            kept_ms: 0,
            likeness: 0.456,
            text: "A cat pays nothing.".to_owned(),
        };
        let text = "[#3f2a] rules.txt (likeness 0.46, source hash 0123456789ab)\nA cat pays nothing.\n\n";
        assert_eq!(shown(&MemoryEntry::Passage(found)), text);
        let value = MemoryValue { key: "last".to_owned(), value: "7".to_owned() };
        assert_eq!(shown(&MemoryEntry::Value(value)), "7");
        let gone = MemoryTombstone { gone: "last".to_owned(), why: MemoryLoss::Expired, at_ms: 3_661_000 };
        assert_eq!(shown(&MemoryEntry::Tombstone(gone)), "last is gone: expired at 1970-01-01T01:01:01Z");
    }

    #[test]
    fn lists_say_what_there_is_or_why_there_is_nothing() {
        assert!(namespaces(&MemoryNamespaces { namespaces: Vec::new() }).contains("no contract has `memory`"));
        let sources = [("a.txt".to_owned(), 2)].into_iter().collect();
        let held = MemoryContent { bytes: 12, sources, keys: vec!["last".to_owned()] };
        assert_eq!(content(&held), "12 bytes\nsource  a.txt (2 passages)\nkey     last");
        let forged = MemoryContent { keys: vec!["last\nsource  b.txt".to_owned()], ..held };
        assert_eq!(content(&forged).lines().count(), 3, "an agent's key is no source");
    }
}

//! `althing memory`

use std::path::Path;

use althing_store::file::read_text;
use serde_json::{Value, json};

use crate::args::Memory;
use crate::commands::{Out, rows, table, text};
use crate::exit::Failure;
use crate::paths::Paths;
use althing_control::MemoryRequest;

/// Bytes that the node accepts in one request.
const FILE_BYTES_MAX: u64 = 2 << 20;

/// Lists what agents keep, adds to it, or deletes it.
pub async fn run(at: &Paths, memory: &Memory, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let ask = async |namespace: &str, request: MemoryRequest| {
        client.post(&format!("/memory/{}", escape(namespace)), &request).await
    };
    match memory {
        Memory::List { namespace: None } => out.show(&client.get("/memory").await?, namespaces),
        Memory::List { namespace: Some(namespace) } => out.show(&ask(namespace, MemoryRequest::List).await?, kept),
        Memory::Add { namespace, files } => {
            let mut added = Vec::new();
            for file in files {
                let request = MemoryRequest::Add { source: file.display().to_string(), text: read(file)? };
                added.push(ask(namespace, request).await?);
            }
            out.show(&json!({ "added": added }), |all| {
                let line = |one: &Value| format!("{}: {} passages\n", text(one, "source"), text(one, "passages"));
                rows(all, "added").iter().map(line).collect()
            });
        }
        Memory::Search { namespace, question, limit } => {
            let most = usize::try_from(*limit).unwrap_or(usize::MAX);
            let request = MemoryRequest::Search { question: question.join(" "), most };
            out.show(&ask(namespace, request).await?, |found| {
                let passages = rows(found, "passages");
                if passages.is_empty() {
                    "no passage resembles it".to_owned()
                } else {
                    passages.iter().map(passage).collect()
                }
            });
        }
        Memory::Show { namespace, what } => {
            out.show(&ask(namespace, MemoryRequest::Show { what: what.clone() }).await?, shown);
        }
        Memory::Forget { namespace, what } => {
            out.show(&ask(namespace, MemoryRequest::Forget { what: what.clone() }).await?, |done| {
                format!("{} is deleted", text(done, "forgotten"))
            });
        }
        Memory::Remove { namespace } => {
            let done = client.delete(&format!("/memory/{}", escape(namespace))).await?;
            out.show(&done, |done| format!("{} is removed with all that was in it", text(done, "removed")));
        }
    }
    Ok(())
}

fn escape(namespace: &str) -> String {
    crate::commands::agent::escape(namespace)
}

fn read(file: &Path) -> Result<String, Failure> {
    read_text(file, FILE_BYTES_MAX).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

fn namespaces(all: &Value) -> String {
    let row = |one: &Value| {
        let mut row = ["namespace", "owner"].map(|name| text(one, name)).to_vec();
        let shared: Vec<&str> = rows(one, "shareWith").iter().filter_map(Value::as_str).collect();
        let retention =
            one["retentionS"].as_u64().map_or_else(|| "for ever".to_owned(), |seconds| format!("{seconds} s"));
        row.extend([
            shared.join(", "),
            retention,
            text(one, "quotaBytes"),
            text(one, "encryptionSecret"),
            text(one, "embedder"),
        ]);
        row
    };
    let list: Vec<Vec<String>> = rows(all, "namespaces").iter().map(row).collect();
    if list.is_empty() {
        return "no agent of this node keeps anything: no contract has `memory`".to_owned();
    }
    table(&["namespace", "owner", "shared with", "kept", "quota bytes", "encrypted by", "vectors by"], &list)
}

fn kept(all: &Value) -> String {
    let mut lines = vec![format!("{} bytes", text(all, "bytes"))];
    let sources = all["sources"].as_object().into_iter().flatten();
    lines.extend(sources.map(|(source, passages)| format!("source  {source} ({passages} passages)")));
    lines.extend(rows(all, "keys").iter().filter_map(Value::as_str).map(|key| format!("key     {key}")));
    lines.join("\n")
}

fn passage(one: &Value) -> String {
    let likeness = one["likeness"].as_f64().unwrap_or_default();
    format!(
        "[#{}] {} (likeness {likeness:.2}, source hash {})\n{}\n\n",
        text(one, "id"),
        text(one, "source"),
        text(one, "sourceHash").get(..12).unwrap_or_default(),
        text(one, "text")
    )
}

fn shown(one: &Value) -> String {
    if one["gone"].is_string() {
        let at_ms = one["atMs"].as_i64().and_then(chrono::DateTime::from_timestamp_millis);
        let at = at_ms.map(|at| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)).unwrap_or_default();
        return format!("{} is gone: {} at {at}", text(one, "gone"), text(one, "why"));
    }
    if one["key"].is_string() { text(one, "value") } else { passage(one) }
}

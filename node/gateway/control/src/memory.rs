//! Agents' memory in the control API.

use std::sync::Arc;

use althing_execution::memory::{Memory, MemoryError, Overview, Recalled, Removal};
use althing_node::Node;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::{Kind, MemoryRequest, Problem};

type Answer = Result<Json<Value>, Problem>;

fn failed(error: &MemoryError) -> Problem {
    Problem::new(error.kind(), error.to_string())
}

/// Lists all namespaces.
pub async fn list(State(node): State<Arc<Node>>) -> Answer {
    let row = |overview: Overview| {
        json!({
            "namespace": overview.namespace,
            "owner": overview.owner,
            "shareWith": overview.share_with,
            "retentionS": overview.retention_s,
            "quotaBytes": overview.quota_bytes,
            "encryptionSecret": overview.encryption_secret,
            "embedder": overview.embedder,
        })
    };
    let all = node.memories.list().map_err(|error| failed(&error))?;
    Ok(Json(json!({ "namespaces": all.into_iter().map(row).collect::<Vec<_>>() })))
}

/// Removes a namespace.
pub async fn remove(State(node): State<Arc<Node>>, Path(namespace): Path<String>) -> Answer {
    node.memories.remove(&namespace).await.map_err(|error| failed(&error))?;
    Ok(Json(json!({ "removed": namespace })))
}

/// Runs an operation on one namespace.
pub async fn work(
    State(node): State<Arc<Node>>,
    Path(namespace): Path<String>,
    Json(request): Json<MemoryRequest>,
) -> Answer {
    // The key derivation is slow on purpose.
    let (memories, name) = (node.memories.clone(), namespace.clone());
    let opened = tokio::task::spawn_blocking(move || memories.operate(&name)).await;
    let memory = opened.map_err(|error| Problem::failed(error.to_string()))?.map_err(|error| failed(&error))?;
    let done = answer(&memory, request).await.map_err(|error| failed(&error))?;
    done.map(Json)
        .ok_or_else(|| Problem::new(Kind::NotFound, format!("the namespace {namespace:?} keeps no such thing")))
}

async fn answer(memory: &Memory, request: MemoryRequest) -> Result<Option<Value>, MemoryError> {
    Ok(Some(match request {
        MemoryRequest::Add { source, text } => {
            json!({ "source": source, "passages": memory.remember(&source, &text).await? })
        }
        MemoryRequest::Search { question, most } => {
            let recalled = memory.recall(&question, most).await?;
            json!({ "passages": recalled.iter().map(passage).collect::<Vec<_>>() })
        }
        MemoryRequest::Show { what } => return show(memory, &what).await,
        MemoryRequest::Forget { what } => {
            let (passages, key) = (memory.forget(&what).await?, memory.delete(&what).await?);
            if passages == 0 && !key {
                return Ok(None);
            }
            json!({ "forgotten": what, "passages": passages })
        }
        MemoryRequest::List => json!({
            "bytes": memory.bytes().await?,
            "sources": memory.sources().await?,
            "keys": memory.keys("").await?,
        }),
    }))
}

async fn show(memory: &Memory, what: &str) -> Result<Option<Value>, MemoryError> {
    if let Some(kept) = memory.passage(what).await? {
        return Ok(Some(passage(&kept)));
    }
    if let Some(value) = memory.get(what).await? {
        return Ok(Some(json!({ "key": what, "value": String::from_utf8_lossy(&value) })));
    }
    Ok(memory.tombstone(what)?.map(|(at_ms, why)| {
        let why = match why {
            Removal::Forgotten => "forgotten",
            Removal::Expired => "expired",
        };
        json!({ "gone": what, "why": why, "atMs": at_ms })
    }))
}

fn passage(kept: &Recalled) -> Value {
    json!({
        "id": kept.id,
        "source": kept.source,
        "sourceHash": kept.source_hash,
        "place": kept.place,
        "keptMs": kept.kept_ms,
        "likeness": kept.similarity,
        "text": kept.text,
    })
}

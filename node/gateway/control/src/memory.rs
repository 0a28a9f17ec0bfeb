//! Agents' memory in the control API.

use std::sync::Arc;

use althing_api::{
    EntryQuery, Kind, MemoryContent, MemoryDeletion, MemoryEntry, MemoryLoss, MemoryNamespace, MemoryNamespaces,
    MemoryPassage, MemoryPassages, MemoryRemoval, MemoryReply, MemoryRequest, MemorySource, MemoryTombstone,
    MemoryValue, PassagesQuery,
};
use althing_execution::memory::{Memory, MemoryError, Overview, Recalled, Removal};
use althing_operations::Operations;
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};

fn failed(error: &MemoryError) -> ApiError {
    ApiError::new(error.kind(), error.to_string())
}

/// Lists all namespaces.
pub async fn list(State(node): State<Arc<Operations>>) -> Answer<MemoryNamespaces> {
    let all = node.memories.list().map_err(|error| failed(&error))?;
    Ok(Json(MemoryNamespaces { namespaces: all.into_iter().map(row).collect() }))
}

fn row(known: Overview) -> MemoryNamespace {
    let Overview { namespace, owner, share_with, retention_s, quota_bytes, encryption_secret, embedder } = known;
    MemoryNamespace { namespace, owner, share_with, retention_s, quota_bytes, encryption_secret, embedder }
}

/// Removes a namespace.
pub async fn remove(State(node): State<Arc<Operations>>, Path(namespace): Path<String>) -> Answer<MemoryRemoval> {
    detached(async move {
        node.memories.remove(&namespace).await.map_err(|error| failed(&error))?;
        Ok(Json(MemoryRemoval { removed: namespace }))
    })
    .await
}

/// Changes what a namespace has.
pub async fn work(
    State(node): State<Arc<Operations>>,
    Path(namespace): Path<String>,
    Body(request): Body<MemoryRequest>,
) -> Answer<MemoryReply> {
    detached(async move {
        let memory = opened(&node, &namespace).await?;
        let done = answer(&memory, request).await.map_err(|error| failed(&error))?;
        done.map(Json).ok_or_else(|| nothing(&namespace))
    })
    .await
}

/// `GET /memory/{namespace}`
pub async fn show(State(node): State<Arc<Operations>>, Path(namespace): Path<String>) -> Answer<MemoryContent> {
    let memory = opened(&node, &namespace).await?;
    content(&memory).await.map(Json).map_err(|error| failed(&error))
}

/// `GET /memory/{namespace}/passages`
pub async fn search(
    State(node): State<Arc<Operations>>,
    Path(namespace): Path<String>,
    Parameters(PassagesQuery { question, most }): Parameters<PassagesQuery>,
) -> Answer<MemoryPassages> {
    let memory = opened(&node, &namespace).await?;
    let recalled = memory.recall(&question, most).await.map_err(|error| failed(&error))?;
    Ok(Json(MemoryPassages { passages: recalled.into_iter().map(passage).collect() }))
}

/// `GET /memory/{namespace}/entry`
pub async fn read(
    State(node): State<Arc<Operations>>,
    Path(namespace): Path<String>,
    Parameters(EntryQuery { what }): Parameters<EntryQuery>,
) -> Answer<MemoryEntry> {
    let memory = opened(&node, &namespace).await?;
    let found = entry(&memory, what).await.map_err(|error| failed(&error))?;
    found.map(Json).ok_or_else(|| nothing(&namespace))
}

async fn opened(node: &Operations, namespace: &str) -> Result<Memory, ApiError> {
    // The key derivation is slow on purpose.
    let (memories, name) = (node.memories.clone(), namespace.to_owned());
    let opened = tokio::task::spawn_blocking(move || memories.operate(&name)).await;
    opened.map_err(|error| ApiError::failed(error.to_string()))?.map_err(|error| failed(&error))
}

fn nothing(namespace: &str) -> ApiError {
    ApiError::new(Kind::NotFound, format!("the namespace {namespace:?} keeps no such thing"))
}

async fn answer(memory: &Memory, request: MemoryRequest) -> Result<Option<MemoryReply>, MemoryError> {
    Ok(Some(match request {
        MemoryRequest::Add { source, text } => {
            let passages = memory.remember(&source, &text).await?;
            MemoryReply::Source(MemorySource { source, passages })
        }
        MemoryRequest::Forget { what } => {
            let (passages, key) = (memory.forget(&what).await?, memory.delete(&what).await?);
            if passages == 0 && !key {
                return Ok(None);
            }
            MemoryReply::Deletion(MemoryDeletion { forgotten: what, passages })
        }
    }))
}

async fn content(memory: &Memory) -> Result<MemoryContent, MemoryError> {
    Ok(MemoryContent { bytes: memory.bytes().await?, sources: memory.sources().await?, keys: memory.keys("").await? })
}

async fn entry(memory: &Memory, what: String) -> Result<Option<MemoryEntry>, MemoryError> {
    if let Some(found) = memory.passage(&what).await? {
        return Ok(Some(MemoryEntry::Passage(passage(found))));
    }
    if let Some(value) = memory.get(&what).await? {
        let value = String::from_utf8_lossy(&value).into_owned();
        return Ok(Some(MemoryEntry::Value(MemoryValue { key: what, value })));
    }
    Ok(memory.tombstone(&what)?.map(|(at_ms, why)| {
        let why = match why {
            Removal::Forgotten => MemoryLoss::Forgotten,
            Removal::Expired => MemoryLoss::Expired,
        };
        MemoryEntry::Tombstone(MemoryTombstone { gone: what, why, at_ms })
    }))
}

fn passage(found: Recalled) -> MemoryPassage {
    let Recalled { id, source, source_hash, place, text, by: _, kept_ms, similarity } = found;
    MemoryPassage { id, source, source_hash, place, kept_ms, likeness: f64::from(similarity), text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_passage_is_told_with_the_likeness_that_was_measured() {
        let found = Recalled {
            id: "3f2a".to_owned(),
            source: "rules.txt".to_owned(),
            source_hash: "9c0d".to_owned(),
            place: 2,
            text: "A cat pays nothing.".to_owned(),
            by: "clerk".to_owned(),
            kept_ms: 7,
            similarity: 0.9,
        };
        let told = json!(passage(found));
        assert_eq!((&told["likeness"], &told["keptMs"]), (&json!(0.9_f32), &json!(7)), "{told}");
        assert!(told.get("by").is_none(), "who stored it is not told: {told}");
    }
}

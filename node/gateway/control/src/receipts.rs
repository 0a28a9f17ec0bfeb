//! The control API's receipts: what proves that the logs of registries have what the owner sent.

use std::sync::Arc;

use althing_node::Node;
use althing_node::registries::{FoundReceipt, KeptReceipts, WantedReceipts};
use althing_protocol::hex;
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Answer, ApiError};
use crate::said::words;

/// Which receipts.
#[derive(Deserialize)]
pub struct Asked {
    release: Option<String>,
    entry: Option<u64>,
    registry: Option<String>,
}

/// `GET /releases/receipts?release=…&entry=…`: no registry is asked.
pub async fn list(State(node): State<Arc<Node>>, Query(asked): Query<Asked>) -> Answer {
    // Many rows may be read.
    let reading = tokio::task::spawn_blocking(move || -> Answer {
        let Asked { release, entry, registry } = asked;
        let release = match release {
            Some(release) => Some(node.registries.attesting().release_named(&release)?),
            None => None,
        };
        let wanted = WantedReceipts { release, entry };
        let KeptReceipts { registry, key, found } = node.registries.keeping().list(&wanted, registry.as_deref())?;
        let found: Vec<Value> = found.iter().map(shown).collect();
        Ok(Json(json!({ "registry": registry, "key": key, "receipts": found })))
    });
    reading.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// What is kept of an entry: a receipt with what anybody verifies it by, or why it is none.
pub fn shown(found: &FoundReceipt) -> Value {
    let receipt = match &found.receipt {
        Ok(receipt) => receipt,
        Err(error) => return json!({ "entry": found.index, "why": error.to_string() }),
    };
    let (what, about, detail) = words(&receipt.said);
    json!({
        "entry": found.index,
        "what": what,
        "about": about,
        "detail": detail,
        "acceptedMs": receipt.accepted_ms,
        "entries": receipt.entries,
        "cosigned": receipt.cosigned,
        "leaf": hex(&receipt.entry),
        "statement": hex(&receipt.statement),
        "salt": receipt.salt.map(|salt| hex(&salt)),
        "proof": receipt.proof,
    })
}

//! The control API's receipts: what proves that the logs of registries have what the owner sent.

use std::sync::Arc;

use althing_api::{ReceiptEntry, ReceiptFault, ReceiptList, ReceiptProof};
use althing_operations::Operations;
use althing_operations::registries::{FoundReceipt, KeptReceipts, WantedReceipts};
use althing_protocol::hex;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::body::Parameters;
use crate::error::{Answer, ApiError};
use crate::said::words;

/// Which receipts.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptFilter {
    release: Option<String>,
    entry: Option<u64>,
    registry: Option<String>,
}

/// `GET /releases/receipts?release=…&entry=…`: no registry is asked.
pub async fn list(
    State(node): State<Arc<Operations>>,
    Parameters(filter): Parameters<ReceiptFilter>,
) -> Answer<ReceiptList> {
    // Many rows may be read.
    let reading = tokio::task::spawn_blocking(move || -> Answer<ReceiptList> {
        let ReceiptFilter { release, entry, registry } = filter;
        let release = match release {
            Some(release) => Some(node.registries.attesting().release_named(&release)?),
            None => None,
        };
        let wanted = WantedReceipts { release, entry };
        let KeptReceipts { registry, key, found } =
            node.registries.receipt_book().list(&wanted, registry.as_deref())?;
        Ok(Json(ReceiptList { registry, key, receipts: found.iter().map(shown).collect() }))
    });
    reading.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// What is kept of an entry: a receipt with what anybody verifies it by, or why it is none.
pub fn shown(found: &FoundReceipt) -> ReceiptEntry {
    let receipt = match &found.receipt {
        Ok(receipt) => receipt,
        Err(error) => return ReceiptEntry::Fault(ReceiptFault { entry: found.index, why: error.to_string() }),
    };
    let (what, about, detail) = words(&receipt.said);
    ReceiptEntry::Proof(Box::new(ReceiptProof {
        entry: found.index,
        what: what.to_owned(),
        about,
        detail,
        accepted_ms: receipt.accepted_ms,
        entries: receipt.entries,
        cosigned: receipt.cosigned,
        leaf: hex(&receipt.entry),
        statement: hex(&receipt.statement),
        salt: receipt.salt.map(|salt| hex(&salt)),
        proof: receipt.proof.clone(),
    }))
}

//! A snapshot that is sent to a member lacks a row.

use althing_communication::{Answer, Request};
use althing_coordination::consensus::wire::{self, SnapshotPart};
use althing_protocol::PublicKey;

use super::Flaw;

/// How the row of a value begins: an array of two, of which the first is its kind.
const VALUE: [u8; 2] = [0x82, 5];

pub(super) struct RowMissing;

impl Flaw for RowMissing {
    fn name(&self) -> &'static str {
        "row-missing"
    }

    fn on_request(&self, _: PublicKey, request: &mut Request) -> Option<Answer> {
        if request.operation == "snapshot"
            && let Ok(mut part) = wire::read::<SnapshotPart>(&request.body)
            && let Some(at) = part.rows.iter().position(|row| row.starts_with(&VALUE))
        {
            part.rows.remove(at);
            request.body = wire::write(&part);
        }
        None
    }
}

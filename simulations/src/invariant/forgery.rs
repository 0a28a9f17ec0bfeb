//! Searches find only agents that their node hosts, and nodes store only values that their author signed.

use althing_protocol::PublicKey;
use althing_protocol::record::{RecordKey, Value};

use super::{Invariant, Search, Truth};
use crate::{NETWORK, NOW_MS};

pub(super) struct Forgery;

impl Invariant for Forgery {
    fn name(&self) -> &'static str {
        "nothing-forged-is-believed"
    }

    fn check(&mut self, search: &Search, truth: &Truth) -> Result<(), String> {
        for (agent, node) in &search.found {
            if truth.agents.get(node) != Some(agent) {
                return Err(format!("node {} found {agent} on {node}, which has no such agent", search.seeker));
            }
        }
        Ok(())
    }

    fn check_stored(&mut self, holder: PublicKey, key: RecordKey, bytes: &[u8]) -> Result<(), String> {
        match Value::open(key, bytes, NETWORK, NOW_MS) {
            Err(reason) if reason.is_forged() => Err(format!("node {holder} keeps what nobody said: {reason}")),
            _ => Ok(()),
        }
    }
}

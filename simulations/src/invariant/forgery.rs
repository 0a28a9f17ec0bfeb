//! What is found is what its node has, and nothing else; and what a node keeps for others is what its author signed.

use althing_protocol::PublicKey;
use althing_protocol::record::{RecordKey, Value};

use super::{Invariant, Look, Truth};
use crate::{NETWORK, NOW_MS};

pub(super) struct Forgery;

impl Invariant for Forgery {
    fn name(&self) -> &'static str {
        "nothing-forged-is-believed"
    }

    fn check(&mut self, look: &Look, truth: &Truth) -> Result<(), String> {
        for (agent, node) in &look.found {
            if truth.agents.get(node) != Some(agent) {
                return Err(format!("node {} found {agent} on {node}, which has no such agent", look.seeker));
            }
        }
        Ok(())
    }

    fn check_kept(&mut self, holder: PublicKey, key: RecordKey, bytes: &[u8]) -> Result<(), String> {
        match Value::open(key, bytes, NETWORK, NOW_MS) {
            Err(reason) if reason.is_forged() => Err(format!("node {holder} keeps what nobody said: {reason}")),
            _ => Ok(()),
        }
    }
}

//! Policy sets of an owner's nodes: the newer one that the owner signed is fetched from whoever has it, and each node says which one
//! it has.

use std::time::Duration;

use althing_communication::{Communication, Request};
use althing_protocol::object::OrderSubject;
use althing_protocol::{Digest, PublicKey, cbor, digest, hex};
use minicbor::{Decode, Encode};

use super::ledger::{ORDERS_PROTOCOL, OrderReport, Orders};
use super::port::PolicySets;
use crate::error::NodeError;
use crate::owner::Owner;

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of what a node says of its set.
const STANDING_BYTES_MAX: usize = 4 << 10;
/// Characters of a reason that are told.
const REASON_CHARS_MAX: usize = 300;

/// Which policy set a node has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PolicySetStanding {
    /// The digest of the one in force by which its owner, decisions and the audit log name it; none where there is none.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub digest: Option<Digest>,
    /// The serial of the order about it that the node knows; none where it knows none.
    #[n(1)]
    pub serial: Option<u64>,
    /// Why the one that was ordered is not in force, if it could not be loaded.
    #[n(2)]
    pub failure: Option<String>,
}

/// Which policy set one of the owner's nodes has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePolicySet {
    /// Which one, by its key.
    pub node: PublicKey,
    /// What it says, or why it says nothing.
    pub standing: Result<PolicySetStanding, String>,
}

impl Orders {
    /// Orders about policy sets are followed from now on; only the first call has an effect.
    pub fn follow_policy_sets(&self, sets: Box<dyn PolicySets>) {
        if self.sets().set(sets) {
            // What was ordered before is looked at.
            self.wake();
        }
    }

    /// Tells the owner's nodes that the set in force here is the one of all of them.
    ///
    /// # Errors
    /// [`NodeError::NoPolicySet`] where none is in force, and those of [`Orders::give`].
    pub async fn give_policy_set(&self, owner: &Owner) -> Result<OrderReport, NodeError> {
        let in_force = self.sets().get().and_then(|sets| sets.in_force()).ok_or(NodeError::NoPolicySet)?;
        self.sets().set_failure(None);
        self.give(OrderSubject::PolicySet(in_force), owner).await
    }

    /// Puts a set in force here that somebody loads by `load`, while none that was ordered is taken over: what was ordered before is
    /// older.
    ///
    /// # Errors
    /// Those of `load`: what is in force stays.
    pub async fn put_in_force<T, E>(&self, load: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let _loading = self.sets().hold().await;
        let loaded = load.await?;
        let ordered = self.book().policy_set();
        if let Some((_, serial)) = ordered {
            self.sets().follow(serial).await;
        }
        Ok(loaded)
    }

    /// Which policy set this node has.
    #[must_use]
    pub fn policy_set(&self) -> PolicySetStanding {
        let ordered = self.book().policy_set();
        let failure =
            self.sets().failure().filter(|(digest, _)| ordered.is_some_and(|(ordered, _)| ordered == *digest));
        PolicySetStanding {
            digest: self.sets().get().and_then(|sets| sets.set_digest()),
            serial: ordered.map(|(_, serial)| serial),
            failure: failure.map(|(_, reason)| reason),
        }
    }

    /// Which policy set each of the owner's other nodes has that are connected.
    pub async fn policy_sets(&self) -> Vec<NodePolicySet> {
        let Some(communication) = self.communication() else { return Vec::new() };
        let nodes = communication.network().connected().into_iter().filter(|peer| self.is_own(*peer));
        let asked = nodes.map(|node| async move {
            let answer = ask(communication, node, "status", Vec::new()).await;
            let standing = answer.and_then(|body| decode_standing(&body).ok_or_else(|| "it answers noise".to_owned()));
            NodePolicySet { node, standing }
        });
        futures::future::join_all(asked).await
    }

    /// The text of a set, for another node of the owner.
    pub(super) fn policy_text(&self, digest: &Digest) -> Option<String> {
        self.sets().get()?.text(digest)
    }

    /// Takes over the set that was ordered last, unless it is in force, or could not be loaded.
    pub(super) async fn adopt_set(&self) {
        let Some(sets) = self.sets().get() else { return };
        let _loading = self.sets().hold().await;
        let ordered = self.book().policy_set();
        let Some((wanted, serial)) = ordered else { return };
        if sets.in_force() == Some(wanted) {
            self.sets().follow(serial).await;
            return;
        }
        if self.sets().is_followed(serial) || self.sets().failure().is_some_and(|(digest, _)| digest == wanted) {
            return;
        }
        let text = match sets.text(&wanted) {
            Some(text) => Some(text),
            None => self.fetch_set(wanted).await,
        };
        // Nobody who has it is connected: it is looked for again.
        let Some(text) = text else { return };
        match sets.load(text).await {
            Ok(()) => {
                self.sets().follow(serial).await;
                self.sets().set_failure(None);
                tracing::info!(digest = hex(&wanted), serial, "the owner's newer policy set is in force");
            }
            Err(reason) => {
                tracing::error!(serial, reason, "the owner's newer policy set cannot be loaded; the old one stays");
                self.sets().set_failure(Some((wanted, reason.chars().take(REASON_CHARS_MAX).collect())));
            }
        }
    }

    /// The text of a set, from one of the owner's nodes that has it.
    async fn fetch_set(&self, wanted: Digest) -> Option<String> {
        let communication = self.communication()?;
        for peer in communication.network().connected() {
            if !self.is_own(peer) {
                continue;
            }
            match ask(communication, peer, "policy", wanted.to_vec()).await {
                Ok(text) if digest(&text) == wanted => return String::from_utf8(text).ok(),
                Ok(_) => {}
                Err(reason) => tracing::debug!(%peer, reason, "a node does not give the policy set"),
            }
        }
        None
    }
}

async fn ask(communication: &Communication, peer: PublicKey, what: &str, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let request = Request { deadline: Some(TIMEOUT), ..Request::new(what, body) };
    communication.call(peer, ORDERS_PROTOCOL, request).await.map_err(|error| error.to_string())
}

fn decode_standing(bytes: &[u8]) -> Option<PolicySetStanding> {
    cbor::check(bytes, STANDING_BYTES_MAX).ok()?;
    let mut standing: PolicySetStanding = minicbor::decode(bytes).ok()?;
    let shown = |reason: String| reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
    standing.failure = standing.failure.map(shown);
    Some(standing)
}

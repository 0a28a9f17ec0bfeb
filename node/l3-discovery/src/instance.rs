//! Runs of nodes: this node tells peers which run of it speaks, and hears from them what another node signed with its key, if
//! one did (SPEC P-188). [`Instances`] and [`OwnKey`] decide.
//!
//! [`Instances`]: crate::machine::instances::Instances
//! [`OwnKey`]: crate::machine::instances::OwnKey

use std::sync::Arc;
use std::time::Duration;

use althing_communication::Request;
use althing_communication::records::{distance, position_of_node};
use althing_protocol::object::{self, Authored};
use althing_protocol::record::Contact;
use althing_protocol::{PublicKey, cbor};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tokio::time::{interval, timeout};

use crate::PLACEMENTS;
use crate::machine::instances::{Instance, Meaning, Statement};
use crate::state::Shared;

/// The scope of these contacts: nobody can pass one off as a record of the DHT, nor the other way round.
const SCOPE: &str = "instance";
/// Between two rounds of telling peers.
const ROUND: Duration = Duration::from_secs(10);
/// Peers that are told in each round: those whose keys are nearest to this one. Another node with the same key tells the same.
const NEAREST: usize = 4;
/// The others are told in turn, all of them in so many rounds.
const ROUNDS: usize = 5;
/// Peers that may be told.
const TOLD_MAX: usize = 32;
/// A peer that does not answer within this is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a statement of this node is valid, and after how long it signs another one.
const LIFE_MS: u64 = 120_000;
/// See [`LIFE_MS`].
const SIGN_MS: u64 = 20_000;
/// Addresses in a statement.
const ADDRESSES_MAX: usize = 4;
const STATEMENT_BYTES_MAX: usize = 2 << 10;
/// Bytes of an instance and a statement, and of an answer.
const BODY_BYTES_MAX: usize = 4 * STATEMENT_BYTES_MAX;
/// Statements in an answer.
const ANSWERED_MAX: usize = 3;

/// What a node says of its run.
#[derive(Encode, Decode)]
#[cbor(array)]
struct Told {
    /// The run.
    #[n(0)]
    instance: ByteVec,
    /// Where it can be dialled, signed.
    #[n(1)]
    statement: ByteVec,
}

/// Tells peers, round after round.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut round = interval(ROUND);
    loop {
        round.tick().await;
        for peer in peers_of_round(&shared) {
            tokio::spawn(tell(shared.clone(), peer));
        }
    }
}

/// Tells those of the next round now, and waits for their answers.
pub(crate) async fn tell_now(shared: &Arc<Shared>) {
    let telling = peers_of_round(shared).into_iter().map(|peer| tell(shared.clone(), peer));
    futures::future::join_all(telling).await;
}

/// Whom to tell now.
fn peers_of_round(shared: &Shared) -> Vec<PublicKey> {
    let place = position_of_node(shared.key.public());
    let mut peers = shared.connected();
    peers.sort_by_cached_key(|peer| distance(&position_of_node(*peer), &place));
    peers.truncate(TOLD_MAX);
    let mut others = peers.split_off(peers.len().min(NEAREST));
    others.sort_unstable();
    let mut state = shared.lock();
    let last = state.last_peer_told;
    let around = others.iter().filter(|peer| Some(**peer) > last).chain(&others);
    let turn: Vec<PublicKey> = around.copied().take(others.len().div_ceil(ROUNDS)).collect();
    state.last_peer_told = turn.last().copied().or(last);
    peers.extend(turn);
    peers
}

/// Tells one peer, and takes what it answers.
pub(crate) async fn tell(shared: Arc<Shared>, peer: PublicKey) {
    let Some(statement) = own_statement(&shared) else { return };
    let instance = shared.communication.instance().to_vec();
    let told = Told { instance: instance.into(), statement: statement.into() };
    let body = minicbor::to_vec(told).expect("writing to a vector cannot fail");
    let request = Request { deadline: Some(PATIENCE), ..Request::new("instance", body) };
    // A peer of an earlier version does not know the operation.
    let Ok(Ok(answer)) = timeout(PATIENCE, shared.communication.call(peer, PLACEMENTS, request)).await else { return };
    if cbor::check(&answer, BODY_BYTES_MAX).is_err() {
        return;
    }
    let others: Vec<ByteVec> = minicbor::decode(&answer).unwrap_or_default();
    for other in others.iter().take(ANSWERED_MAX) {
        take_shown(&shared, peer, other);
    }
}

/// Takes a statement that a peer showed: only what another node signed with this node's key counts.
fn take_shown(shared: &Shared, peer: PublicKey, statement: &[u8]) {
    let now = shared.now();
    let Some(contact) = open(shared, shared.key.public(), statement) else { return };
    let signed = Statement { sequence: contact.body.sequence, issued_ms: contact.body.issued_at_ms };
    let addresses = shown(contact.body.addresses);
    let mut state = shared.lock();
    let is_news = state.own_key.twin(now.monotonic_ms).is_none();
    let is_foreign = state.own_key.shown(signed, addresses.clone(), shared.begun_ms, now.monotonic_ms);
    drop(state);
    if is_foreign && is_news {
        let other = addresses.join(", ");
        tracing::error!(%peer, other, "another node uses this key: agents of both are not found reliably");
    }
}

/// Answers a peer that tells which run of it speaks: with what other runs signed that are heard beside it.
pub(crate) fn answer(shared: &Shared, peer: PublicKey, body: &[u8]) -> Result<Vec<u8>, String> {
    cbor::check(body, BODY_BYTES_MAX).map_err(|error| error.to_string())?;
    let told: Told = minicbor::decode(body).map_err(|_| "expected an instance and a contact".to_owned())?;
    let instance: Instance = told.instance.as_slice().try_into().map_err(|_| "an instance has 16 bytes".to_owned())?;
    let contact = open(shared, peer, &told.statement).ok_or("the contact is not one of the caller for this")?;
    let addresses = shown(contact.body.addresses);
    let (now, holder) = (shared.now(), shared.source(peer).holder);
    let mut state = shared.lock();
    let known = state.instances.cloned(now.monotonic_ms).iter().any(|(node, _)| *node == peer);
    let what = (addresses.clone(), told.statement.to_vec());
    let meaning = state.instances.heard(peer, holder, instance, what, now.monotonic_ms);
    let mut beside = state.instances.beside(peer, instance);
    drop(state);
    match meaning {
        Meaning::Cloned if !known => {
            tracing::warn!(%peer, at = addresses.join(", "), "another node uses this key: two nodes have it");
        }
        Meaning::Cloned | Meaning::Same => {}
        Meaning::Moved => tracing::debug!(%peer, ?addresses, "a node moved"),
        Meaning::Restarted => tracing::debug!(%peer, ?addresses, "a node started again"),
    }
    beside.truncate(ANSWERED_MAX);
    let beside: Vec<ByteVec> = beside.into_iter().map(ByteVec::from).collect();
    Ok(minicbor::to_vec(beside).expect("writing to a vector cannot fail"))
}

/// A statement of `node` that is valid now.
fn open(shared: &Shared, node: PublicKey, statement: &[u8]) -> Option<Authored<Contact>> {
    let bytes = Some(statement).filter(|bytes| bytes.len() <= STATEMENT_BYTES_MAX)?;
    let contact = object::open::<Contact>(bytes, &shared.config.network, SCOPE).ok()?;
    let is_valid = contact.body.node == node && contact.in_force(shared.clock.now_ms()).is_ok();
    is_valid.then_some(contact)
}

/// What this node says of its run; nothing for one that listens nowhere.
fn own_statement(shared: &Shared) -> Option<Vec<u8>> {
    let now = shared.now();
    let held = shared.lock().statement.clone();
    if let Some((bytes, _)) = held.filter(|(_, at_ms)| at_ms + SIGN_MS > now.monotonic_ms) {
        return Some(bytes);
    }
    let addresses = own_addresses(shared);
    let (sequence, until_ms) = (now.wall_ms, now.wall_ms + LIFE_MS);
    let contact = Contact::new(shared.key.public(), sequence, now.wall_ms, until_ms, addresses);
    let bytes = object::sign(contact, &shared.config.network, SCOPE, &shared.key).ok()?.bytes;
    let mut state = shared.lock();
    state.own_key.signs(sequence);
    state.statement = Some((bytes.clone(), now.monotonic_ms));
    Some(bytes)
}

/// Where this node can be dialled.
pub(crate) fn own_addresses(shared: &Shared) -> Vec<String> {
    shown(shared.communication.network().announced())
}

/// The best few of a node's addresses: those of its loopback lead nobody there, unless it has no others.
fn shown(mut addresses: Vec<String>) -> Vec<String> {
    let is_near = |address: &String| address.starts_with("/ip4/127.") || address.starts_with("/ip6/::1/");
    if !addresses.iter().all(is_near) {
        addresses.retain(|address| !is_near(address));
    }
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_short_and_leads_to_the_node() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let all = texts(&["/ip4/127.0.0.1/tcp/7", "/ip4/10.0.0.1/tcp/7", "/ip6/::1/tcp/7", "/ip6/fd00::1/tcp/7"]);
        assert_eq!(shown(all), ["/ip4/10.0.0.1/tcp/7", "/ip6/fd00::1/tcp/7"]);
        assert_eq!(shown(texts(&["/ip4/127.0.0.1/tcp/7"])), ["/ip4/127.0.0.1/tcp/7"]);
        let many: Vec<String> = (0..9).map(|number| format!("/ip4/10.0.0.{number}/tcp/7")).collect();
        assert_eq!(shown(many).len(), ADDRESSES_MAX);
    }
}

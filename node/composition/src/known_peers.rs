//! The peers that were useful, on disk: after a restart they are dialled by what was known of them. What is written there is a
//! hint, bounded and aged by L3; a row that cannot be read is deleted.

use std::time::Duration;

use althing_discovery::{Discovery, KnownPeer};
use althing_protocol::{PublicKey, cbor};
use althing_store::{Batch, Durability, Family, Range, Store, WriteError};
use minicbor::{Decode, Encode};

use crate::error::NodeError;

/// Peers that were useful, by their DIDs.
pub const KNOWN_PEERS: Family = Family("althing.peers");
/// Rows that are read, or written at once. More are not kept.
const ROWS_MAX: usize = 1_024;
const ROW_BYTES_MAX: usize = 4 << 10;
/// Between two writes, and before one that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// What is written of a peer.
#[derive(Encode, Decode)]
#[cbor(array)]
struct Row {
    /// Whether it is the owner's own, trusted, or named by the configuration.
    #[n(0)]
    near: bool,
    /// When it was useful last, Unix milliseconds.
    #[n(1)]
    useful_ms: u64,
    /// Where it can be dialled.
    #[n(2)]
    addresses: Vec<String>,
}

/// Tells L3 what is on disk.
pub(crate) async fn load(store: &dyn Store, discovery: &Discovery) -> Result<(), NodeError> {
    let (mut peers, mut damaged) = (Vec::new(), Batch::new());
    for (name, row) in store.scan(KNOWN_PEERS, Range::all(ROWS_MAX))? {
        match read(&name, &row) {
            Some(peer) => peers.push(peer),
            None => {
                damaged.delete(KNOWN_PEERS, name);
            }
        }
    }
    if !damaged.is_empty()
        && let Err(error) = store.write(damaged, Durability::Buffered).await
    {
        tracing::warn!(%error, "rows of peers that cannot be read could not be deleted");
    }
    discovery.recall(peers);
    Ok(())
}

/// Writes what changes of them, for as long as the node runs. A crash of the machine may cost the last of it.
pub(crate) async fn persist(store: &dyn Store, discovery: &Discovery) {
    loop {
        discovery.known_peers_changed().await;
        loop {
            match write_changed(store, discovery).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "peers that are worth remembering could not be stored; it is tried again");
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Writes what has changed; gives how many rows.
pub(crate) async fn write_changed(store: &dyn Store, discovery: &Discovery) -> Result<usize, WriteError> {
    let changed = discovery.take_changed_peers(ROWS_MAX);
    let mut batch = Batch::new();
    for (node, known) in &changed {
        match known {
            Some(peer) => batch.put(KNOWN_PEERS, node.did(), bytes(peer)),
            None => batch.delete(KNOWN_PEERS, node.did()),
        };
    }
    if changed.is_empty() {
        return Ok(0);
    }
    if let Err(error) = store.write(batch, Durability::Buffered).await {
        discovery.put_back_peers(changed.iter().map(|(node, _)| *node));
        return Err(error);
    }
    Ok(changed.len())
}

fn bytes(peer: &KnownPeer) -> Vec<u8> {
    let row = Row { near: peer.near, useful_ms: peer.useful_ms, addresses: peer.addresses.clone() };
    minicbor::to_vec(row).expect("writing to a vector cannot fail")
}

fn read(name: &[u8], row: &[u8]) -> Option<KnownPeer> {
    let node = PublicKey::from_did(std::str::from_utf8(name).ok()?).ok()?;
    cbor::check(row, ROW_BYTES_MAX).ok()?;
    let Row { near, useful_ms, addresses } = minicbor::decode(row).ok()?;
    Some(KnownPeer { node, addresses, near, useful_ms })
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;
    use althing_store::MemoryStore;

    use super::*;
    use crate::agents::tests::started;

    fn peer(seed: u8) -> KnownPeer {
        let node = SecretKey::from_seed(&[seed; 32]).public();
        KnownPeer { node, addresses: vec!["/ip4/10.0.0.1/tcp/7421".to_owned()], near: true, useful_ms: 1 << 41 }
    }

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let known = peer(1);
        let (name, row) = (known.node.did(), bytes(&known));
        assert_eq!(read(name.as_bytes(), &row), Some(known));
        assert_eq!(read(b"no did", &row), None);
        for damaged in [b"\x80".as_slice(), b"".as_slice(), b"damaged".as_slice()] {
            assert_eq!(read(name.as_bytes(), damaged), None);
        }
        let long = KnownPeer { addresses: vec!["x".repeat(ROW_BYTES_MAX)], ..peer(1) };
        assert_eq!(read(name.as_bytes(), &bytes(&long)), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_row_that_cannot_be_read_is_deleted_and_the_others_are_recalled() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let store = MemoryStore::new(&[KNOWN_PEERS]);
        let mut batch = Batch::new();
        batch.put(KNOWN_PEERS, peer(7).node.did(), bytes(&peer(7)));
        batch.put(KNOWN_PEERS, peer(8).node.did(), b"damaged".to_vec());
        store.write(batch, Durability::Synced).await.expect("it is written");
        load(&store, &node.discovery).await.expect("it is read");
        assert_eq!(node.discovery.remembered().peers, 1);
        assert_eq!(store.scan(KNOWN_PEERS, Range::all(9)).expect("rows").len(), 1);
        node.shut_down().await;
    }
}

//! P-73: a node without the key of a private network cannot connect to its nodes, and learns nothing from them.

use std::sync::Arc;

use althing_communication::{Network, WallClock};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::NetworkKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const TCP: &str = "/ip4/127.0.0.1/tcp/0";

async fn node(number: u8, network_key: Option<u8>) -> Libp2pNetwork {
    let network_key = network_key.map(|byte| NetworkKey::new([byte; 32]));
    let plain = Libp2pConfig::new(NETWORK, WallClock::new(|| NOW_MS));
    let config = Libp2pConfig { listen: vec![TCP.to_owned()], network_key, ..plain };
    Libp2pNetwork::start(&key(number), config).await.expect("a network")
}

#[tokio::test]
async fn only_nodes_with_the_same_key_connect() {
    let nodes = [(1, Some(7)), (2, Some(7)), (3, Some(8)), (4, None), (5, None)];
    let mut up = Vec::new();
    for (number, network_key) in nodes {
        up.push((network_key, node(number, network_key).await));
    }
    let pairs = up.iter().flat_map(|from| up.iter().map(move |to| (from, to)));
    let dials = pairs.filter(|((_, from), (_, to))| from.local() != to.local()).map(
        async |((from_key, from), (to_key, to))| {
            let dialled = from.dial(Some(to.local()), to.listening()).await;
            assert_eq!(dialled.is_ok(), from_key == to_key, "{from_key:?} to {to_key:?}: {dialled:?}");
        },
    );
    futures::future::join_all(dials).await;
    let peers: Vec<usize> = up.iter().map(|(_, node)| node.peers().len()).collect();
    assert_eq!(peers, [1, 1, 0, 1, 1]);
}

/// What two nodes said to each other, both ways, until they were connected.
async fn overheard(network_key: Option<u8>) -> Vec<u8> {
    let (one, two) = (node(1, network_key).await, node(2, network_key).await);
    let address = two.listening().remove(0);
    let port: u16 = address.rsplit('/').next().and_then(|port| port.parse().ok()).expect("a port");
    let between = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = between.local_addr().expect("an address").port();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let passing = heard.clone();
    tokio::spawn(async move {
        let (near, _) = between.accept().await.expect("a dial");
        let far = TcpStream::connect(("127.0.0.1", port)).await.expect("the other");
        let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
        let pass = |mut from: tokio::net::tcp::OwnedReadHalf, mut to: tokio::net::tcp::OwnedWriteHalf| {
            let heard = passing.clone();
            async move {
                let mut bytes = [0; 4_096];
                while let Ok(len @ 1..) = from.read(&mut bytes).await {
                    heard.lock().expect("no panic").extend_from_slice(&bytes[..len]);
                    to.write_all(&bytes[..len]).await.expect("it goes on");
                }
            }
        };
        tokio::join!(pass(near_in, far_out), pass(far_in, near_out));
    });
    one.dial(Some(two.local()), vec![format!("/ip4/127.0.0.1/tcp/{at}")]).await.expect("a connection");
    heard.lock().map(|heard| heard.clone()).expect("no panic")
}

#[tokio::test]
async fn a_listener_on_the_wire_cannot_tell_what_is_spoken() {
    let says = |heard: &[u8], word: &[u8]| heard.windows(word.len()).any(|window| window == word);
    for word in [&b"/multistream/1.0.0"[..], b"/noise"] {
        assert!(says(&overheard(None).await, word), "an open network says what it speaks");
        let heard = overheard(Some(7)).await;
        assert!(heard.len() > 200 && !says(&heard, word), "a private one does not: {} bytes", heard.len());
    }
}

#[tokio::test]
async fn a_stranger_is_told_24_random_bytes() {
    let private = node(1, Some(7)).await;
    let port: u16 = private.listening()[0].rsplit('/').next().and_then(|port| port.parse().ok()).expect("a port");
    let mut nonces = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        // What an open node would be told, and enough to be taken for the nonce of the other side.
        stream.write_all(b"\x13/multistream/1.0.0\n\x07/noise\n").await.expect("it reads");
        let mut told = Vec::new();
        stream.read_to_end(&mut told).await.expect("it ends");
        assert!(told.len() >= 24, "{} bytes", told.len());
        nonces.push(told[..24].to_vec());
    }
    assert_ne!(nonces[0], nonces[1]);
}

//! Raw streams, on which an adversary or a test may break the protocol.

use althing_communication::BoxedStream;
use althing_protocol::stream::FRAME_VERSION;
use althing_protocol::{Frame, FrameKind, FrameSealer, Hello, PublicKey, SecretKey, StreamBinding};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The next message of a stream; `None` once it is closed.
pub async fn read(raw: &mut BoxedStream) -> Option<Vec<u8>> {
    let len = raw.read_u32().await.ok()?;
    let mut bytes = vec![0; usize::try_from(len).expect("a length")];
    raw.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

/// Sends a message with its length in front. Errors are ignored: a closed stream shows when it is read.
pub async fn write(raw: &mut BoxedStream, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a length").to_be_bytes();
    let _ = raw.write_all(&[&len[..], bytes].concat()).await;
    let _ = raw.flush().await;
}

/// Sends the opener's hello on a stream; the returned sealer signs with `signs`. `None` when the acceptor does not answer.
pub async fn greet_on(
    raw: &mut BoxedStream,
    (network, protocol): (&str, &str),
    (opener, acceptor): (PublicKey, PublicKey),
    signs: &SecretKey,
) -> Option<FrameSealer> {
    let hello = Hello { version: FRAME_VERSION, challenge: [9; 32], network: network.to_owned(), owner: None };
    write(raw, &hello.encode()).await;
    let theirs = Hello::decode(&read(raw).await?, network).expect("a hello");
    let binding = StreamBinding {
        network: network.to_owned(),
        protocol: protocol.to_owned(),
        opener,
        acceptor,
        opener_challenge: [9; 32],
        acceptor_challenge: theirs.challenge,
    };
    Some(FrameSealer::new(&binding, signs.clone()))
}

/// A request frame, not sealed yet.
#[must_use]
pub fn request(operation: &str) -> Frame {
    Frame { operation: Some(operation.to_owned()), ..Frame::new(FrameKind::Request, b"hi".to_vec()) }
}

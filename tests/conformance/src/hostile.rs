//! Raw streams, on which a test may break the protocol.

use althing_communication::BoxedStream;
use althing_protocol::{FrameSealer, PublicKey, SecretKey};
pub use althing_simulations::raw_stream::{greet_on, read, request, write};

use crate::{NETWORK, PROTOCOL};

/// Sends a hello as `me` on a stream to `to`; the returned sealer signs with `signs`.
pub async fn greet(raw: &mut BoxedStream, me: PublicKey, to: PublicKey, signs: &SecretKey) -> FrameSealer {
    let sealer = greet_on(raw, (NETWORK, PROTOCOL), (me, to), signs).await;
    sealer.expect("their hello")
}

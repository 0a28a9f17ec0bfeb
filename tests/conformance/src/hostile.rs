//! Streams by hand: what a program may send that does not keep the protocol.

use althing_communication::BoxedStream;
use althing_protocol::{FrameSealer, PublicKey, SecretKey};
pub use althing_simulations::by_hand::{greet_on, read, request, write};

use crate::{NETWORK, PROTOCOL};

/// Says hello as `me` on a stream to `to`; what it gives seals with the key `signs`.
pub async fn greet(raw: &mut BoxedStream, me: PublicKey, to: PublicKey, signs: &SecretKey) -> FrameSealer {
    let sealer = greet_on(raw, (NETWORK, PROTOCOL), (me, to), signs).await;
    sealer.expect("their hello")
}

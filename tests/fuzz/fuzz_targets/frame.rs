//! Any bytes as a frame, and any bytes as a frame's payload under an honest signature: whoever signs, what is accepted
//! seals to the same bytes.
#![no_main]

use std::sync::LazyLock;

use althing_protocol::{FrameOpener, FrameSealer, Hello, SecretKey, StreamBinding, cbor, sign1};
use libfuzzer_sys::fuzz_target;

struct Stream {
    binding: StreamBinding,
    opener: SecretKey,
    acceptor: SecretKey,
}

/// The stream of `protocol/vectors/frames.json`.
static STREAM: LazyLock<Stream> = LazyLock::new(|| {
    let (opener, acceptor) = (SecretKey::from_seed(&[1; 32]), SecretKey::from_seed(&[2; 32]));
    let binding = StreamBinding {
        network: "testnet".to_owned(),
        protocol: "/althing/call/1".to_owned(),
        opener: opener.public(),
        acceptor: acceptor.public(),
        opener_challenge: [0xa0; 32],
        acceptor_challenge: [0xb0; 32],
    };
    Stream { binding, opener, acceptor }
});

fn accepted_seals_to_itself(bytes: &[u8], sender: &SecretKey, receiver: &SecretKey) {
    let binding = &STREAM.binding;
    if let Ok(frame) = FrameOpener::new(binding, receiver.public()).open(bytes) {
        let again = FrameSealer::new(binding, sender.clone()).seal(frame).expect("it was accepted");
        assert_eq!(again, bytes, "accepted bytes seal to themselves");
    }
}

fuzz_target!(|data: &[u8]| {
    let Stream { binding, opener, acceptor } = &*STREAM;
    if let Ok(hello) = Hello::decode(data, &binding.network) {
        assert_eq!(hello.encode(), data, "an accepted opening encodes to itself");
        if let Some(shown) = hello.owner.and_then(|owner| owner.verify(&binding.network).ok()) {
            assert_eq!(shown.membership.body.owner, shown.inception.publisher(), "one owner");
        }
    }
    accepted_seals_to_itself(data, opener, acceptor);
    accepted_seals_to_itself(data, acceptor, opener);
    // Beyond the signature, where random bytes never come by themselves: the payload of what may be an envelope.
    let envelope = sign1::read(data, 1 << 20);
    let payload = envelope.as_ref().map_or(data, |envelope| envelope.payload());
    if cbor::check(payload, 1 << 20).is_ok() {
        for (sender, receiver) in [(opener, acceptor), (acceptor, opener)] {
            let bytes = sign1::seal(payload.to_vec(), &binding.aad(sender.public()), sender);
            accepted_seals_to_itself(&bytes, sender, receiver);
        }
    }
});

//! Accepted CBOR is read by another decoder, and written by another encoder to the same bytes.
#![no_main]

use althing_protocol::cbor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if cbor::check(data, 1 << 20).is_ok() {
        let value: ciborium::Value = ciborium::from_reader(data).expect("strict CBOR is CBOR");
        let mut again = Vec::with_capacity(data.len());
        ciborium::into_writer(&value, &mut again).expect("writing to a vector cannot fail");
        assert_eq!(again, data, "accepted bytes encode to themselves");
    }
});

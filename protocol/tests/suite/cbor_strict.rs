//! The strict validator against an oracle of its own: ciborium decodes, the test re-encodes by hand and compares.

use althing_protocol::cbor::{self, CborError};
use althing_protocol::limits::{CBOR_DEPTH_MAX, CBOR_ITEMS_MAX};
use ciborium::Value;
use proptest::prelude::*;

use crate::support::{CASES, array, bstr, head, tstr, uint};

const MAX: usize = 1 << 16;

/// The canonical bytes of `value`, or `None` when it holds what the protocol has not.
fn canonical(value: &Value, depth: usize, items: &mut usize) -> Option<Vec<u8>> {
    *items += 1;
    let deeper = || (depth < CBOR_DEPTH_MAX).then_some(depth + 1);
    Some(match value {
        Value::Integer(number) => match i128::from(*number) {
            number if number >= 0 => head(0, u64::try_from(number).ok()?),
            number => head(1, u64::try_from(-1 - number).ok()?),
        },
        Value::Bytes(bytes) => bstr(bytes),
        Value::Text(text) => tstr(text),
        Value::Bool(value) => vec![if *value { 0xf5 } else { 0xf4 }],
        Value::Null => vec![0xf6],
        Value::Array(list) => {
            let depth = deeper()?;
            array(&list.iter().map(|item| canonical(item, depth, items)).collect::<Option<Vec<_>>>()?)
        }
        Value::Map(members) => {
            let depth = deeper()?;
            let mut pairs = Vec::new();
            for (label, value) in members {
                pairs.push((canonical(label, depth, items)?, canonical(value, depth, items)?));
            }
            pairs.sort();
            let twice = pairs.windows(2).any(|pair| pair[0].0 == pair[1].0);
            (!twice).then_some(())?;
            let body: Vec<u8> = pairs.into_iter().flat_map(|(label, value)| [label, value].concat()).collect();
            [head(5, members.len() as u64), body].concat()
        }
        _ => return None,
    })
}

/// What the oracle says: exactly one item, which re-encodes to the same bytes and keeps the limits.
fn oracle(bytes: &[u8]) -> bool {
    let mut items = 0;
    let Ok(value) = ciborium::from_reader::<Value, _>(bytes) else { return false };
    let again = canonical(&value, 0, &mut items);
    again.as_deref() == Some(bytes) && items <= CBOR_ITEMS_MAX
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<u64>().prop_map(Value::from),
        (0u64..300).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        "\\PC{0,12}".prop_map(Value::Text),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::vec((inner.clone(), inner), 0..6).prop_map(Value::Map),
        ]
    })
}

/// Any value as ciborium writes it: minimal and definite, but maps as they come.
fn written(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).expect("writing to a vector cannot fail");
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES * 8))]

    #[test]
    fn arbitrary_bytes_are_accepted_exactly_when_the_oracle_accepts_them(
        bytes in prop::collection::vec(any::<u8>(), 0..24),
    ) {
        prop_assert_eq!(cbor::check(&bytes, MAX).is_ok(), oracle(&bytes));
    }

    #[test]
    fn bytes_made_of_heads_are_accepted_exactly_when_the_oracle_accepts_them(
        bytes in prop::collection::vec(
            prop::sample::select(vec![0x00, 0x17, 0x18, 0x20, 0x40, 0x41, 0x60, 0x61, 0x80, 0x81, 0x82, 0xa0, 0xa1, 0xa2,
                0xf4, 0xf6, 0xf7, 0xf9, 0xff, 0x9f, 0xbf, 0x5f, 0xc0, 0x38, 0x58, 0x78, 0x98, 0xb8, 0x19]), 0..14),
    ) {
        prop_assert_eq!(cbor::check(&bytes, MAX).is_ok(), oracle(&bytes));
    }

    #[test]
    fn written_values_are_accepted_exactly_when_their_maps_are_sorted_and_unique(value in any_value()) {
        let bytes = written(&value);
        prop_assert_eq!(cbor::check(&bytes, MAX).is_ok(), oracle(&bytes));
        // P-4 and P-5 alone can be broken here: the canonical form, when there is one, is accepted.
        if let Some(bytes) = canonical(&value, 0, &mut 0) {
            prop_assert_eq!(cbor::check(&bytes, MAX), Ok(()));
        }
    }

    #[test]
    fn one_edit_of_canonical_bytes_is_judged_as_the_oracle_judges_it(
        value in any_value(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in 0..3u8,
    ) {
        let Some(mut bytes) = canonical(&value, 0, &mut 0) else { return Ok(()) };
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ => drop(bytes.remove(at)),
        }
        prop_assert_eq!(cbor::check(&bytes, MAX).is_ok(), oracle(&bytes), "{:02x?}", bytes);
    }

    #[test]
    fn every_strict_prefix_is_refused_as_truncated(value in any_value()) {
        // P-6
        let Some(bytes) = canonical(&value, 0, &mut 0) else { return Ok(()) };
        for end in 0..bytes.len() {
            prop_assert!(matches!(cbor::check(&bytes[..end], MAX), Err(CborError::Truncated { .. })), "{end}");
        }
    }
}

#[test]
fn a_longer_head_than_needed_is_refused_for_every_major_type_and_width() {
    // P-3
    for (major, content) in [(0u8, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 1)] {
        for (info, width, largest) in [(24u8, 1, 23u64), (25, 2, 0xff), (26, 4, 0xffff), (27, 8, 0xffff_ffff)] {
            let argument = if content == 1 { 1 } else { largest };
            let mut bytes = vec![major << 5 | info];
            bytes.extend_from_slice(&argument.to_be_bytes()[8 - width..]);
            bytes.extend_from_slice(&[0x00, 0x00][..if major == 5 { 2 } else { content }]);
            assert_eq!(cbor::check(&bytes, MAX), Err(CborError::NonMinimal { at: 0 }), "{bytes:02x?}");
        }
    }
}

#[test]
fn the_deepest_and_largest_values_allowed_are_accepted_and_one_more_is_refused() {
    // P-1, P-7, P-8
    let nested = |depth: usize| [vec![0x81; depth - 1], vec![0x80]].concat();
    assert_eq!(cbor::check(&nested(CBOR_DEPTH_MAX), MAX), Ok(()));
    assert_eq!(cbor::check(&nested(CBOR_DEPTH_MAX + 1), MAX), Err(CborError::Depth { at: CBOR_DEPTH_MAX }));
    let wide = |items: usize| array(&vec![uint(0); items - 1]);
    assert_eq!(cbor::check(&wide(CBOR_ITEMS_MAX), MAX), Ok(()));
    assert!(matches!(cbor::check(&wide(CBOR_ITEMS_MAX + 1), MAX), Err(CborError::Items { .. })));
    let long = bstr(&[0; 100]);
    assert_eq!(cbor::check(&long, long.len()), Ok(()));
    assert_eq!(cbor::check(&long, long.len() - 1), Err(CborError::Size { len: 102, max: 101 }));
}

#[test]
fn a_million_bytes_of_open_arrays_or_of_a_false_count_end_at_once() {
    // P-7: no recursion; P-6: a count beyond the input.
    let deep = vec![0x81; 1 << 20];
    assert_eq!(cbor::check(&deep, 1 << 20), Err(CborError::Depth { at: CBOR_DEPTH_MAX }));
    for head in [[0x9b, 255, 255, 255, 255, 255, 255, 255, 255], [0xbb, 127, 255, 255, 255, 255, 255, 255, 255]] {
        assert_eq!(cbor::check(&head, MAX), Err(CborError::Truncated { at: 0 }));
    }
}

#[test]
fn only_false_true_and_null_are_simple_values_and_floats_and_tags_are_refused() {
    // P-2, P-9
    for first in 0xe0..=0xffu8 {
        let bytes = [vec![first], vec![0xff; if first >= 0xf8 { 1 << ((first & 7).min(3)) } else { 0 }]].concat();
        let accepted = cbor::check(&bytes, MAX).is_ok();
        assert_eq!(accepted, matches!(first, 0xf4..=0xf6), "{first:02x}");
    }
    for first in 0xc0..=0xdfu8 {
        assert_eq!(cbor::check(&[first, 0, 0, 0, 0, 0, 0, 0, 0, 0], MAX), Err(CborError::Tag { at: 0 }));
    }
    for first in [0x5f, 0x7f, 0x9f, 0xbf, 0xff] {
        assert_eq!(cbor::check(&[first, 0xff], MAX), Err(CborError::Indefinite { at: 0 }));
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_also_as_a_key() {
    // P-10: overlong, surrogate, lone continuation, beyond U+10FFFF
    for text in [&[0xc0, 0x80][..], &[0xed, 0xa0, 0x80], &[0x80], &[0xf4, 0x90, 0x80, 0x80]] {
        let bytes = [head(3, text.len() as u64), text.to_vec()].concat();
        assert_eq!(cbor::check(&bytes, MAX), Err(CborError::Utf8 { at: 0 }), "{text:02x?}");
        let member = [vec![0xa1], bytes, vec![0]].concat();
        assert_eq!(cbor::check(&member, MAX), Err(CborError::Utf8 { at: 1 }), "{text:02x?}");
    }
}

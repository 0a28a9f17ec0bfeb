use super::*;
use althing_protocol::record::Contact;
use althing_protocol::{SecretKey, object};

const NETWORK: &str = "testnet";

fn secret(number: u32) -> SecretKey {
    let mut seed = [3; 32];
    seed[..4].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_seed(&seed)
}

fn node(number: u32) -> PublicKey {
    secret(number).public()
}

fn contact(number: u32, sequence: u64) -> (RecordKey, Value) {
    let key = secret(number);
    let body = Contact::new(key.public(), sequence, 0, 1_000, vec!["/ip4/192.0.2.1/tcp/1".to_owned()]);
    let contact = object::sign(body, NETWORK, "", &key).expect("a contact");
    (RecordKey::contact(NETWORK, key.public()), Value::Contact(contact))
}

fn records(limits: RecordLimits) -> Records {
    Records::new(node(0), limits)
}

fn group(byte: u8) -> Option<AddressGroup> {
    Some(AddressGroup::V4([byte, 1, 1]))
}

fn capability(number: u32) -> RecordKey {
    RecordKey::capability(NETWORK, &number.to_string())
}

fn there() -> Vec<String> {
    vec!["/ip4/192.0.2.1/tcp/1".to_owned()]
}

#[test]
fn neither_a_node_nor_a_group_of_addresses_fills_what_is_kept() {
    let mut records = records(RecordLimits::default());
    let mut kept = 0;
    for number in 0..100_000 {
        kept += usize::from(records.provide(0, (node(1), group(1)), capability(number), there()).is_ok());
    }
    assert_eq!(kept, RecordLimits::default().providers_per_node);
    for sybil in 2..40 {
        for number in 0..1_000 {
            kept += usize::from(records.provide(0, (node(sybil), group(1)), capability(number), there()).is_ok());
        }
    }
    assert!(kept <= RecordLimits::default().providers_per_group, "{kept}");
    assert_eq!(records.len(), (0, kept));
    assert_eq!(records.provide(0, (node(50), group(2)), capability(0), there()), Ok(()), "others have room");
}

#[test]
fn a_group_of_addresses_is_not_all_that_is_found_under_a_key() {
    let mut records = records(RecordLimits::default());
    for sybil in 1..100 {
        // Whether it is kept is counted below.
        let _ = records.provide(0, (node(sybil), group(1)), capability(0), there());
    }
    assert_eq!(records.providers(0, capability(0)).len(), RecordLimits::default().group_per_key);
    assert_eq!(records.provide(0, (node(200), group(2)), capability(0), there()), Ok(()));
    let from_anywhere: Vec<_> =
        (300..400).map(|number| records.provide(0, (node(number), None), capability(0), there())).collect();
    assert_eq!(records.providers(0, capability(0)).len(), K);
    assert!(from_anywhere.contains(&Err(RecordRefused::Full)));
    assert!(
        records.providers(0, capability(0)).iter().any(|provider| provider.node == node(200)),
        "who was first stays"
    );
}

#[test]
fn what_is_near_takes_the_place_of_what_is_far() {
    let limits = RecordLimits { providers: 50, values: 50, ..RecordLimits::default() };
    let mut records = records(limits);
    for number in 0..2_000 {
        let _ = records.provide(0, (node(1), None), capability(number), there());
        let (key, value) = contact(number, 1);
        let _ = records.put(0, (node(number), None), key, value, 1_000);
    }
    assert_eq!(records.len(), (50, 50));
    let far = |key: &RecordKey| distance(&position_of_node(node(0)), &position_of_key(*key));
    let mut nearest: Vec<RecordKey> = (0..2_000).map(capability).collect();
    nearest.sort_by_key(far);
    assert!(nearest[..50].iter().all(|key| records.providers(0, *key).len() == 1));
    let mut nearest: Vec<RecordKey> = (0..2_000).map(|number| contact(number, 1).0).collect();
    nearest.sort_by_key(far);
    assert!(nearest[..50].iter().all(|key| records.value(0, *key).is_some()));
}

#[test]
fn values_are_outdone_by_newer_ones_and_one_sender_does_not_fill_the_shelf() {
    let mut records = records(RecordLimits::default());
    let put = |records: &mut Records, sender, number, sequence| {
        let (key, value) = contact(number, sequence);
        records.put(0, (node(sender), group(1)), key, value, 1_000)
    };
    assert_eq!(put(&mut records, 1, 7, 5), Ok(()));
    assert_eq!(put(&mut records, 2, 7, 4), Err(RecordRefused::Stale));
    assert_eq!(put(&mut records, 2, 7, 5), Ok(()), "the same once more");
    assert_eq!(put(&mut records, 2, 7, 6), Ok(()));
    let kept = (100..200).filter(|number| put(&mut records, 3, *number, 1).is_ok()).count();
    assert_eq!(kept, RecordLimits::default().values_per_sender);
    let kept = (1_000..2_000).filter(|number| put(&mut records, *number, *number, 1).is_ok()).count();
    assert_eq!(kept + 1 + RecordLimits::default().values_per_sender, RecordLimits::default().values_per_group);
}

#[test]
fn what_has_ended_is_neither_shown_nor_counted() {
    let mut records = records(RecordLimits::default());
    let (key, value) = contact(7, 1);
    records.put(0, (node(7), None), key, value, 1_000).expect("room");
    records.provide(0, (node(7), None), capability(1), there()).expect("room");
    assert!(records.value(999, key).is_some() && records.value(1_000, key).is_none());
    assert_eq!(records.providers(PROVIDER_TTL_MS, capability(1)), []);
    records.sweep(PROVIDER_TTL_MS);
    assert_eq!(records.len(), (0, 0));
    assert!(records.nodes.is_empty() && records.values_by.is_empty() && records.providers_by.is_empty());
    assert_eq!(records.value_bytes, 0);
}

#[test]
fn addresses_are_few_and_short() {
    let mut records = records(RecordLimits::default());
    for bad in [vec![], vec![String::new()], vec!["x".repeat(257)], vec!["x".to_owned(); 9]] {
        assert_eq!(records.provide(0, (node(1), None), capability(1), bad), Err(RecordRefused::Addresses));
    }
}

#[test]
fn a_bucket_is_how_many_bits_of_a_distance_count() {
    let zero = [0; 32];
    let mut far = zero;
    assert_eq!(bucket(&zero, &far), 0);
    far[31] = 1;
    assert_eq!(bucket(&zero, &far), 1);
    far[0] = 0x40;
    assert_eq!(bucket(&zero, &far), 255);
}

/// What is counted as it comes and goes is what there is.
fn counts(records: &Records) {
    let mut of_group: BTreeMap<AddressGroup, (usize, usize)> = BTreeMap::new();
    let mut of_sender: BTreeMap<PublicKey, usize> = BTreeMap::new();
    for kept in records.values.values() {
        *of_sender.entry(kept.sender).or_default() += 1;
        kept.group.into_iter().for_each(|group| of_group.entry(group).or_default().0 += 1);
    }
    for kept in records.nodes.values() {
        kept.group.into_iter().for_each(|group| of_group.entry(group).or_default().1 += kept.keys.len());
    }
    for number in 0..4 {
        let group = group(number).expect("a group");
        let counted = (records.of_group.of(group), records.provided_of_group.of(group));
        assert_eq!(counted, of_group.get(&group).copied().unwrap_or_default());
        assert!(counted.1 <= records.limits.providers_per_group, "{counted:?}");
        for nodes in records.providers.values() {
            let of = |node: &&PublicKey| records.nodes[*node].group == Some(group);
            assert!(nodes.keys().filter(of).count() <= records.limits.group_per_key);
        }
        let sender = node(u32::from(number));
        assert_eq!(records.of_sender.of(sender), of_sender.get(&sender).copied().unwrap_or_default());
    }
}

proptest::proptest! {
    #[test]
    fn shares_are_counted_rightly(steps in proptest::collection::vec((0u32..4, 0u8..5, 0u32..8, 0u8..4), 1..120)) {
        let limits = RecordLimits { values: 5, providers: 12, providers_per_node: 5, providers_per_group: 6, group_per_key: 1, ..RecordLimits::default() };
        let mut records = records(limits);
        for (now_ms, (number, of, what, step)) in (0..).zip(steps) {
            let from = (node(number), if of == 4 { None } else { group(of) });
            match step {
                0 => {
                    let (key, value) = contact(what, now_ms);
                    let _ = records.put(now_ms, from, key, value, now_ms + 20);
                }
                1 => records.withdraw(from.0, capability(what)),
                2 => records.sweep(now_ms),
                _ => drop(records.provide(now_ms, from, capability(what), there())),
            }
            counts(&records);
        }
    }
}

/// Threat row 2: of what is invalid, somebody else's, too long or of another network not one byte is kept, however much of
/// it comes, and what was kept before is found.
#[test]
fn a_hundred_thousand_invalid_puts_keep_not_one_byte() {
    let mut records = records(RecordLimits::default());
    let (honest, value) = contact(1, 1);
    let good = value.encode();
    records.put(500, (node(1), group(1)), honest, value, 1_000).expect("room");
    let before = records.value_bytes;
    let too_long = vec![0x5a; 128 << 10];
    let mut kept = 0;
    for number in 0..100_000_u32 {
        let at = number as usize / 5 % good.len();
        let mut changed = good.clone();
        changed[at] ^= 1 << (number % 8);
        let (key, bytes, network) = match number % 5 {
            0 => (honest, &changed[..], NETWORK),
            1 => (capability(number), &good[..], NETWORK),
            2 => (RecordKey::contact(NETWORK, node(2 + number % 64)), &good[..], NETWORK),
            3 => (honest, &too_long[..], NETWORK),
            _ => (honest, &good[..at], NETWORK),
        };
        let opened = Value::open(key, bytes, network, 500);
        kept += usize::from(opened.is_ok_and(|value| records.put(500, (node(3), group(3)), key, value, 1_000).is_ok()));
    }
    assert_eq!(kept, 0);
    assert_eq!((records.len(), records.value_bytes), ((1, 0), before), "bytes kept");
    assert_eq!(records.value(500, honest), Some(&good[..]), "an honest GET is answered");
}

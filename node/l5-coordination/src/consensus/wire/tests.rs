//! The messages of `/althing/raft/1` by hand, as vectors, and as any bytes.

use althing_protocol::SecretKey;

use super::*;

mod any_bytes;
mod cases;
mod shown;
mod vectors;

fn key(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

/// The keys of these seeds, in the order of their bytes.
fn sorted(seeds: &[u8]) -> Vec<PublicKey> {
    let mut keys: Vec<PublicKey> = seeds.iter().copied().map(key).collect();
    keys.sort_unstable();
    keys
}

// -- an encoder of its own: RFC 8949 §3

fn head(major: u8, argument: u64) -> Vec<u8> {
    let major = major << 5;
    let be = argument.to_be_bytes();
    match argument {
        0..=23 => vec![major | be[7]],
        24..=0xff => vec![major | 24, be[7]],
        0x100..=0xffff => [&[major | 25], &be[6..]].concat(),
        0x1_0000..=0xffff_ffff => [&[major | 26], &be[4..]].concat(),
        _ => [&[major | 27], &be[..]].concat(),
    }
}

fn uint(value: u64) -> Vec<u8> {
    head(0, value)
}

fn bstr(bytes: &[u8]) -> Vec<u8> {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

fn tstr(text: &str) -> Vec<u8> {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}

fn bool(value: bool) -> Vec<u8> {
    vec![0xf4 | u8::from(value)]
}

fn null() -> Vec<u8> {
    vec![0xf6]
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [head(4, items.len() as u64), items.concat()].concat()
}

/// Members in the order given.
fn map(members: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let items: Vec<u8> = members.iter().flat_map(|(label, value)| [uint(*label), value.clone()].concat()).collect();
    [head(5, members.len() as u64), items].concat()
}

/// A choice: its number, and its members.
fn choice(number: u64, members: &[Vec<u8>]) -> Vec<u8> {
    array(&[uint(number), array(members)])
}

fn keys(keys: &[PublicKey]) -> Vec<u8> {
    array(&keys.iter().map(|key| bstr(key.as_bytes())).collect::<Vec<_>>())
}

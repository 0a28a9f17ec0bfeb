//! Any bytes as a charter, an endorsed statement or a batch of a group: what is accepted signs to the same bytes, and
//! nothing is endorsed by fewer owners than its charter says.
#![no_main]

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use althing_protocol::group::{
    Batch, Charter, Dissolution, Endorsed, Expulsion, GroupId, Invitation, KeyLogs, Policy,
};
use althing_protocol::object::{self, Kind, Statement};
use althing_protocol::{KeyLog, PublicKey, SecretKey, cbor, keylog, sign1};
use libfuzzer_sys::fuzz_target;

const NETWORK: &str = "testnet";
const NOW_MS: u64 = 1_700_000_000_000;

/// The owners, the first charter and the members of `protocol/vectors/groups.json`.
struct World {
    owners: Vec<SecretKey>,
    keys: Vec<SecretKey>,
    logs: KeyLogs,
    charter: Charter,
    scope: String,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let key = |seed: u8| SecretKey::from_seed(&[seed; 32]);
    let log = |[first, second, third]: [u8; 3]| {
        let next = [key(second).public(), key(third).public()];
        let event = keylog::inception(&key(first), next, NOW_MS - 2 * 3_600_000);
        KeyLog::verify(&[event.bytes]).expect("a good inception")
    };
    let logs: Vec<KeyLog> = [[3, 4, 5], [11, 12, 13], [14, 15, 16]].map(log).to_vec();
    let ids = logs.iter().map(KeyLog::publisher);
    let charter = Charter::first("team", ids, 2, key(6).public(), Policy::default(), NOW_MS, [7; 16]);
    let scope = GroupId::of(&charter).to_string();
    let logs = logs.into_iter().map(|log| (log.publisher(), Arc::new(log))).collect();
    World { owners: [3, 11, 14].map(key).to_vec(), keys: (1..=16).map(key).collect(), logs, charter, scope }
});

/// `external_aad`: domain, network, scope; the scope of a group has 59 bytes.
fn aad(kind: Kind, scope: &str) -> Vec<u8> {
    let domain = match kind {
        Kind::Charter => "althing/charter/1",
        Kind::Invitation => "althing/invitation/1",
        Kind::Expulsion => "althing/expulsion/1",
        Kind::Dissolution => "althing/dissolution/1",
        _ => "althing/group-commands/1",
    };
    let mut bytes = vec![0x83];
    for text in [domain, NETWORK, scope] {
        let length = u8::try_from(text.len()).expect("short");
        if length < 24 {
            bytes.push(0x60 | length);
        } else {
            bytes.extend_from_slice(&[0x78, length]);
        }
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Returns whether the bytes were accepted.
fn accepted_signs_to_itself<T: Statement>(bytes: &[u8], scope: &str) -> bool {
    let Ok(object) = object::open::<T>(bytes, NETWORK, scope) else { return false };
    assert_eq!(object.bytes, bytes);
    if let Some(key) = WORLD.keys.iter().find(|key| key.public() == object.signer) {
        let again = object::sign(object.body, NETWORK, scope, key).expect("it was accepted");
        assert_eq!(again.bytes, bytes, "accepted bytes sign to themselves");
    }
    true
}

fn every_kind(bytes: &[u8]) {
    let accepted: usize = ["", WORLD.scope.as_str()]
        .iter()
        .flat_map(|scope| {
            [
                accepted_signs_to_itself::<Charter>(bytes, scope),
                accepted_signs_to_itself::<Invitation>(bytes, scope),
                accepted_signs_to_itself::<Expulsion>(bytes, scope),
                accepted_signs_to_itself::<Dissolution>(bytes, scope),
                accepted_signs_to_itself::<Batch>(bytes, scope),
            ]
        })
        .map(usize::from)
        .sum();
    assert!(accepted <= 1, "bytes are an object of one kind and scope at most");
}

/// What is endorsed was signed by two owners at least, and by nobody else.
fn endorsed<T: Statement + PartialEq>(statement: &Endorsed, scope: &str) {
    let World { owners, logs, charter, .. } = &*WORLD;
    if statement.verify::<T>(NETWORK, scope, charter, logs, NOW_MS).is_err() {
        return;
    }
    let owners: BTreeSet<PublicKey> = owners.iter().map(SecretKey::public).collect();
    let signer = |bytes: &[u8]| object::open::<T>(bytes, NETWORK, scope).expect("it was accepted").signer;
    let signers: BTreeSet<PublicKey> = statement.objects().map(signer).collect();
    assert!(signers.len() >= 2 && signers.is_subset(&owners), "{signers:?}");
}

fn every_statement(statement: &Endorsed) {
    let scope = WORLD.scope.as_str();
    endorsed::<Charter>(statement, "");
    endorsed::<Charter>(statement, scope);
    endorsed::<Invitation>(statement, scope);
    endorsed::<Expulsion>(statement, scope);
    endorsed::<Dissolution>(statement, scope);
    if let Ok(charter) = statement.read::<Charter>(NETWORK, scope) {
        let (before, group) = (&WORLD.charter, GroupId::of(&WORLD.charter));
        let follows = charter.follows.is_some_and(|it| it.group == group && it.charter == before.digest());
        assert!(!charter.continues(group, before) || follows && charter.sequence == 1);
    }
}

fuzz_target!(|data: &[u8]| {
    every_kind(data);
    if cbor::check(data, 1 << 20).is_ok()
        && let Ok(statement) = minicbor::decode::<Endorsed>(data)
    {
        every_statement(&statement);
    }
    // Beyond the signature: the payload of what may be an envelope, signed by owners as the kind that member 0 claims.
    let envelope = sign1::read(data, 1 << 19);
    let payload = envelope.as_ref().map_or(data, |envelope| envelope.payload());
    if cbor::check(payload, 1 << 19).is_ok() {
        let kind = match payload.get(2) {
            Some(9) => Kind::Charter,
            Some(10) => Kind::Invitation,
            Some(11) => Kind::Expulsion,
            Some(12) => Kind::Dissolution,
            _ => Kind::GroupCommands,
        };
        for scope in ["", WORLD.scope.as_str()] {
            let signed = WORLD.owners.iter().map(|key| sign1::seal(payload.to_vec(), &aad(kind, scope), key));
            let signed: Vec<Vec<u8>> = signed.collect();
            every_kind(&signed[0]);
            every_statement(&Endorsed::new([signed[0].clone()]));
            every_statement(&Endorsed::new([signed[1].clone(), signed[1].clone()]));
            every_statement(&Endorsed::new(signed));
        }
    }
});

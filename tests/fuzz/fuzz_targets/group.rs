//! Any bytes as a charter, an endorsed statement or a batch of a group: what is accepted signs to the same bytes, nothing is
//! endorsed by fewer owners than its charter says, and each workflow can run. Any text as a template.
#![no_main]

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use althing_protocol::group::{
    Action, Batch, Charter, Command, Dissolution, Endorsed, Expulsion, GroupId, Invitation, KeyLogs, Part, Policy,
    Step, Workflow, parts,
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
    if let Ok(batch) = object::open::<Batch>(bytes, NETWORK, scope) {
        for command in &batch.body.commands {
            match command {
                Command::RunWorkflow(run) => can_run(&run.workflow),
                Command::Schedule(schedule) => can_run(&schedule.workflow),
                _ => {}
            }
        }
    }
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

/// A text as a template: its parts, written in one way, are read as the same parts.
fn template(text: &str) {
    let Ok(read) = parts(text) else { return };
    let written: String = read
        .iter()
        .map(|part| match part {
            Part::Text(text) => (*text).to_owned(),
            Part::Input => "{{input}}".to_owned(),
            Part::Item => "{{item}}".to_owned(),
            // The space keeps an id apart that ends with a brace.
            Part::Step(id) => format!("{{{{step.{id} }}}}"),
        })
        .collect();
    assert_eq!(parts(&written).as_ref(), Ok(&read));
}

/// A workflow that was accepted can run: each step waits for earlier ones, its template refers to what it waits for or to its
/// own loop, and no step is in two loops.
fn can_run(workflow: &Workflow) {
    assert_eq!(workflow.check(), Ok(()));
    let (parents, ancestors) = (workflow.parents(), workflow.ancestors());
    let bodies: Vec<Vec<usize>> = (0..workflow.steps.len()).map(|at| workflow.body(at)).collect();
    let mut looped = BTreeSet::new();
    assert!(bodies.iter().flatten().all(|at| looped.insert(*at)), "a step is in one loop at most");
    for (at, step) in workflow.steps.iter().enumerate() {
        assert_eq!(workflow.place(&step.id), Some(at), "its id is its own");
        assert_eq!(parents[at].count_ones() as usize, step.after.len());
        assert_eq!((parents[at] | ancestors[at]) >> at, 0, "it comes after earlier steps only");
        let is_before = |id: &String| workflow.place(id).is_some_and(|on| ancestors[at] >> on & 1 == 1);
        assert!(step.when.iter().all(|when| is_before(&when.step)));
        refers(step, at, &bodies, workflow, is_before);
    }
}

fn refers(step: &Step, at: usize, bodies: &[Vec<usize>], workflow: &Workflow, is_before: impl Fn(&String) -> bool) {
    let (text, each) = match &step.action {
        Action::Task(job) => (&job.input, job.for_each.as_ref()),
        Action::Approval(question) => (question, None),
    };
    assert!(each.is_none_or(&is_before));
    template(text);
    for part in parts(text).expect("it was accepted") {
        match part {
            Part::Step(id) => {
                let on = workflow.place(id).expect("it is there");
                let together = |body: &Vec<usize>| body.contains(&at) && body.contains(&on);
                assert!(is_before(&id.to_owned()) || bodies.iter().any(together), "{id} has no result");
            }
            Part::Item => assert!(each.is_some(), "there is no item"),
            Part::Text(_) | Part::Input => {}
        }
    }
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
    if let Ok(text) = std::str::from_utf8(data) {
        template(text);
    }
    // Whatever is no workflow is refused without a panic.
    if let Ok(workflow) = minicbor::decode::<Workflow>(data)
        && workflow.check().is_ok()
    {
        can_run(&workflow);
    }
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

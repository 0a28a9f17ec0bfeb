//! P-78 to P-84: charters, endorsed statements and batches, by hand and as vectors.

use std::sync::Arc;

use althing_protocol::group::{
    Amendment, Author, Batch, Charter, Command, Dissolution, Endorsed, Expulsion, Founding, GroupId, Invitation, Join,
    KeyLogs, Policy, Remove, Rule, Set,
};
use althing_protocol::object::{self, Statement};
use althing_protocol::{KeyLog, OwnerProof, PublisherId};
use minicbor::bytes::ByteVec;
use serde_json::{Value, json};

use crate::names::Name as _;
use crate::support::{self, *};
use crate::vector_cases::{Case, case, flipped};
use crate::vector_runner::{Outcome, bytes, hex, list, number, text, unhex};

/// The first keys of the second and third owner; the first owner is the publisher of the other vectors.
const SECOND: u8 = 11;
const THIRD: u8 = 14;
const FOUNDER: u8 = NODE;
const JOINER: u8 = OPENER;
const WEEK_MS: u64 = 7 * 24 * HOUR_MS;

fn owners() -> [KeyLog; 3] {
    let of = |seed| begun(seed, [seed + 1, seed + 2], NOW_MS - 2 * HOUR_MS);
    [log(), of(SECOND), of(THIRD)]
}

/// Owned by all three, of whom two must sign.
fn first() -> Charter {
    let owners = owners().map(|log| log.publisher());
    Charter::first("team", owners, 2, public(FOUNDER), Policy::default(), NOW_MS, [7; 16])
}

pub fn group() -> GroupId {
    GroupId::of(&first())
}

pub fn scope() -> String {
    group().to_string()
}

/// Owned by the first owner alone.
pub fn second() -> Charter {
    but(first().next(group(), NOW_MS), |it| (it.owners, it.threshold) = (vec![publisher()], 1))
}

/// Work and reading are left to the owners.
fn kept() -> Charter {
    but(first(), |it| (it.policy.assign, it.policy.read) = (Some(Rule::Owners), Some(Rule::Owners)))
}

fn but(mut charter: Charter, change: impl FnOnce(&mut Charter)) -> Charter {
    change(&mut charter);
    charter
}

pub fn invitation(nonce: u8) -> Invitation {
    Invitation::new(group(), first().digest(), public(JOINER), NOW_MS - HOUR_MS, NOW_MS + HOUR_MS, [nonce; 16], 3)
}

pub fn expulsion() -> Expulsion {
    Expulsion::new(group(), public(JOINER), 4)
}

pub fn dissolution() -> Dissolution {
    Dissolution::new(group(), first().digest())
}

pub fn signed<T: Statement + Clone>(body: &T, scope: &str, signers: &[u8]) -> Vec<Vec<u8>> {
    signers.iter().map(|seed| object::sign(body.clone(), NETWORK, scope, &key(*seed)).expect("good").bytes).collect()
}

fn endorsed<T: Statement + Clone>(body: &T, scope: &str) -> Endorsed {
    Endorsed::new(signed(body, scope, &[PUBLISHER, SECOND]))
}

fn events(log: &KeyLog) -> Vec<ByteVec> {
    log.to_bytes().into_iter().map(ByteVec::from).collect()
}

fn set() -> Command {
    Command::Set(Set { key: "plan/1".to_owned(), value: b"go".to_vec().into(), if_version: Some(0) })
}

fn batch(sequence: u64, commands: Vec<Command>) -> Batch {
    Batch::new(4, Author::Node(public(JOINER)), 1_700_000_000_123, sequence, commands)
}

/// One object of each kind of a group, without a scope.
pub fn one_of_each() -> Vec<Vec<u8>> {
    let sign = [
        signed(&first(), "", &[OPENER]),
        signed(&invitation(1), "", &[OPENER]),
        signed(&expulsion(), "", &[OPENER]),
        signed(&dissolution(), "", &[OPENER]),
        signed(&batch(1, vec![set()]), "", &[OPENER]),
        signed(&crate::group_deployments::deployment(), "", &[OPENER]),
    ];
    sign.concat()
}

// -- by hand

fn charter_members() -> Vec<(u64, Vec<u8>)> {
    let mut owners = owners().map(|log| *log.publisher().as_bytes());
    owners.sort_unstable();
    vec![
        (0, uint(9)),
        (1, tstr("team")),
        (2, uint(0)),
        (4, array(&owners.map(|owner| bstr(&owner)))),
        (5, uint(2)),
        (6, bstr(public(FOUNDER).as_bytes())),
        (7, map(&[(0, uint(2)), (1, uint(5))])),
        (8, uint(NOW_MS)),
        (9, bstr(&[7; 16])),
    ]
}

pub fn by_hand(domain: &str, members: &[(u64, Vec<u8>)], scope: &str, signer: u8) -> Vec<u8> {
    cose(&map(members), &object_aad(domain, NETWORK, scope), &key(signer))
}

pub fn batch_by_hand(commands: &[Vec<u8>]) -> Vec<u8> {
    let author = array(&[uint(2), array(&[bstr(public(JOINER).as_bytes())])]);
    let members =
        [(0, uint(13)), (1, uint(4)), (2, author), (3, uint(1_700_000_000_123)), (4, uint(1)), (5, array(commands))];
    by_hand("althing/group-commands/1", &members, &scope(), JOINER)
}

#[test]
fn statements_built_by_hand_are_what_the_crate_builds() {
    // P-78 to P-80, P-83
    let of = |domain: &str, members: &[(u64, Vec<u8>)], scope: &str| by_hand(domain, members, scope, PUBLISHER);
    let (team, first_digest) = (bstr(group().as_bytes()), bstr(&first().digest()));
    assert_eq!(of("althing/charter/1", &charter_members(), ""), signed(&first(), "", &[PUBLISHER])[0]);
    assert_eq!(*group().as_bytes(), althing_protocol::digest(&map(&charter_members())));
    let mut leaves = charter_members();
    leaves[6].1 = map(&[(0, uint(2)), (1, uint(5)), (3, uint(1)), (4, uint(1))]);
    assert_eq!(of("althing/charter/1", &leaves, ""), signed(&kept(), "", &[PUBLISHER])[0]);
    let mut later = charter_members();
    later[2].1 = uint(1);
    later[3].1 = array(&[bstr(publisher().as_bytes())]);
    later[4].1 = uint(1);
    later.insert(3, (3, map(&[(0, team.clone()), (1, first_digest.clone())])));
    assert_eq!(of("althing/charter/1", &later, &scope()), signed(&second(), &scope(), &[PUBLISHER])[0]);
    let node = bstr(public(JOINER).as_bytes());
    let (from, until) = (uint(NOW_MS - HOUR_MS), uint(NOW_MS + HOUR_MS));
    let members = [
        (0, uint(10)),
        (1, team.clone()),
        (2, node.clone()),
        (3, first_digest.clone()),
        (4, from),
        (5, until),
        (6, bstr(&[1; 16])),
        (7, uint(3)),
    ];
    assert_eq!(of("althing/invitation/1", &members, &scope()), signed(&invitation(1), &scope(), &[PUBLISHER])[0]);
    let members = [(0, uint(11)), (1, team.clone()), (2, node), (3, uint(4))];
    assert_eq!(of("althing/expulsion/1", &members, &scope()), signed(&expulsion(), &scope(), &[PUBLISHER])[0]);
    let members = [(0, uint(12)), (1, team), (2, first_digest)];
    assert_eq!(of("althing/dissolution/1", &members, &scope()), signed(&dissolution(), &scope(), &[PUBLISHER])[0]);
}

#[test]
fn a_charter_that_says_nothing_of_work_and_reading_is_what_it_was_before_one_could() {
    // P-78, P-79
    assert_eq!(hex(&first().digest()), "09c4defd1bb8655748f6067e7c5807fd8214055ad74314b8a535816fc2631676");
    let rules = |policy: Policy| (policy.assigners(), policy.readers());
    assert_eq!(rules(first().policy), (Rule::Members, Rule::Members));
    let strict = Policy { write: Rule::Owners, ..Policy::default() };
    assert_eq!(rules(strict), (Rule::Owners, Rule::Members), "who may write gives work");
}

#[test]
fn a_batch_built_by_hand_is_what_the_crate_builds() {
    // P-84
    let of = |number: u64, members: &[Vec<u8>]| array(&[uint(number), array(members)]);
    let texts = |statement: Vec<Vec<u8>>| array(&statement.iter().map(|it| bstr(it)).collect::<Vec<_>>());
    let log = array(&[bstr(&log().to_bytes()[0])]);
    let commands = [
        of(2, &[]),
        of(3, &[texts(signed(&expulsion(), &scope(), &[PUBLISHER, SECOND]))]),
        of(5, &[texts(signed(&dissolution(), &scope(), &[PUBLISHER, SECOND]))]),
        of(6, std::slice::from_ref(&log)),
        of(7, &[map(&[(0, tstr("plan/1")), (1, bstr(b"go")), (2, uint(0))])]),
        of(8, &[map(&[(0, tstr("plan/1"))])]),
    ];
    let expected = vec![
        Command::Leave,
        Command::Expel(endorsed(&expulsion(), &scope())),
        Command::Dissolve(endorsed(&dissolution(), &scope())),
        Command::Keys(events(&support::log())),
        set(),
        Command::Remove(Remove { key: "plan/1".to_owned(), if_version: None }),
    ];
    assert_eq!(batch_by_hand(&commands), signed(&batch(1, expected), &scope(), &[JOINER])[0]);
    let owner = map(&[(0, bstr(&proof().membership)), (1, bstr(&proof().inception))]);
    let members = [
        (0, texts(signed(&invitation(1), &scope(), &[PUBLISHER, SECOND]))),
        (1, owner),
        (2, log),
        (3, array(&[tstr("/ip4/192.0.2.1/tcp/4001")])),
    ];
    assert_eq!(batch_by_hand(&[of(1, &[map(&members)])]), signed(&batch(1, vec![join()]), &scope(), &[JOINER])[0]);
    let Command::Join(mut knowing) = join() else { unreachable!("it is a join") };
    knowing.rules = Some(1);
    let members = [&members[..], &[(4, uint(1))][..]].concat();
    let built = signed(&batch(1, vec![Command::Join(knowing)]), &scope(), &[JOINER]);
    assert_eq!(batch_by_hand(&[of(1, &[map(&members)])]), built[0]);
}

fn join() -> Command {
    Command::Join(Box::new(Join {
        invitation: endorsed(&invitation(1), &scope()),
        owner: proof(),
        log: events(&log()),
        addresses: vec!["/ip4/192.0.2.1/tcp/4001".to_owned()],
        rules: None,
    }))
}

fn found() -> Command {
    Command::Found(Box::new(Founding {
        charter: endorsed(&first(), ""),
        logs: owners().iter().map(events).collect(),
        owner: proof(),
        addresses: vec!["/ip4/192.0.2.1/tcp/4001".to_owned()],
        rules: None,
    }))
}

fn amend() -> Command {
    let charter = endorsed(&second(), &scope());
    Command::Amend(Box::new(Amendment { charter, logs: vec![events(&log())] }))
}

// -- vectors

/// Who reads, and by what: the present charter, none for the first one, and the owners' logs.
struct Reader {
    under: Option<Charter>,
    logs: Vec<KeyLog>,
    now_ms: u64,
}

fn reader(under: Option<Charter>) -> Reader {
    Reader { under, logs: owners().to_vec(), now_ms: NOW_MS }
}

fn statement_case(name: &str, kind: &str, by: &Reader, statement: &[Vec<u8>], error: Option<&'static str>) -> Case {
    let scope = by.under.as_ref().map_or_else(String::new, |_| scope());
    let under = by.under.as_ref().map(|charter| hex(&minicbor::to_vec(charter).expect("it encodes")));
    let logs: Vec<Vec<String>> =
        by.logs.iter().map(|log| log.to_bytes().iter().map(|event| hex(event)).collect()).collect();
    let seeds: Vec<String> = [PUBLISHER, SECOND, THIRD].iter().map(|seed| hex(&[*seed; 32])).collect();
    let input = json!({
        "kind": kind,
        "network": NETWORK,
        "scope": scope,
        "under": under,
        "logs": logs,
        "now_ms": by.now_ms,
        "owner_seeds": seeds,
        "external_aad": hex(&object_aad(&format!("althing/{kind}/1"), NETWORK, &scope)),
        "signed": statement.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>(),
    });
    case(name, input, error)
}

pub fn batch_case(name: &str, signed: &[u8], error: Option<&'static str>) -> Case {
    let input = json!({
        "kind": "batch",
        "network": NETWORK,
        "scope": scope(),
        "signer_seed": hex(&[JOINER; 32]),
        "external_aad": hex(&object_aad("althing/group-commands/1", NETWORK, &scope())),
        "object": hex(signed),
    });
    case(name, input, error)
}

pub fn vectors() -> Vec<Case> {
    [charters(), chained(), endorsements(), invitations(), endings(), batches(), bad_batches()]
        .into_iter()
        .chain(crate::group_tasks::vectors())
        .chain(crate::group_workflows::vectors())
        .chain(crate::group_proposals::vectors())
        .chain([crate::group_deployments::vectors()])
        .flatten()
        .collect()
}

const SHAPE: Option<&str> = Some("EndorsementError::Object(ObjectError::Shape)");
const SIGNATURE: Option<&str> = Some("EndorsementError::Object(ObjectError::Envelope(Sign1Error::Signature))");

fn charters() -> Vec<Case> {
    // P-78, P-79
    let alone = Charter::first("solo", [publisher()], 1, public(FOUNDER), Policy::default(), NOW_MS, [8; 16]);
    let strict = Policy { write: Rule::Owners, voters_max: 7, ..Policy::default() };
    let strict = but(first(), |it| it.policy = strict);
    let of = |name: &str, signed: &[Vec<u8>], error| statement_case(name, "charter", &reader(None), signed, error);
    let both = [PUBLISHER, THIRD];
    let with = |at: usize, member: (u64, Vec<u8>)| {
        let mut members = charter_members();
        members[at] = member;
        both.map(|signer| by_hand("althing/charter/1", &members, "", signer)).to_vec()
    };
    let mut ids = owners().map(|log| *log.publisher().as_bytes());
    ids.sort_unstable();
    let owned = |order: &[usize]| with(3, (4, array(&order.iter().map(|at| bstr(&ids[*at])).collect::<Vec<_>>())));
    let follows = map(&[(0, bstr(&[1; 32])), (1, bstr(&[2; 32]))]);
    let mut unasked = charter_members();
    unasked.insert(3, (3, follows));
    let unasked = both.map(|signer| by_hand("althing/charter/1", &unasked, "", signer));
    let policy = |voters: u64, write: u64| with(6, (7, map(&[(0, uint(write)), (1, uint(voters))])));
    let rules =
        |assign: u64, read: u64| with(6, (7, map(&[(0, uint(2)), (1, uint(5)), (3, uint(assign)), (4, uint(read))])));
    let silence = |ms: u64| with(6, (7, map(&[(0, uint(2)), (1, uint(5)), (2, uint(ms))])));
    let mut unknown = charter_members();
    unknown.push((10, uint(0)));
    let unknown = both.map(|signer| by_hand("althing/charter/1", &unknown, "", signer));
    let name = |name: &str| with(1, (1, tstr(name)));
    vec![
        of("a charter of one owner", &signed(&alone, "", &[PUBLISHER]), None),
        of("a charter of three owners, signed by two", &signed(&first(), "", &both), None),
        of("a charter of three owners, signed by all", &signed(&first(), "", &[THIRD, PUBLISHER, SECOND]), None),
        of("a charter that lets only owners write", &signed(&strict, "", &both), None),
        of("a charter that lets only owners give work and read", &signed(&kept(), "", &both), None),
        of("a charter that says that members give work and read", &rules(2, 2), None),
        of("a name of 63 characters", &name(&"9".repeat(63)), None),
        of("a name of 64 characters", &name(&"9".repeat(64)), SHAPE),
        of("no name", &name(""), SHAPE),
        of("a name with a capital", &name("Team"), SHAPE),
        of("a name that ends with a hyphen", &name("team-"), SHAPE),
        of("owners out of order", &owned(&[1, 0, 2]), SHAPE),
        of("an owner twice", &owned(&[0, 1, 1]), SHAPE),
        of("no owner", &owned(&[]), SHAPE),
        of("a threshold of 0", &with(4, (5, uint(0))), SHAPE),
        of("a threshold above the number of owners", &with(4, (5, uint(4))), SHAPE),
        of("a silent voter is replaced after 10,000 ms", &silence(10_000), None),
        of("a silent voter is replaced after 7 days", &silence(604_800_000), None),
        of("a silent voter is never replaced", &silence(0), None),
        of("a silent voter is replaced after 9,999 ms", &silence(9_999), SHAPE),
        of("a silent voter is replaced after more than 7 days", &silence(604_800_001), SHAPE),
        of("no voters", &policy(0, 2), SHAPE),
        of("8 voters", &policy(8, 2), SHAPE),
        of("a rule that does not exist", &policy(5, 3), SHAPE),
        of("a rule about giving work that does not exist", &rules(3, 1), SHAPE),
        of("a rule about reading that does not exist", &rules(1, 0), SHAPE),
        of("a random part of 15 bytes", &with(8, (9, bstr(&[7; 15]))), SHAPE),
        of("a first charter that follows another", &unasked, SHAPE),
        of("a later charter that follows none", &with(2, (2, uint(1))), SHAPE),
        of("a member that this version does not know", &unknown, SHAPE),
        of("a first charter with the scope of its group", &signed(&first(), &scope(), &both), SIGNATURE),
    ]
}

fn chained() -> Vec<Case> {
    // P-82
    let of = |name: &str, charter: &Charter, signers: &[u8], error| {
        statement_case(name, "charter", &reader(Some(first())), &signed(charter, &scope(), signers), error)
    };
    let both = [PUBLISHER, SECOND];
    let refused = Some("Refusal::Charter");
    let third = second().next(group(), NOW_MS);
    let other = first().next(GroupId::from_digest([1; 32]), NOW_MS);
    let by_its_own = statement_case(
        "a third charter, signed by the owner that the second leaves",
        "charter",
        &reader(Some(second())),
        &signed(&third, &scope(), &[PUBLISHER]),
        None,
    );
    vec![
        of("a second charter, signed by two owners of the first", &second(), &both, None),
        by_its_own,
        of(
            "signed by the owner that the second charter leaves alone",
            &second(),
            &[PUBLISHER],
            Some("EndorsementError::TooFew"),
        ),
        of("a charter that leaves one out", &third, &both, refused),
        of("a charter after one of another group", &other, &both, refused),
        of("a charter with another founder", &but(second(), |it| it.founder = public(STRANGER)), &both, refused),
        of("a charter with a sequence left out", &but(second(), |it| it.sequence = 2), &both, refused),
        statement_case(
            "a second charter without the scope of its group",
            "charter",
            &reader(Some(first())),
            &signed(&second(), "", &both),
            SIGNATURE,
        ),
    ]
}

fn endorsements() -> Vec<Case> {
    // P-80, P-81
    let of = |name: &str, by: &Reader, signed: &[Vec<u8>], error| statement_case(name, "expulsion", by, signed, error);
    let by = |signers: &[u8]| signed(&expulsion(), &scope(), signers);
    let now = reader(Some(first()));
    let rotated_to =
        |log: KeyLog| Reader { logs: vec![log, owners()[1].clone(), owners()[2].clone()], ..reader(Some(first())) };
    let overlapping = rotated_to(rotated());
    let over = rotated_to(log().rotate(&key(NEXT), public(FOURTH), NOW_MS - HOUR_MS, HOUR_MS - 1).expect("it may"));
    let revoked = rotated_to(log().revoke(&key(NEXT), NOW_MS).expect("it may"));
    let without = Reader { logs: owners()[1..].to_vec(), ..reader(Some(first())) };
    let other = Expulsion::new(group(), public(STRANGER), 4);
    let different = [by(&[PUBLISHER]), signed(&other, &scope(), &[SECOND])].concat();
    let mixed = [by(&[PUBLISHER]), signed(&dissolution(), &scope(), &[SECOND])].concat();
    let altered = [by(&[PUBLISHER]), vec![flipped(&by(&[SECOND])[0])]].concat();
    let (too_few, not_an_owner) = (Some("EndorsementError::TooFew"), Some("EndorsementError::NotAnOwner"));
    vec![
        of("two of three owners", &now, &by(&[SECOND, THIRD]), None),
        of("the new key of an owner", &overlapping, &by(&[NEXT, SECOND]), None),
        of("the old key of an owner within its overlap", &overlapping, &by(&[PUBLISHER, SECOND]), None),
        of("one of three owners", &now, &by(&[SECOND]), too_few),
        of("one owner twice", &now, &by(&[SECOND, SECOND]), too_few),
        of("the old and the new key of one owner", &overlapping, &by(&[PUBLISHER, NEXT]), too_few),
        of("the old key of an owner after its overlap", &over, &by(&[PUBLISHER, SECOND]), not_an_owner),
        of("a key that is only committed to", &now, &by(&[NEXT, SECOND]), not_an_owner),
        of("an owner that was revoked", &revoked, &by(&[NEXT, SECOND]), not_an_owner),
        of("an owner whose log is not known", &without, &by(&[PUBLISHER, SECOND]), not_an_owner),
        of("a stranger beside two owners", &now, &by(&[PUBLISHER, SECOND, STRANGER]), not_an_owner),
        of("signatures on different expulsions", &now, &different, Some("EndorsementError::Different")),
        of("a dissolution among expulsions", &now, &mixed, Some("EndorsementError::Object(ObjectError::WrongKind)")),
        of("one bit of a signature changed", &now, &altered, SIGNATURE),
        of("no signature", &now, &[], Some("EndorsementError::Count")),
        of("17 signatures", &now, &by(&[PUBLISHER; 17]), Some("EndorsementError::Count")),
        of("an expulsion without a scope", &now, &signed(&expulsion(), "", &[PUBLISHER, SECOND]), SIGNATURE),
    ]
}

fn invitations() -> Vec<Case> {
    // P-83
    let at = |name: &str, now_ms: u64, body: &Invitation, error| {
        let by = Reader { now_ms, ..reader(Some(first())) };
        statement_case(name, "invitation", &by, &signed(body, &scope(), &[PUBLISHER, THIRD]), error)
    };
    let lives = |until: u64| {
        let members = [
            (0, uint(10)),
            (1, bstr(group().as_bytes())),
            (2, bstr(public(JOINER).as_bytes())),
            (3, bstr(&first().digest())),
            (4, uint(NOW_MS)),
            (5, uint(until)),
            (6, bstr(&[1; 16])),
            (7, uint(3)),
        ];
        [PUBLISHER, THIRD].map(|signer| by_hand("althing/invitation/1", &members, &scope(), signer))
    };
    let of = |name: &str, until: u64, error| {
        statement_case(name, "invitation", &reader(Some(first())), &lives(until), error)
    };
    let good = invitation(1);
    let (expired, early) = (Some("ObjectError::Expired"), Some("ObjectError::NotYetValid"));
    vec![
        at("an invitation", NOW_MS, &good, None),
        at("an invitation in its last millisecond", NOW_MS + HOUR_MS, &good, None),
        at("an invitation that expired", NOW_MS + HOUR_MS + 1, &good, expired),
        at("an invitation at the edge of the skew", NOW_MS - HOUR_MS - 120_000, &good, None),
        at("an invitation not yet valid", NOW_MS - HOUR_MS - 120_001, &good, early),
        of("an invitation of 7 days", NOW_MS + WEEK_MS, None),
        of(
            "an invitation of more than 7 days",
            NOW_MS + WEEK_MS + 1,
            Some("EndorsementError::Object(ObjectError::LivesTooLong)"),
        ),
        of("an invitation that ends before it begins", NOW_MS - 1, SHAPE),
    ]
}

fn endings() -> Vec<Case> {
    let by = reader(Some(first()));
    let of = |name: &str, signers: &[u8], error| {
        statement_case(name, "dissolution", &by, &signed(&dissolution(), &scope(), signers), error)
    };
    vec![
        of("a dissolution", &[PUBLISHER, SECOND], None),
        of("a dissolution by one owner of two that must sign", &[PUBLISHER], Some("EndorsementError::TooFew")),
    ]
}

fn batches() -> Vec<Case> {
    let of = |name: &str, commands: Vec<Command>| {
        batch_case(name, &signed(&batch(1, commands), &scope(), &[JOINER])[0], None)
    };
    let remove = Command::Remove(Remove { key: "plan/1".to_owned(), if_version: Some(3) });
    let owner = Batch::new(4, Author::Publisher(publisher()), 1_700_000_000_123, 0, vec![set(), remove.clone()]);
    vec![
        of("a founding", vec![found()]),
        of("a join", vec![join()]),
        of("leaving", vec![Command::Leave]),
        of("an expulsion in a batch", vec![Command::Expel(endorsed(&expulsion(), &scope()))]),
        of("an amendment", vec![amend()]),
        of("a dissolution in a batch", vec![Command::Dissolve(endorsed(&dissolution(), &scope()))]),
        of("a key log", vec![Command::Keys(events(&rotated()))]),
        of("writing a value", vec![set()]),
        of("removing a value", vec![remove]),
        of("addresses", vec![Command::Addresses(vec!["/ip4/192.0.2.1/tcp/4001".to_owned()])]),
        of("256 commands", vec![Command::Leave; 256]),
        batch_case("a batch of an owner", &signed(&owner, &scope(), &[PUBLISHER])[0], None),
    ]
}

fn bad_batches() -> Vec<Case> {
    // P-84
    let shape = Some("ObjectError::Shape");
    let of = |name: &str, commands: &[Vec<u8>]| batch_case(name, &batch_by_hand(commands), shape);
    let command = |number: u64, members: &[Vec<u8>]| array(&[uint(number), array(members)]);
    let set_to = |key: &str, value: &[u8]| command(7, &[map(&[(0, tstr(key)), (1, bstr(value))])]);
    let moved = |addresses: &[String]| {
        let body = batch(1, vec![Command::Addresses(addresses.to_vec())]);
        cose(
            &minicbor::to_vec(&body).expect("it encodes"),
            &object_aad("althing/group-commands/1", NETWORK, &scope()),
            &key(JOINER),
        )
    };
    let good = batch(1, vec![set()]);
    let signature = Some("ObjectError::Envelope(Sign1Error::Signature)");
    let author = array(&[uint(3), array(&[bstr(&[1; 32])])]);
    let nobody = [(0, uint(13)), (1, uint(4)), (2, author), (3, uint(1)), (4, uint(1)), (5, array(&[command(2, &[])]))];
    let nobody = by_hand("althing/group-commands/1", &nobody, &scope(), JOINER);
    vec![
        of("no commands", &[]),
        of("257 commands", &vec![command(2, &[]); 257]),
        of("a command that this version does not know", &[command(59, &[])]),
        of("leaving with a member too many", &[command(2, &[uint(0)])]),
        of("an empty key", &[set_to("", b"")]),
        of("a key of 513 bytes", &[set_to(&"k".repeat(513), b"")]),
        of("a value of 65,537 bytes", &[set_to("k", &vec![0; 65_537])]),
        of("a key log of 209 events", &[command(6, &[array(&vec![bstr(&[0]); 209])])]),
        batch_case("nine addresses", &moved(&vec!["a".to_owned(); 9]), shape),
        batch_case("an address of 257 bytes", &moved(&["a".repeat(257)]), shape),
        batch_case("an author of another kind", &nobody, shape),
        batch_case("a batch without a scope", &signed(&good, "", &[JOINER])[0], signature),
        batch_case(
            "a batch of another group",
            &signed(&good, &GroupId::from_digest([1; 32]).to_string(), &[JOINER])[0],
            signature,
        ),
        batch_case(
            "one bit of the batch's signature changed",
            &flipped(&signed(&good, &scope(), &[JOINER])[0]),
            signature,
        ),
        batch_case(
            "an expulsion as a batch",
            &signed(&expulsion(), &scope(), &[JOINER])[0],
            Some("ObjectError::WrongKind"),
        ),
    ]
}

// -- what reads them

pub fn run(input: &Value) -> Outcome {
    match text(input, "kind") {
        "charter" => charter(input),
        "invitation" => {
            let invitation: Invitation = verified(input)?;
            invitation.in_force(number(input, "now_ms")).map_err(|error| error.name())?;
            Ok(json!({ "group": invitation.group.to_string(), "node": hex(invitation.node.as_bytes()),
                "charter": hex(&invitation.charter), "not_before_ms": invitation.not_before_ms,
                "not_after_ms": invitation.not_after_ms, "nonce": hex(&invitation.nonce) }))
        }
        "expulsion" => {
            let Expulsion { group, node, epoch, .. } = verified(input)?;
            Ok(json!({ "group": group.to_string(), "node": hex(node.as_bytes()), "epoch": epoch }))
        }
        "dissolution" => {
            let Dissolution { group, charter, .. } = verified(input)?;
            Ok(json!({ "group": group.to_string(), "charter": hex(&charter) }))
        }
        "deployment" => crate::group_deployments::run(input),
        "batch" => {
            let read = object::open::<Batch>(&bytes(input, "object"), text(input, "network"), text(input, "scope"));
            let batch = read.map_err(|error| error.name())?;
            Ok(json!({ "signer": hex(batch.signer.as_bytes()), "epoch": batch.body.epoch,
                "author": batch.body.author.to_string(), "session": batch.body.session, "sequence": batch.body.sequence,
                "commands": batch.body.commands.iter().map(command).collect::<Vec<_>>() }))
        }
        other => panic!("no statement of a group is called {other}"),
    }
}

fn under(input: &Value) -> Option<Charter> {
    input["under"].as_str().map(|text| minicbor::decode(&unhex(text)).expect("a vector's context holds a good charter"))
}

fn key_logs(input: &Value) -> KeyLogs {
    let logs = input["logs"].as_array().expect("a list of logs").iter();
    let log = |events: &Value| {
        let events: Vec<Vec<u8>> =
            events.as_array().expect("events").iter().map(|it| unhex(it.as_str().expect("hex"))).collect();
        KeyLog::verify(&events).expect("a vector's context holds good logs")
    };
    logs.map(log).map(|log| (log.publisher(), Arc::new(log))).collect()
}

fn verified<T: Statement + PartialEq>(input: &Value) -> Result<T, String> {
    let charter = under(input).expect("all but the first charter are signed under one");
    verified_under(input, &charter)
}

fn verified_under<T: Statement + PartialEq>(input: &Value, charter: &Charter) -> Result<T, String> {
    let endorsed = Endorsed::new(list(input, "signed"));
    let (network, scope, now_ms) = (text(input, "network"), text(input, "scope"), number(input, "now_ms"));
    endorsed.verify(network, scope, charter, &key_logs(input), now_ms).map_err(|error| error.name())
}

fn charter(input: &Value) -> Outcome {
    let endorsed = Endorsed::new(list(input, "signed"));
    let own: Charter = endorsed.read(text(input, "network"), text(input, "scope")).map_err(|error| error.name())?;
    let before = under(input);
    let charter: Charter = verified_under(input, before.as_ref().unwrap_or(&own))?;
    let group = match &before {
        Some(before) => {
            let group: GroupId = text(input, "scope").parse().expect("a vector's context holds a good group");
            if !charter.continues(group, before) {
                return Err("Refusal::Charter".to_owned());
            }
            group
        }
        None => GroupId::of(&charter),
    };
    Ok(json!({
        "group": group.to_string(),
        "digest": hex(&charter.digest()),
        "name": charter.name,
        "sequence": charter.sequence,
        "follows": charter.follows.map(|it| json!({ "group": it.group.to_string(), "charter": hex(&it.charter) })),
        "owners": charter.owners.iter().map(PublisherId::to_string).collect::<Vec<_>>(),
        "threshold": charter.threshold,
        "founder": hex(charter.founder.as_bytes()),
        "policy": policy(&charter.policy),
        "issued_at_ms": charter.issued_at_ms,
        "nonce": hex(&charter.nonce),
    }))
}

fn policy(policy: &Policy) -> Value {
    let mut shown = json!({ "write": policy.write as u8 + 1, "voters_max": policy.voters_max });
    if let Some(ms) = policy.replace_after_ms {
        shown["replace_after_ms"] = json!(ms);
    }
    for (name, rule) in [("assign", policy.assign), ("read", policy.read)] {
        if let Some(rule) = rule {
            shown[name] = json!(rule as u8 + 1);
        }
    }
    shown
}

fn command(command: &Command) -> Value {
    let statement = |endorsed: &Endorsed| endorsed.objects().map(hex).collect::<Vec<_>>();
    let log = |events: &Vec<ByteVec>| events.iter().map(|event| hex(event)).collect::<Vec<_>>();
    let owner =
        |proof: &OwnerProof| json!({ "membership": hex(&proof.membership), "inception": hex(&proof.inception) });
    match command {
        Command::Found(it) => json!({ "command": "found", "charter": statement(&it.charter),
            "logs": it.logs.iter().map(log).collect::<Vec<_>>(), "owner": owner(&it.owner), "addresses": it.addresses }),
        Command::Join(it) => {
            json!({ "command": "join", "invitation": statement(&it.invitation), "owner": owner(&it.owner),
            "log": log(&it.log), "addresses": it.addresses })
        }
        Command::Leave => json!({ "command": "leave" }),
        Command::Expel(it) => json!({ "command": "expel", "expulsion": statement(it) }),
        Command::Amend(it) => json!({ "command": "amend", "charter": statement(&it.charter),
            "logs": it.logs.iter().map(log).collect::<Vec<_>>() }),
        Command::Dissolve(it) => json!({ "command": "dissolve", "dissolution": statement(it) }),
        Command::Keys(it) => json!({ "command": "keys", "log": log(it) }),
        Command::Set(it) => {
            json!({ "command": "set", "key": it.key, "value": hex(&it.value), "if_version": it.if_version })
        }
        Command::Remove(it) => json!({ "command": "remove", "key": it.key, "if_version": it.if_version }),
        Command::Addresses(it) => json!({ "command": "addresses", "addresses": it }),
        Command::Propose(_)
        | Command::Endorse(_)
        | Command::Silent(_)
        | Command::Replace(_)
        | Command::Withdraw(_)
        | Command::Declare(_) => crate::group_proposals::command(command),
        work => crate::group_tasks::command(work),
    }
}

//! Charters, endorsements and batches: each rule that is decided without a group's state.

use std::sync::Arc;

use minicbor::bytes::ByteVec;
use proptest::prelude::*;

use super::*;
use crate::identity::{PublicKey, SecretKey};
use crate::limits::{
    CLOCK_SKEW_MAX_MS, GROUP_ADDRESS_BYTES_MAX, GROUP_ADDRESSES_MAX, GROUP_BATCH_COMMANDS_MAX, GROUP_KEY_BYTES_MAX,
    GROUP_OWNERS_MAX, GROUP_VALUE_BYTES_MAX, INVITATION_LIFE_MAX_MS, KEYLOG_EVENTS_MAX,
};
use crate::object::{self, ObjectError, Statement};
use crate::stream::OwnerProof;
use crate::{KeyLog, keylog};

const NETWORK: &str = "testnet";
const NOW_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

fn node(seed: u8) -> PublicKey {
    key(seed).public()
}

/// A log that `seed` began, and that the two seeds after it continue.
fn log(seed: u8) -> KeyLog {
    let event = keylog::inception(&key(seed), [node(seed + 1), node(seed + 2)], NOW_MS - 2 * HOUR_MS);
    KeyLog::verify(&[event.bytes]).expect("an inception")
}

fn logs(of: &[KeyLog]) -> KeyLogs {
    of.iter().map(|log| (log.publisher(), Arc::new(log.clone()))).collect()
}

/// Owned by these, of whom as many must sign.
fn charter(owners: &[KeyLog], threshold: u8) -> Charter {
    let owners = owners.iter().map(KeyLog::publisher);
    Charter::first("team", owners, threshold, node(1), Policy::default(), NOW_MS, [7; 16])
}

/// Three owners, two of whom must sign; their keys have the seeds 10, 20 and 30.
fn three() -> (Charter, KeyLogs) {
    let all = [log(10), log(20), log(30)];
    (charter(&all, 2), logs(&all))
}

/// The charter, but for this.
fn but(charter: &Charter, change: impl FnOnce(&mut Charter)) -> Charter {
    let mut changed = charter.clone();
    change(&mut changed);
    changed
}

fn expulsion(group: GroupId) -> Expulsion {
    Expulsion::new(group, node(2), 4)
}

fn endorsed<T: Statement + Clone>(body: &T, scope: &str, signers: &[u8]) -> Endorsed {
    Endorsed::new(
        signers.iter().map(|seed| object::sign(body.clone(), NETWORK, scope, &key(*seed)).expect("good").bytes),
    )
}

/// What a group with this charter says of an expulsion with signatures of these keys.
fn verified(charter: &Charter, logs: &KeyLogs, signers: &[u8]) -> Result<Expulsion, EndorsementError> {
    let group = GroupId::of(charter);
    let scope = group.to_string();
    endorsed(&expulsion(group), &scope, signers).verify(NETWORK, &scope, charter, logs, NOW_MS)
}

fn shape<T: Statement>(body: &T) -> bool {
    matches!(body.check(), Err(ObjectError::Shape(_)))
}

#[test]
fn as_many_owners_as_the_charter_says_must_sign_each_counted_once() {
    // P-81
    let (charter, logs) = three();
    assert!(verified(&charter, &logs, &[10, 30]).is_ok());
    assert!(verified(&charter, &logs, &[30, 20, 10]).is_ok(), "in any order, and more than must");
    let one = Err(EndorsementError::TooFew { signed: 1, threshold: 2 });
    assert_eq!(verified(&charter, &logs, &[20]), one);
    assert_eq!(verified(&charter, &logs, &[20, 20, 20]), one, "an owner counts once");
}

#[test]
fn a_signature_of_anybody_else_refuses_the_whole_statement() {
    // P-81
    let (charter, logs) = three();
    let strange = Err(EndorsementError::NotAnOwner(node(9)));
    assert_eq!(verified(&charter, &logs, &[9]), strange);
    assert_eq!(verified(&charter, &logs, &[10, 20, 9]), strange, "though two owners signed");
    // Before anything is verified: what strangers sign must not cost as much as what owners do.
    let group = GroupId::of(&charter);
    let foreign = endorsed(&expulsion(group), "another group", &[10, 9]);
    let refused = foreign.verify::<Expulsion>(NETWORK, &group.to_string(), &charter, &logs, NOW_MS);
    assert_eq!(refused, strange, "no signature of these verifies");
    let committed = verified(&charter, &logs, &[10, 21]);
    assert_eq!(committed, Err(EndorsementError::NotAnOwner(node(21))), "a key that is only committed to");
    let unknown = self::logs(&[log(10), log(20)]);
    assert_eq!(verified(&charter, &unknown, &[10, 30]), Err(EndorsementError::NotAnOwner(node(30))), "no log of it");
}

#[test]
fn a_rotated_key_counts_for_its_owner_while_it_overlaps() {
    // P-46, P-81
    let all = [log(10), log(20), log(30)];
    let charter = charter(&all, 2);
    let with = |overlap_ms| {
        let rotated = log(10).rotate(&key(11), node(13), NOW_MS - HOUR_MS, overlap_ms).expect("it may");
        logs(&[rotated, log(20), log(30)])
    };
    assert!(verified(&charter, &with(0), &[11, 20]).is_ok());
    assert!(verified(&charter, &with(HOUR_MS), &[10, 20]).is_ok(), "in its last millisecond");
    let ended = verified(&charter, &with(HOUR_MS - 1), &[10, 20]);
    assert_eq!(ended, Err(EndorsementError::NotAnOwner(node(10))));
    let both = verified(&charter, &with(HOUR_MS), &[10, 11]);
    assert_eq!(both, Err(EndorsementError::TooFew { signed: 1, threshold: 2 }), "both keys are one owner's");
    let revoked = logs(&[log(10).revoke(&key(11), NOW_MS).expect("it may"), log(20), log(30)]);
    assert!(matches!(verified(&charter, &revoked, &[11, 20]), Err(EndorsementError::NotAnOwner(_))));
}

#[test]
fn a_key_of_two_owners_counts_for_one() {
    // P-81: anybody can begin several publishers with one key.
    let first = keylog::inception(&key(10), [node(11), node(12)], NOW_MS - HOUR_MS);
    let second = keylog::inception(&key(10), [node(13), node(14)], NOW_MS - HOUR_MS);
    let all = [first, second].map(|event| KeyLog::verify(&[event.bytes]).expect("an inception"));
    assert_ne!(all[0].publisher(), all[1].publisher());
    let refused = verified(&charter(&all, 2), &logs(&all), &[10, 10]);
    assert_eq!(refused, Err(EndorsementError::TooFew { signed: 1, threshold: 2 }));
}

#[test]
fn all_sign_the_same_statement_for_the_same_group() {
    // P-79, P-80
    let (charter, logs) = three();
    let group = GroupId::of(&charter);
    let scope = group.to_string();
    let verify = |endorsed: Endorsed| endorsed.verify::<Expulsion>(NETWORK, &scope, &charter, &logs, NOW_MS);
    let sign = |body: Expulsion, network: &str, scope: &str, seed| {
        object::sign(body, network, scope, &key(seed)).expect("good")
    };
    let good = sign(expulsion(group), NETWORK, &scope, 10).bytes;
    let other = Expulsion::new(group, node(3), 4);
    let different = Endorsed::new([good.clone(), sign(other, NETWORK, &scope, 20).bytes]);
    assert_eq!(verify(different), Err(EndorsementError::Different));
    for (network, scope) in [("othernet", scope.as_str()), (NETWORK, ""), (NETWORK, "another")] {
        let elsewhere = sign(expulsion(group), network, scope, 20).bytes;
        let refused = verify(Endorsed::new([good.clone(), elsewhere]));
        assert!(matches!(refused, Err(EndorsementError::Object(ObjectError::Envelope(_)))), "{refused:?}");
    }
    let ending = endorsed(&Dissolution::new(group, charter.digest()), &scope, &[10, 20]);
    assert!(matches!(verify(ending), Err(EndorsementError::Object(ObjectError::WrongKind { .. }))));
    assert_eq!(verify(Endorsed::new([])), Err(EndorsementError::Count(0)));
    let crowd = Endorsed::new(vec![good; GROUP_OWNERS_MAX + 1]);
    assert_eq!(verify(crowd), Err(EndorsementError::Count(GROUP_OWNERS_MAX + 1)));
}

#[test]
fn a_group_is_named_by_its_first_charter_whoever_signed_that() {
    // P-79
    let (charter, logs) = three();
    let (one, other) = (endorsed(&charter, "", &[10, 20]), endorsed(&charter, "", &[20, 30]));
    let ids =
        [one, other].map(|it| GroupId::of(&it.verify::<Charter>(NETWORK, "", &charter, &logs, NOW_MS).expect("good")));
    assert_eq!(ids, [GroupId::of(&charter); 2]);
    assert_eq!(ids[0].to_string().parse(), Ok(ids[0]));
    assert!(ids[0].to_string().starts_with("urn:althing:zQm"));
    assert_eq!(charter.digest(), *ids[0].as_bytes());
    let agent = ids[0].agent("echo").expect("a good name");
    assert_eq!(agent.to_string(), format!("{}:echo", ids[0]));
    let twin = but(&charter, |it| it.nonce = [8; 16]);
    assert_ne!(GroupId::of(&twin), ids[0]);
}

#[test]
fn a_charter_keeps_its_limits() {
    // P-78
    let (good, _) = three();
    assert_eq!(good.check(), Ok(()));
    let named = |name: &str| but(&good, |it| name.clone_into(&mut it.name));
    for name in ["a", "team-1", &"9".repeat(63)] {
        assert_eq!(named(name).check(), Ok(()), "{name}");
    }
    for name in ["", "-a", "a-", "A", "a b", "a.b", "þing", &"9".repeat(64)] {
        assert!(shape(&named(name)), "{name}");
    }
    let owned = |count: u8, threshold| charter(&(0..count).map(|at| log(at * 3)).collect::<Vec<_>>(), threshold);
    assert_eq!(owned(16, 16).check(), Ok(()));
    assert!(shape(&owned(17, 1)), "too many owners");
    assert!(shape(&owned(0, 0)), "no owner");
    assert!(shape(&owned(3, 0)), "nobody must sign");
    assert!(shape(&owned(3, 4)), "more than there are");
    let mut twice = good.clone();
    twice.owners[1] = twice.owners[0];
    assert!(shape(&twice), "an owner twice");
    let mut unsorted = good.clone();
    unsorted.owners.reverse();
    assert!(shape(&unsorted));
    for (voters_max, is_good) in [(0, false), (1, true), (7, true), (8, false)] {
        let changed = but(&good, |it| it.policy.voters_max = voters_max);
        assert_eq!(changed.check().is_ok(), is_good, "{voters_max} voters");
    }
    let group = GroupId::of(&good);
    assert!(shape(&but(&good, |it| it.sequence = 1)), "it follows none");
    assert!(shape(&but(&good.next(group, NOW_MS), |it| it.sequence = 0)), "the first follows none");
}

#[test]
fn a_later_charter_names_the_one_before_and_keeps_the_founder() {
    // P-82
    let (first, _) = three();
    let group = GroupId::of(&first);
    let second = first.next(group, NOW_MS);
    assert!(second.check().is_ok() && second.continues(group, &first));
    let changed = but(&second, |it| (it.threshold, it.name) = (1, "crew".to_owned()));
    assert!(changed.continues(group, &first), "everything else may differ");
    assert!(second.next(group, NOW_MS).continues(group, &second));
    assert!(!second.next(group, NOW_MS).continues(group, &first), "one was left out");
    assert!(!first.continues(group, &first), "the first continues none");
    assert!(!second.continues(GroupId::from_digest([1; 32]), &first), "of another group");
    assert!(!second.continues(group, &changed), "after another charter");
    assert!(!but(&second, |it| it.sequence = 2).continues(group, &first));
    assert!(!but(&second, |it| it.founder = node(9)).continues(group, &first));
}

#[test]
fn an_invitation_lives_seven_days_at_most() {
    // P-83
    let group = GroupId::from_digest([1; 32]);
    let of = |from, until| Invitation::new(group, [2; 32], node(2), from, until, [3; 16], 1);
    assert_eq!(of(NOW_MS, NOW_MS + INVITATION_LIFE_MAX_MS).check(), Ok(()));
    let long = of(NOW_MS, NOW_MS + INVITATION_LIFE_MAX_MS + 1).check();
    assert!(matches!(long, Err(ObjectError::LivesTooLong { .. })), "{long:?}");
    assert!(shape(&of(NOW_MS, NOW_MS - 1)));
    let good = of(NOW_MS, NOW_MS + HOUR_MS);
    assert_eq!(good.in_force(NOW_MS + HOUR_MS), Ok(()));
    assert!(matches!(good.in_force(NOW_MS + HOUR_MS + 1), Err(ObjectError::Expired { ago_ms: 1 })));
    assert_eq!(good.in_force(NOW_MS - CLOCK_SKEW_MAX_MS), Ok(()));
    assert!(matches!(good.in_force(NOW_MS - CLOCK_SKEW_MAX_MS - 1), Err(ObjectError::NotYetValid { .. })));
}

fn batch(commands: Vec<Command>) -> Batch {
    Batch::new(1, Author::Node(node(2)), 5, 6, commands)
}

fn set(key: usize, value: usize) -> Command {
    Command::Set(Set { key: "k".repeat(key), value: vec![0; value].into(), if_version: None })
}

#[test]
fn a_batch_keeps_the_limits_of_its_commands() {
    // P-84
    let accepts = |command: Command| batch(vec![command]).check().is_ok();
    assert!(shape(&batch(Vec::new())), "no command");
    assert!(batch(vec![Command::Leave; GROUP_BATCH_COMMANDS_MAX]).check().is_ok());
    assert!(shape(&batch(vec![Command::Leave; GROUP_BATCH_COMMANDS_MAX + 1])));
    assert!(accepts(set(1, 0)) && accepts(set(GROUP_KEY_BYTES_MAX, GROUP_VALUE_BYTES_MAX)));
    assert!(
        !accepts(set(0, 0)) && !accepts(set(GROUP_KEY_BYTES_MAX + 1, 0)) && !accepts(set(1, GROUP_VALUE_BYTES_MAX + 1))
    );
    let remove = |bytes: usize| Command::Remove(Remove { key: "k".repeat(bytes), if_version: None });
    assert!(accepts(remove(GROUP_KEY_BYTES_MAX)) && !accepts(remove(0)) && !accepts(remove(GROUP_KEY_BYTES_MAX + 1)));
    assert!(shape(&batch(vec![set(1, 1), set(0, 1)])), "one bad command is enough");
}

#[test]
fn a_batch_keeps_the_limits_of_logs_and_addresses() {
    // P-84
    let accepts = |command: Command| batch(vec![command]).check().is_ok();
    let events = |count: usize| vec![ByteVec::from(vec![0]); count];
    let proof = OwnerProof { membership: vec![0].into(), inception: vec![0].into() };
    let signed = Endorsed::new([vec![0]]);
    let join = |log: usize, addresses: Vec<String>| {
        let (invitation, owner) = (signed.clone(), proof.clone());
        Command::Join(Box::new(Join { invitation, owner, log: events(log), addresses, rules: None }))
    };
    let found = |logs: usize, addresses: Vec<String>| {
        let (charter, owner, logs) = (signed.clone(), proof.clone(), vec![events(1); logs]);
        Command::Found(Box::new(Founding { charter, logs, owner, addresses, rules: None }))
    };
    let amend = |logs: usize, of: usize| {
        Command::Amend(Box::new(Amendment { charter: signed.clone(), logs: vec![events(of); logs] }))
    };
    assert!(
        accepts(Command::Keys(events(KEYLOG_EVENTS_MAX))) && !accepts(Command::Keys(events(KEYLOG_EVENTS_MAX + 1)))
    );
    assert!(accepts(join(KEYLOG_EVENTS_MAX, Vec::new())) && !accepts(join(KEYLOG_EVENTS_MAX + 1, Vec::new())));
    assert!(accepts(found(GROUP_OWNERS_MAX, Vec::new())) && !accepts(found(GROUP_OWNERS_MAX + 1, Vec::new())));
    assert!(accepts(amend(GROUP_OWNERS_MAX, KEYLOG_EVENTS_MAX)));
    assert!(!accepts(amend(GROUP_OWNERS_MAX + 1, 1)) && !accepts(amend(1, KEYLOG_EVENTS_MAX + 1)));
    let most = vec!["a".repeat(GROUP_ADDRESS_BYTES_MAX); GROUP_ADDRESSES_MAX];
    let many = vec!["a".to_owned(); GROUP_ADDRESSES_MAX + 1];
    let long = vec!["a".repeat(GROUP_ADDRESS_BYTES_MAX + 1)];
    let holders: [&dyn Fn(Vec<String>) -> Command; 3] = [&|it| join(1, it), &|it| found(1, it), &Command::Addresses];
    for holder in holders {
        assert!(accepts(holder(most.clone())));
        assert!(!accepts(holder(many.clone())) && !accepts(holder(long.clone())));
    }
}

/// A build of the first version of the rules reads a founding without it.
#[test]
fn a_founding_that_says_no_version_of_the_rules_is_written_as_before_it_could() {
    let of = |rules: Option<u32>| {
        let (charter, logs, addresses) = (Endorsed::new([vec![0]]), Vec::new(), Vec::new());
        let owner = OwnerProof { membership: vec![0].into(), inception: vec![0].into() };
        minicbor::to_vec(Founding { charter, logs, owner, addresses, rules }).expect("it encodes")
    };
    let (without, with) = (of(None), of(Some(2)));
    assert_eq!((without[0], with[0]), (0xa4, 0xa5));
    assert_eq!(with[1..].to_vec(), [&without[1..], [4, 2].as_slice()].concat());
}

proptest! {
    // P-81
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn signatures_suffice_exactly_if_enough_different_owners_made_them(
        signers in prop::collection::vec(0..5usize, 1..8),
        threshold in 1..=4u8,
    ) {
        let all = [log(10), log(20), log(30), log(40)];
        let seeds: Vec<u8> = signers.iter().map(|at| [10, 20, 30, 40, 50][*at]).collect();
        let charter = charter(&all, threshold);
        let different: std::collections::BTreeSet<_> = signers.iter().collect();
        let expected = !signers.contains(&4) && different.len() >= usize::from(threshold);
        prop_assert_eq!(verified(&charter, &logs(&all), &seeds).is_ok(), expected);
    }
}

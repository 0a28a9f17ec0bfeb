//! What a registry is sent and what it shows: submissions, receipts, evidence of releases and names, bundles, visits. Built by hand.

use althing_protocol::object;
use althing_protocol::registry::{
    Audience, BundleFiles, Domain, DomainFinding, Mark, NameEvidence, Presence, Receipt, ReleaseError, ReleaseEvidence,
    Role, Roster, RosterMember, SignIn, Standing, Submission, VerifiedRelease,
};
use althing_protocol::{AgentId, KeyLog, PublisherId};

use crate::names::{Name as _, reason};
use crate::registry::*;
use crate::registry_log::*;
use crate::support::*;
use crate::vector_cases::Case;

/// What a log's entry is about: its kind, when it was accepted, its bytes.
#[derive(Clone)]
pub struct Told(pub u64, pub u64, pub Vec<u8>);

/// The statements of a registry's log.
#[derive(Clone)]
pub struct Registry(pub Vec<Told>);

impl Registry {
    pub fn entries(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|Told(kind, at_ms, statement)| entry(*kind, *at_ms, statement)).collect()
    }

    /// A statement with its proof, under the checkpoint over all.
    pub fn logged(&self, index: usize) -> Vec<u8> {
        let Told(_, at_ms, statement) = &self.0[index];
        logged_with(statement, *at_ms, &proof_of(&self.entries(), index))
    }

    /// The same, as it was when the log ended with that entry.
    pub fn logged_then(&self, index: usize) -> Vec<u8> {
        Registry(self.0[..=index].to_vec()).logged(index)
    }
}

pub fn logged_with(statement: &[u8], at_ms: u64, shown: &str) -> Vec<u8> {
    map(&[(0, bstr(statement)), (1, uint(at_ms)), (2, tstr(shown))])
}

pub fn events(log: &KeyLog) -> Vec<u8> {
    array(&log.to_bytes().iter().map(|event| bstr(event)).collect::<Vec<_>>())
}

/// Who approves what the publisher releases.
pub fn approver() -> KeyLog {
    begun(STRANGER, [OPENER, ACCEPTOR], NOW_MS - 2 * HOUR_MS)
}

pub fn domain() -> Domain {
    "example.org".parse().expect("a good domain")
}

/// The roster of the publisher, which is an organisation that wants two approvals.
pub fn roster(approvals: u8) -> Roster {
    let names = vec!["*".parse().expect("a good pattern")];
    let member = RosterMember { publisher: approver().publisher(), roles: vec![Role::Approve], names };
    let mut body = Roster::new(publisher(), vec![member], 1, NOW_MS - HOUR_MS, NOW_MS + HOUR_MS);
    (body.approvals, body.domain) = (approvals, Some(domain()));
    body
}

pub fn finding(means: u64, is_proven: bool) -> Vec<u8> {
    let proven = vec![if is_proven { 0xf5 } else { 0xf4 }];
    map(&[(0, tstr("example.org")), (1, bstr(publisher().as_bytes())), (2, uint(means)), (3, proven)])
}

/// The release by its approver, which differs in who signs.
pub fn approval() -> Vec<u8> {
    let body = changed(release_body(), |it| (it.by, it.sequence) = (approver().publisher(), 1));
    signed(body, &key(STRANGER)).bytes
}

/// The log: an inception, the release, two marks, the approval, the roster, a finding.
pub fn registry() -> Registry {
    let marks = [mark(Standing::Deprecated, NOW_MS + 1).bytes, mark(Standing::Revoked, NOW_MS + 2).bytes];
    let [first, second] = marks;
    Registry(vec![
        Told(4, NOW_MS, log().to_bytes().remove(0)),
        Told(15, NOW_MS, release().bytes),
        Told(16, NOW_MS + 1, first),
        Told(16, NOW_MS + 2, second),
        Told(15, NOW_MS + 3, approval()),
        Told(17, NOW_MS - 1, signed(roster(2), &key(PUBLISHER)).bytes),
        Told(66, NOW_MS, finding(1, true)),
    ])
}

/// The parts of an evidence, to be changed one by one.
#[derive(Clone)]
pub struct Parts {
    pub log: Vec<u8>,
    pub release: Vec<u8>,
    pub description: Vec<u8>,
    pub marks: Vec<Vec<u8>>,
    pub approvals: Vec<Vec<u8>>,
    pub roster: Option<Vec<u8>>,
}

impl Parts {
    /// The release alone.
    pub fn of(told: &Registry) -> Parts {
        let (log, release, description) = (events(&log()), told.logged(1), description().bytes);
        Parts { log, release, description, marks: vec![], approvals: vec![], roster: None }
    }

    pub fn marked(told: &Registry, marks: &[usize]) -> Parts {
        Parts { marks: marks.iter().map(|index| told.logged(*index)).collect(), ..Parts::of(told) }
    }

    /// With the approver's signature and the roster.
    pub fn approved(told: &Registry) -> Parts {
        let approval = map(&[(0, events(&approver())), (1, told.logged(4))]);
        Parts { approvals: vec![approval], roster: Some(told.logged(5)), ..Parts::of(told) }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut members = vec![
            (0, self.log.clone()),
            (1, self.release.clone()),
            (2, bstr(&self.description)),
            (3, array(&self.marks)),
            (4, array(&self.approvals)),
        ];
        members.extend(self.roster.clone().map(|roster| (5, roster)));
        map(&members)
    }

    fn verify(&self) -> Result<VerifiedRelease, String> {
        let key = note_key(ORIGIN, 1, REGISTRY).parse().expect("a good key");
        let read = ReleaseEvidence::decode(&self.bytes());
        read.and_then(|it| it.verify(NETWORK, &agent(), &version("1.2.3"), &key)).map_err(|error| error.name())
    }

    fn refused(&self) -> String {
        self.verify().expect_err("it does not hold")
    }
}

#[test]
fn evidence_built_by_hand_shows_a_release_and_its_standing() {
    // P-176, P-177
    let told = registry();
    let standing = |parts: Parts| parts.verify().map(|it| (it.standing, it.reason, it.checkpoint.head.size));
    assert_eq!(standing(Parts::of(&told)), Ok((Standing::Good, None, 7)));
    let why = Some("it leaks".to_owned());
    assert_eq!(standing(Parts::marked(&told, &[2])), Ok((Standing::Deprecated, why.clone(), 7)));
    assert_eq!(standing(Parts::marked(&told, &[2, 3])), Ok((Standing::Revoked, why.clone(), 7)));
    let read = ReleaseEvidence::decode(&Parts::approved(&told).bytes()).expect("a good shape");
    assert_eq!(read.encode(), Parts::approved(&told).bytes());
    let verified = Parts::approved(&told).verify().expect("it holds");
    assert_eq!(verified.approvers, [publisher(), approver().publisher()].into());
    assert_eq!(verified.accepted_ms, NOW_MS + 3, "the last approval counts");
}

#[test]
fn a_key_that_was_rotated_away_does_not_speak_where_the_rotation_is_known() {
    // P-69: the registry shows the log of before, and a release that the old key signed after the rotation.
    let told = registry();
    let registry_key = note_key(ORIGIN, 1, REGISTRY).parse().expect("a good key");
    let shown = || ReleaseEvidence::decode(&Parts::of(&told).bytes()).expect("a good shape");
    let verify =
        |evidence: ReleaseEvidence| evidence.verify(NETWORK, &agent(), &version("1.2.3"), &registry_key).map(drop);
    assert_eq!(verify(shown()), Ok(()));
    assert_eq!(verify(shown().under(&log())), Ok(()));
    let rotated = log().rotate(&key(NEXT), public(FOURTH), NOW_MS - 2 * HOUR_MS, 0).expect("a good rotation");
    assert!(matches!(verify(shown().under(&rotated)), Err(ReleaseError::KeyLog(_))));
    let newer = Parts { log: events(&rotated), ..Parts::of(&told) };
    let newer = ReleaseEvidence::decode(&newer.bytes()).expect("a good shape");
    assert_eq!(newer.clone().under(&log()), newer, "a log that goes on from the known one is taken");
}

#[test]
fn what_was_revoked_stays_revoked_whatever_follows() {
    // P-177
    let mut told = registry();
    let index = told.0.len();
    told.0.push(Told(16, NOW_MS + 9, mark(Standing::Good, NOW_MS + 9).bytes));
    let verified = Parts::marked(&told, &[3, index]).verify().expect("it holds");
    assert_eq!((verified.standing, verified.reason.as_deref()), (Standing::Revoked, Some("it leaks")));
    let lifted = Parts::marked(&told, &[2, index]).verify().expect("it holds");
    assert_eq!(lifted.standing, Standing::Good, "everything else is lifted by a later mark");
}

#[test]
fn only_a_mark_of_the_publisher_counts() {
    // P-177: not one by somebody else, not one that the log has not, not one of another release.
    let with = |statement: Vec<u8>| {
        let mut told = registry();
        told.0.push(Told(16, NOW_MS + 9, statement));
        Parts::marked(&told, &[7]).refused()
    };
    let body = Mark::new(agent(), version("1.2.3"), Standing::Revoked, "", NOW_MS);
    assert_eq!(with(signed(body.clone(), &key(STRANGER)).bytes), "ReleaseError::KeyLog(KeyLogError::NotItsKey)");
    assert_eq!(with(signed(body.clone(), &key(REGISTRY)).bytes), "ReleaseError::KeyLog(KeyLogError::NotItsKey)");
    let for_another = changed(body.clone(), |it| it.by = approver().publisher());
    assert_eq!(with(signed(for_another, &key(STRANGER)).bytes), "ReleaseError::Mismatch");
    let of_another = changed(body.clone(), |it| it.version = version("1.2.4"));
    assert_eq!(with(signed(of_another, &key(PUBLISHER)).bytes), "ReleaseError::Mismatch");
    let of_another = changed(body, |it| it.agent = named("echo-2"));
    assert_eq!(with(signed(of_another, &key(PUBLISHER)).bytes), "ReleaseError::Mismatch");
    let told = registry();
    let unlogged = logged_with(&mark(Standing::Revoked, NOW_MS + 5).bytes, NOW_MS + 5, &proof_of(&told.entries(), 3));
    let parts = Parts { marks: vec![unlogged], ..Parts::of(&told) };
    assert_eq!(parts.refused(), "ReleaseError::Proof(LogProofError::Tree(TreeError::Root))");
}

#[test]
fn a_key_that_was_rotated_out_signs_nothing_that_is_accepted_later() {
    // P-176: the overlap of the rotation ends an hour after now; 120 s more for clocks.
    let verify = |at_ms: u64, by: u8| {
        let mut told = registry();
        told.0[1] = Told(15, at_ms, signed(release_body(), &key(by)).bytes);
        Parts { log: events(&rotated()), ..Parts::of(&told) }.verify().map(|it| it.accepted_ms)
    };
    let end = NOW_MS + HOUR_MS + 120_000;
    assert_eq!(verify(end, PUBLISHER), Ok(end));
    let refused = Err("ReleaseError::KeyLog(KeyLogError::NotItsKey)".to_owned());
    assert_eq!(verify(end + 1, PUBLISHER), refused);
    assert_eq!(verify(end + 1, NEXT), Ok(end + 1));
    assert_eq!(verify(NOW_MS - HOUR_MS - 120_001, NEXT), refused, "nor one before it was rotated in");
    let revoked = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("a good revocation");
    let parts = Parts { log: events(&revoked), ..Parts::of(&registry()) };
    assert_eq!(parts.refused(), "ReleaseError::KeyLog(KeyLogError::Revoked)");
}

#[test]
fn all_proofs_of_an_evidence_are_under_one_checkpoint_and_in_order() {
    // P-176: a reader compares one checkpoint with the one before. A release under another one may be in another history.
    let told = registry();
    let then = |parts: Parts| Parts { release: told.logged_then(1), ..parts };
    assert!(then(Parts::of(&told)).verify().is_ok(), "alone it is under one");
    assert_eq!(then(Parts::marked(&told, &[2])).refused(), "ReleaseError::Checkpoints");
    assert_eq!(then(Parts::approved(&told)).refused(), "ReleaseError::Checkpoints");
    let roster = Parts { roster: Some(told.logged_then(5)), ..Parts::approved(&told) };
    assert_eq!(roster.refused(), "ReleaseError::Checkpoints");
    assert_eq!(Parts::marked(&told, &[3, 2]).refused(), "ReleaseError::Order");
    assert_eq!(Parts::marked(&told, &[2, 2]).refused(), "ReleaseError::Order");
}

#[test]
fn as_many_approve_as_the_roster_wants() {
    // P-178
    let told = registry();
    let lonely = Parts { approvals: vec![], ..Parts::approved(&told) };
    assert_eq!(lonely.refused(), "ReleaseError::NotApproved");
    let twice = Parts::approved(&told).approvals.remove(0);
    assert!(Parts { approvals: vec![twice.clone(), twice], ..Parts::approved(&told) }.verify().is_ok());
    let with = |change: &dyn Fn(&mut Registry)| {
        let mut told = registry();
        change(&mut told);
        Parts::approved(&told).verify().map(|it| it.standing)
    };
    let refused = |name: &str| Err(format!("ReleaseError::{name}"));
    let mut other = roster(2);
    other.members[0].names = vec!["billing".parse().expect("a good pattern")];
    assert_eq!(with(&roster_as(other, PUBLISHER)), refused("NotApproved"), "the approver has another name");
    assert_eq!(with(&roster_as(roster(2), STRANGER)), refused("KeyLog(KeyLogError::NotItsKey)"));
    let mut over = roster(2);
    (over.not_before_ms, over.not_after_ms) = (NOW_MS - HOUR_MS, NOW_MS + 2);
    assert_eq!(with(&roster_as(over, PUBLISHER)), refused("Object(ObjectError::Expired)"), "before the last approval");
    let another =
        changed(release_body(), |it| (it.audience, it.by) = (Audience::organisation(), approver().publisher()));
    let another = signed(another, &key(STRANGER)).bytes;
    assert_eq!(with(&|told: &mut Registry| told.0[4].2.clone_from(&another)), refused("Mismatch"));
    let by_another = changed(release_body(), |it| it.by = approver().publisher());
    let by_another = signed(by_another, &key(NODE)).bytes;
    assert_eq!(
        with(&|told: &mut Registry| told.0[4].2.clone_from(&by_another)),
        refused("KeyLog(KeyLogError::NotItsKey)")
    );
}

fn roster_as(body: Roster, by: u8) -> impl Fn(&mut Registry) {
    move |told: &mut Registry| told.0[5].2 = signed(body.clone(), &key(by)).bytes
}

/// The publisher's agent under the organisation's domain.
pub fn name_evidence(told: &Registry, agent: &AgentId) -> Vec<u8> {
    map(&[(0, tstr(&agent.to_string())), (1, events(&log())), (2, told.logged(5)), (3, told.logged(6))])
}

#[test]
fn a_name_is_what_the_roster_of_a_proven_domain_says() {
    // P-179, P-180
    let named_by = |told: &Registry, agent: &AgentId, name: &str, now_ms: u64| {
        let key = note_key(ORIGIN, 1, REGISTRY).parse().expect("a good key");
        let read = NameEvidence::decode(&name_evidence(told, agent));
        let verified = read.and_then(|it| it.verify(NETWORK, (&domain(), name), &key, now_ms));
        verified.map(|it| it.agent).map_err(|error| error.name())
    };
    let (told, approvers) = (registry(), AgentId::new(approver().publisher(), "echo").expect("a good name"));
    assert_eq!(named_by(&told, &agent(), "echo", NOW_MS), Ok(agent()));
    assert_eq!(named_by(&told, &approvers, "echo", NOW_MS), Ok(approvers.clone()), "a member's");
    let refused = |name: &str| Err(format!("NameEvidenceError::{name}"));
    assert_eq!(named_by(&told, &agent(), "other", NOW_MS), refused("NotNamed"));
    let strangers = AgentId::new(PublisherId::from_digest([9; 32]), "echo").expect("a good name");
    assert_eq!(named_by(&told, &strangers, "echo", NOW_MS), refused("NotNamed"));
    assert_eq!(named_by(&told, &agent(), "echo", NOW_MS + HOUR_MS + 1), refused("Roster(ObjectError::Expired)"));
    let found = |at_ms: u64, finding: Vec<u8>, then: u64| {
        let mut told = registry();
        told.0[6] = Told(66, at_ms, finding);
        named_by(&told, &agent(), "echo", then)
    };
    assert_eq!(found(NOW_MS - 2 * DAY_MS, finding(2, true), NOW_MS), Ok(agent()), "48 h");
    assert_eq!(found(NOW_MS - 2 * DAY_MS - 1, finding(2, true), NOW_MS), refused("NotProven"));
    assert_eq!(found(0, finding(3, true), NOW_MS), Ok(agent()), "the operator's word does not end");
    assert_eq!(found(NOW_MS, finding(1, false), NOW_MS), refused("NotProven"));
    let mut other = told.clone();
    other.0[5].2 = signed(
        {
            let mut body = roster(2);
            body.domain = None;
            body
        },
        &key(PUBLISHER),
    )
    .bytes;
    assert_eq!(named_by(&other, &agent(), "echo", NOW_MS), refused("OtherDomain"));
    let two =
        map(&[(0, tstr(&agent().to_string())), (1, events(&log())), (2, told.logged_then(5)), (3, told.logged(6))]);
    let key = note_key(ORIGIN, 1, REGISTRY).parse().expect("a good key");
    let read = NameEvidence::decode(&two).and_then(|it| it.verify(NETWORK, (&domain(), "echo"), &key, NOW_MS));
    assert_eq!(reason(read.map(drop)), "NameEvidenceError::Checkpoints");
    assert_eq!(DomainFinding::decode(&finding(1, true)).map(|it| it.encode()), Some(finding(1, true)));
    assert_eq!(DomainFinding::decode(&finding(4, true)), None);
}

#[test]
fn submissions_receipts_and_bundles_are_read_as_they_are_written() {
    // P-166, P-181
    let submission = submission(1, 1);
    assert_eq!(Submission::decode(&submission).map(|it| it.encode()), Ok(submission));
    let receipt = map(&[(0, array(&[registry().logged(1)]))]);
    assert_eq!(Receipt::decode(&receipt).map(|it| it.encode()), Ok(receipt));
    let read = BundleFiles::decode(&bundle()).expect("a good bundle");
    assert_eq!(read.encode(), Ok(bundle()));
    for cases in ["submission", "receipt", "bundle", "evidence", "sign-in"] {
        let of: Vec<Case> = crate::registry_evidence_vectors::vectors()
            .into_iter()
            .filter(|it| it.input["document"] == cases)
            .collect();
        let refused = of.iter().filter(|case| case.error.is_some()).count();
        assert!(refused >= 3 && of.len() > refused, "{cases}: {refused} of {}", of.len());
    }
}

pub fn submission(statements: usize, descriptions: usize) -> Vec<u8> {
    let of = |bytes: &[u8], count: usize| array(&vec![bstr(bytes); count]);
    let (release, description) = (release().bytes, description().bytes);
    map(&[(0, events(&log())), (1, of(&release, statements)), (2, of(&description, descriptions))])
}

/// A visit of the publisher at the registry with that key.
pub fn visit(at: &str, by: u8, until_ms: u64) -> Vec<u8> {
    let members = [(0, uint(19)), (1, bstr(publisher().as_bytes())), (2, uint(NOW_MS)), (3, uint(until_ms))];
    cose(&map(&members), &object_aad("althing/visit/1", NETWORK, at), &key(by))
}

pub fn sign_in(visit: &[u8]) -> Vec<u8> {
    map(&[(0, events(&log())), (1, bstr(visit))])
}

#[test]
fn a_visit_is_for_one_registry_and_five_minutes() {
    // P-182
    let registry = note_key(ORIGIN, 1, REGISTRY);
    let body = althing_protocol::registry::Visit::new(publisher(), NOW_MS);
    let made = object::sign(body, NETWORK, &registry, &key(PUBLISHER)).expect("a good visit");
    assert_eq!(made.bytes, visit(&registry, PUBLISHER, NOW_MS + 300_000));
    let at = |bytes: &[u8], registry: &str, now_ms: u64| {
        let read = SignIn::decode(&sign_in(bytes)).expect("a good shape");
        let verified = read.verify(NETWORK, &registry.parse().expect("a good key"), now_ms);
        verified.map(|log| log.publisher()).map_err(|error| error.name())
    };
    assert_eq!(at(&made.bytes, &registry, NOW_MS), Ok(publisher()));
    let (elsewhere, signature) = (note_key("other.example/log", 1, REGISTRY), "Sign1Error::Signature");
    let wrong = format!("SignInError::Visit(ObjectError::Envelope({signature}))");
    assert_eq!(at(&made.bytes, &elsewhere, NOW_MS), Err(wrong));
    let over = Err("SignInError::Visit(ObjectError::Expired)".to_owned());
    assert_eq!(at(&made.bytes, &registry, NOW_MS + 300_001), over);
}

#[test]
fn a_presence_is_of_one_node() {
    // P-183
    let (contact, good) = (crate::records::contact().bytes, grant().bytes);
    let presence = |contact: &[u8], grants: &[&[u8]]| {
        let grants: Vec<_> = grants.iter().map(|grant| bstr(grant)).collect();
        map(&[(0, bstr(contact)), (1, array(&grants))])
    };
    let verified = |bytes: &[u8]| {
        let read = Presence::decode(bytes).and_then(|it| it.verify(NETWORK, NOW_MS));
        read.map(|it| it.grants.len()).map_err(|error| error.name())
    };
    assert_eq!(verified(&presence(&contact, &[&good])), Ok(1));
    assert_eq!(verified(&presence(&contact, &[])), Ok(0));
    let for_another = object::sign(
        object::Grant::new(agent(), public(STRANGER), NOW_MS, NOW_MS + HOUR_MS),
        NETWORK,
        "",
        &key(PUBLISHER),
    );
    let for_another = for_another.expect("a good grant").bytes;
    assert_eq!(verified(&presence(&contact, &[&good, &for_another])), Err("PresenceError::OtherNode".to_owned()));
    let swapped = Err("PresenceError::Contact(ObjectError::WrongKind)".to_owned());
    assert_eq!(verified(&presence(&good, &[&contact])), swapped);
    let many: Vec<&[u8]> = vec![&good; 65];
    assert_eq!(verified(&presence(&contact, &many)), Err("PresenceError::Shape".to_owned()));
}

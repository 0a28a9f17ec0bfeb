//! What is accepted, and what is refused.

use althing_protocol::limits::RELEASE_MARKS_MAX;
use althing_protocol::object::{self, Authored, Description};
use althing_protocol::registry::{Audience, Bundle, Mark, Release, Roster, Standing, Submission, Version};
use althing_protocol::{AgentId, KeyLog, KeyLogError, PublisherId, SecretKey, digest, keylog};

use super::*;

const NETWORK: &str = "test";
const NOW: u64 = 1_700_000_000_000;

struct Publisher {
    keys: [SecretKey; 4],
    log: KeyLog,
}

impl Publisher {
    fn new(seed: u8) -> Publisher {
        let keys = [0, 1, 2, 3].map(|at| SecretKey::from_seed(&[seed * 8 + at; 32]));
        let inception = keylog::inception(&keys[0], [keys[1].public(), keys[2].public()], NOW - 1_000);
        let log = KeyLog::verify(&[inception.bytes]).expect("an inception");
        Publisher { keys, log }
    }

    fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    fn agent(&self, name: &str) -> AgentId {
        AgentId::new(self.id(), name).expect("a name")
    }

    fn described(&self, name: &str, version: &str) -> Authored<Description> {
        let td = serde_json::json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }],
            "@type": "lmos:Agent", "id": self.agent(name).to_string(), "title": name, "version": { "instance": version },
            "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
        });
        let body = Description::new(self.agent(name), NOW, NOW, td.to_string().into_bytes());
        object::sign(body, NETWORK, "", &self.keys[0]).expect("a good description")
    }

    fn release(&self, name: &str, version: &str, sequence: u64) -> Release {
        let described = self.described(name, version).digest();
        let mut body =
            Release::new(self.agent(name), version.parse().expect("a version"), described, Audience::public(), NOW);
        body.sequence = sequence;
        body
    }

    fn mark(&self, name: &str, version: &str, standing: Standing, sequence: u64) -> Mark {
        let mut body = Mark::new(self.agent(name), version.parse().expect("a version"), standing, "why", NOW);
        body.sequence = sequence;
        body
    }

    fn sends(&self, statements: &[Vec<u8>]) -> Submission {
        Submission {
            key_log: self.log.to_bytes().into_iter().map(Into::into).collect(),
            statements: statements.iter().cloned().map(Into::into).collect(),
            descriptions: ["1.0.0", "1.1.0", "2.0.0"]
                .map(|version| self.described("echo", version).bytes.into())
                .to_vec(),
        }
    }

    fn signs<T: object::Statement>(&self, body: T) -> Vec<u8> {
        object::sign(body, NETWORK, "", &self.keys[0]).expect("a good statement").bytes
    }
}

fn open(machine: &RegistryState, submission: &Submission) -> Result<Opened, Refusal> {
    let log = Opened::keys(submission, None)?;
    let known = machine.key_log(log.publisher());
    Ok(Opened::of(log, known, submission, (NETWORK, NOW)))
}

fn judge(machine: &RegistryState, submission: &Submission) -> Result<Vec<Judged>, Refusal> {
    machine.judge(open(machine, submission)?, NOW)
}

/// Judges, and applies what is new; gives how much that was.
fn accept(machine: &mut RegistryState, index: &mut u64, submission: &Submission) -> Result<usize, Refusal> {
    let mut new = 0;
    for one in judge(machine, submission)? {
        if let Judged::New(statement) = one {
            machine.apply(*index, &statement);
            *index += 1;
            new += 1;
        }
    }
    Ok(new)
}

fn standing(machine: &RegistryState, agent: &AgentId, version: &str) -> Standing {
    let version: Version = version.parse().expect("a version");
    machine.agent(agent).and_then(|versions| versions.get(&version)).expect("it is there").standing
}

#[test]
fn a_release_is_accepted_once_and_marked_later() {
    let (alice, mut machine, mut index) = (Publisher::new(1), RegistryState::new(NETWORK, Admission::Anyone), 0);
    let first = alice.sends(&[alice.signs(alice.release("echo", "1.0.0", 1))]);
    assert_eq!(accept(&mut machine, &mut index, &first), Ok(2), "the key log is an entry too");
    assert_eq!(accept(&mut machine, &mut index, &first), Ok(0), "sent again, it is known");
    let agent = alice.agent("echo");
    let second = alice.sends(&[
        alice.signs(alice.release("echo", "1.1.0", 2)),
        alice.signs(alice.mark("echo", "1.1.0", Standing::Deprecated, 3)),
        alice.signs(alice.mark("echo", "1.0.0", Standing::Yanked, 4)),
    ]);
    assert_eq!(accept(&mut machine, &mut index, &second), Ok(3), "one may build on the other");
    assert_eq!(standing(&machine, &agent, "1.0.0"), Standing::Yanked);
    let current = machine.agent(&agent).and_then(|versions| versions.current()).map(|(version, _)| version.to_string());
    assert_eq!(current.as_deref(), Some("1.1.0"));
    let lifted = alice.sends(&[alice.signs(alice.mark("echo", "1.0.0", Standing::Good, 5))]);
    assert_eq!(accept(&mut machine, &mut index, &lifted), Ok(1));
    let revoked = alice.sends(&[alice.signs(alice.mark("echo", "1.1.0", Standing::Revoked, 6))]);
    assert_eq!(accept(&mut machine, &mut index, &revoked), Ok(1));
    let back = alice.sends(&[alice.signs(alice.mark("echo", "1.1.0", Standing::Good, 7))]);
    assert!(matches!(accept(&mut machine, &mut index, &back), Err(Refusal::Revoked { .. })));
    let current = machine.agent(&agent).and_then(|versions| versions.current()).map(|(version, _)| version.to_string());
    assert_eq!(current.as_deref(), Some("1.0.0"));
}

#[test]
fn what_is_wrong_is_refused_by_what_it_is() {
    let (alice, bob, mut machine, mut index) =
        (Publisher::new(1), Publisher::new(2), RegistryState::new(NETWORK, Admission::Anyone), 0);
    let mut refused = |submission: &Submission| accept(&mut machine, &mut index, submission).expect_err("it is wrong");
    let of_alice = alice.signs(alice.release("echo", "1.0.0", 5));
    assert_eq!(refused(&alice.sends(&[])), Refusal::Empty);
    // Somebody else's statement under one's own keys, and one's own statement about somebody else's agent.
    assert!(matches!(refused(&bob.sends(std::slice::from_ref(&of_alice))), Refusal::KeyLog(_)));
    let stolen = bob.signs(alice.release("echo", "1.0.0", 5));
    assert!(matches!(refused(&bob.sends(&[stolen])), Refusal::NotYours { .. }));
    let other_network = object::sign(alice.release("echo", "1.0.0", 5), "other", "", &alice.keys[0]).expect("signed");
    assert!(matches!(refused(&alice.sends(&[other_network.bytes])), Refusal::Object { at: 0, .. }));
    let described = alice.described("echo", "1.0.0").bytes;
    assert!(matches!(refused(&alice.sends(&[described])), Refusal::Kind { at: 0, kind: object::Kind::Description }));
    assert!(matches!(
        refused(&alice.sends(&[alice.signs(alice.mark("echo", "1.0.0", Standing::Yanked, 6))])),
        Refusal::NoRelease { .. }
    ));
    let missing = Submission { descriptions: vec![], ..alice.sends(std::slice::from_ref(&of_alice)) };
    assert!(matches!(refused(&missing), Refusal::DescriptionMissing { .. }));
    let mut other = alice.release("echo", "1.0.0", 5);
    other.description = alice.described("echo", "1.1.0").digest();
    assert!(matches!(refused(&alice.sends(&[alice.signs(other)])), Refusal::Description { .. }));
    let stranger = RegistryState::new(NETWORK, Admission::Publishers([bob.id()].into()));
    let judged = judge(&stranger, &alice.sends(std::slice::from_ref(&of_alice)));
    assert!(matches!(judged, Err(Refusal::NotAdmitted(publisher)) if publisher == alice.id()));
    let mut hidden = alice.release("echo", "1.0.0", 5);
    hidden.audience = Audience::organisation();
    assert!(matches!(refused(&alice.sends(&[alice.signs(hidden)])), Refusal::Audience { .. }));
    let mut future = alice.release("echo", "1.0.0", 5);
    future.made_ms = NOW + 3_600_000;
    assert!(matches!(refused(&alice.sends(&[alice.signs(future)])), Refusal::Object { .. }));
    assert_eq!(machine.agents(None).count(), 0, "nothing of all this was accepted");
}

#[test]
fn a_version_never_changes_and_no_statement_comes_late() {
    let (alice, mut machine, mut index) = (Publisher::new(1), RegistryState::new(NETWORK, Admission::Anyone), 0);
    accept(&mut machine, &mut index, &alice.sends(&[alice.signs(alice.release("echo", "1.0.0", 5))]))
        .expect("accepted");
    let changed = alice.sends(&[alice.signs(alice.release("echo", "1.0.0", 6))]);
    assert!(matches!(accept(&mut machine, &mut index, &changed), Err(Refusal::VersionTaken { .. })));
    let stale = alice.sends(&[alice.signs(alice.release("echo", "1.1.0", 5))]);
    let refused = accept(&mut machine, &mut index, &stale);
    assert!(matches!(refused, Err(Refusal::Stale { known: 5, given: 5, .. })));
    // All or nothing: the good one before a bad one is not accepted.
    let mixed = alice.sends(&[
        alice.signs(alice.release("echo", "2.0.0", 7)),
        alice.signs(alice.mark("echo", "9.0.0", Standing::Yanked, 8)),
    ]);
    assert!(accept(&mut machine, &mut index, &mixed).is_err());
    assert_eq!(machine.agent(&alice.agent("echo")).map(|versions| versions.iter().count()), Some(1));
}

#[test]
fn a_statement_stands_in_a_submission_once() {
    let (alice, mut machine, mut index) = (Publisher::new(1), RegistryState::new(NETWORK, Admission::Anyone), 0);
    let release = alice.signs(alice.release("echo", "1.0.0", 1));
    let mark = alice.signs(alice.mark("echo", "1.0.0", Standing::Yanked, 2));
    let roster = alice.signs(Roster::new(alice.id(), vec![], NOW, NOW, NOW + 1_000));
    for twice in [&release, &mark, &roster] {
        let statements = [release.clone(), mark.clone(), roster.clone(), twice.clone()];
        let judged = accept(&mut machine, &mut index, &alice.sends(&statements));
        assert_eq!(judged, Err(Refusal::Twice { at: 3 }));
    }
    assert_eq!(machine.agents(None).count(), 0, "nothing of it was accepted");
    assert_eq!(accept(&mut machine, &mut index, &alice.sends(&[release.clone(), mark, roster])), Ok(4));
    let again = alice.sends(&[release.clone(), release]);
    assert_eq!(accept(&mut machine, &mut index, &again), Ok(0), "what has an entry is known, however often it is sent");
}

#[test]
fn a_revocation_always_finds_room() {
    let (alice, mut machine, mut index) = (Publisher::new(1), RegistryState::new(NETWORK, Admission::Anyone), 0);
    accept(&mut machine, &mut index, &alice.sends(&[alice.signs(alice.release("echo", "1.0.0", 1))]))
        .expect("accepted");
    let mut last = Ok(1);
    for sequence in 2..=RELEASE_MARKS_MAX as u64 + 2 {
        let standing = if sequence % 2 == 0 { Standing::Yanked } else { Standing::Good };
        last = accept(
            &mut machine,
            &mut index,
            &alice.sends(&[alice.signs(alice.mark("echo", "1.0.0", standing, sequence))]),
        );
    }
    assert!(matches!(last, Err(Refusal::MarksFull { .. })));
    let revoked = alice.signs(alice.mark("echo", "1.0.0", Standing::Revoked, 1_000));
    assert_eq!(accept(&mut machine, &mut index, &alice.sends(&[revoked])), Ok(1));
}

#[test]
fn a_key_log_only_grows() {
    let (mut alice, mut machine, mut index) = (Publisher::new(1), RegistryState::new(NETWORK, Admission::Anyone), 0);
    accept(&mut machine, &mut index, &alice.sends(&[alice.signs(alice.release("echo", "1.0.0", 1))]))
        .expect("accepted");
    let before = alice.log.clone();
    alice.log = before.rotate(&alice.keys[1], alice.keys[3].public(), NOW - 500, 0).expect("a rotation");
    let with_old_key = alice.sends(&[alice.signs(alice.release("echo", "1.1.0", 2))]);
    assert!(matches!(accept(&mut machine, &mut index, &with_old_key), Err(Refusal::KeyLog(_))));
    let body = alice.mark("echo", "1.0.0", Standing::Yanked, 3);
    let signed = object::sign(body, NETWORK, "", &alice.keys[1]).expect("a good mark").bytes;
    assert_eq!(accept(&mut machine, &mut index, &alice.sends(&[signed])), Ok(2));
    // Whoever holds the old key cannot go back behind the rotation by showing the shorter log.
    alice.log = before;
    let old = alice.sends(&[alice.signs(alice.release("echo", "1.1.0", 4))]);
    assert!(matches!(accept(&mut machine, &mut index, &old), Err(Refusal::KeyLog(_))));
    // And whoever holds the new key may show it.
    let body = alice.mark("echo", "1.0.0", Standing::Good, 4);
    let signed = object::sign(body, NETWORK, "", &alice.keys[1]).expect("a good mark").bytes;
    assert_eq!(accept(&mut machine, &mut index, &alice.sends(&[signed])), Ok(1));
}

/// SR-7: anybody may show the key log of somebody who may publish here.
#[test]
fn no_signature_is_verified_under_a_key_of_another_nor_after_what_is_wrong() {
    let (alice, bob, machine) = (Publisher::new(1), Publisher::new(2), RegistryState::new(NETWORK, Admission::Anyone));
    // The signature is the end of it: whoever verifies it says that it is none.
    let forged = |mut bytes: Vec<u8>| {
        *bytes.last_mut().expect("a signature") ^= 1;
        bytes
    };
    let of = (bob.keys[0].public(), alice.id());
    let is_of_bob = |refusal: &Refusal| match refusal {
        Refusal::KeyLog(KeyLogError::NotItsKey { key, publisher }) => (*key, *publisher) == of,
        _ => false,
    };
    let release = || alice.release("echo", "1.0.0", 1);
    let (good, wrong, of_bob) = (alice.signs(release()), forged(alice.signs(release())), forged(bob.signs(release())));
    assert!(matches!(judge(&machine, &alice.sends(std::slice::from_ref(&wrong))), Err(Refusal::Object { at: 0, .. })));
    for first in [&wrong, &of_bob] {
        let opened = open(&machine, &alice.sends(&[good.clone(), first.clone(), good.clone()])).expect("a key log");
        let right: Vec<bool> = opened.statements.iter().map(Result::is_ok).collect();
        assert_eq!(right, [true, false], "nobody looks at the rest");
    }
    let refused = judge(&machine, &alice.sends(&[of_bob, wrong])).expect_err("it is of another");
    assert!(is_of_bob(&refused), "{refused}");
    let td = alice.described("echo", "1.0.0").body.td.clone();
    let described = Description::new(alice.agent("echo"), NOW, NOW, td);
    let described = forged(object::sign(described, NETWORK, "", &bob.keys[0]).expect("a description").bytes);
    let mut release = release();
    release.description = digest(&described);
    let submission = Submission { descriptions: vec![described.into()], ..alice.sends(&[alice.signs(release)]) };
    let refused = judge(&machine, &submission).expect_err("its description is of another");
    assert!(is_of_bob(&refused), "{refused}");
}

#[test]
fn a_workflow_is_found_by_its_description_and_an_agent_by_its_hosts() {
    let (alice, mut machine, mut index) = (Publisher::new(1), RegistryState::new(NETWORK, Admission::Anyone), 0);
    for (name, of) in [("echo", "lmos:Agent"), ("review", "althing:Workflow"), ("sly", "lmos:Agent")] {
        let mut td: serde_json::Value =
            serde_json::from_slice(&alice.described(name, "1.0.0").body.td).expect("a description");
        (td["@type"], td["description"]) = (of.into(), "althing:Workflow".into());
        let body = Description::new(alice.agent(name), NOW, NOW, td.to_string().into_bytes());
        let described = object::sign(body, NETWORK, "", &alice.keys[0]).expect("a good description");
        let mut release = alice.release(name, "1.0.0", 1);
        release.description = described.digest();
        release.bundle = Some(Bundle { digest: [1; 32], bytes: 1 });
        let mut submission = alice.sends(&[alice.signs(release)]);
        submission.descriptions = vec![described.bytes.into()];
        accept(&mut machine, &mut index, &submission).expect("a good release");
    }
    let found: Vec<&AgentId> = machine.published_things().collect();
    assert_eq!(found, [&alice.agent("review")]);
}

#[test]
fn the_releases_of_a_publisher_take_only_so_much() {
    let (alice, bob) = (Publisher::new(1), Publisher::new(2));
    let (mut machine, mut index) = (RegistryState::new(NETWORK, Admission::Anyone), 0);
    machine.room = quota::Room::of_at_most(quota::Taken { releases: 3, bytes: 100 });
    let signed = |by: &Publisher, version: &str, sequence: u64, bytes: u64| {
        let mut body = by.release("echo", version, sequence);
        body.audience = Audience::listed([PublisherId::from_digest([9; 32])]);
        body.bundle = Some(Bundle { digest: [7; 32], bytes });
        by.signs(body)
    };
    let of_alice = |version: &str, sequence, bytes| alice.sends(&[signed(&alice, version, sequence, bytes)]);
    let first = of_alice("1.0.0", 1, 60);
    assert_eq!(accept(&mut machine, &mut index, &first), Ok(2));
    let larger = accept(&mut machine, &mut index, &of_alice("1.1.0", 2, 41));
    assert!(matches!(larger, Err(Refusal::PublisherFull { releases: 1, bytes: 60, .. })), "{larger:?}");
    let both = alice.sends(&[signed(&alice, "1.1.0", 2, 20), signed(&alice, "2.0.0", 3, 21)]);
    let both = accept(&mut machine, &mut index, &both);
    assert!(matches!(both, Err(Refusal::PublisherFull { releases: 2, bytes: 80, .. })), "{both:?}");
    assert_eq!(accept(&mut machine, &mut index, &of_alice("1.1.0", 2, 40)), Ok(1));
    assert_eq!(accept(&mut machine, &mut index, &first), Ok(0), "sent again, it takes nothing");
    let of_bob = bob.sends(&[signed(&bob, "1.0.0", 1, 100)]);
    assert_eq!(accept(&mut machine, &mut index, &of_bob), Ok(2), "each has room of its own");
    // Purging frees the bytes, and not the version.
    let (agent, version) = (alice.agent("echo"), "1.0.0".parse::<Version>().expect("a version"));
    let (purge, _) = machine.judge_purge((&agent, &version), PurgedBy::Publisher, [9; 16]).expect("it is not public");
    machine.apply(index, &Statement::Purge(Box::new(purge)));
    index += 1;
    assert_eq!(accept(&mut machine, &mut index, &of_alice("2.0.0", 3, 60)), Ok(1));
    let last = accept(&mut machine, &mut index, &of_alice("2.1.0", 4, 1));
    assert!(matches!(last, Err(Refusal::PublisherFull { releases: 3, bytes: 100, .. })), "{last:?}");
}

use althing_protocol::group::{Amendment, Dissolution, Expulsion, Policy, Remove, Rule, Set};
use althing_protocol::{OwnerProof, SecretKey, keylog, object};

use super::*;
use crate::machine::members::Member;
use crate::machine::outcome::Outcome;

mod agents;
mod costs;
mod declared;
mod displaced;
mod owners;
mod policy;
mod shares;
mod shown_logs;
mod signatures;
mod size;
mod strangers;
mod successor;
mod voters;
mod withdrawals;

const NETWORK: &str = "test";
const NOW_MS: u64 = 1_700_000_000_000;

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

/// An owner: its key, and its log.
struct Owner(SecretKey, KeyLog);

impl Owner {
    fn new(seed: u8) -> Owner {
        let event = keylog::inception(&key(seed), [key(seed + 1).public(), key(seed + 2).public()], NOW_MS);
        Owner(key(seed), KeyLog::verify(&[event.bytes]).expect("an inception"))
    }

    fn id(&self) -> PublisherId {
        self.1.publisher()
    }

    fn events(&self) -> Vec<ByteVec> {
        self.1.to_bytes().into_iter().map(ByteVec::from).collect()
    }

    fn proof(&self, node: &SecretKey) -> OwnerProof {
        let body = Membership::new(self.id(), node.public(), NOW_MS - 1_000, NOW_MS + 80_000_000);
        OwnerProof::new(object::sign(body, NETWORK, "", &self.0).expect("a membership").bytes, &self.1)
    }
}

/// A group of three owners, of whom two must sign.
struct World {
    owners: [Owner; 3],
    founder: SecretKey,
    group: Group,
    sequence: u64,
}

impl World {
    fn new() -> World {
        World::founded(None)
    }

    /// A group whose founding says which rules its node knows.
    fn founded(rules: Option<u32>) -> World {
        let owners = [Owner::new(10), Owner::new(20), Owner::new(30)];
        let founder = key(1);
        let ids = owners.iter().map(Owner::id);
        let charter = Charter::first("team", ids, 2, founder.public(), Policy::default(), NOW_MS, [7; 16]);
        let group = Group::new(GroupId::of(&charter), NETWORK);
        let mut world = World { owners, founder, group, sequence: 0 };
        let founding = Founding {
            charter: world.endorsed(charter, "", &[0, 1]),
            logs: world.owners.iter().map(Owner::events).collect(),
            owner: world.owners[0].proof(&world.founder),
            addresses: Vec::new(),
            rules,
        };
        let founder = world.founder.clone();
        assert_eq!(world.one(&founder, Command::Found(Box::new(founding))), Ok(Some(1)));
        world
    }

    fn scope(&self) -> String {
        self.group.id().to_string()
    }

    fn endorsed<T: Statement + Clone>(&self, body: T, scope: &str, signers: &[usize]) -> Endorsed {
        let sign = |at: &usize| object::sign(body.clone(), NETWORK, scope, &self.owners[*at].0).expect("signed").bytes;
        Endorsed::new(signers.iter().map(sign))
    }

    fn batch(&mut self, author: Author, signer: &SecretKey, epoch: u64, commands: Vec<Command>) -> Reply {
        self.sequence += 1;
        let batch = Batch::new(epoch, author, 1, self.sequence, commands);
        let signed = object::sign(batch, NETWORK, &self.scope(), signer).expect("a batch");
        self.group.apply(NOW_MS, &Ok(signed))
    }

    /// Executes one command of a node, in the present epoch.
    fn one(&mut self, node: &SecretKey, command: Command) -> Result<Option<u64>, Refusal> {
        let epoch = self.group.epoch();
        match self.batch(Author::Node(node.public()), node, epoch, vec![command]) {
            Reply::Executed(outcomes) => match outcomes.as_slice() {
                [Outcome::Done(number)] => Ok(*number),
                [Outcome::Refused(refusal)] => Err(refusal.clone()),
                other => panic!("{other:?}"),
            },
            Reply::Refused(refusal) => Err(refusal),
            Reply::Duplicate => panic!("each has a number of its own"),
        }
    }

    fn invitation(&self, node: &SecretKey, nonce: u8) -> Invitation {
        let charter = self.group.charter().expect("it is founded").digest();
        let (from, to) = (NOW_MS - 1_000, NOW_MS + 60_000);
        Invitation::new(self.group.id(), charter, node.public(), from, to, [nonce; 16], self.group.epoch())
    }

    fn join(&mut self, node: &SecretKey, invitation: Endorsed) -> Result<Option<u64>, Refusal> {
        let owner = &self.owners[2];
        let (owner, log, addresses) = (owner.proof(node), owner.events(), Vec::new());
        let join = Join { invitation, owner, log, addresses, rules: Some(1) };
        self.one(node, Command::Join(Box::new(join)))
    }

    /// Invites a node, which joins.
    fn admit(&mut self, node: &SecretKey, nonce: u8) {
        let invitation = self.endorsed(self.invitation(node, nonce), &self.scope(), &[0, 2]);
        assert_eq!(self.join(node, invitation), Ok(None));
    }

    fn expulsion(&self, node: &SecretKey, signers: &[usize]) -> Command {
        let body = Expulsion::new(self.group.id(), node.public(), self.group.epoch());
        Command::Expel(self.endorsed(body, &self.scope(), signers))
    }
}

fn set(key: &str) -> Command {
    Command::Set(Set { key: key.to_owned(), value: b"1".to_vec().into(), if_version: None })
}

/// P-79, P-90
#[test]
fn only_the_charter_that_names_the_group_founds_it() {
    let world = World::new();
    let mut other = Group::new(GroupId::from_digest([9; 32]), NETWORK);
    let charter = world.group.charter().expect("it is founded").clone();
    let founding = Founding {
        charter: world.endorsed(charter, "", &[0, 1]),
        logs: world.owners.iter().map(Owner::events).collect(),
        owner: world.owners[0].proof(&world.founder),
        addresses: Vec::new(),
        rules: None,
    };
    let author = Author::Node(world.founder.public());
    let batch = Batch::new(0, author, 1, 1, vec![Command::Found(Box::new(founding))]);
    let scope = other.id().to_string();
    let signed = object::sign(batch, NETWORK, &scope, &world.founder).expect("a batch");
    let reply = other.apply(NOW_MS, &Ok(signed));
    assert_eq!(reply, Reply::Executed(vec![Outcome::Refused(Refusal::Charter)]));
    assert!(other.members().is_empty());
}

/// P-81, P-91
#[test]
fn an_invitation_admits_its_node_once_and_only_with_enough_signatures() {
    let mut world = World::new();
    let (node, other) = (key(2), key(3));
    let alone = world.endorsed(world.invitation(&node, 1), &world.scope(), &[0]);
    assert!(matches!(world.join(&node, alone), Err(Refusal::Endorsement(_))));
    let twice = world.endorsed(world.invitation(&node, 1), &world.scope(), &[0, 0]);
    assert!(matches!(world.join(&node, twice), Err(Refusal::Endorsement(_))), "one owner's two signatures are one");
    let good = world.endorsed(world.invitation(&node, 1), &world.scope(), &[0, 2]);
    assert!(matches!(world.join(&other, good.clone()), Err(Refusal::Invitation(_))), "it is for another node");
    assert_eq!(world.join(&node, good.clone()), Ok(None));
    assert_eq!(world.one(&node, Command::Leave), Ok(Some(2)));
    assert!(matches!(world.join(&node, good), Err(Refusal::Invitation(_))), "it was used");
    let mut late = world.invitation(&node, 2);
    (late.not_before_ms, late.not_after_ms) = (NOW_MS - 9_000, NOW_MS - 8_000);
    let late = world.endorsed(late, &world.scope(), &[0, 1]);
    assert!(matches!(world.join(&node, late), Err(Refusal::Invitation(_))), "it has expired");
    let mut early = world.invitation(&node, 3);
    early.epoch = world.group.epoch() + 1;
    let early = world.endorsed(early, &world.scope(), &[0, 1]);
    assert!(matches!(world.join(&node, early), Err(Refusal::Invitation(_))), "its epoch has not begun");
}

/// P-87, P-92, P-97
#[test]
fn a_member_is_removed_only_by_enough_owners_and_not_obeyed_afterwards() {
    let mut world = World::new();
    let node = key(2);
    world.admit(&node, 1);
    assert!(matches!(world.one(&node, set("a")), Ok(Some(_))));
    let alone = world.expulsion(&node, &[1]);
    assert!(matches!(world.one(&key(1), alone), Err(Refusal::Endorsement(_))));
    let expulsion = world.expulsion(&node, &[1, 2]);
    assert_eq!(world.one(&key(1), expulsion.clone()), Ok(Some(2)));
    assert_eq!(world.one(&node, set("b")), Err(Refusal::NotAMember(node.public())));
    // What was signed before is of an earlier epoch, whoever signed it.
    let founder = world.founder.clone();
    let stale = world.batch(Author::Node(founder.public()), &founder, 1, vec![set("c")]);
    assert_eq!(stale, Reply::Refused(Refusal::Epoch { signed: 1, current: 2 }));
    // The expulsion removes nobody who joins later.
    world.admit(&node, 2);
    assert!(matches!(world.one(&founder, expulsion), Err(Refusal::Epoch { .. })));
    assert!(world.group.members().get(&node.public()).is_some());
}

/// P-85, P-87
#[test]
fn nobody_writes_in_anothers_name() {
    let mut world = World::new();
    let (node, stranger) = (key(2), key(9));
    world.admit(&node, 1);
    let forged = world.batch(Author::Node(node.public()), &stranger, 1, vec![set("a")]);
    assert!(matches!(forged, Reply::Refused(Refusal::Author(_))), "{forged:?}");
    let owner = world.owners[0].id();
    let forged = world.batch(Author::Publisher(owner), &node, 1, vec![set("a")]);
    assert!(matches!(forged, Reply::Refused(Refusal::Author(_))), "{forged:?}");
    assert_eq!(world.one(&stranger, set("a")), Err(Refusal::NotAMember(stranger.public())));
    let invalid = world.group.apply(NOW_MS, &Err(ObjectError::Shape("cut off".to_owned())));
    assert!(matches!(invalid, Reply::Refused(Refusal::Invalid(_))), "{invalid:?}");
    assert!(world.group.values().is_empty());
}

/// P-88
#[test]
fn a_batch_is_executed_once_however_often_it_is_in_the_log() {
    let mut world = World::new();
    let founder = world.founder.clone();
    let author = Author::Node(founder.public());
    let batch = Batch::new(1, author, 5, 1, vec![set("a"), set("b")]);
    let signed = Ok(object::sign(batch, NETWORK, &world.scope(), &founder).expect("a batch"));
    let done = vec![Outcome::Done(Some(1)), Outcome::Done(Some(2))];
    assert_eq!(world.group.apply(NOW_MS, &signed), Reply::Executed(done));
    assert_eq!(world.group.apply(NOW_MS, &signed), Reply::Duplicate);
    assert_eq!(world.group.values().get("a").map(|value| value.version), Some(1));
}

/// P-82, P-93
#[test]
fn a_later_charter_needs_the_present_owners_and_ends_invitations() {
    let mut world = World::new();
    let (node, founder) = (key(2), world.founder.clone());
    let early = world.endorsed(world.invitation(&node, 1), &world.scope(), &[0, 1]);
    let added = Owner::new(40);
    let mut charter = world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS + 1);
    charter.owners = vec![world.owners[0].id(), added.id()];
    charter.owners.sort_unstable();
    charter.threshold = 1;
    let amend = |charter, logs| Command::Amend(Box::new(Amendment { charter, logs }));
    let alone = world.endorsed(charter.clone(), &world.scope(), &[0]);
    let refused = world.one(&founder, amend(alone, vec![added.events()]));
    assert!(matches!(refused, Err(Refusal::Endorsement(_))), "{refused:?}");
    let signed = world.endorsed(charter, &world.scope(), &[0, 1]);
    let refused = world.one(&founder, amend(signed.clone(), Vec::new()));
    assert!(matches!(refused, Err(Refusal::KeyLog(_))), "{refused:?}");
    assert_eq!(world.one(&founder, amend(signed.clone(), vec![added.events()])), Ok(Some(2)));
    let again = world.one(&founder, amend(signed, vec![added.events()]));
    assert!(again.is_err(), "a charter follows one other only: {again:?}");
    assert!(matches!(world.join(&node, early), Err(Refusal::Invitation(_) | Refusal::Endorsement(_))));
    // An owner that is none any more is not obeyed, though its log is kept for what it signed.
    let (gone, epoch) = (world.owners[1].id(), world.group.epoch());
    let signer = world.owners[1].0.clone();
    let reply = world.batch(Author::Publisher(gone), &signer, epoch, vec![set("a")]);
    assert!(matches!(reply, Reply::Refused(Refusal::NotPermitted(_))), "{reply:?}");
    let restored = Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows");
    assert_eq!(restored, world.group);
}

/// P-87, P-94
#[test]
fn a_dissolved_group_executes_nothing_any_more() {
    let mut world = World::new();
    let founder = world.founder.clone();
    assert!(world.one(&founder, set("a")).is_ok());
    let body = Dissolution::new(world.group.id(), world.group.charter().expect("it is founded").digest());
    let alone = Command::Dissolve(world.endorsed(body.clone(), &world.scope(), &[2]));
    assert!(matches!(world.one(&founder, alone), Err(Refusal::Endorsement(_))));
    let signed = Command::Dissolve(world.endorsed(body, &world.scope(), &[1, 2]));
    assert!(world.one(&founder, signed).is_ok());
    let node = key(2);
    let invitation = world.endorsed(world.invitation(&node, 1), &world.scope(), &[0, 1]);
    assert_eq!(world.join(&node, invitation), Err(Refusal::Dissolved));
    assert_eq!(world.one(&founder, set("b")), Err(Refusal::Dissolved));
    let restored = Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows");
    assert!(restored.dissolution().is_some(), "also after a restart");
}

/// P-105
#[test]
fn a_snapshot_is_the_state_and_shows_who_admitted_each_member() {
    let mut world = World::new();
    let (node, intruder) = (key(2), key(9));
    world.admit(&node, 1);
    assert!(world.one(&node, set("a")).is_ok());
    let remove = Command::Remove(Remove { key: "a".to_owned(), if_version: None });
    assert!(world.one(&node, remove).is_ok());
    assert!(world.one(&node, set("b")).is_ok());
    let rows = world.group.rows();
    assert_eq!(Group::restore(world.group.id(), NETWORK, &rows).expect("its own rows"), world.group);
    // One more member, that nobody invited.
    let mut forged = world.group.clone();
    forged.members.join(intruder.public(), world.owners[0].id(), Vec::new(), None, 5).expect("room");
    let refused = Group::restore(world.group.id(), NETWORK, &forged.rows()).expect_err("nobody invited it");
    assert!(refused.why.contains("shows no invitation"), "{refused}");
    // One that shows another's invitation.
    let mut forged = world.group.clone();
    let shown = world.group.members().get(&node.public()).expect("a member").admission.clone();
    forged.members.join(intruder.public(), world.owners[0].id(), Vec::new(), shown, 5).expect("room");
    let refused = Group::restore(world.group.id(), NETWORK, &forged.rows()).expect_err("it is another's");
    assert!(refused.why.contains("for another"), "{refused}");
    // Cut off, and out of order.
    assert!(Group::restore(world.group.id(), NETWORK, &rows[1..]).is_err());
    assert!(Group::restore(world.group.id(), NETWORK, &[]).is_err());
    assert!(Group::restore(GroupId::from_digest([1; 32]), NETWORK, &rows).is_err());
}

/// The group as if so many had joined, and so many values been written.
fn counting(group: &Group, joined: u64, last_version: u64) -> Group {
    let members = group.members();
    let all = members.iter().map(|(node, member)| (*node, member.clone()));
    let recent = members.recent().cloned().collect();
    let counted = Members::restore(all, members.voters().clone(), recent, joined, BTreeMap::new());
    let values = group.values().iter().map(|(key, value)| (key.clone(), value.clone()));
    Group { members: counted, values: Values::restore(values, last_version), ..group.clone() }
}

/// P-105: what a snapshot counts can be counted further, and is not less than what it has.
#[test]
fn a_snapshot_counts_what_a_group_can_have() {
    const MOST: u64 = u64::MAX / 2;
    let mut world = World::new();
    let founder = world.founder.clone();
    assert!(world.one(&founder, set("a")).is_ok());
    let read = |group: &Group| Group::restore(group.id(), NETWORK, &group.rows());
    assert!(read(&counting(&world.group, MOST, MOST)).is_ok());
    let forged = [
        counting(&world.group, MOST + 1, 1),
        counting(&world.group, 1, MOST + 1),
        Group { epoch: MOST + 1, ..world.group.clone() },
        Group { now_ms: MOST + 1, ..world.group.clone() },
    ];
    for forged in &forged {
        assert!(read(forged).is_err_and(|error| error.why.contains("more than a group can have")));
    }
    for forged in [counting(&world.group, 0, 1), counting(&world.group, 1, 0)] {
        assert!(read(&forged).is_err_and(|error| error.why.contains("fewer")));
    }
    let mut counted = read(&counting(&world.group, MOST, MOST)).expect("the most");
    counted.members.join(key(9).public(), world.owners[0].id(), Vec::new(), None, 5).expect("room");
    assert_eq!(counted.members.joined(), MOST + 1);
}

/// P-96
#[test]
fn only_owners_write_where_the_charter_says_so() {
    let mut world = World::new();
    let founder = world.founder.clone();
    let mut charter = world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS + 1);
    charter.policy.write = Rule::Owners;
    let signed = world.endorsed(charter, &world.scope(), &[0, 1]);
    let amend = Command::Amend(Box::new(Amendment { charter: signed, logs: Vec::new() }));
    assert_eq!(world.one(&founder, amend), Ok(Some(2)));
    assert!(matches!(world.one(&founder, set("a")), Err(Refusal::NotPermitted(_))));
    let (owner, signer) = (world.owners[0].id(), world.owners[0].0.clone());
    let reply = world.batch(Author::Publisher(owner), &signer, 2, vec![set("a")]);
    assert_eq!(reply, Reply::Executed(vec![Outcome::Done(Some(1))]));
}

/// P-93, P-95, P-105
#[test]
fn a_snapshot_is_read_after_an_owner_has_rotated_its_key() {
    let mut world = World::new();
    let node = key(2);
    world.admit(&node, 1);
    let Owner(old, log) = &world.owners[0];
    let (old, rotated) = (old.clone(), log.rotate(&key(11), key(50).public(), NOW_MS, 0).expect("the next key"));
    let events = rotated.to_bytes().into_iter().map(ByteVec::from).collect();
    assert_eq!(world.one(&node, Command::Keys(events)), Ok(None));
    world.group.now_ms += 1;
    // The old key is not obeyed any more, and what it signed before is still proof.
    let reply = world.batch(Author::Publisher(world.owners[0].id()), &old, 1, vec![set("a")]);
    assert!(matches!(reply, Reply::Refused(Refusal::Author(_))), "{reply:?}");
    assert_eq!(Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows"), world.group);
}

/// P-87, P-91: strangers do not fill the log, and an expelled node does not come back by an older invitation.
#[test]
fn an_expulsion_ends_the_invitations_that_its_node_still_has() {
    let mut world = World::new();
    let (node, founder) = (key(2), world.founder.clone());
    let second = world.endorsed(world.invitation(&node, 9), &world.scope(), &[0, 1]);
    world.admit(&node, 1);
    let expulsion = world.expulsion(&node, &[1, 2]);
    assert_eq!(world.one(&founder, expulsion), Ok(Some(2)));
    let refused = world.join(&node, second);
    assert!(matches!(&refused, Err(Refusal::Invitation(why)) if why.contains("expelled")), "{refused:?}");
    world.admit(&node, 3);
}

/// P-89
#[test]
fn who_left_by_an_earlier_command_of_a_batch_is_not_obeyed_in_the_later_ones() {
    let mut world = World::new();
    let node = key(2);
    world.admit(&node, 1);
    let reply = world.batch(Author::Node(node.public()), &node, 1, vec![Command::Leave, set("a")]);
    let refused = Outcome::Refused(Refusal::NotAMember(node.public()));
    assert_eq!(reply, Reply::Executed(vec![Outcome::Done(Some(2)), refused]));
    let founder = world.founder.clone();
    assert_eq!(world.one(&founder, Command::Leave), Err(Refusal::LastMember));
    // A join or a founding is alone; no publisher joins.
    let join = world.endorsed(world.invitation(&node, 2), &world.scope(), &[0, 1]);
    let owner = &world.owners[2];
    let (owner, log, addresses) = (owner.proof(&node), owner.events(), Vec::new());
    let join = Join { invitation: join, owner, log, addresses, rules: Some(1) };
    let (epoch, author) = (world.group.epoch(), Author::Node(node.public()));
    let reply = world.batch(author, &node, epoch, vec![Command::Join(Box::new(join)), set("a")]);
    assert!(matches!(reply, Reply::Refused(Refusal::Invalid(_))), "{reply:?}");
}

/// P-86, P-99
#[test]
fn time_never_falls_and_a_member_says_where_it_is() {
    let mut world = World::new();
    let founder = world.founder.clone();
    let batch = |sequence, commands| {
        let batch = Batch::new(1, Author::Node(founder.public()), 7, sequence, commands);
        object::sign(batch, NETWORK, &world.group.id().to_string(), &founder).expect("a batch")
    };
    let (later, earlier) =
        (batch(1, vec![set("a")]), batch(2, vec![Command::Addresses(vec!["/ip4/10.0.0.1".to_owned()])]));
    world.group.apply(NOW_MS + 9_000, &Ok(later));
    world.group.apply(NOW_MS, &Ok(earlier));
    assert_eq!(world.group.now_ms, NOW_MS + 9_000);
    let known = world.group.members().get(&founder.public()).expect("a member");
    assert_eq!(known.addresses, ["/ip4/10.0.0.1"]);
}

/// P-105
#[test]
fn a_snapshot_that_says_that_the_group_ended_shows_its_owners_signatures() {
    let world = World::new();
    let body = Dissolution::new(world.group.id(), world.group.charter().expect("it is founded").digest());
    let mut forged = world.group.clone();
    forged.dissolution = Some(world.endorsed(body.clone(), &world.scope(), &[1]));
    let refused = Group::restore(world.group.id(), NETWORK, &forged.rows()).expect_err("one owner of two");
    assert!(refused.why.contains("its owners did not"), "{refused}");
    forged.dissolution = Some(world.endorsed(body, &world.scope(), &[1, 2]));
    assert!(Group::restore(world.group.id(), NETWORK, &forged.rows()).is_ok());
}

/// P-103
#[test]
fn the_logs_members_are_those_that_the_state_justifies() {
    let mut world = World::new();
    for (at, seed) in [2, 3, 4].into_iter().enumerate() {
        world.admit(&key(seed), u8::try_from(at).expect("small") + 1);
    }
    let members = world.group.members();
    let set = |seeds: &[u8]| seeds.iter().map(|seed| key(*seed).public()).collect::<std::collections::BTreeSet<_>>();
    let justified = |voters: &[&[u8]], learners: &[u8], present: &[&[u8]], present_learners: &[u8]| {
        let voters: Vec<_> = voters.iter().map(|seeds| set(seeds)).collect();
        let present: Vec<_> = present.iter().map(|seeds| set(seeds)).collect();
        members.justify(&voters, &set(learners), &present, &set(present_learners))
    };
    assert!(justified(&[&[1, 2, 3]], &[4], &[], &[]), "those of the state");
    assert!(justified(&[&[1], &[1, 2, 3]], &[4], &[], &[]), "from those before to those of now");
    assert!(!justified(&[&[1, 2, 9]], &[4], &[], &[]), "nobody invited the last one");
    assert!(!justified(&[&[1, 2, 3]], &[9], &[], &[]), "nor this learner");
    assert!(justified(&[&[1, 2, 3]], &[9], &[], &[9]), "one that leaves may be there until it is removed");
    assert!(!justified(&[&[2]], &[], &[], &[]), "no member makes itself the only voter");
    assert!(justified(&[&[2]], &[], &[&[2]], &[]), "what is so already changes nothing");
    assert!(!justified(&[], &[], &[], &[]));
}

//! What a charter leaves to the owners: writing, giving work, and reading.

use althing_protocol::group::{Assign, Claim, Complete, Content, Needs, Priority, Reference, Submit, Target, WorkId};

use super::*;
use crate::machine::read_scope::ReadScope;

/// A group that the first two owners own. The founder is of the first one, the node 2 of the third one.
fn world(policy: Policy) -> World {
    let mut world = World::new();
    world.admit(&key(2), 1);
    let founder = world.founder.clone();
    let mut charter = world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS);
    charter.owners = vec![world.owners[0].id(), world.owners[1].id()];
    charter.owners.sort_unstable();
    charter.policy = policy;
    let charter = world.endorsed(charter, &world.scope(), &[0, 1]);
    let amend = Command::Amend(Box::new(Amendment { charter, logs: Vec::new() }));
    assert_eq!(world.one(&founder, amend), Ok(Some(2)));
    world
}

fn id(number: u8) -> WorkId {
    WorkId::from_bytes([number; 16])
}

pub(super) fn submit(number: u8) -> Command {
    Command::Submit(Box::new(Submit {
        task: id(number),
        key: None,
        needs: Needs::of(Target::Capability("billing.view".to_owned())),
        input: Content::Inline(b"in".to_vec().into()),
        priority: Priority::Normal,
        deadline_ms: None,
        attempts_max: 2,
        lease_ms: 10_000,
        dependencies: Vec::new(),
        resources: Vec::new(),
        label: None,
        channel: None,
    }))
}

/// Executes one command in the name of a publisher.
fn signed_by(world: &mut World, owner: usize, command: Command) -> Result<Option<u64>, Refusal> {
    let (author, signer) = (Author::Publisher(world.owners[owner].id()), world.owners[owner].0.clone());
    let epoch = world.group.epoch();
    match world.batch(author, &signer, epoch, vec![command]) {
        Reply::Executed(outcomes) => match outcomes.as_slice() {
            [Outcome::Done(number)] => Ok(*number),
            [Outcome::Refused(refusal)] => Err(refusal.clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Gives a task to a member.
fn give(world: &mut World, number: u8, to: &SecretKey) -> Claim {
    let founder = world.founder.clone();
    let assign = Command::Assign(Assign { task: id(number), member: to.public(), attempt: 1 });
    let token = world.one(&founder, assign).expect("it is ready").expect("an assignment gives a token");
    Claim { task: id(number), token }
}

fn complete(claim: Claim, result: Content) -> Command {
    Command::Complete(Complete { claim, result, label: None, verified: None })
}

/// P-111, P-115
#[test]
fn where_only_owners_give_work_members_do_it_all_the_same() {
    let mut world = world(Policy { assign: Some(Rule::Owners), ..Policy::default() });
    let (node, founder) = (key(2), world.founder.clone());
    for signer in [&node, &founder] {
        let refused = world.one(signer, submit(1));
        let says = |why: &str| why.contains("`althing group amend team --assign members`");
        assert!(matches!(&refused, Err(Refusal::NotPermitted(why)) if says(why)), "{refused:?}");
    }
    let refused = signed_by(&mut world, 2, submit(1));
    assert!(matches!(refused, Err(Refusal::NotPermitted(_))), "it owns a member, not the group: {refused:?}");
    assert_eq!(signed_by(&mut world, 1, submit(1)), Ok(Some(1)));
    let claim = give(&mut world, 1, &node);
    assert_eq!(world.one(&node, Command::Start(claim)), Ok(None));
    assert_eq!(world.one(&node, Command::Renew(claim)), Ok(None));
    assert_eq!(world.one(&node, complete(claim, Content::Inline(b"out".to_vec().into()))), Ok(None));
    assert!(world.one(&node, set("a")).is_ok(), "writing is another matter");
    assert_eq!(Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows"), world.group);
}

/// P-96, P-111
#[test]
fn who_may_write_gives_work_unless_the_charter_says_otherwise() {
    for (assign, is_permitted) in [(None, false), (Some(Rule::Owners), false), (Some(Rule::Members), true)] {
        let mut world = world(Policy { write: Rule::Owners, assign, ..Policy::default() });
        let refused = world.one(&key(2), set("a"));
        let says = |why: &str| why.contains("--write members");
        assert!(matches!(&refused, Err(Refusal::NotPermitted(why)) if says(why)), "{refused:?}");
        assert_eq!(world.one(&key(2), submit(1)).is_ok(), is_permitted, "{assign:?}");
        assert!(signed_by(&mut world, 0, submit(2)).is_ok(), "{assign:?}");
    }
}

/// P-101
#[test]
fn where_only_owners_read_the_nodes_of_others_are_shown_what_is_their_own() {
    let mut world = world(Policy { read: Some(Rule::Owners), ..Policy::default() });
    let (node, founder) = (key(2), world.founder.clone());
    for number in [1, 4] {
        assert!(world.one(&founder, submit(number)).is_ok());
    }
    assert!(world.one(&node, submit(2)).is_ok());
    assert!(signed_by(&mut world, 2, submit(3)).is_ok());
    let shown = |world: &World, to: &SecretKey| {
        let scope = ReadScope::of(&world.group, to.public());
        let tasks = world.group.work().tasks();
        (1..=4).filter(|number| tasks.get(&id(*number)).is_some_and(|task| scope.task(task))).collect::<Vec<u8>>()
    };
    assert_eq!(shown(&world, &founder), [1, 2, 3, 4]);
    assert_eq!(shown(&world, &node), [2, 3], "its own, and its owner's");
    assert!(shown(&world, &key(9)).is_empty(), "a stranger");
    give(&mut world, 4, &node);
    assert_eq!(shown(&world, &node), [2, 3, 4], "what it was given");
    // A large result is handed to whom the task is shown.
    let holder = founder.public();
    let handed = |world: &World, to: &SecretKey| ReadScope::of(&world.group, to.public()).result(holder, &[9; 32]);
    let media_type = "application/json".to_owned();
    let result = Content::Reference(Reference { digest: [9; 32], bytes: 1, media_type, holder });
    let claim = give(&mut world, 1, &founder);
    assert_eq!(world.one(&founder, complete(claim, result.clone())), Ok(None));
    assert!(handed(&world, &founder) && !handed(&world, &node));
    let claim = give(&mut world, 3, &node);
    assert_eq!(world.one(&node, complete(claim, result.clone())), Ok(None));
    assert!(!handed(&world, &node), "it names what another member holds as the result of its own task");
    let claim = give(&mut world, 2, &founder);
    assert_eq!(world.one(&founder, complete(claim, result)), Ok(None));
    assert!(handed(&world, &node) && !handed(&world, &key(9)));
}

/// P-101
#[test]
fn members_read_where_the_charter_says_nothing() {
    let world = World::new();
    assert!(ReadScope::of(&world.group, key(9).public()).is_whole(), "who is no member is asked for elsewhere");
    assert!(ReadScope::of(&Group::new(world.group.id(), NETWORK), key(1).public()).is_whole(), "there is nothing yet");
}

use althing_protocol::group::{Assign, Author, Charter, GroupId, Needs, Policy, Priority, Submit, Target};
use althing_protocol::{PublisherId, SecretKey};

use super::*;

fn here() -> PublicKey {
    SecretKey::from_seed(&[1; 32]).public()
}

/// A group with one member, this node, which has submitted a task that may be attempted twice.
fn group(task: WorkId) -> Group {
    let (owner, mut group) = (PublisherId::from_digest([1; 32]), Group::new(GroupId::from_digest([3; 32]), "test"));
    group.charter = Some(Charter::first("team", [owner], 1, here(), Policy::default(), 0, [0; 16]));
    group.epoch = 1;
    group.members.join(here(), owner, Vec::new(), None, 5).expect("its first member");
    group.advance(1_000);
    let submit = Submit {
        task,
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
        channel: Some("web".to_owned()),
    };
    execute(&mut group, &Command::Submit(Box::new(submit)));
    group
}

fn execute(group: &mut Group, command: &Command) -> Option<u64> {
    group.execute(Author::Node(here()), command).expect("it is executed")
}

/// Assigns the task to this node; the token.
fn assign(group: &mut Group, task: WorkId, attempt: u8) -> u64 {
    execute(group, &Command::Assign(Assign { task, member: here(), attempt })).expect("an assignment gives a token")
}

/// The tokens and attempts of the tasks that are begun.
fn begun(held: &HeldTasks) -> Vec<(u64, u8)> {
    held.new.iter().map(|(task, _)| (task.token, task.attempt)).collect()
}

#[test]
fn a_task_that_comes_back_under_a_new_token_is_begun_anew() {
    let task = WorkId::from_bytes([7; 16]);
    let mut group = group(task);
    let first = assign(&mut group, task, 1);
    let taken = held(&group, here(), &BTreeMap::new());
    assert_eq!(begun(&taken), [(first, 1)]);
    assert_eq!(taken.new[0].0.channel.as_deref(), Some("web"), "its worker is told how it came");
    assert!(held(&group, here(), &taken.tokens).new.is_empty(), "it is begun once");
    // It is lost and comes back before this node looks again.
    let claim = Claim { task, token: first };
    execute(&mut group, &Command::Fail(Fail { claim, reason: "broken".to_owned(), retry: true }));
    let second = assign(&mut group, task, 2);
    let again = held(&group, here(), &taken.tokens);
    assert_eq!(begun(&again), [(second, 2)]);
    assert_eq!(again.tokens, BTreeMap::from([(task, second)]));
}

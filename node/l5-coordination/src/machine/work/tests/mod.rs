//! Tests of the tasks of a group.

use althing_protocol::group::{
    Assign, Author, Charter, Claim, Command, Complete, Content, GroupId, Needs, Policy, Priority, Submit, Target,
    WorkId,
};
use althing_protocol::{PublicKey, PublisherId, SecretKey};

use super::super::group::Group;
use super::super::outcome::Refusal;
use super::{State, Work, WorkRow};

mod bounds;
mod costs;
mod model;
mod refusals;
mod resources;

const NETWORK: &str = "test";

fn node(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

fn member(seed: u8) -> Author {
    Author::Node(node(seed))
}

fn owner() -> Author {
    Author::Publisher(PublisherId::from_digest([1; 32]))
}

fn id(number: u32) -> WorkId {
    WorkId::from_bytes(u128::from(number).to_be_bytes())
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("small")
}

fn large(bytes: usize) -> Content {
    Content::Inline(vec![7; bytes].into())
}

/// A group of the members 1 to `members`, at the time 1,000.
fn group(members: u8) -> Group {
    group_under(members, Policy::default())
}

fn group_under(members: u8, policy: Policy) -> Group {
    let mut group = Group::new(GroupId::from_digest([3; 32]), NETWORK);
    let owner = PublisherId::from_digest([1; 32]);
    group.charter = Some(Charter::first("team", [owner], 1, node(1), policy, 0, [0; 16]));
    group.epoch = 1;
    for seed in 1..=members {
        group.members.join(node(seed), owner, Vec::new(), None, 5).expect("another member");
    }
    group.advance(1_000);
    group
}

fn task(number: u32) -> Submit {
    Submit {
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
    }
}

fn submit(task: Submit) -> Command {
    Command::Submit(Box::new(task))
}

fn after(number: u32, on: &[u32]) -> Submit {
    Submit { dependencies: on.iter().copied().map(id).collect(), ..task(number) }
}

fn wanting(number: u32, resources: &[&str]) -> Submit {
    Submit { resources: resources.iter().map(|name| (*name).to_owned()).collect(), ..task(number) }
}

fn complete(claim: Claim) -> Command {
    Command::Complete(Complete { claim, result: Content::Inline(b"out".to_vec().into()), label: None, verified: None })
}

/// Assigns a task to a member in its present attempt.
fn assign(group: &mut Group, number: u32, to: u8) -> Result<Claim, Refusal> {
    let attempt = group.work.tasks().get(&id(number)).map_or(1, |task| task.attempt);
    let command = Command::Assign(Assign { task: id(number), member: node(to), attempt });
    let token = group.execute(member(1), &command)?;
    Ok(Claim { task: id(number), token: token.expect("an assignment gives a token") })
}

fn state(group: &Group, number: u32) -> State {
    group.work.tasks().get(&id(number)).expect("the task is there").state
}

/// The group with its tasks and resources as their rows say. The group itself has no owner that could sign here.
fn restored(group: &Group) -> Group {
    let rows: Vec<WorkRow> = group.work.rows().collect();
    Group { work: restored_work(rows).expect("its own rows"), ..group.clone() }
}

fn restored_work(rows: Vec<WorkRow>) -> Result<Work, String> {
    let mut work = Work::default();
    for row in rows {
        let bytes = minicbor::to_vec(row).expect("writing to a vector cannot fail");
        work.take(minicbor::decode(&bytes).map_err(|error| error.to_string())?)?;
    }
    work.complete_rows()?;
    Ok(work)
}

//! Clocks that jump, in virtual time: the time of a group is nobody's alone, and does not fall.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use althing_communication::WallClock;
use althing_conformance::groups::{GroupNode, Owner, echo_task, hand_over, settled, store, task_id};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::ReplicaError;
use althing_coordination::consensus::wire::{EntryRecord, Payload};
use althing_coordination::machine::work::State;
use althing_coordination::{GroupError, RAFT_LOG, ReplicaConfig};
use althing_protocol::group::{
    Action, Command, GroupId, Job, Missed, Needs, Policy, Schedule, Set, Step, Submit, Target, Workflow,
};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Range;

const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: u64 = 60_000;
/// By how much an entry may be ahead of the clock of a member that takes it.
const AHEAD_MAX_MS: u64 = 120_000;
/// When the schedule is looked at: after its minute by this.
const AFTER_MS: u64 = 2_000;

/// A group of three members, each with a clock of its own. The first one leads.
struct World {
    net: SimNet,
    nodes: Vec<GroupNode>,
    id: GroupId,
    /// By how much each clock is ahead.
    ahead_ms: Vec<Arc<AtomicI64>>,
}

fn needs(capability: &str) -> Needs {
    Needs::of(Target::Capability(capability.to_owned()))
}

impl World {
    async fn new() -> World {
        let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
        let (mut nodes, mut ahead_ms) = (Vec::new(), Vec::new());
        for number in 1..=3 {
            let (right, ahead) = (net.clock(), Arc::<AtomicI64>::default());
            ahead_ms.push(ahead.clone());
            let clock = WallClock::new(move || right.now_ms().saturating_add_signed(ahead.load(Ordering::Relaxed)));
            let (owner, replica) = (Owner::new(101), ReplicaConfig::default());
            nodes.push(GroupNode::start_at(&net, &key(number), &owner, store(), replica, clock).await);
        }
        let id = nodes[0].groups.create("team", Policy::default()).await.expect("a group");
        for node in &nodes[1..] {
            nodes[0].admit(id, node).await;
        }
        settled(&nodes, id, 3).await;
        let world = World { net, nodes, id, ahead_ms };
        world.hand_over(0).await;
        world
    }

    fn jump(&self, ahead_ms: i64) {
        self.ahead_ms[0].store(ahead_ms, Ordering::Relaxed);
    }

    async fn hand_over(&self, to: usize) {
        hand_over(&self.nodes, self.id, to).await;
    }

    async fn submit(&self, task: Submit) {
        self.nodes[1].groups.command(self.id, Command::Submit(Box::new(task))).await.expect("it is submitted");
    }

    /// Has a task done; when it was submitted, by the time of the group.
    async fn done(&self, number: u32, input: &str) -> u64 {
        let task = self.nodes[1].submit(self.id, number, input, &[]).await;
        self.nodes[1].completed(self.id, &[task]).await;
        assert_eq!(self.nodes[1].task(self.id, task, |task| task.attempt), 1, "it was taken from nobody");
        self.nodes[1].task(self.id, task, |task| task.submitted_ms)
    }

    /// Writes a value, until a leader acknowledges that.
    async fn write(&self, value: &str) {
        let set = Set { key: "a".to_owned(), value: value.as_bytes().to_vec().into(), if_version: None };
        for _ in 0..30 {
            if self.nodes[1].groups.command(self.id, Command::Set(set.clone())).await.is_ok() {
                return;
            }
        }
        panic!("nobody leads whom the others obey");
    }

    /// A schedule of each minute.
    async fn plan(&self) {
        let job = Box::new(Job::new(needs("echo"), "x"));
        let workflow = Workflow { name: "some".to_owned(), steps: vec![Step::new("a", &[], Action::Task(job))] };
        let schedule = Schedule {
            name: "minutely".to_owned(),
            cron: "* * * * *".to_owned(),
            zone: "UTC".to_owned(),
            missed: Missed::Skip,
            overlap: None,
            workflow,
            input: String::new(),
        };
        let command = Command::Schedule(Box::new(schedule));
        self.nodes[1].groups.command(self.id, command).await.expect("it is planned");
    }

    /// Waits until just after so many full minutes.
    async fn minutes(&self, count: u64) {
        let to_next_ms = MINUTE_MS - self.net.now_ms() % MINUTE_MS;
        tokio::time::sleep(Duration::from_millis(to_next_ms + (count - 1) * MINUTE_MS + AFTER_MS)).await;
    }

    /// How many runs the schedule has begun. The last one is of a time that has come.
    fn runs(&self) -> u64 {
        let looked = self.nodes[1].groups.look(self.id, |state| {
            let known = state.flows().schedules().get("minutely").expect("it is there");
            (known.last_ms, state.flows().runs().iter().filter(|run| run.schedule.is_some()).count())
        });
        let (last_ms, runs) = looked.expect("the group");
        assert!(last_ms.is_none_or(|last_ms| last_ms <= self.net.now_ms()), "{last_ms:?} has not come");
        runs as u64
    }

    /// That no member, but the one whose clock jumped, took an entry of a time that has not come.
    fn assert_times(&self) {
        let most = self.net.now_ms() + AHEAD_MAX_MS;
        for node in &self.nodes[1..] {
            let range = Range::prefix(self.id.as_bytes().as_slice(), 10_000);
            for (_, entry) in node.store.scan(RAFT_LOG, range).expect("it can be read") {
                let entry: EntryRecord = minicbor::decode(&entry).expect("an entry");
                let Payload::Batch(at_ms, _) = entry.payload else { continue };
                assert!(at_ms <= most, "the entry {} is of the time {at_ms}, and it is {most}", entry.at.index);
            }
        }
    }
}

/// P-86, P-103, P-116, P-138
#[tokio::test(start_paused = true)]
async fn a_leader_a_day_ahead_ends_no_lease_and_no_task_and_begins_no_run_before_its_time() {
    let world = World::new().await;
    let World { net, nodes, id, .. } = &world;
    // One works for a minute and a half; of another task, which nobody can do, an hour is left.
    nodes[1].worker.capabilities.lock().expect("no panic").push("slow".to_owned());
    world.submit(Submit { needs: needs("slow"), lease_ms: 600_000, ..echo_task(1, "sleep 90000") }).await;
    let deadline_ms = Some(net.now_ms() + 3_600_000);
    world.submit(Submit { needs: needs("nothing"), deadline_ms, ..echo_task(2, "x") }).await;
    let planned_ms = net.now_ms();
    world.plan().await;
    let state = |number: u32| nodes[1].task(*id, task_id(number), |task| task.state);
    until("it works", || state(1) == State::Working).await;
    world.jump(DAY_MS);
    // The others take nothing of it, until one of them leads.
    world.write("while a clock is ahead").await;
    world.assert_times();
    assert!(matches!(state(1), State::Working | State::Completed), "{}", state(1));
    assert_eq!(state(2), State::Ready);
    world.jump(0);
    nodes[1].completed(*id, &[task_id(1)]).await;
    let begun = nodes.iter().flat_map(|node| node.worker.begun.lock().expect("no panic").clone());
    assert_eq!(begun.filter(|(task, _)| *task == task_id(1)).count(), 1, "its lease was not ended");
    assert_eq!(nodes[1].task(*id, task_id(1), |task| task.attempt), 1);
    world.minutes(2).await;
    let (runs, minutes) = (world.runs(), net.now_ms() / MINUTE_MS - planned_ms / MINUTE_MS);
    assert!((2..=minutes).contains(&runs), "{runs} runs in {minutes} minutes");
    assert_eq!(state(2), State::Ready);
    world.assert_times();
}

/// P-86, P-116, P-138
#[tokio::test(start_paused = true)]
async fn a_leader_a_day_behind_sets_no_time_back_ends_no_lease_and_repeats_no_run() {
    let world = World::new().await;
    let World { net, nodes, id, .. } = &world;
    let deadline_ms = Some(net.now_ms() + 3_600_000);
    world.submit(Submit { needs: needs("nothing"), deadline_ms, ..echo_task(1, "x") }).await;
    world.plan().await;
    world.minutes(1).await;
    assert_eq!(world.runs(), 1);
    let right = world.done(2, "x").await;
    world.jump(-DAY_MS);
    // The lease of two seconds is extended again and again.
    let behind = world.done(3, "sleep 20000").await;
    assert!(nodes[0].leads(*id), "it is obeyed");
    world.minutes(2).await;
    assert_eq!(world.runs(), 1, "a minute of yesterday counts no more");
    world.hand_over(1).await;
    let forward = world.done(4, "x").await;
    assert!(forward + 5_000 > net.now_ms(), "who is right sets the time");
    // Whose clock is a day behind takes nothing of now, and so cannot lead again before its clock is right.
    let refused = nodes[1].groups.transfer(*id, nodes[0].id()).await;
    assert!(matches!(refused, Err(GroupError::Replica(ReplicaError::NotReady(_)))), "{refused:?}");
    world.jump(0);
    world.hand_over(0).await;
    let again = world.done(5, "x").await;
    let times = [right, behind, forward, again];
    assert!(times.is_sorted(), "{times:?}");
    let before = world.runs();
    world.minutes(2).await;
    let runs = world.runs() - before;
    assert!((2..=3).contains(&runs), "each minute counts once, and one that has just passed: {runs}");
    assert_eq!(nodes[1].task(*id, task_id(1), |task| task.state), State::Ready, "its deadline has not come");
}

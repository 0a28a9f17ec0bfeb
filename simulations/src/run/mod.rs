//! Runs a scenario: nodes join, faults happen, and nodes search for agents and call them.

mod calls;
mod interruptions;
mod judge;
mod nodes;
mod owners;
mod questions;
mod reservations;
mod searches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::adversary::{self, Adversary, Target};
use crate::invariant::{Asked, Called, Interrupted, Reserved, Search};
use crate::key;
use crate::mesh::{Node, Owner};
use crate::scenario::{EventKind, Scenario};
use crate::trace::Recorder;
use judge::Judge;
pub use judge::{Outcome, Violation};
use nodes::{Nodes, OWNER, Slot};

/// A node is known to others this long after it joined or restarted.
const SETTLED_MS: u64 = 10_000;
/// Searches and calls whose results wait at one time.
const RESULTS: usize = 1_024;

/// Runs `scenario` with `seed`, in virtual time.
///
/// # Panics
/// When no runtime can be made.
#[must_use]
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread").block_on(async {
        let recorder = Recorder::begin();
        let subscriber =
            tracing_subscriber::registry().with(recorder.clone()).with(tracing_subscriber::filter::LevelFilter::DEBUG);
        let _recording = tracing::subscriber::set_default(subscriber);
        World::new(scenario, seed, recorder).play().await
    })
}

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    Join(u32),
    Event(usize),
    Churn,
    Restart(u32),
    Release(usize),
    Search,
    Call,
    /// Asks for a task again.
    Recall(Box<Called>),
}

/// A search or call that has ended.
enum Ended {
    Search(Search),
    /// The call of that number; `None` when no agent was found.
    Called(u64, Option<Called>),
    Recalled(u64, Called),
    /// With the nodes that took part.
    Asked(u64, Vec<u32>, Asked),
    /// The same.
    Interrupted(u64, Vec<u32>, Interrupted),
    /// With the holder and the host.
    Reserved(u64, [u32; 2], Reserved),
}

struct World<'a> {
    scenario: &'a Scenario,
    seed: u64,
    rng: StdRng,
    begun: Instant,
    nodes: Nodes,
    judge: Judge,
    recorder: Recorder,
    /// When the network was last disturbed.
    fault_ms: Option<u64>,
    adversaries: Vec<Adversary>,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, seed: u64, recorder: Recorder) -> World<'a> {
        World {
            scenario,
            seed,
            rng: StdRng::seed_from_u64(seed),
            begun: Instant::now(),
            nodes: Nodes::new(scenario, seed),
            judge: Judge::new(scenario, seed, recorder.clone()),
            recorder,
            fault_ms: None,
            adversaries: Vec::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn play(mut self) -> Outcome {
        let mut plan = plan(self.scenario);
        let mut order = plan.len();
        let (ended, mut over) = mpsc::channel::<Ended>(RESULTS);
        let end = self.begun + Duration::from_millis(self.scenario.for_ms);
        loop {
            let next = plan.first_key_value().map_or(end, |((at, _), _)| self.begun + Duration::from_millis(*at));
            tokio::select! {
                biased;
                Some(ended) = over.recv() => if let Some((at_ms, step)) = self.end(ended) {
                    order += 1;
                    plan.insert((at_ms, order), step);
                },
                () = sleep_until(next.min(end)) => {
                    let Some(((at_ms, _), step)) = plan.pop_first().filter(|_| next < end) else { break };
                    for (after_ms, step) in self.take(step, &ended).await {
                        order += 1;
                        plan.insert((at_ms + after_ms, order), step);
                    }
                }
            }
        }
        self.judge_stored();
        interruptions::judge_at_rest(&mut self);
        let now_ms = self.now_ms();
        self.judge.finish(now_ms, self.scenario)
    }

    /// Performs a step; gives the later steps that it leads to.
    async fn take(&mut self, step: Step, ended: &mpsc::Sender<Ended>) -> Vec<(u64, Step)> {
        match step {
            Step::Join(number) | Step::Restart(number) => self.join(number).await,
            Step::Event(at) => return self.apply_event(at, ended).await,
            Step::Churn => {
                let back_after_ms = self.scenario.churn.as_ref().map_or(0, |churn| churn.back_after_ms);
                let through = self.scenario.join.through;
                let running =
                    self.nodes.running().into_iter().filter(|number| *number >= through).collect::<Vec<u32>>();
                if let Some(number) = pick(&mut self.rng, &running) {
                    self.crash(number);
                    return vec![(back_after_ms, Step::Restart(number))];
                }
            }
            Step::Release(at) => self.release(at).await,
            Step::Search => self.search(ended.clone()),
            Step::Call => self.call(ended.clone()),
            Step::Recall(called) => self.recall(*called, ended.clone()),
        }
        Vec::new()
    }

    /// Judges a result; gives the step that it leads to, and when.
    fn end(&mut self, ended: Ended) -> Option<(u64, Step)> {
        let now_ms = self.now_ms();
        match ended {
            Ended::Search(search) => self.judge_search(search),
            Ended::Called(number, called) => {
                self.judge.call_ended(now_ms, number);
                return self.judge_call(called?);
            }
            Ended::Recalled(number, called) => {
                self.judge.call_ended(now_ms, number);
                self.judge_recall(called);
            }
            Ended::Asked(number, nodes, asked) => {
                self.judge.call_ended(now_ms, number);
                questions::judge(self, &nodes, asked);
            }
            Ended::Interrupted(number, nodes, interrupted) => {
                self.judge.call_ended(now_ms, number);
                interruptions::judge(self, &nodes, interrupted);
            }
            Ended::Reserved(number, nodes, one) => {
                self.judge.call_ended(now_ms, number);
                reservations::judge(self, &nodes, one);
            }
        }
        None
    }

    /// Has the network had time to heal since it was last disturbed?
    fn is_healed(&self, now_ms: u64) -> bool {
        self.fault_ms.is_none_or(|fault_ms| fault_ms + self.scenario.finds.healed_after_ms <= now_ms)
    }

    /// Has nothing disturbed the network since `began_ms`, and have these nodes been running since?
    fn is_steady(&self, numbers: &[u32], began_ms: u64) -> bool {
        let runs = |slot: &Slot| slot.node.is_some() && slot.since_ms <= began_ms;
        self.fault_ms.is_none_or(|fault_ms| fault_ms < began_ms)
            && numbers.iter().all(|number| runs(self.nodes.slot(*number)))
    }

    /// Do these nodes know each other now, and is nothing between them?
    fn is_settled(&self, numbers: &[u32], now_ms: u64) -> bool {
        let side = |number: &u32| self.nodes.slot(*number).isolated;
        let settled = |slot: &Slot| slot.node.is_some() && slot.since_ms + SETTLED_MS <= now_ms;
        self.is_healed(now_ms)
            && numbers.iter().all(|number| settled(self.nodes.slot(*number)) && side(number) == side(&numbers[0]))
    }

    async fn join(&mut self, number: u32) {
        if self.nodes.slot(number).node.is_some() {
            return;
        }
        let mut setup = self.nodes.setup(number, self.scenario);
        setup.promises = reservations::promises(self.scenario);
        self.nodes.slot_mut(number).promises = setup.promises.clone();
        let node = Node::assemble(&self.nodes.net, setup, self.nodes.slot(number).store.clone()).await;
        self.recorder.note(format_args!("node {number} joins"));
        let id = node.id();
        if let Some(capability) = self.nodes.slot(number).capability.clone() {
            let agent = node.host(&self.nodes.agent_file(number, &capability)).await;
            self.judge.truth.agents.insert(id, agent);
        }
        self.judge.truth.gone_ms.remove(&id);
        let now_ms = self.now_ms();
        self.nodes.on_rejoin(number);
        let slot = self.nodes.slot_mut(number);
        slot.since_ms = now_ms;
        slot.node = Some(node);
        self.nodes.hear_trust(number).await;
    }

    fn crash(&mut self, number: u32) {
        let now_ms = self.now_ms();
        if let Some(node) = self.nodes.slot_mut(number).node.take() {
            self.recorder.note(format_args!("node {number} crashes"));
            self.nodes.net.crash(node.id());
            self.judge.truth.gone_ms.insert(node.id(), now_ms);
        }
    }

    async fn apply_event(&mut self, at: usize, ended: &mpsc::Sender<Ended>) -> Vec<(u64, Step)> {
        let event = self.scenario.at[at].clone();
        self.recorder.note(format_args!("{:?} of {}", event.what, event.share));
        if event.what.is_fault() {
            self.fault_ms = Some(self.now_ms());
        }
        let all = if event.what.is_of_owners() { self.scenario.agents.owners } else { self.scenario.nodes };
        let share = f64::from(all) * event.share;
        let mut all: Vec<u32> = (0..all).collect();
        all.shuffle(&mut self.rng);
        let some: Vec<u32> = all.into_iter().take(share.round() as usize).collect();
        match event.what {
            EventKind::Partition => self.nodes.partition(&some),
            EventKind::Heal => self.nodes.heal(),
            EventKind::Crash => some.into_iter().for_each(|number| self.crash(number)),
            EventKind::Restart => {
                let gone = (0..self.scenario.nodes).filter(|number| self.nodes.slot(*number).node.is_none());
                return gone.enumerate().map(|(at, number)| (at as u64 * 10, Step::Restart(number))).collect();
            }
            EventKind::Skew => {
                for number in some {
                    self.nodes.slot(number).skew_ms.store(event.skew_ms, Ordering::Relaxed);
                }
            }
            EventKind::Rotate => some.into_iter().for_each(|owner| owners::rotate(self, owner)),
            EventKind::Revoke => some.into_iter().for_each(|owner| owners::revoke(self, owner)),
            EventKind::Distrust | EventKind::Trust => {
                for owner in some {
                    owners::set_trust(self, owner, event.what == EventKind::Trust).await;
                }
            }
            EventKind::Ask => some.into_iter().for_each(|number| questions::start(self, number, ended.clone())),
            EventKind::Reserve => some.into_iter().for_each(|number| reservations::start(self, number, ended.clone())),
            EventKind::Interrupt => {
                some.into_iter().for_each(|number| interruptions::start(self, number, ended.clone()))
            }
        }
        Vec::new()
    }

    async fn release(&mut self, at: usize) {
        let of = self.scenario.adversary[at].clone();
        self.recorder.note(format_args!("{} of {} are let loose", of.count, of.is));
        let target = Target {
            net: self.nodes.net.clone(),
            through: (0..self.scenario.join.through).map(|number| key(number + 1).public()).collect(),
            capabilities: self.nodes.slots.iter().filter_map(|slot| slot.capability.clone()).collect(),
            honest: (0..self.scenario.nodes).map(|number| key(number + 1).public()).collect(),
            clock: self.nodes.net.clock(),
            seed: self.seed,
            retired: (0..self.scenario.agents.owners)
                .filter(|owner| self.nodes.owners[*owner as usize].log.len() > 1)
                .map(|owner| Owner::new(key(OWNER + owner)))
                .collect(),
            own: Arc::default(),
        };
        let released = adversary::release(&of.is, &target, of.count, (of.addresses, of.networks)).await;
        self.judge.truth.agents.extend(released.iter().flat_map(|adversary| adversary.agents.clone()));
        self.adversaries.extend(released);
    }
}

/// The steps that are known beforehand, in order.
fn plan(scenario: &Scenario) -> BTreeMap<(u64, usize), Step> {
    let mut steps: Vec<(u64, Step)> = Vec::new();
    steps.extend((0..scenario.nodes).map(|number| (u64::from(number) * scenario.join.every_ms, Step::Join(number))));
    steps.extend(scenario.at.iter().enumerate().map(|(at, event)| (event.ms, Step::Event(at))));
    steps.extend(scenario.adversary.iter().enumerate().map(|(at, of)| (of.from_ms, Step::Release(at))));
    if let Some(churn) = &scenario.churn {
        let times = (churn.from_ms..churn.until_ms).step_by(usize::try_from(churn.every_ms).unwrap_or(1));
        steps.extend(times.map(|at| (at, Step::Churn)));
    }
    let every = usize::try_from(scenario.finds.every_ms).unwrap_or(1);
    steps.extend((scenario.finds.from_ms..scenario.for_ms).step_by(every).map(|at| (at, Step::Search)));
    if let Some(calls) = &scenario.calls {
        let every = usize::try_from(calls.every_ms).unwrap_or(1);
        steps.extend((calls.from_ms..scenario.for_ms).step_by(every).map(|at| (at, Step::Call)));
    }
    steps.into_iter().enumerate().map(|(order, (at, step))| ((at, order), step)).collect()
}

fn pick(rng: &mut StdRng, among: &[u32]) -> Option<u32> {
    if among.is_empty() { None } else { Some(among[rng.random_range(0..among.len())]) }
}

//! Runs a scenario: nodes join, faults happen, somebody looks for something, and calls it, again and again.

mod calls;
mod looks;
mod owners;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use althing_communication::WallClock;
use althing_discovery::{Bounds, DiscoveryConfig};
use althing_protocol::{CallerId, PublicKey};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::MemoryStore;
use althing_td::AgentFile;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::adversary::{self, Loose, Target};
use crate::invariant::{self, Called, Invariant, Look, Truth};
use crate::mesh::{Node, Owner, Setup, file, store};
use crate::scenario::{Happening, Scenario};
use crate::trace::{Recorder, Trace};
use crate::{NETWORK, NOW_MS, key};

/// A node is known to others this long after it came, or came back.
const SETTLED_MS: u64 = 10_000;
/// Looks that are under way at one time.
const LOOKS: usize = 1_024;
/// The first owner of honest nodes.
const OWNER: u32 = 900_000;

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Finds that ended.
    pub finds: usize,
    /// Those that had something to find.
    pub findable: usize,
    /// Those of them that found it.
    pub found: usize,
    /// Agents of adversaries that were shown.
    pub of_adversaries: usize,
    /// How long finds took that found what they should, milliseconds of virtual time, the shortest first.
    pub took_ms: Vec<u64>,
    /// Tasks that were acknowledged.
    pub tasks: usize,
    /// Those that were asked for again.
    pub recalled: usize,
    /// Those of them that were there.
    pub kept: usize,
    /// Calls that nothing was in the way of, and tasks that were asked for again so.
    pub calm_calls: [usize; 2],
    /// Values that honest nodes kept for others at the end, each of which was looked at.
    pub values: usize,
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// What was decided.
    pub trace: Trace,
}

/// An invariant that did not hold.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// When, milliseconds.
    pub at_ms: u64,
    /// How.
    pub what: String,
}

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

/// A place for a node, which comes and goes.
struct Place {
    node: Option<Node>,
    store: Arc<MemoryStore>,
    capability: Option<String>,
    since_ms: u64,
    away: bool,
    skew_ms: Arc<AtomicI64>,
}

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    Join(u32),
    Happen(usize),
    Churn,
    Back(u32),
    Release(usize),
    Look,
    Call,
    /// A task is asked for again.
    Recall(Box<Called>),
}

/// Something that took a while is over.
enum Ended {
    Look(Look),
    /// The call of that number; nothing when nobody was found to call.
    Called(u64, Option<Called>),
    Recalled(u64, Called),
}

struct World<'a> {
    scenario: &'a Scenario,
    seed: u64,
    net: SimNet,
    rng: StdRng,
    begun: Instant,
    places: Vec<Place>,
    owners: Vec<Owner>,
    truth: Truth,
    invariants: Vec<Box<dyn Invariant>>,
    recorder: Recorder,
    /// When the network was disturbed last.
    fault_ms: Option<u64>,
    partitioned: bool,
    loose: Vec<Loose>,
    /// Calls that have not ended, and when they began.
    calling: BTreeMap<u64, u64>,
    /// How many calls there were.
    calls: u64,
    outcome: Outcome,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, seed: u64, recorder: Recorder) -> World<'a> {
        let link = &scenario.link;
        let config = LinkConfig {
            latency: Duration::from_millis(link.latency_ms),
            jitter: Duration::from_millis(link.jitter_ms),
            loss: link.loss,
            retransmit: Duration::from_millis(link.retransmit_ms),
            dead_after: Duration::from_millis(link.dead_after_ms),
        };
        let place = |number: u32| Place {
            node: None,
            store: store(),
            capability: number
                .is_multiple_of(scenario.agents.each)
                .then(|| format!("doing.thing-{}", number / scenario.agents.each % scenario.agents.capabilities)),
            since_ms: 0,
            away: false,
            skew_ms: Arc::default(),
        };
        let outcome = Outcome {
            seed,
            finds: 0,
            findable: 0,
            found: 0,
            of_adversaries: 0,
            took_ms: Vec::new(),
            tasks: 0,
            recalled: 0,
            kept: 0,
            calm_calls: [0, 0],
            values: 0,
            violations: Vec::new(),
            trace: Trace::default(),
        };
        World {
            scenario,
            seed,
            net: SimNet::new(seed, config).named(NETWORK, NOW_MS),
            rng: StdRng::seed_from_u64(seed),
            begun: Instant::now(),
            places: (0..scenario.nodes).map(place).collect(),
            owners: (0..scenario.agents.owners).map(|number| Owner::new(key(OWNER + number))).collect(),
            truth: Truth::default(),
            invariants: invariant::named(&scenario.invariants),
            recorder,
            fault_ms: None,
            partitioned: false,
            loose: Vec::new(),
            calling: BTreeMap::new(),
            calls: 0,
            outcome,
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Everything that is known beforehand, in order.
    fn plan(&self) -> BTreeMap<(u64, usize), Step> {
        let scenario = self.scenario;
        let mut steps: Vec<(u64, Step)> = Vec::new();
        steps
            .extend((0..scenario.nodes).map(|number| (u64::from(number) * scenario.join.every_ms, Step::Join(number))));
        steps.extend(scenario.at.iter().enumerate().map(|(at, happening)| (happening.ms, Step::Happen(at))));
        steps.extend(scenario.adversary.iter().enumerate().map(|(at, of)| (of.from_ms, Step::Release(at))));
        if let Some(churn) = &scenario.churn {
            let times = (churn.from_ms..churn.until_ms).step_by(usize::try_from(churn.every_ms).unwrap_or(1));
            steps.extend(times.map(|at| (at, Step::Churn)));
        }
        let every = usize::try_from(scenario.finds.every_ms).unwrap_or(1);
        steps.extend((scenario.finds.from_ms..scenario.for_ms).step_by(every).map(|at| (at, Step::Look)));
        if let Some(calls) = &scenario.calls {
            let every = usize::try_from(calls.every_ms).unwrap_or(1);
            steps.extend((calls.from_ms..scenario.for_ms).step_by(every).map(|at| (at, Step::Call)));
        }
        steps.into_iter().enumerate().map(|(order, (at, step))| ((at, order), step)).collect()
    }

    async fn play(mut self) -> Outcome {
        let mut plan = self.plan();
        let mut order = plan.len();
        let (ended, mut over) = mpsc::channel::<Ended>(LOOKS);
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
        self.judge_stuck();
        self.judge_kept();
        self.outcome.took_ms.sort_unstable();
        let (found, wanted) = (self.outcome.found as f64, self.scenario.finds.share * self.outcome.findable as f64);
        if found < wanted {
            let what =
                format!("{found} of {} finds found what is there; {:.0} should", self.outcome.findable, wanted.ceil());
            self.outcome.violations.push(Violation { invariant: "finds.share", at_ms: self.scenario.for_ms, what });
        }
        self.outcome.trace = self.recorder.trace();
        self.outcome
    }

    /// Does a step; gives what it leads to later.
    async fn take(&mut self, step: Step, ended: &mpsc::Sender<Ended>) -> Vec<(u64, Step)> {
        match step {
            Step::Join(number) | Step::Back(number) => self.join(number).await,
            Step::Happen(at) => return self.happen(at),
            Step::Churn => {
                let back_after_ms = self.scenario.churn.as_ref().map_or(0, |churn| churn.back_after_ms);
                let through = self.scenario.join.through;
                let there = self.there().into_iter().filter(|number| *number >= through).collect::<Vec<u32>>();
                if let Some(number) = pick(&mut self.rng, &there) {
                    self.crash(number);
                    return vec![(back_after_ms, Step::Back(number))];
                }
            }
            Step::Release(at) => self.release(at).await,
            Step::Look => self.look(ended.clone()),
            Step::Call => self.call(ended.clone()),
            Step::Recall(called) => self.recall(*called, ended.clone()),
        }
        Vec::new()
    }

    /// Something is over; gives what it leads to, and when.
    fn end(&mut self, ended: Ended) -> Option<(u64, Step)> {
        match ended {
            Ended::Look(look) => self.judge(look),
            Ended::Called(number, called) => {
                self.calling.remove(&number);
                return self.judge_call(called?);
            }
            Ended::Recalled(number, called) => {
                self.calling.remove(&number);
                self.judge_recall(&called);
            }
        }
        None
    }

    /// Had the network time enough since it was disturbed?
    fn calm(&self, now_ms: u64) -> bool {
        self.fault_ms.is_none_or(|fault_ms| fault_ms + self.scenario.finds.healed_after_ms <= now_ms)
    }

    /// Asks each invariant.
    fn check(&mut self, at_ms: u64, holds: impl Fn(&mut dyn Invariant, &Truth) -> Result<(), String>) {
        for invariant in &mut self.invariants {
            if let Err(what) = holds(invariant.as_mut(), &self.truth) {
                self.recorder.note(format_args!("{} is broken: {what}", invariant.name()));
                self.outcome.violations.push(Violation { invariant: invariant.name(), at_ms, what });
            }
        }
    }

    fn there(&self) -> Vec<u32> {
        let numbered = (0..self.scenario.nodes).zip(&self.places);
        numbered.filter(|(_, place)| place.node.is_some()).map(|(number, _)| number).collect()
    }

    fn place(&self, number: u32) -> &Place {
        &self.places[usize::try_from(number).expect("a small number")]
    }

    fn place_mut(&mut self, number: u32) -> &mut Place {
        &mut self.places[usize::try_from(number).expect("a small number")]
    }

    async fn join(&mut self, number: u32) {
        if self.place(number).node.is_some() {
            return;
        }
        let mut setup = Setup::new(&self.net, number + 1, OWNER);
        setup.owner = self.owners[self.owner_of(number)].clone();
        setup.trusted = self.owners.iter().map(|owner| CallerId::Publisher(owner.id())).collect();
        let through = self.scenario.join.through;
        let known: Vec<u32> = (0..through).filter(|known| *known != number).collect();
        // A node knows all of the first ones, as its configuration names them.
        let address = |known: u32| format!("sim:{}", key(known + 1).public());
        setup.discovery = DiscoveryConfig {
            bootstrap: known.into_iter().map(address).collect(),
            push_peers_max: PUSH_PEERS,
            bounds: Bounds { bytes: self.scenario.catalogue.bytes, ..Bounds::for_nodes(self.scenario.catalogue.nodes) },
            ..DiscoveryConfig::default()
        };
        let (clock, skew) = (self.net.clock(), self.place(number).skew_ms.clone());
        setup.clock = WallClock::new(move || clock.now_ms().saturating_add_signed(skew.load(Ordering::Relaxed)));
        let node = Node::assemble(&self.net, setup, self.place(number).store.clone()).await;
        self.recorder.note(format_args!("node {number} joins"));
        let id = node.id();
        if let Some(capability) = self.place(number).capability.clone() {
            let agent = node.host(&agent_file(number, &capability)).await;
            self.truth.agents.insert(id, agent);
        }
        self.truth.gone_ms.remove(&id);
        let now_ms = self.now_ms();
        let away = self.place(number).away;
        if self.partitioned {
            self.cut_off(number, away);
        }
        let place = self.place_mut(number);
        place.since_ms = now_ms;
        place.node = Some(node);
    }

    fn crash(&mut self, number: u32) {
        let now_ms = self.now_ms();
        if let Some(node) = self.place_mut(number).node.take() {
            self.recorder.note(format_args!("node {number} crashes"));
            self.net.crash(node.id());
            self.truth.gone_ms.insert(node.id(), now_ms);
        }
    }

    fn happen(&mut self, at: usize) -> Vec<(u64, Step)> {
        let happening = self.scenario.at[at].clone();
        self.recorder.note(format_args!("{:?} of {}", happening.what, happening.share));
        self.fault_ms = Some(self.now_ms());
        let of_owners = matches!(happening.what, Happening::Rotate | Happening::Revoke);
        let all = if of_owners { self.scenario.agents.owners } else { self.scenario.nodes };
        let share = f64::from(all) * happening.share;
        let mut all: Vec<u32> = (0..all).collect();
        all.shuffle(&mut self.rng);
        let some: Vec<u32> = all.into_iter().take(share.round() as usize).collect();
        match happening.what {
            Happening::Partition => {
                self.partitioned = true;
                for number in &some {
                    self.place_mut(*number).away = true;
                }
                for number in &some {
                    self.cut_off(*number, true);
                }
            }
            Happening::Heal => {
                self.partitioned = false;
                self.net.heal_all();
                self.places.iter_mut().for_each(|place| place.away = false);
            }
            Happening::Crash => some.into_iter().for_each(|number| self.crash(number)),
            Happening::Restart => {
                let gone = (0..self.scenario.nodes).filter(|number| self.place(*number).node.is_none());
                return gone.enumerate().map(|(at, number)| (at as u64 * 10, Step::Back(number))).collect();
            }
            Happening::Skew => {
                for number in some {
                    self.place(number).skew_ms.store(happening.skew_ms, Ordering::Relaxed);
                }
            }
            Happening::Rotate => some.into_iter().for_each(|owner| self.rotate(owner)),
            Happening::Revoke => some.into_iter().for_each(|owner| self.revoke(owner)),
        }
        Vec::new()
    }

    /// Cuts a node's links to all that are on the other side.
    fn cut_off(&self, number: u32, away: bool) {
        for other in 0..self.scenario.nodes {
            if self.place(other).away != away {
                self.net.cut(key(number + 1).public(), key(other + 1).public());
            }
        }
    }

    async fn release(&mut self, at: usize) {
        let of = self.scenario.adversary[at].clone();
        self.recorder.note(format_args!("{} of {} are let loose", of.count, of.is));
        let target = Target {
            net: self.net.clone(),
            through: (0..self.scenario.join.through).map(|number| key(number + 1).public()).collect(),
            capabilities: self.places.iter().filter_map(|place| place.capability.clone()).collect(),
            honest: (0..self.scenario.nodes).map(|number| key(number + 1).public()).collect(),
            clock: self.net.clock(),
            seed: self.seed,
            given_up: (0..self.scenario.agents.owners)
                .filter(|owner| self.owners[*owner as usize].log.len() > 1)
                .map(|owner| Owner::new(key(OWNER + owner)))
                .collect(),
            own: Arc::default(),
        };
        let loose = adversary::release(&of.is, &target, of.count, (of.addresses, of.networks)).await;
        self.truth.agents.extend(loose.iter().flat_map(|loose| loose.agents.clone()));
        self.loose.extend(loose);
    }

    /// Who has `capability`, came long enough ago, and is on the seeker's side.
    fn living(&self, seeker: u32, capability: &str) -> Vec<PublicKey> {
        let (now_ms, away) = (self.now_ms(), self.place(seeker).away);
        let settled = |place: &&Place| place.since_ms + SETTLED_MS <= now_ms && place.away == away;
        let has = self.places.iter().filter(|place| place.capability.as_deref() == Some(capability)).filter(settled);
        let nodes = has.filter_map(|place| place.node.as_ref());
        nodes.filter(|node| !self.truth.revoked_ms.contains_key(&node.owner.id())).map(Node::id).collect()
    }
}

/// What the node of a number hosts.
fn agent_file(number: u32, capability: &str) -> AgentFile {
    file(&format!("agent-{number}"), "does its thing", capability, "do", capability)
}

/// Peers that a simulated node pushes its placement to: fewer than a real one, since a thousand of them share a
/// processor; so that more is found through the table.
const PUSH_PEERS: usize = 4;

fn pick(rng: &mut StdRng, among: &[u32]) -> Option<u32> {
    if among.is_empty() { None } else { Some(among[rng.random_range(0..among.len())]) }
}

//! The lives of a simulated node, one after another on one disk, and its client, who sends the messages of the plan and reads the
//! tasks all the time. The owner of the node looks what became of calls in doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use a2a::{GetTaskRequest, SendMessageRequest};
use althing_calls::{
    CallMetadata, Decision, HostedAgent, Principal, Priority, Reply, Resolution, SessionState, Signer,
};
use althing_communication::{CallerRule, WallClock};
use althing_execution::process::ProcessConfig;
use althing_execution::{Agent, Builtins, Host, Ports, SystemCalls};
use althing_protocol::{AgentRef, CallerId, Label, PublisherId};
use althing_session::{Recheck, Scope, Sessions, Standing, TaskService};
use althing_td::AgentFile;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::adversary;
use super::disk::Disk;
use super::evidence::{Event, View};
use super::plan::{LifeEnd, Moment};
use super::worker::Worker;
use super::world::Surroundings;
use crate::{NETWORK, NOW_MS, entropy, key};

/// How often the client reads.
const TICK: Duration = Duration::from_millis(10);
/// How often in one life, at most.
const TICKS_MAX: u32 = 1_000;
/// So many ticks after a doubt was told, the owner of the node says what came of the call.
const OWNER_TICKS: u32 = 3;
const AGENT: &str = "worker";
const VERSION: &str = "1.0.0";

/// Lives all lives of the plan.
pub(super) fn live_all(world: &Arc<Surroundings>, seed: u64) {
    let (mut disk, mut at_ms, mut rng) = (Disk::new(world.flaw.clone()), 0, StdRng::seed_from_u64(seed));
    let loose = world.plan.adversary.and_then(adversary::named);
    let ends = world.plan.ends.iter().copied().map(Some).chain([None]);
    for (number, end) in (0..).zip(ends) {
        at_ms += live(world, &disk, (seed, number, at_ms), end);
        let Some(end) = end else { return };
        world.note(Event::LifeEnd(end.loss));
        disk = disk.after(end.loss);
        if let Some(loose) = loose {
            loose.strike(world, &disk, &mut rng);
        }
    }
}

/// One life; gives how long it was, milliseconds. Whatever runs yet at its end is dropped with its runtime.
fn live(world: &Arc<Surroundings>, disk: &Disk, (seed, number, at_ms): (u64, u64, u64), end: Option<LifeEnd>) -> u64 {
    disk.expect(end.map(|end| end.at));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread");
    let lived = runtime.block_on(async {
        let begun = Instant::now();
        let timely = async {
            match end.map(|end| end.at) {
                Some(Moment::Time(ms)) => sleep(Duration::from_millis(ms)).await,
                Some(Moment::Write { .. }) | None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = disk.ended() => {}
            () = timely => {}
            () = Box::pin(script(world, disk, (seed, number, at_ms))) => {}
        }
        begun.elapsed()
    });
    u64::try_from(lived.as_millis()).unwrap_or(u64::MAX)
}

async fn script(world: &Arc<Surroundings>, disk: &Disk, (seed, number, at_ms): (u64, u64, u64)) {
    let begun = Instant::now();
    let elapsed_ms = move || at_ms + u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let clock = WallClock::new(move || NOW_MS + elapsed_ms());
    let entropy = entropy(seed.wrapping_mul(31).wrapping_add(number));
    let signer = Signer { key: key(1), network: NETWORK.into() };
    let host = Arc::new(host(world.number));
    let opened = TaskService::open(Arc::new(disk.clone()), host, scope(), signer, clock, entropy).await;
    let tasks = opened.expect("a disk that can be read");
    let sessions = Sessions::of(&tasks);
    let mut client = Client { world, tasks, sessions, agent: agent(), told: BTreeMap::new(), over: BTreeSet::new() };
    client.sessions.resume(&client.agent, recheck());
    sleep(Duration::from_millis(1)).await;
    for _ in 0..TICKS_MAX {
        client.tick(elapsed_ms()).await;
        if client.over.len() == world.plan.turns.len() {
            return;
        }
        sleep(TICK).await;
    }
}

/// A host with the one agent.
fn host(world: u64) -> Host {
    let mut builtins = Builtins::new();
    builtins.insert(AGENT, worker);
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(Ports { owner: owner(), ..Ports::none() });
    let file = json!({
        "name": AGENT,
        "version": VERSION,
        "description": "Makes calls",
        "runtime": { "native": { "builtin": AGENT, "config": { "world": world } } },
        "contract": { "class": { "latency": "srt" } },
    });
    let file = AgentFile::parse(&file.to_string()).expect("an agent file");
    host.start(&file, Path::new("/")).expect("it starts");
    host
}

fn worker(config: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    let world = config["world"].as_u64().and_then(Surroundings::find);
    Ok(Arc::new(Worker(world.ok_or("there is no such world")?)))
}

fn owner() -> PublisherId {
    PublisherId::from_digest([1; 32])
}

fn scope() -> Scope {
    Scope::of(CallerId::Publisher(owner()))
}

fn agent() -> HostedAgent {
    HostedAgent {
        agent: AgentRef::new(owner(), AGENT, VERSION).expect("a name"),
        callers: CallerRule::Anyone,
        input_modes: Vec::new(),
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    }
}

/// Its callers may still call it.
fn recheck() -> Recheck {
    Arc::new(|_: Standing| -> BoxFuture<'static, Decision> { std::future::ready(Decision::Allow).boxed() })
}

/// The client, in one life of the node.
struct Client<'a> {
    world: &'a Surroundings,
    tasks: TaskService,
    sessions: Sessions,
    agent: HostedAgent,
    /// The calls of which it read that they are in doubt, and for how many ticks.
    told: BTreeMap<(usize, u32), u32>,
    /// The turns that are over, or whose tasks are not there.
    over: BTreeSet<usize>,
}

impl Client<'_> {
    async fn tick(&mut self, now_ms: u64) {
        for turn in 0..self.world.plan.turns.len() {
            if self.over.contains(&turn) {
                continue;
            }
            match self.task_of(turn) {
                Some(task) => {
                    self.take_doubt_away(turn, &task).await;
                    self.look(turn, &task);
                    self.settle(turn, &task).await;
                }
                None if now_ms >= self.world.plan.turns[turn].at_ms => self.send(turn).await,
                None => {}
            }
        }
    }

    /// The task with which a turn was acknowledged.
    fn task_of(&self, turn: usize) -> Option<String> {
        self.world.evidence().events.iter().find_map(|event| match event {
            Event::Acknowledgement { turn: of, task } if *of == turn => Some(task.clone()),
            _ => None,
        })
    }

    async fn send(&self, turn: usize) {
        let id = format!("message-{turn}");
        let parts = json!([{ "text": turn.to_string() }]);
        let message = json!({ "messageId": id, "contextId": "context", "role": "ROLE_USER", "parts": parts });
        let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
        let request: SendMessageRequest = serde_json::from_value(params).expect("a message");
        if let Ok(Reply::One(answer)) = self.tasks.send(&self.agent, scope(), request, &call(), None).await
            && let Some(task) = parsed(&answer)["task"]["id"].as_str()
        {
            self.world.note(Event::Acknowledgement { turn, task: task.to_owned() });
        }
    }

    /// Reads a task, and writes down what is new.
    fn look(&mut self, turn: usize, task: &str) {
        let request: GetTaskRequest = serde_json::from_value(json!({ "id": task })).expect("a request");
        let call = call();
        let Ok(Reply::One(answer)) = self.tasks.get(&self.agent, scope(), &request, &call) else {
            self.world.note(Event::Absence { turn });
            self.over.insert(turn);
            return;
        };
        let seen = view(&parsed(&answer), call.answer.label());
        for doubt in self.doubts(task) {
            if seen.text.contains("IN_DOUBT") && seen.text.contains(&format!("step {doubt},")) {
                *self.told.entry((turn, doubt)).or_insert(0) += 1;
                let event = Event::Doubt { turn, step: doubt as usize };
                if !self.world.evidence().events.contains(&event) {
                    self.world.note(event);
                }
            }
        }
        if seen.is_end() {
            self.over.insert(turn);
        }
        let is_new = self.world.evidence().last(turn) != Some(&seen);
        if is_new {
            self.world.note(Event::Look { turn, seen });
        }
    }

    /// The calls of a task that are in doubt.
    fn doubts(&self, task: &str) -> Vec<u32> {
        let all = self.sessions.list().into_iter();
        let own = all.filter(|session| session.task == task && session.state == SessionState::InDoubt);
        own.flat_map(|session| session.doubts).map(|doubt| doubt.seq).collect()
    }

    /// What a node does that is not as it should be: it says itself what came of calls.
    async fn take_doubt_away(&self, turn: usize, task: &str) {
        if let Some(how) = self.world.flaw.settles() {
            for doubt in self.doubts(task) {
                self.say((turn, task), doubt, how.clone()).await;
            }
        }
    }

    /// The owner of the node says what came of calls that were told long enough ago.
    async fn settle(&self, turn: usize, task: &str) {
        for doubt in self.doubts(task) {
            if self.told.get(&(turn, doubt)).is_none_or(|ticks| *ticks < OWNER_TICKS) {
                continue;
            }
            let how = match self.world.answered(turn, doubt as usize) {
                _ if self.world.plan.gives_up => Resolution::Failed,
                Some(answer) => Resolution::Done(answer),
                None => Resolution::Again,
            };
            self.say((turn, task), doubt, how).await;
        }
    }

    async fn say(&self, (turn, task): (usize, &str), seq: u32, how: Resolution) {
        // Before that: it may be on disk when nobody hears of it any more.
        let is_result = matches!(how, Resolution::Done(_));
        self.world.note(Event::Settlement { turn, step: seq as usize, is_result });
        // What is refused is said again at the next tick.
        let _ = self.sessions.settle(task, seq, how, &Principal::Local).await;
    }
}

fn call() -> CallMetadata {
    CallMetadata { principals: vec![Principal::Local], ..CallMetadata::default() }
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("JSON")
}

fn view(task: &Value, label: Option<Label>) -> View {
    let status = &task["status"];
    View {
        state: status["state"].as_str().unwrap_or_default().to_owned(),
        text: status["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned(),
        answer: task["artifacts"][0]["parts"][0]["data"].clone(),
        label,
    }
}

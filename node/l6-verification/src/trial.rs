//! The journal of a turn in a test. By default it is a tape, and nothing outside is asked. A live one asks models, and tools that
//! change nothing, with what the node itself tells an agent of its memory and of other agents; of others only those of the servers
//! that are named as test servers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::is_check;
use althing_execution::journal::{
    Effect, Intent, Journal, JournalError, NextStep, Replay, Step, StepOutcome, is_own_read,
};
use althing_execution::tools::{CallKind, Denied, GateVerdict};
use althing_protocol::digest;
use althing_store::{Batch, Durability, Store};
use futures::future::BoxFuture;

use crate::machine::model_cost::ModelCost;
use crate::machine::tape::Playback;
use crate::player::Player;

/// The journal of one turn in a test. It is never resumed.
pub struct Trial {
    source: Source,
    notes: Mutex<TrialNotes>,
}

enum Source {
    Tape(Box<Player>),
    Now(DryRun),
}

/// What a turn in a test asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialNotes {
    /// The tools that it called, as `server/tool`, in their order, also those that it was denied or that are not on its tape; not
    /// those by which its contract checks what it makes.
    pub tools: Vec<String>,
    /// Tokens of all that it was told.
    pub tokens: u64,
    /// What its models cost.
    pub cost: ModelCost,
    /// Calls that it was denied, as they may change something, or as nobody is asked about them.
    pub denied: u64,
    /// The tools of these, as `server/tool`, in their order.
    pub denied_tools: Vec<String>,
    /// Why the first of these was.
    pub denial: Option<String>,
}

impl Trial {
    /// Of a turn that is told what a tape has.
    #[must_use]
    pub fn taped(player: Player) -> Trial {
        Trial { source: Source::Tape(Box::new(player)), notes: Mutex::default() }
    }

    /// Of a turn that asks for real. `servers` are those whose tools may have effects; `store` is where the rows of gates go; keys of
    /// calls are made of `seed`, which no other turn has.
    #[must_use]
    pub fn live(store: Arc<dyn Store>, servers: BTreeSet<String>, seed: [u8; 32]) -> Trial {
        let steps = AtomicU32::new(0);
        Trial { source: Source::Now(DryRun { store, servers, seed, steps }), notes: Mutex::default() }
    }

    /// What its turn asked by now.
    #[must_use]
    pub fn notes(&self) -> TrialNotes {
        self.noted().clone()
    }

    /// How far its tape was played by now; none of a live one.
    #[must_use]
    pub fn playback(&self) -> Option<Playback> {
        match &self.source {
            Source::Tape(player) => Some(player.playback()),
            Source::Now(_) => None,
        }
    }

    fn noted(&self) -> MutexGuard<'_, TrialNotes> {
        self.notes.lock().expect("no holder of the notes panics")
    }

    fn count(&self, outcome: &StepOutcome) {
        let mut notes = self.noted();
        notes.tokens = notes.tokens.saturating_add(outcome.tokens);
        // Only models have tokens, and a completion tells what a million of them cost.
        let price = outcome.result.as_ref().ok().and_then(|result| result["price"].as_u64());
        notes.cost.add(outcome.tokens, price);
    }
}

impl Journal for Trial {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        if step.kind == CallKind::Tool && !is_check() {
            self.noted().tools.push(step.name.to_owned());
        }
        Box::pin(async move {
            match &self.source {
                Source::Tape(player) => {
                    let next = player.step(step).await?;
                    if let NextStep::Replayed(outcome) = &next {
                        self.count(outcome);
                    }
                    Ok(next)
                }
                Source::Now(run) => {
                    let tool = (step.kind == CallKind::Tool).then_some(step.name);
                    let next = run.permit(step).await?;
                    if let NextStep::Denied(denied) = &next {
                        let mut notes = self.noted();
                        notes.denied = notes.denied.saturating_add(1);
                        notes.denied_tools.extend(tool.map(str::to_owned));
                        notes.denial.get_or_insert_with(|| denied.reason.clone());
                    }
                    Ok(next)
                }
            }
        })
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        rows: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            match &self.source {
                Source::Tape(player) => player.done(intent, outcome, rows).await,
                Source::Now(run) => {
                    self.count(outcome);
                    run.write(rows).await
                }
            }
        })
    }

    // No gate is asked about what comes later: a tape needs none, and a live turn calls less than it wants.
    fn ahead(&self) -> BoxFuture<'_, usize> {
        Box::pin(std::future::ready(usize::MAX))
    }

    fn replay(&self) -> Option<&dyn Replay> {
        match &self.source {
            Source::Tape(player) => player.replay(),
            Source::Now(_) => None,
        }
    }

    fn asks_nobody(&self) -> bool {
        true
    }

    fn refuse_answer(&self, name: &str, whose: &str) -> Option<JournalError> {
        match &self.source {
            Source::Tape(player) => player.refuse_answer(name, whose),
            Source::Now(_) => None,
        }
    }

    fn is_tape(&self) -> bool {
        matches!(self.source, Source::Tape(_))
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("is_tape", &self.is_tape()).finish_non_exhaustive()
    }
}

/// Lets a turn ask what changes nothing, and denies it the rest.
struct DryRun {
    store: Arc<dyn Store>,
    servers: BTreeSet<String>,
    seed: [u8; 32],
    /// How many steps were permitted.
    steps: AtomicU32,
}

impl DryRun {
    async fn permit(&self, mut step: Step<'_>) -> Result<NextStep, JournalError> {
        let server = step.name.split_once('/').map_or("", |(server, _)| server);
        // By its effect too: a server of somebody else that has the name of one of the node says nothing about what it does.
        let is_read = step.effect == Effect::Repeatable && is_own_read(step.name);
        let has_effect = step.kind == CallKind::Tool && step.effect != Effect::None && !is_read;
        if has_effect && !self.servers.contains(server) {
            let name = step.name;
            let reason =
                format!("this is a test, {name} may change something, and {server} is not named as a test server");
            return Ok(NextStep::Denied(Denied { reason }));
        }
        let mut permit = match step.rule().await {
            GateVerdict::Permit(permit) => permit,
            GateVerdict::Deny(denied) => return Ok(NextStep::Denied(denied)),
            GateVerdict::Ask(ask) => {
                let reason = format!("this is a test, which waits for nobody: {}", ask.to);
                return Ok(NextStep::Denied(Denied { reason }));
            }
        };
        let callee = match step.callee {
            Some(callee) => callee.await,
            None => None,
        };
        self.write(std::mem::take(&mut permit.rows)).await?;
        let seq = self.steps.fetch_add(1, Ordering::Relaxed);
        let key = digest(&[&self.seed[..], &seq.to_be_bytes()].concat());
        Ok(NextStep::Go(Intent { seq, key, callee }, permit))
    }

    /// Writes what gates say of a call: before it is made, and what came of it.
    async fn write(&self, rows: Batch) -> Result<(), JournalError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.store.write(rows, Durability::Synced).await.map_err(|error| {
            tracing::error!(%error, "what was decided on a call cannot be written");
            JournalError::Write
        })
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::tools::{Ask, Permit};
    use althing_store::MemoryStore;
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::tape::Tape;
    use crate::machine::tape::tests::{heard, turn};

    fn step<'a>(name: &'a str, effect: Effect, arguments: &'a Value, gate: Option<GateVerdict>) -> Step<'a> {
        let gate = gate.map(|verdict| -> BoxFuture<'a, GateVerdict> { Box::pin(std::future::ready(verdict)) });
        Step { kind: CallKind::Tool, name, arguments, effect, callee: None, gate, meanwhile: None }
    }

    fn live(servers: &[&str]) -> Trial {
        let servers = servers.iter().map(ToString::to_string).collect();
        Trial::live(Arc::new(MemoryStore::new(&[])), servers, [7; 32])
    }

    #[test]
    fn a_live_turn_calls_what_changes_nothing_and_what_test_servers_have() {
        futures::executor::block_on(async {
            let (trial, arguments) = (live(&["desk"]), json!({}));
            let ask = async |name: &str, effect: Effect, gate: Option<GateVerdict>| {
                trial.step(step(name, effect, &arguments, gate)).await.expect("it is answered")
            };
            assert!(matches!(ask("mail/read", Effect::None, None).await, NextStep::Go(..)));
            for effect in [Effect::Repeatable, Effect::Keyed, Effect::Final] {
                let NextStep::Denied(denied) = ask("mail/send", effect, None).await else { panic!("{effect:?}") };
                assert!(denied.reason.contains("mail is not named as a test server"), "{denied}");
                assert!(matches!(ask("desk/book", effect, None).await, NextStep::Go(..)));
            }
            let no = GateVerdict::Deny(Denied { reason: "by a policy".to_owned() });
            assert!(matches!(ask("desk/book", Effect::Final, Some(no)).await, NextStep::Denied(_)));
            let asked = Ask { id: String::new(), to: "maria".to_owned(), answered: Box::pin(std::future::pending()) };
            let NextStep::Denied(denied) = ask("mail/read", Effect::None, Some(GateVerdict::Ask(asked))).await else {
                panic!("a test waits for nobody")
            };
            assert!(denied.reason.ends_with("maria"), "{denied}");
            assert_eq!(trial.notes().denied, 5);
            assert!(trial.notes().denial.is_some_and(|why| why.contains("mail is not named as a test server")));
            assert!(trial.asks_nobody());
            let names = trial.notes().tools;
            assert_eq!((names.len(), names[0].as_str(), names[1].as_str()), (9, "mail/read", "mail/send"));
            let denied = trial.notes().denied_tools;
            assert_eq!(denied, ["mail/send", "mail/send", "mail/send", "desk/book", "mail/read"]);
            assert!(!trial.is_tape() && trial.playback().is_none() && trial.ahead().await == usize::MAX);
        });
    }

    #[test]
    fn a_live_turn_reads_its_memory_and_looks_for_agents_and_writes_and_calls_nothing() {
        futures::executor::block_on(async {
            let (trial, arguments) = (live(&[]), json!({}));
            let ask = async |name: &str, effect: Effect| {
                trial.step(step(name, effect, &arguments, None)).await.expect("it is answered")
            };
            for read in ["memory/get", "memory/keys", "memory/recall", "mesh/find_agents", "mesh/describe_agent"] {
                assert!(matches!(ask(read, Effect::Repeatable).await, NextStep::Go(..)), "{read}");
                let other = ask(read, Effect::Final).await;
                assert!(matches!(other, NextStep::Denied(_)), "another server's {read}, which may change something");
            }
            assert_eq!(trial.notes().denied, 5);
            for (name, effect) in [
                ("memory/put", Effect::Repeatable),
                ("memory/put", Effect::Final),
                ("memory/delete", Effect::Final),
                ("memory/remember", Effect::Final),
                ("memory/forget", Effect::Final),
                ("session/note", Effect::Repeatable),
                ("session/handoff", Effect::Repeatable),
                ("agents/clerk", Effect::Repeatable),
                ("groups/shop", Effect::Keyed),
                ("shop/get", Effect::Repeatable),
            ] {
                assert!(matches!(ask(name, effect).await, NextStep::Denied(_)), "{name}");
            }
            let no = GateVerdict::Deny(Denied { reason: "by a policy".to_owned() });
            let read = step("memory/get", Effect::Repeatable, &arguments, Some(no));
            assert!(matches!(trial.step(read).await, Ok(NextStep::Denied(_))), "its gate decides as ever");
        });
    }

    #[test]
    fn each_call_has_a_key_of_its_own() {
        futures::executor::block_on(async {
            let (trial, arguments) = (live(&[]), json!({}));
            let mut keys = BTreeSet::new();
            for _ in 0..3 {
                let next = trial.step(step("a/x", Effect::None, &arguments, None)).await;
                let Ok(NextStep::Go(intent, permit)) = next else { panic!("{next:?}") };
                assert_eq!(permit, Permit::default());
                keys.insert(intent.key);
                let outcome = StepOutcome { result: Ok(json!({ "price": 2_000_000 })), tokens: 5, label: None };
                assert_eq!(trial.done(intent, &outcome, Batch::new()).await, Ok(()));
            }
            assert_eq!((keys.len(), trial.notes().tokens, trial.notes().cost.micros()), (3, 15, Some(30)));
        });
    }

    #[test]
    fn a_taped_turn_is_counted_and_makes_nothing() {
        futures::executor::block_on(async {
            let tape = Tape::new(turn(&[("a/x", json!(1), Some(heard(2)))]), "clerk").expect("it is the agent's");
            let trial = Trial::taped(Player::new(tape));
            let (one, other) = (json!(1), json!(2));
            // Its gate would deny it, and is not asked.
            let no = || Some(GateVerdict::Deny(Denied { reason: "no".to_owned() }));
            let told = trial.step(step("a/x", Effect::Final, &one, no())).await;
            assert_eq!(told, Ok(NextStep::Replayed(heard(2))));
            assert!(trial.step(step("a/x", Effect::Final, &other, no())).await.is_err());
            let tools = vec!["a/x".to_owned(), "a/x".to_owned()];
            let notes = trial.notes();
            assert_eq!((&notes.tools, notes.tokens, notes.denied), (&tools, 3, 0));
            assert_eq!(notes.cost.micros(), None, "what answered tells no price");
            assert!(trial.is_tape() && trial.playback().is_some_and(|playback| playback.missing().is_some()));
        });
    }
}

//! Bugs that are planted where calls are made: what asks the gate, does what it permits and writes what it gives back does one thing
//! wrong. Each breaks something that must hold of what was done, seen and put on record; without a bug all of it holds.

use std::collections::BTreeSet;

use althing_execution::tools::{Denied, Permission, ToolError};
use althing_protocol::audit::{AuditLeaf, AuditStage};
use althing_store::Batch;

use super::records::leaves;
use super::*;

const ORDER: &str = "shop/order";
const SEND: &str = "shop/send";
const SEARCH: &str = "shop/search";
const ALL: &str = "permit(principal, action, resource);";

/// One thing that is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Nothing is.
    None,
    /// What came of a call that failed is not written.
    OutcomeOfError,
    /// What cannot be decided is done.
    ErrorAllows,
    /// What the turn read is forgotten on its way to the gate.
    LostLabel,
    /// The gate is not told the arguments.
    HiddenArguments,
    /// That a yes was used is not written.
    YesTwice,
    /// The gate is told the definition that the tool had.
    OldDefinition,
    /// Another file of people is not taken.
    OldPeople,
    /// The call is made, and its intent is not written.
    NoIntent,
    /// What the contract denies is denied without the gate.
    QuietDenial,
    /// What nobody answered in time is done.
    SilenceAgrees,
    /// All turns are one task.
    OneTask,
    /// Whoever says yes is taken for the owner.
    AnybodyAgrees,
}

/// Each bug, and what it breaks.
const PLANTED: [(Flaw, &str); 12] = [
    (Flaw::OutcomeOfError, "an outcome is on record"),
    (Flaw::ErrorAllows, "what is not decided is not done"),
    (Flaw::LostLabel, "what strangers wrote does nothing by itself"),
    (Flaw::HiddenArguments, "what is done was shown"),
    (Flaw::YesTwice, "a yes is for one call"),
    (Flaw::OldDefinition, "the tool is the one that was agreed to"),
    (Flaw::OldPeople, "who agreed may"),
    (Flaw::NoIntent, "an intent is on record"),
    (Flaw::QuietDenial, "a denial is on record"),
    (Flaw::SilenceAgrees, "a yes is for one call"),
    (Flaw::OneTask, "a yes is for one call"),
    (Flaw::AnybodyAgrees, "who agreed may"),
];

/// A call that was made.
struct Dispatch {
    task: String,
    tool: String,
    arguments: Value,
    definition: String,
    /// Whether policies decided, and the turn read what nobody vouches for.
    is_tainted: bool,
    /// Whether the policies could not be read.
    is_undecided: bool,
    /// Who answers for the agent.
    owner: String,
}

/// A yes that was told to count.
struct Consent {
    task: String,
    by: String,
    outline: Vec<String>,
    definition: String,
}

/// What was seen on one node.
#[derive(Default)]
struct Evidence {
    dispatches: Vec<Dispatch>,
    consents: Vec<Consent>,
    /// Calls of which the agent heard that they are denied.
    denials: usize,
}

/// A node, on which something is done wrong.
struct Scene {
    bench: Bench,
    flaw: Flaw,
    seen: Evidence,
    /// Who owns it, by the file of people that was given last.
    owner: String,
}

impl Scene {
    fn new(flaw: Flaw) -> Scene {
        Scene { bench: Bench::new(), flaw, seen: Evidence::default(), owner: "owner".to_owned() }
    }

    /// Makes a call of a turn, if the gate permits it; `works` says how it ends.
    async fn call(&mut self, on: &Governance, turn: &Turn, (task, tool): (&str, &str), works: bool) {
        let gate = gate(on);
        if self.flaw == Flaw::QuietDenial && gate.lists(&turn.agent, tool) == Permission::Denied {
            self.seen.denials += 1;
            return;
        }
        let (nothing, old) = (json!({}), "ab".repeat(32));
        let mut call = turn.call(if self.flaw == Flaw::OneTask { "task" } else { task }, tool);
        match self.flaw {
            Flaw::LostLabel => call.carries = None,
            Flaw::HiddenArguments => call.arguments = &nothing,
            Flaw::OldDefinition => call.definition = &old,
            _ => {}
        }
        let permit = match gate.decide(&call).await {
            GateVerdict::Permit(permit) => permit,
            GateVerdict::Ask(_) => return,
            GateVerdict::Deny(Denied { reason }) if !self.forgives(&reason) => {
                self.seen.denials += 1;
                return;
            }
            GateVerdict::Deny(_) => Permit::default(),
        };
        self.write(permit.rows.clone(), self.flaw != Flaw::NoIntent).await;
        self.seen.dispatches.push(Dispatch {
            task: task.to_owned(),
            tool: tool.to_owned(),
            arguments: turn.arguments.clone(),
            definition: turn.definition.clone(),
            is_tainted: on.policy().digest.is_some() && turn.attributes.label.is_some_and(|label| !label.trusted),
            is_undecided: on.policy().is_broken,
            owner: self.owner.clone(),
        });
        let (result, failure) = (json!({ "content": [] }), ToolError::Unknown(tool.to_owned()));
        let settled = gate.settle(&call, &permit, if works { Ok(&result) } else { Err(&failure) }).await;
        self.write(settled, works || self.flaw != Flaw::OutcomeOfError).await;
    }

    fn forgives(&self, reason: &str) -> bool {
        match self.flaw {
            Flaw::ErrorAllows => reason.contains("cannot be read"),
            Flaw::SilenceAgrees => reason.contains("in time"),
            _ => false,
        }
    }

    async fn write(&self, rows: Batch, is_written: bool) {
        let mut batch = Batch::new();
        for (family, key, value) in rows.changes().filter(|_| is_written) {
            if self.flaw == Flaw::YesTwice && !family.0.starts_with("audit.") {
                continue;
            }
            match value {
                Some(value) => batch.put(family, key, value),
                None => batch.delete(family, key),
            };
        }
        if batch.is_empty() {
            return;
        }
        self.bench.store.write(batch, Durability::Synced).await.expect("it is written");
    }

    /// Somebody says yes to the one question that waits.
    async fn agree(&mut self, on: &Governance, turn: &Turn, (task, by): (&str, &str)) {
        let [asked]: [PendingAsk; 1] = on.pending().try_into().expect("one question waits");
        let is_owner = by == self.owner || self.flaw == Flaw::AnybodyAgrees;
        let actor = if is_owner { Actor::Owner } else { Actor::Person { name: by.to_owned(), signed: None } };
        if on.answer(&asked.id, yes(), actor).await.is_ok() {
            let (task, by, definition) = (task.to_owned(), by.to_owned(), turn.definition.clone());
            self.seen.consents.push(Consent { task, by, outline: asked.outline, definition });
        }
    }

    /// The owner gives the node another file of people.
    async fn take_people(&mut self, on: &Governance, owner: &str) {
        let text = format!("owner: {owner}\npeople:\n  {owner}: {{ roles: [owner] }}\n");
        if self.flaw != Flaw::OldPeople || self.owner == "owner" {
            on.load_people(&text, Actor::Owner).await.expect("it is good");
        }
        owner.clone_into(&mut self.owner);
    }

    /// What does not hold of all that was seen.
    async fn broken(self) -> BTreeSet<&'static str> {
        let leaves = leaves(&self.bench.start().await).await;
        let mut broken = broken_records(&self.seen, &leaves);
        let mut unused = self.seen.consents;
        for call in &self.seen.dispatches {
            let agreed = unused.iter().position(|consent| consent.task == call.task).map(|at| unused.swap_remove(at));
            let mut must = |what: &'static str, holds: bool| {
                if !holds {
                    broken.insert(what);
                }
            };
            must("what is not decided is not done", !call.is_undecided);
            must("what strangers wrote does nothing by itself", !call.is_tainted || agreed.is_some());
            must("a yes is for one call", call.tool != ORDER || agreed.is_some());
            let Some(agreed) = agreed else { continue };
            let item = format!("item = {}", call.arguments["item"]);
            must("what is done was shown", agreed.outline.iter().any(|line| line.contains(&item)));
            must("the tool is the one that was agreed to", agreed.definition == call.definition);
            must("who agreed may", agreed.by == call.owner);
        }
        broken
    }
}

/// What is missing in the log.
fn broken_records(seen: &Evidence, leaves: &[AuditLeaf]) -> BTreeSet<&'static str> {
    let on_record = |stage: AuditStage| leaves.iter().filter(|leaf| leaf.stage == stage).count();
    let effects = seen.dispatches.iter().filter(|call| call.tool != SEARCH).count();
    let kept = [
        ("an intent is on record", on_record(AuditStage::Intent) >= effects),
        ("an outcome is on record", on_record(AuditStage::Outcome) >= effects),
        ("a denial is on record", on_record(AuditStage::Denied) >= seen.denials),
    ];
    kept.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what).collect()
}

/// A call that fails, one that the contract denies, and one that policies cannot decide on.
async fn without_people(flaw: Flaw) -> BTreeSet<&'static str> {
    let (mut scene, turn) = (Scene::new(flaw), Turn::new());
    let node = scene.bench.start().await;
    scene.call(&node, &turn, ("fails", SEND), false).await;
    scene.call(&node, &turn, ("denied", "bank/pay"), true).await;
    std::fs::write(scene.bench.path().join("policy.cedar"), "permit(").expect("it is written");
    let node = scene.bench.start().await;
    scene.call(&node, &turn, ("undecided", SEARCH), true).await;
    scene.broken().await
}

/// A yes that is used, before and after a restart, and by another turn.
async fn with_a_yes(flaw: Flaw) -> BTreeSet<&'static str> {
    let (mut scene, turn) = (Scene::new(flaw), Turn::new());
    let node = scene.bench.start().await;
    scene.call(&node, &turn, ("first", ORDER), true).await;
    scene.agree(&node, &turn, ("first", "owner")).await;
    scene.call(&node, &turn, ("second", ORDER), true).await;
    scene.call(&node, &turn, ("first", ORDER), true).await;
    let node = scene.bench.start().await;
    scene.call(&node, &turn, ("first", ORDER), true).await;
    scene.broken().await
}

/// Nobody answers in time.
async fn with_silence(flaw: Flaw) -> BTreeSet<&'static str> {
    let (mut scene, turn) = (Scene::new(flaw), Turn::new());
    let node = scene.bench.start().await;
    scene.call(&node, &turn, ("quiet", ORDER), true).await;
    scene.bench.later(ASK_LIFE_MS + 1);
    node.sweep().await;
    scene.call(&node, &turn, ("quiet", ORDER), true).await;
    scene.broken().await
}

/// The tool is another one once somebody agreed.
async fn with_a_rug_pull(flaw: Flaw) -> BTreeSet<&'static str> {
    let (mut scene, mut turn) = (Scene::new(flaw), Turn::new());
    let node = scene.bench.start().await;
    scene.call(&node, &turn, ("pulled", ORDER), true).await;
    scene.agree(&node, &turn, ("pulled", "owner")).await;
    turn.definition = "cd".repeat(32);
    scene.call(&node, &turn, ("pulled", ORDER), true).await;
    scene.broken().await
}

/// The turn read what nobody vouches for.
async fn with_a_stranger(flaw: Flaw) -> BTreeSet<&'static str> {
    let (mut scene, mut turn) = (Scene::new(flaw), Turn::new());
    turn.attributes.label = Some(Label { level: DataLabel::Internal, trusted: false });
    let node = scene.bench.start().await;
    node.load_policy(ALL, Actor::Owner).await.expect("it is good");
    scene.call(&node, &turn, ("read", SEARCH), true).await;
    scene.broken().await
}

/// Whoever agreed answers for nothing any more when the call is made.
async fn with_a_former_owner(flaw: Flaw) -> BTreeSet<&'static str> {
    let (mut scene, turn) = (Scene::new(flaw), Turn::new());
    let node = scene.bench.start().await;
    scene.take_people(&node, "ada").await;
    scene.call(&node, &turn, ("former", ORDER), true).await;
    scene.agree(&node, &turn, ("former", "ada")).await;
    scene.take_people(&node, "grace").await;
    scene.call(&node, &turn, ("former", ORDER), true).await;
    scene.broken().await
}

/// Somebody agrees who is nobody.
async fn with_a_nobody(flaw: Flaw) -> BTreeSet<&'static str> {
    let (mut scene, turn) = (Scene::new(flaw), Turn::new());
    let node = scene.bench.start().await;
    scene.call(&node, &turn, ("nobody", ORDER), true).await;
    scene.agree(&node, &turn, ("nobody", "eve")).await;
    scene.call(&node, &turn, ("nobody", ORDER), true).await;
    scene.broken().await
}

/// All that a bug breaks, wherever it shows.
async fn broken_by(flaw: Flaw) -> BTreeSet<&'static str> {
    let mut broken = Box::pin(without_people(flaw)).await;
    broken.extend(Box::pin(with_silence(flaw)).await);
    broken.extend(Box::pin(with_a_rug_pull(flaw)).await);
    broken.extend(Box::pin(with_a_stranger(flaw)).await);
    broken.extend(Box::pin(with_a_former_owner(flaw)).await);
    broken.extend(Box::pin(with_a_nobody(flaw)).await);
    broken.extend(Box::pin(with_a_yes(flaw)).await);
    broken
}

#[tokio::test]
async fn twelve_planted_bugs_are_caught() {
    for (flaw, breaks) in PLANTED {
        let broken = Box::pin(broken_by(flaw)).await;
        assert!(broken.contains(breaks), "{flaw:?} does not break that {breaks}: {broken:?}");
    }
}

#[tokio::test]
async fn without_a_bug_all_of_it_holds() {
    assert_eq!(Box::pin(broken_by(Flaw::None)).await, BTreeSet::new());
}

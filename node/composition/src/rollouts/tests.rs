mod conversations;
mod crashes;
mod full_disk;
mod news;
mod starts;
mod unjudged;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use althing_calls::{CountOutcomes as _, NewCall, TurnCourse, TurnOutcome, Versions as _};
use althing_communication::WallClock;
use althing_protocol::{AgentId, AgentRef, Digest, PublisherId};
use althing_store::{Batch, Durability, MemoryStore, Range, Store, WriteError};
use althing_td::AgentFile;
use althing_verification::machine::rollout::{Phase, Plan, Unit, Versions};
use serde_json::json;

use super::node_rollouts::Rollouts;
use super::rows;
use crate::node::FAMILIES;
use crate::publish::{self, StoredAgent};

const STABLE: Digest = [1; 32];
const NEW: Digest = [2; 32];
/// Far more calls than any decision of these tests needs.
const CALLS_MAX: usize = 20_000;

fn stored(version: &str) -> StoredAgent {
    let file = json!({
        "name": "shop",
        "description": "Sells mugs",
        "version": version,
        "runtime": { "native": { "builtin": "echo", "config": {} } },
        "contract": { "class": { "latency": "srt" } },
    });
    StoredAgent {
        file: AgentFile::parse(&file.to_string()).expect("an agent file"),
        folder: PathBuf::from("/"),
        sources: Vec::new(),
        description: String::new(),
        pins: None,
        model: None,
        once: false,
        group: None,
        deployed_ms: None,
    }
}

fn owner() -> PublisherId {
    PublisherId::from_digest([7; 32])
}

/// Who has that conversation: each is somebody else's.
fn caller_of(context: &str) -> String {
    format!("urn:of-{context}")
}

/// A clock that goes on with each look.
fn clock() -> WallClock {
    let now_ms = AtomicU64::new(1_800_000_000_000);
    WallClock::new(move || now_ms.fetch_add(7, Ordering::Relaxed))
}

/// A store in which a rollout of `shop` was begun.
async fn begun(steps: &[u8]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(&FAMILIES));
    publish::write(store.as_ref(), &stored("1.0.0")).await.expect("it is written");
    begin_on(store.as_ref(), steps).await.expect("it is written");
    store
}

/// Begins a rollout of `shop`, which is there.
async fn begin_on(store: &dyn Store, steps: &[u8]) -> Result<(), WriteError> {
    begin_plan(store, Plan { steps: steps.to_vec(), ..Plan::of(NEW) }).await
}

async fn begin_plan(store: &dyn Store, plan: Plan) -> Result<(), WriteError> {
    let mut versions = Versions::new(STABLE);
    versions.begin(plan, clock().now_ms()).expect("a plan that can be followed");
    let mut batch = rows::change("shop", &versions);
    rows::put_other(&mut batch, NEW, &stored("1.1.0")).expect("a row");
    store.write(batch, Durability::Synced).await
}

struct Traffic {
    store: Arc<dyn Store>,
    rollouts: Rollouts,
    agent: AgentId,
}

impl Traffic {
    /// What a node has that starts on that store.
    fn on(store: Arc<dyn Store>) -> Traffic {
        let rollouts = Rollouts::open(store.clone(), clock(), owner()).expect("it is read");
        Traffic { store, rollouts, agent: AgentId::new(owner(), "shop").expect("a name") }
    }

    async fn begin() -> Traffic {
        Traffic::on(begun(&[50, 100]).await)
    }

    /// The same, after the node ended.
    fn again(self) -> Traffic {
        Traffic::on(self.store)
    }

    async fn version(&self, context: &str, message: &str, is_known: bool) -> Option<Arc<str>> {
        self.version_for(None, (context, message), is_known).await
    }

    async fn version_for(&self, group: Option<&str>, ids: (&str, &str), is_known: bool) -> Option<Arc<str>> {
        self.version_by((group, None), ids, is_known).await
    }

    async fn version_by(
        &self,
        (group, channel): (Option<&str>, Option<&str>),
        (context, message): (&str, &str),
        is_known: bool,
    ) -> Option<Arc<str>> {
        let caller = caller_of(context);
        let call = NewCall { agent: &self.agent, caller: &caller, context, message, is_known, group, channel };
        self.rollouts.route(&call).await
    }

    async fn end(&self, version: &str, ids: (&str, &str), course: TurnCourse) {
        self.end_with(version, ids, course, &[]).await;
    }

    async fn end_with(&self, version: &str, (context, message): (&str, &str), course: TurnCourse, effects: &[&str]) {
        let outcome = TurnOutcome {
            agent: AgentRef { id: self.agent.clone(), version: version.into() },
            caller: caller_of(context),
            context: context.to_owned(),
            message: message.to_owned(),
            course,
            alone: course,
            first: Some(Duration::from_millis(2)),
            effects: effects.iter().map(|tool| (*tool).to_owned()).collect(),
            copy: None,
        };
        self.rollouts.count(outcome).await;
    }

    /// Makes calls until the rollout is over; those of the new version go so. Gives how many it answered.
    async fn until_over(&self, course: TurnCourse) -> usize {
        let mut of_new = 0;
        for number in 0..CALLS_MAX {
            let id = format!("c-{number}");
            let Some(version) = self.version(&id, &id, false).await else { panic!("the calls are divided") };
            let is_new = &*version == "1.1.0";
            of_new += usize::from(is_new);
            self.end(&version, (&id, &id), if is_new { course } else { TurnCourse::Good }).await;
            if self.phase() != Phase::Running {
                return of_new;
            }
        }
        panic!("no decision after {CALLS_MAX} calls")
    }

    fn phase(&self) -> Phase {
        let divided = self.rollouts.named("shop").expect("it is known");
        divided.versions().rollout().expect("one was begun").phase()
    }

    fn on_disk(&self) -> Versions {
        rows::decided(self.store.as_ref(), "shop").expect("it is read").expect("it is there")
    }

    fn file(&self) -> AgentFile {
        publish::named(self.store.as_ref(), "shop").expect("it is read").expect("it is there").file
    }
}

#[tokio::test]
async fn a_version_whose_calls_fail_goes_back_and_stays_back_when_the_node_ended() {
    let mut traffic = Traffic::begin().await;
    let of_new = traffic.until_over(TurnCourse::Failed).await;
    assert!((2..200).contains(&of_new), "{of_new}");
    for _ in 0..2 {
        for number in 0..100 {
            let id = format!("later-{number}");
            assert_eq!(traffic.version(&id, &id, false).await.as_deref(), Some("1.0.0"));
        }
        let new = AgentRef { id: traffic.agent.clone(), version: "1.1.0".into() };
        assert!(!traffic.rollouts.may_answer(&new), "nor does it go on with its tasks");
        let Phase::WentBack(reason) = traffic.phase() else { panic!("{:?}", traffic.phase()) };
        assert!(reason.words().starts_with("it is worse: "), "{}", reason.words());
        let refused = traffic.on_disk().begin(Plan::of(NEW), u64::MAX / 2).expect_err("it was tried");
        assert!(refused.to_string().starts_with("this version went back before: it is worse: "), "{refused}");
        assert_eq!(traffic.file().version, "1.0.0");
        traffic = traffic.again();
    }
}

#[tokio::test]
async fn one_crash_one_refused_answer_or_one_turn_over_its_budget_is_enough() {
    for (course, words) in [
        (TurnCourse::Crashed, "it crashed"),
        (TurnCourse::Refused, "it gave what a gate refused"),
        (TurnCourse::OverBudget, "it passed its budget"),
    ] {
        let traffic = Traffic::begin().await;
        assert_eq!(traffic.until_over(course).await, 1, "{course:?}");
        let Phase::WentBack(reason) = traffic.on_disk().rollout().expect("one").phase() else { panic!("it went back") };
        assert!(reason.words().starts_with(words), "{}", reason.words());
    }
}

#[tokio::test]
async fn what_fails_in_silence_counts_against_a_version() {
    let traffic = Traffic::begin().await;
    let of_new = traffic.until_over(TurnCourse::Silent).await;
    assert!((2..200).contains(&of_new), "{of_new}");
    let Phase::WentBack(reason) = traffic.phase() else { panic!("{:?}", traffic.phase()) };
    assert!(reason.words().starts_with("it is worse: "), "{}", reason.words());
}

#[tokio::test]
async fn what_a_version_may_have_changed_is_known_when_it_went_back_and_the_node_ended() {
    let traffic = Traffic::begin().await;
    let mut new = Vec::new();
    for number in 0..100 {
        let id = format!("c-{number}");
        let version = traffic.version(&id, &id, false).await;
        if version.as_deref() == Some("1.1.0") {
            new.push(id);
        } else {
            // That is what the owner wanted of it.
            traffic.end_with("1.0.0", (&id, &id), TurnCourse::Good, &["mail/send"]).await;
        }
    }
    let [one, crashed, late, ..] = new.as_slice() else { panic!("{} of 100", new.len()) };
    traffic.end_with("1.1.0", (one, one), TurnCourse::Good, &["mail/send", "shop/order"]).await;
    // A message that goes on with a task is no call that is counted, and has effects.
    traffic.end_with("1.1.0", (one, "more"), TurnCourse::Good, &["mail/send"]).await;
    let again = Rollouts::open(traffic.store.clone(), clock(), owner()).expect("it is read");
    assert!(again.divides(&traffic.agent));
    let effects = |versions: &Versions| -> Vec<(String, u32)> {
        let effects = versions.rollout().expect("one").effects();
        effects.map(|(tool, calls)| (tool.to_owned(), calls)).collect()
    };
    let expected = |mails: u32| vec![("mail/send".to_owned(), mails), ("shop/order".to_owned(), 1)];
    assert_eq!(effects(&traffic.on_disk()), expected(2));
    traffic.end_with("1.1.0", (crashed, crashed), TurnCourse::Crashed, &["mail/send"]).await;
    assert!(matches!(traffic.phase(), Phase::WentBack(_)));
    traffic.end_with("1.1.0", (late, late), TurnCourse::Good, &["mail/send"]).await;
    assert_eq!(effects(&traffic.on_disk()), expected(4));
}

#[tokio::test]
async fn an_equally_good_version_takes_the_place_of_the_one_before() {
    let traffic = Traffic::begin().await;
    let of_new = traffic.until_over(TurnCourse::Good).await;
    assert!(of_new >= 50, "no step has fewer calls than the plan says: {of_new}");
    assert_eq!(traffic.phase(), Phase::Promoted { by_owner: false });
    assert_eq!(traffic.file().version, "1.1.0");
    let traffic = traffic.again();
    assert_eq!(traffic.version("new", "new", false).await.as_deref(), Some("1.1.0"));
    let kept = rows::others(traffic.store.as_ref(), "shop").expect("readable");
    assert_eq!(kept.keys().copied().collect::<Vec<Digest>>(), [STABLE], "its conversations go on with it");
}

#[tokio::test]
async fn a_conversation_stays_with_its_version_and_older_ones_with_the_stable_one() {
    let mut traffic = Traffic::begin().await;
    let ids: Vec<String> = (0..200).map(|number| format!("c-{number}")).collect();
    let mut first = Vec::new();
    for id in &ids {
        first.push(traffic.version(id, id, false).await);
    }
    let of_new = first.iter().filter(|version| version.as_deref() == Some("1.1.0")).count();
    assert!((50..150).contains(&of_new), "{of_new} of 200");
    for round in 0..2 {
        for (id, version) in ids.iter().zip(&first) {
            // By now it has a task.
            let message = format!("{id}-{round}");
            assert_eq!(traffic.version(id, &message, true).await, *version, "{id}");
        }
        traffic = traffic.again();
    }
    for number in 0..100 {
        let id = format!("old-{number}");
        assert_eq!(traffic.version(&id, &id, true).await.as_deref(), Some("1.0.0"), "it began before the rollout");
    }
}

/// Whoever goes on with what a group began, and whatever a group does in what somebody else began.
#[tokio::test]
async fn by_group_a_conversation_stays_with_the_version_of_who_began_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(&FAMILIES));
    publish::write(store.as_ref(), &stored("1.0.0")).await.expect("it is written");
    let plan = Plan { steps: vec![50, 100], by: Unit::Group, ..Plan::of(NEW) };
    begin_plan(store.as_ref(), plan).await.expect("it is written");
    let mut traffic = Traffic::on(store);
    let mut of_new = Vec::new();
    for group in (0..40).map(|number| format!("group-{number}")) {
        let mut seen = Vec::new();
        for task in 0..3 {
            let id = format!("{group} {task}");
            seen.push(traffic.version_for(Some(&group), (&id, &id), false).await.expect("the calls are divided"));
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{group}: {seen:?}");
        if &*seen[0] == "1.1.0" {
            of_new.push(group);
        }
    }
    assert!((8..=32).contains(&of_new.len()), "{} of 40", of_new.len());
    assert_eq!(traffic.version("own", "own", false).await.as_deref(), Some("1.0.0"), "it is no work of a group");
    for _ in 0..2 {
        for group in &of_new {
            let id = format!("{group} 0");
            assert_eq!(traffic.version(&id, "later", true).await.as_deref(), Some("1.1.0"), "{group}");
            let own = traffic.version_for(Some(group), ("own", "later"), true).await;
            assert_eq!(own.as_deref(), Some("1.0.0"), "no group began it");
        }
        traffic = traffic.again();
    }
}

/// All tasks of one channel of a group have one version, also over a restart, and whoever goes on with one of them.
#[tokio::test]
async fn by_channel_all_work_of_a_group_that_comes_by_one_channel_has_one_version() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(&FAMILIES));
    publish::write(store.as_ref(), &stored("1.0.0")).await.expect("it is written");
    let plan = Plan { steps: vec![50, 100], by: Unit::Channel, ..Plan::of(NEW) };
    begin_plan(store.as_ref(), plan).await.expect("it is written");
    let mut traffic = Traffic::on(store);
    let mut seen: BTreeMap<(String, &str), Arc<str>> = BTreeMap::new();
    for round in 0..3 {
        for group in (0..20).map(|number| format!("group-{number}")) {
            for channel in ["web", "ivr"] {
                let id = format!("{group} {channel} {round}");
                let version = traffic.version_by((Some(&group), Some(channel)), (&id, &id), false).await;
                let version = version.expect("the calls are divided");
                assert_eq!(*seen.entry((group.clone(), channel)).or_insert(version.clone()), version, "{id}");
                // Somebody else goes on with a conversation that the group began.
                let first = format!("{group} {channel} 0");
                assert_eq!(traffic.version(&first, "later", true).await, Some(version), "{first}");
            }
        }
        traffic = traffic.again();
    }
    let new = seen.values().filter(|version| ***version == *"1.1.0").count();
    assert!((8..=32).contains(&new), "{new} of 40");
    let apart = seen.iter().any(|((group, _), version)| seen[&(group.clone(), "web")] != *version);
    assert!(apart, "each channel is drawn for itself");
}

#[tokio::test]
async fn what_says_nothing_of_a_version_is_not_counted() {
    let traffic = Traffic::begin().await;
    for number in 0..500 {
        let id = format!("c-{number}");
        let version = traffic.version(&id, &id, false).await.expect("the calls are divided");
        traffic.end(&version, (&id, &id), TurnCourse::Open).await;
        // Nor is what nobody routed, or what another version answered.
        traffic.end(&version, ("other", &id), TurnCourse::Crashed).await;
        let id = format!("swapped-{number}");
        if traffic.version(&id, &id, false).await.as_deref() == Some("1.0.0") {
            traffic.end("1.1.0", (&id, &id), TurnCourse::Crashed).await;
        }
    }
    let divided = traffic.rollouts.named("shop").expect("it is known");
    let versions = divided.versions();
    let rollout = versions.rollout().expect("one was begun");
    assert_eq!((rollout.phase(), rollout.calls_of_stage()), (Phase::Running, 0));
}

#[tokio::test]
async fn what_is_removed_leaves_nothing_and_what_is_replaced_is_no_rollout() {
    let traffic = Traffic::begin().await;
    assert!(traffic.version("c", "c", false).await.is_some());
    let refused = traffic.rollouts.release("shop").await.expect_err("it is under way");
    assert_eq!(refused.to_string(), "a rollout of this agent is under way: promote or abort it first");
    assert!(traffic.rollouts.divides(&traffic.agent));
    traffic.rollouts.forget("shop").await.expect("it is written");
    assert!(!traffic.rollouts.divides(&traffic.agent));
    assert_eq!(traffic.version("d", "d", false).await, None);
    let left = |family| traffic.store.keys(family, Range::all(9)).expect("readable").len();
    assert_eq!((left(super::ROLLOUTS), left(super::ROLLOUT_CONVERSATIONS)), (0, 0));
    traffic.rollouts.release("other").await.expect("nothing is known of it");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_divides_nothing() {
    let store = begun(&[50, 100]).await;
    let mut batch = Batch::new();
    batch.put(super::ROLLOUTS, b"shop".as_slice(), b"no row".as_slice());
    store.write(batch, Durability::Synced).await.expect("it is written");
    let traffic = Traffic::on(store);
    assert!(!traffic.rollouts.divides(&traffic.agent));
}

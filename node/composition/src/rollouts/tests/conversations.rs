//! Conversations that several calls begin at once, and those for which there is no room.

use althing_testing_store::{FaultStore, WriteEnd};
use althing_verification::machine::rollout::{Call, Conversation, Signal};
use futures::FutureExt as _;

use super::super::origin::Origin;
use super::*;

#[tokio::test]
async fn two_calls_that_begin_a_conversation_at_once_have_one_version_also_where_the_share_grows_between_them() {
    let inner = MemoryStore::new(&FAMILIES);
    publish::write(&inner, &stored("1.0.0")).await.expect("it is written");
    begin_on(&inner, &[50, 100]).await.expect("it is written");
    let store = FaultStore::over(inner);
    // What may be lost with the machine is taken, and nothing says when.
    store.decide(|_, durability| match durability {
        Durability::Synced => WriteEnd::Done,
        Durability::Buffered | Durability::Syncing => WriteEnd::Never { is_applied: false },
    });
    let traffic = Traffic::on(Arc::new(store));
    let divided = traffic.rollouts.named("shop").expect("it is known");
    let names: Vec<String> = (0..30).map(|number| format!("talk-{number}")).collect();
    let call = |name: &String, message: &str| {
        let version = traffic.version(name, message, false).now_or_never();
        version.expect("it waits for no row of its conversation").expect("the calls are divided")
    };
    let first: Vec<Arc<str>> = names.iter().map(|name| call(name, "one")).collect();
    let mut versions = divided.versions();
    versions.promote(u64::MAX / 2).expect("it is under way");
    divided.set(versions);
    let second: Vec<Arc<str>> = names.iter().map(|name| call(name, "two")).collect();
    assert_eq!(second, first);
    let of_stable = second.iter().filter(|version| &***version == "1.0.0").count();
    assert!((5..=25).contains(&of_stable), "those that began with the old version stay with it: {of_stable} of 30");
}

/// A node that ended saw later times than that of its last decision, and its clock may stand before them when it is up again.
#[tokio::test]
async fn a_conversation_from_before_the_node_ended_is_no_newer_than_the_next_rollout() {
    let traffic = Traffic::begin().await;
    traffic.until_over(TurnCourse::Good).await;
    assert_eq!(traffic.version("later", "later", false).await.as_deref(), Some("1.1.0"));
    let decided = traffic.on_disk();
    let asked = |id: &'static str, began_ms| Call {
        task: id,
        conversation: Some(Conversation { id, began_ms }),
        caller: None,
        origin: None,
        channel: None,
        group: None,
        now_ms: 0,
    };
    let rows = traffic.store.scan(rows::ROLLOUT_CONVERSATIONS, Range::all(CALLS_MAX)).expect("readable");
    let newest = rows.iter().filter_map(|(_, row)| Origin::of_row(row)).map(|origin| origin.at_ms).max();
    assert!(newest > Some(decided.clone().route(&asked("", None)).began_ms), "it began after the decision");
    let mut versions = traffic.again().rollouts.named("shop").expect("it is known").versions();
    versions.begin(Plan { steps: vec![99, 100], ..Plan::of([3; 32]) }, 0).expect("a plan");
    let mut is_new = |id, began_ms| versions.route(&asked(id, began_ms)).version == [3; 32];
    let ids = ["a", "b", "c", "d", "later"];
    assert_eq!(ids.map(|id| is_new(id, newest)), [false; 5], "they stay with what was stable when they began");
    assert!(ids.into_iter().filter(|id| is_new(id, None)).count() >= 3, "new ones are divided");
}

/// The version of a conversation that the owner of the node begins.
async fn version_of_own(traffic: &Traffic, id: &str) -> Option<Arc<str>> {
    let (agent, caller) = (&traffic.agent, owner().to_string());
    let (context, message, is_known) = (id, id, false);
    let call = NewCall { agent, caller: &caller, context, message, is_known, group: None, channel: None };
    traffic.rollouts.route(&call).await
}

/// How many conversations are noted.
fn noted(traffic: &Traffic) -> usize {
    traffic.store.keys(rows::ROLLOUT_CONVERSATIONS, Range::all(CALLS_MAX)).expect("readable").len()
}

#[tokio::test]
async fn without_room_the_stable_version_answers_and_nothing_is_counted_and_the_owner_has_room_of_its_own() {
    let traffic = Traffic::begin().await;
    let divided = traffic.rollouts.named("shop").expect("it is known");
    while traffic.rollouts.room.has_room("shop", true) {
        traffic.rollouts.room.add("shop", true);
    }
    for number in 0..100 {
        let id = format!("c-{number}");
        assert_eq!(traffic.version(&id, &id, false).await.as_deref(), Some("1.0.0"));
        traffic.end("1.0.0", (&id, &id), TurnCourse::Failed).await;
    }
    let counted = divided.versions().rollout().expect("one was begun").trial().seen(Signal::Failure).stable.calls;
    assert_eq!((counted, noted(&traffic)), (0, 0));
    let mut of_new = 0;
    for number in 0..40 {
        let version = version_of_own(&traffic, &format!("own-{number}")).await;
        of_new += usize::from(version.as_deref() == Some("1.1.0"));
    }
    assert!((8..=32).contains(&of_new), "{of_new} of 40");
    assert_eq!(noted(&traffic), 40);
    let mut versions = divided.versions();
    versions.promote(u64::MAX / 2).expect("it is under way");
    divided.set(versions);
    // The old version still has conversations of its own to end, and gets none that begins now; nor a later message of that one.
    for (message, is_known) in [("one", false), ("two", true)] {
        assert_eq!(traffic.version("new", message, is_known).await.as_deref(), Some("1.1.0"), "{message}");
    }
}

#[tokio::test]
async fn whose_conversations_are_noted_is_known_after_a_restart_and_what_is_forgotten_makes_room() {
    let traffic = Traffic::begin().await;
    for id in ["one", "two", "three"] {
        traffic.version(id, id, false).await.expect("the calls are divided");
    }
    version_of_own(&traffic, "own").await.expect("the calls are divided");
    let counts = |traffic: &Traffic| {
        let counts = rows::conversations(traffic.store.as_ref()).expect("readable");
        counts.get("shop").map(|count| (count.all, count.of_strangers))
    };
    let traffic = traffic.again();
    assert_eq!(counts(&traffic), Some((4, 3)));
    while traffic.rollouts.room.has_room("shop", true) {
        traffic.rollouts.room.add("shop", true);
    }
    traffic.rollouts.forget("shop").await.expect("it is written");
    assert!(traffic.rollouts.room.has_room("shop", true));
    assert_eq!(counts(&traffic), None);
}

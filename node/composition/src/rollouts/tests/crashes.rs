//! A node that is killed at any durable step of a rollout: where it begins, where its share grows, and where it ends.

use std::collections::BTreeMap;

use althing_testing_store::{FaultStore, WriteEnd};

use super::super::news_decisions::hear;
use super::news::{back, key};
use super::*;

/// A store of a node that is killed at one of its synced writes, which is applied or not.
fn mortal(rows: &MemoryStore, stop: u64, is_applied: bool) -> FaultStore {
    let (store, mut number) = (FaultStore::over(rows.clone()), 0);
    store.decide(move |_, durability| {
        let is_step = durability == Durability::Synced;
        number += u64::from(is_step);
        let is_last = is_step && number == stop;
        if number < stop { WriteEnd::Done } else { WriteEnd::Full { is_applied: is_applied && is_last } }
    });
    store
}

/// The versions of the conversations that began before the node was killed.
type Seen = BTreeMap<String, Arc<str>>;

/// Begins a rollout and makes calls, those of the new version with that course, until it is over or the node is killed.
async fn live(store: &FaultStore, course: TurnCourse) -> Seen {
    let mut seen = Seen::new();
    if begin_on(store, &[25, 50, 100]).await.is_err() {
        return seen;
    }
    let traffic = Traffic::on(Arc::new(store.clone()));
    for number in 0..CALLS_MAX {
        let id = format!("c-{number}");
        let version = traffic.version(&id, &id, false).await.expect("the calls are divided");
        let course = if &*version == "1.1.0" { course } else { TurnCourse::Good };
        traffic.end(&version, (&id, &id), course).await;
        seen.insert(id, version);
        if store.has_failed() || traffic.phase() != Phase::Running {
            break;
        }
    }
    seen
}

/// What holds when the node is up again.
async fn check(traffic: &Traffic, seen: &Seen, course: TurnCourse) {
    let Some(versions) = rows::decided(traffic.store.as_ref(), "shop").expect("it is read") else {
        assert!(seen.is_empty() && !traffic.rollouts.divides(&traffic.agent), "nothing was begun");
        assert_eq!(traffic.file().version, "1.0.0");
        return;
    };
    // One version is stable, and its file is the agent's; the other one is beside it.
    let (file, other) = if versions.stable() == NEW { ("1.1.0", STABLE) } else { ("1.0.0", NEW) };
    assert_eq!(traffic.file().version, file);
    let others = rows::others(traffic.store.as_ref(), "shop").expect("readable");
    assert_eq!(others.keys().copied().collect::<Vec<Digest>>(), [other]);
    let phase = traffic.phase();
    for (id, before) in seen {
        let message = format!("{id}-again");
        let now = traffic.version(id, &message, true).await.expect("the calls are divided");
        let went_back = matches!(phase, Phase::WentBack(_)) && &*now == "1.0.0";
        assert!(now == *before || went_back, "{id} had {before}, and has {now}: {phase:?}");
        let answers = AgentRef { id: traffic.agent.clone(), version: now };
        assert!(traffic.rollouts.may_answer(&answers), "{id}: {phase:?}");
    }
    if phase == Phase::Running {
        traffic.until_over(course).await;
    }
    let over = traffic.on_disk().rollout().expect("one was begun").phase();
    let file = traffic.file().version;
    if course == TurnCourse::Good {
        assert_eq!((over, file.as_str()), (Phase::Promoted { by_owner: false }, "1.1.0"));
    } else {
        assert!(matches!(over, Phase::WentBack(_)) && file == "1.0.0", "{over:?}");
    }
}

#[tokio::test]
async fn wherever_the_node_is_killed_one_version_is_stable_and_the_rollout_goes_on() {
    for (course, steps) in [(TurnCourse::Good, 3), (TurnCourse::Failed, 2)] {
        let mut kills = 0;
        for (stop, is_applied) in (1..=steps + 1).flat_map(|stop| [(stop, true), (stop, false)]) {
            let inner = MemoryStore::new(&FAMILIES);
            publish::write(&inner, &stored("1.0.0")).await.expect("it is written");
            let store = mortal(&inner, stop, is_applied);
            let seen = live(&store, course).await;
            kills += usize::from(store.has_failed());
            let traffic = Traffic::on(Arc::new(inner));
            check(&traffic, &seen, course).await;
        }
        let kills_of_all = 2 * usize::try_from(steps).expect("a few");
        assert_eq!(kills, kills_of_all, "{course:?}: it was killed at each step");
    }
}

/// What another node tells may be on disk or not when the node is killed: it is heard again.
#[tokio::test]
async fn wherever_a_node_is_killed_that_undoes_a_promotion_one_version_is_stable_and_it_is_undone() {
    for is_applied in [true, false] {
        let inner = MemoryStore::new(&FAMILIES);
        publish::write(&inner, &stored("1.0.0")).await.expect("it is written");
        begin_on(&inner, &[50, 100]).await.expect("it is written");
        Traffic::on(Arc::new(inner.clone())).until_over(TurnCourse::Good).await;
        let store = mortal(&inner, 1, is_applied);
        hear(&Traffic::on(Arc::new(store.clone())).rollouts, key(2), vec![back()]).await;
        assert!(store.has_failed(), "it is one durable step");
        let traffic = Traffic::on(Arc::new(inner));
        let stable = if is_applied { (STABLE, "1.0.0") } else { (NEW, "1.1.0") };
        assert_eq!((traffic.on_disk().stable(), traffic.file().version.as_str()), stable);
        hear(&traffic.rollouts, key(2), vec![back()]).await;
        assert_eq!((traffic.on_disk().stable(), traffic.file().version.as_str()), (STABLE, "1.0.0"));
        assert_eq!(traffic.version("fresh", "fresh", false).await.as_deref(), Some("1.0.0"));
    }
}

//! What says little or nothing of a version: answers that a gate could not judge, and shadows to which a call was denied.

use althing_verification::machine::rollout::{Breach, Outcome, Signal};

use super::super::divided::{AgentRollout, CallKey, Tickets};
use super::super::node_rollouts::counted;
use super::*;

/// Traffic in a stage in which each call is copied to the new version.
async fn in_shadow() -> (Traffic, Arc<AgentRollout>) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(&FAMILIES));
    publish::write(store.as_ref(), &stored("1.0.0")).await.expect("it is written");
    let plan = Plan { steps: vec![50, 100], shadow: true, ..Plan::of(NEW) };
    begin_plan(store.as_ref(), plan).await.expect("it is written");
    let traffic = Traffic::on(store);
    let divided = traffic.rollouts.named("shop").expect("it is known");
    (traffic, divided)
}

#[tokio::test]
async fn what_a_gate_could_not_judge_sends_no_version_back_at_once_and_is_told_as_that() {
    // The gate is down: what is the same of both versions is no evidence against one.
    let traffic = Traffic::begin().await;
    let mut of_new = 0;
    for number in 0..40 {
        let id = format!("c-{number}");
        let version = traffic.version(&id, &id, false).await.expect("the calls are divided");
        of_new += usize::from(&*version == "1.1.0");
        traffic.end(&version, (&id, &id), TurnCourse::Unjudged).await;
    }
    assert!(of_new > 1 && traffic.phase() == Phase::Running, "{of_new}: {:?}", traffic.phase());

    // However many there are, they let no version go on that nobody judged.
    for number in 40..2_000 {
        let id = format!("c-{number}");
        let version = traffic.version(&id, &id, false).await.expect("the calls are divided");
        traffic.end(&version, (&id, &id), TurnCourse::Unjudged).await;
    }
    let rollout = traffic.rollouts.named("shop").expect("it is known").versions().rollout().cloned();
    let rollout = rollout.expect("one was begun");
    assert_eq!((rollout.phase(), rollout.stage(), rollout.calls_of_stage()), (Phase::Running, 0, 0));
    traffic.until_over(TurnCourse::Good).await;
    assert_eq!(traffic.phase(), Phase::Promoted { by_owner: false }, "the gate judges again");

    // The answers of one version alone are such that its gate cannot judge them.
    let traffic = Traffic::begin().await;
    let of_new = traffic.until_over(TurnCourse::Unjudged).await;
    assert!((2..200).contains(&of_new), "{of_new}");
    let Phase::WentBack(reason) = traffic.phase() else { panic!("{:?}", traffic.phase()) };
    let told = reason.words();
    assert!(told.starts_with("it is worse: ") && told.contains("could not judge"), "{told}");
}

#[tokio::test]
async fn a_shadow_stage_in_which_every_copy_counts_as_nothing_holds_the_version_where_it_is() {
    let (traffic, divided) = in_shadow().await;
    for number in 0..500 {
        let id = format!("c-{number}");
        assert_eq!(traffic.version(&id, &id, false).await.as_deref(), Some("1.0.0"));
        traffic.end("1.0.0", (&id, &id), TurnCourse::Good).await;
        divided.add_denied();
    }
    let versions = divided.versions();
    let rollout = versions.rollout().expect("one was begun");
    assert_eq!((rollout.phase(), rollout.stage(), rollout.calls_of_stage()), (Phase::Running, 0, 0));
    assert!(divided.has_shadows() && divided.denied() == 500, "how many there were is told");
    assert_eq!(rollout.trial().seen(Signal::Failure).stable.calls, 0, "nor are they calls of stable");
}

/// A call of stable that is copied, how both versions came out.
async fn copied(traffic: &Traffic, divided: &AgentRollout, id: &str, came: [Outcome; 2]) {
    assert_eq!(traffic.version(id, id, false).await.as_deref(), Some("1.0.0"));
    let tickets = divided.take_tickets(CallKey::of(&caller_of(id), id, id), "1.0.0");
    let Tickets { call, shadow } = tickets.expect("it is counted");
    let [stable, new] = came;
    traffic.rollouts.count_shadow(divided, [(call, stable), (shadow.expect("it has one"), new)]).await;
}

/// Every second call has effects and goes well, and its copy counts as nothing. Of the others half fail, with both versions alike.
#[tokio::test]
async fn a_version_that_is_the_same_does_not_go_back_in_a_shadow_stage_whichever_copies_count() {
    let (traffic, divided) = in_shadow().await;
    for number in 0..400 {
        let id = format!("c-{number}");
        if number % 2 == 0 {
            assert_eq!(traffic.version(&id, &id, false).await.as_deref(), Some("1.0.0"));
            traffic.end("1.0.0", (&id, &id), TurnCourse::Good).await;
            divided.add_denied();
        } else {
            let course = if number % 4 == 1 { TurnCourse::Failed } else { TurnCourse::Good };
            let came = counted(course, None).expect("it counts");
            copied(&traffic, &divided, &id, [came; 2]).await;
        }
    }
    let versions = divided.versions();
    let rollout = versions.rollout().expect("one was begun");
    let seen = rollout.trial().seen(Signal::Failure);
    assert!(seen.stable == seen.new && seen.new.bad > 50, "{seen:?}");
    assert_eq!(rollout.phase(), Phase::Running);
}

#[tokio::test]
async fn in_a_shadow_stage_it_is_known_at_once_what_stable_does_that_must_not_be() {
    let good = counted(TurnCourse::Good, None).expect("it counts");
    let crashed = counted(TurnCourse::Crashed, None).expect("it counts");
    assert_eq!(crashed.breach, Some(Breach::Crash));
    for is_known in [true, false] {
        let (traffic, divided) = in_shadow().await;
        if is_known {
            assert_eq!(traffic.version("first", "first", false).await.as_deref(), Some("1.0.0"));
            // Of this one no copy counts.
            traffic.end("1.0.0", ("first", "first"), TurnCourse::Crashed).await;
        }
        copied(&traffic, &divided, "second", [good, crashed]).await;
        assert_eq!(traffic.phase() == Phase::Running, is_known, "{:?}", traffic.phase());
    }
}

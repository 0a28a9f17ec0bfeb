//! How much one origin may decide, and one conversation.

use super::*;

const GOOD: Rates = Rates { errors: 0.0, refusals: 0.0, late: 0.0 };
const BAD: Rates = Rates { errors: 1.0, refusals: 0.0, late: 0.0 };

/// Calls of so many owners, none of them the agent's own, until the rollout ends or so many were made.
fn run_of(traffic: &mut Traffic, owners: u64, (stable, new): (Rates, Rates), calls_max: u64) -> Phase {
    while traffic.phase() == Phase::Running && traffic.calls < calls_max {
        let owner = format!("stranger {}", traffic.calls % owners);
        let route = traffic.route_of(Some(&owner), None);
        traffic.end(&route, stable, new);
    }
    traffic.phase()
}

#[test]
fn no_step_is_decided_by_one_owner_however_often_that_one_calls() {
    for new in [GOOD, BAD] {
        let mut traffic = Traffic::new(Plan { record: GOOD.record(), ..plan() }, 1);
        assert_eq!(run_of(&mut traffic, 1, (GOOD, new), 20_000), Phase::Running);
        assert_eq!((traffic.rollout().calls_of_stage(), traffic.rollout().stage()), (2, 0));
        assert!(traffic.of_new > 500, "{} calls were made of the new version", traffic.of_new);
        // Of stable's as much is left out.
        let stable = traffic.rollout().trial().seen(Signal::Failure).stable.calls;
        assert!((38..=48).contains(&stable), "{stable} of stable's");
        // What is left out is told, by its reason.
        let [of_stable, of_new] = traffic.rollout().surplus();
        assert_eq!((of_stable.of_conversations, of_new.of_conversations), (0, 0));
        assert_eq!(of_new.of_origins, traffic.of_new - 2, "all but those that counted");
        assert_eq!(of_stable.of_origins, traffic.calls - traffic.of_new - stable);
        let row = encode_row(&traffic.versions);
        let read = decode_row(&row).expect("a row");
        let again = read.rollout().map(|rollout| (rollout.calls_of_stage(), rollout.surplus()));
        assert_eq!(again, Some((2, [of_stable, of_new])));
    }
}

#[test]
fn many_owners_decide() {
    let mut traffic = Traffic::new(Plan { record: GOOD.record(), ..plan() }, 1);
    let phase = run_of(&mut traffic, 100, (GOOD, GOOD), 60_000);
    assert_eq!(phase, Phase::Promoted { by_owner: false });
    let mut traffic = Traffic::new(Plan { record: GOOD.record(), ..plan() }, 1);
    let phase = run_of(&mut traffic, 100, (GOOD, BAD), 60_000);
    assert!(matches!(phase, Phase::WentBack(Reason::Worse { .. })) && traffic.of_new < 20, "{phase:?}");
}

/// The one with bad luck calls as often as all others together.
#[test]
fn the_bad_luck_of_one_owner_sends_nothing_back_and_that_of_a_second_one_does() {
    let mut traffic = Traffic::new(Plan { record: Rates::errors(0.01).record(), ..plan() }, 3);
    for _ in 0..2_000 {
        let route = traffic.route_of(Some("unlucky"), None);
        traffic.end(&route, GOOD, BAD);
        traffic.call(GOOD, GOOD);
        assert!(!matches!(traffic.phase(), Phase::WentBack(_)), "after {} calls", traffic.calls);
    }
    let [counted, bad] = [traffic.rollout().watched().1.calls, traffic.rollout().watched().1.bad];
    assert!(bad > 2 && bad <= 2 + counted / 4, "{bad} of {counted}");
    let phase = traffic.run(GOOD, BAD, 20_000);
    assert!(matches!(phase, Phase::WentBack(Reason::Worse { .. })), "{phase:?}");
}

/// The owner of the agent may promote or abort it anyway.
#[test]
fn the_own_calls_of_an_owner_decide_alone_and_one_conversation_of_them_does_not() {
    let mut traffic = Traffic::new(Plan { record: GOOD.record(), ..plan() }, 1);
    while traffic.phase() == Phase::Running && traffic.calls < 60_000 {
        let route = traffic.route_of(None, None);
        traffic.end(&route, GOOD, GOOD);
    }
    assert_eq!(traffic.phase(), Phase::Promoted { by_owner: false });

    let mut traffic = Traffic::new(Plan { record: GOOD.record(), steps: vec![99, 100], ..plan() }, 1);
    let begun = traffic.route_of(None, Some(Conversation { id: "talk", began_ms: None }));
    assert_eq!(begun.version, NEW);
    traffic.end(&begun, GOOD, GOOD);
    for _ in 0..1_000 {
        let conversation = Conversation { id: "talk", began_ms: Some(begun.began_ms) };
        let route = traffic.route_of(None, Some(conversation));
        traffic.end(&route, GOOD, GOOD);
    }
    assert_eq!((traffic.of_new, traffic.rollout().calls_of_stage()), (1_001, 2));
    assert_eq!(traffic.rollout().surplus(), [Surplus::default(), Surplus { of_origins: 0, of_conversations: 999 }]);
}

#[test]
fn a_row_whose_bins_are_not_all_there_is_none() {
    let mut traffic = Traffic::new(plan(), 1);
    while traffic.rollout().calls_of_stage() == 0 {
        traffic.call(GOOD, GOOD);
    }
    traffic.versions.settle();
    let row = encode_row(&traffic.versions);
    // A string of as many bytes as there are bins.
    let head = [0x59, 0x01, 0x00];
    let at = row.windows(3).position(|bytes| bytes == head).expect("the bins of stable's origins");
    let mut fewer = row.clone();
    drop(fewer.splice(at..at + 4, [0x58, 0xff]));
    assert_eq!((decode_row(&fewer), decode_row(&row)), (Err(RowError), Ok(traffic.versions)));
}

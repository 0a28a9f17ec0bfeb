//! What ends a rollout, and what does not.

use super::*;

const GOOD: Rates = Rates { errors: 0.0, refusals: 0.0, late: 0.0 };

/// A ticket of each version.
fn tickets(traffic: &mut Traffic) -> (Ticket, Ticket) {
    let mut of = |side: Side| loop {
        let ticket = traffic.route().ticket.expect("a rollout is under way");
        if ticket.side() == side {
            return ticket;
        }
    };
    (of(Side::Stable), of(Side::New))
}

fn breach(breach: Breach) -> Outcome {
    Outcome { is_error: true, breach: Some(breach), ..Outcome::default() }
}

#[test]
fn one_crash_sends_a_version_back_for_good() {
    let mut traffic = Traffic::new(plan(), 1);
    let (_, new) = tickets(&mut traffic);
    let reason = Reason::Bound { breach: Breach::Crash, count: 1 };
    assert_eq!(traffic.versions.outcome(new, &breach(Breach::Crash), 9), Some(Change::WentBack(reason)));
    assert_eq!((traffic.versions.stable(), traffic.versions.may_answer(NEW)), (STABLE, false));
    for _ in 0..200 {
        let route = traffic.route();
        assert_eq!((route.version, route.ticket, route.shadow), (STABLE, None, None));
    }
    let refusal = traffic.versions.begin(plan(), 10_000).expect_err("it went back");
    assert_eq!(
        refusal.to_string(),
        "this version went back before: it crashed, which the stable version did not. Change it, then try again"
    );
    // Another digest is another version.
    traffic.versions.begin(Plan::of(OTHER), 10_000).expect("a version that was not tried");
}

#[test]
fn the_call_that_sends_a_version_back_is_one_of_those_that_are_told() {
    let refused = Outcome { is_refused: true, breach: Some(Breach::Refusal), ..Outcome::default() };
    let one = Tally { calls: 1, bad: 1 };
    let mut traffic = Traffic::new(plan(), 1);
    let (_, new) = tickets(&mut traffic);
    assert!(matches!(traffic.versions.outcome(new, &refused, 9), Some(Change::WentBack(Reason::Bound { .. }))));
    let rollout = traffic.rollout();
    assert_eq!((rollout.trial().seen(Signal::Refusal).new, rollout.watched()), (one, (Tally::default(), one)));
    assert_eq!((rollout.calls_of_stage(), rollout.breaches().get(&Breach::Refusal)), (1, Some(&1)), "once");
    assert_eq!(traffic.versions.outcome(new, &refused, 9), None, "it is over");
    assert_eq!(traffic.rollout().trial().seen(Signal::Failure).new, one);
    traffic.versions.settle();
    assert_eq!(decode_row(&encode_row(&traffic.versions)).as_ref(), Ok(&traffic.versions));

    let mut traffic = Traffic::new(Plan { shadow: true, ..plan() }, 1);
    let (_, copy) = traffic.route().shadow.expect("each call has a copy");
    assert!(matches!(traffic.versions.outcome(copy, &refused, 9), Some(Change::WentBack(_))));
    assert_eq!(traffic.rollout().watched(), (one, Tally::default()), "nobody heard it");

    // What is no evidence sends it back as well, and is none then either.
    let mut traffic = Traffic::new(plan(), 1);
    let (_, new) = tickets(&mut traffic);
    assert!(matches!(traffic.versions.outcome(new.uncompared(), &refused, 9), Some(Change::WentBack(_))));
    assert_eq!(traffic.rollout().trial().seen(Signal::Refusal).new, Tally::default());
}

#[test]
fn what_stable_does_too_is_no_reason() {
    let mut traffic = Traffic::new(plan(), 1);
    let (stable, new) = tickets(&mut traffic);
    assert_eq!(traffic.versions.outcome(stable, &breach(Breach::Deadline), 9), None);
    assert_eq!(traffic.versions.outcome(new, &breach(Breach::Deadline), 9), None);
    assert!(matches!(traffic.versions.outcome(new, &breach(Breach::Budget), 9), Some(Change::WentBack(_))));

    let plan = Plan { known: [Breach::Refusal].into(), ..plan() };
    let mut traffic = Traffic::new(plan, 1);
    let (_, new) = tickets(&mut traffic);
    assert_eq!(traffic.versions.outcome(new, &breach(Breach::Refusal), 9), None);
}

#[test]
fn an_owner_may_bear_some() {
    let mut traffic = Traffic::new(Plan { bounds: [(Breach::Crash, 2)].into(), ..plan() }, 1);
    let (_, new) = tickets(&mut traffic);
    assert_eq!(traffic.versions.outcome(new, &breach(Breach::Crash), 9), None);
    assert_eq!(traffic.versions.outcome(new, &breach(Breach::Crash), 9), None);
    let reason = Reason::Bound { breach: Breach::Crash, count: 3 };
    assert_eq!(traffic.versions.outcome(new, &breach(Breach::Crash), 9), Some(Change::WentBack(reason)));
    assert_eq!(reason.words(), "it crashed 3 times, which the stable version did not");
}

/// Nothing is decided by time: a rollout without traffic stays where it is.
#[test]
fn little_traffic_holds() {
    let mut traffic = Traffic::new(plan(), 4);
    for _ in 0..300 {
        traffic.call(GOOD, GOOD);
    }
    traffic.calls += 1_000_000_000_000;
    traffic.call(GOOD, GOOD);
    assert_eq!((traffic.phase(), traffic.rollout().share_percent()), (Phase::Running, 5));
    assert!(traffic.rollout().calls_of_stage() < 50);
}

/// Calls enough, and yet nothing is known: it is neither promoted nor sent back.
#[test]
fn undecided_is_never_promoted() {
    // A margin this small takes thousands of calls.
    let plan = Plan { margin_permille: 1, calls_min: 1, ..plan() };
    let rates = Rates::errors(0.1);
    let mut traffic = Traffic::new(Plan { record: rates.record(), ..plan }, 4);
    for _ in 0..3_000 {
        traffic.call(rates, rates);
    }
    assert!(traffic.rollout().calls_of_stage() > 50);
    assert_eq!((traffic.phase(), traffic.rollout().stage()), (Phase::Running, 0));
}

#[test]
fn a_shadow_has_no_calls_and_comes_before_the_first_step() {
    let plan = Plan { shadow: true, record: Rates::errors(0.01).record(), ..plan() };
    let mut traffic = Traffic::new(plan, 6);
    while traffic.rollout().stage() == 0 && traffic.calls < 5_000 {
        let route = traffic.route();
        let (version, shadow) = route.shadow.expect("each call has a copy");
        assert_eq!((route.version, version, shadow.side()), (STABLE, NEW, Side::New));
        let stable = route.ticket.expect("a rollout is under way");
        traffic.versions.outcome(stable, &Outcome::default(), traffic.calls);
        let copy = Outcome { differs: traffic.calls.is_multiple_of(10), ..Outcome::default() };
        traffic.versions.outcome(shadow, &copy, traffic.calls);
    }
    assert_eq!((traffic.rollout().stage(), traffic.rollout().share_percent()), (1, 5));
    let (differing, of) = traffic.rollout().differing();
    assert_eq!((differing, of), (traffic.calls / 10, traffic.calls));

    // It was good while it was watched.
    assert_eq!(traffic.rollout().behaves_alike(), None);
    let phase = traffic.run(GOOD, Rates::errors(0.5), 50_000);
    assert!(matches!(phase, Phase::WentBack(_)), "{phase:?}");
    let alike = traffic.rollout().behaves_alike().expect("calls of both kinds");
    assert!(alike < 0.01, "{alike}");
}

#[test]
fn labelled_cases_are_evidence_and_calls_of_their_step() {
    let mut traffic = Traffic::new(plan(), 1);
    let case = |traffic: &mut Traffic, is_wrong: bool| {
        let [stable, new] = traffic.versions.case_tickets().expect("a rollout is under way");
        let change = traffic.versions.outcome(stable, &Outcome::default(), 9);
        change.or(traffic.versions.outcome(new, &Outcome { is_error: is_wrong, ..Outcome::default() }, 9))
    };
    for _ in 0..3 {
        assert_eq!(case(&mut traffic, false), None);
    }
    assert_eq!(traffic.rollout().calls_of_stage(), 3);
    assert_eq!(traffic.rollout().watched(), (Tally::default(), Tally::default()), "nobody called");
    // At the share of five percent, no call of anybody else is needed.
    let went_back = (0..12).find_map(|_| case(&mut traffic, true).filter(|change| *change != Change::Evidence));
    assert!(matches!(went_back, Some(Change::WentBack(Reason::Worse { .. }))), "{went_back:?}");
    let [stable, new] = traffic.rollout().cases().expect("cases were counted");
    assert!(stable.calls > 3 && new.bad > 0, "{stable:?} {new:?}");
    assert_eq!((stable.bad, new.calls - new.bad), (0, 3));
    traffic.versions.settle();
    assert_eq!(decode_row(&encode_row(&traffic.versions)).as_ref(), Ok(&traffic.versions));
    assert_eq!(traffic.versions.case_tickets(), None, "it is over");
}

#[test]
fn what_a_version_may_have_changed_stays_known_when_it_went_back() {
    let mut traffic = Traffic::new(plan(), 1);
    let (_, new) = tickets(&mut traffic);
    assert!(!traffic.versions.note_effects(&[]));
    assert!(traffic.versions.note_effects(&["mail/send".to_owned(), "mail/send".to_owned()]));
    assert!(traffic.versions.outcome(new, &breach(Breach::Crash), 9).is_some());
    // A turn that was under way ends later.
    assert!(traffic.versions.note_effects(&["shop/order".to_owned()]));
    let row = encode_row(&traffic.versions);
    let read = decode_row(&row).expect("a row");
    let effects: Vec<(&str, u32)> = read.rollout().expect("one").effects().collect();
    assert_eq!(effects, [("mail/send", 2), ("shop/order", 1)]);
    // There is room for so many names.
    let many: Vec<String> = (0..100).map(|number| format!("server/{number}")).collect();
    assert!(traffic.versions.note_effects(&many));
    let effects: Vec<(&str, u32)> = traffic.rollout().effects().collect();
    assert_eq!(effects.len(), 65);
    assert!(effects.contains(&("other tools", 38)), "{effects:?}");
    assert!(encode_row(&traffic.versions).len() < VERSIONS_ROW_BYTES_MAX);
}

#[test]
fn what_is_late_or_foreign_is_not_counted() {
    let mut traffic = Traffic::new(plan(), 1);
    let (_, new) = tickets(&mut traffic);
    traffic.versions.abort().expect("it is under way");
    traffic.versions.begin(plan(), 50_000).expect("what was aborted can be tried again");
    assert_eq!(traffic.versions.outcome(new, &breach(Breach::Crash), 50_001), None);
    assert_eq!((traffic.phase(), traffic.rollout().calls_of_stage()), (Phase::Running, 0));
}

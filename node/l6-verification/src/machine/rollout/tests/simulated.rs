//! Many rollouts, looked at after every call.

use althing_testing::at_night;

use super::*;

/// Rollouts of an equal version by day and at night: without a time for the first token, and with one.
const EQUAL: [[u64; 2]; 2] = [[350, 150], [7_000, 3_000]];

fn went_back(phase: Phase) -> bool {
    matches!(phase, Phase::WentBack(_))
}

/// How many of so many rollouts of a version that is equally good go back. None is promoted on fewer calls than stated.
fn wrong(rollouts: u64, plan: &Plan, rates: Rates) -> u64 {
    let plan = Plan { record: rates.record(), ..plan.clone() };
    let least = plan.stages() as u64 * u64::from(plan.calls_min);
    let mut wrong = 0;
    for seed in 0..rollouts {
        let mut traffic = Traffic::new(plan.clone(), seed);
        match traffic.run(rates, rates, 5_000) {
            Phase::WentBack(_) => wrong += 1,
            Phase::Promoted { .. } => assert!(traffic.of_new >= least, "seed {seed}: after {} calls", traffic.of_new),
            Phase::Running | Phase::Aborted => {}
            Phase::PromotedElsewhere { .. } => panic!("seed {seed}: there is no other node"),
        }
    }
    wrong
}

#[test]
fn of_many_rollouts_of_an_equal_version_few_go_back() {
    let with_lateness = Plan { first_token_ms: Some(500), ..plan() };
    let rates = Rates { errors: 0.02, refusals: 0.03, late: 0.05 };
    let [without, with] = EQUAL[usize::from(at_night())];
    let found = wrong(without, &plan(), Rates::errors(0.01)) + wrong(with, &with_lateness, rates);
    let all = without + with;
    println!("{found} of {all}");
    assert!(found * 20 <= all, "{found} of {all} equal versions went back");
}

/// After how many calls of the new version a test that knows both shares finds it (Wald's).
fn walds(draws: &mut Draws, stable: f64, new: f64) -> u64 {
    let (mut ratio, mut calls) = (0.0, 0);
    while ratio < 20.0_f64.ln() && calls < 10_000 {
        calls += 1;
        let is_bad = draws.happens(new);
        ratio += if is_bad { (new / stable).ln() } else { ((1.0 - new) / (1.0 - stable)).ln() };
    }
    calls
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Turns of a version that fails once in a hundred, as many as a node counted before a rollout.
fn counted(turns: u64, seed: u64) -> Tally {
    let (mut draws, mut tally) = (Draws::new(1_000 + seed), Tally::default());
    (0..turns).for_each(|_| tally.add(draws.happens(0.01)));
    tally
}

/// With the hundred turns that a record needs, and without one, as after a start of the node.
#[test]
fn a_worse_version_goes_back_within_twice_the_calls_of_a_test_that_knows_and_thrice_without_a_record() {
    let (stable, steps) = (Rates::errors(0.01), vec![5, 25, 50, 100]);
    let plan = Plan { steps, margin_permille: 10, ..plan() };
    for (errors, turns, most) in [(0.05, 100, 2), (0.1, 100, 2), (0.05, 99, 3), (0.1, 99, 3)] {
        let found = (0..300).map(|seed| {
            let mut traffic = Traffic::new(plan.clone().with_record(counted(turns, seed)), seed);
            let phase = traffic.run(stable, Rates::errors(errors), 30_000);
            if went_back(phase) { traffic.of_new } else { u64::MAX }
        });
        let ours = median(found.collect());
        let mut draws = Draws::new(5);
        let walds = median((0..2_000).map(|_| walds(&mut draws, 0.01, errors)).collect());
        println!("1 % to {errors} after {turns} turns: {ours} calls, Wald's test {walds}");
        assert!(ours <= most * walds, "{ours} calls, where {walds} do for a test that knows both shares");
    }
}

#[test]
fn a_record_is_used_where_it_is_long_enough_and_weighs_no_more_than_a_short_one() {
    let of = |calls, bad| plan().with_record(Tally { calls, bad }).record;
    assert_eq!(of(99, 40), plan().record);
    assert_eq!(of(100, 1)[Signal::Failure as usize], Tally { calls: 100, bad: 1 });
    assert_eq!(of(100, 1)[1..], plan().record[1..], "in which way they failed is not known");
    let long = SignalTrials::new(&plan().with_record(Tally { calls: 1_000_000, bad: 10_000 }));
    assert_eq!(long, SignalTrials::new(&plan().with_record(Tally { calls: 200, bad: 2 })));
}

#[test]
fn an_equal_version_is_promoted_and_never_on_fewer_calls_than_stated() {
    let plan = Plan { record: Rates::errors(0.01).record(), calls_min: 400, ..plan() };
    let mut promoted = 0;
    for seed in 0..20 {
        let mut traffic = Traffic::new(plan.clone(), seed);
        let mut steps = Vec::new();
        while traffic.phase() == Phase::Running && traffic.calls < 40_000 {
            let before = traffic.of_new;
            let of_stage = traffic.rollout().calls_of_stage();
            match traffic.call(Rates::errors(0.01), Rates::errors(0.01)) {
                Some(Change::Share(share)) => steps.push((share, of_stage + traffic.of_new - before)),
                Some(Change::Promoted) => steps.push((100, of_stage + traffic.of_new - before)),
                _ => {}
            }
        }
        assert!(steps.iter().all(|(_, calls)| *calls >= 400), "{steps:?}");
        if traffic.phase() == (Phase::Promoted { by_owner: false }) {
            promoted += 1;
            assert_eq!(steps.iter().map(|(share, _)| *share).collect::<Vec<_>>(), [25, 50, 100]);
            assert!(traffic.of_new >= 3 * 400 && traffic.versions.stable() == NEW);
        }
    }
    assert!(promoted >= 12, "{promoted} of 20 were promoted");
}

/// A version that is worse by the margin is as good as never promoted, whether or not it is found worse.
#[test]
fn a_version_that_is_worse_by_the_margin_is_not_promoted() {
    let plan = Plan { record: Rates::errors(0.1).record(), margin_permille: 50, ..plan() };
    let promoted = (0..60).filter(|seed| {
        let phase = Traffic::new(plan.clone(), *seed).run(Rates::errors(0.1), Rates::errors(0.15), 8_000);
        matches!(phase, Phase::Promoted { .. })
    });
    assert_eq!(promoted.count(), 0);
}

/// One kind of failure that became rarer does not hide another one that became common.
#[test]
fn errors_are_not_hidden_by_fewer_refusals() {
    let stable = Rates { refusals: 0.2, ..Rates::default() };
    let plan = Plan { record: stable.record(), ..plan() };
    let phase = Traffic::new(plan, 3).run(stable, Rates::errors(0.2), 20_000);
    assert!(matches!(phase, Phase::WentBack(Reason::Worse { signal: Signal::Error, .. })), "{phase:?}");
}

#[test]
fn lateness_is_found_where_a_time_is_given() {
    let (stable, late) = (Rates { late: 0.05, ..Rates::default() }, Rates { late: 0.5, ..Rates::default() });
    let plan = Plan { record: stable.record(), first_token_ms: Some(500), ..plan() };
    let phase = Traffic::new(plan, 3).run(stable, late, 20_000);
    assert!(matches!(phase, Phase::WentBack(Reason::Worse { signal: Signal::Slowness, .. })), "{phase:?}");
}

/// A version that was good at the first step and is bad at the second goes back all the same.
#[test]
fn what_gets_worse_later_is_found_too() {
    let plan = Plan { record: Rates::errors(0.01).record(), ..plan() };
    let mut traffic = Traffic::new(plan, 8);
    let good = Rates::errors(0.01);
    while traffic.rollout().stage() == 0 && traffic.calls < 40_000 {
        traffic.call(good, good);
    }
    assert_eq!((traffic.rollout().stage(), traffic.rollout().share_percent()), (1, 25));
    let phase = traffic.run(good, Rates::errors(0.3), 80_000);
    assert!(went_back(phase) && traffic.rollout().stage() == 1, "{phase:?} at stage {}", traffic.rollout().stage());
}

/// Half of the calls are those of one owner, and fail far more often, whichever version answers: as much of both is left out.
#[test]
fn an_owner_whose_calls_often_fail_sends_no_equal_version_back() {
    const ROLLOUTS: u64 = 150;
    let plan = Plan { record: Rates::errors(0.01).record(), ..plan() };
    let found = (0..ROLLOUTS).filter(|seed| {
        let mut traffic = Traffic::new(plan.clone(), *seed);
        while traffic.phase() == Phase::Running && traffic.calls < 3_000 {
            let often = traffic.draws.happens(0.5);
            let owner = if often { "often".to_owned() } else { format!("owner {}", traffic.calls % OWNERS) };
            let rates = Rates::errors(if often { 0.3 } else { 0.01 });
            let route = traffic.route_of(Some(&owner), None);
            traffic.end(&route, rates, rates);
        }
        went_back(traffic.phase())
    });
    let found = found.count() as u64;
    println!("{found} of {ROLLOUTS}");
    assert!(found * 20 <= ROLLOUTS, "{found} of {ROLLOUTS} equal versions went back");
}

//! Rollouts on nodes that end again and again: what must hold holds for each seed, wherever the node ends, whoever is let loose; the
//! same seed decides the same; and each planted bug is caught.

use std::collections::BTreeSet;

use althing_simulations::rollouts::evidence::{Decision, Event};
use althing_simulations::rollouts::plan::{LifeEnd, Moment, Plan};
use althing_simulations::rollouts::{self, Counts, adversary, flaw, night};
use althing_simulations::sessions::plan::Loss;
use althing_testing::at_night;
use proptest::prelude::*;

/// Seeds of every run of the tests; `make night` runs 5,000 besides, in release.
const SEEDS: [u64; 2] = [200, 1_000];
/// Seeds of each adversary besides: in a change, and at night.
const EACH: [u64; 2] = [10, 50];
/// Seeds that are run twice: in a change, and at night.
const TWICE: [u64; 2] = [3, 20];
/// Seeds among which the first is sought that shows a planted bug.
const SOUGHT: u64 = 200;
/// Chance that a version fails as often where it is watched, below which it is worth a look.
const RARE: f64 = 0.05;

#[test]
fn what_must_hold_holds_for_each_seed() {
    let seeds = SEEDS[usize::from(at_night())];
    let mut all = Counts::default();
    for (seed, counts, violations) in night::run_all(1, seeds) {
        assert!(violations.is_empty(), "althing-sim rollouts --seed {seed}\n{violations:#?}");
        all.add(&counts);
    }
    // What the runs are about took place.
    let share = |of_two_hundred: u64| usize::try_from(of_two_hundred * seeds / 200).expect("a count");
    let enough = all.rollouts > share(250) && all.promotions > share(40) && all.reversals > share(40);
    let odd = all.refusals > share(10) && all.withheld > share(500) && all.lives > share(60);
    assert!(enough && odd, "too little happened: {all:?}");
    assert!(all.adversaries > share(5), "too few adversaries: {all:?}");
}

/// Seeds that found faults of the program. 1876: a node that started again with a clock that was set back divided conversations from
/// before anew. 12574: where an owner went back to an earlier version by a rollout, a node took its promotion of before, of which
/// others tell for a day, for that of now.
const FOUND: [u64; 2] = [1_876, 12_574];

#[test]
fn what_seeds_found_stays_mended() {
    for seed in FOUND {
        let violations = rollouts::run(seed, Some(adversary::NONE), &*rollouts::as_it_is()).violations;
        assert!(violations.is_empty(), "althing-sim rollouts --seed {seed} --adversary none\n{violations:#?}");
    }
}

#[test]
fn a_seed_decides_the_same_twice() {
    let run = |seed| rollouts::run(seed, None, &*rollouts::as_it_is()).lines();
    let mut runs = BTreeSet::new();
    let seeds = TWICE[usize::from(at_night())];
    for seed in 1..=seeds {
        let (first, second) = (run(seed), run(seed));
        let differs = first.iter().zip(&second).find(|(first, second)| first != second);
        assert!(differs.is_none() && first.len() == second.len(), "seed {seed}: {differs:?}");
        runs.insert(first);
    }
    assert_eq!(runs.len() as u64, seeds, "some seeds make no difference");
}

#[test]
fn no_adversary_breaks_what_must_hold() {
    for name in adversary::NAMES {
        let mut reversals = 0;
        for seed in 1..=EACH[usize::from(at_night())] {
            let outcome = rollouts::run(seed, Some(name), &*rollouts::as_it_is());
            let again = format!("althing-sim rollouts --seed {seed} --adversary {name}");
            assert!(outcome.violations.is_empty(), "{again}\n{:#?}", outcome.violations);
            reversals += outcome.counts.reversals;
        }
        assert!(reversals > 0, "{name} never goes back");
    }
}

/// What behaves while it is watched goes back, and it shows how it knows.
#[test]
fn a_version_that_behaves_while_it_is_watched_is_told_apart() {
    let runs = (1..=SOUGHT).map(|seed| rollouts::run(seed, Some("sham"), &*rollouts::as_it_is()));
    let alike = runs.flat_map(|outcome| outcome.evidence.events).find_map(|event| match event {
        Event::Decision { decision: Decision::Reversal { alike: Some(alike) }, .. } => Some(alike),
        _ => None,
    });
    assert!(alike.is_some_and(|alike| alike < RARE), "{alike:?}");
}

#[test]
fn a_planted_bug_is_sought_by_the_invariant_that_it_breaks() {
    let seek = |invariant| night::report(10, None, Some(adversary::NONE), Some("shadow-shown"), invariant);
    let says = |told: &night::Report, words: &str| told.lines.iter().any(|line| line.contains(words));
    for named in [None, Some("a-shadow-is-silent")] {
        let told = seek(named);
        assert!(!told.is_sound && says(&told, ": a-shadow-is-silent: "), "{:?}", told.lines.last());
    }
    let told = seek(Some("verdicts-count"));
    assert!(told.is_sound && says(&told, "10 seeds, and none breaks verdicts-count"), "{:?}", told.lines.last());
}

fn life_end() -> impl Strategy<Value = LifeEnd> {
    let write = (1_u64..60).prop_map(Moment::Write);
    let decision = (1_u64..6).prop_map(Moment::Decision);
    let loss = prop_oneof![Just(Loss::Process), Just(Loss::Power)];
    let at = prop_oneof![write, decision];
    (at, any::<bool>(), loss).prop_map(|(at, is_made, loss)| LifeEnd { at, is_made, loss })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn wherever_a_node_ends_and_however_often_what_must_hold_holds(
        seed in 1_u64..1_000_000,
        ends in prop::collection::vec(life_end(), 0..8),
    ) {
        let plan = Plan { ends, ..Plan::draw(seed, Some(adversary::NONE)) };
        let outcome = rollouts::run_plan(seed, plan, &*rollouts::as_it_is());
        prop_assert!(outcome.violations.is_empty(), "seed {}: {:#?}", seed, outcome.violations);
    }
}

/// That a planted bug breaks an invariant in that seed, the first one that shows it, which without it keeps everything. Where what
/// a seed draws has changed, the message says how the first one is sought anew.
fn breaks(name: &str, seed: u64, invariant: &str) {
    let flaw = flaw::named(name).expect("it is one of them");
    let broken = rollouts::run(seed, Some(adversary::NONE), &*flaw).violations;
    let is_broken = broken.iter().any(|violation| violation.invariant == invariant);
    let anew = format!("althing-sim rollouts --adversary none --flaw {name} --invariant {invariant}");
    assert!(is_broken, "{name}, seed {seed}: {invariant} holds; seek the first seed anew with `{anew}`\n{broken:#?}");
    let sound = rollouts::run(seed, Some(adversary::NONE), &*rollouts::as_it_is()).violations;
    assert!(sound.is_empty(), "seed {seed}: {sound:#?}");
}

macro_rules! planted {
    ($($test:ident: $name:literal, $seed:literal breaks $invariant:literal;)*) => {
        $(#[test]
        fn $test() {
            breaks($name, $seed, $invariant);
        })*

        #[test]
        fn every_planted_bug_is_caught_and_every_invariant_catches_one() {
            assert_eq!(BTreeSet::from([$($name),*]), flaw::names().into_iter().collect());
            assert_eq!(BTreeSet::from([$($invariant),*]), rollouts::invariant::names().into_iter().collect());
        }
    };
}

planted! {
    a_bound_that_is_ignored: "bound-ignored", 1 breaks "what-is-worse-goes-back";
    a_claim_that_is_believed: "claim-believed", 1 breaks "verdicts-count";
    a_clock_that_is_believed: "clock-believed", 6 breaks "a-conversation-stays";
    a_conversation_that_is_lost: "conversation-lost", 1 breaks "a-conversation-stays";
    a_call_that_is_counted_twice: "counted-twice", 1 breaks "undecided-is-not-promoted";
    a_decision_that_is_told_early: "decision-told-early", 3 breaks "one-stable";
    a_decision_that_is_not_synced: "decision-unsynced", 5 breaks "one-stable";
    a_stream_that_no_gate_judges: "gate-skipped-streamed", 1 breaks "nothing-refused-is-shown";
    an_older_state_that_is_adopted: "older-adopted", 19 breaks "only-who-may-answers";
    a_reversal_that_is_forgotten: "reversal-forgotten", 1 breaks "what-went-back-stays-back";
    a_reversal_that_is_not_written: "reversal-unwritten", 46 breaks "what-went-back-stays-back";
    a_shadow_that_acts: "shadow-acts", 4 breaks "a-shadow-is-silent";
    a_shadow_that_is_shown: "shadow-shown", 4 breaks "a-shadow-is-silent";
    an_undecided_version_that_is_promoted: "undecided-promoted", 1 breaks "undecided-is-not-promoted";
}

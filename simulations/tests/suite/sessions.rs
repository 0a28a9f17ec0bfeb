//! Sessions whose node ends again and again: what must hold holds for each seed, wherever the node ends, whoever is let loose; the
//! same seed decides the same; and each planted bug is caught.

use std::collections::BTreeSet;

use althing_simulations::sessions::handoff::Poison;
use althing_simulations::sessions::plan::{LifeEnd, Loss, Moment, Plan};
use althing_simulations::sessions::{self, Counts, adversary, flaw, night};
use althing_testing::at_night;
use proptest::prelude::*;

/// Seeds of every run of the tests; `make night` runs 5,000 besides, in release.
const SEEDS: [u64; 2] = [200, 1_000];
/// Seeds of each adversary besides: in a change, and at night.
const EACH: [u64; 2] = [2, 20];
/// Seeds that are run twice: in a change, and at night.
const TWICE: [u64; 2] = [3, 20];
/// Seeds among which the first is sought whose rows are forged.
const SOUGHT: u64 = 200;

#[test]
fn what_must_hold_holds_for_each_seed() {
    let seeds = SEEDS[usize::from(at_night())];
    let mut all = Counts::default();
    for (seed, counts, violations) in night::run_all(1, seeds) {
        assert!(violations.is_empty(), "althing-sim sessions --seed {seed}\n{violations:#?}");
        all.add(&counts);
    }
    // What the runs are about took place.
    let share = |of_two_hundred: u64| usize::try_from(of_two_hundred * seeds / 200).expect("a count");
    let enough = all.ends >= share(200) && all.calls > share(800) && all.lives >= share(200);
    let handed = all.begun > share(50) && all.stayed > 0;
    assert!(enough && handed && all.doubts > share(10), "too little happened: {all:?}");
    assert!(all.adversaries > share(5), "too few adversaries: {all:?}");
}

#[test]
fn a_seed_decides_the_same_twice() {
    let run = |seed| sessions::run(seed, None, sessions::as_it_is()).lines();
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
        for seed in 1..=EACH[usize::from(at_night())] {
            let outcome = sessions::run(seed, Some(name), sessions::as_it_is());
            let again = format!("althing-sim sessions --seed {seed} --adversary {name}");
            assert!(outcome.violations.is_empty(), "{again}\n{:#?}", outcome.violations);
        }
    }
}

#[test]
fn whatever_is_wrong_with_a_handoff_its_work_does_not_begin() {
    for poison in Poison::ALL {
        let mut plan = Plan::draw(1, Some(adversary::NONE)).handoff;
        (plan.lost_permille, plan.poison) = (0, Some(poison));
        plan.ends.clear();
        let events = sessions::handoff::play(&plan, sessions::as_it_is());
        let begins = events.iter().any(|event| matches!(event, sessions::handoff::HandoffEvent::Beginning { .. }));
        assert_eq!(begins, poison.is_harmless(), "{poison:?}: {events:?}");
    }
}

#[test]
fn forged_rows_fail_their_turn() {
    let mut forged = (1..=SOUGHT).map(|seed| sessions::run(seed, Some("forger"), sessions::as_it_is()));
    let outcome = forged.find(|outcome| outcome.counts.forged > 0).expect("rows are there at some end");
    for turn in &outcome.evidence.forged {
        let last = outcome.evidence.last(*turn).expect("it was read");
        assert!(last.text.contains("DAMAGED"), "seed {}: {last:?}", outcome.seed);
    }
}

fn life_end() -> impl Strategy<Value = LifeEnd> {
    let write = (1_u64..60, any::<bool>()).prop_map(|(number, is_made)| Moment::Write { number, is_made });
    let time = (1_u64..300).prop_map(Moment::Time);
    let loss = prop_oneof![Just(Loss::Process), Just(Loss::Power)];
    (prop_oneof![write, time], loss).prop_map(|(at, loss)| LifeEnd { at, loss })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn wherever_a_node_ends_and_however_often_what_must_hold_holds(
        seed in 1_u64..1_000_000,
        ends in prop::collection::vec(life_end(), 0..8),
    ) {
        let plan = Plan { ends, ..Plan::draw(seed, Some(adversary::NONE)) };
        let outcome = sessions::run_plan(seed, plan, sessions::as_it_is());
        prop_assert!(outcome.violations.is_empty(), "seed {}: {:#?}", seed, outcome.violations);
    }
}

/// That a planted bug breaks an invariant in that seed, the first one that shows it, which without it keeps everything. Where what
/// a seed draws has changed, the message says how the first one is sought anew.
fn breaks(name: &str, seed: u64, invariant: &str) {
    let flaw = flaw::named(name).expect("it is one of them");
    let broken = sessions::run(seed, Some(adversary::NONE), flaw).violations;
    let is_broken = broken.iter().any(|violation| violation.invariant == invariant);
    let anew = format!("althing-sim sessions --adversary none --flaw {name} --invariant {invariant}");
    assert!(is_broken, "{name}, seed {seed}: {invariant} holds; seek the first seed anew with `{anew}`\n{broken:#?}");
    let sound = sessions::run(seed, Some(adversary::NONE), sessions::as_it_is()).violations;
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
            assert_eq!(BTreeSet::from([$($invariant),*]), sessions::invariant::names().into_iter().collect());
        }
    };
}

planted! {
    a_checkpoint_that_is_ahead: "checkpoint-ahead", 2 breaks "nothing-heard-is-lost";
    a_doubt_that_is_dropped: "doubt-dropped", 1 breaks "doubt-is-told";
    an_end_that_is_not_synced: "end-unsynced", 2 breaks "one-end-per-task";
    a_final_call_that_is_repeated: "final-repeated", 1 breaks "no-effect-twice";
    a_handoff_that_begins_twice: "handoff-begun-twice", 1 breaks "a-handoff-has-one-owner";
    an_intent_that_is_not_synced: "intent-unsynced", 1 breaks "no-effect-twice";
    a_journal_that_is_deleted_early: "journal-deleted-early", 42 breaks "no-effect-twice";
    a_key_without_occurrence: "key-without-occurrence", 1 breaks "no-effect-twice";
    a_label_that_is_lost: "label-lost", 7 breaks "labels-hold";
    a_note_that_is_lost: "note-lost", 1 breaks "nothing-heard-is-lost";
    a_result_that_is_late: "result-late", 2 breaks "nothing-heard-is-lost";
    a_task_that_is_not_synced: "task-unsynced", 6 breaks "the-acknowledged-is-kept";
}

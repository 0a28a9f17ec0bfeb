//! Every scenario: what must hold holds, in a change for its first seed, at night for all. And the same seed decides the same,
//! twice.

use std::path::{Path, PathBuf};

use althing_simulations::run::{Outcome, run};
use althing_simulations::scenario::{EventKind, Scenario};
use althing_testing::at_night;

/// Seeds that are run twice: in a change, and at night.
const TWICE: [u64; 2] = [2, 20];

fn folder() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is")).join("scenarios")
}

fn scenario(name: &str) -> Scenario {
    Scenario::read(&folder().join(format!("{name}.toml"))).expect("a scenario")
}

fn holds(name: &str) {
    let scenario = scenario(name);
    let seeds = if at_night() { &scenario.seeds[..] } else { &scenario.seeds[..1] };
    for seed in seeds {
        let outcome = run(&scenario, *seed);
        let again = format!("althing-sim replay simulations/scenarios/{name}.toml --seed {seed}");
        assert!(outcome.violations.is_empty(), "{again}\n{:#?}", outcome.violations);
        assert!(outcome.values >= 20, "{name}: only {} values were kept", outcome.values);
        assert!(outcome.findable >= 20, "{name}: only {} finds had something to find", outcome.findable);
        let undisturbed = outcome.undisturbed_calls.iter().all(|undisturbed| *undisturbed >= 20);
        assert!(
            scenario.calls.is_none() || undisturbed,
            "{name}: nearly all calls were disturbed: {:?}",
            outcome.undisturbed_calls
        );
        happened(name, &scenario, &outcome);
        let missed = outcome.findable - outcome.found;
        assert!(missed == 0 || scenario.finds.share < 1.0, "{again}: {missed} of {} not found", outcome.findable);
    }
}

/// What a scenario is about took place.
fn happened(name: &str, scenario: &Scenario, outcome: &Outcome) {
    let does = |what| scenario.at.iter().any(|at| at.what == what);
    let [answered, refused] = outcome.questions;
    assert!(!does(EventKind::Ask) || answered >= 20, "{name}: only {answered} questions were answered");
    if does(EventKind::Distrust) {
        assert!(outcome.refused >= 20, "{name}: only {} calls were refused", outcome.refused);
        assert!(!does(EventKind::Ask) || refused >= 5, "{name}: only {refused} questions were refused");
    }
    let judges = |invariant: &str| scenario.invariants.iter().any(|name| name == invariant);
    let beside = outcome.connected;
    assert!(
        !judges("the-connected-are-found") || beside >= 3,
        "{name}: only {beside} nodes were connected to what they seek"
    );
    if does(EventKind::Interrupt) {
        assert!(outcome.interrupted >= 20, "{name}: only {} turns were interrupted", outcome.interrupted);
    }
    if does(EventKind::Reserve) {
        let enough = outcome.reservations.iter().all(|some| *some >= 20);
        assert!(enough, "{name}: too few reservations were made, or refused: {:?}", outcome.reservations);
    }
    if name == "twofaced" {
        // Their agents are theirs, and found: one of both things that they say is believed.
        assert!(outcome.of_adversaries > 20, "{name}: only {} agents of theirs were found", outcome.of_adversaries);
    }
    let waits = does(EventKind::Interrupt) || does(EventKind::Reserve);
    assert!(!waits || outcome.at_rest, "{name}: somebody waited for an answer, or held a lease, at the end");
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn every_scenario_is_run() {
            let tested = [$(stringify!($name)),*];
            for entry in std::fs::read_dir(folder()).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
                assert!(tested.contains(&name.as_str()), "{name} is not run here");
            }
        }
    };
}

scenarios! {
    besieged churn eclipse first flood hoarded interrupted join keys lossy partition poisoned reserved small squatted surrounded sybil40
    sybil100 sybil400 tasks trust twofaced
}

fn decided(outcome: &Outcome) -> (String, usize, usize) {
    (outcome.trace.digest(), outcome.finds, outcome.found)
}

/// Adversaries of one run know nothing of those of another.
#[test]
fn keys_of_one_person_decide_the_same_twice() {
    let mut scenario = scenario("eclipse");
    (scenario.nodes, scenario.for_ms, scenario.adversary[0].count) = (30, 30_000, 10);
    assert_eq!(decided(&run(&scenario, 1)), decided(&run(&scenario, 1)));
}

#[test]
fn seeds_decide_the_same_twice_and_differ_from_each_other() {
    let scenario = scenario("small");
    let many = TWICE[usize::from(at_night())];
    let mut traces = std::collections::BTreeSet::new();
    for seed in 1..=many {
        let (first, second) = (run(&scenario, seed), run(&scenario, seed));
        assert!(first.violations.is_empty(), "seed {seed}: {:#?}", first.violations);
        if decided(&first) != decided(&second) {
            let differs = first.trace.lines.iter().zip(&second.trace.lines).find(|(a, b)| a != b);
            panic!("seed {seed} decides otherwise the second time: {differs:?}");
        }
        traces.insert(first.trace.digest());
    }
    assert_eq!(traces.len() as u64, many, "some seeds make no difference");
}

//! A rollout survives the end of its node at each step.

use althing_protocol::digest;
use proptest::prelude::*;

use super::super::split::{Share, Split};
use super::super::versions::DRAINS_MAX;
use super::*;

#[test]
fn a_node_that_ends_at_each_change_goes_on_where_it_was() {
    let rates = Rates { errors: 0.01, refusals: 0.0, late: 0.05 };
    let plan = Plan {
        shadow: true,
        first_token_ms: Some(500),
        record: rates.record(),
        margin_permille: 100,
        known: [Breach::Refusal].into(),
        bounds: [(Breach::Crash, 1)].into(),
        ..plan()
    };
    let (mut whole, mut broken) = (Traffic::new(plan.clone(), 2), Traffic::new(plan, 2));
    let mut changes = 0;
    while whole.phase() == Phase::Running && whole.calls < 60_000 {
        let change = whole.call(rates, rates);
        assert_eq!(broken.call(rates, rates), change);
        whole.versions.settle();
        if change.is_some() {
            changes += 1;
            let row = encode_row(&broken.versions);
            assert!(row.len() < 8 << 10, "{} bytes", row.len());
            broken.versions = decode_row(&row).expect("the row that was written");
            assert_eq!(broken.versions, whole.versions);
        }
        broken.versions.settle();
    }
    assert!(changes >= 4 && whole.phase() != Phase::Running, "{changes} changes, then {:?}", whole.phase());
}

#[test]
fn what_went_back_is_still_gone_after_a_restart() {
    let rates = Rates::errors(0.01);
    let mut traffic = Traffic::new(Plan { record: rates.record(), ..plan() }, 2);
    let phase = traffic.run(rates, Rates::errors(0.6), 30_000);
    assert!(matches!(phase, Phase::WentBack(Reason::Worse { .. })), "{phase:?}");
    let versions = decode_row(&encode_row(&traffic.versions)).expect("a row");
    assert_eq!((versions.stable(), versions.may_answer(NEW)), (STABLE, false));
    let reversal = versions.reversals().get(&NEW).expect("it is remembered");
    let words = reversal.reason.words();
    assert!(words.starts_with("it is worse: ") && words.contains("of the stable version's"), "{words}");
}

#[test]
fn a_row_that_names_two_stable_versions_is_none() {
    let mut versions = Versions::new(STABLE);
    versions.begin(plan(), 0).expect("a plan");
    let row = encode_row(&versions);
    let at = row.windows(32).position(|bytes| bytes == STABLE).expect("the stable version");
    let mut other = row.clone();
    other[at..at + 32].copy_from_slice(&OTHER);
    assert_eq!((decode_row(&other), decode_row(&row)), (Err(RowError), Ok(versions)));
}

#[test]
fn a_row_that_counts_more_failures_than_calls_is_none() {
    let mut versions = Versions::new(STABLE);
    versions.begin(plan(), 0).expect("a plan");
    let row = |live: Tally| {
        let rollout = versions.rollout().expect("one was begun");
        let counts = super::super::run::Counts { live, ..rollout.counts().clone() };
        let parts = (rollout.plan().clone(), rollout.split().clone());
        let again = Rollout::of_parts(parts, (rollout.phase(), rollout.stage()), rollout.trial().clone(), counts);
        let known = (versions.stable(), versions.revision(), versions.latest_ms());
        encode_row(&Versions::of_parts(known, Some(again), Vec::new(), std::collections::BTreeMap::new()))
    };
    assert!(decode_row(&row(Tally { calls: 2, bad: 2 })).is_ok());
    assert_eq!(decode_row(&row(Tally { calls: 2, bad: 3 })), Err(RowError));
}

/// The largest row that there can be is still read.
#[test]
fn the_largest_row_is_read() {
    let tally = Tally { calls: u64::MAX, bad: u64::MAX };
    let reason = Reason::Worse { signal: Signal::Error, stable: tally, new: tally, one_in: u64::MAX };
    let reversal = |number: usize| (digest(&number.to_be_bytes()), Reversal { at_ms: u64::MAX, reason });
    let steps: Vec<u8> = (1..STEPS_MAX as u8).chain([100]).collect();
    let plan = Plan {
        steps: steps.clone(),
        shadow: true,
        first_token_ms: Some(u64::MAX),
        record: [tally; 4],
        known: [Breach::Crash, Breach::Refusal, Breach::Deadline, Breach::Budget].into(),
        bounds: [(Breach::Crash, 1), (Breach::Refusal, 1), (Breach::Deadline, 1), (Breach::Budget, 1)].into(),
        salt: Some(u64::MAX),
        ..plan()
    };
    let shares = (1_u64..).zip(&steps).map(|(at, percent)| Share { from_ms: u64::MAX - 100 + at, percent: *percent });
    let split = Split {
        number: u64::MAX,
        by: Unit::Channel,
        from: OTHER,
        to: STABLE,
        shares: shares.collect(),
        drain_ms: u64::MAX,
        salt: Some(u64::MAX),
    };
    let versions = Versions::of_parts(
        (STABLE, u64::MAX, u64::MAX),
        Some(Rollout::new(u64::MAX, STABLE, plan, u64::MAX)),
        vec![split; DRAINS_MAX],
        (0..REVERSALS_MAX).map(reversal).collect(),
    );
    assert_eq!(decode_row(&encode_row(&versions)), Ok(versions));
}

proptest! {
    #[test]
    fn what_is_cut_or_changed_is_refused_or_read_as_it_is(cut in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let mut traffic = Traffic::new(plan(), 5);
        for _ in 0..200 {
            traffic.call(Rates::errors(0.1), Rates::errors(0.1));
        }
        let mut row = encode_row(&traffic.versions);
        let at = cut.index(row.len());
        prop_assert_eq!(decode_row(&row[..at]), Err(RowError));
        row[at] ^= 1 << bit;
        if let Ok(read) = decode_row(&row) {
            prop_assert_eq!(encode_row(&read), row);
        }
    }
}

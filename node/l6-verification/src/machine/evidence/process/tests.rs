use proptest::prelude::*;

use super::super::draws::Draws;
use super::*;

fn block(stable: (u64, u64), new: (u64, u64)) -> Block {
    let tally = |(calls, bad)| Tally { calls, bad };
    Block { stable: tally(stable), new: tally(new) }
}

fn e_of(null: Null, record: Tally, blocks: &[Block]) -> f64 {
    let mut process = EProcess::new(null, record);
    blocks.iter().for_each(|block| process.add(*block));
    process.ln_e()
}

fn is_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

/// Of `scipy.stats.bernoulli.logpmf` and `scipy.special.logsumexp` (1.17.1); the nearest pair that the null allows is found by
/// `scipy.optimize.minimize_scalar` of `scipy.special.rel_entr`.
#[test]
fn evidence_is_that_of_scipy() {
    let record = Tally { calls: 200, bad: 2 };
    let blocks = [
        block((19, 0), (1, 0)),
        block((19, 1), (1, 1)),
        block((19, 0), (1, 0)),
        block((21, 0), (2, 1)),
        block((19, 0), (1, 1)),
    ];
    is_near(e_of(Null::NoWorse, Tally::default(), &blocks), 5.257858694834934);
    is_near(e_of(Null::NoWorse, record, &blocks), 5.63523778995164);
    let good: Vec<Block> = (0..60).map(|i| block((19, u64::from((i * 7) % 5 == 0)), (1, 0))).collect();
    // Where the minimum lies is known to half the digits that its value has.
    assert!((e_of(Null::WorseBy(0.05), Tally::default(), &good) - 2.9847043315344615).abs() < 1e-6);
    assert!((e_of(Null::WorseBy(0.05), record, &good) - 3.0305684271355657).abs() < 1e-6);
}

#[test]
fn a_version_without_calls_proves_nothing() {
    let alone = [block((0, 0), (30, 30)), block((40, 0), (0, 0))];
    is_near(e_of(Null::NoWorse, Tally::default(), &alone), 0.0);
    is_near(e_of(Null::WorseBy(0.1), Tally::default(), &alone), 0.0);
}

#[test]
fn parts_that_do_not_belong_together_are_none() {
    let tallies = [Tally { calls: 9, bad: 1 }, Tally { calls: 2, bad: 0 }];
    let of = |tallies, wealth: &[f64], peak| EProcess::of_parts(Null::WorseBy(0.1), tallies, wealth.to_vec(), peak);
    assert!(of(tallies, &[0.5, -1.0], 0.7).is_some());
    assert_eq!(of(tallies, &[0.5], 0.7), None);
    assert_eq!(of(tallies, &[0.5, f64::NAN], 0.7), None);
    assert_eq!(of(tallies, &[0.5, 0.5], f64::INFINITY), None);
    assert_eq!(of([Tally { calls: 1, bad: 2 }, Tally::default()], &[0.0, 0.0], 0.0), None);
}

/// The probability of so many of `calls` at a share.
fn binomial(calls: u64, bad: u64, share: f64) -> f64 {
    let ways: f64 = (0..bad).map(|taken| (calls - taken) as f64 / (bad - taken) as f64).product();
    ways * share.powi(bad as i32) * (1.0 - share).powi((calls - bad) as i32)
}

/// What a bet's coins are multiplied by, on average, if the shares are these.
fn mean_gain(null: Null, (of_stable, of_new): (u64, u64), bet: (f64, f64), shares: (f64, f64)) -> f64 {
    let pairs = (0..=of_stable).flat_map(|stable| (0..=of_new).map(move |new| (stable, new)));
    pairs
        .map(|(stable, new)| {
            let seen = block((of_stable, stable), (of_new, new));
            let probability = binomial(of_stable, stable, shares.0) * binomial(of_new, new, shares.1);
            probability * gain(null, seen, bet).exp()
        })
        .sum()
}

proptest! {
    /// No bet wins on average, whatever was seen, as long as the null hypothesis holds: all else follows from this.
    #[test]
    fn bets_are_fair_or_worse(
        sizes in (1_u64..8, 1_u64..4),
        stable in (0_u64..300, 0_u64..300),
        new in (0_u64..40, 0_u64..40),
        share in 0.0_f64..1.0,
        part in 0.0_f64..=1.0,
        margin in 0.005_f64..0.5,
    ) {
        let tally = |(good, bad): (u64, u64)| Tally { calls: good + bad, bad };
        let (stable, new) = (tally(stable), tally(new));
        for bet in bets(Null::NoWorse, stable, new) {
            let mean = mean_gain(Null::NoWorse, sizes, bet, (share, share * part));
            prop_assert!(mean <= 1.0 + 1e-8, "{mean} at {bet:?}");
        }
        let (below, above) = (share * (1.0 - margin), 1.0 - share * (1.0 - margin) - margin);
        for bet in bets(Null::WorseBy(margin), stable, new) {
            let mean = mean_gain(Null::WorseBy(margin), sizes, bet, (below, below + margin + above * part));
            prop_assert!(mean <= 1.0 + 1e-8, "{mean} at {bet:?}");
        }
    }
}

fn drawn(draws: &mut Draws, calls: u64, share: f64) -> Tally {
    let mut tally = Tally::default();
    (0..calls).for_each(|_| tally.add(draws.happens(share)));
    tally
}

/// After how many calls of the new version it is found worse, and after how many by a test that knows both shares (Wald's).
fn found_after(draws: &mut Draws, (stable, new): (f64, f64), blocks_max: u64) -> (u64, u64) {
    // What is known of a version that has answered for a while.
    let record = Tally { calls: 200, bad: (200.0 * stable) as u64 };
    let mut process = EProcess::new(Null::NoWorse, record);
    let (mut ours, mut walds, mut ratio) = (u64::MAX, u64::MAX, 0.0);
    for block in 1..=blocks_max {
        let seen = Block { stable: drawn(draws, 19, stable), new: drawn(draws, 1, new) };
        process.add(seen);
        ratio += ln_ratio(seen.new, new, stable);
        if walds == u64::MAX && ratio >= 20.0_f64.ln() {
            walds = block;
        }
        if ours == u64::MAX && process.is_refuted(0.05) {
            ours = block;
        }
        if ours < u64::MAX && walds < u64::MAX {
            break;
        }
    }
    (ours, walds)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn what_got_worse_is_found_within_twice_the_calls_of_a_test_that_knows() {
    let mut draws = Draws::new(11);
    for new in [0.05, 0.1] {
        let found: Vec<(u64, u64)> = (0..500).map(|_| found_after(&mut draws, (0.01, new), 600)).collect();
        let (ours, walds): (Vec<u64>, Vec<u64>) = found.into_iter().unzip();
        let (ours, walds) = (median(ours), median(walds));
        println!("1 % to {new}: {ours} calls, Wald's test {walds}");
        assert!(ours <= 2 * walds, "{ours} calls, where {walds} do for a test that knows both shares");
    }
}

#[test]
fn what_is_the_same_is_seldom_found_worse_however_often_one_looks() {
    let mut draws = Draws::new(12);
    for share in [0.01, 0.2] {
        let wrong = (0..1_000).filter(|_| found_after(&mut draws, (share, share), 150).0 < u64::MAX).count();
        println!("{wrong} of 1,000 at {share}");
        // With a probability of 5 % each, more than 73 come in one of 1,000 such tests.
        assert!(wrong <= 73, "{wrong} of 1,000 equal versions were found worse at {share}");
    }
}

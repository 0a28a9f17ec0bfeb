use althing_testing::at_night;

use super::super::draws::Draws;
use super::*;

fn pair(case: usize, slice: &str, before: f64, after: f64) -> PairRun {
    PairRun { case: format!("case {case}"), slices: BTreeSet::from([slice.to_owned()]), before, after }
}

/// So many pairs that are equal, broken and mended.
fn pairs(slice: &str, equal: usize, broken: usize, mended: usize) -> Vec<PairRun> {
    let scores = |case| match case {
        case if case < equal => (1.0, 1.0),
        case if case < equal + broken => (1.0, 0.0),
        _ => (0.0, 1.0),
    };
    (0..equal + broken + mended)
        .map(|case| {
            let (before, after) = scores(case);
            PairRun { case: format!("{slice} {case}"), ..pair(case, slice, before, after) }
        })
        .collect()
}

fn compared(pairs: &[PairRun]) -> Comparison {
    compare(pairs, &Criteria::default()).expect("pairs")
}

#[test]
fn passes_and_fails_are_better_worse_no_worse_or_undecided() {
    assert_eq!(compared(&pairs("all", 80, 2, 18)).verdict, Verdict::Better);
    assert_eq!(compared(&pairs("all", 80, 18, 2)).verdict, Verdict::Worse);
    assert_eq!(compared(&pairs("all", 300, 2, 2)).verdict, Verdict::NoWorse);
    let few = compared(&pairs("all", 10, 1, 0));
    let Verdict::Undecided { pairs: Some(needed) } = few.verdict else { panic!("{few:?}") };
    assert!(needed > 11 && !few.verdict.is_pass(), "{needed}");
}

/// Three cases that all pass are no proof that nothing broke.
#[test]
fn few_pairs_without_a_difference_are_undecided() {
    let same = compared(&pairs("all", 3, 0, 0));
    assert!(matches!(same.verdict, Verdict::Undecided { pairs: Some(80..=120) }), "{same:?}");
    assert_eq!(same.whole.p, Some(1.0));
}

#[test]
fn a_slice_that_broke_is_not_averaged_away() {
    let mixed = [pairs("english", 900, 5, 60), pairs("finnish", 20, 20, 0)].concat();
    let comparison = compared(&mixed);
    assert_eq!(comparison.whole.verdict, Verdict::Better);
    assert_eq!((comparison.verdict, comparison.against), (Verdict::Worse, vec!["finnish".to_owned()]));
}

#[test]
fn a_slice_that_may_have_broken_makes_the_whole_undecided() {
    let mixed = [pairs("english", 900, 5, 60), pairs("finnish", 5, 3, 0)].concat();
    let comparison = compared(&mixed);
    assert_eq!(
        (comparison.whole.verdict, comparison.against.as_slice()),
        (Verdict::Better, &["finnish".to_owned()][..])
    );
    let Verdict::Undecided { pairs: Some(needed) } = comparison.verdict else { panic!("{:?}", comparison.verdict) };
    assert!(needed > 973, "{needed} pairs of the whole");
}

#[test]
fn a_small_slice_that_looks_well_is_no_obstacle() {
    let mixed = [pairs("english", 900, 5, 60), pairs("finnish", 5, 0, 0)].concat();
    assert_eq!(compared(&mixed).verdict, Verdict::Better);
}

#[test]
fn scores_are_compared_by_case() {
    let scores = |shift: f64| -> Vec<PairRun> {
        (0..200).map(|case| pair(case, "all", 0.5, 0.5 + shift + 0.01 * ((case % 5) as f64 - 2.0))).collect()
    };
    assert_eq!(compared(&scores(0.1)).verdict, Verdict::Better);
    assert_eq!(compared(&scores(-0.1)).verdict, Verdict::Worse);
    let same = compared(&scores(0.0));
    assert_eq!((same.verdict, same.whole.p), (Verdict::NoWorse, None));
    // Runs of one case are one case, however many there are.
    let repeated: Vec<PairRun> = (0..300).map(|run| pair(run % 3, "all", 0.5, 0.9)).collect();
    let repeated = compared(&repeated);
    assert!(matches!(repeated.verdict, Verdict::Undecided { .. }) && repeated.whole.cases == 3, "{repeated:?}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let mut draws = Draws::new(1);
    let scores: Vec<PairRun> =
        (0..60).map(|case| pair(case, "all", 0.5, draws.below(1_000) as f64 / 1_000.0)).collect();
    let of_seed = |seed| compare(&scores, &Criteria { seed, ..Criteria::default() }).expect("pairs").whole.interval;
    assert_eq!(of_seed(4), of_seed(4));
    assert_ne!(of_seed(4), of_seed(5));
}

#[test]
fn what_cannot_be_compared_is_named() {
    let criteria = Criteria::default();
    assert_eq!(compare(&[], &criteria), Err(ComparisonError::Nothing));
    let odd = [pair(7, "all", 0.5, f64::NAN)];
    assert_eq!(compare(&odd, &criteria), Err(ComparisonError::Score { case: "case 7".to_owned() }));
    let one = [pair(0, "all", 1.0, 1.0)];
    assert_eq!(compare(&one, &Criteria { alpha: 0.0, ..criteria }), Err(ComparisonError::Criteria));
    assert_eq!(compare(&one, &Criteria { margin: f64::NAN, ..criteria }), Err(ComparisonError::Criteria));
    let many: Vec<PairRun> = (0..=SLICES_MAX).map(|slice| pair(slice, &slice.to_string(), 1.0, 1.0)).collect();
    assert_eq!(compare(&many, &criteria), Err(ComparisonError::Slices { found: SLICES_MAX + 1 }));
}

/// How many of so many comparisons of versions that are equally good say "worse"; each score of `cases` cases is drawn.
fn wrongly_worse(comparisons: usize, cases: usize, score: impl Fn(&mut Draws) -> f64) -> usize {
    let mut draws = Draws::new(21);
    let worse = (0..comparisons).filter(|_| {
        let pairs: Vec<PairRun> = (0..cases)
            .map(|case| {
                let before = score(&mut draws);
                pair(case, ["red", "green", "blue"][case % 3], before, score(&mut draws))
            })
            .collect();
        compared(&pairs).verdict == Verdict::Worse
    });
    worse.count()
}

/// With slices: chance alone makes no more verdicts than stated.
#[test]
fn equal_versions_are_seldom_called_worse() {
    let all = [300, 10_000][usize::from(at_night())];
    let worse = wrongly_worse(all, 80, |draws| f64::from(u8::from(draws.happens(0.8))));
    println!("{worse} of {all}");
    assert!(worse * 20 <= all, "{worse} of {all}");
}

#[test]
fn versions_with_equal_scores_are_seldom_called_worse() {
    // With a probability of 5 % each, more than 4 of 12 come in one of 1,000 such tests, as more than 131 of 2,000 do.
    let (all, most) = [(12, 4), (2_000, 131)][usize::from(at_night())];
    let worse = wrongly_worse(all, 90, |draws| draws.below(5) as f64 / 4.0);
    println!("{worse} of {all}");
    assert!(worse <= most, "{worse} of {all}");
}

/// What is undecided says how many pairs decide: so many, of the same kind, do it four times of five.
#[test]
fn an_undecided_comparison_is_decided_at_the_size_that_it_promised() {
    let small = compared(&pairs("all", 37, 3, 0));
    let Verdict::Undecided { pairs: Some(size) } = small.verdict else { panic!("{small:?}") };
    let mut draws = Draws::new(22);
    let worse = (0..300).filter(|_| {
        let larger: Vec<PairRun> = (0..size)
            .map(|case| pair(case as usize, "all", 1.0, f64::from(u8::from(!draws.happens(3.0 / 40.0)))))
            .collect();
        compared(&larger).verdict == Verdict::Worse
    });
    let worse = worse.count();
    // With a probability of 80 % each, fewer than 218 of 300 come in one of 1,000 such tests.
    assert!(worse >= 218, "{worse} of 300 with {size} pairs each");
}

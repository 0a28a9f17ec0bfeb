use super::*;

fn cases() -> Vec<CaseRuns> {
    let counts = [(5, 5), (4, 5), (2, 5), (0, 5), (5, 5), (3, 6)];
    counts.map(|(passed, runs)| CaseRuns { passed, runs }).to_vec()
}

fn is_near(found: Estimate, (value, low, high): (f64, f64, f64)) {
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
    let are = [near(found.value, value), near(found.interval.low, low), near(found.interval.high, high)];
    assert_eq!(are, [true; 3], "{found:?} is not {value}, from {low} to {high}");
}

/// By `math.comb`, with bounds of the sum by `scipy.stats.beta.ppf` (1.17.1).
#[test]
fn figures_are_those_of_scipy() {
    let all = |k| pass_all(&cases(), k, 0.05).expect("enough runs");
    let any = |k| pass_any(&cases(), k, 0.05).expect("enough runs");
    let once = (0.6166666666666667, 0.18831173203717413, 0.9376151703992046);
    is_near(all(1), once);
    is_near(any(1), once);
    is_near(all(3), (0.40833333333333327, 0.07305473481708233, 0.8279250336008604));
    is_near(any(3), (0.8083333333333332, 0.33605268423938134, 0.9926171990242499));
    is_near(all(5), (0.3333333333333333, 0.043271868292741676, 0.7772219044964879));
    is_near(any(5), (0.8333333333333334, 0.35876542100232517, 0.9957892554855106));
}

#[test]
fn a_single_case_has_the_bounds_of_its_runs() {
    let one = [CaseRuns { passed: 18, runs: 20 }];
    let all = pass_all(&one, 3, 0.05).expect("enough runs");
    is_near(all, (0.7157894736842105, 0.31863617877211386, 0.9634099938799059));
    let any = pass_any(&one, 3, 0.05).expect("enough runs");
    assert!(any.value > all.value && any.interval.low > all.interval.low, "{any:?}");
}

#[test]
fn what_cannot_be_said_is_named() {
    assert_eq!(pass_all(&[], 1, 0.05), Err(RepeatError::NoCase));
    assert_eq!(pass_any(&cases(), 0, 0.05), Err(RepeatError::NoRepeat));
    assert_eq!(pass_any(&cases(), 6, 0.05), Err(RepeatError::Runs { case: 1, runs: 5, asked: 6 }));
    let wrong = [CaseRuns { passed: 2, runs: 1 }];
    assert_eq!(pass_all(&wrong, 1, 0.05), Err(RepeatError::Counts { case: 1, passed: 2, runs: 1 }));
}

/// Five good runs of five do not prove that it never fails.
#[test]
fn only_passes_leave_room_for_a_failure() {
    let perfect = vec![CaseRuns { passed: 5, runs: 5 }; 20];
    let all = pass_all(&perfect, 5, 0.05).expect("enough runs");
    assert!(all.value == 1.0 && all.interval.high == 1.0 && all.interval.low < 0.9, "{all:?}");
}

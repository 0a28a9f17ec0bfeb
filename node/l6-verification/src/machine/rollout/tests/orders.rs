//! What an owner may order.

use super::*;

#[test]
fn plans_that_cannot_be_followed_are_named() {
    let refusal = |plan: Plan| Versions::new(STABLE).begin(plan, 0).expect_err("a plan that cannot be followed");
    for steps in
        [vec![], vec![5, 25], vec![0, 100], vec![25, 25, 100], vec![50, 5, 100], (1..=16).chain([100]).collect()]
    {
        assert_eq!(refusal(Plan { steps, ..plan() }), OrderError::Plan(PlanError::Steps));
    }
    assert_eq!(refusal(Plan { steps: vec![100], ..plan() }), OrderError::Plan(PlanError::Nothing));
    assert_eq!(refusal(Plan { calls_min: 0, ..plan() }), OrderError::Plan(PlanError::Calls));
    assert_eq!(refusal(Plan { alpha_permille: 0, ..plan() }), OrderError::Plan(PlanError::Shares));
    assert_eq!(refusal(Plan { margin_permille: 1_000, ..plan() }), OrderError::Plan(PlanError::Shares));
    assert_eq!(refusal(Plan::of(STABLE)), OrderError::Same);
}

#[test]
fn a_shadow_alone_is_a_plan() {
    let plan = Plan { steps: vec![100], shadow: true, ..plan() };
    assert_eq!((plan.check(), plan.stages(), plan.share_percent(0), plan.share_percent(1)), (Ok(()), 1, 0, 100));
}

#[test]
fn so_many_calls_of_stable_come_with_one_of_the_new_version() {
    let plan = Plan { shadow: true, steps: vec![1, 5, 25, 50, 90, 100], ..plan() };
    assert_eq!([0, 1, 2, 3, 4, 5].map(|stage| plan.stable_per_new(stage)), [1, 99, 19, 3, 1, 1]);
}

#[test]
fn one_rollout_at_a_time() {
    let mut versions = Versions::new(STABLE);
    assert_eq!(versions.promote(0), Err(OrderError::NotUnderWay));
    assert_eq!(versions.abort(), Err(OrderError::NotUnderWay));
    versions.begin(plan(), 0).expect("a plan");
    assert_eq!(versions.begin(Plan::of(OTHER), 1), Err(OrderError::UnderWay));
    versions.promote(2).expect("it is under way");
    assert_eq!(versions.stable(), NEW);
    assert_eq!(versions.rollout().map(Rollout::phase), Some(Phase::Promoted { by_owner: true }));
    assert_eq!(versions.abort(), Err(OrderError::NotUnderWay));
}

#[test]
fn a_version_that_somebody_put_there_knows_which_ones_went_back() {
    let mut versions = Versions::new(STABLE);
    versions.begin(Plan { steps: vec![99, 100], ..plan() }, 0).expect("a plan");
    let (caller, origin, channel, group) = (None, None, None, None);
    let call = Call { task: "task", conversation: None, caller, origin, channel, group, now_ms: 5 };
    let ticket = versions.route(&call).ticket.expect("it is under way");
    assert_eq!(ticket.side(), Side::New);
    versions.outcome(ticket, &Outcome { breach: Some(Breach::Crash), ..Outcome::default() }, 6);
    let mut after = versions.succeeded_by(OTHER);
    assert_eq!((after.stable(), after.rollout()), (OTHER, None));
    assert!(matches!(after.begin(plan(), 7), Err(OrderError::WentBack { .. })));
    assert_eq!(decode_row(&encode_row(&after)), Ok(after));
}

#[test]
fn time_that_passes_without_calls_ends_what_is_drained() {
    let mut versions = Versions::new(STABLE);
    versions.begin(Plan { drain_ms: 100, ..plan() }, 0).expect("a plan");
    versions.promote(10).expect("it is under way");
    assert!(versions.may_answer(STABLE));
    versions.pass(1_000);
    assert!(!versions.may_answer(STABLE) && versions.may_answer(NEW));
}

#[test]
fn only_so_many_reversals_are_remembered() {
    let mut versions = Versions::new(STABLE);
    for number in 1..=300_u32 {
        let mut to = [9; 32];
        to[..4].copy_from_slice(&number.to_be_bytes());
        versions.begin(Plan { steps: vec![99, 100], ..Plan::of(to) }, u64::from(number) * 100).expect("a plan");
        let crash = Outcome { breach: Some(Breach::Crash), ..Outcome::default() };
        for task in 0..100 {
            let task = format!("{task}");
            let now_ms = u64::from(number) * 100 + 50;
            let (caller, origin, channel, group) = (None, None, None, None);
            let call = Call { task: &task, conversation: None, caller, origin, channel, group, now_ms };
            let ticket = versions.route(&call).ticket;
            if let Some(ticket) = ticket.filter(|ticket| ticket.side() == Side::New) {
                versions.outcome(ticket, &crash, now_ms);
            }
        }
        assert!(!versions.may_answer(to), "version {number}");
    }
    assert_eq!(versions.reversals().len(), REVERSALS_MAX);
    assert_eq!(decode_row(&encode_row(&versions)), Ok(versions));
}

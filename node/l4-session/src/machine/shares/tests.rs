use proptest::prelude::*;

use super::*;

const OWN: u8 = 0;

/// Of a caller who is trusted, or of this node's owner.
fn claim(owner: u8, agent: &str, bytes: usize) -> Claim<u8> {
    let trust = if owner == OWN { TrustLevel::Own } else { TrustLevel::Trusted };
    Claim { owner, trust, agent: agent.to_owned(), bytes, agent_turns_max: None }
}

/// Of strangers.
fn stranger(owner: u8, agent: &str) -> Claim<u8> {
    Claim { trust: TrustLevel::Stranger, ..claim(owner, agent, 1) }
}

fn shares(turns: usize) -> Shares<u8> {
    Shares::new(Load { turns, bytes: 1_000_000 })
}

/// Begins as many turns as it may; gives how many, and why not one more.
fn fill(shares: &mut Shares<u8>, claim: &Claim<u8>) -> (usize, OverCapacity) {
    for count in 0.. {
        if let Err(crowded) = shares.begin(claim) {
            return (count, crowded);
        }
    }
    unreachable!("a share has an end")
}

#[test]
fn a_caller_that_takes_all_it_may_of_one_agent_shuts_out_nobody() {
    for scope in [OWN, 1] {
        let mut shares = shares(64);
        let (taken, why) = fill(&mut shares, &claim(scope, "slow", 1));
        assert_eq!((taken, why), (if scope == OWN { 24 } else { 8 }, OverCapacity::Scope));
        for other in [OWN, 1, 2] {
            if other != scope {
                assert_eq!(shares.begin(&claim(other, "slow", 1)), Ok(()), "another caller of the same agent");
            }
            let same = (other == scope).then_some(OverCapacity::Scope).filter(|_| scope != OWN);
            assert_eq!(shares.begin(&claim(other, "echo", 1)).err(), same, "another agent, caller {other}");
        }
    }
}

#[test]
fn a_crowd_of_callers_leaves_room_for_other_agents_and_for_the_owner() {
    let mut shares = shares(64);
    for scope in 1..=200 {
        fill(&mut shares, &claim(scope, "slow", 1));
    }
    assert_eq!(shares.all().turns, 24, "three quarters of half");
    assert_eq!(shares.begin(&claim(201, "slow", 1)), Err(OverCapacity::Agent));
    assert_eq!(shares.begin(&claim(201, "echo", 1)), Ok(()));
    assert_eq!(shares.begin(&claim(OWN, "slow", 1)), Ok(()));
    for scope in 1..=200 {
        fill(&mut shares, &claim(scope, "echo", 1));
        fill(&mut shares, &claim(scope, "third", 1));
    }
    assert_eq!(shares.begin(&claim(201, "fourth", 1)), Err(OverCapacity::Node));
    for agent in ["slow", "echo", "third", "fourth"] {
        assert_eq!(shares.begin(&claim(OWN, agent, 1)), Ok(()), "{agent}");
    }
}

#[test]
fn strangers_of_however_many_origins_leave_room_for_those_who_are_nearer() {
    let mut shares = shares(64);
    for owner in 1..=100 {
        for agent in ["slow", "echo", "third"] {
            fill(&mut shares, &stranger(owner, agent));
        }
    }
    assert_eq!(shares.all().turns, 32, "half of all");
    let in_use = |agent| Claim { trust: TrustLevel::InUse, ..claim(101, agent, 1) };
    let nearer: [fn(u8) -> Claim<u8>; 2] = [|owner| claim(owner, "slow", 1), |owner| claim(owner, "fourth", 1)];
    assert_eq!(shares.begin(&in_use("slow")), Ok(()), "an agent that is full of strangers, too");
    for (owner, of) in [(102, nearer[0]), (103, nearer[1]), (OWN, nearer[0]), (OWN, nearer[1])] {
        assert_eq!(shares.begin(&of(owner)), Ok(()), "{owner}");
    }
    assert_eq!(shares.begin(&stranger(104, "fifth")), Err(OverCapacity::Node));
    // Those who are nearer may take what strangers do not use.
    let mut shares = self::shares(64);
    for owner in 1..=100 {
        for agent in ["slow", "echo", "third"] {
            fill(&mut shares, &claim(owner, agent, 1));
        }
    }
    assert_eq!(shares.all().turns, 48);
}

#[test]
fn an_agent_whose_runtime_runs_few_turns_shares_those() {
    let mut shares = shares(4_096);
    let few = |scope: u8| Claim { agent_turns_max: Some(16), ..claim(scope, "component", 1) };
    assert_eq!(fill(&mut shares, &few(1)), (4, OverCapacity::Scope));
    assert_eq!(fill(&mut shares, &few(2)), (4, OverCapacity::Scope));
    assert_eq!(fill(&mut shares, &few(3)), (4, OverCapacity::Scope));
    assert_eq!(fill(&mut shares, &few(4)), (0, OverCapacity::Agent));
    assert_eq!(fill(&mut shares, &few(OWN)), (4, OverCapacity::Agent), "room is kept for the owner");
}

#[test]
fn memory_is_shared_like_turns_and_a_first_large_task_has_its_turn() {
    let mut shares = shares(4_096);
    assert_eq!(shares.begin(&claim(1, "a", 700_000)), Ok(()), "more than its share, and its only one");
    assert_eq!(shares.begin(&claim(1, "a", 1)), Err(OverCapacity::Scope));
    assert_eq!(shares.begin(&claim(2, "a", 60_000)), Err(OverCapacity::Node), "of all that there is a quarter is kept");
    let mut own = claim(OWN, "b", 200_000);
    assert_eq!(shares.begin(&own), Ok(()));
    assert_eq!(shares.grow(&mut own, 50_000), Ok(()));
    assert_eq!(shares.grow(&mut own, 100_000), Err(OverCapacity::Node));
    assert_eq!(own.bytes, 250_000, "what was refused is not counted");
    shares.end(&own);
    shares.end(&claim(1, "a", 700_000));
    assert_eq!(shares.all(), Load::default());
}

proptest! {
    /// Whatever begins, grows and ends: no bound is passed, and what ended is given back.
    #[test]
    fn no_share_is_ever_passed_and_all_is_given_back(
        steps in prop::collection::vec((0u8..5, 0usize..4, 0usize..30_000, 0u8..3), 1..300)
    ) {
        let mut shares = shares(64);
        let mut running: Vec<Claim<u8>> = Vec::new();
        for (scope, agent, bytes, kind) in steps {
            match kind {
                0 => {
                    let wanted = claim(scope, ["a", "b", "c", "d"][agent], bytes);
                    if shares.begin(&wanted).is_ok() {
                        running.push(wanted);
                    }
                }
                1 if !running.is_empty() => {
                    let at = bytes % running.len();
                    let _ = shares.grow(&mut running[at], bytes);
                }
                _ if !running.is_empty() => shares.end(&running.swap_remove(bytes % running.len())),
                _ => {}
            }
            let count = |chosen: &dyn Fn(&Claim<u8>) -> bool| running.iter().filter(|claim| chosen(claim)).count();
            let all = Load { turns: running.len(), bytes: running.iter().map(|claim| claim.bytes).sum() };
            prop_assert_eq!(shares.all(), all);
            prop_assert!(all.turns <= 64 && all.bytes <= 1_000_000);
            prop_assert!(count(&|claim| claim.trust != TrustLevel::Own) <= 48);
            for scope in 1..5 {
                prop_assert!(count(&|claim| claim.owner == scope) <= 8);
            }
            for agent in ["a", "b", "c", "d"] {
                prop_assert!(count(&|claim| claim.agent == agent) <= 32);
            }
        }
        for claim in running.drain(..) {
            shares.end(&claim);
        }
        prop_assert_eq!(shares.all(), Load::default());
        prop_assert!(shares.callers.is_empty() && shares.agents.is_empty());
        prop_assert!(shares.callers_of_agent.is_empty() && shares.all.is_empty());
    }
}

#[test]
fn a_turn_that_goes_on_has_the_memory_of_its_beginning_again() {
    let (mut shares, mut first) = (shares(4_096), claim(1, "a", 1_000));
    assert_eq!(shares.begin(&first), Ok(()));
    assert_eq!(shares.grow(&mut first, 50_000), Ok(()));
    shares.recount(&mut first, 2_000);
    assert_eq!((first.bytes, shares.all()), (2_000, Load { turns: 1, bytes: 2_000 }));
    shares.end(&first);
    assert_eq!(shares.all(), Load::default());
}

use althing_protocol::group::{Assign, Author, Charter, Claim, Command, Content, GroupId, Policy, Priority, Submit};
use althing_protocol::{PublisherId, SecretKey};
use proptest::prelude::*;

use super::super::group::Group;
use super::*;

fn node(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

fn publisher(seed: u8) -> PublisherId {
    PublisherId::from_digest([seed; 32])
}

fn asker(seed: u8) -> CallerId {
    CallerId::Publisher(publisher(seed))
}

fn candidate(seed: u8) -> Candidate {
    Candidate {
        node: node(seed),
        agents: vec!["clerk".to_owned()],
        capabilities: vec!["billing.view".to_owned()],
        answering: Vec::new(),
        labels: vec!["eu".to_owned(), "fast".to_owned()],
        memory_mib: 512,
        cores: 2,
        disk_mib: 1_024,
        gpus: 0,
        classes: vec![Latency::Srt, Latency::Dt],
        healthy: true,
        load_permille: 100,
        running: 0,
        trust: 1,
        success_permille: 900,
        basis: Basis::Measured,
        declined: false,
        refused: None,
    }
}

fn needs() -> Needs {
    Needs::of(Target::Capability("billing.view".to_owned()))
}

/// The verdict on one candidate.
fn verdict(needs: &Needs, candidate: Candidate) -> Verdict {
    let choice = choose(needs, asker(1), std::slice::from_ref(&candidate));
    let (node, verdict) = choice.why.into_iter().next().expect("one verdict");
    assert_eq!(node, candidate.node);
    assert_eq!(choice.chosen.is_some(), matches!(verdict, Verdict::Rank { place: 1, .. }));
    verdict
}

/// P-121
#[test]
fn each_filter_says_why_it_excludes() {
    let none = |target| Needs::of(target);
    let capability = Target::Capability("billing.pay".to_owned());
    assert_eq!(verdict(&none(capability), candidate(1)), Verdict::NoCapability("billing.pay".to_owned()));
    let agent = Target::Agent("chief".to_owned());
    assert_eq!(verdict(&none(agent), candidate(1)), Verdict::NoAgent("chief".to_owned()));
    assert!(matches!(verdict(&none(Target::Agent("clerk".to_owned())), candidate(1)), Verdict::Rank { .. }));
    let labels = |label: &str| Needs { labels: vec!["eu".to_owned(), label.to_owned()], ..needs() };
    assert_eq!(verdict(&labels("us"), candidate(1)), Verdict::NoLabel("us".to_owned()));
    assert!(matches!(verdict(&labels("fast"), candidate(1)), Verdict::Rank { .. }));
    let class = Needs { class: Some(Latency::Hrt), ..needs() };
    assert_eq!(verdict(&class, candidate(1)), Verdict::NoClass(Latency::Hrt));
    for (needs, what, has) in [
        (Needs { memory_mib: Some(9_999), ..needs() }, "MiB of memory", 512),
        (Needs { cores: Some(9_999), ..needs() }, "cores", 2),
        (Needs { disk_mib: Some(9_999), ..needs() }, "MiB of disk", 1_024),
        (Needs { gpus: Some(9_999), ..needs() }, "GPUs", 0),
    ] {
        assert_eq!(verdict(&needs, candidate(1)), Verdict::Short { what, needs: 9_999, has });
    }
    let enough = Needs { memory_mib: Some(512), cores: Some(2), disk_mib: Some(1_024), gpus: Some(0), ..needs() };
    assert!(matches!(verdict(&enough, candidate(1)), Verdict::Rank { .. }), "as much as it needs is enough");
    assert_eq!(verdict(&needs(), Candidate { healthy: false, ..candidate(1) }), Verdict::Unhealthy);
    assert_eq!(verdict(&needs(), Candidate { load_permille: 1_000, ..candidate(1) }), Verdict::Full(1_000));
}

#[test]
fn success_comes_before_load_load_before_trust_and_trust_before_the_number_of_tasks() {
    let candidates = [
        Candidate { running: 1, ..candidate(1) },
        Candidate { trust: 2, running: 9, ..candidate(2) },
        Candidate { load_permille: 99, trust: 0, ..candidate(3) },
        Candidate { success_permille: 901, load_permille: 999, ..candidate(4) },
        candidate(5),
    ];
    let choice = choose(&needs(), asker(1), &candidates);
    assert_eq!(choice.chosen, Some(node(4)));
    let places = choice.why.iter().map(|(_, verdict)| match verdict {
        Verdict::Rank { place, .. } => *place,
        other => panic!("{other:?}"),
    });
    assert_eq!(places.collect::<Vec<_>>(), [5, 3, 2, 1, 4]);
    let best = choice.why[3].1.to_string();
    assert_eq!(best, "rank 1: success 901/1000 (measured), load 999/1000, trust 1, 0 tasks");
}

#[test]
fn a_claim_counts_half_of_a_verdict_where_there_are_verdicts() {
    let record = |verified, claimed, failed| Record { verified, claimed, failed };
    let known = |record: Record| (record.success_permille(true), record.basis());
    assert_eq!(record(0, 9, 1).success_permille(false), 900);
    assert_eq!(known(record(0, 0, 0)), (1_000, Basis::Unknown));
    assert_eq!(known(record(9, 0, 1)), (900, Basis::Measured));
    assert_eq!(known(record(0, 0, 3)), (0, Basis::Measured));
    assert_eq!(known(record(0, 10, 0)), (500, Basis::Claimed));
    assert_eq!(known(record(5, 5, 0)), (750, Basis::Partly));
    // Who says of everything that it is done does not come before who is judged and fails at times.
    let of = |seed, record: Record| Candidate {
        success_permille: record.success_permille(true),
        basis: record.basis(),
        ..candidate(seed)
    };
    let choice = choose(&needs(), asker(1), &[of(1, record(0, 1_000, 0)), of(2, record(9, 0, 1))]);
    assert_eq!(choice.chosen, Some(node(2)));
    assert_eq!(choice.why[0].1.to_string(), "rank 2: success 500/1000 (claimed), load 100/1000, trust 1, 0 tasks");
    // Among claims, failures decide as before.
    let choice = choose(&needs(), asker(1), &[of(1, record(0, 9, 1)), of(2, record(0, 10, 0))]);
    assert_eq!(choice.chosen, Some(node(2)));
}

/// P-121
#[test]
fn who_declined_gets_it_only_when_all_that_can_do_it_declined() {
    let declined = Candidate { declined: true, success_permille: 1_000, ..candidate(1) };
    let unable = Candidate { healthy: false, ..candidate(3) };
    let choice = choose(&needs(), asker(1), &[declined.clone(), candidate(2), unable.clone()]);
    assert_eq!(choice.chosen, Some(node(2)));
    assert_eq!(choice.why[0].1, Verdict::Declined);
    assert_eq!((choice.why[0].1.reason(), choice.why[1].1.reason()), ("declined", "able"));
    let other = Candidate { declined: true, ..candidate(2) };
    assert_eq!(choose(&needs(), asker(1), &[declined, other, unable]).chosen, Some(node(1)));
    assert_eq!(choose(&needs(), asker(1), &[]).chosen, None);
}

/// A candidate whose agent answers only these owners.
fn choosy(seed: u8, owners: &[u8]) -> Candidate {
    let Candidate { agents, capabilities, .. } = candidate(seed);
    let some = Answering { agents, capabilities, owners: owners.iter().copied().map(publisher).collect() };
    Candidate { agents: Vec::new(), capabilities: Vec::new(), answering: vec![some], ..candidate(seed) }
}

/// P-121
#[test]
fn an_agent_gets_tasks_only_of_those_whom_it_answers() {
    let for_one = choose(&needs(), asker(1), &[choosy(1, &[2]), choosy(2, &[1, 2])]);
    assert_eq!((for_one.chosen, &for_one.why[0].1), (Some(node(2)), &Verdict::NoAnswer(asker(1))));
    assert!(for_one.why[0].1.to_string().contains(&asker(1).to_string()), "{}", for_one.why[0].1);
    let clerk = Needs::of(Target::Agent("clerk".to_owned()));
    assert_eq!(choose(&clerk, asker(1), &[choosy(1, &[2])]).why[0].1, Verdict::NoAnswer(asker(1)));
    assert_eq!(choose(&clerk, asker(2), &[choosy(1, &[2])]).chosen, Some(node(1)));
    // A node is no owner, and one of two agents suffices.
    let stranger = CallerId::Node(node(9));
    assert_eq!(choose(&needs(), stranger, &[choosy(1, &[1])]).chosen, None);
    let both = Candidate { answering: choosy(1, &[2]).answering, ..candidate(1) };
    assert_eq!(choose(&needs(), asker(1), &[both]).chosen, Some(node(1)));
}

/// P-151, P-152
#[test]
fn who_refused_gets_it_never_and_what_nobody_may_do_is_hopeless() {
    let refused = || Candidate { refused: Some("not for you".to_owned()), ..candidate(1) };
    let declined = Candidate { declined: true, ..candidate(2) };
    let choice = choose(&needs(), asker(1), &[refused(), declined]);
    assert_eq!(choice.chosen, Some(node(2)), "it declined, which may change");
    assert_eq!(hopeless(&choice, |_| true), None);
    let unable = Candidate { agents: Vec::new(), capabilities: Vec::new(), ..candidate(3) };
    let choice = choose(&needs(), asker(1), &[unable.clone(), choosy(2, &[2]), refused()]);
    let why = hopeless(&choice, |_| true).expect("nobody may do it");
    let said = ["does not answer", "refused the task: not for you", "no agent with the capability"];
    let places: Vec<_> = said.iter().map(|said| why.find(said).unwrap_or_else(|| panic!("{why}: {said}"))).collect();
    assert!(places.is_sorted(), "what lacks comes last: {why}");
    assert_eq!(hopeless(&choice, |known| *known != node(3)), None, "the third one may be able when it is back");
    assert!(hopeless(&choice, |known| *known != node(1)).is_some(), "who refused need not be there");
    let full = Candidate { load_permille: 1_000, ..candidate(3) };
    for waits in [full, Candidate { memory_mib: 0, ..candidate(3) }, Candidate { healthy: false, ..candidate(3) }] {
        let needs = Needs { memory_mib: Some(1), ..needs() };
        assert_eq!(hopeless(&choose(&needs, asker(1), &[refused(), waits]), |_| true), None, "it may have room later");
    }
    assert_eq!(hopeless(&choose(&needs(), asker(1), &[unable]), |_| true), None, "nobody has refused");
}

prop_compose! {
    fn candidates()(seed in 1..9u8, able in any::<bool>(), success_permille in 0..3u16, load_permille in 998..1_002u16,
        trust in 0..2u8, running in 0..2u32, declined in any::<bool>()) -> Candidate
    {
        let capabilities = if able { candidate(seed).capabilities } else { Vec::new() };
        Candidate { capabilities, success_permille, load_permille, trust, running, declined, ..candidate(seed) }
    }
}

proptest! {
    #[test]
    fn the_choice_is_the_best_one_whatever_the_order(
        mut candidates in prop::collection::vec(candidates(), 0..8),
        turn in 0..8usize,
    ) {
        candidates.sort_by_key(|candidate| candidate.node);
        candidates.dedup_by_key(|candidate| candidate.node);
        let choice = choose(&needs(), asker(1), &candidates);
        prop_assert_eq!(choice.why.len(), candidates.len());
        let able = |one: &&Candidate| !one.capabilities.is_empty() && one.load_permille < 1_000;
        // Beside it: the least by the criteria, of those that did not decline, or else of all.
        let willing = candidates.iter().filter(able).min_by_key(|one| (one.declined, rank(one)));
        prop_assert_eq!(choice.chosen, willing.map(|one| one.node));
        let length = candidates.len().max(1);
        candidates.rotate_left(turn % length);
        let again = choose(&needs(), asker(1), &candidates);
        prop_assert_eq!(again.chosen, choice.chosen);
        let why = |choice: &Choice, node| choice.why.iter().find(|(of, _)| *of == node).map(|(_, why)| why.clone());
        for one in &candidates {
            prop_assert_eq!(why(&again, one.node), why(&choice, one.node));
        }
    }
}

/// A group in which the member 1 has begun task 1 and has the tasks 2 to 4, and the member 2 has task 5.
fn loaded() -> Group {
    let mut group = Group::new(GroupId::from_digest([3; 32]), "test");
    let owner = PublisherId::from_digest([1; 32]);
    group.charter = Some(Charter::first("team", [owner], 1, node(1), Policy::default(), 0, [0; 16]));
    for seed in 1..=3 {
        group.members.join(node(seed), owner, Vec::new(), None, 5).expect("another member");
    }
    for number in 1..=5u8 {
        let pay = number == 2;
        let target = if pay { "billing.pay" } else { "billing.view" };
        let submit = Submit {
            task: WorkId::from_bytes([number; 16]),
            key: None,
            needs: Needs::of(Target::Capability(target.to_owned())),
            input: Content::Inline(Vec::new().into()),
            priority: Priority::Normal,
            deadline_ms: None,
            attempts_max: 1,
            lease_ms: 10_000,
            dependencies: Vec::new(),
            resources: Vec::new(),
            label: None,
            channel: None,
        };
        let member = node(if number == 5 { 2 } else { 1 });
        let assign = Assign { task: submit.task, member, attempt: 1 };
        for command in [Command::Submit(Box::new(submit)), Command::Assign(assign)] {
            group.execute(Author::Node(node(1)), &command).expect("it is possible");
        }
    }
    let first = Claim { task: WorkId::from_bytes([1; 16]), token: 1 };
    group.execute(Author::Node(node(1)), &Command::Start(first)).expect("it has it");
    group
}

#[test]
fn an_idle_member_takes_the_oldest_task_that_it_can_do_of_the_most_loaded_one() {
    let group = loaded();
    let stolen = |idle: &Candidate, loads: &[(u8, u16)]| {
        let loads: Vec<_> = loads.iter().map(|(seed, load)| (node(*seed), *load)).collect();
        steal(idle, &loads, &group.work, 0, |_| asker(1)).map(|(task, from)| (task.as_bytes()[0], from))
    };
    let idle = candidate(3);
    assert_eq!(stolen(&idle, &[(1, 900), (2, 850), (3, 0)]), Some((3, node(1))), "1 began, and 2 needs another one");
    assert_eq!(stolen(&idle, &[(1, 850), (2, 900)]), Some((5, node(2))));
    assert_eq!(stolen(&idle, &[(1, 850), (2, 800)]), Some((3, node(1))), "800 is not above 800");
    assert_eq!(stolen(&idle, &[(1, 800), (2, 800)]), None);
    let payer = Candidate { capabilities: vec!["billing.pay".to_owned()], ..candidate(3) };
    assert_eq!(stolen(&payer, &[(1, 850), (2, 900)]), Some((2, node(1))), "the most loaded one has none for it");
    assert_eq!(stolen(&candidate(1), &[(1, 900)]), None, "nobody takes from itself");
    assert_eq!(stolen(&Candidate { healthy: false, ..candidate(3) }, &[(1, 900)]), None);
    assert_eq!(stolen(&choosy(3, &[2]), &[(1, 900)]), None, "its agent does not answer the submitter");
    assert_eq!(stolen(&choosy(3, &[1]), &[(1, 900)]), Some((3, node(1))));
}

#[test]
fn an_idle_member_takes_what_another_one_has_not_begun_in_time() {
    let group = loaded();
    let loads = [(node(1), 100), (node(2), 50)];
    let stolen = |now_ms| {
        steal(&candidate(3), &loads, &group.work, now_ms, |_| asker(1)).map(|(task, from)| (task.as_bytes()[0], from))
    };
    assert_eq!(stolen(STEAL_AFTER_MS - 1), None);
    assert_eq!(stolen(STEAL_AFTER_MS), Some((3, node(1))), "the first one was begun");
}

//! Sets of policies: what is found of them when they are put in force, that they are taken out, and what became of their file.

use super::records::leaves;
use super::*;

const ALL: &str = "permit(principal, action, resource);";

fn says(status: &PolicyStatus, words: &str) -> bool {
    status.findings.iter().any(|finding| finding.what.contains(words))
}

/// How many changes are on record.
async fn changes(governance: &Governance) -> usize {
    leaves(governance).await.iter().filter(|leaf| leaf.stage == AuditStage::Changed).count()
}

#[tokio::test]
async fn what_should_be_looked_at_is_told_when_a_set_is_put_in_force_and_later() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let tools = BTreeMap::from([("shop/send".to_owned(), json!({})), ("shop/search".to_owned(), json!({}))]);
    governance.take_tools(&agent(), &tools, &profiles());
    let text = format!(
        "{ALL} @aks permit(principal == Agent::\"clerk\", action, resource);
         @id(\"large\") @sign_off(\"2:treasurer\") permit(principal, action == Action::\"call\", resource);"
    );
    let loaded = governance.load_policy(&text, Actor::Owner).await.expect("it is good");
    assert!(says(&loaded, "1 of the 2 tools"), "labels begin to decide: {loaded:?}");
    for status in [&loaded, &governance.policy()] {
        assert!(says(status, "`@aks` means nothing"), "{status:?}");
        assert!(says(status, "nothing is known of Agent::\"clerk\""), "{status:?}");
        assert!(says(status, "a sign-off of 2 with the role treasurer, and 0 who can answer"), "{status:?}");
    }
    assert!(!says(&governance.policy(), "labels decide"), "it is told once");
    let again = governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    assert!(!says(&again, "labels decide") && !says(&again, "sign-off"), "{again:?}");
}

#[tokio::test]
async fn a_set_is_in_force_since_it_was_loaded_and_not_since_a_start() {
    let bench = Bench::new();
    let loaded = bench.start().await.load_policy(ALL, Actor::Owner).await.expect("it is good");
    assert_eq!(loaded.loaded_ms, NOW_MS);
    bench.later(60_000);
    assert_eq!(bench.start().await.policy().loaded_ms, NOW_MS);
    let other = format!("{ALL} ");
    std::fs::write(bench.path().join("policy.cedar"), &other).expect("it is written");
    let edited = bench.start().await;
    assert_eq!((edited.policy().loaded_ms, changes(&edited).await), (NOW_MS + 60_000, 2), "somebody edited the file");
    bench.later(60_000);
    let again = bench.start().await;
    assert_eq!((again.policy().loaded_ms, changes(&again).await), (NOW_MS + 60_000, 2), "it is on record once");
}

#[tokio::test]
async fn policies_are_taken_out_on_record_and_stay_out() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    unload_policy(&governance, Actor::Owner).await.expect_err("there are none");
    governance.load_policy("forbid(principal, action, resource);", Actor::Owner).await.expect("it is good");
    denied(gate(&governance).decide(&turn.call("one", "shop/search")).await);
    let eve = Actor::Person { name: "eve".to_owned(), signed: None };
    unload_policy(&governance, eve).await.expect_err("she is not the owner");
    let status = unload_policy(&governance, Actor::Owner).await.expect("they are taken out");
    assert_eq!((status.digest, status.is_broken, status.findings), (None, false, Vec::new()));
    permitted(gate(&governance).decide(&turn.call("two", "shop/search")).await);
    assert_eq!(changes(&governance).await, 2);
    let again = bench.start().await;
    assert_eq!((again.policy().findings, changes(&again).await), (Vec::new(), 2), "nothing is missing");

    std::fs::write(bench.path().join("policy.cedar"), "permit(").expect("it is written");
    let broken = bench.start().await;
    assert!(broken.policy().is_broken);
    unload_policy(&broken, Actor::Owner).await.expect("they are taken out");
    assert!(!bench.start().await.policy().is_broken, "the file is gone");
}

#[tokio::test]
async fn a_file_of_policies_that_is_gone_is_on_record_and_told_until_somebody_says_what_holds() {
    let bench = Bench::new();
    bench.start().await.load_policy(ALL, Actor::Owner).await.expect("it is good");
    std::fs::remove_file(bench.path().join("policy.cedar")).expect("it is removed");
    for _ in 0..2 {
        let governance = bench.start().await;
        assert!(says(&governance.policy(), "its file is gone"), "{:?}", governance.policy());
        assert_eq!((governance.policy().digest, changes(&governance).await), (None, 2), "once, whatever starts follow");
    }
    unload_policy(&bench.start().await, Actor::Owner).await.expect("it is said");
    let governance = bench.start().await;
    assert_eq!((governance.policy().findings, changes(&governance).await), (Vec::new(), 3));
}

#[tokio::test]
async fn a_name_that_nobody_has_is_near_to_one_that_somebody_has() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let tools = BTreeMap::from([("shop/search".to_owned(), json!({}))]);
    let clerk = AgentRef::new(owner(), "clerk", "1.0.0").expect("a name");
    governance.take_tools(&clerk, &tools, &profiles());
    let named = |kind: &str, id: &str| format!("{kind}::\"{id}\"");
    let id = clerk.id.to_string();
    let typo = id.replace("clerk", "klerk");
    for (written, near) in [
        (named("Agent", &typo), Some(named("Agent", &id))),
        (named("Agent", &id), None),
        (named("Agent", &id.replace("clerk", "till")), None),
        (named("Tool", "shop/serach"), Some(named("Tool", "shop/search"))),
        (named("Tool", "shop/search"), None),
        (named("Person", "ownr"), Some(named("Person", "owner"))),
        (named("Host", "example.org"), None),
        ("no name".to_owned(), None),
    ] {
        assert_eq!(crate::trials::near_name(&governance, &written), near, "{written}");
    }
}

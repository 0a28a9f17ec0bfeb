//! How many questions people are asked, and why: one for each call and each yes that it needs, none of a test.

use super::*;

#[tokio::test]
async fn two_equal_calls_of_one_turn_need_two_yeses_and_no_third() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let (gate, call) = (gate(&governance), turn.call("task", "shop/order"));
    let first = asked(gate.decide(&call).await);
    governance.answer(&first.id, yes(), Actor::Owner).await.expect("it counts");
    let permit = permitted(gate.decide(&call).await);
    bench.later(1);
    let second = asked(gate.decide(&call).await);
    assert_ne!(second.id, first.id, "the yes is the first call's");
    // The turn rests.
    gate.take_back(&permit.receipt.expect("it is promised"));
    governance.answer(&second.id, yes(), Actor::Owner).await.expect("it counts");
    // The turn goes on, and both are decided on anew before the first of them is made.
    let permits = [permitted(gate.decide(&call).await), permitted(gate.decide(&call).await)];
    assert!(governance.pending().is_empty());
    for permit in permits {
        bench.intent(permit).await;
    }
    governance.sweep().await;
    for id in [&first.id, &second.id] {
        assert_eq!(governance.ask_state(id), Some(AskState::Used));
    }
    let third = asked(gate.decide(&call).await);
    assert!(![first.id, second.id].contains(&third.id), "each yes is for one call");
}

#[tokio::test]
async fn a_call_of_a_test_is_denied_where_somebody_would_be_asked() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let gate = gate(&governance);
    let call = ToolCall { asks_nobody: true, ..turn.call("task", "shop/order") };
    let reason = denied(gate.decide(&call).await);
    assert_eq!(reason, "somebody must agree, and a test asks nobody");
    assert!(governance.pending().is_empty(), "no question is left");
    permitted(gate.decide(&ToolCall { asks_nobody: true, ..turn.call("task", "shop/search") }).await);
    let ask = asked(gate.decide(&turn.call("task", "shop/order")).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    denied(gate.decide(&call).await);
    assert_eq!(governance.ask_state(&ask.id), Some(AskState::Approved), "no yes is used by a test");
}

#[tokio::test]
async fn a_call_that_needs_two_yeses_waits_for_both_and_each_question_says_why() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA7kjw8MIz6Ss3IVzSHKBDJWd6iGoaXmdOUC64VLcBu0";
    let people = format!(
        "owner: ada\npeople:\n  ada: {{ roles: [owner] }}\n  grace: {{ keys: [\"{key}\"], roles: [treasurer] }}\n"
    );
    governance.load_people(&people, Actor::Owner).await.expect("it is good");
    let why = r#"@ask("it costs money\nneeds    nothing")"#;
    let policies = format!("@id(\"large\") {why} @sign_off(\"1:treasurer\") permit(principal, action, resource);");
    governance.load_policy(&policies, Actor::Owner).await.expect("it is good");
    let (gate, call) = (gate(&governance), turn.call("task", "shop/search"));
    let first = asked(gate.decide(&call).await);
    let pending = governance.pending();
    let of = |is_consent: bool| {
        let found = pending.iter().find(|ask| matches!(ask.wants[..], [Want::Consent { .. }]) == is_consent);
        found.expect("both are asked").clone()
    };
    let (consent, sign_off) = (of(true), of(false));
    assert_eq!(first.id, consent.id, "the consent is asked for first");
    assert_eq!(consent.reasons, [r"it costs money\u{a}needs    nothing"], "on one line");
    assert_eq!(sign_off.reasons, ["the owner's policies want it (large)"]);
    governance.answer(&consent.id, yes(), Actor::Owner).await.expect("it counts");
    assert_eq!(asked(gate.decide(&call).await).id, sign_off.id, "it is not made");
    // Another call of the same tool is not what waits.
    let other = Turn { arguments: json!({ "item": "lamp", "count": 2 }), ..Turn::new() };
    asked(gate.decide(&other.call("task", "shop/search")).await);
    let besides: Vec<String> = asked_besides(&governance, &consent.id).into_iter().map(|ask| ask.id).collect();
    assert_eq!(besides, [sign_off.id]);
    assert!(asked_besides(&governance, "none").is_empty());
}

#[tokio::test]
async fn a_sign_off_that_nobody_can_give_is_denied_at_once_and_says_whose_key_is_missing() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let people = "owner: ada\npeople:\n  ada: { roles: [treasurer] }\n  grace: { roles: [treasurer] }\n";
    governance.load_people(people, Actor::Owner).await.expect("it is good");
    let policies = "@sign_off(\"1:treasurer\") permit(principal, action, resource);";
    governance.load_policy(policies, Actor::Owner).await.expect("it is good");
    // The agent works for Ada, who needs no key.
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    assert!(reason.contains("0 of the file of people can: no key is there of \"grace\""), "{reason}");
    assert!(governance.pending().is_empty(), "nobody is asked");
}

#[tokio::test]
async fn a_standing_yes_leaves_no_argument_to_strangers_and_not_all_of_them_to_the_agent() {
    let (bench, mut turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let standing = |free: &[&str]| {
        let free = free.iter().map(|name| (*name).to_owned()).collect();
        Answer { standing: Some(StandingTerms { until_ms: NOW_MS + 60_000, count: 2, free }), ..yes() }
    };
    let ask = asked(gate(&governance).decide(&turn.call("trusted", "shop/order")).await);
    let refused =
        governance.answer(&ask.id, standing(&["item", "count"]), Actor::Owner).await.expect_err("all are free");
    assert!(refused.to_string().contains("leave at least one argument as it is"), "{refused}");
    assert_eq!(governance.ask_state(&ask.id), Some(AskState::Open), "no yes was taken");
    governance.answer(&ask.id, standing(&["count"]), Actor::Owner).await.expect("it counts");

    turn.attributes.label = Some(Label { level: DataLabel::Internal, trusted: false });
    let ask = asked(gate(&governance).decide(&turn.call("untrusted", "shop/order")).await);
    let refused =
        governance.answer(&ask.id, standing(&["count"]), Actor::Owner).await.expect_err("strangers choose it");
    assert!(refused.to_string().contains("leave every argument as it is"), "{refused}");
    governance.answer(&ask.id, standing(&[]), Actor::Owner).await.expect("these arguments alone");
    permitted(gate(&governance).decide(&turn.call("same", "shop/order")).await);
    turn.arguments = json!({ "item": "lamp", "count": 9 });
    asked(gate(&governance).decide(&turn.call("other", "shop/order")).await);
}

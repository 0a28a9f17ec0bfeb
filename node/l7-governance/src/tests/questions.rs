//! How many questions people are asked, and why: one for each call and each yes that it needs, none of a test.

use super::*;

#[tokio::test]
async fn two_equal_calls_of_one_turn_need_two_yeses_and_no_third() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let (gate, call) = (gate(&governance), turn.call("task", "shop/order"));
    let first = asked(gate.decide(&call).await);
    governance.answer(&first.id, yes(), Actor::Owner).await.expect("it counts");
    drop(permitted(gate.decide(&call).await));
    bench.later(1);
    let second = asked(gate.decide(&call).await);
    assert_ne!(second.id, first.id, "the yes is the first call's");
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
    let people = "owner: ada\npeople:\n  ada: { roles: [owner] }\n  grace: { roles: [treasurer] }\n";
    governance.load_people(people, Actor::Owner).await.expect("it is good");
    let policies =
        "@id(\"large\") @ask(\"it costs money\") @sign_off(\"1:treasurer\") permit(principal, action, resource);";
    governance.load_policy(policies, Actor::Owner).await.expect("it is good");
    let (gate, call) = (gate(&governance), turn.call("task", "shop/search"));
    let first = asked(gate.decide(&call).await);
    let pending = governance.pending();
    let of = |is_consent: bool| {
        let found = pending.iter().find(|ask| matches!(ask.wants[..], [Want::Consent { .. }]) == is_consent);
        found.expect("both are asked").clone()
    };
    let (consent, sign_off) = (of(true), of(false));
    assert_eq!(first.id, consent.id, "the consent is asked for first");
    assert_eq!(consent.reasons, ["it costs money"]);
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

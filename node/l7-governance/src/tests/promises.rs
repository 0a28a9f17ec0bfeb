//! A yes that is promised to a call whose intent is not on disk yet, and a permit that was given ahead of its call.

use althing_execution::tools::contract_gates;

use super::*;

const ALL: &str = "permit(principal, action, resource);";

#[tokio::test]
async fn a_yes_stays_promised_to_its_call_whatever_else_its_program_is_answered_meanwhile() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let other = Turn { arguments: json!({ "item": "lamp", "count": 2 }), ..Turn::new() };
    let (one, two) = (turn.call("task", "shop/order"), other.call("task", "shop/order"));
    let governance = bench.start().await;
    let gate = gate(&governance);
    // A program makes both at once, and its turn rests for neither.
    let (first, second) = (asked(gate.decide(&one).await), asked(gate.decide(&two).await));
    governance.answer(&first.id, yes(), Actor::Owner).await.expect("it counts");
    let permit = permitted(gate.decide(&one).await);
    governance.answer(&second.id, yes(), Actor::Owner).await.expect("it counts");
    bench.later(1);
    // Before the intent of the first one is on disk it makes that call once more.
    let again = asked(gate.decide(&one).await);
    assert_ne!(again.id, first.id, "the yes is promised");
    governance.answer(&again.id, Answer::default(), Actor::Owner).await.expect("it counts");
    assert!(gate.is_current(&one, &permit), "a no to the other one is none to this");
    let permits = [permit, permitted(gate.decide(&two).await)];
    for permit in permits {
        bench.intent(permit).await;
    }
    governance.sweep().await;
    for id in [&first.id, &second.id] {
        assert_eq!(governance.ask_state(id), Some(AskState::Used));
    }
    denied(gate.decide(&one).await);
}

#[tokio::test]
async fn a_yes_whose_permit_is_given_back_is_for_the_next_call_that_is_the_same() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let call = turn.call("task", "shop/order");
    let governance = bench.start().await;
    let gate = gate(&governance);
    let ask = asked(gate.decide(&call).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    let permit = permitted(gate.decide(&call).await);
    gate.take_back(&permit.receipt.expect("it is promised"));
    assert!(!gate.is_current(&call, &permit), "by that no call is made any more");
    let permit = permitted(gate.decide(&call).await);
    bench.intent(permit.clone()).await;
    // What was used stays used, whoever gives back what.
    gate.take_back(&permit.receipt.expect("it is promised"));
    assert_ne!(asked(gate.decide(&call).await).id, ask.id);
}

#[tokio::test]
async fn a_permit_counts_until_other_policies_or_other_people_do() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let call = turn.call("task", "shop/search");
    let governance = bench.start().await;
    let gate = gate(&governance);
    let permit = async || {
        let permit = permitted(gate.decide(&call).await);
        assert!(gate.is_current(&call, &permit), "nothing changed");
        permit
    };
    let given = permit().await;
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    assert!(!gate.is_current(&call, &given));
    let given = permit().await;
    let forbid = format!("{ALL} forbid(principal, action, resource == Tool::\"shop/search\");");
    governance.load_policy("permit(", Actor::Owner).await.expect_err("it is cut");
    assert!(gate.is_current(&call, &given), "nothing was put in force");
    governance.load_policy(&forbid, Actor::Owner).await.expect("it is good");
    assert!(!gate.is_current(&call, &given));
    denied(gate.decide(&call).await);
    unload_policy(&governance, Actor::Owner).await.expect("they are taken out");
    let given = permit().await;
    governance.load_people("owner: ada\npeople:\n  ada: { roles: [owner] }\n", Actor::Owner).await.expect("it is good");
    assert!(!gate.is_current(&call, &given));
}

#[tokio::test]
async fn who_lost_a_role_signed_nothing_off_that_is_not_done_yet() {
    let (bench, mut turn) = (Bench::new(), Turn::new());
    turn.principals = vec!["token:grace".to_owned()];
    let call = turn.call("task", "shop/search");
    let governance = bench.start().await;
    let people = "owner: ada\npeople:\n  ada: { roles: [treasurer] }\n  grace: { users: [grace] }\n";
    governance.load_people(people, Actor::Owner).await.expect("it is good");
    let policies = "@sign_off(\"1:treasurer\") permit(principal, action, resource);";
    governance.load_policy(policies, Actor::Owner).await.expect("it is good");
    let gate = gate(&governance);
    let ask = asked(gate.decide(&call).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("she is the treasurer");
    let permit = permitted(gate.decide(&call).await);
    // Who others are changes, and the yes is for the same call as before.
    let more = format!("{people}  linus: {{ users: [linus] }}\n");
    governance.load_people(&more, Actor::Owner).await.expect("it is good");
    assert!(!gate.is_current(&call, &permit));
    gate.take_back(&permit.receipt.expect("it is promised"));
    let permit = permitted(gate.decide(&call).await);
    governance.load_people(&people.replace("treasurer", "clerk"), Actor::Owner).await.expect("it is good");
    assert!(!gate.is_current(&call, &permit));
    gate.take_back(&permit.receipt.expect("it is promised"));
    let reason = denied(gate.decide(&call).await);
    assert!(reason.contains("treasurer"), "{reason}");
}

#[tokio::test]
async fn a_permit_of_an_agent_that_is_stopped_before_its_call_counts_no_more() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let (governance, gates) = (bench.start().await, Gates::default());
    gates.connect(&governance);
    let gate = gates.make(contract_gates())(&agent(), &contract(), &profiles());
    let (search, order) = (turn.call("task", "shop/search"), turn.call("task", "shop/order"));
    let ask = asked(gate.decide(&order).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    let permits = [(search, permitted(gate.decide(&search).await)), (order, permitted(gate.decide(&order).await))];
    let current = || permits.each_ref().map(|(call, permit)| gate.is_current(call, permit));
    assert_eq!(current(), [true, true]);
    end_questions_of(&governance, |stopped| *stopped == agent().id).await.expect("they are written");
    assert_eq!(current(), [true, false], "its yes is over");
    gates.stops().connect(Box::new(|agent| Some(format!("{} was stopped by its owner", agent.name()))));
    assert_eq!(current(), [false, false]);
    let reason = denied(gate.decide(&search).await);
    assert!(reason.contains("stopped by its owner"), "{reason}");
}

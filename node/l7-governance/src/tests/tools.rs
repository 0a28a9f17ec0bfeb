//! Of which tools policies may speak.

use super::*;

/// `shop/search` with these arguments.
fn listed(properties: &Value) -> BTreeMap<String, Value> {
    let required: Vec<&String> = properties.as_object().expect("an object").keys().collect();
    let input = json!({ "type": "object", "properties": properties, "required": required });
    BTreeMap::from([("shop/search".to_owned(), input)])
}

#[tokio::test]
async fn a_tool_that_a_model_made_up_is_none_of_which_policies_speak() {
    let (bench, mut turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    governance.load_policy("permit(principal, action, resource);", Actor::Owner).await.expect("it is good");
    turn.definition = String::new();
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/made-up")).await);
    assert!(reason.contains("made-up") || reason.contains("labels") || reason.contains("public"), "{reason}");
    let named = "permit(principal, action, resource == Tool::\"shop/made-up\");";
    let found = governance.lint_policy(named).expect("it is good");
    assert!(found.iter().any(|finding| finding.what.contains("shop/made-up")), "nothing is known of it: {found:?}");
}

#[tokio::test]
async fn an_agent_whose_tools_do_not_fit_the_policies_spoils_those_of_no_other() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let own = listed(&json!({ "item": { "type": "string" }, "count": { "type": "integer" } }));
    governance.take_tools(&agent(), &own, &profiles());
    let few = "permit(principal, action == Action::\"search\", resource) when { context.input.count < 10 };";
    governance.load_policy(few, Actor::Owner).await.expect("it is good");
    permitted(gate(&governance).decide(&turn.call("one", "shop/search")).await);

    let stranger = AgentRef::new(owner(), "stranger", "1.0.0").expect("a name");
    governance.take_tools(&stranger, &listed(&json!({ "q": { "type": "string" } })), &profiles());
    permitted(gate(&governance).decide(&turn.call("two", "shop/search")).await);
    let status = governance.policy();
    assert!(status.findings.iter().any(|finding| finding.what.contains("stranger")), "{:?}", status.findings);
    let contract = contract();
    let of_stranger = governance.gate(Arc::new(ContractGate::of(&contract)), &stranger, &contract, profiles());
    let asks = Turn { agent: stranger, arguments: json!({ "q": "lamp" }), ..Turn::new() };
    let reason = denied(of_stranger.decide(&asks.call("three", "shop/search")).await);
    assert!(reason.contains("do not fit the tools of this agent"), "{reason}");
    // The owner can load others as before.
    governance.load_policy(few, Actor::Owner).await.expect("it is good");
    permitted(gate(&governance).decide(&turn.call("four", "shop/search")).await);
}

#[tokio::test]
async fn each_version_of_an_agent_is_decided_by_its_own_and_makes_nothing_anew() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let text = r#"permit(principal is Agent, action, resource) when { principal.version == "2.0.0" };"#;
    governance.load_policy(text, Actor::Owner).await.expect("it is good");
    let contract = contract();
    let versions = ["1.0.0", "2.0.0"].map(|version| {
        let agent = AgentRef::new(owner(), "a", version).expect("a name");
        let gate = governance.gate(Arc::new(ContractGate::of(&contract)), &agent, &contract, profiles());
        (gate, Turn { agent, ..Turn::new() })
    });
    let mut at = None;
    for number in 0..20 {
        let task = format!("task-{number}");
        let [(old_gate, old), (new_gate, new)] = &versions;
        let reason = denied(old_gate.decide(&old.call(&task, "shop/search")).await);
        assert!(reason.contains("no policy of the owner permits it"), "{reason}");
        permitted(new_gate.decide(&new.call(&task, "shop/search")).await);
        // The first calls say of the tool what is known of it.
        assert_eq!(*at.get_or_insert(governance.policies().revision()), governance.policies().revision());
    }
}

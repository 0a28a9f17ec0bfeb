//! Servers that ask over two pipes, on which no question says to which call it belongs: whom they reach.

use super::*;
use crate::parking::OTHERS;

/// A question, of this id.
fn asks(id: &str, message: &Value) -> Does {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "message": message, "requestedSchema": schema });
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params }))
}

fn said(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// A server that asks for its first call while it works on the second. It may answer the first after that, or never.
async fn late(answers_first: bool) -> (Tools, Arc<Server>) {
    let mut calls: Vec<Value> = Vec::new();
    scene(move |asked| {
        if asked["method"] == "tools/call" {
            calls.push(asked.clone());
            let question = asks(&format!("q{}", calls.len()), &json!("Name?"));
            return if calls.len() == 1 { Vec::new() } else { vec![question] };
        }
        let mut all = vec![answers(&calls[calls.len() - 1], text(&asked["result"].to_string()))];
        if answers_first {
            all.push(answers(&calls[0], text("late")));
        }
        all
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_a_caller_who_hung_up_is_shown_to_nobody_else() {
    let (tools, _) = late(true).await;
    let first = timeout(Duration::from_secs(1), asking(&tools, "{}", Relayed::default())).await;
    assert!(first.is_err(), "it hung up");
    let second = asking(&tools, "{}", Relayed::default()).await;
    assert!(said(&second).contains("cancel"), "the question may be about the first call: {second}");
    let third = asking(&tools, "{}", Relayed::default()).await;
    assert_eq!(third["resultType"], "input_required", "the first is answered by then: {third}");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_never_answers_who_hung_up_is_started_anew_once_nobody_needs_it() {
    let (tools, server) = late(false).await;
    let first = timeout(Duration::from_secs(1), asking(&tools, "{}", Relayed::default())).await;
    assert!(first.is_err(), "it hung up");
    let second = asking(&tools, "{}", Relayed::default()).await;
    assert!(said(&second).contains("cancel"), "{second}");
    assert!(server.client().await.is_ok(), "it may answer yet");
    sleep(Duration::from_secs(121)).await;
    let runs = server.running.begin();
    assert!(server.client().await.is_ok(), "a call runs on it");
    drop(runs);
    // Where a script plays the program, there is none to start.
    assert!(server.client().await.is_err());
}

/// Calls, and answers what is asked with its own name.
async fn answering(tools: &Tools, name: &str) -> String {
    let arguments = json!({ "name": name }).to_string();
    let required = asking(tools, &arguments, Relayed::default()).await;
    assert_eq!(required["inputRequests"]["elicitation"]["params"]["message"], name, "another's question: {required}");
    let answer = json!({ "elicitation": { "action": "accept", "content": { "name": name } } });
    let again = Relayed {
        input_responses: answer.as_object().cloned(),
        request_state: required["requestState"].as_str().map(str::to_owned),
        ..Relayed::default()
    };
    said(&asking(tools, &arguments, again).await).to_owned()
}

#[tokio::test(start_paused = true)]
async fn several_callers_at_once_are_asked_one_after_the_other_by_a_server_that_is_known_to_ask() {
    let mut waiting = BTreeMap::new();
    let (tools, _) = scene(move |asked| {
        if asked["method"] == "tools/call" {
            let id = format!("q{}", asked["id"]);
            waiting.insert(id.clone(), asked.clone());
            return vec![asks(&id, &asked["params"]["arguments"]["name"])];
        }
        let call = waiting.remove(asked["id"].as_str().unwrap_or_default()).expect("it was asked for");
        vec![answers(&call, text(&asked["result"].to_string()))]
    })
    .await;
    assert!(answering(&tools, "Ada").await.contains("Ada"));
    let (ben, cleo, dora) =
        tokio::join!(answering(&tools, "Ben"), answering(&tools, "Cleo"), answering(&tools, "Dora"));
    assert!(ben.contains("Ben") && cleo.contains("Cleo") && dora.contains("Dora"), "{ben} {cleo} {dora}");
}

/// A server that asks each caller for its name as it is in the call. It says nothing more of so many calls of which nobody answers.
async fn forgetful(mut forgets: usize) -> (Tools, Arc<Server>) {
    let mut waiting = BTreeMap::new();
    scene(move |asked| {
        if asked["method"] == "tools/call" {
            let id = format!("q{}", asked["id"]);
            waiting.insert(id.clone(), asked.clone());
            return vec![asks(&id, &asked["params"]["arguments"]["name"])];
        }
        let call = waiting.remove(asked["id"].as_str().unwrap_or_default()).expect("it was asked for");
        if asked["result"]["action"] == "cancel" && forgets > 0 {
            forgets -= 1;
            return Vec::new();
        }
        vec![answers(&call, text(&asked["result"].to_string()))]
    })
    .await
}

/// Calls, and leaves the form open that it is shown; gives the state of the call.
async fn leaving_open(tools: &Tools, name: &str) -> String {
    let open = asking(tools, &json!({ "name": name }).to_string(), Relayed::default()).await;
    assert_eq!(open["inputRequests"]["elicitation"]["params"]["message"], name, "{open}");
    open["requestState"].as_str().expect("a state").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_form_that_is_left_open_is_given_up_once_others_wait_and_whoever_left_it_is_told() {
    let (tools, server) = forgetful(0).await;
    assert!(answering(&tools, "Ada").await.contains("Ada"));
    let state = leaving_open(&tools, "Ed").await;
    sleep(Duration::from_secs(500)).await;
    assert!(server.awaits(&state), "nobody else waits");
    let begun = Instant::now();
    assert!(answering(&tools, "Fay").await.contains("Fay"), "whoever waits is asked");
    assert!(begun.elapsed() >= OTHERS && begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    assert!(!server.awaits(&state));
    let answer = json!({ "elicitation": { "action": "accept", "content": { "name": "Ed" } } });
    let again =
        Relayed { input_responses: answer.as_object().cloned(), request_state: Some(state), ..Relayed::default() };
    let late = asking(&tools, r#"{"name":"Ed"}"#, again).await;
    assert!(late["failed"].as_str().is_some_and(|why| why.contains("others waited for the server")), "{late}");
    assert!(answering(&tools, "Gus").await.contains("Gus"), "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn a_form_that_was_just_opened_is_not_given_up_nor_one_for_which_nobody_waits_any_more() {
    let (tools, server) = forgetful(0).await;
    assert!(answering(&tools, "Ada").await.contains("Ada"));
    let state = leaving_open(&tools, "Ed").await;
    let hung_up = timeout(OTHERS / 2, asking(&tools, r#"{"name":"Fay"}"#, Relayed::default())).await;
    assert!(hung_up.is_err(), "it waited");
    sleep(OTHERS).await;
    assert!(server.awaits(&state), "nobody waits");
    // The next form is opened when a third caller has waited nearly as long.
    let third = async {
        sleep(Duration::from_secs(1)).await;
        asking(&tools, r#"{"name":"Ida"}"#, Relayed::default()).await
    };
    let (state, third) = tokio::join!(leaving_open(&tools, "Hal"), third);
    assert!(third["failed"].as_str().is_some_and(|why| why.contains("one caller at a time")), "{third}");
    assert!(server.awaits(&state), "it had no time yet");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_end_what_was_given_up_lets_the_next_begin_and_shows_it_nothing_of_that() {
    let (tools, _) = forgetful(1).await;
    assert!(answering(&tools, "Ada").await.contains("Ada"));
    leaving_open(&tools, "Ed").await;
    let begun = Instant::now();
    let next = asking(&tools, r#"{"name":"Fay"}"#, Relayed::default()).await;
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    assert!(said(&next).contains("cancel"), "what it asks may be about the call that was given up: {next}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_can_read_is_cancelled_and_no_error() {
    let listed = json!({ "message": "Name?", "requestedSchema": [] });
    for params in [json!({}), json!({ "message": 7 }), listed, json!(null)] {
        let mut waits = Value::Null;
        let (tools, _) = scene(move |asked| {
            if asked["method"] == "tools/call" {
                waits = asked.clone();
                let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params });
                return vec![line(&question)];
            }
            vec![answers(&waits, text(&asked.to_string()))]
        })
        .await;
        let told = asking(&tools, "{}", Relayed::default()).await;
        let told: Value = serde_json::from_str(said(&told)).expect("the message of the node");
        assert_eq!(told["result"], json!({ "action": "cancel" }), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_is_shown_as_it_wrote_it() {
    let any = json!({ "anyOf": [{ "type": "string", "pattern": "^a" }, { "type": "null" }] });
    let schema = json!({ "type": "object", "properties": { "any": any }, "additionalProperties": false });
    let params = json!({ "message": "Which?", "requestedSchema": schema });
    let mut waits = Value::Null;
    let (tools, _) = scene(move |asked| {
        if asked["method"] == "tools/call" {
            waits = asked.clone();
            let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params });
            return vec![line(&question)];
        }
        vec![answers(&waits, text(&asked["result"].to_string()))]
    })
    .await;
    let required = asking(&tools, "{}", Relayed::default()).await;
    let request = &required["inputRequests"]["elicitation"];
    assert_eq!(request["method"], "elicitation/create", "{required}");
    assert_eq!(request["params"]["requestedSchema"], schema, "{required}");
}

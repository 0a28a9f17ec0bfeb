//! Input of the `chat` action.

use serde_json::{Value, json};

use super::{Chat, LMOS};

fn said(text: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": text }] })
}

#[test]
fn a_single_message_is_sent_and_nothing_beside_it() {
    let chat = Chat::parse(said("hello")).expect("a request");
    let wanted = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] } });
    assert_eq!(chat.params("m"), wanted);
}

#[test]
fn the_last_message_of_the_user_is_sent_with_the_rest_in_metadata() {
    let input = json!({
        "messages": [
            { "role": "user", "content": "one", "turnId": null },
            { "role": "assistant", "content": "two" },
            { "role": "user", "content": "three", "turnId": "t3" },
        ],
        "conversationContext": { "conversationId": "c1", "turnId": "t3" },
        "systemContext": [{ "key": "channel", "value": "web" }],
        "userContext": null,
    });
    let chat = Chat::parse(input).expect("a request");
    let message = chat.params("m")["message"].clone();
    assert_eq!(message["parts"], json!([{ "text": "three" }]));
    assert_eq!((&message["contextId"], chat.turn.as_deref()), (&json!("c1"), Some("t3")));
    let beside = &message["metadata"][LMOS];
    assert_eq!(beside["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(beside["systemContext"][0]["value"], "web");
    assert!(beside.get("userContext").is_none(), "null is absent");
}

#[test]
fn a_turn_that_names_a_task_continues_it() {
    for input in [
        json!({ "messages": [{ "role": "user", "content": "this one", "turnId": "task:7" }] }),
        json!({ "messages": [{ "role": "User", "content": "this one" }], "conversationContext": { "conversationId": "c", "turnId": "task:7" } }),
    ] {
        let chat = Chat::parse(input).expect("a request");
        let message = chat.params("m")["message"].clone();
        assert_eq!((&message["taskId"], &message["contextId"]), (&json!("7"), &Value::Null));
        assert_eq!(chat.turn, None);
    }
}

#[test]
fn formats_and_binary_data_become_parts() {
    let with = |format: &str, content: &str| {
        let input = json!({ "messages": [{ "role": "user", "content": content, "format": format }] });
        Chat::parse(input).expect("a request").params("m")["message"]["parts"][0].clone()
    };
    assert_eq!(with("text", "a"), json!({ "text": "a" }));
    assert_eq!(with("markdown", "*a*"), json!({ "text": "*a*", "mediaType": "text/markdown" }));
    assert_eq!(with("json", "{\"a\":1}"), json!({ "data": { "a": 1 } }));
    assert_eq!(with("json", "{"), json!({ "text": "{" }));
    assert_eq!(with("text/csv", "a,b"), json!({ "text": "a,b", "mediaType": "text/csv" }));
    let input = json!({ "messages": [{ "role": "user", "content": "", "binaryData": [
        { "mimeType": "image/png", "dataAsBase64": "AA==" },
        { "mimeType": "image/png", "source": "https://a.example/b.png" },
    ] }] });
    let wanted = json!([
        { "raw": "AA==", "mediaType": "image/png" },
        { "url": "https://a.example/b.png", "mediaType": "image/png" },
    ]);
    assert_eq!(Chat::parse(input).expect("a request").params("m")["message"]["parts"], wanted);
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_place() {
    for (input, place) in [
        (json!("hello"), "messages"),
        (json!({}), "`messages`"),
        (json!({ "messages": "hello" }), "no list"),
        (json!({ "messages": [] }), "`user`"),
        (json!({ "messages": [{ "role": "assistant", "content": "x" }] }), "`user`"),
        (json!({ "messages": [{ "role": "user" }] }), "`messages[0]`"),
        (json!({ "messages": [{ "role": "user", "content": 7 }] }), "`messages[0]`"),
        (json!({ "messages": [{ "role": "user", "content": "" }] }), "neither"),
        (
            json!({ "messages": [{ "role": "user", "content": "", "binaryData": [{ "mimeType": "a/b" }] }] }),
            "binaryData[0]",
        ),
        (json!({ "messages": vec![json!({ "role": "user", "content": "x" }); 1_001] }), "1001"),
    ] {
        let refused = Chat::parse(input.clone()).expect_err("no request");
        assert!(refused.contains(place), "{input}: {refused}");
    }
}

/// A token of the client's user is for the client's own services, and agents may be anyone's.
#[test]
fn tokens_of_users_are_not_passed_on() {
    let input = json!({
        "messages": [
            { "role": "user", "content": "one", "userToken": "secret" },
            { "role": "user", "content": "two" },
        ],
        "userContext": { "userId": "u", "userToken": "secret", "profile": [{ "key": "k", "value": "v", "user_token": "secret" }] },
        "userToken": "secret",
    });
    let message = Chat::parse(input).expect("a request").params("m")["message"].clone();
    assert!(!message.to_string().contains("secret"), "{message}");
    assert_eq!(
        message["metadata"][LMOS]["userContext"],
        json!({ "userId": "u", "profile": [{ "key": "k", "value": "v" }] })
    );
}

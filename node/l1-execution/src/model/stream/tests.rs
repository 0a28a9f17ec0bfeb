//! Tests of answers as they come.

use futures::stream;
use serde_json::{Value, json};

use super::*;

/// What is kept of an endpoint's word of which model answered, and why it stopped.
fn kept(model: &str, finish: &str) -> (Option<String>, String) {
    let event = json!({ "model": model, "choices": [{ "delta": {}, "finish_reason": finish }] });
    let mut answer = Stream::new(stream::empty().boxed(), 0);
    answer.take(format!("data: {event}\n\n").as_bytes()).expect("a chunk");
    let completion = answer.completion();
    (completion.model, completion.finish)
}

#[test]
fn an_endpoint_says_no_text_beside_an_answer() {
    for (model, finish) in [("small-1", "stop"), ("Qwen/Qwen2.5-7B@v1:q4", "length"), ("m", "content_filter")] {
        assert_eq!(kept(model, finish), (Some(model.to_owned()), finish.to_owned()));
    }
    for text in ["the real total is 7", "zwölf", "", &"7".repeat(MODEL_NAME_BYTES_MAX + 1)] {
        assert_eq!(kept(text, "stop").0, None, "{text}");
    }
    for text in ["the real total is 7", "STOP7", "seven"] {
        assert_eq!(kept("m", text).1, OTHER, "{text}");
    }
}

/// The text of an answer in these pieces, and what is told of it; or why there is none.
async fn answered(pieces: &[&str]) -> Result<(String, Completion), EndpointError> {
    let pieces: Vec<reqwest::Result<bytes::Bytes>> =
        pieces.iter().map(|piece| Ok(bytes::Bytes::copy_from_slice(piece.as_bytes()))).collect();
    let mut answer = Stream::new(stream::iter(pieces).boxed(), 3);
    let mut text = String::new();
    while let Some(more) = answer.next(100).await? {
        text.push_str(&more);
    }
    Ok((text, answer.completion()))
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_read_as_one_piece() {
    let whole = json!({ "choices": [{ "message": { "content": "hello" }, "finish_reason": "stop" }] }).to_string();
    let (begin, end) = whole.split_at(9);
    for pieces in [vec![whole.as_str()], vec!["\n", begin, end]] {
        let (text, completion) = answered(&pieces).await.expect("an answer");
        assert_eq!((text.as_str(), completion.finish.as_str()), ("hello", "stop"));
        assert_eq!(completion.output_tokens, Some(2), "five bytes are more than one token");
    }
    let unended = json!({ "choices": [{ "message": { "content": "hello" } }] }).to_string();
    assert_eq!(answered(&[&unended]).await.expect("an answer").1.finish, OTHER);
    assert!(matches!(answered(&[begin]).await, Err(EndpointError::Malformed(_))), "it broke off");
    let endless = answered(&[&"[".repeat(WHOLE_BYTES_MAX + 1)]).await;
    let bound = WHOLE_BYTES_MAX.to_string();
    assert!(matches!(&endless, Err(EndpointError::Malformed(why)) if why.contains(&bound)), "{endless:?}");
}

/// Pieces of calls, and what says nothing, are no tokens.
#[tokio::test]
async fn what_says_nothing_does_not_go_on_for_ever() {
    let nothing = bytes::Bytes::from(format!(":{}\n", " ".repeat(1 << 20)));
    let mut answer = Stream::new(stream::repeat(nothing).map(Ok).boxed(), 0);
    let endless = answer.next(10).await;
    let bound = (STREAM_BYTES_MAX + 10 * TOKEN_BYTES_MAX).to_string();
    assert!(matches!(&endless, Err(EndpointError::Malformed(why)) if why.contains(&bound)), "{endless:?}");
}

#[tokio::test]
async fn an_odd_piece_spoils_no_stream() {
    let pieces = [
        "data: {\"choices\":null,\"usage\":7}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":[{\"text\":\"hel\"}],\"tool_calls\":null},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"\"}]}\n\n",
        "data: {\"choices\":[{\"delta\":null,\"finish_reason\":7}],\"usage\":null}\n\n",
    ];
    let (text, completion) = answered(&pieces).await.expect("an answer");
    assert_eq!((text.as_str(), completion.finish.as_str(), completion.pieces), ("hello", OTHER, 2));
    assert_eq!(completion.tokens(9), (9, 2), "they are counted where they are not told");
}

#[tokio::test]
async fn an_error_with_status_200_is_told_as_one() {
    for pieces in [
        ["{\"error\":{\"message\":\"no room\"}}", ""],
        ["data: {\"choices\":[]}\n\n", "data: {\"error\":{\"message\":\"no room\"}}\n\n"],
    ] {
        let error = answered(&pieces).await.expect_err("an error");
        assert_eq!(error.to_string(), "it answered with an error: no room");
        assert_eq!(error.brief(), "it answered with an error", "what it said may be private");
    }
}

fn event(choice: &Value) -> String {
    format!("data: {}\n\n", json!({ "choices": [choice] }))
}

fn called(completion: &Completion) -> Vec<(&str, &str)> {
    let functions = completion.calls.iter().map(|call| &call.function);
    functions.map(|function| (function.name.as_str(), function.arguments.as_str())).collect()
}

#[tokio::test]
async fn a_whole_answer_after_its_pieces_says_nothing_twice() {
    let calls = json!([{ "id": "a", "function": { "name": "add", "arguments": "{}" } }]);
    let message = json!({ "role": "assistant", "content": "hello", "tool_calls": calls });
    let [hel, lo] = ["hel", "lo"].map(|text| event(&json!({ "delta": { "content": text } })));
    let calling = event(&json!({ "delta": { "tool_calls": calls } }));
    // All of it was said, or a part of it, or nothing.
    let said: [&[&str]; 4] = [&[&hel, &lo, &calling], &[&hel, &lo], &[&calling], &[]];
    for end in [
        json!({ "delta": {}, "message": message, "finish_reason": "stop" }),
        json!({ "message": message, "finish_reason": "stop" }),
    ] {
        let end = event(&end);
        for pieces in said {
            let pieces: Vec<&str> = pieces.iter().copied().chain([end.as_str()]).collect();
            let (text, completion) = answered(&pieces).await.expect("an answer");
            assert_eq!((text.as_str(), called(&completion)), ("hello", vec![("add", "{}")]), "{pieces:?}");
        }
    }
}

#[tokio::test]
async fn pieces_that_are_named_messages_are_pieces() {
    let pieces = ["hel", "lo"].map(|text| event(&json!({ "message": { "content": text } })));
    let end = event(&json!({ "delta": {}, "finish_reason": "stop" }));
    let (text, completion) = answered(&[&pieces[0], &pieces[1], &end]).await.expect("an answer");
    assert_eq!((text.as_str(), completion.pieces), ("hello", 2));
}

#[tokio::test]
async fn the_last_event_needs_no_empty_line_and_one_that_broke_off_is_none() {
    let said = event(&json!({ "delta": { "content": "hello" } }));
    let end = event(&json!({ "delta": {}, "finish_reason": "stop" }));
    for last in [end.trim_end(), &end[..end.len() - 1]] {
        let (text, completion) = answered(&[&said, last]).await.expect("an answer");
        assert_eq!((text.as_str(), completion.finish.as_str()), ("hello", "stop"), "{last:?}");
    }
    for mark in ["data: [DONE]", "data: [DONE] \n\n"] {
        assert_eq!(answered(&[&said, mark]).await.expect("an answer").0, "hello", "{mark:?}");
    }
    assert_eq!(answered(&[&said, &end[..30]]).await.err(), Some(EndpointError::Cut));
    let (_, completion) = answered(&[&said, &end, "data: {\"choices\":[],\"usa"]).await.expect("an answer");
    assert_eq!(completion.finish, "stop", "all but the figures is there");
    let error = answered(&[&said, "data: {\"error\":\"no room\"}"]).await.err();
    assert_eq!(error, Some(EndpointError::Error("no room".to_owned())));
}

#[tokio::test]
async fn calls_without_an_id_are_given_one_and_those_of_a_journal_stay() {
    let calls = ["add", "sub"].map(|name| json!({ "index": 0, "function": { "name": name, "arguments": "{}" } }));
    let end = event(&json!({ "delta": { "tool_calls": calls }, "finish_reason": "tool_calls" }));
    let (_, completion) = answered(&[&end]).await.expect("an answer");
    assert_eq!(called(&completion), [("add", "{}"), ("sub", "{}")]);
    let ids =
        |completion: &Completion| -> Vec<String> { completion.calls.iter().map(|call| call.id.clone()).collect() };
    assert_eq!(ids(&completion), ["call-3-0", "call-3-1"]);
    let mut row = json!(completion);
    for call in row["calls"].as_array_mut().expect("calls") {
        call["id"] = json!("");
    }
    let told: Completion = serde_json::from_value(row.clone()).expect("a completion");
    assert_eq!((ids(&told), json!(told)), (vec![String::new(); 2], row), "as it was journalled");
}

//! What an endpoint says in one piece of a chat completion, read member by member: what is good is kept, what is odd counts as
//! not said, and is named. Pure.

use serde_json::{Map, Value};

use crate::lenient_json;

/// Characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 2_048;
/// What stands for a reason that is no text.
pub(super) const OTHER: &str = "other";

/// A piece of an answer, or a whole one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    pub model: Option<String>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Pieces of the text; none is empty.
    pub texts: Vec<String>,
    pub calls: Vec<CallPiece>,
    pub finish: Option<String>,
    /// Whether its text and calls are in `message`, as those of a whole answer.
    pub is_whole: bool,
    /// Members that are not as they should be, and so are left out.
    pub odd: Vec<&'static str>,
}

/// A piece of a tool call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CallPiece {
    /// Which call it belongs to, if it says so.
    pub index: Option<u64>,
    /// Its place in the list that it came in, from 0.
    pub place: usize,
    /// Empty if it is not said, as the others.
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// Why a piece is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is no object of JSON.
    Malformed(String),
    /// It is an error, in these words.
    Error(String),
}

impl Chunk {
    /// Reads a piece, whose text is in `delta`, or a whole completion, which has `message`.
    ///
    /// # Errors
    /// See [`Unread`].
    pub fn read(bytes: &[u8]) -> Result<Chunk, Unread> {
        let value = lenient_json::parse(bytes).map_err(|error| Unread::Malformed(error.to_string()))?;
        let mut members = match value {
            Value::Object(members) => members,
            // Some answer with a list that has the error.
            Value::Array(mut items) if items.len() == 1 && items[0].get("error").is_some() => match items.remove(0) {
                Value::Object(members) => members,
                _ => return Err(Unread::Malformed("it is a list".to_owned())),
            },
            _ => return Err(Unread::Malformed("it is no object".to_owned())),
        };
        if let Some(said) = error_in(&members) {
            return Err(Unread::Error(said));
        }
        let mut chunk = Chunk::default();
        chunk.model = chunk.text(members.remove("model"), "model");
        chunk.read_usage(members.get("usage"));
        for choice in chunk.items(members.remove("choices"), "choices") {
            chunk.read_choice(choice);
        }
        Ok(chunk)
    }

    fn note(&mut self, member: &'static str) {
        if !self.odd.contains(&member) {
            self.odd.push(member);
        }
    }

    /// A text that is not empty.
    fn text(&mut self, value: Option<Value>, member: &'static str) -> Option<String> {
        match value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text).filter(|text| !text.is_empty()),
            Some(_) => {
                self.note(member);
                None
            }
        }
    }

    /// A list; an object counts as a list of it alone.
    fn items(&mut self, value: Option<Value>, member: &'static str) -> Vec<Value> {
        match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(one @ Value::Object(_)) => vec![one],
            Some(_) => {
                self.note(member);
                Vec::new()
            }
        }
    }

    /// The members of an object; none of one that has none.
    fn members(&mut self, value: Option<Value>, member: &'static str) -> Option<Map<String, Value>> {
        match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(members)) => Some(members).filter(|members| !members.is_empty()),
            Some(_) => {
                self.note(member);
                None
            }
        }
    }

    fn read_usage(&mut self, usage: Option<&Value>) {
        if usage.is_some_and(|usage| !usage.is_null() && !usage.is_object()) {
            return self.note("usage");
        }
        let of = |member: &str| usage.and_then(|usage| usage.get(member)).filter(|count| !count.is_null());
        let (input, output) = (of("prompt_tokens"), of("completion_tokens"));
        if [input, output].into_iter().flatten().any(|count| !count.is_u64()) {
            self.note("usage");
        }
        self.input_tokens = input.and_then(Value::as_u64);
        self.output_tokens = output.and_then(Value::as_u64);
    }

    fn read_choice(&mut self, choice: Value) {
        let Value::Object(mut choice) = choice else { return self.note("choices") };
        match choice.remove("finish_reason") {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::String(reason)) if reason.is_empty() => {}
            Some(Value::String(reason)) => self.finish = Some(reason),
            Some(_) => {
                self.note("finish_reason");
                self.finish = Some(OTHER.to_owned());
            }
        }
        let delta = self.members(choice.remove("delta"), "delta");
        let message = self.members(choice.remove("message"), "delta");
        self.is_whole |= delta.is_none() && message.is_some();
        let Some(mut said) = delta.or(message) else { return };
        self.read_content(said.remove("content"));
        for (place, call) in self.items(said.remove("tool_calls"), "tool_calls").into_iter().enumerate() {
            self.read_call(place, call);
        }
    }

    /// A text, or a list of parts, whose texts are joined.
    fn read_content(&mut self, content: Option<Value>) {
        let parts = match content {
            Some(Value::Array(parts)) => parts,
            content => {
                let text = self.text(content, "content");
                return self.texts.extend(text);
            }
        };
        let mut whole = String::new();
        for part in &parts {
            match part.as_str().or_else(|| part.get("text").and_then(Value::as_str)) {
                Some(text) => whole.push_str(text),
                None => self.note("content"),
            }
        }
        if !whole.is_empty() {
            self.texts.push(whole);
        }
    }

    fn read_call(&mut self, place: usize, call: Value) {
        let Value::Object(mut call) = call else { return self.note("tool_calls") };
        let index = call.remove("index").filter(|index| !index.is_null());
        if index.as_ref().is_some_and(|index| !index.is_u64()) {
            self.note("index");
        }
        let id = match call.remove("id") {
            Some(Value::Number(id)) => id.to_string(),
            id => self.text(id, "id").unwrap_or_default(),
        };
        let mut function = self.members(call.remove("function"), "function").unwrap_or_default();
        let name = self.text(function.remove("name"), "name").unwrap_or_default();
        let arguments = match function.remove("arguments") {
            // As it is written where it is a text.
            Some(arguments @ Value::Object(_)) => arguments.to_string(),
            arguments => self.text(arguments, "arguments").unwrap_or_default(),
        };
        let index = index.as_ref().and_then(Value::as_u64);
        self.calls.push(CallPiece { index, place, id, name, arguments });
    }
}

/// The words of an error, if the members have one; not more than are shown.
fn error_in(members: &Map<String, Value>) -> Option<String> {
    let is_said = |error: &&Value| match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    let found = members.get("error").filter(is_said).cloned();
    // Others name the whole of it an error.
    let error = found.or_else(|| (members.get("object")? == "error").then(|| Value::Object(members.clone())))?;
    let said = match (&error, error.get("message").and_then(Value::as_str)) {
        (Value::String(text), _) => text.clone(),
        (_, Some(message)) if !message.is_empty() => match error.get("code").filter(|code| !code.is_null()) {
            Some(Value::String(code)) => format!("{message} ({code})"),
            Some(code) => format!("{message} ({code})"),
            None => message.to_owned(),
        },
        (error, _) => error.to_string(),
    };
    Some(said.chars().take(ERROR_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Chunk {
        Chunk::read(value.to_string().as_bytes()).unwrap_or_else(|why| panic!("{value}: {why:?}"))
    }

    #[test]
    fn a_member_that_is_odd_counts_as_not_said_and_the_others_stay() {
        let good = |delta: Value| {
            let chunk = read(&json!({ "model": "m", "choices": [{ "delta": delta, "finish_reason": "stop" }] }));
            (chunk.texts, chunk.finish, chunk.calls.len(), chunk.odd)
        };
        let text = vec!["hello".to_owned()];
        let stop = Some("stop".to_owned());
        for (members, odd) in [
            (json!({ "content": "hello", "tool_calls": null }), vec![]),
            (json!({ "content": "hello", "tool_calls": 7 }), vec!["tool_calls"]),
            (json!({ "content": "hello", "tool_calls": [null] }), vec!["tool_calls"]),
            (json!({ "content": [{ "type": "text", "text": "hel" }, "lo"] }), vec![]),
            (json!({ "content": ["hello", { "type": "image_url" }] }), vec!["content"]),
        ] {
            assert_eq!(good(members.clone()), (text.clone(), stop.clone(), 0, odd), "{members}");
        }
        assert_eq!(good(Value::Null), (Vec::new(), stop.clone(), 0, Vec::new()));
        assert_eq!(good(json!(7)), (Vec::new(), stop, 0, vec!["delta"]));
        assert_eq!(good(json!({ "content": 7 })).3, ["content"]);
        for (whole, odd) in [
            (json!({ "choices": null }), vec![]),
            (json!({ "choices": "x" }), vec!["choices"]),
            (json!({ "choices": [7] }), vec!["choices"]),
            (json!({ "model": 7, "error": null }), vec!["model"]),
        ] {
            assert_eq!(read(&whole), Chunk { odd, ..Chunk::default() }, "{whole}");
        }
    }

    #[test]
    fn what_is_told_of_tokens_and_the_end_is_kept_one_by_one() {
        for (usage, wanted, is_odd) in [
            (json!({ "prompt_tokens": 7, "completion_tokens": 8 }), (Some(7), Some(8)), false),
            (json!({ "prompt_tokens": 7, "completion_tokens": null }), (Some(7), None), false),
            (json!({ "prompt_tokens": "7", "completion_tokens": 8 }), (None, Some(8)), true),
            (json!({ "prompt_tokens": -7 }), (None, None), true),
            (json!({}), (None, None), false),
            (json!(null), (None, None), false),
            (json!(7), (None, None), true),
        ] {
            let chunk = read(&json!({ "usage": usage }));
            assert_eq!((chunk.input_tokens, chunk.output_tokens), wanted, "{usage}");
            assert_eq!(chunk.odd, if is_odd { vec!["usage"] } else { vec![] }, "{usage}");
        }
        for (reason, wanted) in [
            (json!(null), None),
            (json!(""), None),
            (json!(false), None),
            (json!("length"), Some("length")),
            (json!(7), Some(OTHER)),
        ] {
            let chunk = read(&json!({ "choices": [{ "finish_reason": reason }] }));
            assert_eq!(chunk.finish.as_deref(), wanted, "{reason}");
        }
    }

    #[test]
    fn an_error_is_told_in_its_words_and_not_without_end() {
        for (answer, wanted) in [
            (json!({ "error": "no room" }), "no room"),
            (json!({ "error": { "message": "no room", "code": "full" } }), "no room (full)"),
            (json!({ "error": { "message": "no room", "code": 7 } }), "no room (7)"),
            (json!({ "error": { "message": "no room", "code": null }, "choices": [] }), "no room"),
            (json!({ "error": { "type": "x" } }), r#"{"type":"x"}"#),
            (json!([{ "error": { "message": "no room" } }]), "no room"),
            (json!({ "object": "error", "message": "no room", "code": 400 }), "no room (400)"),
        ] {
            let said = Chunk::read(answer.to_string().as_bytes());
            assert_eq!(said, Err(Unread::Error(wanted.to_owned())), "{answer}");
        }
        let long = json!({ "error": "\u{e9}".repeat(ERROR_CHARS_MAX + 1) });
        let Err(Unread::Error(said)) = Chunk::read(long.to_string().as_bytes()) else { panic!("an error") };
        assert_eq!(said.chars().count(), ERROR_CHARS_MAX);
        for none in [json!({ "error": {} }), json!({ "error": "" }), json!({ "error": false })] {
            assert_eq!(read(&none), Chunk::default(), "{none}");
        }
        for no_chunk in ["{", "[]", "7", "[{}]"] {
            assert!(matches!(Chunk::read(no_chunk.as_bytes()), Err(Unread::Malformed(_))), "{no_chunk}");
        }
    }

    #[test]
    fn a_whole_completion_is_read_as_one_piece() {
        let whole = read(&json!({ "object": "chat.completion", "choices": [{
            "message": { "role": "assistant", "content": "hello", "tool_calls": [{ "id": "a", "function": { "name": "add" } }] },
            "finish_reason": "stop",
        }], "usage": { "prompt_tokens": 1, "completion_tokens": 2 } }));
        assert_eq!((whole.texts.as_slice(), whole.finish.as_deref()), (&["hello".to_owned()][..], Some("stop")));
        assert_eq!((whole.calls.len(), whole.output_tokens, whole.is_whole), (1, Some(2), true));
        let piece = read(&json!({ "choices": [{ "delta": { "content": "lo" }, "message": { "content": "hello" } }] }));
        assert_eq!((piece.texts.as_slice(), piece.is_whole), (&["lo".to_owned()][..], false));
    }

    #[test]
    fn half_a_character_a_bad_byte_and_a_number_that_json_does_not_have_spoil_no_piece() {
        for (piece, text) in [
            (&br#"{"choices":[{"delta":{"content":"a\ud83d"}}]}"#[..], "a\u{fffd}"),
            (b"{\"choices\":[{\"delta\":{\"content\":\"a\xf0\x9f\"}}]}", "a\u{fffd}"),
            (br#"{"choices":[{"delta":{"content":"a"},"logprobs":[{"logprob":-Infinity}]}]}"#, "a"),
        ] {
            let chunk = Chunk::read(piece).unwrap_or_else(|why| panic!("{why:?}"));
            assert_eq!(chunk.texts, [text], "{}", String::from_utf8_lossy(piece));
        }
    }
}

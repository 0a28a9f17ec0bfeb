//! The tool calls of an answer, put together from the pieces in which they come. Pure.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;

use crate::model::chat::{ChatToolCall, Function};
use crate::model::chunk::CallPiece;

/// Tool calls of one answer, and their bytes.
const CALLS_MAX: usize = 32;
const CALLS_BYTES_MAX: usize = 1 << 20;
/// Bytes of arguments that are neither an object nor a list, such as a text with one in it: they are read again for each piece.
const BARE_BYTES_MAX: usize = 4 << 10;

/// What is known of the tool calls of an answer while their pieces come.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Progress>,
    /// Which list of pieces came last, and where the last piece stood in it.
    list: u64,
    place: usize,
}

/// How far a call came.
#[derive(Debug, Default)]
struct Progress {
    /// The one that its pieces name.
    index: Option<u64>,
    /// The list that its last piece came in.
    list: u64,
    /// Those of its arguments.
    brackets: Brackets,
}

impl Progress {
    /// Whether the arguments are there to their end.
    fn is_whole(&self, function: &Function) -> bool {
        let is_value = || {
            let arguments = &function.arguments;
            arguments.len() <= BARE_BYTES_MAX && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
        };
        self.brackets.are_closed() || !self.brackets.has_opened && is_value()
    }
}

/// The brackets of a JSON text that were opened and not closed, as far as it is there: each piece is read once.
#[derive(Debug, Default)]
struct Brackets {
    depth: usize,
    has_opened: bool,
    in_text: bool,
    is_escaped: bool,
}

impl Brackets {
    fn read(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => {
                    self.depth += 1;
                    self.has_opened = true;
                }
                b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Whether an object or a list is there to its end.
    fn are_closed(&self) -> bool {
        self.has_opened && self.depth == 0
    }
}

impl Calls {
    /// Adds a piece to the call that it belongs to, or begins one.
    ///
    /// # Errors
    /// There are more calls, or bytes of them, than an answer may have.
    pub fn add(&mut self, calls: &mut Vec<ChatToolCall>, piece: CallPiece) -> Result<(), String> {
        if piece.place <= self.place {
            self.list += 1;
        }
        self.place = piece.place;
        let at = match self.place_of(calls, &piece) {
            Some(at) => at,
            None if calls.len() >= CALLS_MAX => return Err(format!("more than {CALLS_MAX} tool calls")),
            None => {
                calls.push(ChatToolCall { kind: "function", ..ChatToolCall::default() });
                self.all.push(Progress { index: piece.index, ..Progress::default() });
                calls.len() - 1
            }
        };
        let call = &mut calls[at];
        // Some repeat the id, or the name, with each piece, and some have another id for each piece.
        if call.id.is_empty() {
            call.id = piece.id;
        }
        if call.function.name != piece.name {
            call.function.name.push_str(&piece.name);
        }
        let progress = &mut self.all[at];
        progress.list = self.list;
        progress.brackets.read(piece.arguments.as_bytes());
        call.function.arguments.push_str(&piece.arguments);
        let length: usize =
            calls.iter().map(|call| call.id.len() + call.function.name.len() + call.function.arguments.len()).sum();
        if length > CALLS_BYTES_MAX {
            return Err(format!("tool calls of more than {CALLS_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// The call that a piece goes on with; none if it begins one.
    fn place_of(&self, calls: &[ChatToolCall], piece: &CallPiece) -> Option<usize> {
        let with_id = || calls.iter().rposition(|call| !piece.id.is_empty() && call.id == piece.id);
        let at = match piece.index {
            Some(_) => self.all.iter().rposition(|call| call.index == piece.index)?,
            None => match with_id() {
                Some(at) => return Some(at),
                // A whole list of calls, which need no index.
                None if piece.place > 0 => return None,
                None => calls.len().checked_sub(1)?,
            },
        };
        let call = &calls[at];
        let has_no_id = piece.id.is_empty() && call.id.is_empty();
        let is_other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        // After its arguments began, a call gets no more of its name. Without an index or an id, what comes after their end is
        // another call of the same tool. A name alone is none: some repeat it with a last piece, in which nothing else is.
        let is_next = || {
            (piece.index.is_none() || has_no_id) && !piece.arguments.is_empty() && self.all[at].is_whole(&call.function)
        };
        let is_other_name = !call.function.arguments.is_empty() && (piece.name != call.function.name || is_next());
        // In one list without ids, each is a call of its own, whatever index they have.
        let is_of_list = has_no_id && self.all[at].list == self.list;
        let begins = !piece.name.is_empty() && (is_other_id || is_other_name || is_of_list);
        if begins { with_id() } else { Some(at) }
    }
}

/// Gives each call without an id one that no other call of the conversation has, since its result goes back by it. So many
/// messages came before the answer.
pub(super) fn fill_ids(calls: &mut [ChatToolCall], messages: usize) {
    let taken: BTreeSet<String> = calls.iter().map(|call| call.id.clone()).collect();
    let ids = (0_usize..).map(|number| format!("call-{messages}-{number}"));
    let free = ids.filter(|id| !taken.contains(id));
    for (call, id) in calls.iter_mut().filter(|call| call.id.is_empty()).zip(free) {
        call.id = id;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::chunk::Chunk;

    /// The calls, as `id name arguments`, that come of these deltas.
    fn called(deltas: &[Value]) -> Vec<String> {
        let (mut calls, mut all) = (Calls::default(), Vec::new());
        for tool_calls in deltas {
            let chunk = json!({ "choices": [{ "delta": { "tool_calls": tool_calls } }] });
            for piece in Chunk::read(chunk.to_string().as_bytes()).expect("a piece").calls {
                calls.add(&mut all, piece).expect("there is room");
            }
        }
        all.iter().map(|call| format!("{} {} {}", call.id, call.function.name, call.function.arguments)).collect()
    }

    #[test]
    fn each_piece_is_of_the_call_that_it_means() {
        let call = |index: Value, id: Value, name: Value, arguments: Value| json!({ "index": index, "id": id, "function": { "name": name, "arguments": arguments } });
        let none = || Value::Null;
        let two: &[&str] = &["a add {}", "b sub {}"];
        for (deltas, wanted) in [
            // As it should be.
            (
                vec![
                    json!([call(json!(0), json!("a"), json!("add"), json!("{"))]),
                    json!([call(json!(0), none(), none(), json!("}"))]),
                ],
                &two[..1],
            ),
            // A list of whole calls without an index, and one after the other.
            (
                vec![json!([
                    call(none(), json!("a"), json!("add"), json!("{}")),
                    call(none(), json!("b"), json!("sub"), json!("{}"))
                ])],
                two,
            ),
            (
                vec![
                    json!([call(none(), json!("a"), json!("add"), json!("{}"))]),
                    json!([call(none(), json!("b"), json!("sub"), json!("{}"))]),
                ],
                two,
            ),
            // All of the index 0.
            (
                vec![json!([
                    call(json!(0), json!("a"), json!("add"), json!("{}")),
                    call(json!(0), json!("b"), json!("sub"), json!("{}"))
                ])],
                two,
            ),
            (
                vec![
                    json!([call(json!(0), json!("a"), json!("add"), json!("{}"))]),
                    json!([call(json!(0), json!("b"), json!("sub"), json!("{"))]),
                    json!([call(json!(0), none(), none(), json!("}"))]),
                ],
                two,
            ),
            // All of the index 0, and without an id: at once, one after the other, in pieces, and twice the same one.
            (
                vec![json!([
                    call(json!(0), none(), json!("add"), json!("{}")),
                    call(json!(0), json!(""), json!("sub"), json!("{}"))
                ])],
                &[" add {}", " sub {}"][..],
            ),
            (
                vec![
                    json!([call(json!(0), none(), json!("add"), json!("{}"))]),
                    json!([call(json!(0), none(), json!("sub"), json!("{"))]),
                    json!([call(json!(0), none(), json!("sub"), json!("}"))]),
                    json!([call(json!(0), none(), json!("sub"), json!(""))]),
                ],
                &[" add {}", " sub {}"][..],
            ),
            (
                vec![json!([
                    call(json!(0), json!(""), json!("add"), json!("{\"x\":1}")),
                    call(json!(0), json!(""), json!("add"), json!("{\"x\":2}"))
                ])],
                &[" add {\"x\":1}", " add {\"x\":2}"][..],
            ),
            // The arguments of both empty, and those that are no object.
            (
                vec![json!([
                    call(json!(0), none(), json!("add"), json!("")),
                    call(json!(0), none(), json!("sub"), json!(""))
                ])],
                &[" add ", " sub "][..],
            ),
            (
                vec![
                    json!([call(none(), none(), json!("add"), json!("null"))]),
                    json!([call(none(), none(), json!("add"), json!("\"{}\""))]),
                    json!([call(none(), none(), json!("add"), json!("1"))]),
                ],
                &[" add null", " add \"{}\"", " add 1"][..],
            ),
            // Interleaved with their names again, and without ids.
            (
                vec![
                    json!([call(json!(0), none(), json!("add"), json!("{"))]),
                    json!([
                        call(json!(1), none(), json!("sub"), json!("{}")),
                        call(json!(0), none(), json!("add"), json!("}"))
                    ]),
                ],
                &[" add {}", " sub {}"][..],
            ),
            // With an id, and then without.
            (
                vec![json!([
                    call(json!(0), json!("a"), json!("add"), json!("{}")),
                    call(json!(0), none(), json!("sub"), json!("{}"))
                ])],
                &["a add {}", " sub {}"][..],
            ),
            // Id and name again with each piece, or another id with each.
            (
                vec![
                    json!([call(json!(0), json!("a"), json!("add"), json!("{"))]),
                    json!([call(json!(0), json!("a"), json!("add"), json!("}"))]),
                ],
                &two[..1],
            ),
            (
                vec![
                    json!([call(json!(0), json!("a"), json!("add"), json!("{"))]),
                    json!([call(json!(0), json!("z"), none(), json!("}"))]),
                ],
                &two[..1],
            ),
            // From 1, with gaps, interleaved.
            (
                vec![
                    json!([
                        call(json!(1), json!("a"), json!("add"), json!("{")),
                        call(json!(9), json!("b"), json!("sub"), json!("{"))
                    ]),
                    json!([call(json!(1), none(), none(), json!("}")), call(json!(9), none(), none(), json!("}"))]),
                ],
                two,
            ),
            // The name in pieces, arguments as an object, an id that is a number, one call that is no list.
            (
                vec![
                    json!([call(json!(0), json!("a"), json!("a"), none())]),
                    json!([call(json!(0), none(), json!("dd"), json!({}))]),
                ],
                &two[..1],
            ),
            (vec![json!([call(none(), json!(7), json!("add"), json!({ "x": 1 }))])], &["7 add {\"x\":1}"][..]),
            (vec![call(json!("x"), json!("a"), json!("add"), json!("{}"))], &two[..1]),
            // Neither index nor id.
            (
                vec![
                    json!([call(none(), none(), json!("add"), json!("{}"))]),
                    json!([call(none(), none(), json!("sub"), json!("{}"))]),
                ],
                &[" add {}", " sub {}"][..],
            ),
            (
                vec![
                    json!([call(none(), none(), json!("add"), json!("{"))]),
                    json!([call(none(), none(), none(), json!("}"))]),
                ],
                &[" add {}"][..],
            ),
            (
                vec![
                    json!([call(none(), none(), json!("add"), json!("{}"))]),
                    json!([call(none(), none(), json!("add"), json!("{}"))]),
                ],
                &[" add {}", " add {}"][..],
            ),
            (vec![json!([{ "function": null }, { "function": 7 }])], &["  ", "  "][..]),
        ] {
            assert_eq!(called(&deltas), wanted, "{deltas:?}");
        }
    }

    #[test]
    fn calls_are_few_and_short() {
        let piece = |index: u64, arguments: String| CallPiece { index: Some(index), arguments, ..CallPiece::default() };
        let (mut calls, mut all) = (Calls::default(), Vec::new());
        for index in 0..CALLS_MAX as u64 {
            assert_eq!(calls.add(&mut all, piece(index, String::new())), Ok(()));
        }
        assert!(calls.add(&mut all, piece(u64::MAX, String::new())).is_err_and(|why| why.contains("32")));
        let long = calls.add(&mut all, piece(0, "x".repeat(CALLS_BYTES_MAX + 1)));
        assert!(long.is_err_and(|why| why.contains("bytes")));
    }

    #[test]
    fn arguments_are_whole_where_their_brackets_are_closed() {
        for (arguments, are_whole) in [
            ("{}", true),
            (" {\"a\": [1, {}]}\n", true),
            ("", false),
            ("{\"a\": [1", false),
            ("{\"a\": \"}\"", false),
            ("{\"a\": \"\\\"}\"", false),
            ("{\"a\": \"\\\\\"}", true),
            ("{} {", false),
        ] {
            for size in 1..=arguments.len().max(1) {
                let mut brackets = Brackets::default();
                arguments.as_bytes().chunks(size).for_each(|piece| brackets.read(piece));
                assert_eq!(brackets.are_closed(), are_whole, "{arguments}, {size} bytes at a time");
            }
        }
    }

    /// Each piece could be the first of another call: reading all arguments so far again would take hours.
    #[test]
    fn arguments_in_many_pieces_are_read_once() {
        let piece = |arguments: &str| CallPiece {
            name: "f".to_owned(),
            arguments: arguments.to_owned(),
            ..CallPiece::default()
        };
        let (mut calls, mut all) = (Calls::default(), Vec::new());
        assert_eq!(calls.add(&mut all, piece("[\"")), Ok(()));
        for _ in 0..1 << 18 {
            assert_eq!(calls.add(&mut all, piece("x")), Ok(()));
        }
        assert_eq!((all.len(), all[0].function.arguments.len()), (1, (1 << 18) + 2));
    }

    #[test]
    fn each_call_has_an_id_that_no_other_has() {
        let mut calls =
            ["", "call-4-0", "", "z"].map(|id| ChatToolCall { id: id.to_owned(), ..ChatToolCall::default() });
        fill_ids(&mut calls, 4);
        assert_eq!(calls.map(|call| call.id), ["call-4-1", "call-4-0", "call-4-2", "z"]);
    }
}

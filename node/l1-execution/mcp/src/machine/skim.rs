//! Finds out which request a message answers that is too long to be kept, as its bytes pass.

use serde_json::Value;

/// Bytes of a member's name, or of an id, that are looked at.
const WORD_BYTES_MAX: usize = 64;

/// A message that passes.
#[derive(Debug, Default)]
pub struct Skim {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// The text or number on the outermost level, as far as it passed.
    word: Vec<u8>,
    /// Of the member whose value passes.
    name: Vec<u8>,
    is_value: bool,
    id: Option<Value>,
    answers: bool,
    asks: bool,
    is_told: bool,
}

impl Skim {
    /// More of the message.
    pub fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_text { self.within(*byte) } else { self.between(*byte) }
        }
    }

    /// The id of the request that it answers, once it is known; it is told once.
    pub fn answered(&mut self) -> Option<Value> {
        let id = self.id.clone().filter(|_| self.answers && !self.asks && !self.is_told)?;
        self.is_told = true;
        Some(id)
    }

    fn within(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => {
                self.in_text = false;
                if self.depth == 1 {
                    self.text_ended();
                }
                return;
            }
            _ => {}
        }
        self.keep(byte);
    }

    fn text_ended(&mut self) {
        if !self.is_value {
            self.name = std::mem::take(&mut self.word);
        } else if self.name == b"id" {
            self.id = Some(Value::String(String::from_utf8_lossy(&self.word).into_owned()));
            self.word.clear();
        }
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_text = true;
                self.word.clear();
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.value_ended();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.is_value = true;
                self.word.clear();
                self.answers |= matches!(self.name.as_slice(), b"result" | b"error");
                self.asks |= self.name == b"method";
            }
            b',' => {
                self.value_ended();
                if self.depth == 1 {
                    self.is_value = false;
                }
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    /// A number has no end of its own.
    fn value_ended(&mut self) {
        if self.depth == 1 && self.is_value && self.name == b"id" && self.id.is_none() {
            self.id = serde_json::from_slice(&self.word).ok().filter(Value::is_i64);
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() < WORD_BYTES_MAX {
            self.word.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is answered by the whole text, whatever the pieces in which it passes.
    fn skimmed(text: &str) -> Option<Value> {
        let all: Vec<Option<Value>> = [1, 3, text.len().max(1)]
            .map(|size| {
                let mut skim = Skim::default();
                text.as_bytes().chunks(size).for_each(|piece| skim.pass(piece));
                let answered = skim.answered();
                assert_eq!(skim.answered(), None, "it is told once");
                answered
            })
            .to_vec();
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
        all[0].clone()
    }

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        let inner = r#"{"id":9,"text":"a \"id\":8, \\","list":[{"id":7},1,"}"]}"#;
        for (text, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":5,"result":{inner}}}"#), json!(5)),
            (format!(r#"{{"result" : {inner}, "jsonrpc":"2.0", "id" : 5 }}"#), json!(5)),
            (format!(r#"{{"id":"a-5","error":{inner}}}"#), json!("a-5")),
            (format!(r#"{{"error":{inner},"id":-1}}"#), json!(-1)),
            (format!(r#"{{"x":"id","id":12,"y":"result","result":{inner}}}"#), json!(12)),
        ] {
            assert_eq!(skimmed(&text), Some(id), "{text}");
        }
        // Known before the end, if it stands first.
        assert_eq!(skimmed(r#"{"id":5,"result":{"data":"AAAA"#), Some(json!(5)));
    }

    #[test]
    fn what_answers_nothing_is_not_taken_for_an_answer() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"id":5,"result":1}}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"result":"AAAA"}}"#,
            r#"{"result":{"id":5}}"#,
            r#"{"result":{},"id":null}"#,
            r#"{"result":"id","x":5}"#,
            r#"[{"id":5,"result":{}}]"#,
            "AAAA",
            "",
        ] {
            assert_eq!(skimmed(text), None, "{text}");
        }
    }
}

//! Texts that the agent of a turn is not shown. It is given a handle in place of each, and may write the handle where the text is
//! wanted; the label of the text counts there, and not before.

use std::collections::BTreeMap;

use althing_protocol::{Label, digest, hex};
use serde_json::{Value, json};

/// Bytes of all hidden texts of one turn.
pub(crate) const HIDDEN_BYTES_MAX: usize = 16 << 20;
/// How a handle begins; hexadecimal digits and a bracket follow.
const MARK: &str = "[hidden:";
/// Digits of a handle.
const DIGITS: usize = 16;

/// Why the arguments of a call stand for no texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandleError {
    /// No text of this turn has that handle.
    #[error("{0} is the handle of no text of this turn; write a handle as it was given")]
    Unknown(String),
    /// The texts are too long.
    #[error("with the texts that handles in them stand for they have more than {0} bytes; name fewer of them")]
    TooLong(usize),
}

/// The hidden texts of a turn, by their handles. The same text has the same handle, also when its turn goes on after a restart.
#[derive(Debug, Default)]
pub(crate) struct HiddenTexts {
    texts: BTreeMap<String, (String, Label)>,
    bytes: usize,
}

impl HiddenTexts {
    /// Keeps a text; gives its handle, or none if there is no room.
    fn hide(&mut self, text: String, label: Label) -> Option<String> {
        let handle = format!("{MARK}{}]", &hex(&digest(text.as_bytes()))[..DIGITS]);
        match self.texts.get_mut(&handle) {
            Some((_, known)) => *known = known.join(label),
            None if self.bytes + text.len() > HIDDEN_BYTES_MAX => return None,
            None => {
                self.bytes += text.len();
                self.texts.insert(handle.clone(), (text, label));
            }
        }
        Some(handle)
    }

    /// What the agent is given in place of a tool's result (MCP's `CallToolResult`); none if there is no room.
    pub fn hide_result(&mut self, result: &Value, label: Label) -> Option<Value> {
        let parts = result["content"].as_array();
        let texts = parts.and_then(|parts| parts.iter().map(|part| part["text"].as_str()).collect::<Option<Vec<_>>>());
        let text = texts.map_or_else(|| result.to_string(), |texts| texts.join("\n"));
        let bytes = text.len();
        let handle = self.hide(text, label)?;
        let told = format!(
            "{handle} stands for a text of {bytes} bytes that is not shown. Write the handle where the text is wanted."
        );
        Some(json!({ "content": [{ "type": "text", "text": told }], "isError": result["isError"] == true }))
    }

    /// Arguments with the texts in place of their handles, and the label of these texts; `most` bytes of texts at most. `hides`: a
    /// tool of the agent has its texts hidden, so that a handle of an earlier turn may be in them, which stands for nothing here.
    ///
    /// # Errors
    /// [`HandleError`].
    pub fn fill(&self, arguments: Value, most: usize, hides: bool) -> Result<(Value, Option<Label>), HandleError> {
        if self.texts.is_empty() && !hides {
            return Ok((arguments, None));
        }
        let mut filler = Filler { texts: &self.texts, most, used: 0, label: None };
        let filled = filler.value(arguments)?;
        Ok((filled, filler.label))
    }
}

/// Arguments that are being filled.
struct Filler<'a> {
    texts: &'a BTreeMap<String, (String, Label)>,
    most: usize,
    /// Bytes of texts so far.
    used: usize,
    label: Option<Label>,
}

impl Filler<'_> {
    fn value(&mut self, value: Value) -> Result<Value, HandleError> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(&text)?),
            Value::Array(all) => {
                Value::Array(all.into_iter().map(|value| self.value(value)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let filled = members.into_iter().map(|(name, value)| -> Result<_, HandleError> {
                    let value = self.value(value)?;
                    Ok((name, value))
                });
                Value::Object(filled.collect::<Result<_, _>>()?)
            }
            other => other,
        })
    }

    fn text(&mut self, text: &str) -> Result<String, HandleError> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(MARK) {
            let (before, from) = rest.split_at(at);
            filled.push_str(before);
            let Some(handle) = handle(from) else {
                filled.push_str(MARK);
                rest = &from[MARK.len()..];
                continue;
            };
            let (hidden, label) = self.texts.get(handle).ok_or_else(|| HandleError::Unknown(handle.to_owned()))?;
            self.used += hidden.len();
            if self.used > self.most {
                return Err(HandleError::TooLong(self.most));
            }
            self.label = Label::of_both(self.label, Some(*label));
            filled.push_str(hidden);
            rest = &from[handle.len()..];
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// The handle with which a text begins, if it begins with one.
fn handle(text: &str) -> Option<&str> {
    let digits = text.get(MARK.len()..MARK.len() + DIGITS)?;
    let is_handle = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    text.get(..=MARK.len() + DIGITS).filter(|handle| is_handle && handle.ends_with(']'))
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::DataLabel;

    use super::*;

    const STRICT: Label = Label { level: DataLabel::Restricted, trusted: false };

    fn result(text: &str) -> Value {
        json!({ "content": [{ "type": "text", "text": text }], "structuredContent": { "text": text } })
    }

    /// The handle in what an agent is given.
    fn given(hidden: &mut HiddenTexts, text: &str, label: Label) -> String {
        let told = hidden.hide_result(&result(text), label).expect("there is room");
        assert!(!told.to_string().contains(text), "{told}");
        let told = told["content"][0]["text"].as_str().expect("a text").to_owned();
        handle(&told).expect("it begins with a handle").to_owned()
    }

    #[test]
    fn a_handle_stands_for_its_text_wherever_it_is_written_and_brings_its_label() {
        let mut hidden = HiddenTexts::default();
        let one = given(&mut hidden, "the price is ninety", STRICT);
        let other = given(&mut hidden, "open to all", Label::of_trusted(DataLabel::Public));
        let arguments = json!({ "to": "x", "parts": [format!("a {one} b {one}"), 7, { "deep": other.clone() }] });
        let parts = json!(["a the price is ninety b the price is ninety", 7, { "deep": "open to all" }]);
        let filled = json!({ "to": "x", "parts": parts });
        assert_eq!(hidden.fill(arguments, 1_000, true), Ok((filled, Some(STRICT))));
        let public = hidden.fill(json!({ "text": other }), 1_000, true).expect("it is known");
        assert_eq!(public.1, Some(Label::of_trusted(DataLabel::Public)));
        assert_eq!(hidden.fill(json!({ "text": "none" }), 1_000, true), Ok((json!({ "text": "none" }), None)));
        // The same text again has the same handle, and the label of both.
        assert_eq!(given(&mut hidden, "open to all", STRICT), other);
        assert_eq!(hidden.fill(json!([other]), 1_000, true).expect("it is known").1, Some(STRICT));
    }

    #[test]
    fn what_is_no_handle_stays_and_one_that_nobody_gave_is_refused() {
        let mut hidden = HiddenTexts::default();
        let one = given(&mut hidden, "word", STRICT);
        for text in ["[hidden:", "[hidden:]", "[hidden:0123]", "[hidden:0123456789ABCDEF]", "[hidden:ü23456789abcdef]"]
        {
            assert_eq!(hidden.fill(json!([text]), 1_000, true), Ok((json!([text]), None)), "{text}");
        }
        let invented = "[hidden:0123456789abcdef]";
        assert_eq!(hidden.fill(json!([invented]), 1_000, true), Err(HandleError::Unknown(invented.to_owned())));
        let twice = json!([format!("[hidden:{one}{one}")]);
        assert_eq!(hidden.fill(twice.clone(), 8, true), Ok((json!(["[hidden:wordword"]), Some(STRICT))));
        assert_eq!(hidden.fill(twice, 7, true), Err(HandleError::TooLong(7)));
    }

    #[test]
    fn what_is_no_text_is_hidden_whole_and_a_turn_hides_so_much_and_no_more() {
        let mut hidden = HiddenTexts::default();
        let picture = json!({ "content": [{ "type": "image", "data": "AAAA" }], "isError": true });
        let told = hidden.hide_result(&picture, STRICT).expect("there is room");
        assert!(!told.to_string().contains("AAAA") && told["isError"] == true, "{told}");
        let long = "x".repeat(HIDDEN_BYTES_MAX);
        assert_eq!(hidden.hide_result(&result(&long), STRICT), None);
        given(&mut hidden, "short", STRICT);
    }
}

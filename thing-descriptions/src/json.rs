//! A bounded parser for untrusted JSON.
//!
//! `serde_json::Value` alone hides three things that matter here: duplicate members (the last one wins silently), where nesting
//! is too deep, and its magic member name for raw values, by which a stranger could have a string parsed a second time. This
//! parser builds the same value (the last member wins, order kept) and reports all three.

use std::fmt;
use std::io;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::hidden::marked;

/// The longest description in bytes: 1 MiB of a message, less 128 KiB for signature, hosting grant and key log in the same
/// message.
pub const TD_BYTES_MAX: usize = (1 << 20) - 128 * 1024;
/// The deepest nesting of arrays and objects that is read; the outermost object is level 1.
pub const DEPTH_MAX: usize = 32;
/// The duplicate members that are reported, and the names of affordances; more would not help a reader.
const DUPLICATES_MAX: usize = 64;

/// Why a text was not read as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is longer than what is read: [`TD_BYTES_MAX`] for a description, [`crate::CARD_BYTES_MAX`] for a card.
    #[error("the text has {len} bytes, the limit is {max}: shorten it")]
    TooLarge {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// Arrays and objects are nested more than [`DEPTH_MAX`] levels.
    #[error("nesting at {pointer} is deeper than {max} levels: flatten it")]
    TooDeep {
        /// JSON pointer of the first value that is too deep.
        pointer: String,
        /// The limit in levels.
        max: usize,
    },
    /// The text is not JSON (RFC 8259).
    #[error("not JSON at line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// What was found.
        message: String,
    },
}

/// A JSON text, read once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scanned {
    /// The value; of members with the same name, the last.
    pub value: Value,
    /// JSON pointers of the members that appear more than once, each once: in the order of the text, except that names
    /// of affordances (in `/properties`, `/actions`, `/events`) come last.
    pub duplicates: Vec<String>,
    /// Whether `null` stands for something that is nested too deeply; of [`scan_shallow`] only.
    pub is_cut: bool,
}

/// Reads `bytes` within `bytes_max` and [`DEPTH_MAX`].
pub(crate) fn scan(bytes: &[u8], bytes_max: usize) -> Result<Scanned, JsonError> {
    scanned(bytes, bytes_max, Notes::default())
}

/// As [`scan`], but what is nested too deeply spoils nothing else: for the member of the outermost object, the affordance or the
/// entry of the outermost list that holds it, `null` is read.
pub(crate) fn scan_shallow(bytes: &[u8], bytes_max: usize) -> Result<Scanned, JsonError> {
    scanned(bytes, bytes_max, Notes { is_shallow: true, ..Notes::default() })
}

/// Reads JSON that a stranger wrote, of at most `bytes_max` bytes: a Thing Description, or a list of them. Where more than
/// [`DEPTH_MAX`] levels are nested, `null` is read for the member, the affordance or the entry that holds them.
///
/// # Errors
/// It is too long, or no JSON.
pub fn shallow_json(bytes: &[u8], bytes_max: usize) -> Result<Value, JsonError> {
    scan_shallow(bytes, bytes_max).map(|scanned| scanned.value)
}

fn scanned(bytes: &[u8], bytes_max: usize, mut notes: Notes) -> Result<Scanned, JsonError> {
    if bytes.len() > bytes_max {
        return Err(JsonError::TooLarge { len: bytes.len(), max: bytes_max });
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { notes: &mut notes, depth: 0, place: Place::Root };
    let read = seed.deserialize(&mut reader).and_then(|v| reader.end().map(|()| v));
    match (read, notes.too_deep) {
        (Ok(value), _) => {
            let mut duplicates = Vec::new();
            for pointer in notes.members.into_iter().chain(notes.affordances) {
                if !duplicates.contains(&pointer) {
                    duplicates.push(pointer);
                }
            }
            Ok(Scanned { value, duplicates, is_cut: notes.is_cut })
        }
        (Err(_), Some(pointer)) => Err(JsonError::TooDeep { pointer, max: DEPTH_MAX }),
        (Err(e), None) => Err(syntax(&e)),
    }
}

fn syntax(e: &serde_json::Error) -> JsonError {
    let text = e.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(m, _)| m).to_owned();
    JsonError::Syntax { line: e.line(), column: e.column(), message }
}

/// One more reference token on a JSON pointer, escaped (RFC 6901 §3).
pub(crate) fn join(pointer: &str, token: impl fmt::Display) -> String {
    let token = token.to_string();
    let escaped = if token.contains(['~', '/']) { token.replace('~', "~0").replace('/', "~1") } else { token };
    format!("{pointer}/{escaped}")
}

/// The start of a text, for messages: at most `chars_max` characters, control characters made visible.
pub(crate) fn excerpt(text: &str, chars_max: usize) -> String {
    let mut out: String = marked(text).take(chars_max).flat_map(visible).collect();
    if text.chars().nth(chars_max).is_some() {
        out.push('…');
    }
    out
}

fn visible((c, is_seen): (char, bool)) -> impl Iterator<Item = char> {
    let hidden = c.is_control() || !is_seen;
    let plain = (!hidden).then_some(c);
    let escaped = hidden.then(|| c.escape_unicode());
    plain.into_iter().chain(escaped.into_iter().flatten())
}

/// The start of a value's JSON, for messages, without serialising all of a large value.
pub(crate) fn excerpt_value(value: &Value, chars_max: usize) -> String {
    struct Start(Vec<u8>, usize);
    impl io::Write for Start {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            if self.0.len() > self.1 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.0.extend_from_slice(&part[..part.len().min(self.1)]);
            Ok(part.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut start = Start(Vec::new(), chars_max.saturating_mul(4));
    // The only error is that the writer is full.
    let _ = serde_json::to_writer(&mut start, value);
    excerpt(&String::from_utf8_lossy(&start.0).replace('\u{FFFD}', ""), chars_max)
}

/// How many bytes the JSON of a value has, which is not written for that.
pub(crate) fn written_length(value: &Value) -> usize {
    // The brackets, and what stands between so many.
    let marks = |items: usize| 2 + items.saturating_sub(1);
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text_length(text),
        Value::Array(items) => marks(items.len()) + items.iter().map(written_length).sum::<usize>(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| text_length(name) + 1 + written_length(value);
            marks(members.len()) + members.iter().map(member).sum::<usize>()
        }
    }
}

/// The bytes of a text with its quotation marks, escaped as serde_json does it.
fn text_length(text: &str) -> usize {
    let is_escaped = |byte: &&u8| **byte < 0x20 || **byte == b'"' || **byte == b'\\';
    // Most texts have none of these, and they are counted many bytes at once.
    if text.as_bytes().iter().filter(is_escaped).count() == 0 {
        return text.len() + 2;
    }
    let more = |byte: u8| match byte {
        b'"' | b'\\' | 8 | b'\t' | b'\n' | 12 | b'\r' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + 2 + text.bytes().map(more).sum::<usize>()
}

/// What was noticed, as pointers from the value that is being read: each enclosing value prepends its token when it is
/// complete, so that a text without findings costs nothing.
#[derive(Default)]
struct Notes {
    members: Vec<String>,
    affordances: Vec<String>,
    too_deep: Option<String>,
    /// What is too deep is left out, with what holds it.
    is_shallow: bool,
    /// Something in the value that is being read was left out.
    is_cutting: bool,
    /// Something was left out.
    is_cut: bool,
}

impl Notes {
    /// The value, or `null` if something in it was left out.
    fn whole(&mut self, value: Value) -> Value {
        if std::mem::take(&mut self.is_cutting) { Value::Null } else { value }
    }

    fn lens(&self) -> (usize, usize) {
        (self.members.len(), self.affordances.len())
    }

    /// Prepends `token` to what was noticed after `lens`.
    fn within(&mut self, (members, affordances): (usize, usize), token: impl fmt::Display + Copy) {
        let noticed = self.members.iter_mut().skip(members).chain(self.affordances.iter_mut().skip(affordances));
        for pointer in noticed.chain(&mut self.too_deep) {
            *pointer = join("", token) + pointer;
        }
    }

    fn duplicate(&mut self, place: Place, name: &str) {
        let list = if place == Place::Affordances { &mut self.affordances } else { &mut self.members };
        let pointer = join("", name);
        if list.len() < DUPLICATES_MAX && !list.contains(&pointer) {
            list.push(pointer);
        }
    }
}

/// The position of an object, which decides what a duplicate member means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Affordances,
    /// The descriptions of a list.
    Things,
    Elsewhere,
}

impl Place {
    fn of_member(self, name: &str) -> Place {
        match (self, name) {
            (Place::Root, "properties" | "actions" | "events" | "securityDefinitions") => Place::Affordances,
            (Place::Root, "members") => Place::Things,
            _ => Place::Elsewhere,
        }
    }
}

struct Seed<'n> {
    notes: &'n mut Notes,
    depth: usize,
    place: Place,
}

impl Seed<'_> {
    /// The level of what is within; none if that is not read.
    fn deeper<E: serde::de::Error>(&mut self) -> Result<Option<usize>, E> {
        if self.depth < DEPTH_MAX {
            return Ok(Some(self.depth + 1));
        }
        if self.notes.is_shallow {
            (self.notes.is_cutting, self.notes.is_cut) = (true, true);
            return Ok(None);
        }
        self.notes.too_deep = Some(String::new());
        Err(E::custom("nested too deeply"))
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let Some(depth) = self.deeper()? else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        };
        let is_of_things = matches!(self.place, Place::Root | Place::Things);
        let mut items = Vec::new();
        loop {
            let lens = self.notes.lens();
            let item = seq.next_element_seed(Seed { notes: self.notes, depth, place: Place::Elsewhere });
            self.notes.within(lens, items.len());
            match item? {
                Some(item) if is_of_things => items.push(self.notes.whole(item)),
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let Some(depth) = self.deeper()? else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        };
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.contains_key(&name) {
                self.notes.duplicate(self.place, &name);
            }
            let lens = self.notes.lens();
            let value = map.next_value_seed(Seed { notes: self.notes, depth, place: self.place.of_member(&name) });
            self.notes.within(lens, &name);
            let value = match self.place {
                Place::Root | Place::Affordances => self.notes.whole(value?),
                Place::Things | Place::Elsewhere => value?,
            };
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scan(bytes: &[u8]) -> Result<Scanned, JsonError> {
        super::scan(bytes, TD_BYTES_MAX)
    }

    #[test]
    fn duplicate_members_are_named_by_pointer_and_the_last_one_wins() {
        let scanned = scan(br#"{"a":1,"b":{"x/y":1,"x/y":2,"x/y":3},"a":[{"z":0,"z":0}]}"#).expect("is JSON");
        assert_eq!(scanned.duplicates, ["/b/x~1y", "/a", "/a/0/z"]);
        assert_eq!(scanned.value, json!({"a": [{"z": 0}], "b": {"x/y": 3}}));
    }

    #[test]
    fn names_of_affordances_are_remembered_however_many_other_members_are_repeated() {
        let many: String = (0..200).map(|n| format!("\"{n}\":0,\"{n}\":0,")).collect();
        let text = format!("{{{many}\"actions\":{{\"a\":1,\"a\":2}}}}");
        let scanned = scan(text.as_bytes()).expect("is JSON");
        assert_eq!(scanned.duplicates.len(), DUPLICATES_MAX + 1);
        assert_eq!(scanned.duplicates.last().map(String::as_str), Some("/actions/a"));
    }

    #[test]
    fn nesting_stops_at_the_limit() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(scan(nested(DEPTH_MAX).as_bytes()).is_ok());
        let refused = scan(nested(DEPTH_MAX + 1).as_bytes());
        assert_eq!(refused, Err(JsonError::TooDeep { pointer: "/0".repeat(DEPTH_MAX), max: DEPTH_MAX }));
        assert!(matches!(scan("[".repeat(1 << 19).as_bytes()), Err(JsonError::TooDeep { .. })));
    }

    #[test]
    fn what_is_too_deep_spoils_nothing_beside_it() {
        let deep = format!("{}{}", "[{\"a\":".repeat(10_000), "}]".repeat(10_000)).replace("\"a\":}", "\"a\":1}");
        let text = format!(r#"{{"x":{deep},"actions":{{"a":{{"b":{deep}}},"c":{{"d":[1]}}}},"y":[2]}}"#);
        let scanned = scan_shallow(text.as_bytes(), text.len()).expect("is JSON");
        assert_eq!(scanned.value, json!({ "x": null, "actions": { "a": null, "c": { "d": [1] } }, "y": [2] }));
        assert!(scanned.is_cut && !scan_shallow(b"[[1]]", 9).expect("is JSON").is_cut);
        for list in [format!("[{{\"t\":1}},{deep},2]"), format!("[{deep},[{deep}],[[3]]]")] {
            let Ok(Value::Array(items)) = shallow_json(list.as_bytes(), list.len()) else { panic!("a list") };
            assert!(items.len() == 3 && items[1].is_null() && !items[2].is_null());
        }
        let page = format!("{{\"members\":[{deep},4]}}");
        assert_eq!(shallow_json(page.as_bytes(), page.len()), Ok(json!({ "members": [null, 4] })));
        for text in ["[".repeat(100), format!("{}nul{}", "[".repeat(50), "]".repeat(50))] {
            assert!(matches!(shallow_json(text.as_bytes(), text.len()), Err(JsonError::Syntax { .. })));
        }
    }

    #[test]
    fn size_stops_at_the_limit() {
        let text = vec![b' '; TD_BYTES_MAX + 1];
        assert_eq!(scan(&text), Err(JsonError::TooLarge { len: TD_BYTES_MAX + 1, max: TD_BYTES_MAX }));
    }

    #[test]
    fn the_length_of_json_is_known_before_it_is_written() {
        let every: String = (0..=0x100u32).filter_map(char::from_u32).collect();
        for value in [
            json!(null),
            json!([true, false, [], {}]),
            json!([0, -1, u64::MAX, i64::MIN, 1.5, 1e300, -2.5e-7]),
            json!({ "": "", "a \"quoted\" \\ name\n": every, "plain": "x".repeat(9_000), "é": ["日本", "\u{7f}"] }),
        ] {
            assert_eq!(written_length(&value), value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn syntax_errors_say_where() {
        assert!(matches!(scan(b"{\n\"a\" 1}"), Err(JsonError::Syntax { line: 2, .. })));
        for text in [&b""[..], b"{} {}", b"nul", b"1e999", b"\xff", b"\"\xff\"", b"{\"a\":}", b"[1,]"] {
            assert!(matches!(scan(text), Err(JsonError::Syntax { .. })), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn the_magic_member_of_serde_json_is_an_ordinary_member() {
        let text = br#"{"$serde_json::private::RawValue":"{\"a\":1}"}"#;
        let scanned = scan(text).expect("is JSON");
        assert_eq!(scanned.value["$serde_json::private::RawValue"], json!("{\"a\":1}"));
    }
}

//! Reads some members of a JSON object, and skips the others.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The wanted members of an object; none if these bytes are none.
pub fn read(bytes: &[u8], wanted: &[String]) -> Option<Map<String, Value>> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let part = reader.deserialize_map(Wanted(wanted)).ok()?;
    reader.end().ok()?;
    Some(part)
}

struct Wanted<'a>(&'a [String]);

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Map<String, Value>, A::Error> {
        let mut part = Map::new();
        while let Some(name) = members.next_key_seed(Name(self.0))? {
            match name {
                Some(name) => {
                    part.insert(name.clone(), members.next_value()?);
                }
                None => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(part)
    }
}

/// Which of the wanted names it is, if any.
struct Name<'a>(&'a [String]);

impl<'de, 'a> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<&'a String>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<&'a String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|wanted| *wanted == name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wanted_members_are_read_however_their_names_are_written() {
        let wanted = ["a".to_owned(), "é\"".to_owned()];
        let read = |text: &str| read(text.as_bytes(), &wanted).map(Value::Object);
        assert_eq!(
            read(" {\"b\":[{}],\"\\u0061\":{\"c\":1.0},\"\\u00e9\\\"\":null} "),
            Some(json!({ "a": { "c": 1.0 }, "é\"": null }))
        );
        assert_eq!(read("{}"), Some(json!({})));
        for wrong in ["", "[]", "{\"b\":}", "{\"a\":1}}"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}

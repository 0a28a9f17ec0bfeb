//! JSON as all readers understand it: a name stands in an object once. Pure.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The value that a text is, if it is JSON that all readers understand alike. Its parser bounds its depth.
///
/// # Errors
/// It is no JSON, or a name stands twice in an object of it; in words that quote nothing of it.
pub fn strict(text: &str) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Data => format!("a name stands twice in an object, at {place}"),
            serde_json::error::Category::Eof => format!("it ends in the middle of JSON, at {place}"),
            _ => format!("it is no JSON, at {place}"),
        }
    })
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("no number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name stands twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sound_json_is_what_it_is() {
        for value in [json!(null), json!(-3), json!(2.5), json!("x"), json!([1, [true]]), json!({ "a": { "b": [{}] } })]
        {
            assert_eq!(strict(&value.to_string()), Ok(value.clone()));
            assert_eq!(strict(&format!(" {value}\n")), Ok(value));
        }
    }

    #[test]
    fn what_readers_read_differently_is_refused() {
        let cases = [
            (r#"{"a":1,"a":2}"#, "stands twice"),
            (r#"[{"a":{"b":1,"b":1}}]"#, "stands twice"),
            (r#"{"a":1"#, "in the middle"),
            ("", "in the middle"),
            ("{} {}", "no JSON"),
            ("```json\n{}\n```", "no JSON"),
            ("NaN", "no JSON"),
        ];
        for (text, why) in cases {
            let refused = strict(text).expect_err("it is refused");
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(strict(&"[".repeat(100_000)).is_err(), "its depth is bounded");
    }
}

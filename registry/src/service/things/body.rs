//! Descriptions of Things as bytes: what was sent, and how it is given back.

use althing_td::{Description, Report};
use chrono::{DateTime, SecondsFormat};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ThingError;
use crate::machine::things::Thing;

/// A valid description, as it was sent.
pub struct Sent {
    td: Description,
    /// How long it is to stay, seconds.
    pub ttl_s: Option<u64>,
    /// When it is to end, Unix milliseconds.
    pub expires_ms: Option<u64>,
}

/// The members that a directory reads, where they stand in the text. A member that is there twice is refused: readers would
/// differ on which one counts.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    registration: Option<&'a RawValue>,
}

impl Sent {
    /// Reads a description that somebody sent.
    ///
    /// # Errors
    /// [`ThingError`]: it is not valid.
    pub fn read(bytes: &[u8]) -> Result<Sent, ThingError> {
        let td = Description::parse(bytes).map_err(|error| ThingError::Invalid(error.report().clone()))?;
        Members::of(bytes).map_err(|error| ThingError::Twice(error.to_string()))?;
        let (mut ttl_s, mut expires_ms) = (None, None);
        match td.value().get("registration") {
            None => {}
            Some(Value::Object(registration)) => {
                ttl_s = registration.get("ttl").map(ttl).transpose()?;
                expires_ms = registration.get("expires").map(expires).transpose()?;
            }
            Some(_) => return Err(ThingError::Registration("`registration` is an object".to_owned())),
        }
        Ok(Sent { td, ttl_s, expires_ms })
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.td.bytes().to_vec()
    }

    /// The id in it.
    pub fn id(&self) -> Option<&str> {
        self.td.id()
    }

    /// Its title.
    pub fn title(&self) -> &str {
        self.td.title()
    }
}

impl<'a> Members<'a> {
    fn of(bytes: &'a [u8]) -> Result<Members<'a>, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

fn ttl(value: &Value) -> Result<u64, ThingError> {
    let wrong = || ThingError::Registration("`registration.ttl` is a number of seconds".to_owned());
    // A number with a fraction is one too: what is there is whole seconds.
    let whole = value.as_u64().or_else(|| value.as_f64().filter(|it| *it >= 1.0 && *it < 1e12).map(|it| it as u64));
    whole.ok_or_else(wrong)
}

fn expires(value: &Value) -> Result<u64, ThingError> {
    let wrong =
        || ThingError::Registration("`registration.expires` is a time, such as 2030-01-31T12:00:00Z".to_owned());
    let text = value.as_str().ok_or_else(wrong)?;
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| wrong())?;
    // A time before 1970 is over too.
    Ok(u64::try_from(time.timestamp_millis()).unwrap_or(0))
}

/// A time as RFC 3339 has it.
pub fn time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::UNIX_EPOCH);
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// What a directory says of a registration.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
    /// When it was changed last.
    pub modified_ms: u64,
    /// How long it stays, seconds.
    pub ttl_s: Option<u64>,
    /// When it ends.
    pub expires_ms: Option<u64>,
}

impl Registration {
    /// Of a Thing.
    pub fn of(thing: &Thing) -> Registration {
        Registration {
            created_ms: thing.created_ms,
            modified_ms: thing.written.at_ms,
            ttl_s: thing.written.ttl_s,
            expires_ms: thing.written.expires_ms,
        }
    }

    fn value(self, now_ms: u64) -> Value {
        let mut value = json!({ "created": time(self.created_ms), "modified": time(self.modified_ms) });
        if let Some(end) = self.expires_ms {
            value["expires"] = json!(time(end));
        }
        if let Some(ttl) = self.ttl_s {
            value["ttl"] = json!(ttl);
        }
        value["retrieved"] = json!(time(now_ms));
        value
    }
}

/// A description as the directory gives it: the bytes that were sent, with its own `registration`, and with the id that the
/// directory gave, if it gave one. None if the bytes are none that were accepted.
pub fn shown(bytes: &[u8], id: &str, registration: Registration, now_ms: u64) -> Option<Vec<u8>> {
    let members = Members::of(bytes).ok()?;
    let registration = registration.value(now_ms).to_string();
    let mut out = Vec::with_capacity(bytes.len() + registration.len() + 64);
    match members.registration {
        Some(sent) => {
            let start = sent.get().as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
            out.extend(bytes.get(..start)?);
            out.extend(registration.bytes());
            out.extend(bytes.get(start + sent.get().len()..)?);
        }
        None => {
            let end = bytes.iter().rposition(|byte| *byte == b'}')?;
            out.extend(&bytes[..end]);
            out.extend(b",\"registration\":");
            out.extend(registration.bytes());
            out.extend(&bytes[end..]);
        }
    }
    if members.id.is_none() {
        let start = out.iter().position(|byte| *byte == b'{')? + 1;
        let member = format!("\"id\":{},", json!(id));
        out.splice(start..start, member.bytes());
    }
    Some(out)
}

/// What a merge patch (RFC 7396) makes of a description.
///
/// # Errors
/// [`ThingError`]: it is no patch.
pub fn patched(bytes: &[u8], patch: &[u8]) -> Result<Vec<u8>, ThingError> {
    althing_td::no_duplicates(patch).map_err(ThingError::Invalid)?;
    let patch: Value = serde_json::from_slice(patch).map_err(|error| ThingError::Patch(error.to_string()))?;
    if !patch.is_object() {
        return Err(ThingError::Patch("it is no object".to_owned()));
    }
    let mut value: Value = serde_json::from_slice(bytes).map_err(|error| ThingError::Patch(error.to_string()))?;
    merge(&mut value, patch);
    Ok(value.to_string().into_bytes())
}

/// It goes no deeper than the patch, whose depth is bounded.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            members.shift_remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// The merge patch that makes `new` of `old`; none if no patch can say it (RFC 7396 cannot set a member to null).
pub fn difference(old: &Value, new: &Value) -> Map<String, Value> {
    let mut patch = Map::new();
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return patch };
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before) if before.is_object() && value.is_object() => {
                patch.insert(name.clone(), Value::Object(difference(before, value)));
            }
            _ => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    patch
}

/// The report of one problem.
pub fn report(errors: &Report) -> Vec<Value> {
    errors
        .errors()
        .map(|one| json!({ "field": one.pointer, "description": format!("{}. {}", one.message, one.remedy) }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRATION: Registration =
        Registration { created_ms: 0, modified_ms: 1_000, ttl_s: Some(60), expires_ms: Some(61_000) };

    fn text(bytes: &[u8], id: &str) -> String {
        String::from_utf8(shown(bytes, id, REGISTRATION, 2_000).expect("an object")).expect("text")
    }

    #[test]
    fn only_the_registration_differs_from_what_was_sent() {
        let ours = "{\"created\":\"1970-01-01T00:00:00.000Z\",\"modified\":\"1970-01-01T00:00:01.000Z\",\
                    \"expires\":\"1970-01-01T00:01:01.000Z\",\"ttl\":60,\"retrieved\":\"1970-01-01T00:00:02.000Z\"}";
        assert_eq!(
            text(b" { \"id\" : \"urn:a\",\n \"x\": 1.0 } \n", "urn:a"),
            format!(" {{ \"id\" : \"urn:a\",\n \"x\": 1.0 ,\"registration\":{ours}}} \n")
        );
        assert_eq!(
            text(b"{\"id\":\"urn:a\",\"registration\": {\"ttl\": 60 } , \"x\":{}}", "urn:a"),
            format!("{{\"id\":\"urn:a\",\"registration\": {ours} , \"x\":{{}}}}")
        );
        assert_eq!(
            text(b"{\"x\":{\"id\":1}}", "urn:uuid:b"),
            format!("{{\"id\":\"urn:uuid:b\",\"x\":{{\"id\":1}},\"registration\":{ours}}}")
        );
    }

    #[test]
    fn patches_are_those_of_rfc_7396() {
        // Its appendix A, where both sides are objects.
        for (old, patch, new) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let got = patched(old.to_string().as_bytes(), patch.to_string().as_bytes()).expect("a patch");
            assert_eq!(serde_json::from_slice::<Value>(&got).expect("JSON"), new, "{old} {patch}");
        }
        for wrong in ["[]", "1", "{", "{\"a\":1,\"a\":2}"] {
            assert!(patched(b"{}", wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_difference_is_the_patch_that_makes_it() {
        let (old, new) =
            (json!({"a":1,"b":{"c":1,"d":2},"e":[1],"f":1}), json!({"a":1,"b":{"c":3,"d":2},"e":[2],"g":{}}));
        let patch = Value::Object(difference(&old, &new));
        assert_eq!(patch, json!({"f":null,"b":{"c":3},"e":[2],"g":{}}));
        let made = patched(old.to_string().as_bytes(), patch.to_string().as_bytes()).expect("a patch");
        assert_eq!(serde_json::from_slice::<Value>(&made).expect("JSON"), new);
    }
}

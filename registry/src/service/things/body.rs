//! Descriptions of Things as bytes: what was sent, and how it is given back.

use std::cell::Cell;
use std::sync::LazyLock;

use althing_td::{Description, Finding, Report};
use chrono::{DateTime, SecondsFormat};
use memchr::{memchr, memmem};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{ThingError, value};
use crate::machine::things::Thing;

/// The members that the directory reads.
const READ: [&str; 3] = ["/id", "/@id", "/registration"];

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
    /// The same, as JSON-LD writes it.
    #[serde(borrow, rename = "@id")]
    json_ld_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    registration: Option<&'a RawValue>,
}

/// A member that is there, `null` too.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(value: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl Sent {
    /// Reads a description that somebody sent.
    ///
    /// # Errors
    /// [`ThingError`]: it is not valid.
    pub fn read(bytes: &[u8]) -> Result<Sent, ThingError> {
        let td = Description::parse(bytes).map_err(|error| ThingError::Invalid(error.report().clone()))?;
        let members = Members::of(bytes).map_err(|_| ThingError::Invalid(twice(bytes)))?;
        let (mut ttl_s, mut expires_ms) = (None, None);
        if let Some(registration) = members.registration {
            let object = || wrong_registration("/registration", "`registration` is an object");
            let registration: Map<String, Value> = serde_json::from_str(registration.get()).map_err(|_| object())?;
            ttl_s = registration.get("ttl").map(ttl).transpose()?;
            expires_ms = registration.get("expires").map(expires).transpose()?;
        }
        Ok(Sent { td, ttl_s, expires_ms })
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.td.bytes().to_vec()
    }

    /// The id in it.
    pub fn id(&self) -> Option<&str> {
        self.td.id()
    }

    pub fn title(&self) -> &str {
        self.td.title()
    }
}

impl<'a> Members<'a> {
    fn of(bytes: &'a [u8]) -> Result<Members<'a>, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

fn wrong_registration(field: &'static str, why: &'static str) -> ThingError {
    ThingError::Registration { field, why }
}

/// What is there twice of the members that the directory reads.
fn twice(bytes: &[u8]) -> Report {
    let mut report = althing_td::no_duplicates(bytes).err().unwrap_or_default();
    let is_read = |one: &Finding| READ.contains(&one.pointer.as_str());
    // Where many members are there twice, those may not be among the ones that are told.
    if report.findings.iter().any(is_read) {
        report.findings.retain(is_read);
    }
    report
}

fn ttl(value: &Value) -> Result<u64, ThingError> {
    let wrong = || wrong_registration("/registration/ttl", "`registration.ttl` is a number of seconds");
    // A number with a fraction is one too: what is there is whole seconds.
    let whole = value.as_u64().or_else(|| value.as_f64().filter(|it| *it >= 1.0 && *it < 1e12).map(|it| it as u64));
    whole.ok_or_else(wrong)
}

fn expires(value: &Value) -> Result<u64, ThingError> {
    let why = "`registration.expires` is a time, such as 2030-01-31T12:00:00Z";
    let wrong = || wrong_registration("/registration/expires", why);
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

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
/// Days from 1970 to the end of the year 9999, after which years have five digits.
const DAYS: u64 = 2_932_897;

thread_local! {
    /// The last day that was written, and its text: most times of a page are of few days.
    static DAY: Cell<(u64, [u8; 11])> = const { Cell::new((0, *b"1970-01-01T")) };
}

/// Writes a time as [`time`] does.
fn write_time(ms: u64, out: &mut Vec<u8>) {
    let (day, rest) = (ms / DAY_MS, ms % DAY_MS);
    let (known, mut date) = DAY.get();
    if known != day {
        let text = time(day.min(DAYS) * DAY_MS);
        match text.as_bytes().first_chunk() {
            Some(first) if day < DAYS => date = *first,
            _ => {
                out.extend(time(ms).as_bytes());
                return;
            }
        }
        DAY.set((day, date));
    }
    out.extend(date);
    let seconds = u32::try_from(rest / 1_000).unwrap_or_default();
    for (number, unit, mark) in [
        (seconds / 3_600, 10, b':'),
        (seconds / 60 % 60, 10, b':'),
        (seconds % 60, 10, b'.'),
        (u32::try_from(rest % 1_000).unwrap_or_default(), 100, b'Z'),
    ] {
        write_digits(number, unit, out);
        out.push(mark);
    }
}

/// Writes the decimal digits of a number, from that of `unit` (a power of ten) on.
fn write_digits(number: u32, mut unit: u32, out: &mut Vec<u8>) {
    while unit > 0 {
        out.push(b'0' + u8::try_from(number / unit % 10).unwrap_or_default());
        unit /= 10;
    }
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

    /// Writes it as JSON.
    fn write(self, now_ms: u64, out: &mut Vec<u8>) {
        out.extend(b"{\"created\":\"");
        write_time(self.created_ms, out);
        out.extend(b"\",\"modified\":\"");
        write_time(self.modified_ms, out);
        if let Some(end) = self.expires_ms {
            out.extend(b"\",\"expires\":\"");
            write_time(end, out);
        }
        out.push(b'"');
        if let Some(ttl) = self.ttl_s {
            out.extend(b",\"ttl\":");
            out.extend(ttl.to_string().as_bytes());
        }
        out.extend(b",\"retrieved\":\"");
        write_time(now_ms, out);
        out.extend(b"\"}");
    }
}

/// Finds where a registration may be.
static REGISTRATION: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("registration"));
/// Bytes that a registration adds, about.
const REGISTRATION_BYTES: usize = 192;

/// A description as the directory gives it: the bytes that were sent, with its own `registration`, and with the id that the
/// directory gave, if it gave one. None if the bytes are none that were accepted.
pub fn shown(bytes: &[u8], id: &str, registration: Registration, now_ms: u64) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len() + REGISTRATION_BYTES);
    if has_plain_id(bytes) && REGISTRATION.find(bytes).is_none() {
        add_registration(bytes, registration, now_ms, &mut out)?;
        return Some(out);
    }
    let members = Members::of(bytes).ok()?;
    match members.registration {
        Some(sent) => {
            let start = sent.get().as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
            out.extend(bytes.get(..start)?);
            registration.write(now_ms, &mut out);
            out.extend(bytes.get(start + sent.get().len()..)?);
        }
        None => add_registration(bytes, registration, now_ms, &mut out)?,
    }
    if members.id.or(members.json_ld_id).is_none() {
        let start = out.iter().position(|byte| *byte == b'{')? + 1;
        let member = format!("\"id\":{},", json!(id));
        out.splice(start..start, member.bytes());
    }
    Some(out)
}

/// Adds the registration as the last member.
fn add_registration(bytes: &[u8], registration: Registration, now_ms: u64, out: &mut Vec<u8>) -> Option<()> {
    let end = bytes.iter().rposition(|byte| *byte == b'}')?;
    out.extend(&bytes[..end]);
    out.extend(b",\"registration\":");
    registration.write(now_ms, out);
    out.extend(&bytes[end..]);
    Some(())
}

/// Whether it is sure that an object has a member `id`, and all its texts stand there as they are, without reading all of it:
/// it has no escapes, and the first `"id"` in it is the name of a member of its own.
fn has_plain_id(bytes: &[u8]) -> bool {
    const ID: &[u8] = b"\"id\"";
    if memchr(b'\\', bytes).is_some() {
        return false;
    }
    let Some(at) = memmem::find(bytes, ID) else { return false };
    let (mut depth, mut is_text) = (0_usize, false);
    for byte in &bytes[..at] {
        match byte {
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let next = bytes[at + ID.len()..].iter().find(|byte| !byte.is_ascii_whitespace());
    depth == 1 && !is_text && next == Some(&b':')
}

/// What a merge patch (RFC 7396) makes of a description.
///
/// # Errors
/// [`ThingError`]: it is no patch.
pub fn patched(bytes: &[u8], patch: &[u8]) -> Result<Vec<u8>, ThingError> {
    althing_td::no_duplicates(patch).map_err(ThingError::Invalid)?;
    // What is no JSON was told by then.
    let patch = value(patch).filter(Value::is_object).ok_or(ThingError::Patch)?;
    let mut value = value(bytes).ok_or(ThingError::Patch)?;
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
            text(b"{\"@id\":\"urn:a\",\"x\":1}", "urn:a"),
            format!("{{\"@id\":\"urn:a\",\"x\":1,\"registration\":{ours}}}"),
            "it has its id"
        );
        assert_eq!(
            text(b"{\"x\":{\"id\":1}}", "urn:uuid:b"),
            format!("{{\"id\":\"urn:uuid:b\",\"x\":{{\"id\":1}},\"registration\":{ours}}}")
        );
    }

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        let day = 24 * 60 * 60 * 1_000;
        let leap = 951_782_400_000; // 29 February 2000
        for ms in [
            0,
            1,
            999,
            61_001,
            day,
            leap,
            leap + day,
            1_764_000_000_123,
            253_402_300_799_999,
            253_402_300_800_000,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            write_time(ms, &mut out);
            assert_eq!(String::from_utf8(out).expect("text"), time(ms));
        }
    }

    #[test]
    fn an_id_that_is_no_member_of_the_description_itself_is_none() {
        for (bytes, plain) in [
            (r#"{"id":"urn:a"}"#, true),
            (r#" { "@context" : ["a", {"b": "c"}] , "id" : "urn:a"}"#, true),
            (r#"{"x":{"id":"urn:a"}}"#, false),
            (r#"{"x":[{"id":"urn:a"}],"id":"urn:a"}"#, false),
            (r#"{"x":"id","id":"urn:a"}"#, false),
            (r#"{"x":"a{[","id":"urn:a"}"#, true),
            (r#"{"x":"\"","id":"urn:a"}"#, false),
            (r#"{"x":1}"#, false),
        ] {
            assert_eq!(has_plain_id(bytes.as_bytes()), plain, "{bytes}");
            // Whatever is sure, the members say.
            let members = Members::of(bytes.as_bytes()).expect("an object");
            assert!(!plain || members.id.is_some(), "{bytes}");
        }
        let escaped = r#"{"id":"urn:a","registr\u0061tion":{"ttl":60}}"#;
        assert!(!text(escaped.as_bytes(), "urn:a").contains("},\"registration\""), "there is one already");
        assert_eq!(text(br#"{"x":{"id":1}}"#, "urn:b").matches("\"id\":\"urn:b\"").count(), 1);
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
        for wrong in ["[]", "1", "", "{", "{\"a\":1,\"a\":2}"] {
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

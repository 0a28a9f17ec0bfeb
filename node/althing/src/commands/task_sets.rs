//! Files of task sets, read strictly: an unknown letter or an invalid number is refused with its position.

use std::fmt;
use std::path::Path;

use althing_protocol::contract::did_you_mean;
use althing_store::file::read_text;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::exit::Failure;

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Tasks of one set.
const TASKS_MAX: usize = 10_000;
/// Characters of a file's content that a message quotes.
const EXCERPT_CHARS: usize = 40;

/// The members of a set, and of a task; the letters are those of the literature.
const SET_MEMBERS: [&str; 2] = ["id", "ts"];
const TASK_MEMBERS: [&str; 6] = ["C", "T", "D", "J", "Q", "B"];

/// A set of tasks, times in any one unit.
#[derive(Debug, PartialEq, Eq)]
pub struct Set {
    pub id: Option<String>,
    pub tasks: Vec<Task>,
}

/// One task of a set.
#[derive(Debug, PartialEq, Eq)]
pub struct Task {
    pub c: u64,
    pub t: u64,
    pub d: Option<u64>,
    pub j: u64,
    pub q: u64,
    pub b: u64,
}

/// The sets of a file: one, or a list of them.
pub fn read(path: &Path) -> Result<Vec<Set>, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    parse(&read_text(path, FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<Set>, String> {
    let json: Json = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match json {
        Json::List(sets) => sets.iter().zip(1..).map(|(one, number)| set(one, &format!("set {number}"))).collect(),
        one => Ok(vec![set(&one, "the set")?]),
    }
}

/// JSON with the members of objects in their order, and with duplicates.
enum Json {
    Object(Vec<(String, Json)>),
    List(Vec<Json>),
    Number(serde_json::Number),
    Text(String),
    Other(&'static str),
}

fn set(json: &Json, place: &str) -> Result<Set, String> {
    let [id, tasks] = members(json, place, &SET_MEMBERS)?;
    let id = match id {
        None => None,
        Some(Json::Text(id)) => Some(id.clone()),
        Some(other) => return Err(format!("{place}, \"id\": {other} is not text; write it in quotes")),
    };
    let named = id.as_ref().map_or_else(|| place.to_owned(), |id| format!("{place} ({})", cut(id)));
    let tasks = match tasks {
        Some(Json::List(tasks)) => tasks,
        Some(other) => return Err(format!("{named}, \"ts\": {other} is not a list of tasks")),
        None => return Err(format!("{named} has no \"ts\", the list of its tasks; {EXAMPLE}")),
    };
    if tasks.len() > TASKS_MAX {
        return Err(format!("{named} has {} tasks, and at most {TASKS_MAX} are taken", tasks.len()));
    }
    let tasks = tasks.iter().zip(1..).map(|(one, number)| task(one, &format!("{named}, task {number}")));
    Ok(Set { tasks: tasks.collect::<Result<_, String>>()?, id })
}

fn task(json: &Json, place: &str) -> Result<Task, String> {
    let [c, t, d, j, q, b] = members(json, place, &TASK_MEMBERS)?;
    let number = |letter: &str, given: Option<&Json>| match given {
        None => Ok(None),
        Some(Json::Number(number)) if number.as_u64().is_some() => Ok(number.as_u64()),
        Some(other) => Err(format!("{place}, {letter}: {other} is not a whole number from 0 to {}", u64::MAX)),
    };
    let needed = |letter: &str, given| {
        number(letter, given)?.ok_or_else(|| format!("{place} has no {letter}; C and T are needed; {EXAMPLE}"))
    };
    Ok(Task {
        c: needed("C", c)?,
        t: needed("T", t)?,
        d: number("D", d)?,
        j: number("J", j)?.unwrap_or(0),
        q: number("Q", q)?.unwrap_or(0),
        b: number("B", b)?.unwrap_or(0),
    })
}

const EXAMPLE: &str = "a set looks like {\"id\": \"mine\", \"ts\": [{\"C\": 2, \"T\": 10, \"D\": 8}]}, with J, Q and B where they \
                       are not 0";

/// The members of an object by name; unknown and duplicate ones are refused.
fn members<'a, const N: usize>(
    json: &'a Json,
    place: &str,
    known: &[&str; N],
) -> Result<[Option<&'a Json>; N], String> {
    let Json::Object(members) = json else { return Err(format!("{place} is {json}, not an object; {EXAMPLE}")) };
    let mut found = [None; N];
    for (name, value) in members {
        let Some(at) = known.iter().position(|known| known == name) else {
            return Err(format!("{place}: {:?} is not known. {}", cut(name), did_you_mean(name, known)));
        };
        if found[at].replace(value).is_some() {
            return Err(format!("{place}: {name:?} appears twice; keep one of them"));
        }
    }
    Ok(found)
}

fn cut(text: &str) -> String {
    let shown: String = text.chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect();
    if text.chars().nth(EXCERPT_CHARS).is_some() { format!("{shown}…") } else { shown }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Object(_) => f.write_str("an object"),
            Json::List(_) => f.write_str("a list"),
            Json::Number(number) => f.write_str(&cut(&number.to_string())),
            Json::Text(text) => write!(f, "{:?}", cut(text)),
            Json::Other(word) => f.write_str(word),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Other("null"))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Other(if value { "true" } else { "false" }))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Number(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(serde_json::Number::from_f64(value).map_or(Json::Other("no number"), Json::Number))
            }

            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::Text(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Json::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Json::Object(members))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_set_or_a_list_of_them_is_read_with_its_defaults() {
        let task = Task { c: 2, t: 10, d: None, j: 0, q: 0, b: 0 };
        let one = parse(r#"{"ts": [{"C": 2, "T": 10}]}"#).expect("a set");
        assert_eq!(one, [Set { id: None, tasks: vec![task] }]);
        let two = parse(r#"[{"id": "a", "ts": []}, {"ts": [{"B": 6, "Q": 5, "J": 4, "D": 3, "T": 2, "C": 1}]}]"#);
        let two = two.expect("two sets");
        assert_eq!(two[0], Set { id: Some("a".to_owned()), tasks: Vec::new() });
        assert_eq!(two[1].tasks, [Task { c: 1, t: 2, d: Some(3), j: 4, q: 5, b: 6 }]);
    }

    #[test]
    fn unknown_letters_are_refused_with_the_one_that_was_meant() {
        for (member, meant) in [("d", "D"), ("c", "C"), ("t", "T"), ("q", "Q"), ("TS", ""), ("deadline", ""), ("R", "")]
        {
            let text = format!(
                r#"[{{"ts": []}}, {{"id": "x", "ts": [{{"C": 1, "T": 2}}, {{"C": 1, "T": 9, "{member}": 6}}]}}]"#
            );
            let refused = parse(&text).expect_err("an unknown letter");
            assert!(refused.starts_with(&format!("set 2 (x), task 2: \"{member}\" is not known. ")), "{refused}");
            assert!(refused.contains("Known: C, T, D, J, Q, B"), "{refused}");
            if !meant.is_empty() {
                assert!(refused.contains(&format!("Did you mean \"{meant}\"?")), "{refused}");
            }
        }
        let refused = parse(r#"{"Id": "x", "ts": []}"#).expect_err("an unknown member");
        assert_eq!(refused, r#"the set: "Id" is not known. Did you mean "id"? Known: id, ts"#);
    }

    #[test]
    fn bad_numbers_and_shapes_name_their_place() {
        let task =
            |member: &str| format!(r#"[{{"id": "x", "ts": [{{"C": 1, "T": 2}}, {{"C": 1, "T": 9, {member}}}]}}]"#);
        let digits = "9".repeat(300);
        for (member, told) in [
            (r#""D": 1e4"#, "set 1 (x), task 2, D: 10000.0 is not a whole number"),
            (r#""D": -3"#, "set 1 (x), task 2, D: -3 is not a whole number"),
            (r#""J": 1.5"#, "set 1 (x), task 2, J: 1.5 is not"),
            (r#""Q": "5""#, "set 1 (x), task 2, Q: \"5\" is not"),
            (r#""B": null"#, "set 1 (x), task 2, B: null is not"),
            (r#""B": [1]"#, "set 1 (x), task 2, B: a list is not"),
            (r#""D": 18446744073709551616"#, "set 1 (x), task 2, D: 1"),
            (r#""D": 1, "D": 2"#, "set 1 (x), task 2: \"D\" appears twice"),
            (&format!("\"D\": {digits}"), "set 1 (x), task 2, D: "),
        ] {
            let refused = parse(&task(member)).expect_err("no number");
            assert!(refused.starts_with(told), "{member}: {refused}");
            assert!(refused.len() < 400, "{refused}");
        }
        for (text, told) in [
            ("[1]", "set 1 is 1, not an object"),
            ("{}", "the set has no \"ts\""),
            (r#"{"ts": {}}"#, "the set, \"ts\": an object is not a list"),
            (r#"{"ts": [{"T": 1}]}"#, "the set, task 1 has no C"),
            (r#"{"ts": [], "id": 1}"#, "the set, \"id\": 1 is not text"),
            (r#"{"ts": [}"#, "it is not JSON: "),
        ] {
            let refused = parse(text).expect_err("no set");
            assert!(refused.starts_with(told), "{text}: {refused}");
        }
    }
}

//! Reads affordances, their forms and their data schemas member by member.

use serde_json::{Map, Value, json};

use super::Reading;
use crate::json::join;

/// Members that decide what a form does; without one of them that cannot be read, it would do something else.
const DECISIVE: [&str; 8] =
    ["href", "op", "security", "contentType", "contentCoding", "subprotocol", "htv:methodName", "htv:headers"];
/// What hides a text from people is no slip of the pen.
const HIDDEN: &str = "hidden-character";

impl Reading {
    /// The affordances of a kind, without those that cannot be used; none if they are no object.
    pub(super) fn affordances(&mut self, kind: &str, given: Value) -> Option<Value> {
        let at = join("", kind);
        let Value::Object(all) = given else {
            self.notes.note(&at, "it is no object, and is read as none");
            return None;
        };
        let is_plain = self.unsecured.is_none() && !all.keys().any(|name| self.is_repeated(&join(&at, name)));
        let all = Value::Object(all);
        if is_plain && self.judge.flaw(kind, &all).is_none() {
            return Some(all);
        }
        let Value::Object(all) = all else { return None };
        let mut kept = Map::new();
        for (name, one) in all {
            let at = join(&at, &name);
            let read = match self.is_repeated(&at) {
                true => Err("it is there more than once".to_owned()),
                false => self.affordance(kind, &name, one, &at),
            };
            match read {
                Ok(one) => drop(kept.insert(name, one)),
                Err(why) => self.notes.left_out(&at, &why),
            }
        }
        Some(Value::Object(kept))
    }

    fn affordance(&mut self, kind: &str, name: &str, one: Value, at: &str) -> Result<Value, String> {
        let members = match one {
            Value::Object(members) => members,
            other => return Err(self.no_object(&other)),
        };
        if self.unsecured.is_none() && self.judge.affordance_flaw(kind, name, &members).is_none() {
            return Ok(Value::Object(members));
        }
        let forms = self.forms(kind, members.get("forms"), at)?;
        let mut kept = Map::new();
        for (member, value) in members {
            if member == "forms" {
                kept.insert(member, forms.clone());
                continue;
            }
            let Some(flaw) = self.judge.member_flaw(kind, &member, &value) else {
                kept.insert(member, value);
                continue;
            };
            let (at, is_null) = (join(at, &member), value.is_null());
            if flaw.rule == HIDDEN {
                return Err(flaw.message);
            }
            match self.mended(&member, value, &at) {
                Some(value) => drop(kept.insert(member, value)),
                // Without its input another request would be made.
                None if member == "input" && !is_null => return Err("what it takes (input) is no object".to_owned()),
                None => self.notes.left_out(&at, &flaw.message),
            }
        }
        match self.judge.affordance_flaw(kind, name, &kept) {
            None => Ok(Value::Object(kept)),
            Some(flaw) => Err(flaw.message),
        }
    }

    /// The forms that can be used; if there is none, why.
    fn forms(&mut self, kind: &str, given: Option<&Value>, at: &str) -> Result<Value, String> {
        let given = match given {
            Some(Value::Array(forms)) => forms,
            None | Some(Value::Null) => return Err("it has no forms".to_owned()),
            Some(_) => return Err("its forms are no list".to_owned()),
        };
        let (mut kept, mut others) = (Vec::new(), Vec::new());
        for (number, form) in given.iter().enumerate() {
            let at = join(&join(at, "forms"), number);
            match self.form(kind, form, &at) {
                Ok(form) => kept.push(form),
                Err(why) => others.push((at, why)),
            }
        }
        if kept.is_empty() {
            let why = others.into_iter().next().map(|(_, why)| why);
            return Err(why.unwrap_or_else(|| "its list of forms is empty".to_owned()));
        }
        for (at, why) in others {
            self.notes.left_out(&at, &why);
        }
        Ok(Value::Array(kept))
    }

    fn form(&mut self, kind: &str, form: &Value, at: &str) -> Result<Value, String> {
        let Value::Object(members) = form else { return Err("a form of it is no object".to_owned()) };
        let is_secured = members.get("security").is_some_and(|security| !security.is_null());
        if let Some(why) = self.unsecured.as_ref().filter(|_| !is_secured) {
            return Err(why.clone());
        }
        if self.judge.form_flaw(kind, members).is_none() {
            return Ok(form.clone());
        }
        let (mut kept, mut others, mut odd) = (Map::new(), Vec::new(), Vec::new());
        for (member, value) in members {
            match DECISIVE.contains(&member.as_str()) {
                true if value.is_null() && member != "href" => odd.push((join(at, member), "it is null".to_owned())),
                true => drop(kept.insert(member.clone(), value.clone())),
                false => others.push((member, value)),
            }
        }
        if let Some(Value::Array(words)) = kept.get_mut("op") {
            let at = join(at, "op");
            for word in std::mem::take(words) {
                match self.judge.member_flaw(kind, "forms", &json!([{ "href": "x", "op": word }])) {
                    None => words.push(word),
                    Some(flaw) => odd.push((at.clone(), flaw.message)),
                }
            }
        }
        if let Some(flaw) = self.judge.form_flaw(kind, &kept) {
            return Err(flaw.message);
        }
        for (member, value) in others {
            kept.insert(member.clone(), value.clone());
            if let Some(flaw) = self.judge.form_flaw(kind, &kept) {
                kept.remove(member);
                odd.push((join(at, member), flaw.message));
            }
        }
        odd.iter().for_each(|(at, why)| self.notes.left_out(at, why));
        Ok(Value::Object(kept))
    }

    /// A member that holds data schemas, without what is odd in these; none if it holds none.
    pub(super) fn mended(&mut self, member: &str, value: Value, at: &str) -> Option<Value> {
        match (member, value) {
            (
                "input" | "output" | "data" | "subscription" | "dataResponse" | "cancellation" | "items",
                Value::Object(schema),
            ) => Some(Value::Object(self.schema(schema, at))),
            ("properties" | "uriVariables" | "schemaDefinitions", Value::Object(all)) => {
                let mut kept = Map::new();
                for (name, one) in all {
                    let one = self.schema_in(one, &join(at, &name));
                    kept.extend(one.map(|one| (name, one)));
                }
                Some(Value::Object(kept))
            }
            ("items" | "oneOf", Value::Array(all)) => {
                let numbered = all.into_iter().enumerate();
                Some(numbered.filter_map(|(number, one)| self.schema_in(one, &join(at, number))).collect())
            }
            _ => None,
        }
    }

    fn schema_in(&mut self, one: Value, at: &str) -> Option<Value> {
        match one {
            Value::Object(schema) => Some(Value::Object(self.schema(schema, at))),
            other => {
                let why = self.no_object(&other);
                self.notes.left_out(at, &why);
                None
            }
        }
    }

    /// A data schema without its odd members. It goes no deeper than the text, which [`crate::DEPTH_MAX`] bounds.
    fn schema(&mut self, schema: Map<String, Value>, at: &str) -> Map<String, Value> {
        let mut kept = Map::new();
        for (member, value) in schema {
            let Some(flaw) = self.judge.schema_flaw(&member, &value) else {
                kept.insert(member, value);
                continue;
            };
            let at = join(at, &member);
            match self.mended(&member, value, &at) {
                Some(value) => drop(kept.insert(member, value)),
                None => self.notes.left_out(&at, &flaw.message),
            }
        }
        kept
    }
}

//! Arguments as a policy reads them.
//!
//! Built value by value and not by Cedar's reader of JSON: there an object `{"__entity": …}` names an entity, and a model
//! could write the name of anybody into an argument.

use std::collections::BTreeMap;

use cedar_policy::RestrictedExpression;
use serde_json::{Map, Number, Value};

use crate::kind::Kind;
use crate::shape::{Member, Shape};

/// Levels of arguments.
const DEPTH_MAX: usize = 32;
/// Values in the arguments of one request.
const VALUES_MAX: usize = 16_384;
/// A decimal holds up to 922337203685477.5807, with four places.
const DECIMAL_WHOLE_MAX: u64 = 922_337_203_685_476;
const DECIMAL_PLACES_MAX: usize = 4;

/// Why arguments cannot be decided about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch {
    #[error("{at} is {found}, where the schema of the tool says {expected}")]
    Type { at: String, found: &'static str, expected: &'static str },
    #[error("{at} is missing, which the schema of the tool requires")]
    Missing { at: String },
    #[error("the arguments have more than {} values, or more than {} levels", VALUES_MAX, DEPTH_MAX)]
    Size,
}

/// The arguments of one call, as `context.input`.
pub(crate) fn input(arguments: &Map<String, Value>, shape: &Shape) -> Result<RestrictedExpression, Mismatch> {
    let mut writer = Writer { values: 0, at: vec!["input".to_owned()] };
    match shape {
        Shape::Record(members) => writer.record(arguments, Some(members)),
        _ => writer.record(arguments, None),
    }
}

struct Writer {
    values: usize,
    /// Where the value is, from `input`.
    at: Vec<String>,
}

impl Writer {
    fn value(&mut self, value: &Value, shape: &Shape) -> Result<RestrictedExpression, Mismatch> {
        self.values += 1;
        if self.values > VALUES_MAX || self.at.len() > DEPTH_MAX {
            return Err(Mismatch::Size);
        }
        match (shape, value) {
            (Shape::Any | Shape::Text, Value::String(text)) => Ok(RestrictedExpression::new_string(text.clone())),
            (Shape::Any | Shape::Flag, Value::Bool(flag)) => Ok(RestrictedExpression::new_bool(*flag)),
            (Shape::Whole, Value::Number(number)) if is_whole(number) => Ok(whole(number)),
            (Shape::Number, Value::Number(number)) => Ok(decimal(number)),
            (Shape::Any, Value::Number(number)) if number.as_i64().is_some() => Ok(whole(number)),
            (Shape::Any, Value::Number(number)) => Ok(decimal(number)),
            (Shape::Any, Value::Null) => Ok(RestrictedExpression::new_entity_uid(Kind::Null.uid(""))),
            (Shape::Any, Value::Array(elements)) => self.set(elements, &Shape::Any),
            (Shape::Set(element), Value::Array(elements)) => self.set(elements, element),
            (Shape::Any, Value::Object(object)) => self.record(object, None),
            (Shape::Record(members), Value::Object(object)) => self.record(object, Some(members)),
            (shape, value) => {
                Err(Mismatch::Type { at: self.at.join("."), found: word(value), expected: word_of(shape) })
            }
        }
    }

    fn set(&mut self, elements: &[Value], shape: &Shape) -> Result<RestrictedExpression, Mismatch> {
        let mut set = Vec::with_capacity(elements.len().min(VALUES_MAX));
        for (at, element) in elements.iter().enumerate() {
            self.at.push(at.to_string());
            set.push(self.value(element, shape)?);
            self.at.pop();
        }
        Ok(RestrictedExpression::new_set(set))
    }

    /// A member that no type is known of is written as it is, so that a policy can read it.
    fn record(
        &mut self,
        object: &Map<String, Value>,
        members: Option<&BTreeMap<String, Member>>,
    ) -> Result<RestrictedExpression, Mismatch> {
        let missing = |(name, member): &(&String, &Member)| member.is_required && !object.contains_key(name.as_str());
        if let Some((name, _)) = members.into_iter().flatten().find(missing) {
            return Err(Mismatch::Missing { at: format!("{}.{name}", self.at.join(".")) });
        }
        let mut record = Vec::with_capacity(object.len().min(VALUES_MAX));
        for (name, value) in object {
            let member = members.and_then(|members| members.get(name));
            // Programs write null for what they leave out.
            if value.is_null() && member.is_some_and(|member| !member.is_required && member.shape != Shape::Any) {
                continue;
            }
            self.at.push(name.clone());
            record.push((name.clone(), self.value(value, member.map_or(&Shape::Any, |member| &member.shape))?));
            self.at.pop();
        }
        Ok(RestrictedExpression::new_record(record).expect("an object has each name once"))
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

fn whole(number: &Number) -> RestrictedExpression {
    match number.as_i64().or_else(|| exact(number)) {
        Some(whole) => RestrictedExpression::new_long(whole),
        None => opaque(number),
    }
}

/// An integer that is written with a point, up to where floats have gaps.
fn exact(number: &Number) -> Option<i64> {
    const GAPS_FROM: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < GAPS_FROM)?;
    format!("{float:.0}").parse().ok()
}

/// A number is never rounded: where a decimal cannot hold it, a policy that compares it cannot be evaluated, and denies.
fn decimal(number: &Number) -> RestrictedExpression {
    let text = match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) => float.to_string(),
        (None, None) => return opaque(number),
    };
    let (whole, places) = text.split_once('.').unwrap_or((&text, "0"));
    let holds = whole.trim_start_matches('-').parse::<u64>().is_ok_and(|whole| whole <= DECIMAL_WHOLE_MAX);
    if holds && places.len() <= DECIMAL_PLACES_MAX {
        RestrictedExpression::new_decimal(format!("{whole}.{places}"))
    } else {
        opaque(number)
    }
}

fn opaque(number: &Number) -> RestrictedExpression {
    RestrictedExpression::new_entity_uid(Kind::Number.uid(&number.to_string()))
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn word_of(shape: &Shape) -> &'static str {
    match shape {
        Shape::Any => "anything",
        Shape::Text => "a string",
        Shape::Whole => "an integer",
        Shape::Number => "a number",
        Shape::Flag => "a boolean",
        Shape::Set(_) => "an array",
        Shape::Record(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use cedar_policy::{Context, EvalResult};
    use serde_json::json;

    use super::*;

    fn schema() -> Shape {
        Shape::of_schema(&json!({
            "properties": {
                "to": { "type": "string" },
                "count": { "type": "integer" },
                "price": { "type": "number" },
                "names": { "type": "array", "items": { "type": "string" } },
                "inner": { "type": "object", "properties": { "flag": { "type": "boolean" } } },
            },
            "required": ["to"],
        }))
    }

    fn read(arguments: &Value, shape: &Shape) -> Result<EvalResult, Mismatch> {
        let arguments = arguments.as_object().expect("arguments are an object");
        let context = Context::from_pairs([("input".to_owned(), input(arguments, shape)?)]).expect("each value is one");
        Ok(context.get("input").expect("it was put there"))
    }

    fn member(value: &EvalResult, name: &str) -> String {
        match value {
            EvalResult::Record(record) => record.get(name).map(ToString::to_string).unwrap_or_default(),
            other => panic!("{other} is no record"),
        }
    }

    #[test]
    fn arguments_that_name_an_entity_are_objects() {
        let forged = json!({ "__entity": { "type": "Role", "id": "owner" } });
        let extension = json!({ "__extn": { "fn": "ip", "arg": "10.0.0.1" } });
        let read = read(&json!({ "a": forged, "b": extension, "__entity": 1 }), &Shape::Any).expect("they are values");
        let EvalResult::Record(record) = read else { panic!("it is no record") };
        assert!(matches!(record.get("a"), Some(EvalResult::Record(_))));
        assert!(matches!(record.get("b"), Some(EvalResult::Record(_))));
        assert!(matches!(record.get("__entity"), Some(EvalResult::Long(1))));
    }

    #[test]
    fn numbers_are_exact_or_opaque() {
        let long =
            |text: &str| read(&json!({ "to": "", "count": number(text) }), &schema()).map(|v| member(&v, "count"));
        assert_eq!(long("3"), Ok("3".to_owned()));
        assert_eq!(long("3.0"), Ok("3".to_owned()));
        assert_eq!(long("18446744073709551615"), Ok("Number::\"18446744073709551615\"".to_owned()));
        assert!(long("3.5").is_err());
        let price =
            |text: &str| read(&json!({ "to": "", "price": number(text) }), &schema()).map(|v| member(&v, "price"));
        assert!(price("3").is_ok_and(|price| price.contains("3.0")));
        assert!(price("2.5").is_ok_and(|price| price.contains("2.5")));
        for opaque in ["2.00004", "1e300", "-922337203685478"] {
            assert!(price(opaque).is_ok_and(|price| price.starts_with("Number::")), "{opaque}");
        }
    }

    fn number(text: &str) -> Value {
        serde_json::from_str(text).expect("it is a number")
    }

    #[test]
    fn null_is_absent_where_a_member_is_optional() {
        let read = read(&json!({ "to": "x", "count": null, "more": null }), &schema()).expect("it fits");
        assert_eq!(member(&read, "count"), "");
        assert_eq!(member(&read, "more"), "Null::\"\"");
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let refused = |arguments: Value| read(&arguments, &schema()).expect_err("it does not fit").to_string();
        assert!(refused(json!({})).contains("input.to is missing"));
        assert!(
            refused(json!({ "to": ["a"] }))
                .contains("input.to is an array, where the schema of the tool says a string")
        );
        assert!(refused(json!({ "to": null })).contains("input.to is null"));
        assert!(refused(json!({ "to": "", "names": ["a", 1] })).contains("input.names.1 is a number"));
        assert!(refused(json!({ "to": "", "inner": { "flag": "no" } })).contains("input.inner.flag"));
    }

    #[test]
    fn arguments_are_bounded() {
        let mut deep = json!(1);
        for _ in 0..40 {
            deep = json!([deep]);
        }
        assert_eq!(read(&json!({ "a": deep }), &Shape::Any), Err(Mismatch::Size));
        assert_eq!(read(&json!({ "a": vec![0; VALUES_MAX] }), &Shape::Any), Err(Mismatch::Size));
    }
}

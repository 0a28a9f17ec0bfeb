//! The time that a caller gives a turn: the extension `latency/v1` of a message, or of the request that carries it.

use std::time::Duration;

use althing_call::OperationError;
use serde_json::Value;

/// The extension: how long the sender of a message waits for the turn's end, and in a card how an agent of this node runs.
pub const LATENCY: &str = "https://althing.dev/ext/latency/v1";
/// The only member.
const WITHIN: &str = "withinMs";
/// The longest time, milliseconds: a day.
const WITHIN_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How long a turn may take, as the first in `metadata` says that names the extension; none: as long as it does.
///
/// # Errors
/// Invalid parameters: not a whole number of milliseconds from 1 to a day, or a member that means nothing.
pub(crate) fn time_limit<'a>(
    metadata: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<Option<Duration>, OperationError> {
    let Some((_, asked)) = metadata.into_iter().find(|(name, _)| *name == LATENCY) else { return Ok(None) };
    let wrong = || {
        let message =
            format!("{LATENCY} in `metadata` is {{ {WITHIN:?}: … }}, 1 to {WITHIN_MS_MAX} milliseconds: {asked}");
        OperationError::invalid_params(message)
    };
    let members = asked.as_object().filter(|members| members.len() == 1).ok_or_else(wrong)?;
    let within = members.get(WITHIN).and_then(whole).filter(|within| (1..=WITHIN_MS_MAX).contains(within));
    Ok(Some(Duration::from_millis(within.ok_or_else(wrong)?)))
}

/// A whole number; in protobuf all numbers are doubles.
fn whole(value: &Value) -> Option<u64> {
    let of_double = || {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number))?;
        format!("{number:.0}").parse().ok()
    };
    value.as_u64().or_else(of_double)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn read(value: Value) -> Result<Option<Duration>, OperationError> {
        let metadata: Map<String, Value> =
            [("other".to_owned(), json!(1)), (LATENCY.to_owned(), value)].into_iter().collect();
        time_limit(&metadata)
    }

    #[test]
    fn a_time_is_a_whole_number_of_milliseconds_up_to_a_day() {
        let of = Duration::from_millis;
        assert_eq!(read(json!({ "withinMs": 500 })), Ok(Some(of(500))));
        assert_eq!(read(json!({ "withinMs": 500.0 })), Ok(Some(of(500))), "as gRPC carries it");
        assert_eq!(read(json!({ "withinMs": 86_400_000 })), Ok(Some(of(86_400_000))));
        let none: Map<String, Value> = Map::new();
        assert_eq!(time_limit(&none), Ok(None));
        for wrong in [
            json!(500),
            json!({}),
            json!({ "withinMs": 0 }),
            json!({ "withinMs": -1 }),
            json!({ "withinMs": 0.5 }),
            json!({ "withinMs": "500" }),
            json!({ "withinMs": 86_400_001 }),
            json!({ "within": 500 }),
            json!({ "withinMs": 500, "class": "srt" }),
        ] {
            let refused = read(wrong.clone()).expect_err("it is none");
            assert!(refused.message.contains("withinMs"), "{wrong}: {}", refused.message);
        }
    }
}

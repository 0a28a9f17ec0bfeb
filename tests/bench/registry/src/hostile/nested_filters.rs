//! Queries that a parser of doubling work would take days for, or the whole stack (SR-1).

use super::attackers::{Attackers, Shot};
use crate::http::{Client, escaped};

/// Filters within each other, in about 160 bytes.
const FILTERS: usize = 40;
/// Parentheses and functions within each other: as many as a query of 1,024 bytes has room for.
const PARENTHESES: usize = 500;
const FUNCTIONS: usize = 120;

/// Searches by nested filters, parentheses and functions.
pub async fn nested_filters(attackers: &Attackers) {
    let client = Client::new(&attackers.address, None);
    let nested =
        |open: &str, close: &str, times: usize| format!("$[?{}@.a{}]", open.repeat(times), close.repeat(times));
    let shots = [
        ("filters", format!("${}{}", "[?@".repeat(FILTERS), "]".repeat(FILTERS))),
        ("parentheses", nested("(", ")", PARENTHESES)),
        ("functions", nested("length(", ")", FUNCTIONS)),
    ];
    let shots = shots.map(|(what, query)| {
        let path = format!("/search/jsonpath?query={}", escaped(&query));
        Shot { what, request: client.request("GET", &path, "application/json", &[]) }
    });
    attackers.send(shots.into()).await;
}

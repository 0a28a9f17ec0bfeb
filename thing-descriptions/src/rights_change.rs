//! One change of what an agent may do, as people are shown it.

use serde::Serialize;

use crate::hidden::visible;

/// Characters that are shown of a command, or of a list.
const SHOWN_CHARS_MAX: usize = 160;

/// One change of what an agent may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RightsChange {
    /// What: `runtime: command`, `tools.maps: sandbox`, `contract: secrets`.
    pub what: String,
    /// What it was, on one line; empty if there was none.
    pub old: String,
    /// What it is; empty if there is none.
    pub new: String,
    /// Whether it may do more by it.
    pub wider: bool,
}

/// A change, on one line each.
pub(crate) fn change(what: &str, old: &str, new: &str, wider: bool) -> RightsChange {
    RightsChange { what: what.to_owned(), old: line(old), new: line(new), wider }
}

/// A text on one line, in which nothing is invisible, cut where it is long.
pub(crate) fn line(text: &str) -> String {
    let mut rest = visible(text).map(|c| if c.is_whitespace() { ' ' } else { c });
    let shown: String = rest.by_ref().take(SHOWN_CHARS_MAX).collect();
    let end = if rest.next().is_some() { "…" } else { "" };
    format!("{shown}{end}")
}

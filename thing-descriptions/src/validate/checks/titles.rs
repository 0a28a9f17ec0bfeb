//! Titles are read by people, who confuse similar letters (threat model, row 6).

use super::super::report::{Finding, Findings};
use super::Object;
use crate::confusable::disguised;

/// Flags a title with confusable letters.
pub(super) fn check(td: &Object, out: &mut Findings) {
    let title = td.get("title").and_then(|title| title.as_str()).unwrap_or_default();
    if let Some(c) = disguised(title) {
        out.warning(|| {
            Finding::warning(
                "/title",
                "look-alike",
                format!("the title holds U+{:04X}, which is easily taken for another letter", u32::from(c)),
                "Write each word in one script; do not take it for the name of somebody that you know",
            )
        });
    }
}

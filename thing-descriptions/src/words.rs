//! What others wrote, as an agent's description says it: ids and texts, made to fit.

use crate::agent_file::SKILL_ID_CHARS_MAX;
use crate::hidden::visible;

/// An id of a skill: `[a-z0-9._:-]`.
#[must_use]
pub fn id(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._:-".contains(c) { c } else { '-' };
    name.to_ascii_lowercase().chars().map(allowed).take(SKILL_ID_CHARS_MAX).collect()
}

/// One line without hidden characters, cut at the limit.
#[must_use]
pub fn line(words: &str, chars_max: usize) -> String {
    let line = text(words, "", usize::MAX).split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, chars_max)
}

/// A text without hidden characters, cut at the limit; the other one if nothing is left.
#[must_use]
pub fn text(words: &str, otherwise: &str, chars_max: usize) -> String {
    let shown = cut(words, chars_max);
    if shown.trim().is_empty() { otherwise.to_owned() } else { shown.trim().to_owned() }
}

/// The start of a text, without hidden characters. Looked through twice: a joiner at the end joins nothing any more.
fn cut(words: &str, chars_max: usize) -> String {
    let start: String = visible(words).take(chars_max).collect();
    visible(&start).collect()
}

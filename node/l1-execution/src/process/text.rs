//! Texts as servers send them.

/// Text without the mark of the byte order that some servers begin with.
pub(super) fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

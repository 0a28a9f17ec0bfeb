//! Values of headers that the program never has.

use std::fmt;

use http::HeaderValue;

/// The value of a header, with the secrets in it, if any. Nothing shows it.
#[derive(Clone)]
pub struct SecretValue {
    value: HeaderValue,
    secrets: Vec<Vec<u8>>,
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue")
    }
}

/// A value that no header can have. It does not say what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret has a line break or another control character in it, so that no header can hold it: set it again without"
)]
pub struct NoHeaderValue;

impl SecretValue {
    /// The whole value, `Bearer sk-123`, with the secrets that stand in it, `sk-123`: these are what is taken out of
    /// answers, and nothing else is. A value without one, `2`, stands in an answer as it came.
    ///
    /// # Errors
    /// [`NoHeaderValue`].
    pub fn new(value: &str, secrets: &[&str]) -> Result<SecretValue, NoHeaderValue> {
        let mut header = HeaderValue::from_str(value).map_err(|_| NoHeaderValue)?;
        // Neither shown by what prints headers, nor kept in a table of HTTP/2.
        header.set_sensitive(true);
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        Ok(SecretValue { value: header, secrets: secrets.map(|secret| secret.as_bytes().to_vec()).collect() })
    }

    /// What is sent.
    pub(crate) fn header(&self) -> &HeaderValue {
        &self.value
    }

    /// What is taken out of answers.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.secrets.iter().map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let value = SecretValue::new("Bearer hush", &["hush", ""]).expect("a value");
        assert_eq!(value.header().as_bytes(), b"Bearer hush");
        assert_eq!(value.secrets().collect::<Vec<_>>(), [b"hush"]);
        let shown = format!("{value:?} {:?}", value.header());
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(SecretValue::new("2", &[]).expect("a value").secrets().count(), 0, "none is named");
        for wrong in ["hu\nsh", "hu\r\nx: y", "hu\0sh"] {
            let error = SecretValue::new(wrong, &[]).expect_err("a control character");
            assert!(!format!("{error} {error:?}").contains("hu\\"), "{error}");
        }
    }
}

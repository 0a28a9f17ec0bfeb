//! By what a proxy knows its program, where others reach the proxy too.

use std::fmt;

use http::HeaderMap;
use http::header::PROXY_AUTHORIZATION;

/// The scheme of a name and a password (RFC 7617).
const SCHEME: &str = "basic";

/// A name and a password, which the program has in the address of its proxy. Nothing shows them.
#[derive(Clone)]
pub struct Login {
    token: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

impl Login {
    /// With `name:password` in base64, as clients send it.
    #[must_use]
    pub fn new(token: String) -> Login {
        Login { token }
    }

    /// Whether a request has it.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(PROXY_AUTHORIZATION).iter();
        let (Some(only), None) = (all.next(), all.next()) else { return false };
        let sent = only.to_str().unwrap_or_default().split_once(' ');
        sent.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case(SCHEME) && self.equals(token.trim()))
    }

    /// Takes as long wherever they differ: the time tells nobody how much was right.
    fn equals(&self, token: &str) -> bool {
        let differing = self.token.bytes().zip(token.bytes()).fold(0, |bits, (one, other)| bits | (one ^ other));
        self.token.len() == token.len() && differing == 0
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn sent(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PROXY_AUTHORIZATION, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn whoever_has_the_password_is_known_and_nobody_else() {
        let login = Login::new("YTpi".to_owned());
        for right in ["Basic YTpi", "basic YTpi", "BASIC  YTpi "] {
            assert!(login.is_in(&sent(&[right])), "{right}");
        }
        let cut = ["", "Basic", "Basic ", "Basic YTp", "Basic YTpiYTpi"];
        for wrong in cut.into_iter().chain(["Basic YTpj", "Basic ytpi", "Bearer YTpi", "YTpi"]) {
            assert!(!login.is_in(&sent(&[wrong])), "{wrong}");
        }
        assert!(!login.is_in(&sent(&[])));
        assert!(!login.is_in(&sent(&["Basic YTpi", "Basic YTpj"])), "one of two is right");
        assert!(!format!("{login:?}").contains("YTpi"));
    }
}

//! Which headers pass, from the program to the host and back.

use althing_fetch::{Url, same_origin};
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, LOCATION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers of one connection, and of no message (RFC 9110 §7.6.1), with those of proxies.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Codings of bodies that have a name here.
const CODINGS: [&str; 6] = ["gzip", "x-gzip", "deflate", "compress", "br", "zstd"];
/// All others.
const OTHER: &str = "another encoding";

/// Whether a secret may be put in as the header of that name: not where the node itself says how a message is sent.
#[must_use]
pub fn carries_secret(name: &HeaderName) -> bool {
    let name = name.as_str();
    !HOP_BY_HOP.contains(&name) && !matches!(name, "accept-encoding" | "content-length" | "expect" | "host")
}

/// Of a program's request those that are for the host.
#[must_use]
pub fn request(mut headers: HeaderMap) -> HeaderMap {
    // The length is not that of a body whose end is told otherwise.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip(&mut headers);
    headers.remove(HOST);
    // The node takes the body at once, and says so itself.
    headers.remove(EXPECT);
    headers
}

/// Of a host's answer those that are for the program.
#[must_use]
pub fn response(mut headers: HeaderMap) -> HeaderMap {
    strip(&mut headers);
    headers
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        // The length says where the body ends, whatever somebody says of it.
        .filter(|name| name.as_str() != "content-length")
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Leaves out those in whose value one of the secrets stands.
pub fn leave_out<'a>(headers: &mut HeaderMap, secrets: impl Iterator<Item = &'a [u8]> + Clone) {
    let tells = |value: &HeaderValue| {
        let value = value.as_bytes();
        secrets.clone().any(|secret| value.windows(secret.len().max(1)).any(|window| window == secret))
    };
    let told: Vec<HeaderName> =
        headers.iter().filter(|(_, value)| tells(value)).map(|(name, _)| name.clone()).collect();
    for name in told {
        // Several values may have one name; that one of them tells a secret is enough.
        headers.remove(name);
    }
}

/// In what the body of an answer is encoded, whether as its content or on this connection alone, so that its bytes are not those of
/// its text; none where they are. The headers are those that came, hop by hop too. The word is the node's: what a host writes
/// there may be a secret itself.
#[must_use]
pub fn coding(headers: &HeaderMap) -> Option<&'static str> {
    let among = |name: HeaderName, plain: &[&str]| {
        headers.get_all(name).iter().find_map(|value| {
            let codings = value.to_str().unwrap_or(OTHER).split(',').map(str::trim);
            let mut hiding = codings
                .filter(|coding| !coding.is_empty() && !plain.iter().any(|plain| plain.eq_ignore_ascii_case(coding)));
            let first = hiding.next()?;
            Some(CODINGS.into_iter().find(|known| known.eq_ignore_ascii_case(first)).unwrap_or(OTHER))
        })
    };
    among(CONTENT_ENCODING, &["identity"]).or_else(|| among(TRANSFER_ENCODING, &["identity", "chunked"]))
}

/// Has a redirect within the host that was asked lead the program to its local address again: there the path is the
/// same. What leads elsewhere is left as it is.
pub fn relocate(headers: &mut HeaderMap, asked: &Url) {
    let Some(to) = headers.get(LOCATION).and_then(|value| value.to_str().ok()) else { return };
    let Ok(url) = asked.join(to) else { return };
    let local = if same_origin(asked, &url) {
        // Two slashes at the beginning would name a host.
        let mut local = if url.path().starts_with("//") { format!("/.{}", url.path()) } else { url.path().to_owned() };
        for (mark, part) in [('?', url.query()), ('#', url.fragment())] {
            if let Some(part) = part {
                local.push(mark);
                local.push_str(part);
            }
        }
        local
    } else if to.starts_with("//") || to.starts_with("\\\\") {
        // Relative to the local address it would lose its TLS.
        url.into()
    } else {
        return;
    };
    if let Ok(value) = HeaderValue::from_str(&local) {
        headers.insert(LOCATION, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_is_of_one_connection_does_not_pass() {
        let sent = headers(&[
            ("host", "127.0.0.1:1234"),
            ("connection", "close, X-Own"),
            ("x-own", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic hush"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("expect", "100-continue"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("accept", "text/plain"),
        ]);
        assert_eq!(request(sent), headers(&[("accept", "text/plain")]));
        let plain = headers(&[("content-length", "7"), ("connection", "content-length")]);
        assert_eq!(request(plain), headers(&[("content-length", "7")]));
        let came = headers(&[("connection", "keep-alive"), ("proxy-authenticate", "Basic"), ("etag", "x")]);
        assert_eq!(response(came), headers(&[("etag", "x")]));
    }

    #[test]
    fn headers_that_tell_a_secret_are_left_out() {
        let mut all =
            headers(&[("x-echo", "Bearer hush!"), ("x-safe", "hus"), ("vary", "a"), ("set-cookie", "k=hush")]);
        all.append("vary", HeaderValue::from_static("hush"));
        leave_out(&mut all, [&b"hush"[..], b""].into_iter());
        assert_eq!(all, headers(&[("x-safe", "hus")]));
    }

    #[test]
    fn only_a_plain_body_can_be_searched_and_the_others_are_named_in_words_of_the_nodes() {
        assert_eq!(coding(&HeaderMap::new()), None);
        for (name, plain) in [
            ("content-encoding", "identity"),
            ("content-encoding", "Identity"),
            ("content-encoding", ""),
            ("transfer-encoding", "chunked"),
            ("transfer-encoding", "identity, Chunked"),
        ] {
            assert_eq!(coding(&headers(&[(name, plain)])), None, "{name}: {plain}");
        }
        for (name, hiding, word) in [
            ("content-encoding", "gzip", "gzip"),
            ("content-encoding", "identity, BR", "br"),
            ("content-encoding", "zstd, identity", "zstd"),
            ("content-encoding", "sk-12345", "another encoding"),
            ("content-encoding", "chunked", "another encoding"),
            ("transfer-encoding", "gzip, chunked", "gzip"),
            ("transfer-encoding", "deflate", "deflate"),
            ("transfer-encoding", "chunked;x=y", "another encoding"),
        ] {
            assert_eq!(coding(&headers(&[(name, hiding)])), Some(word), "{name}: {hiding}");
        }
        let mut two = headers(&[("content-encoding", "identity")]);
        two.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(coding(&two), Some("gzip"), "of several headers each counts");
        two.insert(CONTENT_ENCODING, HeaderValue::from_bytes(b"\xff").expect("a value"));
        assert_eq!(coding(&two), Some("another encoding"), "what is no text is no plain body");
    }

    #[test]
    fn a_redirect_within_the_host_stays_at_the_local_address() {
        let asked: Url = "https://api.example.org/v1/a?b".parse().expect("a URL");
        for (to, local) in [
            ("https://api.example.org/v1/c?d#e", "/v1/c?d#e"),
            ("https://API.example.org:443/", "/"),
            ("https://user@api.example.org/x", "/x"),
            ("//api.example.org/x", "/x"),
            ("/x", "/x"),
            ("x", "/v1/x"),
            ("https://api.example.org//evil.example/", "/.//evil.example/"),
            ("https://api.example.org:8443/", "https://api.example.org:8443/"),
            ("http://api.example.org/", "http://api.example.org/"),
            ("https://other.example/x", "https://other.example/x"),
            ("//other.example/x", "https://other.example/x"),
            ("http://[", "http://["),
        ] {
            let mut all = headers(&[("location", to)]);
            relocate(&mut all, &asked);
            assert_eq!(all[LOCATION], local, "{to}");
        }
        let mut none = HeaderMap::new();
        relocate(&mut none, &asked);
        assert!(none.is_empty());
    }

    #[test]
    fn how_a_message_is_sent_is_no_place_for_a_secret() {
        for name in ["authorization", "x-api-key", "cookie"] {
            assert!(carries_secret(&HeaderName::from_static(name)), "{name}");
        }
        for name in ["host", "connection", "content-length", "transfer-encoding", "expect", "upgrade"] {
            assert!(!carries_secret(&HeaderName::from_static(name)), "{name}");
        }
    }
}

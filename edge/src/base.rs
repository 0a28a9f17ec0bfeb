//! What addresses of a server begin with: what the operator says that the world calls it, or the host that a request names.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;
use axum::http::uri::Authority;

/// Bytes of what an operator may write.
const BYTES_MAX: usize = 512;

/// The beginning of addresses: `https://agents.example.org/mesh`, with no slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    scheme: &'static str,
    authority: String,
    /// Empty, or a path that begins with a slash.
    path: String,
}

/// Why a text is no address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address like https://agents.example.org or https://example.org/mesh: {why}")]
pub struct BaseError {
    text: String,
    why: &'static str,
}

/// Why a text is no origin of a page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no origin like https://app.example.org or app://obsidian.md: {why}")]
pub struct OriginError {
    text: String,
    why: &'static str,
}

impl Base {
    /// That of a server without a path, under the authority that a request names.
    #[must_use]
    pub fn at(is_encrypted: bool, authority: &str) -> Base {
        let scheme = if is_encrypted { "https" } else { "http" };
        Base { scheme, authority: authority.to_owned(), path: String::new() }
    }

    /// The path that stands before those of the server; empty, or it begins with a slash and ends with none.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether what is called there is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.scheme == "https"
    }

    /// What addresses of WebSockets begin with.
    #[must_use]
    pub fn socket(&self) -> String {
        let scheme = if self.is_encrypted() { "wss" } else { "ws" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }

    /// Host and port, as written.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The origin of pages there, as browsers write it.
    pub(crate) fn origin(&self) -> String {
        origin(self.scheme, &self.authority)
    }
}

impl fmt::Display for Base {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

impl FromStr for Base {
    type Err = BaseError;

    fn from_str(text: &str) -> Result<Base, BaseError> {
        let wrong = |why| BaseError { text: text.chars().take(BYTES_MAX).collect(), why };
        if text.len() > BYTES_MAX {
            return Err(wrong("it is longer than 512 bytes"));
        }
        let (scheme, authority, path) = parts(text).map_err(wrong)?;
        let path = path.trim_end_matches('/');
        let is_plain = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !part.is_empty() && part != "." && part != ".." && part.bytes().all(plain)
        };
        if !path.is_empty() && !path.split('/').skip(1).all(is_plain) {
            return Err(wrong("its path has letters, digits and - . _ ~ between single slashes"));
        }
        Ok(Base { scheme, authority, path: path.to_owned() })
    }
}

/// An origin as browsers write it: in lower case, without the usual port. That of a program's own pages, such as
/// `app://obsidian.md` or `chrome-extension://id`, is as it is written.
///
/// # Errors
/// [`OriginError`] where a text is none; `*` and `null` are none, since they stand for anybody, and so do those of files.
pub fn origin_of(text: &str) -> Result<String, OriginError> {
    let wrong = |why| OriginError { text: text.chars().take(BYTES_MAX).collect(), why };
    if matches!(text, "*" | "null") {
        return Err(wrong("it would let pages of anybody in; name each origin"));
    }
    if text.len() > BYTES_MAX {
        return Err(wrong("it is longer than 512 bytes"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(wrong("it begins with a scheme, such as https:// or app://"));
    };
    if !is_web(text) {
        return of_program(scheme, rest).map_err(wrong);
    }
    let (scheme, authority, path) = parts(text).map_err(wrong)?;
    if !path.trim_end_matches('/').is_empty() {
        return Err(wrong("an origin has no path"));
    }
    Ok(origin(scheme, &authority))
}

/// Whether an origin is one of http or https, which are the same in any case of letters.
pub(crate) fn is_web(origin: &str) -> bool {
    let scheme = origin.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// The origin of a program's own pages, which is compared as it is written.
fn of_program(scheme: &str, rest: &str) -> Result<String, &'static str> {
    let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(in_scheme) {
        return Err("it begins with a scheme, such as https:// or app://");
    }
    if scheme.eq_ignore_ascii_case("file") {
        return Err("it would let any file that a browser opens in");
    }
    let host = rest.strip_suffix('/').unwrap_or(rest);
    if host.contains('/') {
        return Err("an origin has no path");
    }
    if host.is_empty() || host.starts_with(':') || host.ends_with(':') {
        return Err("it names a host, and perhaps a port");
    }
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%:[]".contains(&byte)) {
        return Err("it has no user name, no query, no fragment and no *");
    }
    Ok(format!("{scheme}://{host}"))
}

fn origin(scheme: &str, authority: &str) -> String {
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.to_ascii_lowercase();
    format!("{scheme}://{}", authority.strip_suffix(usual).unwrap_or(&authority))
}

/// Scheme, host with port, and path.
fn parts(text: &str) -> Result<(&'static str, String, String), &'static str> {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let scheme = if lower.starts_with("https://") {
        "https"
    } else if lower.starts_with("http://") {
        "http"
    } else {
        return Err("it begins with https:// or http://");
    };
    if text.contains('#') {
        return Err("it has no fragment");
    }
    let uri: Uri = text.parse().map_err(|_| "it cannot be read")?;
    if uri.query().is_some() {
        return Err("it has no query");
    }
    let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
    if authority.contains(['@', '*']) {
        return Err("it has no user name, and no *");
    }
    let host = uri.host().unwrap_or_default();
    let has_port = authority.len() > host.len();
    if host.is_empty() || has_port && uri.port_u16().is_none_or(|port| port == 0) {
        return Err("it names a host, and perhaps a port");
    }
    Ok((scheme, authority.to_owned(), uri.path().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_world_calls_a_server_has_a_host_and_may_have_a_path() {
        for (text, shown, path, socket) in [
            ("https://agents.example.org", "https://agents.example.org", "", "wss://agents.example.org"),
            ("https://agents.example.org/", "https://agents.example.org", "", "wss://agents.example.org"),
            (
                "https://example.org:8443/a/mesh/",
                "https://example.org:8443/a/mesh",
                "/a/mesh",
                "wss://example.org:8443/a/mesh",
            ),
            ("http://[2001:db8::1]:80", "http://[2001:db8::1]:80", "", "ws://[2001:db8::1]:80"),
            ("HTTPS://Example.org", "https://Example.org", "", "wss://Example.org"),
        ] {
            let base: Base = text.parse().expect(text);
            assert_eq!((base.to_string().as_str(), base.path(), base.socket().as_str()), (shown, path, socket));
        }
        for text in [
            "",
            "agents.example.org",
            "ftp://example.org",
            "https://",
            "https:///mesh",
            "https://user@example.org",
            "https://example.org?x=1",
            "https://example.org/#x",
            "https://example.org:",
            "https://example.org:0",
            "https://example.org:99999",
            "https://example.org//mesh",
            "https://example.org/../mesh",
            "https://example.org/{agent}",
            "https://example.org/a b",
            "https://exa mple.org",
        ] {
            let error = text.parse::<Base>().expect_err(text);
            assert!(error.to_string().contains("is no address like https://"), "{error}");
        }
    }

    #[test]
    fn origins_are_compared_as_browsers_write_them() {
        for (text, origin) in [
            ("https://App.example.org", "https://app.example.org"),
            ("https://app.example.org:443", "https://app.example.org"),
            ("http://localhost:6274/", "http://localhost:6274"),
            ("http://127.0.0.1:80", "http://127.0.0.1"),
        ] {
            assert_eq!(origin_of(text).as_deref(), Ok(origin), "{text}");
        }
        for origin in [
            "app://obsidian.md",
            "tauri://localhost",
            "capacitor://localhost:8100",
            "vscode-webview://1ab2cd3ef",
            "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
            "moz-extension://6f1b4f0e-0000-4c1e-9d5a-000000000000",
            "App://Own.Host",
        ] {
            assert_eq!(origin_of(origin).as_deref(), Ok(origin), "it is compared as it is written");
        }
        assert_eq!(origin_of("app://obsidian.md/").as_deref(), Ok("app://obsidian.md"));
        for text in [
            "",
            "*",
            "null",
            "localhost:6274",
            "https://app.example.org/path",
            "file:///x",
            "file://host",
            "https://*.example.org",
            "*://obsidian.md",
            "app://",
            "app://*",
            "app://obsidian.md/x",
            "app://user@obsidian.md",
            "app://obsidian.md?x",
            "app://obsidian.md#x",
            "app://obsidian.md app://other",
            "app:obsidian.md",
            "1app://obsidian.md",
        ] {
            assert!(origin_of(text).is_err(), "{text}");
        }
    }
}

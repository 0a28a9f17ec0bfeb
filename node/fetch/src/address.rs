//! Checks a URL before any connection is made.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

use crate::error::FetchError;

/// The longest URL, bytes.
pub const URL_BYTES_MAX: usize = 2_048;
/// Ports of other protocols, whose servers could misread an HTTP request: those that browsers block (WHATWG Fetch, "bad
/// port").
const BAD_PORTS: [u16; 82] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6379, 6566, 6665, 6667, 6669, 6679, 6697, 10080,
];

/// The host of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An address, in any notation.
    Address(IpAddr),
    /// A name, which has to be resolved.
    Name(String),
}

/// Checks what can be checked without the network.
///
/// # Errors
/// See [`FetchError`].
pub fn host_of(url: &Url) -> Result<Host, FetchError> {
    if url.as_str().len() > URL_BYTES_MAX {
        return Err(FetchError::Url("it is longer than 2,048 bytes"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchError::Url("only http and https are followed"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Url("a name and password stand in it, which can make one host look like another"));
    }
    let port = url.port_or_known_default().unwrap_or_default();
    if BAD_PORTS.contains(&port) {
        return Err(FetchError::Url("its port belongs to another protocol"));
    }
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(FetchError::Url("it names no host"))?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse() {
        Ok(address) => Ok(Host::Address(address)),
        Err(_) => Ok(Host::Name(host.to_owned())),
    }
}

/// The URL of a host and port, so that what is checked of URLs is checked of them.
///
/// # Errors
/// [`FetchError::Url`] where that is no host.
pub(crate) fn url_of(host: &str, port: u16) -> Result<Url, FetchError> {
    const NO_HOST: FetchError = FetchError::Url("it names no host");
    let host = match host.parse::<Ipv6Addr>() {
        Ok(address) => Cow::Owned(format!("[{address}]")),
        Err(_) => Cow::Borrowed(host),
    };
    // What follows a colon would be left out silently.
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(NO_HOST);
    }
    let mut url = Url::parse("https://host.invalid/").map_err(|_| NO_HOST)?;
    url.set_host(Some(&*host)).map_err(|_| NO_HOST)?;
    url.set_port(Some(port)).map_err(|()| NO_HOST)?;
    Ok(url)
}

/// A host as URLs spell it: a name in lower case and in ASCII (IDNA), without a dot at its end; an address in its usual
/// notation, without brackets, whatever notation it came in. Two spellings of one host are equal after this.
///
/// # Errors
/// [`FetchError::Url`] where that is no host.
pub fn spelling(host: &str) -> Result<String, FetchError> {
    match host_of(&url_of(host, 443)?)? {
        Host::Address(address) => Ok(address.to_string()),
        Host::Name(name) => match name.strip_suffix('.').unwrap_or(&name) {
            "" => Err(FetchError::Url("it names no host")),
            bare => Ok(bare.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (spelled, written) in [
            ("api.example.org", &["api.example.org", "API.Example.ORG", "api.example.org.", "ap%69.example.org"][..]),
            ("xn--bcher-kva.example", &["bücher.example", "BÜCHER.example", "xn--bcher-kva.example"]),
            ("127.0.0.1", &["127.0.0.1", "127.1", "0x7f.1", "2130706433", "127.0.0.1."]),
            ("::1", &["::1", "[::1]", "0:0:0:0:0:0:0:1"]),
            ("::ffff:127.0.0.1", &["::ffff:127.0.0.1", "[::ffff:7f00:1]"]),
        ] {
            for one in written {
                assert_eq!(spelling(one).as_deref(), Ok(spelled), "{one}");
            }
        }
        for wrong in ["", ".", "a:80", "[::1", "::1]", "a/b", "a@b", "a b", "a?b", "a#b", "a\\b", "[::1]:80"] {
            assert!(spelling(wrong).is_err(), "{wrong}");
        }
    }
}

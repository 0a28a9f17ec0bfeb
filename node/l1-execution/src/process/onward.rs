//! Where an answer sends whoever asked. Only what keeps the request and the server is followed: another one could be anybody's.

use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode, Url};

/// Characters of an address that are shown.
const SHOWN_CHARS_MAX: usize = 200;

/// Where an answer sends whoever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Onward {
    /// To another place of the same server, with the same request.
    Here(String),
    /// To another server, or with another request; where, for people.
    Elsewhere(String),
}

impl Onward {
    /// Where this answer sends, if it does.
    pub fn of(answer: &Response) -> Option<Onward> {
        let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        Onward::read(answer.url(), answer.status(), location)
    }

    fn read(from: &Url, status: StatusCode, location: Option<&str>) -> Option<Onward> {
        let keeps_request = match status.as_u16() {
            307 | 308 => true,
            301..=303 => false,
            _ => return None,
        };
        let Some(mut to) = location.and_then(|location| from.join(location).ok()) else {
            return Some(Onward::Elsewhere("a place that it does not name".to_owned()));
        };
        // Neither a fragment nor credentials of a stranger are sent; an error means that the address can have none.
        to.set_fragment(None);
        let _ = (to.set_username(""), to.set_password(None));
        if keeps_request && to.origin() == from.origin() {
            return Some(Onward::Here(to.into()));
        }
        // It may be a secret of somebody's session.
        to.set_query(None);
        Some(Onward::Elsewhere(to.as_str().chars().take(SHOWN_CHARS_MAX).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_request_at_the_same_server_is_followed() {
        let from: Url = "https://a.example/agent".parse().expect("an address");
        let read = |status: u16, location: Option<&str>| {
            Onward::read(&from, StatusCode::from_u16(status).expect("a status"), location)
        };
        let here = |place: &str| Some(Onward::Here(place.to_owned()));
        let elsewhere = |place: &str| Some(Onward::Elsewhere(place.to_owned()));
        for status in [307, 308] {
            assert_eq!(read(status, Some("/agent/?a=1#b")), here("https://a.example/agent/?a=1"));
            assert_eq!(read(status, Some("https://u:p@a.example:443/x")), here("https://a.example/x"));
            assert_eq!(read(status, Some("http://a.example/agent/?key=1")), elsewhere("http://a.example/agent/"));
            assert_eq!(read(status, Some("https://a.example:8443/")), elsewhere("https://a.example:8443/"));
            assert_eq!(read(status, Some("//b.example/")), elsewhere("https://b.example/"));
            assert!(matches!(read(status, None), Some(Onward::Elsewhere(_))));
        }
        for status in [301, 302, 303] {
            assert_eq!(read(status, Some("/agent/")), elsewhere("https://a.example/agent/"));
        }
        for status in [200, 201, 300, 304, 404] {
            assert_eq!(read(status, Some("/agent/")), None);
        }
    }
}

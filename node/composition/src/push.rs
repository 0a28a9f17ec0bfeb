//! Sends push notifications: by the guarded fetch, signed with the node's key.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Notification, PostError, Postman};
use althing_communication::WallClock;
use althing_discovery::{Fetch, FetchError, Given, Net, SystemResolver, Url};
use althing_protocol::{Label, SecretKey, digest, hex};
use althing_td::sign_jwt;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a signature is valid, seconds: a receiver's clock may be wrong by some minutes.
const VALID_S: u64 = 300;
/// What a receiver answers that takes no notifications any more.
const GONE: u16 = 410;

/// What a receiver answers that may take the same later: it was too slow, too early, or asked too often.
const AGAIN: [u16; 3] = [408, 425, 429];

/// Sends push notifications.
pub(crate) struct Post {
    fetch: Fetch,
    key: SecretKey,
    clock: WallClock,
}

impl Post {
    /// To the internet, and into `nets`; signed with `key`.
    pub fn new(nets: Vec<Net>, key: SecretKey, clock: WallClock) -> Result<Post, FetchError> {
        Ok(Post { fetch: Fetch::new(nets, Arc::new(SystemResolver))?, key, clock })
    }

    async fn send(&self, notification: Notification) -> Result<(), PostError> {
        let url = read(&notification.url)?;
        let token = sign_jwt(&claims(&self.key, &url, &notification, self.clock.now_ms() / 1_000), &self.key);
        let mut headers = vec![
            ("content-type", "application/a2a+json".to_owned()),
            ("a2a-version", "1.0".to_owned()),
            ("x-a2a-notification-signature", token),
        ];
        headers.extend(notification.label.map(|label| ("althing-label", field(label))));
        headers.extend(notification.token.map(|token| ("x-a2a-notification-token", token)));
        headers.extend(notification.authorization.map(|credentials| ("authorization", credentials)));
        let posted = self.fetch.post(&url, Given::Stranger, &headers, notification.body, PATIENCE).await;
        let (status, leads_to) = posted.map_err(|error| PostError::Failed(error.to_string()))?;
        judge(status, leads_to.as_ref())
    }
}

/// What an answer says, and where it leads.
fn judge(status: u16, leads_to: Option<&Url>) -> Result<(), PostError> {
    match status {
        200..300 => Ok(()),
        GONE => Err(PostError::Gone),
        // The notification is for whoever was named, also where the other address is of the same origin: what is there knows
        // nothing of the signature's audience.
        300..400 => Err(PostError::Moved { status, to: leads_to.map(address) }),
        // What may be otherwise in a moment is no refusal.
        400..500 if !AGAIN.contains(&status) => Err(PostError::Rejected(status)),
        _ => Err(PostError::Failed(format!("it answered {status}"))),
    }
}

/// An address for the log: without what may be a secret.
fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Only an address without a host has no place for these.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// What the signature says: who sends what to whom, and when.
fn claims(key: &SecretKey, url: &Url, notification: &Notification, now_s: u64) -> Value {
    let mut claims = json!({
        "iss": key.public().did(),
        "aud": url.as_str(),
        "iat": now_s,
        "exp": now_s + VALID_S,
        "jti": notification.id,
        "taskId": notification.task,
        "request_body_sha256": hex(&digest(&notification.body)),
    });
    if let Some(label) = notification.label {
        claims["label"] = json!(label);
    }
    claims
}

/// A label as a structured field (RFC 9651, a dictionary).
fn field(label: Label) -> String {
    format!("level={}, trusted=?{}", label.level.name(), u8::from(label.trusted))
}

fn read(url: &str) -> Result<Url, PostError> {
    Url::parse(url).map_err(|_| PostError::Unfit("it is no address such as https://example.org/hook".to_owned()))
}

impl Postman for Post {
    fn permits<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PostError>> {
        async move {
            self.fetch.permits(&read(url)?).await.map_err(|error| match error {
                FetchError::Url(why) => PostError::Unfit(why.to_owned()),
                error => PostError::Refused(error.to_string()),
            })
        }
        .boxed()
    }

    fn post(&self, notification: Notification) -> BoxFuture<'_, Result<(), PostError>> {
        self.send(notification).boxed()
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::DataLabel;

    use super::*;

    #[test]
    fn a_label_is_told_in_a_header_and_signed() {
        let url = read("https://hooks.example.org").expect("an address");
        let key = SecretKey::from_seed(&[1; 32]);
        let label = Label { level: DataLabel::Confidential, trusted: false };
        let notification = |label| Notification {
            url: url.to_string(),
            token: None,
            authorization: None,
            id: "t-1".to_owned(),
            task: "t".to_owned(),
            label,
            body: Vec::new(),
        };
        let claimed = |label| claims(&key, &url, &notification(label), 7)["label"].clone();
        assert_eq!(claimed(Some(label)), json!({ "level": "confidential", "trusted": false }));
        assert_eq!(claimed(None), Value::Null);
        assert_eq!(field(label), "level=confidential, trusted=?0");
        assert_eq!(field(Label::of_trusted(DataLabel::Public)), "level=public, trusted=?1");
    }

    #[test]
    fn a_redirect_is_a_failure_that_names_the_address_to_configure() {
        let to = Url::parse("https://user:secret@hooks.example.org/new?token=secret#x").expect("an address");
        for status in [300, 301, 302, 303, 307, 308] {
            let moved = judge(status, Some(&to)).expect_err("nobody took it");
            assert_eq!(moved, PostError::Moved { status, to: Some("https://hooks.example.org/new".to_owned()) });
            assert_eq!(moved.is_final(), matches!(status, 301 | 308), "{status}");
            let said = moved.to_string();
            assert!(
                said.contains(&status.to_string()) && said.contains("`url` to https://hooks.example.org/new"),
                "{said}"
            );
            let nowhere = judge(status, None).expect_err("nobody took it").to_string();
            assert!(nowhere.contains("does not say where"), "{nowhere}");
        }
    }

    #[test]
    fn what_may_be_taken_later_is_no_refusal() {
        for status in [200, 202, 204] {
            assert_eq!(judge(status, None), Ok(()));
        }
        assert_eq!(judge(410, None), Err(PostError::Gone));
        for (status, is_final) in
            [(400, true), (404, true), (408, false), (425, false), (429, false), (500, false), (503, false)]
        {
            assert_eq!(judge(status, None).expect_err("it was not taken").is_final(), is_final, "{status}");
        }
    }
}

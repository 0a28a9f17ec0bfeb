//! Sends push notifications: by the guarded fetch, signed with the node's key.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Notification, PostError, Postman};
use althing_communication::WallClock;
use althing_discovery::{Fetch, FetchError, Given, Net, SystemResolver, Url};
use althing_protocol::{SecretKey, digest, hex};
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
        headers.extend(notification.token.map(|token| ("x-a2a-notification-token", token)));
        headers.extend(notification.authorization.map(|credentials| ("authorization", credentials)));
        let posted = self.fetch.post(&url, Given::Stranger, &headers, notification.body, PATIENCE).await;
        match posted.map_err(|error| PostError::Failed(error.to_string()))? {
            200..300 => Ok(()),
            GONE => Err(PostError::Gone),
            // What may be otherwise in a moment is no refusal.
            status @ 400..500 if !AGAIN.contains(&status) => Err(PostError::Rejected(status)),
            status => Err(PostError::Failed(format!("it answered {status}"))),
        }
    }
}

/// What the signature says: who sends what to whom, and when.
fn claims(key: &SecretKey, url: &Url, notification: &Notification, now_s: u64) -> Value {
    json!({
        "iss": key.public().did(),
        "aud": url.as_str(),
        "iat": now_s,
        "exp": now_s + VALID_S,
        "jti": notification.id,
        "taskId": notification.task,
        "request_body_sha256": hex(&digest(&notification.body)),
    })
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

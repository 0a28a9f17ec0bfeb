//! What sends notifications.

use althing_protocol::Label;
use futures::future::BoxFuture;

/// One notification, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Where to.
    pub url: String,
    /// The client's own token, by which it knows its task.
    pub token: Option<String>,
    /// The `Authorization` that the receiver asks for.
    pub authorization: Option<String>,
    /// The same at each attempt to deliver it.
    pub id: String,
    /// The task.
    pub task: String,
    /// The label of all that the task holds by now, which is no lower than that of what is sent; none where nothing is known of it.
    pub label: Option<Label>,
    /// A `StreamResponse` as JSON.
    pub body: Vec<u8>,
}

/// Why a notification was not taken. It is for the log: it may tell what is in this node's private nets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// No notification may be sent there.
    #[error("no notification is sent there: {0}")]
    Refused(String),
    /// The address itself is wrong, wherever it leads: this tells nothing of any net.
    #[error("no notification is sent there: {0}")]
    Unfit(String),
    /// The receiver refuses this notification, and will again (HTTP 4xx).
    #[error("its receiver answered {0}")]
    Rejected(u16),
    /// The receiver is elsewhere (HTTP 3xx), where nobody said that notifications may go.
    #[error("its receiver answered {status}, and redirects are not followed: {}", where_to(.to.as_deref()))]
    Moved {
        /// The status.
        status: u16,
        /// The address to configure, if it says one: without a query, which may hold a secret.
        to: Option<String>,
    },
    /// The receiver does not exist any more (HTTP 410).
    #[error("the receiver says that it is gone")]
    Gone,
    /// It was not taken; a later attempt may succeed.
    #[error("it was not taken: {0}")]
    Failed(String),
}

/// What to do about a redirect.
fn where_to(address: Option<&str>) -> String {
    match address {
        Some(address) => format!("set the configuration's `url` to {address}"),
        None => "it does not say where to".to_owned(),
    }
}

impl PostError {
    /// Whether the same would be answered again: the receiver refuses the notification, or moved for good.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, PostError::Rejected(_) | PostError::Moved { status: 301 | 308, .. })
    }
}

/// Sends notifications.
pub trait Postman: Send + Sync {
    /// Whether notifications may be sent to a URL.
    fn permits<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PostError>>;

    /// Sends one; it is taken once this completes.
    fn post(&self, notification: Notification) -> BoxFuture<'_, Result<(), PostError>>;
}

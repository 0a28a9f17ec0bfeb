//! A transport that handles what servers say of their tools and calls in order: the client of the SDK passes notifications and
//! requests to tasks of their own, so an answer that came later could be used before them.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};

use crate::exchange::Exchange;

/// The method of a notification of progress.
const PROGRESS: &str = "notifications/progress";

/// Counts notifications of changed tools, passes on those of progress, and notes to which calls answers and questions belong,
/// before the messages after them are delivered.
pub(crate) struct Watched<T> {
    inner: T,
    epoch: Arc<AtomicU64>,
    exchange: Exchange,
}

impl<T> Watched<T> {
    pub fn new(inner: T, epoch: Arc<AtomicU64>, exchange: Exchange) -> Watched<T> {
        Watched { inner, epoch, exchange }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.exchange.questions.sends(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut received = self.inner.receive().await?;
        self.exchange.questions.received(&mut received);
        if let JsonRpcMessage::Notification(notification) = &received {
            match &notification.notification {
                ServerNotification::ToolListChangedNotification(_) => {
                    self.epoch.fetch_add(1, Ordering::SeqCst);
                }
                ServerNotification::ProgressNotification(progress) => self.exchange.news.tell(&json!(progress.params)),
                // One that the library could not read.
                ServerNotification::CustomNotification(odd) if odd.method == PROGRESS => {
                    self.exchange.news.tell(odd.params.as_ref().unwrap_or(&Value::Null));
                }
                _ => {}
            }
        }
        Some(received)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

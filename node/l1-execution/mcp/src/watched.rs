//! A transport that handles change notifications in order: the client of the SDK passes them to a task of its own, so an
//! answer that came later could be used before the notification is handled.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::news::News;

/// Counts notifications of changed tools, and passes on those of progress, before the messages after them are delivered.
pub(crate) struct Watched<T> {
    inner: T,
    epoch: Arc<AtomicU64>,
    news: Arc<News>,
}

impl<T> Watched<T> {
    pub fn new(inner: T, epoch: Arc<AtomicU64>, news: Arc<News>) -> Watched<T> {
        Watched { inner, epoch, news }
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
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let received = self.inner.receive().await?;
        if let JsonRpcMessage::Notification(notification) = &received {
            match &notification.notification {
                ServerNotification::ToolListChangedNotification(_) => {
                    self.epoch.fetch_add(1, Ordering::SeqCst);
                }
                ServerNotification::ProgressNotification(progress) => self.news.tell(&progress.params),
                _ => {}
            }
        }
        Some(received)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

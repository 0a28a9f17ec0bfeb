//! How far calls are, as their servers tell it: in order, and before the answers that follow.

use std::sync::Mutex;

use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken};
use tokio::sync::mpsc;

/// Notifications of progress that wait for one call: more than a caller leaves unread by far.
const WAITING_MAX: usize = 4_096;
/// Bytes of what a notification says.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// Where the calls of a server listen.
#[derive(Debug, Default)]
pub struct News(Mutex<Vec<mpsc::Sender<ProgressNotificationParam>>>);

impl News {
    /// What is told from now on, of all calls: a call learns its token only when it was sent.
    pub fn listen(&self) -> mpsc::Receiver<ProgressNotificationParam> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let mut all = self.lock();
        all.retain(|one| !one.is_closed());
        all.push(sender);
        receiver
    }

    /// Tells all calls.
    pub fn tell(&self, told: &ProgressNotificationParam) {
        let mut told = told.clone();
        if let Some(message) = &mut told.message {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        }
        // One whose caller does not read misses what is too much; nobody else waits for it.
        self.lock().retain(|one| !matches!(one.try_send(told.clone()), Err(mpsc::error::TrySendError::Closed(_))));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::Sender<ProgressNotificationParam>>> {
        self.0.lock().expect("no holder of the listeners panics")
    }
}

/// A token, whether its server writes the number back as a number or as a text.
pub fn token(token: &ProgressToken) -> String {
    match &token.0 {
        NumberOrString::Number(number) => number.to_string(),
        NumberOrString::String(text) => text.to_string(),
    }
}

//! A value that others follow. As tokio's, but that it wakes them in the order in which they began to wait: tokio draws the
//! order from a generator that nobody can seed, and a simulation must decide the same twice.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::Notify;

/// Changes the value.
pub struct Sender<T>(Arc<Shared<T>>);

/// Follows the value.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the last change that was seen.
    seen: u64,
}

struct Shared<T> {
    value: RwLock<T>,
    /// How often it was changed; only while the value is locked.
    changes: AtomicU64,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    changed: Notify,
}

/// No sender is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl<T> Shared<T> {
    /// A panic leaves the value as whole as it was.
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value, unless the closure says that it did not; wakes all that wait.
    fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut value = self.value.write().unwrap_or_else(PoisonError::into_inner);
            if !change(&mut value) {
                return false;
            }
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        self.changed.notify_waiters();
        true
    }
}

/// A value that is `first` at first.
pub fn channel<T>(first: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        value: RwLock::new(first),
        changes: AtomicU64::new(0),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        changed: Notify::new(),
    });
    (Sender(shared.clone()), Receiver { shared, seen: 0 })
}

impl<T> Sender<T> {
    /// Follows it from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.fetch_add(1, Ordering::SeqCst);
        let _value = self.0.read();
        Receiver { shared: self.0.clone(), seen: self.0.changes.load(Ordering::SeqCst) }
    }

    /// Changes it in place.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Changes it, unless `change` says that it did not.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        self.0.change(change)
    }

    /// The value.
    pub fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.0.read()
    }

    /// How many follow it.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.0.receivers.load(Ordering::SeqCst)
    }
}

impl<T> Receiver<T> {
    /// Waits for a change that was not seen yet, and counts the last one as seen.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Made first, so that a change in between wakes it.
            let changed = self.shared.changed.notified();
            let changes = self.shared.changes.load(Ordering::SeqCst);
            if changes != self.seen {
                self.seen = changes;
                return Ok(());
            }
            if self.shared.senders.load(Ordering::SeqCst) == 0 {
                return Err(Closed);
            }
            changed.await;
        }
    }

    /// Whether there is a change that was not seen yet.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.shared.changes.load(Ordering::SeqCst) != self.seen
    }

    /// The value; the last change counts as seen or not, as before.
    pub fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.shared.read()
    }

    /// The value; its last change counts as seen.
    pub fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value.read().unwrap_or_else(PoisonError::into_inner);
        self.seen = self.shared.changes.load(Ordering::SeqCst);
        value
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.senders.fetch_add(1, Ordering::SeqCst);
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.receivers.fetch_add(1, Ordering::SeqCst);
        Receiver { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn it_wakes_in_the_order_in_which_they_began_to_wait() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waiting: Vec<_> = (0..40)
            .map(|number| {
                let (mut receiver, woken) = (receiver.clone(), woken.clone());
                tokio::spawn(async move {
                    receiver.changed().await.expect("the sender is there");
                    woken.lock().expect("no panic").push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        sender.send_modify(|value| *value += 1);
        for one in waiting {
            one.await.expect("no panic");
        }
        assert_eq!(*woken.lock().expect("no panic"), (0..40).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_was_seen_is_not_told_again_and_the_end_is() {
        let (sender, mut receiver) = channel(0);
        sender.send_modify(|value| *value = 1);
        sender.send_modify(|value| *value = 2);
        assert_eq!(receiver.changed().await, Ok(()), "both at once");
        let waiting = tokio::spawn(async move { (receiver.changed().await, receiver) });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let mut late = sender.subscribe();
        drop(sender);
        assert_eq!(waiting.await.expect("no panic").0, Err(Closed));
        assert_eq!(late.changed().await, Err(Closed));
    }
}

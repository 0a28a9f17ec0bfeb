//! The values that the consensus follows are woken in order: its library takes them by these traits.

use std::sync::RwLockReadGuard;

use althing_communication::watch::Closed;
pub use althing_communication::watch::{Receiver, Sender, channel};
use openraft::rt::watch::{self, RecvError, SendError};
use openraft::{OptionalSend, OptionalSync};

/// Makes [`Sender`]s and [`Receiver`]s.
pub struct Watch;

impl watch::Watch for Watch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = RwLockReadGuard<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(first: T) -> (Sender<T>, Receiver<T>) {
        channel(first)
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchSender<Watch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.receiver_count() == 0 {
            return Err(SendError(value));
        }
        self.send_modify(|present| *present = value);
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        Sender::send_if_modified(self, modify)
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        Sender::subscribe(self)
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchReceiver<Watch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        Receiver::changed(self).await.map_err(|Closed| RecvError(()))
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.borrow()
    }

    fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        Receiver::borrow_and_update(self)
    }
}

//! A behaviour whose connection handlers are boxed and polled only when they were woken; optionally with a rate limit on their
//! events.
//!
//! libp2p stores the handlers of all behaviours in the task of a connection, twice: as the task's argument and in its state. All
//! of ours together are 5.8 KiB for each connection of a node. And each event of a connection polls all of them, although most
//! have nothing to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::handler::ConnectionEvent;
use libp2p::swarm::{
    ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm, NetworkBehaviour,
    SubstreamProtocol, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};

use crate::event_throttle::EventThrottle;

/// The behaviour `B`, and the events a second of each of its handlers.
pub(crate) struct WakeDriven<B>(pub B, Option<u32>);

impl<B> WakeDriven<B> {
    /// `behaviour` without a rate limit.
    pub fn new(behaviour: B) -> WakeDriven<B> {
        WakeDriven(behaviour, None)
    }

    /// `behaviour`, each handler of which emits at most that many events a second.
    pub fn throttled(behaviour: B, per_second: u32) -> WakeDriven<B> {
        WakeDriven(behaviour, Some(per_second))
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for WakeDriven<B> {
    type ConnectionHandler = WakeDrivenHandler<THandler<B>>;
    type ToSwarm = B::ToSwarm;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.0.handle_pending_inbound_connection(connection, local, remote)
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let part = self.0.handle_established_inbound_connection(connection, peer, local, remote)?;
        Ok(WakeDrivenHandler::new(part, self.1))
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        self.0.handle_pending_outbound_connection(connection, peer, addresses, role)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let part = self.0.handle_established_outbound_connection(connection, peer, address, role, port)?;
        Ok(WakeDrivenHandler::new(part, self.1))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.0.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, connection: ConnectionId, event: THandlerOutEvent<Self>) {
        self.0.on_connection_handler_event(peer, connection, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.0.poll(cx)
    }
}

/// Its handler on one connection.
pub(crate) struct WakeDrivenHandler<H> {
    inner: Box<H>,
    throttle: Option<Box<EventThrottle>>,
    signal: Arc<Signal>,
    /// It was given an event, or emitted one, since the last poll.
    due: bool,
    /// The waker that `signal` wakes.
    task: Option<Waker>,
}

/// Whether the handler was woken, and the waker of the connection's task.
#[derive(Default)]
struct Signal {
    woken: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        if let Some(task) = self.task.lock().expect("no holder of a waker panics").as_ref() {
            task.wake_by_ref();
        }
    }
}

impl<H> WakeDrivenHandler<H> {
    fn new(inner: H, per_second: Option<u32>) -> WakeDrivenHandler<H> {
        let throttle = per_second.map(|per_second| Box::new(EventThrottle::new(per_second)));
        WakeDrivenHandler { inner: Box::new(inner), throttle, signal: Arc::default(), due: true, task: None }
    }

    /// Must it be polled? From here on, waking it wakes `task`.
    fn is_due(&mut self, task: &Waker) -> bool {
        if self.task.as_ref().is_none_or(|known| !known.will_wake(task)) {
            self.task = Some(task.clone());
            *self.signal.task.lock().expect("no holder of a waker panics") = Some(task.clone());
        }
        // A wake-up from here on wakes the task again.
        self.signal.woken.swap(false, Ordering::AcqRel) || self.due
    }
}

impl<H: ConnectionHandler> ConnectionHandler for WakeDrivenHandler<H> {
    type FromBehaviour = H::FromBehaviour;
    type ToBehaviour = H::ToBehaviour;
    type InboundProtocol = H::InboundProtocol;
    type OutboundProtocol = H::OutboundProtocol;
    type InboundOpenInfo = H::InboundOpenInfo;
    type OutboundOpenInfo = H::OutboundOpenInfo;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol, Self::InboundOpenInfo> {
        self.inner.listen_protocol()
    }

    fn connection_keep_alive(&self) -> bool {
        self.inner.connection_keep_alive()
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Self::OutboundProtocol, Self::OutboundOpenInfo, Self::ToBehaviour>> {
        if !self.is_due(cx.waker()) {
            return Poll::Pending;
        }
        let waker = Waker::from(self.signal.clone());
        let cx = &mut Context::from_waker(&waker);
        // A throttled handler is woken when it may emit its next event.
        self.due = false;
        if let Some(throttle) = &mut self.throttle {
            ready!(throttle.poll_ready(cx));
        }
        let outcome = self.inner.poll(cx);
        self.due = outcome.is_ready();
        if let (Some(throttle), Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(_))) =
            (&mut self.throttle, &outcome)
        {
            throttle.on_event();
        }
        outcome
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<Self::ToBehaviour>> {
        self.inner.poll_close(cx)
    }

    fn on_behaviour_event(&mut self, event: Self::FromBehaviour) {
        self.due = true;
        self.inner.on_behaviour_event(event);
    }

    fn on_connection_event(
        &mut self,
        event: ConnectionEvent<
            '_,
            Self::InboundProtocol,
            Self::OutboundProtocol,
            Self::InboundOpenInfo,
            Self::OutboundOpenInfo,
        >,
    ) {
        self.due = true;
        self.inner.on_connection_event(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::task::noop_waker;
    use libp2p::core::upgrade::DeniedUpgrade;
    use tokio::time::Instant;

    use super::*;

    /// Counts its polls, and emits each event that it was given.
    #[derive(Default)]
    struct Part {
        polled: usize,
        wants: Vec<u8>,
        waker: Option<Waker>,
    }

    impl ConnectionHandler for Part {
        type FromBehaviour = u8;
        type ToBehaviour = u8;
        type InboundProtocol = DeniedUpgrade;
        type OutboundProtocol = DeniedUpgrade;
        type InboundOpenInfo = ();
        type OutboundOpenInfo = ();

        fn listen_protocol(&self) -> SubstreamProtocol<DeniedUpgrade, ()> {
            SubstreamProtocol::new(DeniedUpgrade, ())
        }

        fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<DeniedUpgrade, (), u8>> {
            self.polled += 1;
            self.waker = Some(cx.waker().clone());
            self.wants.pop().map_or(Poll::Pending, |said| Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(said)))
        }

        fn on_behaviour_event(&mut self, told: u8) {
            self.wants.push(told);
        }

        fn on_connection_event(&mut self, _: ConnectionEvent<'_, DeniedUpgrade, DeniedUpgrade>) {}
    }

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(handler: &mut WakeDrivenHandler<Part>, waker: &Waker) -> Option<u8> {
        match handler.poll(&mut Context::from_waker(waker)) {
            Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(said)) => Some(said),
            Poll::Ready(_) => unreachable!("it says nothing else"),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_handler_is_polled_when_it_was_woken_and_not_otherwise() {
        let mut handler = WakeDrivenHandler::new(Part::default(), None);
        let task = Arc::new(Task::default());
        let waker = Waker::from(task.clone());
        for _ in 0..3 {
            assert_eq!(poll(&mut handler, &waker), None);
        }
        assert_eq!(handler.inner.polled, 1, "once, at the start");
        handler.on_behaviour_event(1);
        handler.on_behaviour_event(2);
        assert_eq!([(); 4].map(|()| poll(&mut handler, &waker)), [Some(2), Some(1), None, None]);
        assert_eq!(handler.inner.polled, 4, "until it has no more events");
        handler.inner.wants.push(3);
        assert_eq!(poll(&mut handler, &waker), None, "nothing woke it");
        handler.inner.waker.clone().expect("was polled").wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut handler, &waker), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_throttled_to_their_rate() {
        let mut handler = WakeDrivenHandler::new(Part::default(), Some(10));
        for said in 0..100 {
            handler.on_behaviour_event(said);
        }
        let begun = Instant::now();
        let mut heard = Vec::new();
        for _ in 0..100 {
            let said = std::future::poll_fn(|cx| handler.poll(cx)).await;
            assert!(matches!(said, ConnectionHandlerEvent::NotifyBehaviour(_)));
            heard.push(begun.elapsed().as_millis());
        }
        assert_eq!(heard[20], 0, "twice as many as in a second at once");
        // A timer has steps of a millisecond.
        assert!((7_900..8_100).contains(heard.last().expect("some")), "{heard:?}");
        assert!(handler.inner.polled <= 101, "it is not polled in vain");
    }

    #[test]
    fn the_last_waker_is_woken() {
        let mut handler = WakeDrivenHandler::new(Part::default(), None);
        let (before, after) = (Arc::new(Task::default()), Arc::new(Task::default()));
        assert_eq!(poll(&mut handler, &Waker::from(before.clone())), None);
        assert_eq!(poll(&mut handler, &Waker::from(after.clone())), None);
        handler.inner.waker.clone().expect("was polled").wake();
        assert_eq!((before.0.load(Ordering::Relaxed), after.0.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(poll(&mut handler, &noop_waker()), None);
        assert_eq!(handler.inner.polled, 2);
    }
}

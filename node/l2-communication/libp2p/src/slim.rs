//! A behaviour whose part on each connection is kept behind a pointer, and polled when something is to be done; and no more
//! often than it may be heard.
//!
//! libp2p holds the parts of all behaviours in the task of a connection, and twice so: once as what the task was given, and
//! once where it uses them. All of ours together are 5.8 KiB, for each connection of a node. And whatever happens on a
//! connection has it poll all of them, most of which have nothing to do with it.

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

use crate::paced::Pace;

/// The behaviour `B`, and how often a second a part of it is heard.
pub(crate) struct Slim<B>(pub B, Option<u32>);

impl<B> Slim<B> {
    /// `behaviour`, whose parts are heard whenever they have something to say.
    pub fn new(behaviour: B) -> Slim<B> {
        Slim(behaviour, None)
    }

    /// `behaviour`, each part of which is heard that often a second.
    pub fn paced(behaviour: B, a_second: u32) -> Slim<B> {
        Slim(behaviour, Some(a_second))
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for Slim<B> {
    type ConnectionHandler = SlimHandler<THandler<B>>;
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
        Ok(SlimHandler::new(part, self.1))
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
        Ok(SlimHandler::new(part, self.1))
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

/// The part of it on one connection.
pub(crate) struct SlimHandler<H> {
    inner: Box<H>,
    pace: Option<Box<Pace>>,
    signal: Arc<Signal>,
    /// It was told something, or had something to say, since it was polled last.
    due: bool,
    /// Whom `signal` wakes.
    task: Option<Waker>,
}

/// That it wants to be polled, and who is to do that.
#[derive(Default)]
struct Signal {
    given: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.given.store(true, Ordering::Release);
        if let Some(task) = self.task.lock().expect("no holder of a waker panics").as_ref() {
            task.wake_by_ref();
        }
    }
}

impl<H> SlimHandler<H> {
    fn new(inner: H, a_second: Option<u32>) -> SlimHandler<H> {
        let pace = a_second.map(|a_second| Box::new(Pace::new(a_second)));
        SlimHandler { inner: Box::new(inner), pace, signal: Arc::default(), due: true, task: None }
    }

    /// Has it anything to do? From here on, `task` is woken when it has.
    fn is_due(&mut self, task: &Waker) -> bool {
        if self.task.as_ref().is_none_or(|known| !known.will_wake(task)) {
            self.task = Some(task.clone());
            *self.signal.task.lock().expect("no holder of a waker panics") = Some(task.clone());
        }
        // Whatever is given from now on wakes the task again.
        self.signal.given.swap(false, Ordering::AcqRel) || self.due
    }
}

impl<H: ConnectionHandler> ConnectionHandler for SlimHandler<H> {
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
        // It is polled again when its turn has come.
        self.due = false;
        if let Some(pace) = &mut self.pace {
            ready!(pace.poll_turn(cx));
        }
        let outcome = self.inner.poll(cx);
        self.due = outcome.is_ready();
        if let (Some(pace), Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(_))) = (&mut self.pace, &outcome) {
            pace.spend();
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

    /// Counts how often it is polled, and has as much to say as it was told.
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

    fn poll(handler: &mut SlimHandler<Part>, waker: &Waker) -> Option<u8> {
        match handler.poll(&mut Context::from_waker(waker)) {
            Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(said)) => Some(said),
            Poll::Ready(_) => unreachable!("it says nothing else"),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_part_is_polled_when_it_has_something_to_do_and_not_otherwise() {
        let mut handler = SlimHandler::new(Part::default(), None);
        let task = Arc::new(Task::default());
        let waker = Waker::from(task.clone());
        for _ in 0..3 {
            assert_eq!(poll(&mut handler, &waker), None);
        }
        assert_eq!(handler.inner.polled, 1, "once, to be heard of");
        handler.on_behaviour_event(1);
        handler.on_behaviour_event(2);
        assert_eq!([(); 4].map(|()| poll(&mut handler, &waker)), [Some(2), Some(1), None, None]);
        assert_eq!(handler.inner.polled, 4, "until it has said all");
        handler.inner.wants.push(3);
        assert_eq!(poll(&mut handler, &waker), None, "nobody said so");
        handler.inner.waker.clone().expect("was polled").wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut handler, &waker), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_much_to_say_is_heard_at_its_pace() {
        let mut handler = SlimHandler::new(Part::default(), Some(10));
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
        assert!(handler.inner.polled <= 101, "it is not asked in vain");
    }

    #[test]
    fn whoever_polled_last_is_woken() {
        let mut handler = SlimHandler::new(Part::default(), None);
        let (before, after) = (Arc::new(Task::default()), Arc::new(Task::default()));
        assert_eq!(poll(&mut handler, &Waker::from(before.clone())), None);
        assert_eq!(poll(&mut handler, &Waker::from(after.clone())), None);
        handler.inner.waker.clone().expect("was polled").wake();
        assert_eq!((before.0.load(Ordering::Relaxed), after.0.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(poll(&mut handler, &noop_waker()), None);
        assert_eq!(handler.inner.polled, 2);
    }
}

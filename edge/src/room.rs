//! Room for bodies: how many bytes of them are in memory at one time, in all and from each origin. The limit of one body and
//! that of connections do not bound their product.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::peer::Peer;

/// The room of one server: an extension of each of its requests.
#[derive(Clone)]
pub(crate) struct BodyRoom {
    held: Arc<Mutex<Held>>,
    max: usize,
    of_origin: usize,
}

/// Bytes of bodies that are in memory.
#[derive(Default)]
struct Held {
    all: usize,
    origins: BTreeMap<String, usize>,
}

/// What one body takes of the room; it is free again when this is dropped.
pub(crate) struct Portion {
    room: BodyRoom,
    /// None where a proxy may stand for many.
    origin: Option<String>,
    bytes: usize,
}

impl BodyRoom {
    /// So many bytes in all, and from one origin.
    pub fn of(max: usize, of_origin: usize) -> BodyRoom {
        BodyRoom { held: Arc::default(), max, of_origin }
    }

    /// Nothing yet, for a body that comes from there. A site of IPv6 counts as one origin: who has it has all of its nets.
    pub fn portion(&self, peer: Option<Peer>) -> Portion {
        Portion { room: self.clone(), origin: peer.and_then(Peer::origin), bytes: 0 }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no holder panics")
    }
}

impl Portion {
    /// Takes so many bytes more, if there is room for them.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let mut held = self.room.held();
        let all = held.all.saturating_add(bytes);
        if all > self.room.max {
            return false;
        }
        if let Some(origin) = &self.origin {
            let of_origin = held.origins.get(origin).copied().unwrap_or_default().saturating_add(bytes);
            if of_origin > self.room.of_origin {
                return false;
            }
            held.origins.insert(origin.clone(), of_origin);
        }
        held.all = all;
        self.bytes += bytes;
        true
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let mut held = self.room.held();
        held.all = held.all.saturating_sub(self.bytes);
        let Some(origin) = &self.origin else { return };
        let left = held.origins.get(origin).map_or(0, |bytes| bytes.saturating_sub(self.bytes));
        if left == 0 {
            held.origins.remove(origin);
        } else {
            held.origins.insert(origin.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Option<Peer> {
        Some(Peer(address.parse().expect("an address")))
    }

    /// SR-8
    #[test]
    fn no_origin_takes_more_than_its_share_and_all_together_no_more_than_there_is() {
        let room = BodyRoom::of(100, 40);
        let mut one = room.portion(from("192.0.2.1"));
        assert!(one.grow(30) && one.grow(10) && !one.grow(1));
        assert!(!room.portion(from("192.0.2.1")).grow(1), "another body from there");
        let mut site = room.portion(from("2001:db8:0:1::1"));
        assert!(site.grow(40));
        assert!(!room.portion(from("2001:db8:0:2::1")).grow(1), "another net of that site");
        let mut proxied = room.portion(from("127.0.0.1"));
        assert!(proxied.grow(20) && !proxied.grow(1), "nobody takes more than there is");
        drop(one);
        assert!(proxied.grow(40), "many come from this machine");
        drop((site, proxied));
        let held = room.held();
        assert_eq!((held.all, held.origins.len()), (0, 0), "nothing is kept of anybody");
    }
}

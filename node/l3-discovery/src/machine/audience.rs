//! Who gets this node's placement with each heartbeat. Few enough that a heartbeat costs the same in any network; the
//! others ask when they look for something.

use althing_protocol::PublicKey;

/// Those who get it: who was connected first stays.
#[derive(Debug)]
pub struct Audience {
    members: Vec<PublicKey>,
    max: usize,
}

impl Audience {
    /// Nobody yet, and at most `max`.
    #[must_use]
    pub fn new(max: usize) -> Audience {
        Audience { members: Vec::new(), max }
    }

    /// A peer connected. True when it gets the placement from now on.
    pub fn joined(&mut self, peer: PublicKey) -> bool {
        let room = self.members.len() < self.max && !self.members.contains(&peer);
        if room {
            self.members.push(peer);
        }
        room
    }

    /// Brings it up to date with who is connected: true when `peer` was one of those who got it. Others take the place
    /// of those who left.
    pub fn left(&mut self, peer: PublicKey, connected: &[PublicKey]) -> bool {
        let was = self.members.contains(&peer);
        self.members.retain(|member| *member != peer && connected.contains(member));
        for other in connected {
            if *other != peer {
                self.joined(*other);
            }
        }
        was
    }

    /// Those who get it.
    #[must_use]
    pub fn members(&self) -> &[PublicKey] {
        &self.members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn peers<const N: usize>() -> [PublicKey; N] {
        std::array::from_fn(|number| SecretKey::from_seed(&[u8::try_from(number).expect("few"); 32]).public())
    }

    #[test]
    fn who_came_first_stays_and_who_waits_takes_the_place_of_who_leaves() {
        let [a, b, c] = peers();
        let mut audience = Audience::new(2);
        assert!(audience.joined(a) && audience.joined(b) && !audience.joined(c) && !audience.joined(a));
        assert!(!audience.left(c, &[a, b]));
        assert_eq!(audience.members(), [a, b]);
        assert!(audience.left(a, &[b, c]));
        assert_eq!(audience.members(), [b, c]);
    }
}

//! Where the name in an address may lead.

use serde::{Deserialize, Serialize};

/// A place to which a name may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// This machine: loopback.
    ThisMachine,
    /// A net that is not routed on the internet.
    PrivateNet,
    /// The internet.
    Internet,
}

impl Place {
    /// All of them.
    pub const ALL: [Place; 3] = [Place::ThisMachine, Place::PrivateNet, Place::Internet];

    /// Its word in agent files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Place::ThisMachine => "this-machine",
            Place::PrivateNet => "private-net",
            Place::Internet => "internet",
        }
    }
}

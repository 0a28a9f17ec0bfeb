//! What is asked of groups.

use althing_protocol::group::Policy;
use althing_td::AgentFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Forms a group.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateGroup {
    /// Its name.
    pub name: String,
    /// Who may write: `owners` or `members`.
    pub write: String,
    /// Members that vote, at most.
    pub voters_max: u8,
    /// Owners beside this node's: publishers, or nodes of theirs.
    #[serde(default)]
    pub owners: Vec<String>,
    /// How many of the owners must sign.
    #[serde(default = "one")]
    pub threshold: u8,
    /// After how many seconds a silent voter is replaced; 0: never.
    #[serde(default)]
    pub replace_after_s: Option<u64>,
    /// Who may give the group work: `owners` or `members`; as `write` if absent.
    #[serde(default)]
    pub assign: Option<String>,
    /// Whose nodes show all of the group: those of `owners` or of `members`; of members if absent.
    #[serde(default)]
    pub read: Option<String>,
}

impl CreateGroup {
    /// A group of this node's owner alone, under the policy of a charter that names no other.
    #[must_use]
    pub fn new(name: &str) -> CreateGroup {
        let Policy { write, voters_max, .. } = Policy::default();
        CreateGroup {
            name: name.to_owned(),
            write: write.name().to_owned(),
            voters_max,
            owners: Vec::new(),
            threshold: one(),
            replace_after_s: None,
            assign: None,
            read: None,
        }
    }
}

fn one() -> u8 {
    1
}

/// Changes the charter of a group. What is absent stays.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AmendGroup {
    /// Further owners: publishers, or nodes of theirs.
    pub add: Vec<String>,
    /// Owners that are none any more.
    pub remove: Vec<String>,
    /// How many of the owners must sign.
    pub threshold: Option<u8>,
    /// Who may write: `owners` or `members`.
    pub write: Option<String>,
    /// Members that vote, at most.
    pub voters_max: Option<u8>,
    /// After how many seconds a silent voter is replaced; 0: never.
    pub replace_after_s: Option<u64>,
    /// Who may give the group work: `owners` or `members`.
    pub assign: Option<String>,
    /// Whose nodes show all of the group: those of `owners` or of `members`.
    pub read: Option<String>,
}

/// Joins a group.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinGroup {
    /// The ticket, as text.
    pub ticket: String,
}

/// An operation on a group.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum GroupRequest {
    /// Makes a ticket for a node.
    Invite {
        /// Its DID.
        node: String,
        /// For how long it is valid, seconds.
        life_s: u64,
    },
    /// This node leaves.
    Leave {
        /// What this node has of the group is removed, without asking the group.
        forget: bool,
    },
    /// Removes a node.
    Expel {
        /// Its DID.
        node: String,
    },
    /// Ends the group.
    Dissolve,
    /// Changes the charter.
    Amend(AmendGroup),
    /// Signs what was proposed.
    Endorse {
        /// How its name begins, in hexadecimal.
        proposal: String,
    },
    /// Hands over the lead.
    Transfer {
        /// To this node, a DID.
        node: String,
    },
    /// Writes a value.
    Set {
        /// Its key.
        key: String,
        /// The value.
        value: String,
        /// Only if it has this version; 0: only if there is none.
        if_version: Option<u64>,
    },
    /// Removes a value.
    Remove {
        /// Its key.
        key: String,
        /// Only if it has this version.
        if_version: Option<u64>,
    },
}

/// Makes a group an agent that others may call.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ServeGroup {
    /// Each of this owner's members hosts this agent.
    Agent(#[schemars(with = "Map<String, Value>")] Box<AgentFile>),
    /// The agent of this name is hosted no more.
    End(String),
}

//! A node at a glance, and its peers.

use althing_protocol::contract::Grade;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /status` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The node's DID.
    pub node: String,
    /// Its owner's id.
    pub owner: String,
    /// The state of its owner's keys.
    pub owner_keys: KeyStatus,
    /// The network's name.
    pub network: String,
    /// Whether that is a private network.
    pub private: bool,
    /// The version of the program.
    pub version: String,
    /// Where its agents are called over HTTP.
    pub gateway: Option<String>,
    /// What the user should know about how it started.
    pub notes: Vec<String>,
    /// Layer by layer.
    pub layers: LayerStatus,
}

/// The state of an owner's keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyStatus {
    /// `active`, `rotating`, `revoked`, `outdated` or `withdrawn`.
    pub state: String,
    /// The name of the key.
    pub key: String,
    /// Events of its log.
    pub events: usize,
}

/// The layers of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayerStatus {
    /// What runs.
    pub l1_execution: ExecutionStatus,
    /// Connections, and what is kept for others.
    pub l2_communication: CommunicationStatus,
    /// What is known of other nodes.
    pub l3_discovery: DiscoveryStatus,
    /// What others have its agents do.
    pub calls: CallStatus,
    /// Its agents' turns that survive its end.
    pub l4_session: SessionTotals,
    /// The groups that it is a member of.
    pub l5_coordination: GroupTotals,
    /// What failed in silence, or was refused by a gate.
    #[serde(default)]
    pub l6_verification: VerificationTotals,
    /// What is decided, asked and recorded.
    pub l7_governance: GovernanceTotals,
    /// How each layer is.
    #[serde(default)]
    pub health: HealthStatus,
}

/// What was found of turns of the agents that run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerificationTotals {
    /// Turns that may have failed in silence.
    pub silent: u64,
    /// Answers that a gate refused, and jobs of control loops whose outputs broke their limits.
    pub refused: u64,
}

/// How each layer is, as of some seconds ago.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthStatus {
    /// Execution.
    pub l1: HealthWord,
    /// Communication.
    pub l2: HealthWord,
    /// Discovery, without what registries would say.
    pub l3: HealthWord,
    /// Sessions.
    pub l4: HealthWord,
    /// Coordination.
    pub l5: HealthWord,
    /// Verification.
    pub l6: HealthWord,
    /// Governance.
    pub l7: HealthWord,
}

/// How a layer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HealthWord {
    /// Nothing is wrong there.
    Well,
    /// Nothing is wrong, but something can be done.
    Note,
    /// Something is wrong: `doctor` says what.
    Wrong,
    /// The node says nothing of it.
    #[default]
    Unknown,
}

impl HealthStatus {
    /// The word of each layer, L1 first.
    #[must_use]
    pub fn words(&self) -> [HealthWord; 7] {
        let HealthStatus { l1, l2, l3, l4, l5, l6, l7 } = *self;
        [l1, l2, l3, l4, l5, l6, l7]
    }
}

impl HealthWord {
    /// Its word in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HealthWord::Well => "well",
            HealthWord::Note => "note",
            HealthWord::Wrong => "wrong",
            HealthWord::Unknown => "unknown",
        }
    }
}

/// What runs, and what is promised to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionStatus {
    /// How many agents there are.
    pub agents: usize,
    /// Turns that run or wait.
    pub turns: u64,
    /// What the machine can do; none as long as it was not probed.
    pub machine: Option<MachineStatus>,
    /// Reservations held.
    pub reserved: usize,
    /// The share of each core that is promised, 0 to 1.
    pub promised: Vec<f64>,
}

/// What a probe found of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Its grade; A is the best.
    #[schemars(with = "String")]
    pub grade: Grade,
    /// `at every priority`, `up to a limit` or `not permitted`.
    pub real_time: String,
    /// How late threads wake.
    pub wake_up_us: WakeUp,
}

/// How late threads wake, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakeUp {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// How many were measured.
    pub samples: usize,
}

/// Connections, and what the node keeps for others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommunicationStatus {
    /// Connected peers.
    pub peers: usize,
    /// Addresses at which it listens.
    pub listening: Vec<String>,
    /// How others can reach it.
    pub reach: ReachStatus,
    /// Streams that were refused since the start.
    pub streams_refused: u64,
    /// Its part of the distributed table.
    pub table: TableStatus,
}

/// How others can reach a node, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReachStatus {
    /// `internet`, `relayed`, `hidden`, `nearby`, `blocked` or `unknown`.
    pub state: String,
    /// Addresses at which peers reached it, the best first.
    pub confirmed: Vec<String>,
    /// The DIDs of its relays.
    pub relays: Vec<String>,
    /// Addresses at which nobody reached it.
    pub failures: Vec<DialFailure>,
    /// Addresses that it tells others.
    pub announced: Vec<String>,
}

/// An address at which no dial succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DialFailure {
    /// Where.
    pub address: String,
    /// Why one of the dials failed.
    pub why: String,
}

/// A node's part of the distributed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableStatus {
    /// Nodes in it.
    pub nodes: usize,
    /// Values that it keeps for others.
    pub values: usize,
    /// Provider records that it keeps for others.
    pub providers: usize,
    /// Values and provider records that were refused since the start.
    pub refused: u64,
}

/// What is known of other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryStatus {
    /// Nodes believed to be there, this one included.
    pub nodes: usize,
    /// Agents, counted once for each node that hosts them.
    pub agents: usize,
    /// Addresses and nodes that are dialled when they have no connection.
    pub dial_targets: usize,
    /// What others told and was refused since the start.
    pub refused: u64,
}

/// Calls of a node's agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallStatus {
    /// Tasks that run.
    pub live_tasks: usize,
}

/// Turns that have a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTotals {
    /// How many.
    pub sessions: usize,
    /// Those that wait for somebody to say what became of a call.
    pub in_doubt: usize,
    /// Others that stopped and may go on anew from one of their steps.
    #[serde(default)]
    pub stopped: usize,
}

/// The groups that a node is a member of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupTotals {
    /// How many.
    pub groups: usize,
    /// Those that it leads.
    pub led: usize,
    /// Those without a leader.
    pub without_leader: usize,
    /// Their tasks that it has.
    pub tasks: usize,
}

/// What is decided, asked and recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GovernanceTotals {
    /// The digest of the policy set in force; none where contracts alone decide.
    pub policy: Option<String>,
    /// Calls that wait for people.
    pub pending: usize,
    /// Entries of the audit log.
    pub audit_entries: u64,
    /// Why nothing can be recorded, so that nothing with an effect is done; none where all is well.
    pub audit_failure: Option<String>,
}

/// What `GET /peers` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerList {
    /// Each connected peer.
    pub peers: Vec<PeerStatus>,
}

/// A connected peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerStatus {
    /// Its DID.
    pub node: String,
    /// Its id in libp2p.
    pub peer_id: String,
    /// Its owner's id, if it showed one.
    pub owner: Option<String>,
    /// Its address on the first connection.
    pub address: String,
    /// Whether this node dialled.
    pub dialled: bool,
    /// Connections to it.
    pub connections: usize,
    /// The last measured round trip, milliseconds.
    pub round_trip_ms: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn status() -> NodeStatus {
        NodeStatus {
            node: "did:key:z6Mk".to_owned(),
            owner: "urn:althing:zQm".to_owned(),
            owner_keys: KeyStatus { state: "active".to_owned(), key: "z6Mo".to_owned(), events: 1 },
            network: "althing".to_owned(),
            private: false,
            version: "0.1.0".to_owned(),
            gateway: None,
            notes: Vec::new(),
            layers: LayerStatus {
                l1_execution: ExecutionStatus { agents: 1, turns: 2, machine: None, reserved: 3, promised: Vec::new() },
                l2_communication: CommunicationStatus {
                    peers: 4,
                    listening: vec!["/ip4/127.0.0.1/tcp/1".to_owned()],
                    reach: ReachStatus {
                        state: "unknown".to_owned(),
                        confirmed: Vec::new(),
                        relays: Vec::new(),
                        failures: Vec::new(),
                        announced: Vec::new(),
                    },
                    streams_refused: 5,
                    table: TableStatus { nodes: 6, values: 7, providers: 8, refused: 9 },
                },
                l3_discovery: DiscoveryStatus { nodes: 10, agents: 11, dial_targets: 12, refused: 13 },
                calls: CallStatus { live_tasks: 14 },
                l4_session: SessionTotals { sessions: 19, in_doubt: 20, stopped: 21 },
                l5_coordination: GroupTotals { groups: 15, led: 16, without_leader: 17, tasks: 18 },
                l6_verification: VerificationTotals { silent: 23, refused: 24 },
                l7_governance: GovernanceTotals { policy: None, pending: 21, audit_entries: 22, audit_failure: None },
                health: HealthStatus { l1: HealthWord::Well, l3: HealthWord::Wrong, ..HealthStatus::default() },
            },
        }
    }

    #[test]
    fn a_node_is_told_with_what_it_does_not_have() {
        assert_json(
            &status(),
            concat!(
                r#"{"node":"did:key:z6Mk","owner":"urn:althing:zQm","ownerKeys":{"state":"active","key":"z6Mo","events":1},"#,
                r#""network":"althing","private":false,"version":"0.1.0","gateway":null,"notes":[],"layers":{"#,
                r#""l1Execution":{"agents":1,"turns":2,"machine":null,"reserved":3,"promised":[]},"#,
                r#""l2Communication":{"peers":4,"listening":["/ip4/127.0.0.1/tcp/1"],"reach":{"state":"unknown","#,
                r#""confirmed":[],"relays":[],"failures":[],"announced":[]},"streamsRefused":5,"#,
                r#""table":{"nodes":6,"values":7,"providers":8,"refused":9}},"#,
                r#""l3Discovery":{"nodes":10,"agents":11,"dialTargets":12,"refused":13},"calls":{"liveTasks":14},"#,
                r#""l4Session":{"sessions":19,"inDoubt":20,"stopped":21},"#,
                r#""l5Coordination":{"groups":15,"led":16,"withoutLeader":17,"tasks":18},"#,
                r#""l6Verification":{"silent":23,"refused":24},"#,
                r#""l7Governance":{"policy":null,"pending":21,"auditEntries":22,"auditFailure":null},"#,
                r#""health":{"l1":"well","l2":"unknown","l3":"wrong","l4":"unknown","l5":"unknown","l6":"unknown","#,
                r#""l7":"unknown"}}}"#,
            ),
        );
    }

    #[test]
    fn a_machine_and_what_is_promised_of_it_are_told() {
        let machine = MachineStatus {
            grade: Grade::B,
            real_time: "up to a limit".to_owned(),
            wake_up_us: WakeUp { p50: 3.5, p99: 40.0, p999: 81.25, max: 90.5, samples: 1_000 },
        };
        let execution =
            ExecutionStatus { machine: Some(machine), promised: vec![0.0, 0.25], ..status().layers.l1_execution };
        assert_json(
            &execution,
            concat!(
                r#"{"agents":1,"turns":2,"machine":{"grade":"B","realTime":"up to a limit","#,
                r#""wakeUpUs":{"p50":3.5,"p99":40.0,"p999":81.25,"max":90.5,"samples":1000}},"reserved":3,"#,
                r#""promised":[0.0,0.25]}"#,
            ),
        );
    }

    #[test]
    fn how_a_node_is_reached_is_told() {
        let reach = ReachStatus {
            state: "relayed".to_owned(),
            confirmed: vec!["/ip4/192.0.2.7/tcp/1".to_owned()],
            relays: vec!["did:key:z6Mr".to_owned()],
            failures: vec![DialFailure { address: "/ip4/192.0.2.8/tcp/1".to_owned(), why: "timed out".to_owned() }],
            announced: vec!["/ip4/192.0.2.7/tcp/1".to_owned()],
        };
        assert_json(
            &reach,
            concat!(
                r#"{"state":"relayed","confirmed":["/ip4/192.0.2.7/tcp/1"],"relays":["did:key:z6Mr"],"#,
                r#""failures":[{"address":"/ip4/192.0.2.8/tcp/1","why":"timed out"}],"#,
                r#""announced":["/ip4/192.0.2.7/tcp/1"]}"#,
            ),
        );
    }

    #[test]
    fn peers_are_told_with_what_is_not_known_of_them() {
        let stranger = PeerStatus {
            node: "did:key:z6Mk".to_owned(),
            peer_id: "12D3".to_owned(),
            owner: None,
            address: "/ip4/192.0.2.7/tcp/1".to_owned(),
            dialled: true,
            connections: 1,
            round_trip_ms: None,
        };
        let known = PeerStatus {
            owner: Some("urn:althing:zQm".to_owned()),
            dialled: false,
            round_trip_ms: Some(1.5),
            ..stranger.clone()
        };
        assert_json(
            &PeerList { peers: vec![stranger, known] },
            concat!(
                r#"{"peers":[{"node":"did:key:z6Mk","peerId":"12D3","owner":null,"address":"/ip4/192.0.2.7/tcp/1","#,
                r#""dialled":true,"connections":1,"roundTripMs":null},{"node":"did:key:z6Mk","peerId":"12D3","#,
                r#""owner":"urn:althing:zQm","address":"/ip4/192.0.2.7/tcp/1","dialled":false,"connections":1,"#,
                r#""roundTripMs":1.5}]}"#,
            ),
        );
    }
}

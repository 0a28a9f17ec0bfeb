//! Every capacity of the wire, with its reason. A peer that exceeds one is refused with a typed error.

/// Deepest nesting of CBOR arrays and maps: the deepest type needs 4; the rest is for later versions.
pub const CBOR_DEPTH_MAX: usize = 32;
/// Data items in one CBOR value: a placement of [`PLACEMENT_AGENTS_MAX`] agents stays below it.
pub const CBOR_ITEMS_MAX: usize = 4_096;
/// Bytes of the body of a request: the JSON of one A2A operation.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of the body of a response or an event: a picture of 3 MiB in base64 fits, with the task around it.
pub const ANSWER_BYTES_MAX: usize = (4 << 20) + (256 << 10);
/// Bytes of everything in a frame that is not its body.
pub const FRAME_HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of one length-prefixed frame of a stream's opener.
pub const FRAME_BYTES_MAX: usize = BODY_BYTES_MAX + FRAME_HEAD_BYTES_MAX;
/// Bytes of one of its acceptor: only who called receives it.
pub const ANSWER_FRAME_BYTES_MAX: usize = ANSWER_BYTES_MAX + FRAME_HEAD_BYTES_MAX;
/// Bytes of one authored object: the largest description, the longest key log and a grant together fit into a body.
pub const OBJECT_BYTES_MAX: usize = BODY_BYTES_MAX - (64 << 10);
/// Bytes of a `Hello`: version, challenge, network name and one membership.
pub const HELLO_BYTES_MAX: usize = 2_048;
/// Bytes of a network's name.
pub const NETWORK_BYTES_MAX: usize = 64;
/// Bytes of an operation's name.
pub const OPERATION_BYTES_MAX: usize = 64;
/// Bytes of one W3C trace-context header (`traceparent` is 55; `tracestate` may be 512).
pub const TRACE_BYTES_MAX: usize = 512;
/// Principals in a chain: a human and the gateways and agents between.
pub const PRINCIPALS_MAX: usize = 8;
/// Bytes of one principal.
pub const PRINCIPAL_BYTES_MAX: usize = 256;
/// Extension URIs that a call activates.
pub const EXTENSIONS_MAX: usize = 16;
/// Bytes of a delegation: a signed statement of 500 bytes for each principal of the longest chain.
pub const DELEGATION_BYTES_MAX: usize = 4 << 10;
/// Bytes of a task's id in a move of it: clients may choose ids of this length, nodes make shorter ones.
pub const TASK_ID_BYTES_MAX: usize = 256;
/// Bytes of the description of handed-over work.
pub const HANDOFF_DESCRIPTION_BYTES_MAX: usize = 64 << 10;
/// Bytes of the state that goes with it: in base64 it fits into a body with the rest; what is larger goes by reference.
pub const HANDOFF_SNAPSHOT_BYTES_MAX: usize = 512 << 10;
/// Entries of each list of a handoff: all lists together stay below [`CBOR_ITEMS_MAX`].
pub const HANDOFF_ITEMS_MAX: usize = 64;
/// Bytes of each of their texts, unless it is a name.
pub const HANDOFF_TEXT_BYTES_MAX: usize = 4 << 10;
/// Sign-offs of a handoff.
pub const HANDOFF_SIGN_OFFS_MAX: usize = 16;
/// Bytes of the signature of a sign-off: one of ed25519 has 185.
pub const HANDOFF_SIGN_OFF_BYTES_MAX: usize = 512;
/// Longest time in which a handoff can be accepted, milliseconds (24 h): recipients remember it as long, so that what is
/// offered again is the same work.
pub const HANDOFF_LIFE_MAX_MS: u64 = GRANT_LIFE_MAX_MS;
/// Bytes of a leaf of an audit log.
pub const AUDIT_LEAF_BYTES_MAX: usize = 8 << 10;
/// Principals in it: as many as a call has.
pub const AUDIT_PRINCIPALS_MAX: usize = 8;
/// Ids of policies in it.
pub const AUDIT_POLICIES_MAX: usize = 16;
/// Commitments to bodies in it.
pub const AUDIT_BODIES_MAX: usize = 8;
/// Verdicts of gates in it.
pub const AUDIT_VERDICTS_MAX: usize = 32;
/// Bytes of each of its texts.
pub const AUDIT_TEXT_BYTES_MAX: usize = 256;
/// Bytes of what a person is asked, as they are signed.
pub const AUDIT_ASK_BYTES_MAX: usize = 1 << 10;
/// Longest time in which a person can answer, milliseconds (30 days).
pub const AUDIT_ASK_LIFE_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Agents in one placement: keeps a placement below 100 KiB and [`CBOR_ITEMS_MAX`].
pub const PLACEMENT_AGENTS_MAX: usize = 500;
/// Longest time to live of a placement, milliseconds.
pub const PLACEMENT_TTL_MAX_MS: u64 = 60_000;
/// Longest life of a grant or membership, milliseconds (24 h).
pub const GRANT_LIFE_MAX_MS: u64 = 24 * 60 * 60 * 1_000;
/// How far a peer's clock may run ahead of ours before what it issued is "not yet valid", milliseconds.
pub const CLOCK_SKEW_MAX_MS: u64 = 120_000;
/// Events in one key log: a rotation a week for four years.
pub const KEYLOG_EVENTS_MAX: usize = 208;
/// Longest life of a contact, milliseconds (24 h).
pub const CONTACT_LIFE_MAX_MS: u64 = 24 * 60 * 60 * 1_000;
/// Addresses in one contact.
pub const CONTACT_ADDRESSES_MAX: usize = 8;
/// Bytes of one value in the distributed hash table: a message of Kademlia has 16 KiB. A key log of 40 events fits.
pub const RECORD_BYTES_MAX: usize = 12 << 10;
/// Bytes of one inquiry.
pub const INQUIRY_BYTES_MAX: usize = 2_048;
/// Agents in one answer to an inquiry.
pub const INQUIRY_AGENTS_MAX: usize = 32;
/// Key logs that a node keeps because their publishers are in use: 1 MiB with two events each.
pub const KEYRING_LOGS_MAX: usize = 2_048;
/// Bytes of strangers' key logs among them: the sixteenth of each origin holds 20 of the longest.
pub const KEYRING_STRANGERS_BYTES_MAX: usize = 24 << 20;
/// Summaries of key logs that a node keeps: about 10 MiB.
pub const KEYRING_FORGOTTEN_MAX: usize = 65_536;
/// Withdrawals that a node keeps; each ends after a day.
pub const KEYRING_WITHDRAWALS_MAX: usize = 2_048;
/// Owners of a group: a charter with as many signatures stays small.
pub const GROUP_OWNERS_MAX: usize = 16;
/// Members of a group that vote (Raft's quorums grow slower with each).
pub const GROUP_VOTERS_MAX: usize = 7;
/// Members of a group, learners included.
pub const GROUP_MEMBERS_MAX: usize = 256;
/// Longest life of an invitation, milliseconds (7 days).
pub const INVITATION_LIFE_MAX_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// Shortest time after which a silent voter may be replaced, milliseconds: many heartbeats and elections.
pub const REPLACE_AFTER_MIN_MS: u64 = 10_000;
/// Longest such time, milliseconds (7 days).
pub const REPLACE_AFTER_MAX_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// Longest life of a proposal, milliseconds (7 days, as that of an invitation).
pub const PROPOSAL_LIFE_MAX_MS: u64 = INVITATION_LIFE_MAX_MS;
/// Proposals of one owner that wait at one time.
pub const PROPOSALS_OF_OWNER_MAX: usize = 8;
/// Bytes of one owner's proposals: 16 owners fill 4 MiB.
pub const PROPOSALS_OF_OWNER_BYTES_MAX: usize = 256 << 10;
/// Commands under one signature: stays below [`CBOR_ITEMS_MAX`].
pub const GROUP_BATCH_COMMANDS_MAX: usize = 256;
/// Addresses that a member of a group gives.
pub const GROUP_ADDRESSES_MAX: usize = 8;
/// Bytes of each of them.
pub const GROUP_ADDRESS_BYTES_MAX: usize = 256;
/// Bytes of a key of a group's value.
pub const GROUP_KEY_BYTES_MAX: usize = 512;
/// Bytes of a group's value; what is larger goes by reference.
pub const GROUP_VALUE_BYTES_MAX: usize = 64 << 10;
/// Inline bytes of a task's input, and of its result; a larger result goes by reference.
pub const WORK_CONTENT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a task's idempotency key, of a capability, a resource's name, a label and a media type.
pub const WORK_NAME_BYTES_MAX: usize = 128;
/// Bytes of the reason why a task was declined or failed.
pub const WORK_REASON_BYTES_MAX: usize = 512;
/// Bytes of the reason why a member refuses a task: several are kept.
pub const WORK_REFUSAL_BYTES_MAX: usize = 256;
/// Labels that a task needs.
pub const WORK_LABELS_MAX: usize = 16;
/// Tasks that a task depends on.
pub const WORK_DEPENDENCIES_MAX: usize = 64;
/// Resources that a task uses.
pub const WORK_RESOURCES_MAX: usize = 8;
/// Attempts at a task.
pub const WORK_ATTEMPTS_MAX: u8 = 16;
/// Shortest lease of a task, milliseconds: several times what an entry of a log takes.
pub const WORK_LEASE_MIN_MS: u64 = 1_000;
/// Longest lease of a task, milliseconds; a member that works longer renews it.
pub const WORK_LEASE_MAX_MS: u64 = 10 * 60 * 1_000;
/// Steps of a workflow: one bit each in a word.
pub const WORKFLOW_STEPS_MAX: usize = 64;
/// Bytes of all texts of a workflow; so many also of the input of a run.
pub const WORKFLOW_BYTES_MAX: usize = 64 << 10;
/// Steps that a step comes after, directly.
pub const WORKFLOW_AFTER_MAX: usize = 16;
/// Items of a list for each of which a step has a task.
pub const WORKFLOW_ITEMS_MAX: usize = 64;
/// How often steps are repeated, at most.
pub const WORKFLOW_ROUNDS_MAX: u8 = 16;
/// Shortest time-out of a step, milliseconds.
pub const WORKFLOW_TIMEOUT_MIN_MS: u64 = 1_000;
/// Longest time-out of a step, milliseconds (30 days): people take their time.
pub const WORKFLOW_TIMEOUT_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Bytes of the agent file of a deployment: with the rest it fits into a value of a group.
pub const DEPLOYMENT_FILE_BYTES_MAX: usize = 48 << 10;
/// Members that host one agent, unless each does.
pub const DEPLOYMENT_INSTANCES_MAX: u8 = 16;
/// Agents that a deployment needs.
pub const DEPLOYMENT_NEEDS_MAX: usize = 16;
/// Characters of an agent's name.
pub const AGENT_NAME_MAX: usize = 63;
/// Bytes of a release's bundle (64 MiB, as those of a component).
pub const BUNDLE_BYTES_MAX: u64 = 64 << 20;
/// Publishers that may see a release which is not public.
pub const RELEASE_READERS_MAX: usize = 64;
/// Longest life of a roster, milliseconds (24 h).
pub const ROSTER_LIFE_MAX_MS: u64 = GRANT_LIFE_MAX_MS;
/// How long the proof of a domain counts, milliseconds (48 h): two daily attempts to repeat it may fail.
pub const DOMAIN_PROOF_LIFE_MS: u64 = 2 * GRANT_LIFE_MAX_MS;
/// How long another organisation waits for a domain that is known, milliseconds (30 days).
pub const DOMAIN_WAIT_MS: u64 = 30 * GRANT_LIFE_MAX_MS;
/// Longest life of a visit to a registry, milliseconds (5 min).
pub const VISIT_LIFE_MAX_MS: u64 = 5 * 60 * 1_000;
/// Signers beside the publisher who approve one release.
pub const RELEASE_APPROVALS_MAX: usize = 16;
/// Members of an organisation.
pub const ROSTER_MEMBERS_MAX: usize = 256;
/// Patterns of names of one member.
pub const ROSTER_NAMES_MAX: usize = 32;
/// Patterns of names of all members together: a roster of 256 members stays below [`CBOR_ITEMS_MAX`].
pub const ROSTER_NAMES_IN_ALL_MAX: usize = 1_024;
/// Longest life of an attestation, milliseconds (366 days).
pub const ATTESTATION_LIFE_MAX_MS: u64 = 366 * 24 * 60 * 60 * 1_000;
/// Bytes of the value of an attestation.
pub const ATTESTATION_VALUE_BYTES_MAX: usize = 4 << 10;
/// Attestations of one signer that a registry keeps, but for those that are over.
pub const ATTESTATIONS_OF_SIGNER_MAX: usize = 1_024;
/// Attestations on one page of a registry.
pub const ATTESTATIONS_SHOWN_MAX: usize = 64;
/// Statements in one submission to a registry.
pub const SUBMISSION_STATEMENTS_MAX: usize = 16;
/// Bytes of a submission, and of what a registry shows of a release.
pub const SUBMISSION_BYTES_MAX: usize = 2 << 20;
/// Marks on one release.
pub const RELEASE_MARKS_MAX: usize = 32;
/// Grants in what a node tells a registry of itself.
pub const PRESENCE_GRANTS_MAX: usize = 64;
/// Bytes of what a node tells a registry of itself.
pub const PRESENCE_BYTES_MAX: usize = 64 << 10;
/// A signed append that is kept, its frame included: two of them, as a proof of equivocation, fit into one message.
pub const SIGNED_APPEND_BYTES_MAX: usize = 480 << 10;

//! Thing Descriptions: the single description of an agent, and the documents that are derived from it; and the files that
//! people write for agents and groups.
//!
//! **Inputs**: the bytes of a W3C WoT Thing Description (1.1 or 1.0) that anyone wrote; an agent file that its owner
//! wrote; a workflow file or an app file; the view of a handoff; an agent card that anyone sent; keys, handed in by the caller.
//!
//! **Outputs**: a [`Report`] of findings; a [`Description`] with what the node reads in it, of somebody else's as far as it is
//! good ([`shown_thing`]); the description of an agent
//! file ([`describe()`]), with the tools that it exposes and their Thing Models ([`thing_model`]); the A2A agent card of a description ([`card()`]), signed ([`sign_card`]) and verified
//! ([`verify_card`]); what an agent file lets an agent and its programs do ([`Rights`], [`reach()`]); the workflow of a workflow file ([`parse_workflow`]), and its description ([`SharedFile::describe`]); the agents, workflows and schedules of an app
//! file ([`parse_app`]); the handoff of a view ([`parse_handoff`], [`handoff_of_json`]), and the view of a handoff ([`handoff_json`]).
//!
//! **Invariants**
//! - Any bytes are read without panicking, within [`TD_BYTES_MAX`] and [`DEPTH_MAX`].
//! - A description keeps the submitted bytes; members that nobody here knows survive.
//! - What [`describe()`] makes is valid with no findings, and the same file gives the same bytes.
//! - `callers`, `exposure` and `runtime` of an agent file are in no description and no card.
//! - The JSON Schemas of the W3C decide what is valid; our checks only add what the recommendation asks in prose.
//! - A problem in a file that a person wrote is told with its line, its field and what to write instead ([`FileProblem`]).
//! - Signatures are verified with `verify_strict`, over what was received, with keys of the verifier's own choice.
//!
//! **Never knows**: the network, nodes and where an agent runs, clocks, randomness, files, how keys are kept.
//!
//! ```
//! # fn main() -> Result<(), althing_td::AgentFileError> {
//! let file = althing_td::AgentFile::parse(
//!     "name: echo\ndescription: Says it again.\nruntime: { native: { builtin: echo } }\n",
//! )?;
//! let description = althing_td::describe(&file, "urn:althing:z6Mk:echo");
//! assert!(althing_td::validate(description.bytes()).findings.is_empty());
//! # Ok(())
//! # }
//! ```

mod agent_file;
mod app_file;
mod card;
mod confusable;
mod containment;
mod describe;
mod description;
mod handoff_file;
mod heading;
mod hidden;
mod json;
mod jwt;
mod people_file;
mod programs;
mod reach;
mod reader;
mod rights;
mod rights_change;
mod rights_terms;
mod shared;
mod shown;
mod tool;
mod validate;
pub mod words;
mod workflow_file;

pub use agent_file::{
    ACTION_CHARS_MAX, AGENT_FILE_BYTES_MAX, AgentFile, AgentFileError, AsksAs, BEARER_FIX, CALLERS_MAX,
    COMMAND_ITEMS_MAX, CONFIG_BYTES_MAX, Callers, DESCRIPTION_CHARS_MAX, Demand, ENV_MAX, EXAMPLE_CHARS_MAX,
    EXAMPLES_MAX, Effect, Egress, Environment, Exposure, MODE_DEFAULT, MODES_MAX, ModelEndpoint, NAME_CHARS_MAX,
    NoHost, OwnFolder, Place, ProgramPort, Resume, RuntimeSpec, SKILL_ID_CHARS_MAX, SKILLS_MAX,
    STARTUP_TIMEOUT_MS_DEFAULT, STARTUP_TIMEOUT_MS_MAX, STARTUP_TIMEOUT_MS_MIN, Sandbox, SessionSpec, Skill,
    TAG_CHARS_MAX, TAGS_MAX, TEXT_BYTES_MAX, TITLE_CHARS_MAX, ToolServerSpec, ToolTerms, VERSION_DEFAULT, keeps_bearer,
    parse_contract, parse_partial_contract,
};
pub use app_file::{
    APP_AGENTS_MAX, APP_FILE_BYTES_MAX, APP_INSTANCES_MAX, APP_SCHEDULES_MAX, APP_WORKFLOWS_MAX, App, AppAgent,
    AppAgentFile, AppFile, AppFileError, AppSchedule, ZONE_DEFAULT, parse_app,
};
pub use card::{
    CARD_BYTES_MAX, CardContext, CardError, Interface, NoSignerKey, SIGNATURES_MAX, Signer, SignerKey, VERSION_UNKNOWN,
    card, card_signers, lint_card, sign_card, verify_card, verify_signer,
};
pub use containment::{ContainmentClaim, ContainmentLevel};
pub use describe::{describe, describe_here, describe_with};
pub use description::{CAPABILITIES_MAX, Capability, Description, DescriptionError, identifier};
pub use handoff_file::{
    HANDOFF_FILE_BYTES_MAX, HandoffFile, HandoffFileError, HandoffSignature, handoff_json, handoff_of_json,
    handoff_text, handoff_view, parse_handoff,
};
pub use heading::Heading;
pub use hidden::{hidden_in, is_hidden, marked, visible};
pub use json::{DEPTH_MAX, JsonError, TD_BYTES_MAX, shallow_json};
pub use jwt::{jwk, kid, sign_jwt};
pub use people_file::{
    KeyLine, OWNER_DEFAULT, PEOPLE_FILE_BYTES_MAX, PeopleFile, PeopleFileError, PersonSpec, ReachSpec, SignOffSpec,
    parse_people,
};
pub use reach::{FileFolder, reach, uncontained};
pub use reader::FileProblem;
pub use rights::{Rights, RightsChanges};
pub use rights_change::RightsChange;
pub use shared::{SharedFile, SharedFileError, WORKFLOW_TYPE, is_workflow, needs};
pub use shown::{ShownThing, is_thing, is_thing_by_forms, is_thing_type, shown_thing};
pub use tool::{
    ExposedTool, ListedSchema, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMAS_BYTES_MAX, SuspendedTool, Tool, affordance,
    check_schema, data_schema, hides, listed_schema, thing_model, without_texts,
};
pub use validate::{
    ALTHING, FINDINGS_MAX, Finding, Report, Severity, Strictness, no_duplicates, validate, validate_as,
};
pub use workflow_file::{
    WORKFLOW_FILE_BYTES_MAX, WorkflowFile, WorkflowFileError, parse_workflow, parse_workflow_file,
};

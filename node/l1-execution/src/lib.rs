//! L1: the runtimes that agents run on.
//!
//! **Inputs**: the runtime in an agent file; turns (one message of a task each). **Outputs**: the artifacts, messages and
//! states of the agent.
//!
//! **Invariants**: a dropped turn stops; an agent's program ends with the node, with its children; outputs are queued until
//! they are received.
//!
//! **Never knows**: who asks, other nodes, where tasks are kept.

pub mod admission;
pub mod agent;
mod agent_runtime;
mod agent_status;
pub mod agents;
mod bindable;
pub mod binding;
mod bound_tools;
mod call_checks;
mod call_kind;
mod call_listings;
mod call_record;
mod candidates;
mod catalogue;
mod containment;
mod context;
mod control;
pub mod cost_budget;
mod decisions;
pub mod definition;
mod echo;
mod effects;
mod ending;
mod entropy;
pub mod evaluation;
mod fault;
mod finding_counts;
pub mod grants;
pub mod groups;
mod hard;
mod hidden;
mod host;
pub mod hrt;
pub mod http;
pub mod journal;
pub mod kernel;
mod kernel_refusal;
mod known;
pub mod lease;
pub mod lenient_json;
pub mod memory;
pub mod mesh;
pub mod model;
mod model_choice;
mod model_names;
mod needs;
mod node_models;
mod note_server;
pub mod notes;
mod output_gates;
mod output_judgement;
mod output_schemas;
mod own_tools;
mod patience;
mod ports;
pub mod process;
mod profiles;
pub mod realtime;
pub mod relayed;
mod ruling;
mod ruling_ahead;
pub mod run_notes;
mod running;
mod schema;
pub mod secrets;
mod signals;
pub mod smooth;
pub mod sse;
mod start_error;
mod statements;
pub mod steps;
mod success_counts;
mod syscalls;
mod tiers;
mod tool_agent;
mod tool_call;
mod tool_error;
mod tool_listings;
mod tool_server;
mod tool_servers;
pub mod tools;
mod turn_context;
mod turn_record;
pub mod verdicts;
mod work_terms;

pub use agent::{Agent, AgentError, AgentState, Output, Outputs, Turn};
pub use althing_keeper::{Access, Gap, Lack, Level, Refusal};
pub use bound_tools::{BoundTool, BoundTools};
pub use candidates::CandidateList;
pub use catalogue::{CatalogueModel, CatalogueTool, catalogue_models, catalogue_tools};
pub use containment::{Containment, Enclosed, Lacks, Refusals};
pub use context::{current_journal, current_lease, current_principals, in_check, is_check};
pub use control::Control;
pub use echo::Echo;
pub use finding_counts::{CallNorm, FindingCount, FindingCounts};
pub use hard::HardStatus;
pub use host::{
    AgentStatus, Binding, Builtins, Connect, Host, Loaded, Ports, Scheduling, ServerOf, SoftRuntime, StartError,
    TurnStatus, answered, containment_of, core_promise, count_success, enclosed, success_of, success_rates,
    turn_counts, work_terms,
};
pub use journal::{JournalError, TurnRights};
pub use model_choice::model_of;
pub use needs::{Advice, Needs};
pub use node_models::NodeModels;
pub use output_gates::{ANSWER_REFUSED, GatedTurn, MakeOutputGates};
pub use output_judgement::{cancel_task, judge_outputs};
pub use process::remote::{agreed_digest, card as remote_card};
pub use process::{CardFault, ShownCard};
pub use running::AgentKey;
pub use signals::{Seat, SignalError, Signals};
pub use success_counts::{SuccessRate, TurnCounts, TurnSuccess};
pub use syscalls::SystemCalls;
pub use tool_agent::ToolAgent;
pub use turn_record::{EndedTurn, GivenWork, ToldCall, TurnRecorder};
pub use work_terms::WorkTerms;

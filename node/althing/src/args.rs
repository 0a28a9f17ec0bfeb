//! The command line.

mod adopt;
mod attesting;
mod blueprint;
mod catalog;
mod events;
mod governance;
mod group;
mod handoff;
mod logs;
mod mounted;
mod org;
mod receipts;
mod registry;
mod rollout;
mod route;
mod session;
mod shares;
mod staged;
mod tap;
mod task;
mod trial;
mod verify;
mod workflow;

use std::path::PathBuf;

use althing_contract_bench::Bench;
use althing_demo::Demo;
use althing_execution::admission::{Policy, Preemption};
use althing_node::NodeProfile;
use althing_protocol::contract::Grade;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};

pub use adopt::{Adopt, is_address};
pub use attesting::{AttestArgs, ShowArgs};
pub use blueprint::Blueprint;
pub use catalog::Catalog;
pub use events::Events;
pub use governance::{
    ApproveAsk, Audit, AuditQueryArgs, ConsentWork, Consents, DenyAsk, ExplainArgs, Governance, PeopleWork, PolicyWork,
    SigningArgs, Stop,
};
pub use group::{CallersName, Group, ServeArgs};
pub use handoff::{Handoff, HandoffWork, OfferArgs};
pub use logs::Logs;
pub use mounted::Mounted;
pub use org::Org;
pub use receipts::ReceiptArgs;
pub use registry::{Install, MarkArgs, Publish, Registry, Release, Uninstall, Update, UpdateBy};
pub use rollout::{Rollout, RolloutArgs, RolloutBy, RolloutWork};
pub use route::{Route, RouteWork};
pub use session::{ResumeArgs, Session, StepsArgs};
pub use staged::{ApproveArgs, PurgeArgs, RejectArgs, StageArgs};
pub use tap::Tap;
pub use task::{SubmitArgs, Task};
pub use trial::{Case, CaseArgs, Compare, Test};
pub use verify::{Verification, Verify};
pub use workflow::{AddSchedule, App, Schedule, Workflow};

/// An operating system for the Internet of Agents: one binary turns any machine into a node of a peer-to-peer mesh.
#[derive(Debug, Clone, Parser)]
#[command(name = "althing", version, propagate_version = true, max_term_width = 110)]
pub struct Args {
    /// Which of several nodes on this machine.
    #[arg(long, global = true, default_value = "default", env = "ALTHING_NAME", value_parser = node_name)]
    pub name: String,
    /// Where the node keeps its data [default: the user's data directory].
    #[arg(long, global = true, env = "ALTHING_DATA")]
    pub data: Option<PathBuf>,
    /// The configuration file [default: althing.toml in the user's configuration directory].
    #[arg(long, global = true, env = "ALTHING_CONFIG")]
    pub config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Start a node, and keep it running until Ctrl-C.
    Up(Up),
    /// Show the whole thing on this machine: five nodes, one question, one answer, and what is refused.
    Demo(Demo),
    /// Run agents on this node.
    #[command(subcommand)]
    Agent(Agent),
    /// Let a new version of an agent have a share of its calls; it goes back by itself if it is worse.
    Rollout(Rollout),
    /// Let what exists already join: an A2A agent, an MCP server, a Thing, a directory of Things; by its address or its command.
    Adopt(Adopt),
    /// Run an agent until Ctrl-C: an agent file, or a WebAssembly module and its contract.
    Run(Run),
    /// Find agents by what they can do.
    Find(Find),
    /// Send a sentence to the agent that it is for, of all that may be called.
    Route(Route),
    /// Ask an agent, wherever it runs; the answer streams in.
    Call(Call),
    /// Serve MCP on standard input and output, for clients that start their servers: the agents of the mesh are tools.
    Mcp(Mcp),
    /// Print an agent's description (W3C Thing Description).
    Describe {
        /// Name or id.
        agent: String,
        /// A stranger's agent of that name will do, where nobody near has one.
        #[arg(long)]
        anyone: bool,
    },
    /// Who is connected.
    Peers,
    /// Let a node or an owner call this node's agents.
    Trust(Trust),
    /// Keep secrets that are used for agents, and shown to none.
    #[command(subcommand)]
    Secret(Secret),
    /// Tokens of the gateway: users with names, and what each may do.
    #[command(subcommand)]
    Token(Token),
    /// The owner's keys: show, change, end, keep a copy, bring it back.
    #[command(subcommand)]
    Key(Key),
    /// The key that the nodes of a private network share.
    #[command(subcommand)]
    NetworkKey(NetworkKey),
    /// Show what an agent file's contract is bound to here: models, tools, and which layer set each field.
    Bind(Bind),
    /// Tools and models of this node, with their tiers.
    #[command(subcommand)]
    Catalog(Catalog),
    /// Have another node of yours hold what a contract needs, before an agent is brought there.
    Reserve(Reserve),
    /// What agents keep: look, add, forget.
    #[command(subcommand)]
    Memory(Memory),
    /// Turns that survive the end of this node, and calls of which nobody knows what became.
    #[command(subcommand)]
    Session(Session),
    #[command(flatten)]
    Verification(Verification),
    /// Groups of nodes that agree on one state: form, join, leave, read and write.
    #[command(subcommand)]
    Group(Group),
    /// Tasks that a group's members share: submit, list, show, cancel.
    #[command(subcommand)]
    Task(Task),
    /// Workflows that a group runs: steps of which each is a task, or a question to a person.
    #[command(subcommand)]
    Workflow(Workflow),
    /// Work that a group does at certain times, whichever of its members leads.
    #[command(subcommand)]
    Schedule(Schedule),
    /// Applications: agents, workflows and schedules that one file brings up in a group.
    #[command(subcommand)]
    App(App),
    /// Hand the work of a task to another agent, by a signed document; or show, verify and sign such documents without a node.
    Handoff(Handoff),
    /// Registries of agents: follow one, list them, leave one.
    #[command(subcommand)]
    Registry(Registry),
    /// Your organisation in a registry: its domain, its members, what its log says of you.
    #[command(subcommand)]
    Org(Org),
    /// How fast models are on machines: measure one here, or see what others measured on machines like this one.
    #[command(subcommand)]
    Blueprint(Blueprint),
    /// Release an agent, a workflow or a Thing in a registry: signed by you, and proven by its log.
    Publish(Publish),
    /// Versions of agents in a registry: list, show, attest, stage, approve, reject, deprecate, yank, restore, revoke, purge.
    #[command(subcommand)]
    Release(Release),
    /// Install a release of somebody else's agent as your own, after a look at its contract; or of a workflow, after a look at
    /// its steps.
    Install(Install),
    /// Agents and workflows that were installed, and what their registries have now.
    Outdated,
    /// Update an agent or a workflow that was installed.
    Update(Update),
    /// Remove a workflow or an agent that was installed.
    Uninstall(Uninstall),
    #[command(flatten)]
    Governance(Governance),
    /// How this node is, layer by layer.
    Status,
    /// The seven layers of the Agent OSI model, and how this node has them.
    Osi {
        /// Print YAML, in the structure of the model.
        #[arg(long)]
        yaml: bool,
    },
    /// Find out what is wrong, layer by layer, and why others do not see this node: asks peers to dial it back.
    Doctor(Doctor),
    /// The agents of this node and what they do.
    Ps,
    /// What the programs of an agent of this node said last: its own, and those of its tool servers.
    Logs(Logs),
    /// The agents of this node and what they do, live, a pane for each class; q ends.
    Top(Top),
    /// Recent calls: which took how long; one of them over all nodes that it passed, as a tree.
    Trace(Trace),
    /// Show the signed messages that pass between this node and others, decoded, until Ctrl-C.
    Tap(Tap),
    /// What happens on this node, as it happens, until Ctrl-C: agents, tasks, groups, trust, registries, keys.
    Events(Events),
    /// Print who this node and its owner are.
    Id,
    /// Measure what contracts are worth on this machine; needs no node.
    Bench(Bench),
    /// Check what can be promised.
    #[command(subcommand)]
    Contract(Contract),
    /// Check Thing Descriptions that were written elsewhere.
    #[command(subcommand)]
    Td(Td),
    /// Check A2A agent cards that were written elsewhere.
    #[command(subcommand)]
    Card(Card),
}

/// `althing trace`
#[derive(Debug, Clone, clap::Args)]
pub struct Trace {
    /// The trace, or the beginning of its id [default: list recent traces].
    pub id: Option<String>,
    /// How many are listed.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub limit: u64,
    /// Print all attributes of each span.
    #[arg(long)]
    pub all: bool,
}

/// `althing mcp`
#[derive(Debug, Clone, clap::Args)]
pub struct Mcp {
    /// List the agents of all nodes, not only of this one.
    #[arg(long)]
    pub mesh: bool,
    /// List only agents with this capability, such as billing.view or billing.*.
    #[arg(long, value_name = "ID")]
    pub capability: Option<String>,
    /// List only agents that this text finds.
    #[arg(long)]
    pub text: Option<String>,
    /// Show this agent, an adopted MCP server, as that server: with the names, schemas and results of its tools.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["mesh", "capability", "text"])]
    pub agent: Option<String>,
}

/// `althing key`
#[derive(Debug, Clone, Subcommand)]
pub enum Key {
    /// Show the owner's key and what became of those before it.
    Show,
    /// Let the next key take over: after a theft, or once a year. The owner's name stays.
    Rotate {
        /// How long the old key is accepted too, minutes; 0 when it was stolen.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=1_440))]
        overlap_minutes: u64,
        /// The file that the next key was exported to, where it does not lie here.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Take back what a node was let do (--node), or end the owner for ever (--yes).
    Revoke {
        /// The node, as a did:key or a peer id: its memberships and grants of until now mean nothing any more.
        #[arg(long, value_parser = node_key, conflicts_with_all = ["yes", "from"])]
        node: Option<althing_protocol::PublicKey>,
        /// End the owner for ever.
        #[arg(long)]
        yes: bool,
        /// The file that the next key was exported to, where it does not lie here.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Write the owner's keys to a new file under a passphrase.
    Export {
        /// The file.
        file: PathBuf,
        /// The next key lies only there from then on, so that nobody on this machine can rotate or revoke.
        #[arg(long)]
        remove_next: bool,
    },
    /// Bring exported keys to this machine.
    Import {
        /// The file.
        file: PathBuf,
    },
}

/// `althing network-key`
#[derive(Debug, Clone, Subcommand)]
pub enum NetworkKey {
    /// Make a key, in a new file to be brought to each node.
    New {
        /// The file.
        file: PathBuf,
    },
    /// Show what tells whether two files hold the same key; it gives nothing away.
    Show {
        /// The file.
        file: PathBuf,
    },
}

fn node_key(text: &str) -> Result<althing_protocol::PublicKey, String> {
    let key = if text.starts_with("did:") {
        althing_protocol::PublicKey::from_did(text)
    } else {
        althing_protocol::PublicKey::from_peer_id(text)
    };
    key.map_err(|error| {
        let urn = if text.starts_with("urn:") { ", and urn:althing:… an owner or an agent" } else { "" };
        format!("{error}; a node is did:key:…, as `althing id` shows on it, or its peer id{urn}")
    })
}

/// `althing contract`
#[derive(Debug, Clone, Subcommand)]
pub enum Contract {
    /// Check contracts, alone or in agent files; needs no node.
    Lint {
        /// Contracts or agent files (YAML or JSON).
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Test whether task sets keep their deadlines; needs no node. Exits with 5 when some task is refused.
    Admit(Admit),
}

/// `althing contract admit`
#[derive(Debug, Clone, clap::Args)]
pub struct Admit {
    /// Files of task sets (JSON): C, T, and D, J, Q, B where they are not T, 0, 0, 0; in any one unit of time.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Cores to place the tasks on.
    #[arg(long, default_value_t = 1, value_parser = cores)]
    pub cores: usize,
    /// Which job runs first.
    #[arg(long, value_enum, default_value = "edf")]
    pub policy: PolicyName,
    /// When a running job makes way: at once, at the end of a section Q, or when it is done.
    #[arg(long, value_enum, default_value = "full")]
    pub preemption: PreemptionName,
    /// The share of each core that may be promised, 0 to 1.
    #[arg(long, default_value_t = 1.0, value_parser = shares::share)]
    pub cap: f64,
}

/// A policy's name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PolicyName {
    /// Earliest deadline first.
    Edf,
    /// Rate monotonic.
    Rm,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Policy {
        match name {
            PolicyName::Edf => Policy::Edf,
            PolicyName::Rm => Policy::Rm,
        }
    }
}

/// A machine's grade.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum GradeName {
    /// Real-time scheduling, and hardly ever a stall.
    A,
    /// Real-time scheduling; stalls were seen.
    B,
    /// No privilege for real-time scheduling.
    C,
}

impl From<GradeName> for Grade {
    fn from(name: GradeName) -> Grade {
        match name {
            GradeName::A => Grade::A,
            GradeName::B => Grade::B,
            GradeName::C => Grade::C,
        }
    }
}

/// A preemption's name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PreemptionName {
    /// At once.
    Full,
    /// At the end of a section.
    Limited,
    /// When the job is done.
    None,
}

impl From<PreemptionName> for Preemption {
    fn from(name: PreemptionName) -> Preemption {
        match name {
            PreemptionName::Full => Preemption::Full,
            PreemptionName::Limited => Preemption::Limited,
            PreemptionName::None => Preemption::None,
        }
    }
}

/// `althing up`
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Up {
    /// Address of a node to join, such as /ip4/192.0.2.7/tcp/7421; may be given more than once.
    #[arg(long = "peer")]
    pub peers: Vec<String>,
    /// Where the gateway listens, such as 127.0.0.1:7420.
    #[arg(long)]
    pub gateway: Option<String>,
    /// Where to listen for nodes, such as /ip4/0.0.0.0/tcp/7421.
    #[arg(long)]
    pub listen: Vec<String>,
    /// The key file of a private network: who does not have it cannot connect (`althing network-key new` makes one).
    #[arg(long, value_name = "FILE")]
    pub network_key: Option<PathBuf>,
    /// What must be there before the node starts: local (nothing), fleet (labels decide), enterprise (a witness signs the audit
    /// log too), or regulated (two people can approve, and agents with effects have gates, too).
    #[arg(long, value_name = "PROFILE", value_parser = node_profile())]
    pub profile: Option<NodeProfile>,
    /// Show public agents to strangers on the LAN: mDNS `_wot._tcp` and `_agent._tcp`, their descriptions and cards.
    #[arg(long)]
    pub introduce: bool,
    /// Do not announce this node on the LAN, nor look for others there.
    #[arg(long)]
    pub no_lan: bool,
    /// A registry beside the node.
    #[command(flatten)]
    pub mounted: Mounted,
}

/// `althing agent`
#[derive(Debug, Clone, Subcommand)]
pub enum Agent {
    /// Run the agent of an agent file, now and after each start of the node.
    Add {
        /// The agent file (YAML).
        file: PathBuf,
        /// What was reserved for it on this node.
        #[arg(long, value_name = "ID")]
        reservation: Option<String>,
        /// Agree to what it may do more than was agreed to here for that name or that file, and to programs without a sandbox, without being
        /// asked.
        #[arg(long)]
        yes: bool,
    },
    /// List this node's agents.
    List,
    /// Stop an agent and forget it.
    Remove {
        /// Its name.
        // An id of its own: the global `--name` would take the value.
        #[arg(id = "agent", value_name = "NAME")]
        name: String,
    },
}

/// `althing secret`
#[derive(Debug, Clone, Subcommand)]
pub enum Secret {
    /// Keep a secret, read from standard input.
    Set {
        /// Its name.
        // An id of its own: the global `--name` would take the value.
        #[arg(id = "secret", value_name = "NAME")]
        secret: String,
    },
    /// List the names of secrets.
    List,
    /// Forget a secret.
    Remove {
        /// Its name.
        #[arg(id = "secret", value_name = "NAME")]
        secret: String,
    },
}

/// `althing token`
#[derive(Debug, Clone, Subcommand)]
pub enum Token {
    /// Make a token, and show it this once.
    Add {
        /// Whose it is: tasks belong to that name.
        // An id of its own: the global `--name` would take the value.
        #[arg(id = "holder", value_name = "NAME")]
        holder: String,
        /// What its holder may do: read, call or admin; may be given more than once.
        #[arg(long, value_delimiter = ',', default_values = ["read", "call"])]
        scope: Vec<althing_gateway::Scope>,
        /// An agent that its holder may call, by name or id; may be given more than once. Without one, all.
        #[arg(long)]
        agent: Vec<String>,
    },
    /// List the holders of tokens, and what each may do.
    List,
    /// Take a token back. After the last one the gateway stays closed.
    Remove {
        /// Whose it is.
        #[arg(id = "holder", value_name = "NAME")]
        holder: String,
    },
    /// Open the gateway to everybody on this machine again, once all tokens are removed.
    Open,
}

/// `althing bind`
#[derive(Debug, Clone, clap::Args)]
pub struct Bind {
    /// The agent file (YAML).
    pub target: String,
    /// Say which layer set each field, and why each candidate was chosen or not.
    #[arg(long)]
    pub explain: bool,
    /// Set a field of the contract, such as class.ttft_ms=100; may be given more than once.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
    /// Write the sealed manifest there.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// The target is the name of an agent that runs, or the hash of a span: show what was bound.
    #[arg(long, conflicts_with_all = ["set", "verify"])]
    pub running: bool,
    /// The target is a sealed manifest: check its signature, and bind it again; needs no node.
    #[arg(long, conflicts_with_all = ["set", "output", "explain"])]
    pub verify: bool,
}

/// `althing reserve`
#[derive(Debug, Clone, clap::Args)]
pub struct Reserve {
    /// The other node's did:key.
    pub node: String,
    /// The agent file whose contract it is.
    #[arg(required_unless_present = "cancel")]
    pub file: Option<PathBuf>,
    /// Seconds for which it is held.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub lease: u64,
    /// Give this one back instead.
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    pub cancel: Option<String>,
}

/// `althing td`
#[derive(Debug, Clone, Subcommand)]
pub enum Td {
    /// Check W3C Thing Descriptions (TD 1.1 or 1.0); needs no node.
    Lint(Lint),
}

/// `althing card`
#[derive(Debug, Clone, Subcommand)]
pub enum Card {
    /// Check A2A agent cards (1.0), and their signatures; needs no node.
    Lint(Lint),
}

/// What is checked.
#[derive(Debug, Clone, clap::Args)]
pub struct Lint {
    /// JSON files; `-` is the standard input.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// `althing doctor`
#[derive(Debug, Clone, clap::Args)]
pub struct Doctor {
    /// An agent that cannot be called: find out why, without giving it work.
    pub agent: Option<String>,
    /// A stranger's agent of that name will do, where nobody near has one.
    #[arg(long, requires = "agent")]
    pub anyone: bool,
    /// Measure instead what each layer adds to a call, with an agent that echoes. Leaves a few tasks of it behind.
    #[arg(long, conflicts_with_all = ["agent", "anyone"])]
    pub overhead: bool,
}

/// `althing top`
#[derive(Debug, Clone, clap::Args)]
pub struct Top {
    /// Seconds between two looks.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
    /// End after so many looks.
    #[arg(long)]
    pub count: Option<u64>,
}

/// `althing memory`
#[derive(Debug, Clone, Subcommand)]
pub enum Memory {
    /// List namespaces, or what one of them keeps.
    List {
        /// Which namespace.
        namespace: Option<String>,
    },
    /// Keep files of text, each a source of its own.
    Add {
        /// Which namespace.
        namespace: String,
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// The passages that resemble a question most.
    Search {
        /// Which namespace.
        namespace: String,
        /// The question.
        #[arg(required = true)]
        question: Vec<String>,
        /// How many at most.
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=32))]
        limit: u64,
    },
    /// Show a passage by its id, or the value under a key; or when and why it went.
    Show {
        /// Which namespace.
        namespace: String,
        /// The id or the key.
        what: String,
    },
    /// Forget a source, or the value under a key.
    Forget {
        /// Which namespace.
        namespace: String,
        /// The source or the key.
        what: String,
    },
    /// Forget a namespace with all that is in it.
    Remove {
        /// Which namespace.
        namespace: String,
    },
}

/// `althing run`
#[derive(Debug, Clone, clap::Args)]
pub struct Run {
    /// An agent file (YAML), or a module (.wasm, .wat).
    pub file: PathBuf,
    /// The contract, for a module or instead of the one that the agent file names.
    #[arg(long)]
    pub contract: Option<PathBuf>,
    /// The agent's name, for a module [default: that of the file].
    // An id of its own: the global `--name` would take the value.
    #[arg(long = "as", id = "as", value_name = "NAME")]
    pub agent: Option<String>,
    /// Agree to what it may do more than was agreed to here for that name or that file, and to programs without a sandbox, without
    /// being asked.
    #[arg(long)]
    pub yes: bool,
}

/// `althing find`
#[derive(Debug, Clone, clap::Args)]
pub struct Find {
    /// Free text; the best match comes first.
    pub text: Vec<String>,
    /// A capability's id, such as billing.view, or billing.* for all that begin so; with a range of versions, such as
    /// billing.view@^1.2, the highest first.
    #[arg(long = "cap", visible_alias = "skill")]
    pub capability: Option<String>,
    /// What is done.
    #[arg(long)]
    pub action: Option<String>,
    /// What it is done to.
    #[arg(long)]
    pub target: Option<String>,
    /// Highest load of the agent's node, 0 to 1.
    #[arg(long, value_parser = load)]
    pub max_load: Option<f32>,
    /// Least grade of the machine of the agent's node.
    #[arg(long, value_enum, ignore_case = true)]
    pub min_grade: Option<GradeName>,
    /// How many results at most.
    #[arg(long, default_value_t = 50, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    pub limit: usize,
    /// Tell registries who you are, and find what is for you or your organisation alone too.
    #[arg(long)]
    pub signed_in: bool,
    /// Say how the result came about.
    #[arg(long)]
    pub explain: bool,
}

/// `althing call`
#[derive(Debug, Clone, clap::Args)]
pub struct Call {
    /// Name or id of the agent.
    pub agent: String,
    /// What to say; read from standard input when it is -. With `--task` and nothing to say the task is shown, with its answer.
    #[arg(required_unless_present = "task")]
    pub text: Vec<String>,
    /// Continue this task, or show it.
    #[arg(long)]
    pub task: Option<String>,
    /// Say which node was chosen, and why, and the id of the task.
    #[arg(long)]
    pub explain: bool,
    /// A stranger's agent of that name will do, where nobody near has one.
    #[arg(long)]
    pub anyone: bool,
}

/// `althing trust`
#[derive(Debug, Clone, clap::Args)]
pub struct Trust {
    /// An owner (urn:althing:zQm…, all its nodes) or one node (did:key:z6Mk…); none: list who is trusted.
    pub id: Option<String>,
    /// Trust it no longer.
    #[arg(long, requires = "id")]
    pub remove: bool,
}

/// The profiles of a node, by their words.
fn node_profile() -> impl TypedValueParser<Value = NodeProfile> {
    PossibleValuesParser::new(NodeProfile::ALL.map(NodeProfile::word)).try_map(|word| word.parse::<NodeProfile>())
}

fn node_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=32).contains(&text.len()) && text.chars().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err("a node's name is 1 to 32 letters, digits, - or _".to_owned())
    }
}

fn cores(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|cores| (1..=1_024).contains(cores));
    number.ok_or_else(|| "cores are 1 to 1024".to_owned())
}

fn load(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|load| (0.0..=1.0).contains(load));
    number.ok_or_else(|| "a load is a number from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_of_the_documentation_is_understood() {
        let pages = [
            include_str!("../../../README.md"),
            include_str!("../../../docs/getting-started.md"),
            include_str!("../../../docs/agents.md"),
            include_str!("../../../docs/admission.md"),
            include_str!("../../../docs/configuration.md"),
        ];
        let mut understood = 0;
        for line in pages.iter().flat_map(|page| page.lines()).filter(|line| line.starts_with("althing ")) {
            let command = line.split(" #").next().unwrap_or_default().replace('"', "").replace(" < question.txt", "");
            let parsed = Args::try_parse_from(command.split_whitespace());
            assert!(parsed.is_ok(), "{line}\n{}", parsed.err().map(|error| error.to_string()).unwrap_or_default());
            understood += 1;
        }
        assert!(understood >= 15, "only {understood} commands were found: has the documentation changed its shape?");
    }
}

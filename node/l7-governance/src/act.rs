//! What is about to be done that is no call of an agent or a tool, with all that policies may read of it.

use althing_execution::tools::ModelClearance;
use althing_policy::{EntityName, Gate, Kind};
use althing_protocol::{AgentId, Label};
use serde_json::{Map, Value};

/// What is about to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act<'a> {
    /// A program of this node reaches a host.
    Egress {
        /// The name of its agent; empty for a program that is only looked at.
        agent: &'a str,
        /// The name or the address, as URLs spell it; `*` where nothing keeps the program from any.
        host: &'a str,
        /// The port; none of `*`.
        port: Option<u16>,
        /// The method of HTTP, where the node sees it: not in a tunnel. `OTHER` of one that few know.
        method: Option<&'a str>,
        /// The pattern by which its file names the host, such as `*.example.org`; none where it names the host itself.
        pattern: Option<&'a str>,
    },
    /// A secret of the node is read for an agent.
    Secret {
        /// The name of the agent.
        agent: &'a str,
        /// The name of the secret.
        name: &'a str,
        /// Where it is sent; none where it stays on this machine.
        host: Option<&'a str>,
    },
    /// An agent is given a model when it starts.
    BindModel {
        /// The name of the agent.
        agent: &'a str,
        /// The model's name in contracts.
        name: &'a str,
        /// Where it is.
        host: Option<&'a str>,
        /// How far it is cleared.
        clearance: ModelClearance,
    },
    /// An agent is given a server of tools when it starts.
    BindServer {
        /// The name of the agent.
        agent: &'a str,
        /// The server's name in the agent's file.
        name: &'a str,
        /// Where it is; none of a program of this machine.
        host: Option<&'a str>,
    },
    /// The owner adds an agent, or puts another file in the place of its file.
    Add(AddedAgent<'a>),
    /// A group places an agent on this node.
    Place {
        /// Which is to run here.
        agent: AddedAgent<'a>,
        /// The group, by its id.
        group: &'a str,
    },
    /// An agent that was added runs on under other policies than then, or is started again: a control loop, which nobody calls.
    Run {
        /// Which runs here.
        agent: AddedAgent<'a>,
        /// The group that placed it here; none of one that the owner added.
        group: Option<&'a str>,
    },
    /// Others than this node may see or call an agent from now on.
    Expose {
        /// Whom they may see or call.
        agent: &'a AgentId,
        /// Who may call it: `own`, `trusted`, `anyone`, or `listed`; `this-node` where it is only seen.
        callers: &'a str,
        /// Who sees it: `public`, `trusted`, `own` or `hidden`.
        exposure: &'a str,
    },
    /// A release of a registry is installed, or takes the place of one.
    Install {
        /// The publisher's agent or workflow.
        release: &'a AgentId,
        /// The version of the release.
        version: &'a str,
        /// Where it comes from.
        registry: &'a str,
    },
    /// The work of a task goes to another agent.
    HandOver {
        /// Who has it.
        from: &'a AgentId,
        /// Who is to have it.
        to: &'a AgentId,
        /// Of all that goes with it.
        label: Label,
    },
}

/// An agent that is to run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddedAgent<'a> {
    /// Whose it is, and its name.
    pub id: &'a AgentId,
    /// Its version, as its file says.
    pub version: &'a str,
    /// `native`, `model`, `wasm`, `process` or `remote`.
    pub runtime: &'a str,
    /// Of its programs, the one with the least: `none`, `best` or `required`. None where it starts no program.
    pub sandbox: Option<&'a str>,
    /// Who published the release of which it was installed; otherwise the owner.
    pub publisher: &'a str,
}

impl Act<'_> {
    pub(crate) fn gate(&self) -> Gate {
        match self {
            Act::Egress { .. } => Gate::Egress,
            Act::Secret { .. } => Gate::UseSecret,
            Act::BindModel { .. } | Act::BindServer { .. } => Gate::BindAgent,
            Act::Add(_) | Act::Run { group: None, .. } => Gate::AddAgent,
            Act::Place { .. } | Act::Run { group: Some(_), .. } => Gate::PlaceAgent,
            Act::Expose { .. } => Gate::ExposeAgent,
            Act::Install { .. } => Gate::InstallRelease,
            Act::HandOver { .. } => Gate::HandOver,
        }
    }

    /// The agent of this node that does it, by its name; none where the owner does.
    pub(crate) fn agent(&self) -> Option<&str> {
        match *self {
            Act::Egress { agent, .. } => Some(agent).filter(|agent| !agent.is_empty()),
            Act::Secret { agent, .. } | Act::BindModel { agent, .. } | Act::BindServer { agent, .. } => Some(agent),
            Act::HandOver { from, .. } => Some(from.name()),
            Act::Add(_) | Act::Place { .. } | Act::Run { .. } | Act::Expose { .. } | Act::Install { .. } => None,
        }
    }

    /// The agent that it is done with; none where it is done with something else.
    pub(crate) fn subject(&self) -> Option<&AgentId> {
        match *self {
            Act::Add(agent) | Act::Place { agent, .. } | Act::Run { agent, .. } => Some(agent.id),
            Act::Expose { agent, .. } => Some(agent),
            Act::Install { release, .. } => Some(release),
            Act::HandOver { to, .. } => Some(to),
            Act::Egress { .. } | Act::Secret { .. } | Act::BindModel { .. } | Act::BindServer { .. } => None,
        }
    }

    pub(crate) fn resource(&self) -> EntityName {
        match *self {
            Act::Egress { host, .. } => EntityName::new(Kind::Host, host),
            Act::Secret { name, .. } => EntityName::new(Kind::Secret, name),
            Act::BindModel { name, .. } => EntityName::new(Kind::Model, name),
            Act::BindServer { name, .. } => EntityName::new(Kind::Server, name),
            Act::Add(AddedAgent { id, .. })
            | Act::Place { agent: AddedAgent { id, .. }, .. }
            | Act::Run { agent: AddedAgent { id, .. }, .. } => of_agent(id),
            Act::Expose { agent: id, .. } | Act::Install { release: id, .. } | Act::HandOver { to: id, .. } => {
                of_agent(id)
            }
        }
    }

    /// What stands in `context.input`.
    pub(crate) fn input(&self) -> Map<String, Value> {
        let mut input = Input::default();
        match *self {
            Act::Egress { host, port, method, .. } => {
                input.text("host", Some(host)).text("method", method);
                if let Some(port) = port {
                    input.0.insert("port".to_owned(), Value::from(port));
                }
            }
            Act::Secret { name, host, .. } | Act::BindModel { name, host, .. } | Act::BindServer { name, host, .. } => {
                input.text("name", Some(name)).text("host", host);
            }
            Act::Add(agent) => agent.put(&mut input),
            Act::Place { agent, group } => {
                agent.put(&mut input);
                input.text("group", Some(group));
            }
            Act::Run { agent, group } => {
                agent.put(&mut input);
                input.text("group", group);
            }
            Act::Expose { agent, callers, exposure } => {
                input.text("name", Some(agent.name())).text("callers", Some(callers)).text("exposure", Some(exposure));
            }
            Act::Install { release, version, registry } => {
                let publisher = release.publisher().to_string();
                input.text("name", Some(release.name())).text("publisher", Some(&publisher));
                input.text("version", Some(version)).text("registry", Some(registry));
            }
            Act::HandOver { .. } => {}
        }
        input.0
    }

    /// In words, as the beginning of a sentence.
    pub(crate) fn words(&self) -> String {
        match *self {
            Act::Egress { host: "*", .. } => "starting a program that nothing keeps from any host".to_owned(),
            Act::Egress { host, port: Some(port), .. } => format!("reaching {host} at port {port}"),
            Act::Egress { host, .. } => format!("reaching {host}"),
            Act::Secret { name, .. } => format!("using the secret {name:?}"),
            Act::BindModel { name, .. } => format!("giving it the model {name:?}"),
            Act::BindServer { name, .. } => format!("giving it the server {name:?}"),
            Act::Add(AddedAgent { id, .. }) => format!("adding the agent {:?}", id.name()),
            Act::Place { agent, group } => format!("placing the agent {:?} for the group {group}", agent.id.name()),
            Act::Run { agent, .. } => format!("running the control loop {:?}", agent.id.name()),
            Act::Expose { agent, .. } => format!("showing the agent {:?} to others", agent.name()),
            Act::Install { release, version, .. } => format!("installing {release} {version}"),
            Act::HandOver { to, .. } => format!("handing work over to {to}"),
        }
    }

    /// The pattern below which a program makes up what it asks for: its denials are told apart by that, and not by what it made up.
    pub(crate) fn pattern(&self) -> Option<&str> {
        match *self {
            Act::Egress { pattern, .. } => pattern,
            _ => None,
        }
    }

    /// Whether it is done again and again, such as by a program: the same denial by the same policies is one entry of the log.
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(
            self,
            Act::Egress { .. }
                | Act::Secret { .. }
                | Act::BindModel { .. }
                | Act::BindServer { .. }
                | Act::Place { .. }
                | Act::Run { .. }
        )
    }
}

impl AddedAgent<'_> {
    fn put(&self, input: &mut Input) {
        input.text("name", Some(self.id.name())).text("version", Some(self.version));
        input.text("runtime", Some(self.runtime)).text("sandbox", self.sandbox);
        input.text("publisher", Some(self.publisher));
    }
}

/// The members of `context.input` that are known.
#[derive(Default)]
struct Input(Map<String, Value>);

impl Input {
    fn text(&mut self, name: &str, text: Option<&str>) -> &mut Input {
        if let Some(text) = text {
            self.0.insert(name.to_owned(), Value::from(text));
        }
        self
    }
}

fn of_agent(id: &AgentId) -> EntityName {
    EntityName::new(Kind::Agent, id.to_string())
}

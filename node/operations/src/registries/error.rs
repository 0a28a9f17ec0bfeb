//! Why something with registries failed.

use std::path::PathBuf;

use althing_failure::{Kind, RegistryStep, Remedy};
use althing_node::NodeError;
use althing_node::revocations::RevocationError;
use althing_protocol::object::ObjectError;
use althing_protocol::registry::{BundleError, Version, VersionError};
use althing_protocol::tlog::NoteKeyError;
use althing_protocol::{AgentId, IdentityError};
use althing_registry_client::{NameError, RegistryError};
use althing_store::file::FileError;
use althing_store::{ReadError, WriteError};
use althing_td::{SharedFileError, WorkflowFileError};

use super::holder::HolderError;
use super::requirement::Lack;

/// Why something with registries failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesError {
    /// The registry cannot be used, or is not believed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The key is none.
    #[error("{0}; a registry prints its key when it starts, and shows it at its address")]
    Key(#[from] NoteKeyError),
    /// No HTTP client can be made.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
    /// No registry is known.
    #[error("this node follows no registry")]
    None,
    /// Several are known.
    #[error("this node follows several registries: {}", .0.join(", "))]
    Several(Vec<String>),
    /// The registry is not known; the second is a hint at one that may be meant.
    #[error("this node does not follow {0}{1}")]
    Unknown(String, String),
    /// There is no receipt of what was asked for.
    #[error(
        "this node keeps no receipt of {what} from {at}: it was sent to the registry by another node, or the receipt made room \
         for newer ones"
    )]
    NoReceipt {
        /// The address of the registry.
        at: String,
        /// A release, or an entry.
        what: String,
    },
    /// The registry is known by another key.
    #[error("{at} is known with another key: {key}. The key of a registry never changes; remove the registry first")]
    OtherKey {
        /// Its address.
        at: String,
        /// The key that is known.
        key: String,
    },
    /// The registry is of another network.
    #[error(
        "{at} keeps agents of the network {theirs:?}, and this node is of {ours:?}: nodes of different networks do not meet. \
         For another network its operator starts another registry, in a folder of its own"
    )]
    OtherNetwork {
        /// Its address.
        at: String,
        /// Its network.
        theirs: String,
        /// The node's.
        ours: String,
    },
    /// The registry showed two histories.
    #[error("{0} showed two histories, and is asked nothing more")]
    Distrusted(String),
    /// Too few witnesses cosigned its checkpoint.
    #[error(
        "{found} of the witnesses that you named cosigned the checkpoint of {at} with {size} entries, and you want {wanted}: a \
         witness may be down, and then it helps to try again; if this stays so, ask the registry's operator"
    )]
    NotCosigned {
        /// Its address.
        at: String,
        /// Entries under the checkpoint.
        size: u64,
        /// How many cosigned it.
        found: usize,
        /// How many should have.
        wanted: usize,
    },
    /// What was said of witnesses cannot be.
    #[error("{0}")]
    Witnesses(String),
    /// As many registries as one node follows.
    #[error("a node follows at most {0} registries")]
    Full(usize),
    /// A file cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The agent file or the workflow file is wrong.
    #[error(transparent)]
    File(#[from] SharedFileError),
    /// A workflow has no files beside its own.
    #[error("a release of a workflow is the workflow file alone, and {0} more are there")]
    FilesOfWorkflow(usize),
    /// The bundle holds something else than the description of the release says.
    #[error(
        "{agent} {version} is described as {described}, and its bundle holds {found}: it is not installed; tell its publisher"
    )]
    OtherKind {
        /// The agent.
        agent: Box<AgentId>,
        /// The version.
        version: Version,
        /// What its description says that it is.
        described: &'static str,
        /// What the bundle holds.
        found: &'static str,
    },
    /// A later release is an agent where a workflow was installed, or the other way round.
    #[error(
        "the newer release of {0:?} is an agent where a workflow was, or the other way round: remove it, and install it anew"
    )]
    BecameOther(String),
    /// What was installed cannot follow its publisher by rollouts.
    #[error("newer releases of {name:?} cannot come by rollouts: {why}")]
    NoRollouts {
        /// Its name here.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// The agent is not the one that was installed any more.
    #[error("what runs as {0:?} is another file than the one that was installed")]
    OtherFile(String),
    /// Something here has the name.
    #[error("something that was installed here has the name {0:?}")]
    NameTaken(String),
    /// Several workflows that were installed have the name.
    #[error("several workflows that were installed come from that release: name one of them: {}", .0.join(", "))]
    SeveralInstalled(Vec<String>),
    /// As many workflows as a node has.
    #[error("a node has at most {0} workflows that were installed")]
    FullOfWorkflows(usize),
    /// The file of an installed workflow was damaged.
    #[error("{}: {source}", .path.display())]
    InstalledFile {
        /// Its name here.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<WorkflowFileError>,
    },
    /// The contract is in another file.
    #[error("the contract is in another file: write it into the agent file, so that the release has all of it")]
    ContractApart,
    /// The contract is completed by a role of the node.
    #[error(
        "the agent file names a role, so that its contract depends on the node: a release has its whole contract in the \
         agent file"
    )]
    Role,
    /// What is to be installed is of another publisher than it was, or than the owner means.
    #[error(transparent)]
    Holder(#[from] Box<HolderError>),
    /// The bundle is wrong.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The bundle is too large.
    #[error("this has {bytes} bytes with its files, and a release at most {max}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// Bytes at most.
        max: usize,
    },
    /// A file of the bundle is outside the folder of the agent file.
    #[error("{} is not below the folder of the agent file: files of a release are", .0.display())]
    Outside(PathBuf),
    /// A path of the agent file leads to what another machine has not.
    #[error(
        "`{field}` of the agent file is {}, which is missing where the release is installed: move what is meant below the folder \
         of the agent file, and write the path from there",
        path.display()
    )]
    Elsewhere {
        /// Where in the agent file.
        field: String,
        /// The path.
        path: PathBuf,
    },
    /// The agent file names a file or a folder of which the release has nothing.
    #[error(
        "`{field}` of the agent file names {}, which is not in the release",
        path.display()
    )]
    NotInRelease {
        /// Where in the agent file.
        field: String,
        /// The path, from the folder of the agent file.
        path: PathBuf,
    },
    /// The version is none.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The version was released before, with another content.
    #[error("{agent} {version} was released before, and a version never changes: write the next version into the file")]
    VersionTaken {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// The range is none.
    #[error("{0:?} is no version and no range: write 1.2.3, ^1, ~1.2 or *")]
    Range(String),
    /// Nothing matches.
    #[error("{at} has no release of {agent} that {range} chooses{}", listed(.passed_over))]
    NoMatch {
        /// The registry.
        at: String,
        /// The agent.
        agent: Box<AgentId>,
        /// The range.
        range: String,
        /// Why it does not choose those that there are, as the registry says.
        passed_over: Vec<String>,
    },
    /// The release is revoked.
    #[error("{agent} {version} was revoked by its publisher{}", because(.reason))]
    Revoked {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// The publisher's reason.
        reason: Option<String>,
    },
    /// The release has nothing to install.
    #[error("{agent} {version} has nothing to run here: it is a Thing that runs elsewhere, and is not installed")]
    NoBundle {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// What was typed is no name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The owner is no organisation in that registry.
    #[error("you are no organisation in this registry")]
    NoOrganisation,
    /// What was said of the organisation cannot be.
    #[error("{0}")]
    Organisation(String),
    /// A staged release is not what it should be.
    #[error("the staged release {id} is not signed: {why}")]
    Staged {
        /// Its id.
        id: String,
        /// What is wrong.
        why: String,
    },
    /// The bundle holds another agent.
    #[error("the bundle of {agent} {version} holds {found}: it is not installed")]
    OtherAgent {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// What the bundle holds.
        found: String,
    },
    /// The release is young, and its publisher not trusted.
    #[error(
        "{agent} {version} was published {hours} h ago by {}, whom you do not trust",
        .agent.publisher()
    )]
    Young {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// Its age, hours.
        hours: u64,
        /// The age from which it is installed.
        min: u64,
    },
    /// A program of the release is not kept to its folder and to what the agent file names.
    #[error("{agent} {version} is not installed: {what}. Only you can allow that")]
    Uncontained {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// Which program, and what it reaches.
        what: String,
    },
    /// The description of a Thing is wrong.
    #[error("{}: {why}", .file.display())]
    Thing {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// What must be attested of it is not.
    #[error("{agent} {version} is not installed: {lack}")]
    NotAttested {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// What is missing.
        lack: Box<Lack>,
    },
    /// A release was named without its version.
    #[error("{0:?} has no version: write {0}@1.2.3")]
    NoVersion(String),
    /// Another release than the one that was looked at.
    #[error("the registry shows another release now than the one you looked at: look again")]
    Changed,
    /// The registry shows a release with another content than the owner looked at.
    #[error(
        "the registry shows {agent} {version} with the content {shown}, and you looked at {wanted}: nothing was signed. Look at \
         the release that it shows, or name another registry"
    )]
    OtherContent {
        /// The agent.
        agent: Box<AgentId>,
        /// The version.
        version: Version,
        /// The digest that it shows.
        shown: String,
        /// The digest that was named.
        wanted: String,
    },
    /// The agent was not installed from a registry; the second is a hint at one that was.
    #[error("nothing of the name {0:?} was installed from a registry{1}")]
    NotInstalled(String, String),
    /// The node has no folder of its own.
    #[error("this node keeps no data, so nothing can be installed on it")]
    NoFolder,
    /// A row of the store is damaged.
    #[error("what is stored of the registry {0} is damaged: remove it and add it again")]
    Damaged(String),
    /// Something could not be signed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An id is none.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The store cannot be read.
    #[error(transparent)]
    StoreRead(#[from] ReadError),
    /// The store cannot be written.
    #[error(transparent)]
    StoreWrite(#[from] WriteError),
    /// The node cannot do it.
    #[error(transparent)]
    Node(#[from] Box<NodeError>),
}

impl From<HolderError> for RegistriesError {
    fn from(error: HolderError) -> RegistriesError {
        RegistriesError::Holder(Box::new(error))
    }
}

impl From<NodeError> for RegistriesError {
    fn from(error: NodeError) -> RegistriesError {
        match error {
            // Whoever installs it can give it another name.
            NodeError::WorkflowExists(name) => RegistriesError::NameTaken(name),
            error => RegistriesError::Node(Box::new(error)),
        }
    }
}

impl From<RevocationError> for RegistriesError {
    fn from(error: RevocationError) -> RegistriesError {
        match error {
            RevocationError::Read(error) => error.into(),
            RevocationError::Write(error) => error.into(),
            RevocationError::Damaged(what) => RegistriesError::Damaged(what),
        }
    }
}

impl From<RegistriesError> for NodeError {
    fn from(error: RegistriesError) -> NodeError {
        NodeError::Registries { why: error.to_string(), remedy: error.remedy().map(Box::new) }
    }
}

impl RegistriesError {
    /// Whether the registry has no such thing, as far as it shows.
    pub(super) fn is_absence(&self) -> bool {
        matches!(
            self,
            RegistriesError::NoMatch { .. } | RegistriesError::Registry(RegistryError::Refused { status: 404, .. })
        )
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RegistriesError::Node(error) => error.kind(),
            RegistriesError::Registry(error) => kind_of(error),
            RegistriesError::Key(_)
            | RegistriesError::Witnesses(_)
            | RegistriesError::Several(_)
            | RegistriesError::File(_)
            | RegistriesError::FilesOfWorkflow(_)
            | RegistriesError::NoRollouts { .. }
            | RegistriesError::SeveralInstalled(_)
            | RegistriesError::ContractApart
            | RegistriesError::Role
            | RegistriesError::Bundle(_)
            | RegistriesError::TooLarge { .. }
            | RegistriesError::Outside(_)
            | RegistriesError::Elsewhere { .. }
            | RegistriesError::NotInRelease { .. }
            | RegistriesError::Version(_)
            | RegistriesError::Range(_)
            | RegistriesError::NoVersion(_)
            | RegistriesError::Thing { .. }
            | RegistriesError::Name(_)
            | RegistriesError::Organisation(_)
            | RegistriesError::Identity(_) => Kind::Invalid,
            RegistriesError::None
            | RegistriesError::Unknown(..)
            | RegistriesError::NoReceipt { .. }
            | RegistriesError::NoMatch { .. }
            | RegistriesError::NotInstalled(..)
            | RegistriesError::NoOrganisation
            | RegistriesError::NoBundle { .. } => Kind::NotFound,
            RegistriesError::OtherKey { .. }
            | RegistriesError::OtherNetwork { .. }
            | RegistriesError::Holder(_)
            | RegistriesError::Distrusted(_)
            | RegistriesError::NotCosigned { .. }
            | RegistriesError::Revoked { .. }
            | RegistriesError::OtherAgent { .. }
            | RegistriesError::OtherKind { .. }
            | RegistriesError::NameTaken(_)
            | RegistriesError::BecameOther(_)
            | RegistriesError::OtherFile(_)
            | RegistriesError::FullOfWorkflows(_)
            | RegistriesError::Staged { .. }
            | RegistriesError::Young { .. }
            | RegistriesError::Uncontained { .. }
            | RegistriesError::NotAttested { .. }
            | RegistriesError::Changed
            | RegistriesError::OtherContent { .. }
            | RegistriesError::VersionTaken { .. } => Kind::Refused,
            _ => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        let step = match self {
            RegistriesError::Node(error) => return error.remedy(),
            RegistriesError::Registry(RegistryError::Forked { .. }) => RegistryStep::ForgetForked,
            RegistriesError::None => RegistryStep::Follow,
            RegistriesError::Several(_) => RegistryStep::NameOne,
            RegistriesError::Unknown(..) => RegistryStep::List,
            RegistriesError::NoReceipt { .. } => RegistryStep::PublishAgain,
            RegistriesError::Distrusted(at) => RegistryStep::ShowEvidence(at.clone()),
            RegistriesError::Full(_) => RegistryStep::MakeRoom,
            RegistriesError::FilesOfWorkflow(_) => RegistryStep::PublishAlone,
            RegistriesError::NameTaken(_) => RegistryStep::InstallAs,
            RegistriesError::FullOfWorkflows(_) => RegistryStep::UninstallAny,
            RegistriesError::InstalledFile { name, .. } => RegistryStep::InstallAgain(name.clone()),
            RegistriesError::NotInRelease { path, .. } => RegistryStep::PublishWith(path.display().to_string()),
            RegistriesError::NoBundle { agent, version } => {
                RegistryStep::ShowRelease { agent: agent.to_string(), version: version.to_string() }
            }
            RegistriesError::NoOrganisation => RegistryStep::BecomeOrganisation,
            RegistriesError::Young { min, .. } => RegistryStep::WaitOrTrust { hours: *min },
            RegistriesError::Uncontained { .. } => RegistryStep::AllowUncontained,
            RegistriesError::NotInstalled(..) => RegistryStep::ListInstalled,
            RegistriesError::OtherFile(name) => RegistryStep::ReplaceFile(name.clone()),
            RegistriesError::Holder(error) => return error.remedy(),
            _ => return None,
        };
        Some(step.into())
    }
}

/// What kind of failure it is that a registry cannot be used, or is not believed.
fn kind_of(error: &RegistryError) -> Kind {
    match error {
        RegistryError::Address(_) | RegistryError::Clear { .. } => Kind::Invalid,
        RegistryError::Refused { status: 404, .. } => Kind::NotFound,
        RegistryError::Refused { .. }
        | RegistryError::Forked { .. }
        | RegistryError::WentBack { .. }
        | RegistryError::Hides { .. }
        | RegistryError::Withholds(_)
        | RegistryError::Entries
        | RegistryError::OtherStatement(_)
        | RegistryError::Name(_)
        | RegistryError::NotApproved { .. }
        | RegistryError::Checkpoint(_)
        | RegistryError::Release(_)
        | RegistryError::Receipt { .. }
        | RegistryError::Bundle => Kind::Refused,
        RegistryError::Unreachable { .. } => Kind::Unreachable,
        _ => Kind::Failed,
    }
}

fn because(reason: &Option<String>) -> String {
    reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
}

fn listed(passed_over: &[String]) -> String {
    if passed_over.is_empty() { String::new() } else { format!(": {}", passed_over.join("; ")) }
}

//! The command line of a node that has a registry.

use std::net::SocketAddr;

use althing_protocol::tlog::NoteKey;

/// What `althing up` says of a registry.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Mounted {
    /// Run a registry beside the node: the same as `althing-registry`, in the node's folder. Its owner may publish.
    #[arg(long)]
    pub registry: bool,
    /// Where the registry listens [default: 127.0.0.1:7480].
    #[arg(long, value_name = "ADDRESS", requires = "registry")]
    pub registry_listen: Option<SocketAddr>,
    /// A name by which the registry is asked, such as registry.example.org; may be repeated. Its address and the names of this
    /// machine need none.
    #[arg(long, value_name = "NAME", requires = "registry")]
    pub registry_host: Vec<String>,
    /// The name of the registry's log, such as registry.example.org/log; it is signed, and cannot change later [default: made
    /// from its key].
    #[arg(long, value_name = "NAME", requires = "registry")]
    pub registry_origin: Option<String>,
    /// Another publisher that may publish in the registry (urn:althing:z…); may be repeated.
    #[arg(long, value_name = "URN", requires = "registry")]
    pub registry_publisher: Vec<String>,
    /// Everybody may publish in the registry.
    #[arg(long, requires = "registry", conflicts_with = "registry_publisher")]
    pub registry_anyone: bool,
    /// The key of another log, such as that of another node (`althing audit query`), whose checkpoints the registry cosigns as a
    /// witness; may be repeated.
    #[arg(long, value_name = "KEY", requires = "registry")]
    pub registry_cosign: Vec<NoteKey>,
}

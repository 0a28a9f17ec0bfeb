//! The command line of releases that wait for approval, or are taken away.

use std::path::PathBuf;

/// `althing release stage`
#[derive(Debug, Clone, clap::Args)]
pub struct StageArgs {
    /// The agent file (YAML), with which the files are staged that it names; or a workflow file.
    pub file: PathBuf,
    /// Whose agent it is (urn:althing:z…): its publisher approves it, as `althing release pending` shows it there.
    #[arg(long, value_name = "URN")]
    pub publisher: String,
    /// The address of the registry, such as https://registry.example.org.
    #[arg(long, value_name = "URL")]
    pub registry: String,
    /// A further file below its folder that the agent needs; may be given more than once.
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// The file with the token that the registry's operator made (`althing-registry token add`) [default: the variable
    /// ALTHING_REGISTRY_TOKEN of the environment].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// `althing release approve`
#[derive(Debug, Clone, clap::Args)]
pub struct ApproveArgs {
    /// The id of a staged release, or urn:althing:z…:name@1.2.3 of one that others released.
    pub what: String,
    /// For whom a staged release will be: public, organisation, or ids of publishers separated by commas [default: public].
    #[arg(long)]
    pub audience: Option<String>,
    /// Sign without being asked.
    #[arg(long)]
    pub yes: bool,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}

/// `althing release reject`
#[derive(Debug, Clone, clap::Args)]
pub struct RejectArgs {
    /// The id of a staged release.
    pub id: String,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}

/// `althing release purge`
#[derive(Debug, Clone, clap::Args)]
pub struct PurgeArgs {
    /// The agent and its version, such as echo@1.2.0.
    pub release: String,
    /// Purge without being asked.
    #[arg(long)]
    pub yes: bool,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}

//! What an operator has done to a registry that may be running.

use std::path::Path;

use althing_registry::machine::Admission;
use althing_registry::machine::things::Quotas;
use althing_registry::operator::{Order, Work, ask, carry_out};
use althing_registry::serve::{self, StartError};
use althing_registry::service::{DirectoryConfig, Registry};
use althing_registry::tokens::{Access, Tokens};
use althing_store::OpenError;

use crate::ports;

/// Has the registry of a data folder do something: the one that runs, or else this program. Gives what is printed.
pub async fn ordered(data: &Path, network: Option<String>, work: Work) -> Result<String, String> {
    let order = Order { network: network.clone(), work };
    let said = match operated(data, network).await {
        Ok(registry) => carry_out(&registry, order).await,
        Err(runs @ StartError::Store(OpenError::Locked { .. })) => match ask(data, (ports().random)(), &order).await {
            Ok(None) => return Err(runs.to_string()),
            Ok(Some(said)) => Ok(said),
            Err(error) => Err(error),
        },
        Err(error) => return Err(error.to_string()),
    };
    said.map_err(|error| error.to_string())
}

/// Refuses a folder without a registry: a mistyped one would begin another.
pub fn check_begun(data: &Path) -> Result<(), String> {
    match data.join("registry.key").exists() {
        true => Ok(()),
        false => Err(format!("there is no registry in {}: give the folder that it was started with", data.display())),
    }
}

/// The registry of a data folder, for its operator.
///
/// # Errors
/// See [`StartError`].
pub async fn operated(data: &Path, network: Option<String>) -> Result<Registry, StartError> {
    let registry = serve::open(data, None, network, Admission::Publishers([].into()), &ports()).await?;
    let access = Access { tokens: Tokens::of(data), is_anyone: false, is_closed: false };
    let directory = DirectoryConfig { quotas: Quotas::default(), access, random: ports().random, is_tls: false };
    Ok(registry.with_directory(directory))
}

//! `althing-registry witness`: runs a witness of others' logs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use althing_edge::Access;
use althing_protocol::tlog::NoteKey;
use althing_registry::http::{at_own_names, witness_router};
use althing_registry::serve::{Limits, StartError, key, listening, reached, serving, tls};
use althing_registry::witness::{FAMILIES, Witness, WitnessConfig};
use althing_store::{RocksStore, StoreConfig, keyfile};
use tokio_util::sync::CancellationToken;

use crate::{ports, told_to_stop};

/// How a witness runs.
#[derive(clap::Args)]
pub struct WitnessCommand {
    /// Where the witness keeps its key, and what it signed.
    #[arg(long)]
    data: PathBuf,
    /// The key of the log of a registry that it looks after, which the registry prints; may be repeated.
    #[arg(long = "log", value_name = "KEY", required = true)]
    logs: Vec<NoteKey>,
    /// The name of the witness, such as witness.example.net; it is signed, and cannot change later [default: made from the
    /// key].
    #[arg(long)]
    name: Option<String>,
    /// The address and port to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:7481")]
    listen: SocketAddr,
    /// A name by which the witness is asked, such as witness.example.net: its Host header, also behind a proxy; may be repeated.
    /// Its address and the names of this machine need none.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The certificate chain, PEM; the witness then speaks TLS 1.3 only.
    #[arg(long, requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The key of the certificate, PEM.
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

/// Runs it until it is told to stop.
pub async fn run(command: WitnessCommand) -> Result<(), String> {
    let witness = opened(&command.data, command.name, command.logs).await?;
    let said = |error: StartError| error.to_string();
    let tls = tls(command.tls_certificate.zip(command.tls_key)).map_err(said)?;
    let (listener, address) = listening(command.listen).await.map_err(said)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    println!("witness  {}", witness.note_key().name());
    println!("at       {scheme}://{}", reached(address));
    println!("key      {}", witness.note_key());
    for log in witness.logs().map_err(|error| error.to_string())? {
        println!("log      {}, {} entries signed", log.name, log.head.size);
    }
    let stop = CancellationToken::new();
    let router = at_own_names(witness_router(Arc::new(witness)), Access::at(address, command.hosts));
    let serving = serving(listener, router, tls, Limits::default(), stop.clone());
    told_to_stop().await?;
    stop.cancel();
    serving.await.map_err(|error| error.to_string())
}

async fn opened(data: &Path, name: Option<String>, logs: Vec<NoteKey>) -> Result<Witness, String> {
    let store = RocksStore::open_after(&data.join("store"), &FAMILIES, StoreConfig::default()).await;
    let store = Arc::new(store.map_err(|error| error.to_string())?);
    let ports = ports();
    let key = key(&data.join("witness.key"), &ports.random).map_err(|error| error.to_string())?;
    let path = data.join("name");
    let (kept, is_first) = match std::fs::read_to_string(&path) {
        Ok(kept) => (Some(kept), false),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, true),
        Err(error) => return Err(format!("cannot use {}: {error}", path.display())),
    };
    let name = match (kept, name) {
        (Some(kept), Some(name)) if kept != name => {
            return Err(format!(
                "this witness is named {kept:?}, and cannot be renamed to {name:?}: leave out --name, or start a new witness in \
                 another folder"
            ));
        }
        (Some(kept), _) => kept,
        (None, Some(name)) => name,
        (None, None) => {
            let id: String = key.public().to_string().chars().rev().take(8).collect();
            format!("witness-{}", id.to_lowercase())
        }
    };
    let config = WitnessConfig { name: name.clone(), logs, is_first };
    let witness = Witness::open(store, key, config, ports.clock).await.map_err(|error| error.to_string())?;
    // Last: a folder with it is one where a witness has begun, and whose store must be there from now on.
    if is_first {
        keyfile::write_secret(&path, name.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(witness)
}

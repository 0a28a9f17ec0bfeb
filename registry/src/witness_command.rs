//! `althing-registry witness`: runs a witness of others' logs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use althing_edge::Access;
use althing_protocol::tlog::NoteKey;
use althing_registry::http::{at_own_names, witness_router};
use althing_registry::serve::{Limits, StartError, listening, open_witness, reached, serving, tls};
use tokio_util::sync::CancellationToken;

use crate::{ports, told_to_stop};

/// How a witness runs.
#[derive(clap::Args)]
pub struct WitnessCommand {
    /// Where the witness keeps its key, and what it signed.
    #[arg(long)]
    data: PathBuf,
    /// The key of the log that it looks after, of a registry, which prints it, or of a node (`althing audit query`); may be
    /// repeated.
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
    let said = |error: StartError| error.to_string();
    let witness = open_witness(&command.data, command.name, command.logs, &ports()).await.map_err(said)?;
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

//! The program `althing-registry`: opens the store and the key of a registry, and serves it over HTTP.
#![expect(clippy::disallowed_methods, reason = "shell: hands the real clock and randomness to the registry")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use althing_edge::{Limits, Tls, TlsFiles};
use althing_fetch::{Fetch, SystemResolver};
use althing_protocol::{PublisherId, SecretKey};
use althing_registry::domain::{DomainLookup, Internet, keep_proving};
use althing_registry::machine::Admission;
use althing_registry::machine::things::Quotas;
use althing_registry::service::{self, DirectoryConfig, FAMILIES, Registry, RegistryConfig};
use althing_registry::tokens::{Access, Tokens};
use althing_store::keyfile::{self, KeyFileError};
use althing_store::{RocksStore, StoreConfig};
use clap::Parser;
use rand::Rng as _;
use token_command::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

mod directory_mdns;
mod domain_command;
mod token_command;

/// A registry of agents: publishers hand in what they signed, and anybody reads it with a proof.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Where the registry keeps its data and its key.
    #[arg(long, required = true)]
    data: Option<PathBuf>,
    /// The address and port to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:7480")]
    listen: SocketAddr,
    /// The name of the log, such as registry.example.org/log; it is signed, and cannot change later [default: made from the
    /// key].
    #[arg(long)]
    origin: Option<String>,
    /// The network whose agents are published here: `network` of the configuration of its nodes.
    #[arg(long, default_value = "althing")]
    network: String,
    /// A publisher that may publish (urn:althing:z…); may be repeated.
    #[arg(long = "publisher", value_name = "URN")]
    publishers: Vec<String>,
    /// Everybody may publish.
    #[arg(long, conflicts_with = "publishers")]
    anyone: bool,
    /// Everybody may register Things, without a token.
    #[arg(long)]
    things_anyone: bool,
    /// The directory is read with a token only.
    #[arg(long)]
    things_closed: bool,
    /// Announce the directory on the LAN: mDNS `_directory._sub._wot._tcp`.
    #[arg(long)]
    mdns: bool,
    /// The certificate chain, PEM; the registry then speaks TLS 1.3 only.
    #[arg(long, requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The key of the certificate, PEM.
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    // It fails only if another part of the program chose one before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(command) = arguments.command.take() {
        let done = match command {
            Command::Token(command) => token_command::run(command).map_err(|error| error.to_string()),
            Command::Domain(command) => runtime().and_then(|it| it.block_on(domain_command::run(command))),
        };
        return match done {
            Ok(said) => {
                println!("{said}");
                ExitCode::SUCCESS
            }
            Err(reason) => failed(&reason),
        };
    }
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO).init();
    match runtime().and_then(|runtime| runtime.block_on(run(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => failed(&reason),
    }
}

/// What looks for proofs of domains, and reaches public addresses only; none where the machine has no name servers.
fn lookup() -> Result<Option<Arc<dyn DomainLookup>>, String> {
    let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver)).map_err(|error| error.to_string())?;
    match Internet::new(fetch) {
        Ok(internet) => Ok(Some(Arc::new(internet))),
        Err(error) => {
            tracing::warn!(error, "no proofs of domains are looked for: the operator says whose they are");
            Ok(None)
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())
}

/// The registry of a data folder, which no other process has open.
async fn opened(
    data: &Path,
    origin: Option<String>,
    network: String,
    admission: Admission,
) -> Result<Registry, String> {
    let store = RocksStore::open(&data.join("store"), &FAMILIES, StoreConfig::default());
    let store = Arc::new(store.map_err(|error| error.to_string())?);
    let (key, path) = (key(&data.join("registry.key"))?, data.join("origin"));
    let (origin, is_first) = self::origin(&path, origin, &key)?;
    let config = RegistryConfig { origin: origin.clone(), network, admission, is_first };
    let opened = Registry::open(store, key, config, clock()).await.map_err(|error| error.to_string())?;
    // Last: a folder with it is one whose log has begun, and whose store must be there from now on.
    if is_first {
        keyfile::write_secret(&path, origin.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(opened)
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("althing-registry: {reason}");
    ExitCode::FAILURE
}

async fn run(arguments: Arguments) -> Result<(), String> {
    let admission = admission(&arguments)?;
    let data = arguments.data.ok_or("--data is missing")?;
    let registry = opened(&data, arguments.origin, arguments.network, admission).await?;
    let directory = DirectoryConfig {
        quotas: Quotas::default(),
        access: Access {
            tokens: Tokens::of(&data),
            is_anyone: arguments.things_anyone,
            is_closed: arguments.things_closed,
        },
        random: Arc::new(|| rand::rng().random()),
        is_tls: arguments.tls_key.is_some(),
    };
    let registry = Arc::new(registry.with_directory(directory));
    let tls = match (arguments.tls_certificate, arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            let files = TlsFiles { cert: certificate, key, client_ca: None };
            Some(Arc::new(Tls::open(files).map_err(|error| error.to_string())?))
        }
        _ => None,
    };
    let listener = tokio::net::TcpListener::bind(arguments.listen).await;
    let listener = listener.map_err(|error| format!("cannot listen on {}: {error}", arguments.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    println!("registry {}", registry.note_key().name());
    println!("at       {scheme}://{address}");
    println!("key      {}", registry.note_key());
    println!("entries  {}", registry.checkpoint().head.size);
    let announced = match arguments.mdns {
        true => Some(directory_mdns::announce(&lan_name(&registry), address, scheme).map_err(|error| {
            format!(
                "the directory cannot be announced on the LAN: {error}; start without --mdns, or repair the network"
            )
        })?),
        false => None,
    };
    let stop = CancellationToken::new();
    let lookup = lookup()?;
    let proving = lookup.clone().map(|lookup| tokio::spawn(keep_proving(registry.clone(), lookup)));
    let router = althing_registry::http::router(registry);
    let router = lookup.into_iter().fold(router, |router, lookup| router.layer(axum::Extension(lookup)));
    let serving = match tls {
        None => tokio::spawn(althing_edge::serve(listener, router, Limits::default(), stop.clone())),
        Some(tls) => tokio::spawn(althing_edge::serve_tls(listener, router, Limits::default(), tls, stop.clone())),
    };
    told_to_stop().await?;
    if let Some(proving) = proving {
        proving.abort();
    }
    if let Some(announced) = announced {
        announced.leave().await;
    }
    stop.cancel();
    serving.await.map_err(|error| error.to_string())
}

/// The name of the directory on the LAN: two registries on it have two keys.
fn lan_name(registry: &Registry) -> String {
    let key = registry.note_key().key().multibase();
    format!("registry-{}", &key[key.len() - 8..]).to_lowercase()
}

/// Who may publish; nobody unless told.
fn admission(arguments: &Arguments) -> Result<Admission, String> {
    if arguments.anyone {
        return Ok(Admission::Anyone);
    }
    let publisher = |text: &String| {
        text.parse::<PublisherId>().map_err(|error| format!("--publisher {text}: {error}; `althing id` prints one"))
    };
    Ok(Admission::Publishers(arguments.publishers.iter().map(publisher).collect::<Result<_, _>>()?))
}

/// The key that signs checkpoints; made at the first start.
fn key(path: &Path) -> Result<SecretKey, String> {
    let bytes = match keyfile::read_secret(path) {
        Err(KeyFileError::Missing { .. }) => {
            let mut seed = [0; 32];
            rand::rng().fill(&mut seed);
            keyfile::write_secret(path, &seed).map_err(|error| error.to_string())?;
            seed.to_vec()
        }
        read => read.map_err(|error| error.to_string())?,
    };
    let seed: [u8; 32] = bytes.try_into().map_err(|_| format!("{} is not a key of 32 bytes", path.display()))?;
    Ok(SecretKey::from_seed(&seed))
}

/// The name of the log, kept from the first start on, since every signature of the registry has it; and whether this is the
/// first start.
fn origin(path: &Path, given: Option<String>, key: &SecretKey) -> Result<(String, bool), String> {
    match std::fs::read_to_string(path) {
        Ok(kept) => match given {
            Some(given) if given != kept => Err(format!(
                "this registry's log is named {kept:?}, and a log cannot be renamed to {given:?}: leave out --origin, or \
                 start a new registry in another folder"
            )),
            _ => Ok((kept, false)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = || {
                let id: String = key.public().to_string().chars().rev().take(8).collect();
                format!("registry-{}", id.to_lowercase())
            };
            Ok((given.unwrap_or_else(made), true))
        }
        Err(error) => Err(format!("cannot use {}: {error}", path.display())),
    }
}

fn clock() -> service::Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

async fn told_to_stop() -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        stopped = tokio::signal::ctrl_c() => stopped.map_err(|error| error.to_string()),
    }
}

//! A registry on a machine: opens its folder, and serves it. The program `althing-registry` and a node that has a registry
//! (`althing up --registry`) start the same one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use althing_edge::{Access as Names, Tls, TlsError, TlsFiles};
use althing_fetch::{Fetch, FetchError, SystemResolver};
use althing_protocol::SecretKey;
use althing_protocol::tlog::NoteKey;
use althing_store::file::{self, FileError};
use althing_store::keyfile::{self, KeyFileError};
use althing_store::{RocksStore, StoreConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use althing_edge::Limits;

pub use crate::reach::reached;

use crate::domain::{DomainLookup, Internet, keep_proving};
use crate::machine::Admission;
use crate::machine::things::Quotas;
use crate::operator;
use crate::publishers::Publishers;
use crate::service::{
    Clock, DirectoryConfig, FAMILIES, OpenError, Random, Registry, RegistryConfig, is_of_network, keep_indexed,
    with_publishers,
};
use crate::tokens::{Access, Tokens};
use crate::witness::{NoWitness, OpenWitnessError, Witness, WitnessConfig, Witnesses};

/// The network of a registry where none is named, as it is that of nodes.
const NETWORK_DEFAULT: &str = "althing";
/// Bytes of the file of the network: more than any name has.
const NETWORK_FILE_BYTES_MAX: u64 = 4_096;

/// What a registry is started with.
pub struct Options {
    /// The folder of its key and its data.
    pub data: PathBuf,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The names by which it is asked, beside its address and those of this machine.
    pub hosts: Vec<String>,
    /// The name of its log; one that began keeps its own.
    pub origin: Option<String>,
    /// The network whose statements it takes; without one that of the folder, which keeps the first.
    pub network: Option<String>,
    /// Who may publish.
    pub admission: Admission,
    /// Whether everybody may register Things, without a token.
    pub things_anyone: bool,
    /// Whether the directory is read with a token only.
    pub things_closed: bool,
    /// The certificate chain and its key, PEM.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The witnesses of its log: their addresses and keys.
    pub witnesses: Vec<(String, NoteKey)>,
    /// The logs of others whose checkpoints it cosigns, as a witness.
    pub cosigns: Vec<NoteKey>,
    /// The limits of its connections.
    pub limits: Limits,
}

/// The time of day, and randomness.
#[derive(Clone)]
pub struct Ports {
    /// The time of day, Unix milliseconds.
    pub clock: Clock,
    /// Random bytes.
    pub random: Random,
}

/// Why a registry does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] althing_store::OpenError),
    /// The log, or what follows from it, is not whole.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The key cannot be read or written.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The key is none.
    #[error("{} is not a key of 32 bytes", .0.display())]
    KeyBytes(PathBuf),
    /// The log has another name.
    #[error(
        "this registry's log is named {kept:?}, and a log cannot be renamed to {given:?}: leave out --origin, or start a new \
         registry in another folder"
    )]
    Renamed {
        /// Its name.
        kept: String,
        /// The name that was given.
        given: String,
    },
    /// The registry is of another network.
    #[error(
        "this registry is of the network {kept:?}, for which all in its log is signed, and cannot become one of {given:?}: leave \
         out --network (beside a node: give the node that network again), or start another registry in another folder"
    )]
    OtherNetwork {
        /// Its network.
        kept: String,
        /// The one that was given.
        given: String,
    },
    /// The network cannot be read.
    #[error("cannot use {}: {error}", .path.display())]
    Network {
        /// The file.
        path: PathBuf,
        /// Why.
        error: FileError,
    },
    /// The name of the log cannot be read.
    #[error("cannot use {}: {error}", .path.display())]
    Origin {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It cannot listen.
    #[error("cannot listen on {at}: {error}")]
    Listen {
        /// Where.
        at: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// No HTTP client can be made.
    #[error("no HTTP client can be made: {0}")]
    Client(#[from] FetchError),
    /// A witness speaks against it.
    #[error(transparent)]
    Witness(#[from] NoWitness),
    /// The witness that it is for others does not start.
    #[error(transparent)]
    OpenWitness(#[from] OpenWitnessError),
    /// The witness has another name.
    #[error(
        "this witness is named {kept:?}, and cannot be renamed to {given:?}: leave out --name, or start a new witness in another \
         folder"
    )]
    WitnessRenamed {
        /// Its name.
        kept: String,
        /// The name that was given.
        given: String,
    },
}

/// A registry that serves.
pub struct Running {
    /// The registry.
    pub registry: Arc<Registry>,
    /// The key of its cosignatures, where it is a witness of others' logs.
    pub witness: Option<NoteKey>,
    /// Where it listens.
    pub address: SocketAddr,
    /// `http` or `https`.
    pub scheme: &'static str,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    beside: Vec<JoinHandle<()>>,
}

/// Opens the registry of a data folder, which no other process has open, without serving it. A folder keeps its network from
/// its first start on; one from before that keeps the network with which it is known to open.
///
/// # Errors
/// See [`StartError`].
pub async fn open(
    data: &Path,
    origin: Option<String>,
    network: Option<String>,
    admission: Admission,
    ports: &Ports,
) -> Result<Registry, StartError> {
    let store = Arc::new(RocksStore::open_after(&data.join("store"), &FAMILIES, StoreConfig::default()).await?);
    let (key, path) = (key(&data.join("registry.key"), &ports.random)?, data.join("origin"));
    let (origin, is_first) = self::origin(&path, origin, &key)?;
    let (of, is_given) = (data.join("network"), network.is_some());
    let (network, is_kept) = self::network(&of, network)?;
    let config = RegistryConfig { origin: origin.clone(), network: network.clone(), admission, is_first };
    let opened = Registry::open(store, key, config, ports.clock.clone()).await?;
    if !is_kept && (is_first || is_given || is_of_network(&opened)) {
        keyfile::write_secret(&of, network.as_bytes())?;
    }
    // Last: a folder with it is one whose log has begun, and whose store must be there from now on.
    if is_first {
        keyfile::write_secret(&path, origin.as_bytes())?;
    }
    Ok(opened)
}

/// Opens the witness of a folder, which no other process has open. It keeps its name from its first start on; without one it is
/// made from its key.
///
/// # Errors
/// See [`StartError`].
pub async fn open_witness(
    data: &Path,
    name: Option<String>,
    logs: Vec<NoteKey>,
    ports: &Ports,
) -> Result<Witness, StartError> {
    let families = &crate::witness::FAMILIES;
    let store = Arc::new(RocksStore::open_after(&data.join("store"), families, StoreConfig::default()).await?);
    let (key, path) = (key(&data.join("witness.key"), &ports.random)?, data.join("name"));
    let kept = match std::fs::read_to_string(&path) {
        Ok(kept) => Some(kept),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(StartError::Origin { path, error }),
    };
    let is_first = kept.is_none();
    let name = match (kept, name) {
        (Some(kept), Some(given)) if kept != given => return Err(StartError::WitnessRenamed { kept, given }),
        (Some(kept), _) => kept,
        (None, Some(given)) => given,
        (None, None) => {
            let id: String = key.public().to_string().chars().rev().take(8).collect();
            format!("witness-{}", id.to_lowercase())
        }
    };
    let config = WitnessConfig { name: name.clone(), logs, is_first };
    let witness = Witness::open(store, key, config, ports.clock.clone()).await?;
    // Last: a folder with it is one where a witness has begun, and whose store must be there from now on.
    if is_first {
        keyfile::write_secret(&path, name.as_bytes())?;
    }
    Ok(witness)
}

/// Opens a registry, and serves it.
///
/// # Errors
/// See [`StartError`].
pub async fn start(options: Options, ports: &Ports) -> Result<Running, StartError> {
    let Options { data, listen, mut hosts, origin, network, admission, .. } = options;
    let registry = open(&data, origin, network, admission, ports).await?;
    let access =
        Access { tokens: Tokens::of(&data), is_anyone: options.things_anyone, is_closed: options.things_closed };
    let (random, is_tls) = (ports.random.clone(), options.tls.is_some());
    let directory = DirectoryConfig { quotas: Quotas::default(), access, random, is_tls };
    let registry = Arc::new(with_publishers(registry.with_directory(directory), Publishers::of(&data)));
    let mut beside = Vec::new();
    if !options.witnesses.is_empty() {
        let mut witnesses = Witnesses::new(client()?, &options.witnesses)?;
        witnesses.begin(&registry).await?;
        beside.push(tokio::spawn(witnesses.keep(registry.clone())));
    }
    let tls = tls(options.tls)?;
    let (listener, address) = listening(listen).await?;
    match operator::prepare(&data) {
        Ok(orders) => beside.push(tokio::spawn(operator::serve(registry.clone(), orders, ports.clock.clone()))),
        Err(error) => {
            tracing::warn!(%error, "the operator cannot change domains and quarantines while the registry runs")
        }
    }
    let mut router = crate::http::router(registry.clone());
    let mut witness = None;
    if !options.cosigns.is_empty() {
        let opened = Arc::new(open_witness(&data.join("witness"), None, options.cosigns, ports).await?);
        witness = Some(opened.note_key().clone());
        router = router.merge(crate::http::cosigning_route(opened));
    }
    if let Some(lookup) = lookup()? {
        beside.push(tokio::spawn(keep_proving(registry.clone(), lookup.clone())));
        router = router.layer(axum::Extension(lookup));
    }
    hosts.push(format!("{}.local", lan_name(&registry)));
    let router = crate::http::at_own_names(router, Names::at(address, hosts));
    beside.push(tokio::spawn(keep_indexed(registry.clone(), data.join("search"))));
    let (scheme, stop) = (if tls.is_some() { "https" } else { "http" }, CancellationToken::new());
    let serving = serving(listener, router, tls, options.limits, stop.clone());
    Ok(Running { registry, witness, address, scheme, stop, serving, beside })
}

impl Running {
    /// An address at which clients reach it: `https://192.0.2.7:7480`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, reached(self.address))
    }

    /// Ends it: what is being answered is answered.
    pub async fn shut_down(self) {
        for task in &self.beside {
            task.abort();
        }
        self.stop.cancel();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the registry ended");
        }
    }
}

/// The name of a directory on the LAN: two registries on it have two keys.
#[must_use]
pub fn lan_name(registry: &Registry) -> String {
    let key = registry.note_key().key().multibase();
    format!("registry-{}", &key[key.len() - 8..]).to_lowercase()
}

/// What looks for proofs of domains, and reaches public addresses only; none where the machine has no name servers.
fn lookup() -> Result<Option<Arc<dyn DomainLookup>>, StartError> {
    match Internet::new(client()?) {
        Ok(internet) => Ok(Some(Arc::new(internet))),
        Err(error) => {
            tracing::warn!(error, "no proofs of domains are looked for: the operator says whose they are");
            Ok(None)
        }
    }
}

fn client() -> Result<Fetch, FetchError> {
    Fetch::new(Vec::new(), Arc::new(SystemResolver))
}

/// The certificate that the operator named, if any.
///
/// # Errors
/// [`StartError::Tls`].
pub fn tls(files: Option<(PathBuf, PathBuf)>) -> Result<Option<Arc<Tls>>, StartError> {
    let Some((cert, key)) = files else { return Ok(None) };
    Ok(Some(Arc::new(Tls::open(TlsFiles { cert, key, client_ca: None })?)))
}

/// A listener, and the address that it got.
///
/// # Errors
/// [`StartError::Listen`].
pub async fn listening(at: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |error| StartError::Listen { at, error };
    let listener = TcpListener::bind(at).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Serves until it is told to stop.
pub fn serving(
    listener: TcpListener,
    router: axum::Router,
    tls: Option<Arc<Tls>>,
    limits: Limits,
    stop: CancellationToken,
) -> JoinHandle<()> {
    match tls {
        None => tokio::spawn(althing_edge::serve(listener, router, limits, stop)),
        Some(tls) => tokio::spawn(althing_edge::serve_tls(listener, router, limits, tls, stop)),
    }
}

/// The key in a file; made at the first start.
///
/// # Errors
/// [`StartError::Key`], [`StartError::KeyBytes`].
pub fn key(path: &Path, random: &Random) -> Result<SecretKey, StartError> {
    let bytes = match keyfile::read_secret(path) {
        Err(KeyFileError::Missing { .. }) => {
            let seed = [random(), random()].concat();
            keyfile::write_secret(path, &seed)?;
            seed
        }
        read => read?,
    };
    let seed: [u8; 32] = bytes.try_into().map_err(|_| StartError::KeyBytes(path.to_owned()))?;
    Ok(SecretKey::from_seed(&seed))
}

/// The network of a folder, kept from its first start on, since all in its log is signed for it; and whether it was there.
fn network(path: &Path, given: Option<String>) -> Result<(String, bool), StartError> {
    match file::read_text(path, NETWORK_FILE_BYTES_MAX) {
        Ok(kept) => {
            let kept = kept.trim_end_matches(['\r', '\n']).to_owned();
            match given {
                Some(given) if given != kept => Err(StartError::OtherNetwork { kept, given }),
                _ => Ok((kept, true)),
            }
        }
        Err(error) if error.is_missing() => Ok((given.unwrap_or_else(|| NETWORK_DEFAULT.to_owned()), false)),
        Err(error) => Err(StartError::Network { path: path.to_owned(), error }),
    }
}

/// The name of the log, kept from the first start on, since every signature of the registry has it; and whether this is the
/// first start.
fn origin(path: &Path, given: Option<String>, key: &SecretKey) -> Result<(String, bool), StartError> {
    match std::fs::read_to_string(path) {
        Ok(kept) => match given {
            Some(given) if given != kept => Err(StartError::Renamed { kept, given }),
            _ => Ok((kept, false)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = || {
                let id: String = key.public().to_string().chars().rev().take(8).collect();
                format!("registry-{}", id.to_lowercase())
            };
            Ok((given.unwrap_or_else(made), true))
        }
        Err(error) => Err(StartError::Origin { path: path.to_owned(), error }),
    }
}

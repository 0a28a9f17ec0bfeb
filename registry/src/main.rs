//! The program `althing-registry`: opens the store and the key of a registry, and serves it over HTTP.
#![expect(clippy::disallowed_methods, reason = "shell: hands the real clock and randomness to the registry")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use althing_protocol::PublisherId;
use althing_protocol::tlog::NoteKey;
use althing_registry::machine::Admission;
use althing_registry::serve::{self, Limits, Options, Ports};
use clap::Parser;
use rand::Rng as _;
use token_command::Command;
use tokio::signal::unix::{SignalKind, signal};

mod directory_mdns;
mod domain_command;
mod ordered;
mod publisher_command;
mod purge_command;
mod quarantine_command;
mod token_command;
mod witness_command;

/// As the nodes' own program: RocksDB's C++ is served by it too.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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
    /// A name by which the registry is asked, such as registry.example.org: its Host header, also behind a proxy; may be
    /// repeated. Its address and the names of this machine need none.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The name of the log, such as registry.example.org/log; it is signed, and cannot change later [default: made from the
    /// key].
    #[arg(long)]
    origin: Option<String>,
    /// The network whose agents are published here: `network` of the configuration of its nodes. It is kept from the first
    /// start on, and cannot change later [default: that of the folder, else althing].
    #[arg(long)]
    network: Option<String>,
    /// A publisher that may publish (urn:althing:z…); may be repeated. `althing-registry publisher` adds others while it runs.
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
    /// A witness that cosigns the checkpoints: its address and its key; may be repeated.
    #[arg(long = "witness", num_args = 2, value_names = ["URL", "KEY"], action = clap::ArgAction::Append)]
    witnesses: Vec<String>,
    /// The key of another log, of a registry or of a node (`althing audit query`), whose checkpoints this registry cosigns as a
    /// witness, at POST /add-checkpoint; may be repeated.
    #[arg(long = "cosign", value_name = "KEY")]
    cosigns: Vec<NoteKey>,
    /// Announce the directory on the LAN: mDNS `_directory._sub._wot._tcp`.
    #[arg(long)]
    mdns: bool,
    /// How many of the 1,024 connections one address may have, or one IPv6 net of 64 bits; one of 48 bits has four times as
    /// many. Behind a proxy on another machine: 1024.
    #[arg(long, value_name = "NUMBER", default_value = "128", value_parser = clap::value_parser!(u16).range(1..))]
    connections_per_net: u16,
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
            Command::Publisher(command) => publisher_command::run(command).map_err(|error| error.to_string()),
            Command::Domain(command) => runtime().and_then(|it| it.block_on(domain_command::run(command))),
            Command::Purge(command) => runtime().and_then(|it| it.block_on(purge_command::run(command))),
            Command::Quarantine(command) => runtime().and_then(|it| it.block_on(quarantine_command::run(command))),
            Command::Witness(command) => {
                log_to_stderr();
                return ended(runtime().and_then(|it| it.block_on(witness_command::run(command))));
            }
        };
        return match done {
            Ok(said) => {
                println!("{said}");
                ExitCode::SUCCESS
            }
            Err(reason) => failed(&reason),
        };
    }
    log_to_stderr();
    ended(runtime().and_then(|runtime| runtime.block_on(run(arguments))))
}

fn log_to_stderr() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO).init();
}

fn ended(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => failed(&reason),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("althing-registry: {reason}");
    ExitCode::FAILURE
}

async fn run(arguments: Arguments) -> Result<(), String> {
    let is_announced = arguments.mdns;
    let running = serve::start(options(arguments)?, &ports()).await.map_err(|error| error.to_string())?;
    let (registry, scheme, address) = (&running.registry, running.scheme, running.address);
    println!("registry {}", registry.note_key().name());
    println!("at       {}", running.url());
    println!("key      {}", registry.note_key());
    println!("entries  {}", registry.checkpoint().head.size);
    if let Some(witness) = &running.witness {
        println!("witness  {witness}");
    }
    let announced = match is_announced {
        true => Some(directory_mdns::announce(&serve::lan_name(registry), address, scheme).map_err(|error| {
            format!(
                "the directory cannot be announced on the LAN: {error}; start without --mdns, or repair the network"
            )
        })?),
        false => None,
    };
    told_to_stop().await?;
    if let Some(announced) = announced {
        announced.leave().await;
    }
    running.shut_down().await;
    Ok(())
}

fn options(arguments: Arguments) -> Result<Options, String> {
    let admission = admission(&arguments)?;
    if arguments.mdns && arguments.listen.ip().to_canonical().is_loopback() {
        return Err(format!(
            "--mdns announces the directory on the LAN, and nobody there reaches {}: listen on an address of the LAN, such as \
             --listen 0.0.0.0:7480, or leave --mdns out",
            arguments.listen
        ));
    }
    Ok(Options {
        data: arguments.data.ok_or("--data is missing")?,
        listen: arguments.listen,
        hosts: arguments.hosts,
        origin: arguments.origin,
        network: arguments.network,
        admission,
        things_anyone: arguments.things_anyone,
        things_closed: arguments.things_closed,
        tls: arguments.tls_certificate.zip(arguments.tls_key),
        witnesses: arguments.witnesses.chunks_exact(2).map(witness).collect::<Result<_, String>>()?,
        cosigns: arguments.cosigns,
        limits: Limits::default().of_each_net(arguments.connections_per_net.into()),
    })
}

/// A witness by its address and its key.
fn witness(pair: &[String]) -> Result<(String, NoteKey), String> {
    let key: NoteKey = pair[1].parse().map_err(|error| format!("--witness {} {}: {error}", pair[0], pair[1]))?;
    Ok((pair[0].clone(), key))
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

/// The real clock and randomness.
fn ports() -> Ports {
    let clock = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    };
    Ports { clock: Arc::new(clock), random: Arc::new(|| rand::rng().random()) }
}

async fn told_to_stop() -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        stopped = tokio::signal::ctrl_c() => stopped.map_err(|error| error.to_string()),
    }
}

//! `althing`: a node of the mesh, and its command line.

mod args;
mod commands;
mod config;
mod control_socket;
mod descriptors;
mod egress;
mod exit;
mod faces;
mod introducing;
mod issuer;
mod mounted;
mod paths;
mod ports;
mod public;
mod questions;
mod startup;
mod telemetry;
mod tokens;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use althing_client::Out;
use althing_execution::realtime::{Level, RtPriorities};

use args::{Args, Command};
use exit::Failure;

/// See the reason in the workspace's Cargo.toml.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // A node starts this program again to keep an agent's program, where no `althing-keeper` is beside it.
    if let Some(ended) = althing_keeper::keep_here() {
        return ended;
    }
    // A node starts this program again to compile one module.
    if let Some(ended) = althing_wasm::compile_here() {
        return ExitCode::from(ended);
    }
    // Two TLS providers are compiled in through dependencies; without a choice the first HTTPS client would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let words: Vec<OsString> = std::env::args_os().collect();
    let args = match Args::read(&words) {
        Ok(args) => args,
        Err(error) => return exit::misread(&error, Args::want_json(&words)),
    };
    let outcome = run(args.clone());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(args.json);
            ExitCode::from(failure.code)
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    // Threads that answer peers and gateways use short scheduler slices, for low latency beside other programs.
    RtPriorities::none().apply(Level::Soft);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(|| {
            RtPriorities::none().apply(Level::Soft);
        })
        .max_blocking_threads(16)
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(dispatch(args));
    // Every task is dropped, and the store closed with the last of them, before the process ends: RocksDB's own threads
    // must not outlive what they use.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    outcome
}

async fn dispatch(args: Args) -> Result<(), Failure> {
    let at = paths::Paths::of(&args)?;
    let out = Out { json: args.json };
    match args.command {
        Command::Up(up) => commands::up::run(&at, &up, &out).await,
        Command::Demo(demo) => Ok(althing_demo::run(&demo, &out, &demo_ports()?).await?),
        Command::Agent(agent) => commands::agent::run(&at, &agent, &out).await,
        Command::Rollout(rollout) => commands::rollout::run(&at, &rollout, &out).await,
        Command::Find(find) => commands::find::run(&at, &find, &out).await,
        Command::Route(route) => commands::route::run(&at, &route, &out).await,
        Command::Call(call) => commands::call::run(&at, &call, &out).await,
        Command::Describe { agent, anyone } => commands::show::describe(&at, &agent, anyone, &out).await,
        Command::Mcp(mcp) => commands::mcp::run(&at, &mcp).await,
        Command::Osi { yaml } => commands::show::osi(&at, yaml, &out).await,
        Command::Peers => commands::show::peers(&at, &out).await,
        Command::Trust(trust) => commands::trust::run(&at, &trust, &out).await,
        Command::Secret(secret) => commands::secret::run(&at, &secret, &out),
        Command::Token(token) => commands::token::run(&at, &token, &out).await,
        Command::Key(key) => commands::key::run(&at, &key, &out),
        Command::NetworkKey(asked) => commands::network_key::run(&asked, &out),
        Command::Bind(bind) => commands::bind::run(&at, &bind, &out).await,
        Command::Catalog(catalog) => commands::catalog::run(&at, &catalog, &out).await,
        Command::Reserve(reserve) => commands::reserve::run(&at, &reserve, &out).await,
        Command::Memory(memory) => commands::memory::run(&at, &memory, &out).await,
        Command::Session(session) => commands::session::run(&at, &session, &out).await,
        Command::Verification(asked) => commands::verification::run(&at, &asked, &out).await,
        Command::Group(group) => commands::group::run(&at, &group, &out).await,
        Command::Task(task) => commands::task::run(&at, &task, &out).await,
        Command::Workflow(workflow) => commands::workflow::run(&at, &workflow, &out).await,
        Command::Schedule(schedule) => commands::schedule::run(&at, &schedule, &out).await,
        Command::App(app) => commands::app::run(&at, &app, &out).await,
        Command::Handoff(handoff) => commands::handoff::run(&at, &handoff, &out).await,
        Command::Registry(registry) => commands::registry::registry(&at, &registry, &out).await,
        Command::Blueprint(blueprint) => commands::blueprint::run(&at, &blueprint, &out).await,
        Command::Org(org) => commands::org::run(&at, &org, &out).await,
        Command::Publish(publish) => commands::registry::publish(&at, &publish, &out).await,
        Command::Release(release) => commands::registry::release(&at, &release, &out).await,
        Command::Install(install) => commands::registry::install(&at, &install, &out).await,
        Command::Outdated => commands::registry::outdated(&at, &out).await,
        Command::Update(update) => commands::registry::update(&at, &update, &out).await,
        Command::Uninstall(uninstall) => commands::registry::uninstall(&at, &uninstall, &out).await,
        Command::Governance(asked) => commands::governance::run(&at, &asked, &out).await,
        Command::Status => commands::show::status(&at, &out).await,
        Command::Doctor(asked) => commands::doctor::run(&at, &asked, &out).await,
        Command::Adopt(adopt) => commands::adopt::run(&at, &adopt, &out).await,
        Command::Run(run) => commands::agent::hold(&at, &run, &out).await,
        Command::Ps => commands::show::ps(&at, &out).await,
        Command::Logs(logs) => commands::logs::run(&at, &logs, &out).await,
        Command::Trace(trace) => commands::trace::run(&at, &trace, &out).await,
        Command::Top(top) => commands::top::run(&at, &top, &out).await,
        Command::Id => commands::show::id(&at, &out),
        Command::Tap(tap) => commands::tap::run(&at, &tap, &out).await,
        Command::Events(events) => commands::events::run(&at, &events, &out).await,
        Command::Bench(bench) => Ok(althing_contract_bench::run(&bench, &out, &bench_ports()?).await?),
        Command::Contract(contract) => commands::contract::run(&contract, &out),
        Command::Td(td) => commands::lint::td(&td, &out),
        Command::Card(card) => commands::lint::card(&card, &out),
    }
}

/// This program, which the demo and the benchmarks start as nodes.
fn program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::failed(format!("this program cannot be found: {error}")))
}

fn demo_ports() -> Result<althing_demo::Ports, Failure> {
    Ok(althing_demo::Ports { program: program()?, clock: ports::clock(), entropy: ports::entropy() })
}

fn bench_ports() -> Result<althing_contract_bench::Ports, Failure> {
    Ok(althing_contract_bench::Ports { program: program()?, clock: ports::clock() })
}

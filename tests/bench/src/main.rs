//! Benchmarks, each as a ratio to a floor or a peer in the same run on the same work.
//!
//! `althing-bench [calls|link|find|idle|wasm|neighbour|containment|groups|groups-idle|groups-tasks|faces|registry|
//! hostile|hostile-registry|sessions|governance|verification]`; without an argument all but `hostile` and `hostile-registry`, which
//! take minutes; `groups-idle` is a part of `groups`, and `groups-tasks` runs alone. `registry --things 1000000` has more Things;
//! `hostile-registry --from ADDRESS` has its attackers at another address of this machine. The other arguments are for its
//! own child processes.
#![expect(clippy::disallowed_methods, reason = "shell: measures real time")]

mod before;
mod calls;
mod commands;
mod containment;
mod faces;
mod figures;
mod find;
mod governance;
mod groups;
mod hostile;
mod idle;
mod link;
mod neighbour;
mod programs;
mod sessions;
mod tool;
mod verification;
mod wasm;

use althing_execution::realtime::{Level, RtPriorities};

/// As the node's own program.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    // Another provider that was installed before serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // As the node's own program.
    RtPriorities::none().apply(Level::Soft);
    runtime.on_thread_start(|| {
        RtPriorities::none().apply(Level::Soft);
    });
    let runtime = runtime.enable_all().build().expect("a runtime");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = words.first().map_or("all", String::as_str);
    runtime.block_on(async {
        match word {
            "peer-libp2p" => calls::peer_libp2p().await,
            "peer-tcp" => calls::peer_tcp().await,
            "peer-link" => link::peer().await,
            "hosting" => wasm::hosting().await,
            "attack" => hostile::attack().await,
            "hostile" => as_wanted(hostile::run().await),
            "neighbour" => as_wanted(neighbour::run().await),
            "containment" => as_wanted(containment::run().await),
            "empty" => idle::empty().await,
            "tool" => tool::serve().await,
            "program" => programs::serve().await,
            "spin" => programs::spin(),
            "session-turns" => sessions::hold().await,
            "session-program" => sessions::serve_program().await,
            "group-member" => groups::serve().await,
            "groups" => as_wanted(groups::run().await),
            "sessions" => as_wanted(sessions::run().await),
            "governance" => as_wanted(governance::run().await),
            "verification" => as_wanted(verification::run().await),
            "faces" => as_wanted(faces::run().await),
            "registry" => as_wanted(registry(&words[1..]).await),
            "hostile-registry" => {
                let words = [&["hostile".to_owned()][..], &words[1..]].concat();
                as_wanted(registry(&words).await);
            }
            "groups-idle" => as_wanted(groups::run_idle().await),
            "groups-tasks" => groups::run_tasks().await,
            "calls" => as_wanted(calls::run().await),
            "find" => as_wanted(find::run()),
            "link" => as_wanted(link::run().await),
            "idle" => as_wanted(idle::run().await),
            "wasm" => as_wanted(wasm::run().await),
            "all" => {
                figures::machine();
                // All run, whatever one of them misses.
                let mut fine = calls::run().await;
                fine &= link::run().await;
                fine &= find::run();
                fine &= idle::run().await;
                fine &= wasm::run().await;
                fine &= neighbour::run().await;
                fine &= containment::run().await;
                fine &= groups::run().await;
                fine &= faces::run().await;
                fine &= sessions::run().await;
                fine &= governance::run().await;
                fine &= verification::run().await;
                fine &= registry(&[]).await;
                as_wanted(fine);
            }
            other => {
                eprintln!(
                    "there is no benchmark {other:?}; there are calls, link, find, idle, wasm, neighbour, containment, groups, groups-idle, groups-tasks, faces, sessions, governance, verification, registry, hostile and hostile-registry"
                );
                std::process::exit(2);
            }
        }
    });
}

/// The registry's benchmarks: a program of its own, which needs nothing of a node.
async fn registry(words: &[String]) -> bool {
    let mut program = std::env::current_exe().expect("this program");
    program.set_file_name("althing-bench-registry");
    let ran = tokio::process::Command::new(program).args(words).status().await;
    ran.expect("`cargo build --workspace` builds it").success()
}

/// Exits with 1 if a figure misses its goal, or is not measured.
fn as_wanted(fine: bool) {
    if !fine {
        eprintln!("a figure misses its goal, or is not measured");
        std::process::exit(1);
    }
}

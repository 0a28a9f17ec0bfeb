//! An agent that is a program beside a greedy one (requirement C9): what a turn takes while the other spins on all processors,
//! and while it does so in many processes.

use std::path::Path;
use std::time::Duration;

use a2a::{Message, Part, Role};
use althing_execution::{Host, Turn};
use axum::routing::get;
use axum::{Json, Router};
use nix::time::{ClockId, clock_getres};
use serde_json::{Value, json};

use crate::figures::{percentile, us};
use crate::neighbour::turns;
use crate::wasm;

/// Processes of the greedy program: within the bound that a node gives a program.
const CHILDREN: usize = 64;

/// Child: an agent that answers at once; asked to `spin` it does so from then on, on as many threads as there are processors,
/// and asked to `fork`, in [`CHILDREN`] processes.
pub async fn serve() {
    let socket = std::env::var("ALTHING_SOCKET").expect("a node starts it");
    // The one that it is handed could not be opened without unsafe code.
    std::fs::remove_file(&socket).expect("it is there");
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let card = json!({
        "name": "program", "description": "Answers", "version": "1", "capabilities": { "streaming": false },
        "supportedInterfaces": [{ "url": "http://localhost/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    });
    let shown = get(|| std::future::ready(Json(card)));
    let router = Router::new().route("/.well-known/agent-card.json", shown).fallback(answer);
    axum::serve(listener, router).await.expect("it serves");
}

async fn answer(Json(request): Json<Value>) -> Json<Value> {
    match request["params"]["message"]["parts"][0]["text"].as_str() {
        Some("spin") => {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                std::thread::spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                });
            }
        }
        Some("fork") => {
            for _ in 0..CHILDREN {
                let mut child = tokio::process::Command::new(std::env::current_exe().expect("this program"));
                // Its keeper ends it.
                drop(child.arg("spin").spawn().expect("it is within its bound"));
            }
        }
        _ => {}
    }
    let message = Message::new(Role::Agent, vec![Part::text("done")]);
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "message": message } }))
}

/// Child: uses a processor until it is killed.
pub fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn start(host: &Host, name: &str, class: &str, folder: &Path) {
    let program = std::env::current_exe().expect("this program");
    let file = json!({
        "name": name,
        "description": "Answers",
        "runtime": { "process": { "command": [program, "program"] } },
        "contract": { "class": { "latency": class } },
    });
    let file = althing_td::AgentFile::parse(&file.to_string()).expect("an agent file");
    tokio::task::block_in_place(|| host.start(&file, folder)).expect("it starts");
}

async fn tell(host: &Host, name: &str, text: &str) {
    let message = Message::new(Role::User, vec![Part::text(text)]);
    wasm::told(host, name, Turn { message, ..wasm::turn() }).await;
}

/// Prints the effect of a greedy program on its neighbour, in its own class and in the one below; true if the goals are met:
/// p99 grows by no more than a tick of the scheduler.
pub async fn run() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let host = wasm::host();
    // This clock is that of the scheduler's ticks.
    let tick: Duration = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).expect("a clock").into();
    start(&host, "neighbour", "srt", folder.path());
    println!("a neighbour of greedy programs (turns as above; a tick of the scheduler is {} ms)", tick.as_millis());
    turns(&host).await; // warming up
    let mut fine = true;
    for class in ["dt", "srt"] {
        let name = format!("greedy-{class}");
        start(&host, &name, class, folder.path());
        tell(&host, &name, "hello").await;
        let mut quiet = turns(&host).await;
        let quiet99 = percentile(&mut quiet, 0.99);
        for greed in ["spin", "fork"] {
            tell(&host, &name, greed).await;
            let mut beside = turns(&host).await;
            let beside99 = percentile(&mut beside, 0.99);
            let grown = beside99.saturating_sub(quiet99);
            fine &= grown <= tick;
            println!(
                "  {greed}, {class}: alone p50 {:.0} p99 {:.0} µs; beside it p50 {:.0} p99 {:.0} µs, p99 grown by {:.0} µs (wanted: at most {:.0})",
                us(percentile(&mut quiet, 0.5)),
                us(quiet99),
                us(percentile(&mut beside, 0.5)),
                us(beside99),
                us(grown),
                us(tick),
            );
        }
        host.stop(&name).await;
    }
    for (program, how) in host.status().into_iter().flat_map(|agent| agent.containment) {
        println!("  the neighbour ({program}) is {how}");
    }
    host.stop_all().await;
    fine
}

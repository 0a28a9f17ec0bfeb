//! What an agent may cost in a time holds over all its turns.

use std::path::Path;
use std::sync::Arc;

use a2a::{Message, Part, Role};
use althing_execution::agent::Parameters;
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::process::ProcessConfig;
use althing_execution::{
    Agent, AgentError, Builtins, Host, Loaded, Output, Ports, Scheduling, SoftRuntime, SystemCalls, Turn,
};
use althing_protocol::Contract;
use althing_td::AgentFile;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// Works for ever.
struct Spins;

impl Agent for Spins {
    fn turn<'a>(&'a self, _: Turn, _: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async {
            loop {
                std::hint::black_box((0..10_000).sum::<u64>());
                tokio::task::yield_now().await;
            }
        })
    }
}

struct NoModules;

impl SoftRuntime for NoModules {
    fn load(&self, _: &[u8], _: &Contract, _: &SystemCalls) -> Result<Loaded, String> {
        Err("there are no modules here".to_owned())
    }
}

fn spins(_: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(Spins))
}

type Builder = fn(&Value, &Path, &SystemCalls) -> Result<Arc<dyn Agent>, String>;

async fn ended(host: &Host) -> AgentError {
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text("go on")]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    };
    let (out, _made) = Output::channel();
    host.turn("spins", turn, out).await.expect_err("it never ends by itself")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cost_budget_that_one_turn_exhausted_is_exhausted_for_the_next() {
    let kernel = Kernel::start(KernelConfig::default(), || Err("nothing hard runs here".to_owned())).expect("threads");
    let scheduling = Scheduling { kernel, soft: Arc::new(NoModules) };
    let builtins = Builtins::from([("spins", spins as Builder)]);
    let host = Host::scheduled(builtins, ProcessConfig::default(), scheduling, Ports::none());
    let file = json!({
        "name": "spins",
        "description": "Spins",
        "runtime": { "native": { "builtin": "spins" } },
        "contract": { "class": { "latency": "dt", "cost": { "cpu_ms": 5, "per_s": 86_400 } } },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new(".")).expect("it starts");
    let first = ended(&host).await;
    assert!(matches!(&first, AgentError::Failed(why) if why.contains("class.cost.cpu_ms")), "{first:?}");
    // Whatever each turn may do: the second is not begun.
    let second = ended(&host).await;
    assert!(matches!(&second, AgentError::Exhausted(why) if why.contains("class.cost.cpu_ms")), "{second:?}");
}

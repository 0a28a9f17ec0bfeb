//! System calls of an agent's program. It makes them on a socket of its own, always for one of its turns, which it names: each
//! passes the gate of the contract with the principals, the lease and the trace of that turn. Nobody guesses the name of a
//! turn, so that what works for one caller does not call in the name of another.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use althing_protocol::Contract;
use althing_protocol::contract::{CALLS_PER_TURN_DEFAULT, Class};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, Span};

use crate::context::{self, CALL_CONTEXT, CallContext};
use crate::definition::Definition;
use crate::entropy::Entropy;
use crate::tools::{ToolError, Tools};

/// The header that names a turn: of each message to a program, and of a system call that the program makes for it.
pub const TURN_HEADER: &str = "Althing-Turn";
/// System calls of one program that run at once.
const CALLS_MAX: usize = 64;

/// Bytes of the name of a turn.
const NAME_BYTES: usize = 16;

/// Serves the system calls of a program on a socket, until it is dropped.
pub type ServeSocket = Arc<dyn Fn(UnixListener, Arc<ProgramCalls>) -> BoxFuture<'static, ()> + Send + Sync>;

/// What programs need to make system calls.
#[derive(Clone)]
pub struct ServeCalls {
    /// Serves them.
    pub serve: ServeSocket,
    /// Makes the names of turns.
    pub entropy: Entropy,
}

impl ServeCalls {
    /// The same, served where turns of that class run, on the soft real-time runtime, where tools answer too. Delay-tolerant turns
    /// run on idle processor time: their calls are served as what comes from outside.
    pub(crate) fn beside_turns(self, class: &Class, soft: Option<&Handle>) -> ServeCalls {
        match soft {
            Some(soft) if !matches!(class, Class::Dt(_)) => self.on(soft.clone()),
            _ => self,
        }
    }

    /// The same, served on that runtime: what a call meets there wakes no thread of another one.
    pub(crate) fn on(self, runtime: Handle) -> ServeCalls {
        let ServeCalls { serve, entropy } = self;
        let there: ServeSocket = Arc::new(move |listener, calls| {
            let (serving, runtime) = (serve(listener, calls), runtime.clone());
            Box::pin(async move {
                // Where it broke off, or its runtime ended, there is nothing to serve any more.
                let _ = AbortOnDropHandle::new(runtime.spawn(serving)).await;
            })
        });
        ServeCalls { serve: there, entropy }
    }
}

/// Why a system call of a program did not begin, or was broken off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallRefused {
    /// The program does not say for which turn it calls.
    #[error(
        "this call names no turn; send the header {TURN_HEADER} as it came with the message that the program answers"
    )]
    Unnamed,
    /// The turn that is named does not run.
    #[error(
        "the turn that {TURN_HEADER} names does not run, or not any more; call only while the program answers its message"
    )]
    Over,
    /// The turn has made as many as it may.
    #[error(
        "this turn has made all {0} system calls that it may make (`compute.calls_per_turn` of its agent's contract); answer \
         with what is known"
    )]
    Spent(u64),
    /// It makes too many at once.
    #[error("{CALLS_MAX} system calls of this program run already; wait for one to end")]
    Crowded,
}

/// A turn that runs.
#[derive(Clone)]
struct OpenTurn {
    context: CallContext,
    span: Span,
    over: CancellationToken,
    /// Calls that it may still make.
    left: Arc<AtomicU64>,
}

/// The system calls of one program.
pub struct ProgramCalls {
    tools: Arc<Tools>,
    entropy: Entropy,
    /// Calls of one turn.
    calls_max: u64,
    /// Those that run, by their names.
    turns: Mutex<BTreeMap<String, OpenTurn>>,
    room: Semaphore,
}

/// Keeps a turn open; its system calls are broken off on drop.
pub(super) struct TurnGuard {
    calls: Arc<ProgramCalls>,
    name: String,
}

impl TurnGuard {
    /// The value of [`TURN_HEADER`].
    pub fn header(&self) -> String {
        self.name.clone()
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        if let Some(turn) = self.calls.turns().remove(&self.name) {
            turn.over.cancel();
        }
    }
}

impl ProgramCalls {
    pub(crate) fn of(tools: Arc<Tools>, contract: &Contract, entropy: Entropy) -> ProgramCalls {
        let calls_max = contract.compute.calls_per_turn.unwrap_or(CALLS_PER_TURN_DEFAULT);
        ProgramCalls { tools, entropy, calls_max, turns: Mutex::default(), room: Semaphore::new(CALLS_MAX) }
    }

    /// Opens the turn that runs here.
    pub(super) fn open(self: &Arc<Self>) -> TurnGuard {
        let mut name = [0; NAME_BYTES];
        (self.entropy)(&mut name);
        let name = format!("{:032x}", u128::from_be_bytes(name));
        let turn = OpenTurn {
            context: context::current(),
            span: Span::current(),
            over: CancellationToken::new(),
            left: Arc::new(AtomicU64::new(self.calls_max)),
        };
        self.turns().insert(name.clone(), turn);
        TurnGuard { calls: self.clone(), name }
    }

    /// The tools that the contract permits, by the names that models see.
    ///
    /// # Errors
    /// [`CallRefused::Crowded`].
    pub async fn listed(&self) -> Result<BTreeMap<String, Definition>, CallRefused> {
        let _place = self.place()?;
        Ok(self.tools.listed().await)
    }

    /// Calls a tool for the turn of that name. Gives MCP's `CallToolResult`.
    ///
    /// # Errors
    /// See [`CallRefused`]; inside, why the system call failed.
    pub async fn call(
        &self,
        turn: Option<&str>,
        tool: &str,
        arguments: &str,
    ) -> Result<Result<Value, ToolError>, CallRefused> {
        let OpenTurn { context, span, over, left } = self.turn(turn)?;
        let _place = self.place()?;
        let spent = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        spent.map_err(|_| CallRefused::Spent(self.calls_max))?;
        let call = CALL_CONTEXT.scope(context, self.tools.invoke(tool, arguments)).instrument(span);
        tokio::select! {
            biased;
            () = over.cancelled() => Err(CallRefused::Over),
            (outcome, _) = call => Ok(outcome),
        }
    }

    fn turn(&self, name: Option<&str>) -> Result<OpenTurn, CallRefused> {
        let name = name.ok_or(CallRefused::Unnamed)?.trim();
        self.turns().get(name).cloned().ok_or(CallRefused::Over)
    }

    fn place(&self) -> Result<SemaphorePermit<'_>, CallRefused> {
        self.room.try_acquire().map_err(|_| CallRefused::Crowded)
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, OpenTurn>> {
        self.turns.lock().expect("no holder of the turns panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use althing_protocol::contract::DataLabel;
    use althing_protocol::{AnswerAttributes, Attributes, Label};
    use serde_json::json;

    use super::*;
    use crate::context::TurnAttributes;
    use crate::ports::Ports;
    use crate::tools::{ContractGate, Fault, ToolServer};

    /// A server whose tool `who` says on whose behalf it is called, and with which label; whose tool `learn` gives restricted data;
    /// and whose tool `wait` never answers.
    struct Server;

    impl ToolServer for Server {
        fn is_own(&self) -> bool {
            true
        }

        fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
            let tools =
                ["who", "wait", "secret", "learn"].map(|name| Definition::new(name, name, json!({ "type": "object" })));
            Box::pin(std::future::ready(Ok(tools.to_vec())))
        }

        fn call<'a>(&'a self, tool: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
            Box::pin(async move {
                if tool == "wait" {
                    std::future::pending::<()>().await;
                }
                let turn = context::now();
                if tool == "learn" {
                    turn.attributes.hear(Some(Label { level: DataLabel::Restricted, trusted: false }));
                }
                Ok(json!({ "for": &*turn.principals, "label": turn.attributes.sent().label }))
            })
        }

        fn stop(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    fn calls() -> Arc<ProgramCalls> {
        calls_of(CALLS_MAX as u64 + 1)
    }

    fn calls_of(per_turn: u64) -> Arc<ProgramCalls> {
        let contract = json!({
            "class": { "latency": "srt" },
            "capabilities": ["s/who", "s/wait", "s/learn"],
            "compute": { "calls_per_turn": per_turn },
        });
        let contract = Contract::from_value(&contract).expect("a contract");
        let servers = BTreeMap::from([("s".to_owned(), Arc::new(Server) as Arc<dyn ToolServer>)]);
        let gate = Arc::new(ContractGate::of(&contract));
        let next = AtomicU8::new(1);
        let entropy: Entropy = Arc::new(move |bytes: &mut [u8]| bytes.fill(next.fetch_add(1, Ordering::Relaxed)));
        let helper = Ports::none().agent_ref("helper", "1.0.0").expect("a name");
        Arc::new(ProgramCalls::of(Arc::new(Tools::new(helper, servers, gate)), &contract, entropy))
    }

    fn opened(calls: &Arc<ProgramCalls>, principal: &str) -> TurnGuard {
        let context = CallContext { principals: [principal.to_owned()].into(), ..CallContext::default() };
        CALL_CONTEXT.sync_scope(context, || calls.open())
    }

    #[tokio::test]
    async fn a_call_is_made_for_the_turn_that_it_names_and_for_no_other() {
        let calls = calls();
        let listed = calls.listed().await.expect("a list");
        assert_eq!(listed.into_keys().collect::<Vec<_>>(), ["s__learn", "s__wait", "s__who"]);
        let who = async |turn: Option<&str>| match calls.call(turn, "s__who", "{}").await {
            Ok(answer) => answer.expect("an answer")["for"][0].clone(),
            Err(refused) => json!(format!("{refused:?}")),
        };
        assert_eq!(who(None).await, "Unnamed");
        let alice = opened(&calls, "alice");
        assert_eq!(who(None).await, "Unnamed", "not even for the only one");
        let bob = opened(&calls, "bob");
        assert_eq!(alice.header(), "01".repeat(16), "all that the entropy gave");
        assert_eq!(who(Some(&alice.header())).await, "alice");
        assert_eq!(who(Some(&bob.header())).await, "bob");
        let longer = alice.header() + "01";
        for wrong in ["", "x", "-1", "0", "1", &alice.header()[1..], longer.as_str()] {
            assert_eq!(who(Some(wrong)).await, "Over", "{wrong}");
        }
        let header = alice.header();
        drop(alice);
        assert_eq!(who(Some(&header)).await, "Over");
        assert_eq!(who(Some(&bob.header())).await, "bob");
    }

    /// P-201
    #[tokio::test]
    async fn what_a_program_is_given_raises_the_label_of_later_calls_of_that_turn_and_of_no_other() {
        let calls = calls();
        let call = Label { level: DataLabel::Confidential, trusted: true };
        let attributes = Attributes { label: Some(call), ..Attributes::default() };
        let answer = AnswerAttributes::default();
        let of = TurnAttributes::of(&attributes, &answer);
        let context = CallContext { attributes: of, ..CallContext::default() };
        let turn = CALL_CONTEXT.sync_scope(context, || calls.open());
        let other = opened(&calls, "bob");
        let label = async |turn: &TurnGuard, tool: &str| {
            let answer = calls.call(Some(&turn.header()), tool, "{}").await.expect("it began");
            answer.expect("an answer")["label"].clone()
        };
        assert_eq!(label(&turn, "s__who").await, json!({ "level": "confidential", "trusted": true }));
        label(&turn, "s__learn").await;
        assert_eq!(label(&turn, "s__who").await, json!({ "level": "restricted", "trusted": false }));
        assert_eq!(label(&other, "s__who").await, Value::Null);
        assert_eq!(answer.label(), Some(Label { level: DataLabel::Restricted, trusted: false }));
    }

    #[tokio::test]
    async fn the_contract_decides_and_a_call_ends_with_its_turn() {
        let calls = calls();
        let turn = opened(&calls, "alice");
        let header = turn.header();
        let denied = calls.call(Some(&header), "s/secret", "{}").await.expect("it began");
        assert!(matches!(denied, Err(ToolError::Denied(_))), "{denied:?}");
        let waiting = calls.call(Some(&header), "s__wait", "{}");
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(turn);
        assert_eq!(waiting.await, Err(CallRefused::Over));
    }

    #[tokio::test]
    async fn a_turn_makes_as_many_calls_as_the_contract_says() {
        let calls = calls_of(2);
        let (first, second) = (opened(&calls, "alice"), opened(&calls, "alice"));
        for turn in [&first, &second] {
            let header = turn.header();
            assert!(calls.call(Some(&header), "s__who", "{}").await.expect("it began").is_ok());
            // A denied one counts too: it is traced and logged as any other.
            assert!(calls.call(Some(&header), "s/secret", "{}").await.expect("it began").is_err());
            assert_eq!(calls.call(Some(&header), "s__who", "{}").await, Err(CallRefused::Spent(2)));
        }
    }

    #[tokio::test]
    async fn calls_are_served_on_the_runtime_that_is_named_until_that_is_dropped() {
        let mut named = tokio::runtime::Builder::new_multi_thread();
        let runtime = named.worker_threads(1).thread_name("there").build().expect("a runtime");
        let (at, mut told) = tokio::sync::mpsc::channel(1);
        let serve: ServeSocket = Arc::new(move |_, _| {
            let at = at.clone();
            Box::pin(async move {
                at.send(std::thread::current().name().map(str::to_owned)).await.expect("it is heard");
                std::future::pending::<()>().await;
            })
        });
        let entropy: Entropy = Arc::new(|bytes: &mut [u8]| bytes.fill(1));
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("calls")).expect("a socket");
        let there = ServeCalls { serve, entropy }.on(runtime.handle().clone());
        let mut serving = (there.serve)(listener, calls());
        assert!(futures::poll!(&mut serving).is_pending());
        assert_eq!(told.recv().await, Some(Some("there".to_owned())));
        drop((serving, there));
        assert_eq!(told.recv().await, None, "nobody serves it any more");
        runtime.shutdown_background();
    }

    #[tokio::test]
    async fn a_program_makes_a_bounded_number_of_calls_at_once() {
        let calls = calls();
        let turn = opened(&calls, "alice");
        let header = turn.header();
        let call = |tool| calls.call(Some(&header), tool, "{}");
        let mut waiting: Vec<_> = (0..CALLS_MAX).map(|_| Box::pin(call("s__wait"))).collect();
        for call in &mut waiting {
            assert!(futures::poll!(call).is_pending());
        }
        assert_eq!(call("s__who").await, Err(CallRefused::Crowded));
        waiting.pop();
        assert!(call("s__who").await.is_ok());
    }
}

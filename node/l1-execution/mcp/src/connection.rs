//! Connections to a server: over its program's pipes, or over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use althing_execution::http::{client_with, elsewhere};
use althing_execution::process::{Asker, EgressRules, ProcessConfig, Work};
use althing_execution::tools::Fault;
use althing_execution::{Containment, Refusals, ServerOf};
use althing_td::{Place, ToolServerSpec};
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, RoleClient, RunningService};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::spawn_blocking;

use crate::exchange::Exchange;
use crate::handler::Handler;
use crate::lines::{Lines, MESSAGE_BYTES_MAX};
use crate::machine::line::{NO_ANSWER, is_own};
use crate::program::{Program, ServerOwner};
use crate::questions::Questions;
use crate::requests::{BROKEN_OFF, Behaviour, PROBE, Requests, SILENT, why};
use crate::watched::Watched;

/// How long a connection to a server may take.
const TCP_CONNECT: Duration = Duration::from_secs(5);

/// What is said of a server that said nothing.
const CLOSED: &str = "it closed the connection before it answered";

/// The MCP client.
pub type Client = RunningService<RoleClient, Handler>;

pub struct Connection {
    pub client: Arc<Client>,
    pub program: Option<Program>,
    pub exchange: Exchange,
    /// Of one over HTTP.
    pub behaviour: Option<Arc<Behaviour>>,
}

impl Connection {
    /// Whether it can be used: it is not closed, and its server did not end its session.
    pub fn is_open(&self) -> bool {
        !self.client.is_transport_closed() && !self.behaviour.as_ref().is_some_and(|seen| seen.is_over())
    }
}

/// Which version is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// The newest that both know.
    Newest,
    /// One with sessions, in which a server can ask by itself.
    Session,
}

/// Where a server is, and what all connections to it share.
pub struct Target {
    pub spec: ToolServerSpec,
    pub folder: PathBuf,
    pub secret: Option<String>,
    pub config: ProcessConfig,
    pub rules: EgressRules,
    pub whose: ServerOwner,
    /// Whose program asks hosts, with what it was refused.
    pub asker: Asker,
    /// How its program is contained, or was when it ran last, and what it was refused.
    pub containment: std::sync::Mutex<Option<Containment>>,
    /// Incremented whenever its tools may have changed: with each connection and each notification.
    pub epoch: Arc<AtomicU64>,
    /// Whether it asked something without saying whom.
    pub asks: Arc<AtomicBool>,
    /// See [`PROBE`].
    pub probe: Duration,
}

impl Target {
    /// Of the server of an agent file.
    pub fn new(
        of: ServerOf<'_>,
        spec: &ToolServerSpec,
        secret: Option<String>,
        config: &ProcessConfig,
        (rules, refusals): (EgressRules, Refusals),
    ) -> Target {
        Target {
            spec: spec.clone(),
            folder: of.folder.to_owned(),
            secret,
            config: config.clone(),
            rules,
            whose: ServerOwner::of(of),
            asker: Asker { agent: of.agent.to_owned(), work: Work::default(), refusals },
            containment: std::sync::Mutex::new(None),
            epoch: Arc::default(),
            asks: Arc::default(),
            probe: PROBE,
        }
    }

    /// For a new connection.
    pub fn exchange(&self) -> Exchange {
        Exchange { questions: Arc::new(Questions::new(self.asks.clone())), news: Arc::default() }
    }

    pub fn contained(&self) -> std::sync::MutexGuard<'_, Option<Containment>> {
        self.containment.lock().expect("no holder of how it is contained panics")
    }

    /// Connects. A server that a question of the newest version ends, or that answers it oddly, is asked once more as an earlier
    /// one is, its program started anew. One that did not answer it in time, and refuses that of an earlier one, is asked it again: it
    /// may know no earlier one, and start when it is asked.
    ///
    /// # Errors
    /// Why that failed: of two attempts, the one that says more.
    pub async fn connect(&self, speech: Speech) -> Result<Connection, Fault> {
        let trouble = match Box::pin(self.attempt(speech)).await {
            Ok(connection) => return Ok(connection),
            Err(trouble) => trouble,
        };
        if trouble.was_silent {
            let again = Box::pin(self.attempt(Speech::Newest)).await;
            return again.map_err(|again| again.after_silence(self.probe));
        }
        if speech == Speech::Session || !trouble.may_speak_otherwise {
            return Err(trouble.fault);
        }
        let again = Box::pin(self.attempt(Speech::Session)).await;
        again.map_err(|again| more_telling(trouble.fault, again.fault))
    }

    async fn attempt(&self, speech: Speech) -> Result<Connection, Trouble> {
        match &self.spec {
            ToolServerSpec::Command { .. } => self.start(speech).await,
            ToolServerSpec::Thing { .. } => Err(Fault::Unreachable("a Thing does not speak MCP".to_owned()).into()),
            ToolServerSpec::Url { url, leads_to, .. } => self.reach(url, leads_to, speech).await,
        }
    }

    async fn start(&self, speech: Speech) -> Result<Connection, Trouble> {
        let (mut program, read, write) = self.begun().await?;
        program.started().await?;
        *self.contained() = program.containment();
        let name = match &self.spec {
            ToolServerSpec::Command { command, .. } => command.first().map_or("", String::as_str),
            ToolServerSpec::Url { .. } | ToolServerSpec::Thing { .. } => "",
        };
        let name = self.whose.shown(name);
        let exchange = self.exchange();
        match self.initialise(Lines::new(read, write, &name), speech, &exchange).await {
            Ok(client) => Ok(Connection { client, program: Some(program), exchange, behaviour: None }),
            Err(error) => {
                let was_closed = was_closed(&error);
                let ended = if was_closed { program.ended().await } else { None };
                // One that answered both questions was asked all.
                let may_speak_otherwise = was_closed || !was_asked_twice(&error);
                let fault = ended.unwrap_or_else(|| Fault::Unreachable(said(&error)));
                let may_speak_otherwise = may_speak_otherwise && !ran_out(&fault);
                Err(Trouble { may_speak_otherwise, was_silent: false, fault })
            }
        }
    }

    /// Starts its program where nobody else waits: the machine's files are looked at, and the keeper reads its job.
    async fn begun(&self) -> Result<(Program, Receiver, Sender), Fault> {
        let (whose, spec, folder) = (self.whose.clone(), self.spec.clone(), self.folder.clone());
        let (config, rules, asker) = (self.config.clone(), self.rules.clone(), self.asker.clone());
        let starting = spawn_blocking(move || Program::start(&whose, &spec, &folder, &config, (&rules, &asker)));
        let broken = |_| Fault::Unreachable("the node broke off while it was started".to_owned());
        starting.await.map_err(broken)?
    }

    async fn reach(&self, url: &str, leads_to: &[Place], speech: Speech) -> Result<Connection, Trouble> {
        if self.secret.is_some() && !althing_td::keeps_bearer(url) {
            let why = format!("its secret would be sent in the clear. {}", althing_td::BEARER_FIX);
            return Err(Fault::Unreachable(why).into());
        }
        let mut config = StreamableHttpClientTransportConfig::with_uri(url)
            .max_sse_event_size(MESSAGE_BYTES_MAX)
            // A new session may have other tools: they must be listed first.
            .reinit_on_expired_session(false);
        if let Some(secret) = &self.secret {
            config = config.auth_header(secret.trim());
        }
        if let Some(why) = elsewhere(url, leads_to).await {
            return Err(Fault::Unreachable(why).into());
        }
        let behaviour = Arc::<Behaviour>::default();
        let client = client_with(url, leads_to, TCP_CONNECT, Behaviour::policy(&behaviour));
        let client = client.map_err(Fault::Unreachable)?;
        let (server, probe) = (self.whose.shown(url).into(), self.probe);
        let requests = Requests { client, behaviour: behaviour.clone(), dead_ends: Arc::default(), server, probe };
        let exchange = self.exchange();
        let transport = StreamableHttpClientTransport::with_client(requests, config);
        match self.initialise(transport, speech, &exchange).await {
            Ok(client) => Ok(Connection { client, program: None, exchange, behaviour: Some(behaviour) }),
            Err(error) => {
                let why = behaviour.refused().map(|to| format!("it sends you to {to}; use that address"));
                let may_speak_otherwise = why.is_none() && !was_asked_twice(&error) && !is_final(&error);
                let was_silent = why.is_none() && was_silent(&error);
                let fault = Fault::Unreachable(why.unwrap_or_else(|| said(&error)));
                Err(Trouble { fault, may_speak_otherwise, was_silent })
            }
        }
    }

    /// Begins to speak MCP over a transport.
    ///
    /// # Errors
    /// Those of the library.
    pub async fn initialise<T>(
        &self,
        transport: T,
        speech: Speech,
        exchange: &Exchange,
    ) -> Result<Arc<Client>, Box<ClientInitializeError>>
    where
        T: rmcp::transport::Transport<RoleClient> + 'static,
    {
        let watched = Watched::new(transport, self.epoch.clone(), exchange.clone());
        let lifecycle = match speech {
            // A server of the newest version has no sessions; one of an earlier version says so, or nothing.
            Speech::Newest => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            Speech::Session => ClientLifecycleMode::Initialize,
        };
        let handler = Handler::new(exchange.questions.clone());
        handler.serve_with_lifecycle(watched, lifecycle).await.map(Arc::new).map_err(Box::new)
    }
}

/// Why there is no connection.
struct Trouble {
    fault: Fault,
    /// Whether a server of an earlier version may behave so.
    may_speak_otherwise: bool,
    /// Whether it did not answer the question of the newest version in time, and refused that of an earlier one.
    was_silent: bool,
}

impl Trouble {
    /// Why there is none either after it was silent for so long.
    fn after_silence(self, probe: Duration) -> Fault {
        match self.fault {
            Fault::Unreachable(why) => {
                let seconds = probe.as_secs();
                Fault::Unreachable(format!("{why}; before, it did not answer `server/discover` for {seconds} s"))
            }
            fault => fault,
        }
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble { fault, may_speak_otherwise: false, was_silent: false }
    }
}

/// The trouble of two attempts that says more; the second, if both say as much: the first may be about a question that only the
/// node's own version knows.
fn more_telling(first: Fault, second: Fault) -> Fault {
    let says = |fault: &Fault| match fault {
        Fault::Unreachable(why) if why == CLOSED || why == BROKEN_OFF => 0,
        Fault::Ended { said, .. } if said.is_empty() => 1,
        _ => 2,
    };
    if says(&second) >= says(&first) { second } else { first }
}

/// Whether a program was ended for the memory that it took: it would be again.
fn ran_out(fault: &Fault) -> bool {
    matches!(fault, Fault::Ended { ran_out: true, .. })
}

/// Whether it was asked as a server of an earlier version too.
fn was_asked_twice(error: &ClientInitializeError) -> bool {
    matches!(error, ClientInitializeError::LegacyFallbackFailed { .. })
}

/// See [`Trouble`].
fn was_silent(error: &ClientInitializeError) -> bool {
    let ClientInitializeError::LegacyFallbackFailed { discover, fallback } = error else { return false };
    matches!((discover.as_ref(), fallback.as_ref()),
        (ClientInitializeError::JsonRpcError(silent), ClientInitializeError::JsonRpcError(refused))
            if silent.code == NO_ANSWER && silent.message == SILENT && !is_own(refused.code))
}

/// Whether nothing else that is asked over HTTP would be answered otherwise.
fn is_final(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            error.error.downcast_ref().is_some_and(crate::requests::is_final)
        }
        _ => false,
    }
}

/// Whether the other end closed the connection, while it was read or written.
fn was_closed(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => was_closed(fallback),
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        _ => false,
    }
}

/// Why a server could not be initialised, in words.
fn said(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => said(fallback),
        ClientInitializeError::ConnectionClosed(_) => CLOSED.to_owned(),
        ClientInitializeError::TransportError { error, .. } => why(error.error.as_ref()),
        ClientInitializeError::JsonRpcError(error) if is_own(error.code) => error.message.clone().into_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it answered with the error {}: {}", error.code.0, error.message)
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<String> = server_supported.iter().map(ToString::to_string).collect();
            format!("it speaks other versions of MCP than this node ({})", versions.join(", "))
        }
        _ => "it answered with something that is no MCP".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rmcp::model::{ErrorCode, ErrorData};

    use super::*;

    fn ended(said: &str) -> Fault {
        Fault::Ended { status: 1, ran_out: false, said: said.to_owned() }
    }

    #[test]
    fn of_two_troubles_the_one_is_told_that_says_more() {
        let closed = || Fault::Unreachable(CLOSED.to_owned());
        let error = || Fault::Unreachable("it answered with the error -1: no".to_owned());
        for (first, second, told) in [
            (closed(), error(), error()),
            (error(), closed(), error()),
            (ended(""), ended("no module"), ended("no module")),
            (ended("no module"), ended("another"), ended("another")),
            (error(), ended("no licence"), ended("no licence")),
            (ended("unknown method"), error(), error()),
            (closed(), ended(""), ended("")),
            (closed(), closed(), closed()),
        ] {
            assert_eq!(more_telling(first.clone(), second.clone()), told, "{first} {second}");
        }
    }

    #[test]
    fn a_server_that_answered_both_questions_was_asked_twice() {
        let error = |code| Box::new(ClientInitializeError::JsonRpcError(ErrorData::new(code, "no", None)));
        let (theirs, ours) = (ErrorCode::INTERNAL_ERROR, NO_ANSWER);
        let both = ClientInitializeError::LegacyFallbackFailed { discover: error(theirs), fallback: error(theirs) };
        assert!(was_asked_twice(&both) && !was_closed(&both));
        assert!(!was_asked_twice(&error(theirs)));
        assert_eq!(said(&both), "it answered with the error -32603: no");
        let both = ClientInitializeError::LegacyFallbackFailed { discover: error(theirs), fallback: error(ours) };
        assert_eq!(said(&both), "no", "the node says so, and not the server");
    }

    /// A program that ends at the first question of the newest version, and answers that of an earlier one.
    const OLD: &str = r#"read -r asked
case "$asked" in *'"initialize"'*) ;; *) echo 'unknown method' >&2; exit 1 ;; esac
id=${asked##*'"id":'}
id=${id%%[!0-9]*}
echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}'
while read -r asked; do :; done"#;

    #[tokio::test]
    async fn a_program_that_ends_at_a_question_that_it_does_not_know_is_started_anew_and_asked_as_an_earlier_one() {
        let command = ["sh", "-c", OLD].map(str::to_owned).to_vec();
        let (env, env_secrets, sandbox) = Default::default();
        let spec = ToolServerSpec::Command { command, cwd: None, env, env_secrets, sandbox };
        let of = ServerOf { agent: "a", server: "old", folder: Path::new("."), memory_kib: 0 };
        let nothing = (EgressRules::default(), Refusals::default());
        let target = Target::new(of, &spec, None, &ProcessConfig::default(), nothing);
        let connection = target.connect(Speech::Newest).await.map_err(|fault| fault.in_full()).expect("it speaks MCP");
        let info = connection.client.peer_info().expect("it said who it is");
        assert_eq!(info.protocol_version, ProtocolVersion::V_2025_06_18);
    }
}

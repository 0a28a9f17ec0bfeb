//! The A2A client of an agent's program or server, over JSON-RPC: on a socket, on loopback, or at an address. What is
//! done with an answer is decided elsewhere.

use std::fmt;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use a2a::AgentCard;
use althing_protocol::limits::EXTENSIONS_MAX;
use althing_td::{MODES_MAX, Place};
use futures::StreamExt as _;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, fstat};
use reqwest::header::AUTHORIZATION;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::agent::{AgentError, OwnCard, Parameters};
use crate::http::{bearer, bound, refusal};
use crate::process::calls::TURN_HEADER;
use crate::process::card::{CardFault, ShownCard};
use crate::process::interface::Interface;
use crate::process::onward::Onward;
use crate::tools::RESULT_TOO_LONG;

/// How often the card of a program that does not answer yet is requested.
const CARD_RETRY: Duration = Duration::from_millis(50);
/// Before a program is asked again that answered without a card that can be used: at first and at most.
const CARD_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long the first request for a card may take: the program may be about to listen on another address. Doubles with each
/// request.
const CARD_PATIENCE_MIN: Duration = Duration::from_millis(250);
const CARD_PATIENCE_MAX: Duration = Duration::from_secs(5);
/// Where a card is, below the address of its agent, and where A2A had it before 0.3.
pub const CARD_PLACES: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];
/// The longest answer that is not a stream, bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes of an extension of a program's card, as JSON; longer ones are left out.
const EXTENSION_BYTES_MAX: usize = 4_096;
/// Bytes of a media type.
const MODE_BYTES_MAX: usize = 128;
/// The prefix of this project's extensions.
const OURS: &str = "https://althing.dev/";
/// How long a server elsewhere may say nothing while it answers, if its turn has no end of its own: as long as its task may change
/// nothing. Whether it is there at all is asked of its system, for which an agent that thinks is none that is gone.
const SILENT_MAX: Duration = Duration::from_secs(3_600);
/// After how long without a byte its system is asked, and how often until it counts as gone.
const ALIVE: (Duration, u32) = (Duration::from_secs(15), 4);
/// A program of this machine does not listen any more where its card was.
pub(super) const PROGRAM_ENDED: &str = "the agent's program ended";
/// What a caller is told where a server sends elsewhere: only its operator may see the address.
const SENT_ELSEWHERE: &str =
    "it sends you to another address, which `ps` on its node names: whoever runs that node can adopt that";

/// Where a program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProgramAddress {
    /// A Unix socket.
    Socket(PathBuf),
    /// A port on loopback.
    Port(u16),
    /// A server elsewhere: the address below which its card is.
    Url(String),
}

impl ProgramAddress {
    /// The base URL; on a socket the host name does not matter.
    fn base(&self) -> String {
        match self {
            ProgramAddress::Socket(_) => "http://localhost".to_owned(),
            ProgramAddress::Port(port) => format!("http://127.0.0.1:{port}"),
            ProgramAddress::Url(url) => url.trim_end_matches('/').to_owned(),
        }
    }

    /// Scheme, host and port.
    fn origin(&self) -> String {
        let base = self.base();
        let parsed = reqwest::Url::parse(&base).map(|url| url.origin().ascii_serialization());
        parsed.unwrap_or(base)
    }
}

impl fmt::Display for ProgramAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramAddress::Socket(_) => f.write_str(
                "the Unix socket that it was handed (descriptor 3, LISTEN_FDS; its path is in ALTHING_SOCKET; a program \
                 that can only listen on a port says `port: tcp` in its agent file)",
            ),
            ProgramAddress::Port(port) => write!(f, "http://127.0.0.1:{port} ($PORT)"),
            ProgramAddress::Url(url) => f.write_str(url),
        }
    }
}

/// The client of a program that showed its card.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    /// The tenant that its card names, which each request repeats (A2A §8.3.2).
    tenant: Option<Arc<str>>,
    /// Whether it answers messages by streams.
    pub(super) streams: bool,
    /// Whether it is a program of this machine.
    is_local: bool,
    sent: Arc<Mutex<Sent>>,
    own_card: Arc<OwnCard>,
    /// The turn that it sends messages of, for a program that makes system calls.
    turn: Option<Arc<str>>,
    /// The very socket that showed the card, by which `http` connects: whatever the program puts in its place, such as a link to
    /// the socket of somebody else, is not connected to.
    _socket: Option<Arc<OwnedFd>>,
}

/// Where its last requests were sent on to.
#[derive(Debug, Default)]
struct Sent {
    /// The place of the same server where they are answered.
    here: Option<String>,
    /// Another address, for people: they are not answered.
    elsewhere: Option<String>,
}

/// Holds the socket at a path, without following a link.
fn held(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let socket = open(path, flags, Mode::empty())?;
    let is_socket = fstat(&socket)?.st_mode & libc::S_IFMT == libc::S_IFSOCK;
    if is_socket { Ok(socket) } else { Err(std::io::Error::other("what is there is no socket")) }
}

impl Client {
    /// Requests the card until the program shows one that can be used; `told` hears what it did instead.
    pub async fn connect(address: &ProgramAddress, told: impl Fn(&CardFault)) -> Client {
        let (mut patience, mut pause) = (CARD_PATIENCE_MIN, CARD_PAUSE.0);
        loop {
            let fault = match Client::connect_once(address, patience).await {
                Ok(client) => return client,
                Err(fault) => fault,
            };
            told(&fault);
            patience = (patience * 2).min(CARD_PATIENCE_MAX);
            match fault {
                // It is about to listen.
                CardFault::Silent(_) => sleep(CARD_RETRY).await,
                // It listens, and will say the same for a while.
                CardFault::NoCard(_) | CardFault::Unfit(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(CARD_PAUSE.1);
                }
            }
        }
    }

    /// Requests the card once, at the socket that is there now.
    async fn connect_once(address: &ProgramAddress, patience: Duration) -> Result<Client, CardFault> {
        let (at, socket) = match address {
            ProgramAddress::Socket(path) => {
                let socket = held(path).map_err(|error| CardFault::Silent(error.to_string()))?;
                let held = PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd()));
                (ProgramAddress::Socket(held), Some(Arc::new(socket)))
            }
            other => (other.clone(), None),
        };
        let http = Client::http(&at, &[], None).map_err(CardFault::Silent)?;
        let shown = Client::card(&http, &at, patience).await?;
        if !shown.notes.is_empty() {
            tracing::info!(agent = shown.card.name, notes = ?shown.notes, "not all of a program's card was read as it is");
        }
        let interface = Interface::chosen(&shown.card.supported_interfaces, &at.base()).unwrap_or_default();
        Ok(Client { _socket: socket, ..Client::of(http, &at, &shown.card, interface) })
    }

    /// A client of HTTP for this address, which follows its name only to these places, if there are any; `secret` is sent as a bearer
    /// token with each request.
    ///
    /// # Errors
    /// The connection would not protect the secret, or the secret cannot be sent; nothing was sent.
    pub fn http(address: &ProgramAddress, leads_to: &[Place], secret: Option<&str>) -> Result<reqwest::Client, String> {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5));
        if let ProgramAddress::Socket(path) = address {
            builder = builder.unix_socket(path.as_path());
        }
        if let ProgramAddress::Url(_) = address {
            let (pause, times) = ALIVE;
            builder = builder.read_timeout(SILENT_MAX).tcp_keepalive(pause);
            builder = builder.tcp_keepalive_interval(pause).tcp_keepalive_retries(times);
        }
        if let Some(secret) = secret {
            let bearer = bearer(&address.base(), secret)?;
            builder = builder.default_headers([(AUTHORIZATION, bearer)].into_iter().collect());
        }
        bound(builder, leads_to).build().map_err(|error| error.to_string())
    }

    /// Requests the card once; the client, and the card.
    ///
    /// # Errors
    /// It does not answer, or not with a card that names JSON-RPC of A2A 1.x.
    pub async fn of_card(
        http: &reqwest::Client,
        address: &ProgramAddress,
        patience: Duration,
    ) -> Result<(Client, ShownCard), CardFault> {
        let shown = Client::card(http, address, patience).await?;
        let interface = Interface::chosen(&shown.card.supported_interfaces, &address.base());
        let interface = interface.ok_or_else(|| shown.no_interface())?;
        Ok((Client::of(http.clone(), address, &shown.card, interface), shown))
    }

    async fn card(
        http: &reqwest::Client,
        address: &ProgramAddress,
        patience: Duration,
    ) -> Result<ShownCard, CardFault> {
        let [here, before] = CARD_PLACES.map(|place| format!("{}{place}", address.base()));
        let answer = asked(http, here, patience).await?;
        let status = answer.status();
        if status.is_success() {
            return ShownCard::read(card_of(answer).await?);
        }
        let fault = CardFault::NoCard(format!("HTTP {status}"));
        if status != StatusCode::NOT_FOUND {
            return Err(fault);
        }
        // What an old agent has there is worth a sentence about its version; anything else says nothing of this agent.
        let Ok(answer) = asked(http, before, patience).await else { return Err(fault) };
        if !answer.status().is_success() {
            return Err(fault);
        }
        match card_of(answer).await.and_then(ShownCard::read_old) {
            Err(CardFault::NoCard(_)) => Err(fault),
            read => read,
        }
    }

    /// Only the path of the card's URL is used: the program is reached where it was started, and a server where its card is.
    fn of(http: reqwest::Client, address: &ProgramAddress, card: &AgentCard, interface: Interface) -> Client {
        let Interface { path, tenant } = interface;
        let streams = card.capabilities.streaming.unwrap_or(false);
        let own_card = Arc::new(own_card(card));
        Client {
            http,
            url: format!("{}{path}", address.origin()),
            tenant,
            streams,
            is_local: !matches!(address, ProgramAddress::Url(_)),
            sent: Arc::default(),
            own_card,
            turn: None,
            _socket: None,
        }
    }

    /// The own card of the program.
    pub fn own_card(&self) -> OwnCard {
        OwnCard::clone(&self.own_card)
    }

    /// The client that sends the messages of that turn.
    pub fn of_turn(self, turn: String) -> Client {
        Client { turn: Some(turn.into()), ..self }
    }

    /// The client that knows where the requests of another one were sent on to, if it is for the same place.
    pub fn after(self, before: &Client) -> Client {
        if self.url == before.url { Client { sent: before.sent.clone(), ..self } } else { self }
    }

    /// The address to which the server sent the last request, if that is another one's, for its operator.
    pub fn sent_elsewhere(&self) -> Option<String> {
        self.sent().elsewhere.clone()
    }

    /// Sends a request; what sends it on within the same server is followed once, and kept.
    ///
    /// # Errors
    /// It does not answer, or sends to another server.
    pub(super) async fn post(
        &self,
        method: &str,
        mut params: Value,
        parameters: &Parameters,
    ) -> Result<Response, AgentError> {
        if let Some(tenant) = &self.tenant {
            params["tenant"] = json!(&**tenant);
        }
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut place = self.sent().here.clone().unwrap_or_else(|| self.url.clone());
        let mut answer = self.send(&place, &request, parameters).await?;
        if let Some(Onward::Here(onward)) = Onward::of(&answer) {
            answer = self.send(&onward, &request, parameters).await?;
            place = onward;
        }
        if let Some(Onward::Here(onward) | Onward::Elsewhere(onward)) = Onward::of(&answer) {
            tracing::warn!(onward, "an agent's server sends requests to another address");
            self.sent().elsewhere = Some(onward);
            return Err(AgentError::Failed(SENT_ELSEWHERE.to_owned()));
        }
        // What is not there any more is looked for where the card says.
        let is_there = !matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        *self.sent() = Sent { here: Some(place).filter(|place| is_there && *place != self.url), elsewhere: None };
        let lines = answer.headers().get_all("A2A-Extensions").iter().filter_map(|line| line.to_str().ok());
        let activated = lines.flat_map(|line| line.split(',')).map(str::trim);
        parameters.activated.name(activated, &parameters.extensions);
        Ok(answer)
    }

    async fn send(&self, place: &str, request: &Value, parameters: &Parameters) -> Result<Response, AgentError> {
        let mut sent = self.http.post(place).header("A2A-Version", "1.0").json(request);
        if let Some(turn) = &self.turn {
            sent = sent.header(TURN_HEADER, &**turn);
        }
        if !parameters.extensions.is_empty() {
            sent = sent.header("A2A-Extensions", parameters.extensions.join(", "));
        }
        for (name, value) in [("traceparent", &parameters.traceparent), ("tracestate", &parameters.tracestate)] {
            if let Some(value) = value {
                sent = sent.header(name, value);
            }
        }
        sent.send().await.map_err(|error| {
            let is_gone = self.is_local && error.is_connect();
            AgentError::breakdown(if is_gone { PROGRAM_ENDED } else { "the agent's program did not answer" }, error)
        })
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().expect("no holder of where requests are sent to panics")
    }
}

/// What a server answers to a request for its card, which is sent on once within the same server.
async fn asked(http: &reqwest::Client, at: String, patience: Duration) -> Result<Response, CardFault> {
    let get = |url: String| http.get(url).timeout(patience).send();
    let mut answer = get(at).await.map_err(unasked)?;
    if let Some(Onward::Here(place)) = Onward::of(&answer) {
        answer = get(place).await.map_err(unasked)?;
    }
    match Onward::of(&answer) {
        Some(Onward::Here(place) | Onward::Elsewhere(place)) => Err(CardFault::NoCard(sent_to(&place))),
        None => Ok(answer),
    }
}

/// The text of a card.
async fn card_of(answer: Response) -> Result<Vec<u8>, CardFault> {
    whole(answer).await.map_err(|error| CardFault::NoCard(error.to_string()))
}

/// Where a server sends whoever asks, and what to do, for its operator.
pub(super) fn sent_to(place: &str) -> String {
    format!("it sends you to {place}; adopt that")
}

/// The parts of a program's card that go into the card that its node serves, within limits. The node itself shows the
/// project's extensions.
fn own_card(card: &AgentCard) -> OwnCard {
    let fits = |extension: &&a2a::AgentExtension| {
        !extension.uri.starts_with(OURS)
            && serde_json::to_vec(extension).is_ok_and(|json| json.len() <= EXTENSION_BYTES_MAX)
    };
    let modes = |modes: &[String]| -> Vec<String> {
        modes.iter().filter(|mode| mode.len() <= MODE_BYTES_MAX).take(MODES_MAX).cloned().collect()
    };
    OwnCard {
        extensions: card.capabilities.extensions.iter().flatten().filter(fits).take(EXTENSIONS_MAX).cloned().collect(),
        input_modes: modes(&card.default_input_modes),
        output_modes: modes(&card.default_output_modes),
    }
}

/// The whole body, if it is not too long.
///
/// # Errors
/// It is, or breaks off.
pub(super) async fn whole(response: Response) -> Result<Vec<u8>, AgentError> {
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(chunk) = bytes.next().await {
        body.extend_from_slice(&chunk.map_err(broke_off)?);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(AgentError::TooLong(RESULT_TOO_LONG));
        }
    }
    Ok(body)
}

fn broke_off(error: reqwest::Error) -> AgentError {
    AgentError::breakdown("the agent's program broke off", error)
}

/// Why a server was not asked for its card.
fn unasked(error: reqwest::Error) -> CardFault {
    CardFault::Silent(match refusal(&error) {
        Some(why) => why,
        None if error.is_timeout() => "it does not answer in time".to_owned(),
        None if error.is_connect() => "nothing answers there".to_owned(),
        None => "it hangs up without an answer".to_owned(),
    })
}

//! The `remote` runtime: a server elsewhere that speaks A2A over HTTP. The node passes messages on, and asks for the server's
//! card again and again, so that it says when the server is gone or has become another one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::{AgentCard, Message, methods};
use althing_protocol::{Label, digest, hex};
use althing_td::{Place, SignerKey, verify_signer};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::answer;
use super::card::{CardFault, ShownCard};
use super::client::{Client, ProgramAddress, sent_to};
use crate::agent::{Agent, AgentError, AgentState, Output, OwnCard, Parameters, Turn};
use crate::context;

/// How long a server may take to show its card.
const CARD_PATIENCE: Duration = Duration::from_secs(5);
/// Before one that did not answer is asked again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// A task that no server has.
const NO_TASK: &str = "00000000-0000-0000-0000-000000000000";

/// An agent that is a server elsewhere.
pub(crate) struct RemoteAgent {
    name: String,
    address: ProgramAddress,
    now: Arc<Mutex<Seen>>,
    /// A call failed, or succeeded though the server did not answer before: it is looked at now.
    noticed: Arc<Notify>,
    watching: JoinHandle<()>,
}

/// What was seen of the server last.
struct Seen {
    state: AgentState,
    client: Option<Client>,
}

impl RemoteAgent {
    /// Begins to ask for the card below `url`, again after each `check`; `secret` is sent as a bearer token with each
    /// request. While the server shows another card than the one that was agreed to, nothing is passed on.
    ///
    /// # Errors
    /// The secret cannot be sent there.
    pub fn start(
        name: &str,
        url: &str,
        secret: Option<&str>,
        agreed: Agreed,
        check: Duration,
    ) -> Result<RemoteAgent, String> {
        let address = ProgramAddress::Url(url.to_owned());
        let http = Client::http(&address, &agreed.leads_to, secret)?;
        let now = Arc::new(Mutex::new(Seen { state: AgentState::Starting, client: None }));
        let noticed = Arc::<Notify>::default();
        let asked = Asked { name: name.to_owned(), address: address.clone(), http, check, noticed: noticed.clone() };
        let watching = tokio::spawn(watch(asked, agreed, now.clone()));
        Ok(RemoteAgent { name: name.to_owned(), address, now, noticed, watching })
    }

    /// Notes what a call met: whoever asks how the agent is hears it before the next look at the server.
    fn note(&self, ended: &Result<(), AgentError>) {
        let mut seen = self.seen();
        if met(&mut seen.state, &self.address, ended) {
            if ended.is_err() {
                report(&self.name, &seen.state);
            }
            self.noticed.notify_one();
        }
    }

    /// Its state: one whose server sends requests elsewhere is not ready, though it shows its card.
    pub fn state(&self) -> AgentState {
        let seen = self.seen();
        match (&seen.state, seen.client.as_ref().and_then(Client::sent_elsewhere)) {
            (AgentState::Ready, Some(place)) => AgentState::Unreachable { why: sent_to(&place) },
            (state, _) => state.clone(),
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.now.lock().expect("no holder of what was seen panics")
    }
}

impl Drop for RemoteAgent {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Agent for RemoteAgent {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            // Also where it did not answer the last time: it may answer now.
            let (client, state) = {
                let seen = self.seen();
                (seen.client.clone(), seen.state.clone())
            };
            // The reason names an address, which only the operator may see.
            let why = match state {
                AgentState::Suspended { .. } => "its server shows another agent card than the one that was adopted",
                _ => "its server does not answer",
            };
            let why = format!("{why}, and `ps` on its node says more");
            let down = || AgentError::Down { agent: self.name.clone(), why };
            // Nothing that it answers says how far it may go.
            context::hear(Some(Label::UNLABELLED));
            let ended = answer::turn(client.ok_or_else(down)?, &self.name, turn, out).await;
            self.note(&ended);
            ended
        })
    }

    fn may_reply(&self) -> bool {
        true
    }

    fn own_card(&self) -> Option<OwnCard> {
        self.seen().client.as_ref().map(Client::own_card)
    }

    fn cancel<'a>(
        &'a self,
        remembered: &'a str,
        parameters: &'a Parameters,
    ) -> BoxFuture<'a, Result<Option<Message>, AgentError>> {
        let client = self.seen().client.clone();
        Box::pin(async move {
            match client {
                Some(client) => answer::cancel(&client, remembered, parameters).await,
                // Nothing was sent there.
                None => Ok(None),
            }
        })
    }
}

/// Which cards were agreed to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreed {
    /// That with this digest; any, if there is none.
    pub digest: Option<String>,
    /// Those signed by this key.
    pub key: Option<SignerKey>,
    /// From where: the name of its address may lead to these places; to any, if there are none.
    pub leads_to: Vec<Place>,
}

impl Agreed {
    /// Why a card is not one of them.
    fn refuse(&self, shown: &ShownCard) -> Option<String> {
        if let Some(Err(error)) = self.key.as_ref().map(|key| verify_signer(&shown.raw, key)) {
            return Some(format!("shows a card that is not signed as the one that was adopted: {error}"));
        }
        let is_other = self.digest.as_ref().is_some_and(|agreed| *agreed != agreed_digest(&shown.card));
        is_other.then(|| {
            let cut = |text: &str| text.chars().take(64).collect::<String>();
            let skills: Vec<String> = shown.card.skills.iter().take(8).map(|skill| cut(&skill.id)).collect();
            format!(
                "shows another agent card than the one that was adopted: {:?}, with the skills {skills:?}",
                cut(&shown.card.name)
            )
        })
    }
}

/// The card below `url`, whose name is followed only to these places, if there are any. The server is asked for a task that it
/// does not have: one that sends such a request elsewhere would answer no message either.
///
/// # Errors
/// It does not answer, or not with a card of A2A 1.0 that names JSON-RPC; or it sends requests elsewhere.
pub async fn card(url: &str, leads_to: &[Place], secret: Option<&str>) -> Result<ShownCard, CardFault> {
    let address = ProgramAddress::Url(url.to_owned());
    let http = Client::http(&address, leads_to, secret).map_err(CardFault::Silent)?;
    let (client, shown) = Client::of_card(&http, &address, CARD_PATIENCE).await?;
    let (nothing, parameters) = (json!({ "id": NO_TASK }), Parameters::default());
    // Whatever else it answers, or whether it does, says nothing of messages.
    let _ = timeout(CARD_PATIENCE, client.post(methods::GET_TASK, nothing, &parameters)).await;
    match client.sent_elsewhere() {
        Some(place) => Err(CardFault::Unfit(sent_to(&place))),
        None => Ok(shown),
    }
}

/// The digest, 64 hexadecimal digits, of what is agreed to when an agent is adopted: who it says it is, what it offers, where it is called, and with
/// which credentials. A new version or documentation link changes nothing.
#[must_use]
pub fn agreed_digest(card: &AgentCard) -> String {
    let whole = serde_json::to_value(card).unwrap_or_default();
    let kept =
        ["name", "description", "provider", "skills", "supportedInterfaces", "securitySchemes", "securityRequirements"];
    let kept: Map<String, Value> =
        kept.into_iter().filter_map(|member| Some((member.to_owned(), whole.get(member)?.clone()))).collect();
    hex(&digest(&serde_json_canonicalizer::to_vec(&kept).unwrap_or_default()))
}

/// What a call says of the server that it was passed on to; whether that is another thing than before.
fn met(state: &mut AgentState, address: &ProgramAddress, ended: &Result<(), AgentError>) -> bool {
    match (&*state, ended) {
        // Its client says so of connections only.
        (AgentState::Ready, Err(AgentError::Breakdown(why))) => {
            *state = AgentState::Unreachable { why: format!("{address}: a call failed: {why}") };
            true
        }
        // Its card was not seen again: until then nobody knows whether it is the one that was agreed to.
        (AgentState::Unreachable { .. }, Ok(())) => true,
        _ => false,
    }
}

/// A server that is asked for its card.
struct Asked {
    /// The agent.
    name: String,
    address: ProgramAddress,
    http: reqwest::Client,
    /// Between two requests, where it answers.
    check: Duration,
    /// It is asked at once.
    noticed: Arc<Notify>,
}

async fn watch(asked: Asked, agreed: Agreed, now: Arc<Mutex<Seen>>) {
    let Asked { name, address, http, check, noticed } = asked;
    let mut pause = RETRY.0;
    loop {
        let asked = Client::of_card(&http, &address, CARD_PATIENCE).await;
        let is_up = asked.is_ok();
        {
            let mut seen = now.lock().expect("no holder of what was seen panics");
            let before = std::mem::discriminant(&seen.state);
            *seen = match asked {
                Ok((client, shown)) => match agreed.refuse(&shown) {
                    Some(why) => {
                        Seen { state: AgentState::Suspended { why: changed(&name, &address, &why) }, client: None }
                    }
                    None => {
                        let client = match &seen.client {
                            Some(before) => client.after(before),
                            None => client,
                        };
                        Seen { state: AgentState::Ready, client: Some(client) }
                    }
                },
                Err(error) => {
                    // A suspended agent stays without a client.
                    let state = AgentState::Unreachable { why: format!("{address}: {error}") };
                    Seen { state, client: seen.client.take() }
                }
            };
            if before != std::mem::discriminant(&seen.state) {
                report(&name, &seen.state);
            }
        }
        tokio::select! {
            () = sleep(if is_up { check } else { pause }) => {}
            // Calls may fail one after the other: not more often than it is asked when it is gone.
            () = async { sleep(RETRY.0).await; noticed.notified().await } => {}
        }
        pause = if is_up { RETRY.0 } else { (pause * 2).min(RETRY.1) };
    }
}

fn report(agent: &str, state: &AgentState) {
    match state {
        AgentState::Suspended { why } => tracing::warn!(agent, why, "an adopted agent is suspended"),
        AgentState::Unreachable { why } => tracing::warn!(agent, why, "the agent's server does not answer"),
        _ => tracing::info!(agent, "the agent's server answers"),
    }
}

/// Why the agent is suspended, and what to do.
fn changed(name: &str, address: &ProgramAddress, why: &str) -> String {
    format!("{address} {why}. Look at the change, and accept it: `althing adopt --accept {name}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_fails_says_at_once_that_the_server_is_gone() {
        let address = ProgramAddress::Url("http://127.0.0.1:9000".to_owned());
        let broken = Err(AgentError::Breakdown("the agent's program did not answer"));
        let mut state = AgentState::Ready;
        assert!(met(&mut state, &address, &broken));
        let AgentState::Unreachable { why } = &state else { panic!("{state:?}") };
        assert_eq!(why, "http://127.0.0.1:9000: a call failed: the agent's program did not answer");
        assert!(!met(&mut state, &address, &broken), "that is known");
        assert!(met(&mut state, &address, &Ok(())) && state != AgentState::Ready, "it is looked at first");
        let mut state = AgentState::Ready;
        for own in [Ok(()), Err(AgentError::Failed("no map".to_owned())), Err(AgentError::Cancelled)] {
            assert!(!met(&mut state, &address, &own) && state == AgentState::Ready, "{own:?}");
        }
    }

    #[test]
    fn a_secret_is_sent_over_https_or_on_this_machine_only() {
        let client = |url: &str, secret: &str| Client::http(&ProgramAddress::Url(url.to_owned()), &[], Some(secret));
        assert!(client("http://agents.example.org/billing", "key").is_err());
        assert!(client("http://127.0.0.1:9000", "two\nlines").is_err(), "not sent without it");
    }
}

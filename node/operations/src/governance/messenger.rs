//! The three ways to a person: a message to an address, a command of the owner's, which is contained, and an agent.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2a::{Message, Part, Role, SendMessageConfiguration, SendMessageRequest};
use althing_calls::{
    Asker, CallRequest, Callee, Calls, Operation, OperationError, OperationRequest, Principal, Purpose, Refusal,
};
use althing_discovery::{Fetch, FetchError, Given, Limits, Method, SystemResolver, Url};
use althing_execution::Host;
use althing_execution::process::{Errand, ErrandError, asked_hosts, run_errand};
use althing_governance::machine::delivery::Notice;
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use althing_td::{ReachSpec, Sandbox};
use serde_json::Value;

use crate::secrets::{SecretError, Secrets};

/// How long whoever is told may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read; what it says is of no interest.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// What a command of the owner's finds in its environment: what a desktop's message needs, and no secret of the node's.
const ENVIRONMENT: [&str; 9] =
    ["PATH", "HOME", "USER", "LANG", "TZ", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// Why somebody was not told.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The address is none.
    #[error("its address cannot be read")]
    Address,
    /// The secret that is to be shown there cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The node does not have it.
    #[error("this node has no secret {0:?}, which is to be shown there")]
    NoSecret(String),
    /// The message could not be sent.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It was not taken.
    #[error("it answered {0}")]
    Status(u16),
    /// The command cannot be run, or failed.
    #[error(transparent)]
    Command(#[from] ErrandError),
    /// It took too long.
    #[error("it took more than {} s", PATIENCE.as_secs())]
    Late,
    /// The agent did not take it.
    #[error("the agent did not take it: {0}")]
    Call(#[from] OperationError),
}

/// Tells people.
pub struct Messenger {
    fetch: OnceLock<Fetch>,
    secrets: Option<Secrets>,
    calls: Calls,
    /// What runs programs, contained.
    host: Arc<Host>,
}

impl Messenger {
    /// With the node's secrets, if it keeps any, its calls, and what runs its programs.
    #[must_use]
    pub fn new(data: Option<&Path>, calls: Calls, host: Arc<Host>) -> Messenger {
        Messenger { fetch: OnceLock::new(), secrets: data.map(Secrets::of), calls, host }
    }

    /// The client, which is made for the first message to an address.
    fn client(&self) -> Result<&Fetch, FetchError> {
        match self.fetch.get() {
            Some(client) => Ok(client),
            None => {
                let client = Fetch::new(Vec::new(), Arc::new(SystemResolver))?;
                Ok(self.fetch.get_or_init(|| client))
            }
        }
    }

    /// Sends one message, which takes half a minute at most.
    ///
    /// # Errors
    /// [`DeliveryError`]: it is not known to have arrived.
    pub async fn send(&self, notice: &Notice, body: &Value) -> Result<(), DeliveryError> {
        let sent = async {
            match &notice.way {
                ReachSpec::Url { url, secret } => self.post(url, secret.as_deref(), body).await,
                ReachSpec::Command { command, sandbox } => self.run(command, sandbox, body).await,
                ReachSpec::Agent(name) => self.tell(name, notice, body).await,
            }
        };
        tokio::time::timeout(PATIENCE, sent).await.unwrap_or(Err(DeliveryError::Late))
    }

    /// To an address that the owner wrote; redirects are not followed.
    async fn post(&self, url: &str, secret: Option<&str>, body: &Value) -> Result<(), DeliveryError> {
        let url = Url::parse(url).map_err(|_| DeliveryError::Address)?;
        let token = secret.map(|name| self.secret(name)).transpose()?;
        let limits = Limits { bytes: ANSWER_BYTES_MAX, time: PATIENCE };
        let sent = ("application/json", body.to_string().into_bytes());
        let token = token.as_deref().map(str::trim);
        let answer = self.client()?.exchange_as(token, Method::POST, &url, Given::Operator, sent, limits).await?;
        match answer.0 {
            200..300 => Ok(()),
            status => Err(DeliveryError::Status(status)),
        }
    }

    /// The node's secret of that name.
    fn secret(&self, name: &str) -> Result<String, DeliveryError> {
        let none = || DeliveryError::NoSecret(name.to_owned());
        self.secrets.as_ref().ok_or_else(none)?.read(name)?.ok_or_else(none)
    }

    /// By a command of the owner's, which is contained as the file of people says, with the message on its standard input.
    async fn run(&self, command: &[String], sandbox: &Sandbox, body: &Value) -> Result<(), DeliveryError> {
        let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
        let errand = Errand {
            command: command.to_vec(),
            environment: ENVIRONMENT.into_iter().filter_map(variable).collect(),
            sandbox: sandbox.clone(),
            asked: asked_hosts(sandbox, |name| self.secret(name))?,
            input: format!("{body}\n").into_bytes(),
        };
        // One that takes too long ends with the wait for it.
        Ok(run_errand(errand, &self.host.process).await?)
    }

    /// To an agent that this node's owner may call.
    async fn tell(&self, name: &str, notice: &Notice, body: &Value) -> Result<(), DeliveryError> {
        let text = format!(
            "A question waits for {}; it is answered with: {}\n{body}",
            notice.person,
            body["answer"].as_str().unwrap_or_default()
        );
        let mut message = Message::new(Role::User, vec![Part::text(text)]);
        message.message_id = notice.message_id();
        let configuration = SendMessageConfiguration {
            accepted_output_modes: None,
            task_push_notification_config: None,
            history_length: None,
            return_immediately: Some(true),
        };
        let params = SendMessageRequest { message, configuration: Some(configuration), metadata: None, tenant: None };
        let params = serde_json::to_vec(&params).expect("writing to a vector cannot fail");
        let request = OperationRequest::parse(Operation::SendMessage, params)?;
        let target = self.calls.target(&Asker::Owner, &Callee::near(name), Purpose::Call).await?;
        let mut call = CallRequest::new(target, request, vec![Principal::Local]);
        call.metadata.attributes.label = Some(Label { level: DataLabel::Public, trusted: true });
        match self.calls.ask(call).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.refusal, Refusal::AlreadyDone { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;

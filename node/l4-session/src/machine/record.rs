//! A task as it is stored, and its size limits.

use a2a::{Task, TaskState};
use althing_call::{CallMetadata, Principal};
use althing_protocol::{AgentRef, CallerId, Digest, Label, digest};
use althing_store::LARGE_BATCH_BYTES_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::run::{RUNS_BYTES_MAX, Runs};
use super::session::{Begin, Damage};
use super::task;

/// Bytes of a stored task: what a batch holds beside the summary (2 KiB at most), the keys of the tasks that are evicted with it
/// (1,024 of 36 bytes, three times), those of the rows of its journal (4,096 of 24 bytes), and what gates refused of it (256 KiB).
pub(crate) const RECORD_BYTES_MAX: usize = LARGE_BATCH_BYTES_MAX - (512 << 10);
/// Bytes of a stored task when a turn begins, or adds an artifact: the final status message, the agent's earlier messages,
/// the task's metadata, what the runtime stores, and the records of its turns must always fit beside it.
pub(crate) const WORKING_BYTES_MAX: usize = RECORD_BYTES_MAX
    - task::STATUS_MESSAGE_STORED_BYTES_MAX
    - task::AGENT_MESSAGES_STORED_BYTES_MAX
    - task::METADATA_STORED_BYTES_MAX
    - task::REMEMBERED_BYTES_MAX
    - RUNS_BYTES_MAX
    - (4 << 10);

/// A task with what A2A does not show of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub task: Task,
    /// The agent's name.
    pub agent: String,
    /// Whose task it is: the caller's owner, or the calling node if it has none.
    pub scope: Scope,
    /// What the runtime stores for the next turn.
    pub remembered: Option<String>,
    /// The label of all that is in it; none where nothing was said of that. Rows from before there were labels have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// The version of the agent that was given its last message. Rows from before versions were noted have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How often the task has moved from one node to another. Rows from before tasks could move have none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fence: u64,
    /// The proof that this node handed the task over, in base64url; then the rest is only kept to be handed over again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departed: Option<String>,
    /// With what the turn that runs began, in base64url, if it can begin again. Rows from before turns could be resumed have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// What somebody is asked before the turn goes on, by its name, if its task rests for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// What is kept of its turns. Rows from before that was have none.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub runs: Runs,
    /// Among which untrusted peers of one origin its caller was when it sent the last message, by their digest as a payer, in
    /// base64url; none of other callers. Rows from before that was noted have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowd: Option<String>,
}

/// Whether a number need not be written.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Record {
    /// The record of a task of that agent that begins.
    pub fn new(task: Task, agent: &str, scope: Scope) -> Record {
        let (label, version, departed, begin) = (None, None, None, None);
        let (remembered, ask, crowd) = (None, None, None);
        let (agent, runs) = (agent.to_owned(), Runs::default());
        Record { task, agent, scope, remembered, label, version, fence: 0, departed, begin, ask, runs, crowd }
    }

    /// The same, given to that version of its agent, with what came with the call in it.
    #[must_use]
    pub fn given_to(mut self, agent: &AgentRef, call: &CallMetadata) -> Record {
        self.version = Some((*agent.version).to_owned());
        self.add_label(call.attributes.label);
        self
    }

    /// The same, with what its turn began with, if it can begin again.
    #[must_use]
    pub fn begun_with(mut self, begin: Option<&Begin>) -> Record {
        self.begin = begin.map(|begin| URL_SAFE_NO_PAD.encode(begin.encode()));
        self
    }

    /// Whether the task rests until somebody has answered, and its turn goes on then.
    pub fn is_parked(&self) -> bool {
        self.begin.is_some() && self.ask.is_some() && self.task.status.state == TaskState::AuthRequired
    }

    /// Whether a turn of it has not ended, or goes on later.
    pub fn goes_on(&self) -> bool {
        self.departed.is_none() && (!task::is_idle(&self.task.status.state) || self.is_parked())
    }

    /// With what the turn that runs began, if it can begin again; an error where that cannot be read.
    pub fn read_begin(&self) -> Option<Result<Begin, Damage>> {
        let text = self.begin.as_ref()?;
        let read = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| Begin::decode(&bytes));
        let what = || "the beginning of the turn cannot be read in its task".to_owned();
        Some(read.ok_or_else(|| Damage { step: 0, what: what() }))
    }

    /// Adds the label of more data that are in it.
    pub fn add_label(&mut self, label: Option<Label>) {
        self.label = Label::of_both(self.label, label);
    }
}

/// Whose task it is, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Scope {
    /// Who proved to call.
    pub caller: CallerId,
    /// Which user of the caller's gateway it was, by the digest of the name, if it has several.
    pub user: Option<Digest>,
}

/// What stands between caller and user.
const OF_USER: &str = " user:";

impl Scope {
    /// A caller without users.
    #[must_use]
    pub fn of(caller: CallerId) -> Scope {
        Scope { caller, user: None }
    }

    /// The scope of a call: its user is the one directly before the authenticated caller. What an agent asks for itself or
    /// for somebody is the agent's task.
    #[must_use]
    pub fn of_call(caller: CallerId, principals: &[Principal]) -> Scope {
        let said = match principals {
            [.., said, Principal::Caller(last)] if *last == caller => Some(said),
            [said] => Some(said),
            _ => None,
        };
        let user = said.and_then(Principal::user).map(|name| digest(name.as_bytes()));
        Scope { caller, user }
    }

    /// Whose room a task takes: users of one caller share it, since a caller can name as many as it likes.
    #[must_use]
    pub fn payer(self) -> Scope {
        Scope::of(self.caller)
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        let user = scope.user.map(|user| format!("{OF_USER}{}", URL_SAFE_NO_PAD.encode(user)));
        format!("{}{}", scope.caller, user.unwrap_or_default())
    }
}

/// Why stored text is no scope.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// The caller is none.
    #[error(transparent)]
    Caller(#[from] althing_protocol::IdentityError),
    /// The user is no digest.
    #[error("the user is no digest")]
    User,
}

impl TryFrom<String> for Scope {
    type Error = ScopeError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let Some((caller, user)) = text.split_once(OF_USER) else { return Ok(Scope::of(text.parse()?)) };
        let user = URL_SAFE_NO_PAD.decode(user).ok().and_then(|user| user.try_into().ok()).ok_or(ScopeError::User)?;
        Ok(Scope { caller: caller.parse()?, user: Some(user) })
    }
}

#[cfg(test)]
mod tests {
    use a2a::{Message, Part, Role};
    use althing_protocol::contract::DataLabel;
    use althing_protocol::{PublisherId, SecretKey};

    use super::*;

    /// A row as it was before there were labels and versions.
    #[derive(Serialize)]
    struct UnlabelledRow {
        task: Task,
        agent: String,
        scope: Scope,
        remembered: Option<String>,
    }

    #[test]
    fn a_row_without_a_label_and_a_version_is_read_and_written_as_before() {
        let scope = Scope::of(CallerId::Node(SecretKey::from_seed(&[1; 32]).public()));
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let task = task::submitted("t".to_owned(), "c".to_owned(), message, chrono::DateTime::UNIX_EPOCH);
        let row = UnlabelledRow { task, agent: "echo".to_owned(), scope, remembered: Some("it".to_owned()) };
        let mut before = Vec::new();
        ciborium::into_writer(&row, &mut before).expect("memory takes any");
        let mut read: Record = ciborium::from_reader(&before[..]).expect("a row of before");
        let kept = (read.task.id.as_str(), read.agent.as_str(), read.scope, read.remembered.as_deref(), read.label);
        assert_eq!(kept, ("t", "echo", scope, Some("it"), None));
        assert_eq!(read.version, None);
        assert_eq!((read.fence, read.departed.as_deref()), (0, None), "it never moved");
        let mut again = Vec::new();
        ciborium::into_writer(&read, &mut again).expect("memory takes any");
        assert_eq!(again, before);

        for (level, trusted) in [(DataLabel::Restricted, true), (DataLabel::Public, false)] {
            read.add_label(Some(Label { level, trusted }));
        }
        let mut labelled = Vec::new();
        ciborium::into_writer(&read, &mut labelled).expect("memory takes any");
        let labelled: Record = ciborium::from_reader(&labelled[..]).expect("a row");
        assert_eq!(labelled.label, Some(Label { level: DataLabel::Restricted, trusted: false }));
        assert_eq!(labelled, read);
    }

    #[test]
    fn a_row_says_which_version_was_given_the_last_message() {
        let scope = Scope::of(CallerId::Node(SecretKey::from_seed(&[1; 32]).public()));
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let task = task::submitted("t".to_owned(), "c".to_owned(), message, chrono::DateTime::UNIX_EPOCH);
        let publisher = PublisherId::from_digest([1; 32]);
        let agent = |version: &str| AgentRef::new(publisher, "echo", version).expect("a name");
        let [first, second] = ["1.0.0", "2.0.0-rc.1"].map(agent);
        let call = CallMetadata::default();
        let record = Record::new(task, first.name(), scope).given_to(&first, &call).given_to(&second, &call);
        let mut row = Vec::new();
        ciborium::into_writer(&record, &mut row).expect("memory takes any");
        let read: Record = ciborium::from_reader(&row[..]).expect("a row");
        assert_eq!((read.agent.as_str(), read.version.as_deref()), ("echo", Some("2.0.0-rc.1")));
    }

    #[test]
    fn a_task_belongs_to_the_user_who_asked_for_it() {
        let caller = CallerId::Node(SecretKey::from_seed(&[1; 32]).public());
        let chain = |said: &[&str]| said.iter().map(|said| Principal::parse(said)).collect::<Vec<_>>();
        let by = |said: &[&str]| Scope::of_call(caller, &[chain(said), vec![Principal::Caller(caller)]].concat());
        let agent = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:a";
        // P-157
        assert_ne!(by(&["token:alice"]), by(&["token:bob"]));
        assert_ne!(by(&["token:alice"]), by(&["token"]));
        assert_eq!(by(&["token"]), by(&["local"]));
        assert_eq!(by(&["token:alice"]), Scope::of_call(caller, &chain(&["token:alice"])));
        assert_eq!(by(&["token:alice", agent]), by(&["token:bob", agent]), "it is the agent's");
        assert_eq!(by(&["token:alice"]).payer(), by(&["token:bob"]).payer());
        for said in ["token:", "token:Alice", "token:a b", "alice"] {
            assert_eq!(by(&[said]).user, None, "{said}");
        }
    }

    #[test]
    fn a_scope_is_stored_and_read() {
        let caller = CallerId::Node(SecretKey::from_seed(&[1; 32]).public());
        for scope in [Scope::of(caller), Scope::of_call(caller, &[Principal::parse("token:alice")])] {
            let stored = String::from(scope);
            assert_eq!(Scope::try_from(stored.clone()).expect("a scope"), scope, "{stored}");
        }
        assert_eq!(String::from(Scope::of(caller)), caller.to_string(), "as before there were users");
        assert!(Scope::try_from(format!("{caller}{OF_USER}AAAA")).is_err());
    }
}

//! A publisher that signs, and asks a registry as a node would.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use althing_fetch::{Fetch, SystemResolver};
use althing_protocol::object::{self, Authored, Description, Kind};
use althing_protocol::registry::{
    Audience, Bundle, DomainFinding, Mark, Means, NamePattern, Release, Role, Roster, RosterMember, SignIn, Standing,
    Submission, Visit,
};
use althing_protocol::tlog::Checkpoint;
use althing_protocol::{AgentId, KeyLog, PublisherId, SecretKey, digest, keylog};
use althing_registry_client::{RegistryClient, RegistryError};
use serde_json::json;

use crate::support::{NOW, Served};

pub const NETWORK: &str = "test";
pub const DOMAIN: &str = "example.org";

pub struct Party {
    pub key: SecretKey,
    pub log: KeyLog,
}

impl Party {
    pub fn new(seed: u8) -> Party {
        let [key, next, other] = [0, 1, 2].map(|at| SecretKey::from_seed(&[seed * 8 + at; 32]));
        let inception = keylog::inception(&key, [next.public(), other.public()], NOW - 1_000);
        Party { key, log: KeyLog::verify(&[inception.bytes]).expect("an inception") }
    }

    pub fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    pub fn agent(&self, name: &str) -> AgentId {
        AgentId::new(self.id(), name).expect("a name")
    }

    pub fn td(&self, name: &str, version: &str) -> Vec<u8> {
        let td = json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }],
            "@type": "lmos:Agent", "id": self.agent(name).to_string(), "title": name, "version": { "instance": version },
            "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
        });
        td.to_string().into_bytes()
    }

    pub fn described(&self, name: &str, version: &str) -> Authored<Description> {
        let body = Description::new(self.agent(name), NOW, NOW, self.td(name, version));
        object::sign(body, NETWORK, "", &self.key).expect("a good description")
    }

    /// A release with a bundle of these bytes.
    pub fn release(&self, name: &str, version: &str, audience: Audience, bundle: &[u8]) -> Release {
        let described = self.described(name, version).digest();
        let mut body = Release::new(self.agent(name), version.parse().expect("a version"), described, audience, NOW);
        body.bundle = Some(Bundle { digest: digest(bundle), bytes: bundle.len() as u64 });
        body
    }

    pub fn submission(&self, statement: Vec<u8>, descriptions: Vec<Vec<u8>>) -> Submission {
        Submission {
            key_log: self.log.to_bytes().into_iter().map(Into::into).collect(),
            statements: vec![statement.into()],
            descriptions: descriptions.into_iter().map(Into::into).collect(),
        }
    }

    /// The client of a node of this publisher that signed in.
    pub async fn visits(&self, served: &Served) -> RegistryClient {
        let now_ms = served.now.load(Ordering::SeqCst);
        client(served).sign_in(NETWORK, (&self.key, &self.log), now_ms).await.expect("it signs in")
    }

    /// The token of such a session.
    pub fn session(&self, served: &Served) -> String {
        let scope = served.registry.note_key().to_string();
        let visit = object::sign(Visit::new(self.id(), NOW), NETWORK, &scope, &self.key).expect("a good visit");
        let key_log = self.log.to_bytes().into_iter().map(Into::into).collect();
        let sign_in = SignIn { key_log, visit: visit.bytes.into() };
        served.registry.visits().sign_in(&sign_in).expect("it signs in")
    }

    pub async fn publishes(&self, served: &Served, body: Release) -> Result<Checkpoint, RegistryError> {
        let described = self.described(body.agent.name(), &body.version.to_string());
        let release = object::sign(body, NETWORK, "", &self.key).expect("a good release");
        client(served).submit(&self.submission(release.bytes, vec![described.bytes]), &[Kind::Release]).await
    }

    /// Approves somebody else's release.
    pub async fn approves(&self, served: &Served, body: &Release, sequence: u64) -> Result<Checkpoint, RegistryError> {
        let mut body = body.clone();
        (body.by, body.sequence) = (self.id(), sequence);
        let release = object::sign(body, NETWORK, "", &self.key).expect("a good release");
        client(served).submit(&self.submission(release.bytes, vec![]), &[Kind::Release]).await
    }

    pub async fn marks(&self, served: &Served, name: &str, version: &str, standing: Standing) -> Vec<u8> {
        let mut body = Mark::new(self.agent(name), version.parse().expect("a version"), standing, "", NOW);
        body.sequence = NOW + 1;
        let mark = object::sign(body, NETWORK, "", &self.key).expect("a good mark").bytes;
        client(served).submit(&self.submission(mark.clone(), vec![]), &[Kind::Mark]).await.expect("accepted");
        mark
    }

    pub fn roster(&self, members: Vec<RosterMember>, approvals: u8, now_ms: u64) -> Roster {
        let mut body = Roster::new(self.id(), members, now_ms, now_ms, now_ms + 24 * 60 * 60 * 1_000);
        (body.approvals, body.domain) = (approvals, Some(DOMAIN.parse().expect("a domain")));
        body
    }

    pub async fn names(&self, served: &Served, body: Roster) -> Result<Checkpoint, RegistryError> {
        let roster = object::sign(body, NETWORK, "", &self.key).expect("a good roster");
        client(served).submit(&self.submission(roster.bytes, vec![]), &[Kind::Roster]).await
    }

    /// An organisation with these members, whose domain is proven.
    pub async fn is_organisation(&self, served: &Served, members: Vec<RosterMember>, approvals: u8) {
        self.names(served, self.roster(members, approvals, NOW)).await.expect("a roster");
        served.registry.names().found(self.finding(true)).await.expect("written down");
    }

    pub fn finding(&self, proven: bool) -> DomainFinding {
        let domain = DOMAIN.parse().expect("a domain");
        DomainFinding { domain, organisation: self.id(), means: Means::Dns, proven }
    }

    pub fn member(&self, roles: &[Role], names: &[&str]) -> RosterMember {
        let names = names.iter().map(|name| name.parse::<NamePattern>().expect("a pattern")).collect();
        RosterMember { publisher: self.id(), roles: roles.to_vec(), names }
    }
}

/// A client that nobody signed in with.
pub fn client(served: &Served) -> RegistryClient {
    client_at(&served.url, served)
}

/// The same, at another address with the key of that registry.
pub fn client_at(url: &str, served: &Served) -> RegistryClient {
    let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver)).expect("a client");
    RegistryClient::new(fetch, url, served.registry.note_key().clone()).expect("an address")
}

/// The status and the reason of a refusal.
pub fn refused<T>(result: Result<T, RegistryError>) -> (u16, String) {
    match result {
        Err(RegistryError::Refused { status, detail }) => (status, detail),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was accepted"),
    }
}

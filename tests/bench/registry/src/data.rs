//! What all of them have: Things of about a kilobyte, and submissions of publishers.

use althing_protocol::object::{self, Description};
use althing_protocol::registry::{Audience, Release, Submission};
use althing_protocol::{AgentId, KeyLog, PublisherId, SecretKey, keylog};
use serde_json::json;

/// The network of the registry's statements.
pub const NETWORK: &str = "althing";
/// One in so many Things has the same model.
pub const MODELS: usize = 100;

/// The id of a Thing.
pub fn id(number: usize) -> String {
    format!("urn:example:thing:{number:09}")
}

/// A title that one Thing has.
pub fn title(number: usize) -> String {
    format!("Lamp {number}")
}

/// A model that one in a hundred Things has.
pub fn model(number: usize) -> String {
    format!("model-{}", number % MODELS)
}

/// A capability that ten Things have, however many there are.
pub fn capability(number: usize, things: usize) -> String {
    format!("light.dim.{}", number % things.div_ceil(10))
}

/// A Thing Description.
pub fn thing(number: usize, things: usize) -> String {
    let form = |what: &str| json!([{ "href": format!("https://device-{number}.example.org/{what}") }]);
    json!({
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "ex": "https://example.org/vocabulary#" }],
        "@type": "ex:Lamp", "id": id(number), "title": title(number),
        "description": format!("The lamp in room {} on floor {}, which can be dimmed.", number % 977, number % 13),
        "ex:model": model(number), "ex:capability": capability(number, things),
        "version": { "instance": "1.2.0" },
        "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
        "properties": {
            "status": { "title": "Whether it shines", "type": "boolean", "readOnly": true, "forms": form("status") },
            "level": { "title": "How bright", "type": "integer", "minimum": 0, "maximum": 100, "forms": form("level") },
        },
        "actions": { "toggle": { "title": "Switch it on or off", "forms": form("toggle") } },
        "events": { "overheated": { "data": { "type": "number" }, "forms": form("overheated") } },
    })
    .to_string()
}

/// The time of day, Unix milliseconds.
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("before the end of time")
}

/// A publisher that signs releases beforehand.
pub struct Publisher {
    key: SecretKey,
    log: KeyLog,
    now_ms: u64,
}

impl Publisher {
    /// With keys that nobody has used.
    pub fn new() -> Publisher {
        let [key, next, other] = [0; 3].map(|_: u8| SecretKey::from_seed(&rand::random()));
        let now_ms = now_ms();
        let inception = keylog::inception(&key, [next.public(), other.public()], now_ms - 1_000);
        Publisher { key, log: KeyLog::verify(&[inception.bytes]).expect("an inception"), now_ms }
    }

    /// Its id.
    pub fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    /// One of its agents.
    pub fn agent(&self, number: usize) -> AgentId {
        AgentId::new(self.id(), &format!("lamp-{number}")).expect("a name")
    }

    /// A submission with the first release of an agent.
    pub fn release(&self, number: usize) -> Vec<u8> {
        let agent = self.agent(number);
        let td = json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }],
            "@type": "lmos:Agent", "id": agent.to_string(), "title": title(number), "version": { "instance": "1.0.0" },
            "description": format!("Dims the lamp in room {} when it is asked to.", number % 977),
            "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
        });
        let body = Description::new(agent.clone(), self.now_ms, self.now_ms, td.to_string().into_bytes());
        let described = object::sign(body, NETWORK, "", &self.key).expect("a description");
        let version = "1.0.0".parse().expect("a version");
        let body = Release::new(agent, version, described.digest(), Audience::public(), self.now_ms);
        let release = object::sign(body, NETWORK, "", &self.key).expect("a release");
        let submission = Submission {
            key_log: self.log.to_bytes().into_iter().map(Into::into).collect(),
            statements: vec![release.bytes.into()],
            descriptions: vec![described.bytes.into()],
        };
        submission.encode()
    }
}

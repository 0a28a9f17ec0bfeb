//! Members of an agent card with default values (A2A 1.0.1 §8.4.1): a signature does not cover them, so that a card verifies
//! with or without them.
//!
//! The tables are those of the specification's `a2a.proto`: a member that is REQUIRED or `optional` is always covered,
//! another one is not while it has its type's default value. Members that are not known are covered as they are.

use serde_json::{Map, Value};

/// A member of a message.
struct Member {
    name: &'static str,
    /// REQUIRED, `optional`, or a message: its presence is significant.
    covered: bool,
    holds: Holds,
}

/// The type of a member.
enum Holds {
    /// A scalar, or a value that is covered as it is.
    Value,
    /// A message, or a list of them.
    Message(&'static [Member]),
    /// A map whose values are messages.
    MapOf(&'static [Member]),
}

const fn covered(name: &'static str) -> Member {
    Member { name, covered: true, holds: Holds::Value }
}

const fn default(name: &'static str) -> Member {
    Member { name, covered: false, holds: Holds::Value }
}

const fn message(name: &'static str, members: &'static [Member]) -> Member {
    Member { name, covered: true, holds: Holds::Message(members) }
}

/// A list of messages that may be empty.
const fn list(name: &'static str, members: &'static [Member]) -> Member {
    Member { name, covered: false, holds: Holds::Message(members) }
}

const CARD: &[Member] = &[
    covered("name"),
    covered("description"),
    message(
        "supportedInterfaces",
        &[covered("url"), covered("protocolBinding"), default("tenant"), covered("protocolVersion")],
    ),
    message("provider", &[covered("url"), covered("organization")]),
    covered("version"),
    covered("documentationUrl"),
    message(
        "capabilities",
        &[
            covered("streaming"),
            covered("pushNotifications"),
            list("extensions", &[default("uri"), default("description"), default("required"), covered("params")]),
            covered("extendedAgentCard"),
        ],
    ),
    Member { name: "securitySchemes", covered: false, holds: Holds::MapOf(SECURITY_SCHEME) },
    list("securityRequirements", SECURITY_REQUIREMENT),
    covered("defaultInputModes"),
    covered("defaultOutputModes"),
    message(
        "skills",
        &[
            covered("id"),
            covered("name"),
            covered("description"),
            covered("tags"),
            default("examples"),
            default("inputModes"),
            default("outputModes"),
            list("securityRequirements", SECURITY_REQUIREMENT),
        ],
    ),
    covered("iconUrl"),
];

const SECURITY_REQUIREMENT: &[Member] =
    &[Member { name: "schemes", covered: false, holds: Holds::MapOf(&[default("list")]) }];

const SECURITY_SCHEME: &[Member] = &[
    message("apiKeySecurityScheme", &[default("description"), covered("location"), covered("name")]),
    message("httpAuthSecurityScheme", &[default("description"), covered("scheme"), default("bearerFormat")]),
    message(
        "oauth2SecurityScheme",
        &[
            default("description"),
            message(
                "flows",
                &[
                    message("authorizationCode", FLOW),
                    message("clientCredentials", FLOW),
                    message("implicit", OLD_FLOW),
                    message("password", OLD_FLOW),
                    message("deviceCode", FLOW),
                ],
            ),
            default("oauth2MetadataUrl"),
        ],
    ),
    message("openIdConnectSecurityScheme", &[default("description"), covered("openIdConnectUrl")]),
    message("mtlsSecurityScheme", &[default("description")]),
];

const FLOW: &[Member] = &[
    covered("authorizationUrl"),
    covered("deviceAuthorizationUrl"),
    covered("tokenUrl"),
    default("refreshUrl"),
    covered("scopes"),
    default("pkceRequired"),
];

/// Flows that the specification keeps for old servers; nothing in them is REQUIRED.
const OLD_FLOW: &[Member] =
    &[default("authorizationUrl"), default("tokenUrl"), default("refreshUrl"), default("scopes")];

/// The card without members that have default values.
pub(super) fn without(card: &Map<String, Value>) -> Map<String, Value> {
    of_message(card, CARD)
}

fn of_message(message: &Map<String, Value>, members: &[Member]) -> Map<String, Value> {
    let kept = message.iter().filter_map(|(name, value)| {
        let Some(member) = members.iter().find(|member| member.name == name) else {
            return Some((name.clone(), value.clone()));
        };
        // ProtoJSON: null is absent.
        if value.is_null() || (!member.covered && says_nothing(value)) {
            return None;
        }
        let value = match (&member.holds, value) {
            (Holds::Message(inner), Value::Object(message)) => Value::Object(of_message(message, inner)),
            (Holds::Message(inner), Value::Array(items)) => {
                let item = |item: &Value| match item {
                    Value::Object(message) => Value::Object(of_message(message, inner)),
                    other => other.clone(),
                };
                Value::Array(items.iter().map(item).collect())
            }
            (Holds::MapOf(inner), Value::Object(map)) => {
                let entry = |(name, value): (&String, &Value)| match value {
                    Value::Object(message) => (name.clone(), Value::Object(of_message(message, inner))),
                    other => (name.clone(), other.clone()),
                };
                Value::Object(map.iter().map(entry).collect())
            }
            (_, value) => value.clone(),
        };
        Some((name.clone(), value))
    });
    kept.collect()
}

/// Whether it is the default value of its type.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

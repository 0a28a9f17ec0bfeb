//! The three that take turns, and what they are asked.

use std::time::{Duration, Instant};

use super::data::{Publisher, capability, id, model, thing, title};
use super::http::{Client, escaped};
use super::postgres::Connection;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Get,
    Create,
    /// A release of a publisher, with two signatures beside those of its keys.
    Publish,
    /// A page of a hundred.
    List,
    /// A search that one Thing answers to.
    One,
    /// A search that one in a hundred answers to.
    Percent,
    /// A search that ten answer to.
    Capability,
}

/// A request, made before the time is taken.
pub struct Ask {
    work: Work,
    number: usize,
    body: Vec<u8>,
    /// In JSONPath, and in the path language of SQL/JSON.
    query: [String; 2],
    /// How many Things answer.
    hits: Option<usize>,
}

impl Ask {
    pub fn new(work: Work, number: usize, things: usize, publisher: &Publisher) -> Ask {
        let (member, value, hits) = match work {
            Work::Percent => ("ex:model", model(number), Some(things / super::data::MODELS)),
            Work::Capability => ("ex:capability", capability(number, things), None),
            _ => ("title", title(number), Some(1)),
        };
        let body = match work {
            Work::Create => thing(number, things).into_bytes(),
            Work::Publish => publisher.release(number),
            _ => Vec::new(),
        };
        let query = [format!("$[?@['{member}']=='{value}']"), format!("$.\"{member}\" == \"{value}\"")];
        Ask { work, number, body, query, hits }
    }
}

/// One that answers.
pub enum Server {
    Ours(Client),
    /// Alone, it waits for the disk; with others, it shares that.
    Floor {
        client: Client,
        is_grouped: bool,
    },
    Postgres(Connection),
}

impl Server {
    /// Whether it is asked such things.
    pub fn does(&self, work: Work) -> bool {
        match self {
            Server::Ours(_) => true,
            Server::Floor { .. } => !matches!(work, Work::One | Work::Percent | Work::Capability),
            Server::Postgres(_) => work != Work::Publish,
        }
    }

    /// How long an answer takes, which must be the right one.
    pub async fn ask(&mut self, ask: &Ask) -> Duration {
        let place = id(ask.number);
        let begun = Instant::now();
        let found = match self {
            Server::Postgres(connection) => ask_postgres(connection, ask, &place).await,
            Server::Ours(client) => ask_http(client, ask, "/things", "/submissions", &place).await,
            Server::Floor { client, is_grouped: false } => {
                ask_http(client, ask, "/things", "/submissions", &place).await
            }
            Server::Floor { client, is_grouped: true } => {
                ask_http(client, ask, "/grouped", "/grouped-submissions", &place).await
            }
        };
        let took = begun.elapsed();
        found.check(ask);
        took
    }
}

/// What was answered.
enum Found {
    Nothing,
    Json(Vec<u8>),
    Rows(Vec<String>),
}

impl Found {
    fn check(&self, ask: &Ask) {
        let texts = |text: &[u8]| {
            let answer: serde_json::Value = serde_json::from_slice(text).expect("JSON");
            answer.as_array().map_or(1, Vec::len)
        };
        let count = match self {
            Found::Nothing => return,
            Found::Json(bytes) => texts(bytes),
            Found::Rows(rows) => rows.len(),
        };
        match (ask.work, ask.hits) {
            (Work::List, _) => assert!(count > 0, "a page of Things"),
            (_, Some(hits)) => assert_eq!(count, hits, "{:?} of {}", ask.work, ask.number),
            (_, None) => assert!((1..=20).contains(&count), "{count} of {:?}", ask.query),
        }
    }
}

async fn ask_http(client: &mut Client, ask: &Ask, things: &str, submissions: &str, place: &str) -> Found {
    match ask.work {
        Work::Create => {
            let body = &ask.body;
            client.ask("PUT", &format!("{things}/{place}"), "application/td+json", body).await;
            Found::Nothing
        }
        Work::Publish => {
            client.ask("POST", submissions, "application/cbor", &ask.body).await;
            Found::Nothing
        }
        Work::Get => Found::Json(client.get(&format!("/things/{place}")).await),
        Work::List => Found::Json(client.get(&format!("/things?limit=100&after={place}")).await),
        Work::One | Work::Percent | Work::Capability => {
            Found::Json(client.get(&format!("/search/jsonpath?query={}", escaped(&ask.query[0]))).await)
        }
    }
}

async fn ask_postgres(connection: &Connection, ask: &Ask, place: &str) -> Found {
    match ask.work {
        Work::Get => Found::Rows(connection.get(place).await),
        Work::List => Found::Rows(connection.list(place).await),
        Work::One | Work::Percent | Work::Capability => Found::Rows(connection.search(&ask.query[1]).await),
        Work::Create => {
            connection.create(place, std::str::from_utf8(&ask.body).expect("text")).await;
            Found::Nothing
        }
        Work::Publish => Found::Nothing,
    }
}

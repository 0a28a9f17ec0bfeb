//! `GET /things`: the directory by pages, as an array or as a collection.

use std::collections::BTreeMap;

use althing_edge::Peer;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::super::Shared;
use super::super::problem::{Answer, Problem};
use super::{escaped, origin, reader};
use crate::service::{Order, Page, Paged, ThingError};

/// Descriptions that may be left out at the beginning of a page that does not count as a search.
const OFFSET_FREE: usize = 10_000;
/// The media type of lists.
const LD: &str = "application/ld+json";

/// What a request asks for.
struct Asked {
    page: Page,
    is_collection: bool,
    /// The words that say so, but for where the page begins.
    words: Vec<(&'static str, String)>,
}

type Words = BTreeMap<String, String>;

impl Asked {
    fn of(words: &Words) -> Result<Asked, Problem> {
        let mut asked = Asked { page: Page::default(), is_collection: false, words: Vec::new() };
        if let Some(limit) = words.get("limit") {
            let limit: usize = number("limit", limit)?;
            if limit == 0 {
                return Err(Problem::bad("`limit` is at least 1"));
            }
            asked.page.limit = Some(limit);
            asked.words.push(("limit", limit.to_string()));
        }
        if let Some(offset) = words.get("offset") {
            asked.page.offset = number("offset", offset)?;
        }
        asked.page.after = words.get("after").cloned();
        if let Some(by) = words.get("sort_by") {
            asked.page.order = match by.as_str() {
                "id" => Order::Id,
                "title" => Order::Title,
                "created" | "created_at" | "registration.created" => Order::Created,
                "modified" | "modified_at" | "registration.modified" => Order::Modified,
                _ => return Err(Problem::bad("`sort_by` is id, title, created or modified")),
            };
            asked.words.push(("sort_by", by.clone()));
        }
        if let Some(order) = words.get("sort_order") {
            asked.page.is_descending = match order.as_str() {
                "asc" => false,
                "desc" => true,
                _ => return Err(Problem::bad("`sort_order` is asc or desc")),
            };
            asked.words.push(("sort_order", order.clone()));
        }
        if let Some(format) = words.get("format") {
            asked.is_collection = match format.as_str() {
                "array" => false,
                "collection" => true,
                _ => return Err(Problem::bad("`format` is array or collection")),
            };
            asked.words.push(("format", format.clone()));
        }
        if asked.page.after.is_some() && !asked.is_by_id() {
            return Err(Problem::bad("`after` goes with lists that are sorted by id, ascending"));
        }
        Ok(asked)
    }

    fn is_by_id(&self) -> bool {
        self.page.order == Order::Id && !self.page.is_descending
    }

    /// The address of a page.
    fn address(&self, begins: Option<(&'static str, String)>) -> String {
        let words = begins.iter().chain(&self.words);
        let words: Vec<String> = words.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        if words.is_empty() { "/things".to_owned() } else { format!("/things?{}", words.join("&")) }
    }

    fn this(&self) -> String {
        match &self.page.after {
            Some(after) => self.address(Some(("after", after.clone()))),
            None => self.address((self.page.offset > 0).then(|| ("offset", self.page.offset.to_string()))),
        }
    }

    /// The address of the page after it. By id it begins after the last one, so that none is skipped or told twice however the
    /// directory changes meanwhile.
    fn next(&self, paged: &Paged) -> Option<String> {
        let (last, _) = paged.descriptions.last().filter(|_| paged.has_more)?;
        let begins = if self.is_by_id() {
            ("after", last.clone())
        } else {
            ("offset", (self.page.offset + paged.descriptions.len()).to_string())
        };
        Some(self.address(Some(begins)))
    }

    /// The answer with a page.
    fn answer(&self, paged: &Paged) -> Response {
        let next = self.next(paged);
        let mut body = Vec::new();
        if self.is_collection {
            let mut head = json!({
                "@context": "https://www.w3.org/2022/wot/discovery",
                "@type": "ThingCollection",
                "total": paged.total,
                "@id": self.this(),
            });
            if let Some(next) = &next {
                head["next"] = json!(next);
            }
            let head = head.to_string();
            body.extend(&head.as_bytes()[..head.len() - 1]);
            body.extend(b",\"members\":[");
            body.extend(joined(paged));
            body.extend(b"]}");
        } else {
            body.push(b'[');
            body.extend(joined(paged));
            body.push(b']');
        }
        let mut response = ([(header::CONTENT_TYPE, HeaderValue::from_static(LD))], body).into_response();
        let state = format!("</things>; rel=\"canonical\"; etag=\"{}\"", paged.state);
        for link in next.map(|next| format!("<{next}>; rel=\"next\"")).into_iter().chain([state]) {
            if let Ok(link) = HeaderValue::from_str(&link) {
                response.headers_mut().append(header::LINK, link);
            }
        }
        response
    }
}

fn number(name: &str, text: &str) -> Result<usize, Problem> {
    text.parse().map_err(|_| Problem::bad(format!("`{name}` is a whole number")))
}

/// The descriptions between commas.
fn joined(paged: &Paged) -> Vec<u8> {
    let all: Vec<&[u8]> = paged.descriptions.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    all.join(&b","[..])
}

pub async fn list(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Query(words): Query<Words>,
    headers: HeaderMap,
) -> Answer {
    reader(&registry, &headers)?;
    let asked = Asked::of(&words)?;
    let (turns, origin) = (registry.turns(), origin(peer));
    // One that begins far from the beginning walks there.
    let turn = if asked.page.offset <= OFFSET_FREE { turns.read(origin).await? } else { turns.take(origin).await? };
    let reading = turn.spend(move || Ok::<_, ThingError>(asked.answer(&registry.directory().page(&asked.page)?)));
    Ok(reading.await??)
}

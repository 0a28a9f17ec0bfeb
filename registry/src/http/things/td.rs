//! `GET /.well-known/wot`: the directory as a Thing, which a consumer uses unaided.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};

use super::super::Shared;
use super::{PATCH, TD, bearer};
use crate::service::{EventKind, Registry};

/// The host that the client asked, if an address can have it.
fn host(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    (!host.is_empty() && host.len() <= 255 && host.bytes().all(allowed)).then_some(host)
}

/// The forms of an affordance that answers errors as problem details.
fn forms(security: Option<&str>, form: Value) -> Value {
    let mut form = form;
    form["additionalResponses"] = json!([{ "contentType": "application/problem+json", "success": false }]);
    if let Some(security) = security {
        form["security"] = json!([security]);
    }
    json!([form])
}

fn id() -> Value {
    json!({ "id": { "@type": "ThingID", "title": "The id of a Thing", "type": "string", "format": "iri-reference" } })
}

fn properties(security: Option<&str>) -> Value {
    let paged = |form: Value| {
        let mut variables = json!({
            "offset": { "title": "Descriptions to leave out before the page", "type": "integer", "minimum": 0, "default": 0 },
            "limit": { "title": "Descriptions of a page", "type": "integer", "minimum": 1 },
            "after": { "title": "The id after which the page begins", "type": "string" },
            "sort_by": { "type": "string", "enum": ["id", "title", "created", "modified"], "default": "id" },
            "sort_order": { "type": "string", "enum": ["asc", "desc"], "default": "asc" },
        });
        variables["format"] = json!({ "type": "string", "enum": [form] });
        variables
    };
    json!({
        "things": {
            "title": "Things",
            "description": "The Thing Descriptions, by pages. The Link header leads to the next page",
            "type": "array",
            "items": { "type": "object" },
            "readOnly": true,
            "uriVariables": paged(json!("array")),
            "forms": forms(security, json!({
                "op": ["readproperty"], "href": "things{?offset,limit,after,sort_by,sort_order,format}",
                "contentType": "application/ld+json", "htv:methodName": "GET",
            })),
        },
        "thingCollection": {
            "title": "Things with their number",
            "description": "The same pages, each with the number of all and the address of the next one",
            "type": "object",
            "properties": {
                "total": { "type": "integer" }, "next": { "type": "string" },
                "members": { "type": "array", "items": { "type": "object" } },
            },
            "readOnly": true,
            "uriVariables": paged(json!("collection")),
            "forms": forms(security, json!({
                "op": ["readproperty"], "href": "things?format=collection{&offset,limit,after,sort_by,sort_order}",
                "contentType": "application/ld+json", "htv:methodName": "GET",
            })),
        },
    })
}

fn reading(security: Option<&str>) -> Map<String, Value> {
    let actions = json!({
        "retrieveThing": {
            "title": "Retrieve a Thing Description", "safe": true, "idempotent": true,
            "uriVariables": id(), "output": { "type": "object" },
            "forms": forms(security, json!({
                "op": "invokeaction", "href": "things/{id}", "htv:methodName": "GET", "contentType": TD,
            })),
        },
        "searchJSONPath": {
            "title": "Search by JSONPath (RFC 9535)",
            "description": "The query selects in the array of all Thing Descriptions, such as $[?@.title == 'Lamp']",
            "safe": true, "idempotent": true,
            "uriVariables": { "query": { "title": "A JSONPath query", "type": "string" } },
            "output": { "type": "array" },
            "forms": forms(security, json!({
                "op": "invokeaction", "href": "search/jsonpath{?query}", "htv:methodName": "GET",
                "contentType": "application/json",
            })),
        },
    });
    match actions {
        Value::Object(actions) => actions,
        _ => Map::new(),
    }
}

fn writing(security: Option<&str>) -> Value {
    let thing = || json!({ "type": "object" });
    // Stock consumers cannot write the media type of patches, and take the first form.
    let patch = |kind: &str| {
        let form =
            json!({ "op": "invokeaction", "href": "things/{id}", "htv:methodName": "PATCH", "contentType": kind });
        forms(security, form)[0].take()
    };
    json!({
        "createAnonymousThing": {
            "title": "Register a Thing Description without an id",
            "description": "The Location header of the answer has the id that it got", "input": thing(),
            "forms": forms(security, json!({
                "op": "invokeaction", "href": "things", "htv:methodName": "POST", "contentType": TD,
            })),
        },
        "createThing": {
            "title": "Register a Thing Description", "uriVariables": id(), "input": thing(), "idempotent": true,
            "forms": forms(security, json!({
                "op": "invokeaction", "href": "things/{id}", "htv:methodName": "PUT", "contentType": TD,
            })),
        },
        "updateThing": {
            "title": "Replace a Thing Description", "uriVariables": id(), "input": thing(), "idempotent": true,
            "forms": forms(security, json!({
                "op": "invokeaction", "href": "things/{id}", "htv:methodName": "PUT", "contentType": TD,
            })),
        },
        "partiallyUpdateThing": {
            "title": "Change a Thing Description by a merge patch (RFC 7396)", "uriVariables": id(), "input": thing(),
            "forms": [patch("application/json"), patch(PATCH)],
        },
        "deleteThing": {
            "title": "Delete a Thing Description", "uriVariables": id(), "idempotent": true,
            "forms": forms(security, json!({
                "op": "invokeaction", "href": "things/{id}", "htv:methodName": "DELETE", "contentType": TD,
            })),
        },
    })
}

fn events(security: Option<&str>) -> Value {
    let event = |kind: EventKind| {
        let title = match kind {
            EventKind::Created => "A Thing Description was registered",
            EventKind::Updated => "A Thing Description was changed",
            EventKind::Deleted => "A Thing Description was deleted",
        };
        json!({
            "title": title,
            "uriVariables": { "diff": { "title": "Tell what was registered, or what has changed", "type": "boolean" } },
            "data": { "type": "object", "properties": { "id": { "type": "string" } } },
            // Without names: stock consumers hear no named events.
            "forms": forms(security, json!({
                "op": "subscribeevent", "href": format!("events/{}?unnamed{{&diff}}", kind.name()), "subprotocol": "sse",
                "htv:methodName": "GET", "contentType": "application/json",
            })),
        })
    };
    json!({
        "thingCreated": event(EventKind::Created),
        "thingUpdated": event(EventKind::Updated),
        "thingDeleted": event(EventKind::Deleted),
    })
}

/// The description of a directory that is reached at that host. Whoever shows a token is told to show it everywhere: stock
/// consumers use one kind of security for all of a Thing.
fn description(registry: &Registry, host: Option<&str>, has_token: bool) -> Value {
    let access = registry.access().ok();
    let is_closed = has_token || access.is_some_and(|access| access.is_closed);
    // A form says what it needs where that is not what reading needs.
    let to_write = match (is_closed, access.is_some_and(|access| access.is_anyone)) {
        (false, false) => Some("token"),
        _ => None,
    };
    let mut actions = reading(None);
    if access.is_some()
        && let Value::Object(more) = writing(to_write)
    {
        actions.extend(more);
    }
    let mut td = json!({
        "@context": [
            "https://www.w3.org/2022/wot/td/v1.1",
            "https://www.w3.org/2022/wot/discovery",
            { "htv": "http://www.w3.org/2011/http#" },
        ],
        "@type": "ThingDirectory",
        "id": registry.note_key().key().did(),
        "title": "Thing Description Directory",
        "description": "The directory of an Althing registry: Things, and agents that their publishers signed",
        "securityDefinitions": {
            "open": { "scheme": "nosec" },
            "token": { "scheme": "bearer", "in": "header", "name": "Authorization", "format": "opaque" },
        },
        "security": [if is_closed { "token" } else { "open" }],
        "properties": properties(None),
        "actions": actions,
        "events": events(None),
    });
    if let Some(host) = host {
        td["base"] = json!(format!("{}://{host}/", registry.scheme()));
    }
    td
}

pub async fn describe(State(registry): Shared, headers: HeaderMap) -> Response {
    let td = description(&registry, host(&headers), bearer(&headers).is_some()).to_string();
    ([(header::CONTENT_TYPE, TD)], td).into_response()
}

//! `/openapi.json`: the table of routes as OpenAPI 3.1.

use std::sync::Arc;

use althing_edge::Scope;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Map, Value, json};

use super::base;
use crate::a2a::schemas::components;
use crate::routes::{Answer, Route, Served};
use crate::{A2A, Gateway, JSON};

/// `GET /openapi.json`.
pub(super) async fn show(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    // Tokens may be given out at any time.
    let token_required = gateway.access.is_guarded();
    let known = &gateway.openapi[usize::from(token_required)];
    let mut document = known.get_or_init(|| document(&gateway.table, token_required)).clone();
    document["servers"] = json!([{ "url": base(&gateway, &headers).to_string() }]);
    Json(document).into_response()
}

/// The document without the address of the gateway.
fn document(table: &[Served], token_required: bool) -> Value {
    let mut paths = Map::new();
    let mut tags: Vec<Value> = Vec::new();
    for Served { route, guarded } in table {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route, *guarded && token_required);
        let tag = json!({ "name": route.tag.name, "description": route.tag.about });
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Althing gateway",
            "summary": "Every agent of the mesh that this node may call, by A2A and by the Web of Things",
            "description": "Beside these routes the same address serves A2A over gRPC (HTTP/2, the service \
                lf.a2a.v1.A2AService of A2A 1.0, the agent as `tenant`), which OpenAPI cannot describe, and at /mcp \
                the sessions of MCP versions before 2026-07-28 (GET and DELETE).",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "tags": tags,
        "paths": paths,
    });
    document["components"] = json!({ "schemas": components(&document["paths"]) });
    if token_required {
        document["components"]["securitySchemes"] = json!({ "token": { "type": "http", "scheme": "bearer" } });
    }
    document
}

fn operation(route: &Route, guarded: bool) -> Value {
    let mut operation = json!({
        "operationId": name(route),
        "tags": [route.tag.name],
        "summary": route.summary,
        "responses": responses(route),
    });
    // A variable may be a part of its segment: `{task}:cancel`.
    let variables = route.path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let in_path = variables.map(|name| {
        let about = match name {
            "agent" => "The agent's id, or its name",
            "ask" => "The question's id",
            _ => "The task's id",
        };
        parameter(name, "string", about, "path")
    });
    let in_query = route.query.iter().map(|(name, kind, about)| parameter(name, kind, about, "query"));
    let parameters: Vec<Value> = in_path.chain(in_query).chain(version(route)).collect();
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(schema) = route.request {
        operation["requestBody"] = json!({ "required": true, "content": { JSON: { "schema": schema() } } });
    }
    if guarded {
        operation["security"] = json!([{ "token": [] }]);
    }
    operation
}

fn parameter(name: &str, kind: &str, about: &str, place: &str) -> Value {
    let in_path = place == "path";
    json!({ "name": name, "in": place, "required": in_path, "description": about, "schema": { "type": kind } })
}

/// The version that each operation of A2A must name; cards and lists need none.
fn version(route: &Route) -> Option<Value> {
    let about = "The version of A2A (A2A §3.6); where it is a query parameter, this may be left out";
    let schema = json!({ "type": "string", "default": "1.0" });
    let header =
        json!({ "name": "A2A-Version", "in": "header", "required": true, "description": about, "schema": schema });
    (route.tag.name == A2A.name && route.scope == Scope::Call).then_some(header)
}

fn responses(route: &Route) -> Value {
    let mut responses = Map::new();
    for Answer { status, about, media, schema } in route.answers {
        let mut response = json!({ "description": about });
        if !media.is_empty() {
            let content = schema.map_or_else(|| json!({}), |schema| json!({ "schema": schema() }));
            response["content"] = json!({ *media: content });
        }
        responses.insert(status.to_string(), response);
    }
    let refusal = json!({ "schema": (route.tag.refusal)() });
    let refused =
        json!({ "description": "It is refused, with the reason", "content": { route.tag.refusals: refusal } });
    responses.insert("default".to_owned(), refused);
    Value::Object(responses)
}

/// The name of an operation: its method and the words of its path, as a generated client would call it.
fn name(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = route.method.as_str().to_ascii_lowercase();
    for word in words {
        name.extend(word.chars().take(1).map(|first| first.to_ascii_uppercase()));
        name.push_str(&word[1..]);
    }
    // `/a2a/{agent}/` has the words of `/a2a/{agent}`.
    if route.path.ends_with("}/") {
        name.push_str("Slash");
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_operation_has_a_name_of_its_own_and_all_variables_of_its_path() {
        let table = crate::table();
        let document = document(&table, true);
        let mut names = BTreeSet::new();
        for Served { route, guarded } in &table {
            let operation = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
            assert!(names.insert(operation["operationId"].to_string()), "{}", route.path);
            assert_eq!(operation.get("security").is_some(), *guarded, "{}", route.path);
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, route.path.matches('{').count(), "{}", route.path);
            assert!(!route.answers.is_empty(), "{} answers nothing", route.path);
        }
        assert_eq!(names.len(), table.len());
    }

    #[test]
    fn answers_of_a2a_have_the_types_of_its_specification() {
        let document = document(&crate::table(), false);
        let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        let send = &document["paths"]["/a2a/{agent}/message:send"]["post"];
        assert_eq!(send["requestBody"]["content"][JSON]["schema"], reference("SendMessageRequest"));
        let answers = &send["responses"];
        assert_eq!(answers["200"]["content"]["application/a2a+json"]["schema"], reference("SendMessageResponse"));
        assert_eq!(answers["default"]["content"][JSON]["schema"], reference("Error"));
        assert_eq!(send["parameters"][1]["name"], "A2A-Version");
        let list = &document["paths"]["/a2a/{agent}/tasks"]["get"]["parameters"];
        let size = list.as_array().and_then(|all| all.iter().find(|parameter| parameter["name"] == "pageSize"));
        assert_eq!(size.map(|size| &size["schema"]["type"]), Some(&json!("integer")));
        let schemas = &document["components"]["schemas"];
        for name in
            ["Message", "Part", "Task", "TaskState", "StreamResponse", "AgentCard", "ErrorInfo", "JsonRpcRequest"]
        {
            assert!(schemas[name].is_object(), "{name}");
        }
        assert_eq!(schemas["Task"]["required"], json!(["id", "status"]));
    }
}

//! The table of the gateway's routes: what a face adds here is served, and described in `/openapi.json`, from one entry.

use std::sync::Arc;

use althing_edge::Scope;
use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, any, on};
use serde_json::Value;

use crate::Gateway;

/// A face, as a reader of the table knows it.
pub(crate) struct Tag {
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// The media type of its refusals.
    pub refusals: &'static str,
    /// Their JSON Schema.
    pub refusal: fn() -> Value,
}

/// A route that is served.
#[derive(Clone)]
pub(crate) struct Served {
    pub route: Route,
    /// Whether it needs the token, if one is set.
    pub guarded: bool,
}

/// One entry: a method of a path, and what a reader of `/openapi.json` is told of it.
#[derive(Clone)]
pub(crate) struct Route {
    pub method: Method,
    /// As axum and OpenAPI both write it: `{agent}` is a variable.
    pub path: &'static str,
    /// The face that it belongs to.
    pub tag: &'static Tag,
    /// What it does, in one sentence; the first word is a verb.
    pub summary: &'static str,
    /// Names of query parameters, with their JSON type and what they mean.
    pub query: &'static [(&'static str, &'static str, &'static str)],
    /// The JSON Schema of the request's body, if it has one.
    pub request: Option<fn() -> Value>,
    /// The answers that do not refuse.
    pub answers: &'static [Answer],
    /// What its user needs.
    pub scope: Scope,
}

/// One answer of a route.
#[derive(Clone)]
pub(crate) struct Answer {
    pub status: u16,
    /// What it is.
    pub about: &'static str,
    /// The media type of its body; empty if it has none.
    pub media: &'static str,
    /// The JSON Schema of its body, if that is JSON.
    pub schema: Option<fn() -> Value>,
}

impl Answer {
    /// An answer of status 200.
    pub const fn ok(about: &'static str, media: &'static str) -> Answer {
        Answer { status: 200, about, media, schema: None }
    }

    /// The same, with the schema of its JSON.
    pub const fn schema(self, schema: fn() -> Value) -> Answer {
        Answer { schema: Some(schema), ..self }
    }

    /// The same, with another status.
    pub const fn status(self, status: u16) -> Answer {
        Answer { status, ..self }
    }
}

impl Route {
    const fn new(method: Method, path: &'static str, tag: &'static Tag, summary: &'static str, scope: Scope) -> Route {
        Route { method, path, tag, summary, query: &[], request: None, answers: &[], scope }
    }

    /// A route that reads what describes agents.
    pub const fn get(path: &'static str, tag: &'static Tag, summary: &'static str) -> Route {
        Route::new(Method::GET, path, tag, summary, Scope::Read)
    }

    /// A route that is sent a body.
    pub const fn post(path: &'static str, tag: &'static Tag, summary: &'static str) -> Route {
        Route::new(Method::POST, path, tag, summary, Scope::Call)
    }

    /// A route that deletes.
    pub const fn delete(path: &'static str, tag: &'static Tag, summary: &'static str) -> Route {
        Route::new(Method::DELETE, path, tag, summary, Scope::Call)
    }

    /// With another scope than most of its method.
    pub const fn needs(mut self, scope: Scope) -> Route {
        self.scope = scope;
        self
    }

    /// With query parameters.
    pub const fn query(mut self, query: &'static [(&'static str, &'static str, &'static str)]) -> Route {
        self.query = query;
        self
    }

    /// With a JSON body.
    pub const fn request(mut self, schema: fn() -> Value) -> Route {
        self.request = Some(schema);
        self
    }

    /// With these answers.
    pub const fn answers(mut self, answers: &'static [Answer]) -> Route {
        self.answers = answers;
        self
    }
}

/// Routes with their handlers.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<Arc<Gateway>>,
    table: Vec<Route>,
}

impl Routes {
    /// Adds a route.
    pub fn route<H, T>(mut self, route: Route, handler: H) -> Routes
    where
        H: Handler<T, Arc<Gateway>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(route.method.clone()).expect("a method of the constructors above");
        self.router = self.router.route(route.path, on(filter, handler));
        self.table.push(route);
        self
    }

    /// Adds a handler for any method of a path, and what is served there.
    pub fn any<H, T>(mut self, path: &str, table: &[Route], handler: H) -> Routes
    where
        H: Handler<T, Arc<Gateway>>,
        T: 'static,
    {
        self.router = self.router.route(path, any(handler));
        self.describe(table)
    }

    /// Adds what another crate serves to the table.
    pub fn describe(mut self, table: &[Route]) -> Routes {
        self.table.extend_from_slice(table);
        self
    }

    /// Answers the methods that these paths do not serve.
    pub fn refusing<H, T>(mut self, handler: H) -> Routes
    where
        H: Handler<T, Arc<Gateway>>,
        T: 'static,
    {
        self.router = self.router.method_not_allowed_fallback(handler);
        self
    }

    /// Adds the routes of another face.
    pub fn merge(mut self, other: Routes) -> Routes {
        self.router = self.router.merge(other.router);
        self.table.extend(other.table);
        self
    }

    /// What axum serves, and the table.
    pub fn split(self) -> (Router<Arc<Gateway>>, Vec<Route>) {
        (self.router, self.table)
    }
}

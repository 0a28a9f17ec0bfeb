//! Entries of the table of routes: what is served, and described in `/openapi.json`, from one entry.

use std::sync::Arc;

use althing_api::{BODY_BYTES_MAX, UPLOAD_BODY_BYTES_MAX};
use althing_operations::Operations;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::body::{self, BodyLimit};

/// The media type of most answers.
const JSON: &str = "application/json";

/// Makes the schema of a type.
pub type Shape = fn(&mut SchemaGenerator) -> Schema;

/// A method of a path, and what a reader of `/openapi.json` is told of it.
pub struct Route {
    pub method: Method,
    /// As axum and OpenAPI both write it: `{agent}` is a variable.
    pub path: &'static str,
    /// What it does, in one sentence; the first word is a verb.
    pub summary: &'static str,
    /// The parameters after the `?`, as the members of an object.
    pub query: Option<Shape>,
    /// The body, if it has one.
    pub request: Option<Shape>,
    /// The longest body that is read, in bytes.
    pub body_bytes_max: usize,
    /// The media type of the answer.
    pub media: &'static str,
    /// The answer, or a line or an event of it; none where its media type says what it is.
    pub reply: Option<Shape>,
}

impl Route {
    fn new(method: Method, path: &'static str, summary: &'static str) -> Route {
        Route {
            method,
            path,
            summary,
            query: None,
            request: None,
            body_bytes_max: BODY_BYTES_MAX,
            media: JSON,
            reply: None,
        }
    }

    /// A route that reads.
    pub fn get(path: &'static str, summary: &'static str) -> Route {
        Route::new(Method::GET, path, summary)
    }

    /// A route that is sent a body of that type.
    pub fn post<T: JsonSchema>(path: &'static str, summary: &'static str) -> Route {
        Route { request: Some(shape::<T>), ..Route::new(Method::POST, path, summary) }
    }

    /// With a body that hands over files.
    pub fn files(self) -> Route {
        Route { body_bytes_max: UPLOAD_BODY_BYTES_MAX, ..self }
    }

    /// A route that removes.
    pub fn delete(path: &'static str, summary: &'static str) -> Route {
        Route::new(Method::DELETE, path, summary)
    }

    /// With parameters after the `?`.
    pub fn query<T: JsonSchema>(self) -> Route {
        Route { query: Some(T::json_schema), ..self }
    }

    /// With an answer of that type.
    pub fn reply<T: JsonSchema>(self) -> Route {
        Route { reply: Some(shape::<T>), ..self }
    }

    /// Answered by lines, each of that type.
    pub fn lines<T: JsonSchema>(self) -> Route {
        Route { reply: Some(shape::<T>), ..self.media("application/x-ndjson") }
    }

    /// With an answer of that media type.
    pub fn media(self, media: &'static str) -> Route {
        Route { media, ..self }
    }
}

fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Routes with their handlers.
#[derive(Default)]
pub struct Routes {
    pub router: Router<Arc<Operations>>,
    pub table: Vec<Route>,
}

impl Routes {
    /// Adds a route. Where it has no parameters, a request with some is refused.
    pub fn route<H, T>(mut self, route: Route, handler: H) -> Routes
    where
        H: Handler<T, Arc<Operations>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(route.method.clone()).expect("a method of the constructors above");
        let limit = Extension(BodyLimit(route.body_bytes_max));
        let served = on(filter, handler).layer(limit);
        let served = if route.query.is_some() { served } else { served.route_layer(from_fn(body::without_parameters)) };
        self.router = self.router.route(route.path, served);
        self.table.push(route);
        self
    }
}

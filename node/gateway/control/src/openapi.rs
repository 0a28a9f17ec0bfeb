//! `/openapi.json`: the table of routes as OpenAPI 3.1.

use std::collections::BTreeMap;

use althing_api::Problem;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use crate::routes::Route;

/// Where the document is.
pub const PATH: &str = "/openapi.json";

/// What a variable of a path is.
const VARIABLES: &[(&str, &str)] = &[
    ("agent", "The agent's id, or its name"),
    ("app", "The application's name"),
    ("ask", "The question's id"),
    ("consent", "The id of the standing yes"),
    ("decision", "The decision's number"),
    ("entry", "The number of an entry, from 0"),
    ("group", "The group's id, or its name"),
    ("log", "Which of the node's audit logs, from 1"),
    ("name", "A name on this node"),
    ("namespace", "The namespace's name"),
    ("run", "The run's id"),
    ("task", "The task's id"),
    ("trace", "The trace's id, or its beginning"),
];

/// A document of OpenAPI. It is never copied: a handler that held it would be, with its router, for each connection.
#[derive(Serialize)]
pub struct Document {
    openapi: &'static str,
    info: Info,
    paths: BTreeMap<&'static str, BTreeMap<String, Operation>>,
    components: Components,
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    summary: &'static str,
    description: &'static str,
    version: &'static str,
    license: License,
}

#[derive(Serialize)]
struct License {
    name: &'static str,
    identifier: &'static str,
}

#[derive(Serialize)]
struct Components {
    schemas: BTreeMap<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    operation_id: String,
    summary: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Parameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<RequestBody>,
    responses: BTreeMap<&'static str, Response>,
}

#[derive(Serialize)]
struct Parameter {
    name: String,
    #[serde(rename = "in")]
    place: &'static str,
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    schema: Value,
}

#[derive(Serialize)]
struct RequestBody {
    required: bool,
    description: String,
    /// The longest that is read, in bytes; no word of OpenAPI's says it.
    #[serde(rename = "x-bytes-max")]
    bytes_max: usize,
    content: BTreeMap<&'static str, Content>,
}

#[derive(Serialize)]
struct Response {
    description: &'static str,
    content: BTreeMap<&'static str, Content>,
}

#[derive(Serialize)]
struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Schema>,
}

/// The document of a table.
pub fn document(table: &[Route]) -> Document {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<&'static str, BTreeMap<String, Operation>> = BTreeMap::new();
    for route in table {
        let method = route.method.as_str().to_ascii_lowercase();
        paths.entry(route.path).or_default().insert(method, operation(route, &mut generator));
    }
    Document {
        openapi: "3.1.0",
        info: Info {
            title: "Althing node",
            summary: "What a node's owner asks of it",
            description: "Served on the control socket of the node (0600, in its data directory) and nowhere else: the \
                gateway has other paths. Every refusal is a Problem. A member of a request that is not \
                listed is refused, and so is a parameter.",
            version: env!("CARGO_PKG_VERSION"),
            license: License { name: env!("CARGO_PKG_LICENSE"), identifier: env!("CARGO_PKG_LICENSE") },
        },
        paths,
        components: Components { schemas: generator.take_definitions(false).into_iter().collect() },
    }
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Operation {
    let variables = route.path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let in_query = route.query.map(|query| parameters(&query(generator))).unwrap_or_default();
    let request_body = route.request.map(|request| {
        let schema = Some(request(generator));
        RequestBody {
            required: true,
            description: format!("At most {} MiB", route.body_bytes_max >> 20),
            bytes_max: route.body_bytes_max,
            content: BTreeMap::from([("application/json", Content { schema })]),
        }
    });
    let schema = route.reply.map(|reply| reply(generator));
    let done = Response { description: "What was asked", content: BTreeMap::from([(route.media, Content { schema })]) };
    let refusal = Content { schema: Some(generator.subschema_for::<Problem>()) };
    let refused = Response { description: "Why not", content: BTreeMap::from([("application/json", refusal)]) };
    Operation {
        operation_id: name(route),
        summary: route.summary,
        parameters: variables.map(variable).chain(in_query).collect(),
        request_body,
        responses: BTreeMap::from([("200", done), ("default", refused)]),
    }
}

fn variable(name: &str) -> Parameter {
    let about = VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, about)| (*about).to_owned());
    let schema = Value::from_iter([("type", "string")]);
    Parameter { name: name.to_owned(), place: "path", required: true, description: about, schema }
}

/// The parameters that are the members of an object.
fn parameters(object: &Schema) -> Vec<Parameter> {
    let object = object.as_value();
    let is_required = |name: &str| object["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let of = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        // It stands beside the schema.
        let description = schema.as_object_mut().and_then(|members| members.remove("description"));
        Parameter {
            name: name.clone(),
            place: "query",
            required: is_required(name),
            description: description.and_then(|about| about.as_str().map(str::to_owned)),
            schema,
        }
    };
    object["properties"].as_object().into_iter().flatten().map(of).collect()
}

/// The name of an operation: its method and the words of its path, as a generated client would call it.
fn name(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = route.method.as_str().to_ascii_lowercase();
    for word in words {
        name.extend(word.chars().take(1).map(|first| first.to_ascii_uppercase()));
        name.push_str(&word[1..]);
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use crate::{all_routes, document};

    /// `ALTHING_BLESS=1` writes it anew after a change of the table or of a type.
    #[test]
    fn the_document_beside_the_types_is_the_one_that_is_served() {
        let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
        let file = root.join("../../api/openapi.json");
        let served = serde_json::to_string_pretty(&document()).expect("a document is JSON") + "\n";
        if std::env::var_os("ALTHING_BLESS").is_some() {
            std::fs::write(&file, &served).expect("a written file");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == served, "node/api/openapi.json is another one: ALTHING_BLESS=1 make one CRATE=althing-control");
    }

    /// Of an agent, a tool or a Thing: what the W3C says of those is no schema of this API.
    #[test]
    fn every_answer_has_a_type_but_a_description() {
        let table = all_routes().table;
        let untyped: Vec<&str> = table.iter().filter(|route| route.reply.is_none()).map(|route| route.path).collect();
        assert_eq!(untyped, ["/describe/{agent}"]);
    }

    #[test]
    fn every_post_has_a_body_and_every_variable_is_explained() {
        for route in all_routes().table {
            assert_eq!(route.request.is_some(), route.method == "POST", "{} {}", route.method, route.path);
            let variables = route.path.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
            for (name, _) in variables {
                assert!(super::VARIABLES.iter().any(|(known, _)| *known == name), "{}: {name}", route.path);
            }
        }
    }

    #[test]
    fn each_operation_has_a_name_of_its_own() {
        let table = all_routes().table;
        let names: BTreeSet<String> = table.iter().map(super::name).collect();
        assert_eq!(names.len(), table.len());
    }
}

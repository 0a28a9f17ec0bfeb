//! Requests that Cedar's authors decided with the formal model of the language.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::str::FromStr as _;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityId, EntityTypeName, EntityUid, Request, Response, ValidationMode,
    Validator,
};
use serde_json::Value;

use crate::{Answer, Bounds, PolicySet, Schema, Verdict};

const NO_BOUNDS: Bounds =
    Bounds { bytes_max: usize::MAX, policies_max: usize::MAX, depth_max: usize::MAX, operators_max: usize::MAX };

/// By day one file of so many.
const BY_DAY: usize = 32;

#[test]
fn every_request_of_the_corpus_is_decided_as_the_formal_model_decides_it() {
    let Some(vectors) = althing_testing::public_vectors("cedar") else { return };
    let unpacked = tempfile::tempdir().expect("a folder");
    let archive = vectors.join("corpus-tests.tar.gz");
    let tar = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(unpacked.path()).status();
    match tar {
        Ok(status) => assert!(status.success(), "{} cannot be unpacked", archive.display()),
        Err(_) => return althing_testing::skip("there is no program tar", "install it"),
    }
    let folder = unpacked.path().join("corpus-tests");
    let listed = std::fs::read_dir(&folder).expect("it was unpacked");
    let names = listed.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".json") && !name.ends_with(".entities.json")).collect();
    names.sort();
    let step = if althing_testing::at_night() { 1 } else { BY_DAY };
    let requests: usize = names.iter().step_by(step).map(|name| check(&folder, name)).sum();
    let least = if althing_testing::at_night() { 62_472 } else { 1_000 };
    assert!(requests >= least, "{requests} requests are too few for the corpus");
}

/// How many requests a file has.
fn check(folder: &Path, name: &str) -> usize {
    let text = |of: &str| std::fs::read_to_string(folder.join(of)).expect("a file of the corpus");
    let case: Value = serde_json::from_str(&text(name)).expect("JSON");
    let beside = |member: &str| {
        let path = case[member].as_str().expect("a path");
        text(path.rsplit('/').next().expect("a name"))
    };
    let (schema, _) = cedar_policy::Schema::from_cedarschema_str(&beside("schema")).expect("a schema");
    let text = beside("policies");
    let set = cedar_policy::PolicySet::from_str(&text).expect("policies");
    let is_valid = Validator::new(schema.clone()).validate(&set, ValidationMode::default()).validation_passed();
    // Of 35 sets Cedar's own validator takes what the corpus says that it need not: only what it must take is for us to hold.
    assert!(is_valid || case["shouldValidate"].as_bool() == Some(false), "{name}");
    let ours = is_valid.then(|| {
        let schema = Schema::of_cedar(schema.clone());
        PolicySet::read(name, &text, &schema, &NO_BOUNDS).unwrap_or_else(|error| panic!("{error}"))
    });
    let listed = beside("entities");
    let typed = Entities::from_json_str(&listed, Some(&schema));
    let entities = match typed {
        Ok(entities) => entities,
        Err(_) => Entities::from_json_str(&listed, None).expect("entities"),
    };
    let requests = case["requests"].as_array().expect("requests");
    for expected in requests {
        let asked = request(expected, &schema);
        let response = Authorizer::new().is_authorized(&asked, &set, &entities);
        let word = if response.decision() == Decision::Allow { "allow" } else { "deny" };
        assert_eq!(Some(word), expected["decision"].as_str(), "{name}: {}", expected["description"]);
        let errors = expected["errors"].as_array().map_or(0, Vec::len);
        assert_eq!(response.diagnostics().errors().count(), errors, "{name}: {}", expected["description"]);
        if let Some(ours) = &ours {
            agree(&ours.authorize(&asked, &entities), &response, expected);
        }
    }
    requests.len()
}

fn request(expected: &Value, schema: &cedar_policy::Schema) -> Request {
    let uid = |member: &str| {
        let part = |part: &str| expected[member][part].as_str().expect("a text").to_owned();
        let type_name = EntityTypeName::from_str(&part("type")).expect("a type");
        EntityUid::from_type_name_and_id(type_name, EntityId::new(part("id")))
    };
    let json = &expected["context"];
    let typed = Context::from_json_value(json.clone(), Some((schema, &uid("action"))));
    let context = match typed {
        Ok(context) => context,
        Err(_) => Context::from_json_value(json.clone(), None).expect("a context"),
    };
    let is_checked = expected["validateRequest"].as_bool() == Some(true);
    let schema = is_checked.then_some(schema);
    Request::new(uid("principal"), uid("action"), uid("resource"), context, schema).expect("a request")
}

/// Nothing in the corpus asks; what differs from Cedar's own answer is that an error denies.
fn agree(ours: &Verdict, theirs: &Response, expected: &Value) {
    let is_permitted = theirs.decision() == Decision::Allow && theirs.diagnostics().errors().next().is_none();
    assert_eq!(ours.answer, if is_permitted { Answer::Permit } else { Answer::Deny }, "{expected}");
    let reasons = expected["reason"].as_array().expect("reasons");
    let reasons: BTreeSet<&str> = reasons.iter().filter_map(Value::as_str).collect();
    assert_eq!(ours.policies.iter().map(String::as_str).collect::<BTreeSet<_>>(), reasons, "{expected}");
}

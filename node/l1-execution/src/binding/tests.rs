use althing_protocol::contract::{Contract, DataLabel};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn contract(more: Value) -> Contract {
    let mut value = json!({ "class": { "latency": "srt", "ttft_ms": 250 } });
    value.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    Contract::from_value(&value).expect("a contract")
}

fn model(name: &str, version: Option<&str>) -> Model {
    Model {
        name: name.to_owned(),
        version: version.map(str::to_owned),
        context_tokens: None,
        ttft_ms: None,
        cost: None,
        clearance: None,
        digest: format!("{name}{version:?}"),
    }
}

fn what(kind: &str) -> Bindable {
    let runtime = Runtime { kind: kind.to_owned(), digest: "00".to_owned() };
    Bindable { agent: "clerk".to_owned(), agent_version: "1.0.0".to_owned(), runtime, embeddings: None }
}

fn tool(name: &str) -> Tool {
    Tool { name: name.to_owned(), definition: "ff".to_owned() }
}

fn bound(contract: &Contract, models: &[Model]) -> Result<Vec<String>, Unmet> {
    let candidates = Candidates { models: models.to_vec(), ..Candidates::default() };
    let bound = bind(contract, what("model"), candidates)?;
    Ok(bound.manifest.models.iter().map(shown).collect())
}

#[test]
fn strict_takes_the_first_or_nothing() {
    let offers = [model("b", None), model("a", Some("1.2.0")), model("a", Some("1.3.0"))];
    let named = |models: &[&str]| contract(json!({ "binding": "strict", "model": { "models": models } }));
    assert_eq!(bound(&named(&["a@^1.2", "b"]), &offers), Ok(vec!["a@1.3.0".to_owned()]));
    assert_eq!(bound(&named(&["a@=1.2.0"]), &offers), Ok(vec!["a@1.2.0".to_owned()]));
    let unmet = bound(&named(&["a@^2", "b"]), &offers).expect_err("nothing else will do");
    assert_eq!(unmet.clause, "model.models");
    assert!(unmet.to_string().contains("a@1.3.0: its version 1.3.0 is not in ^2"), "{unmet}");
    assert!(bound(&named(&["c"]), &offers).is_err());
}

#[test]
fn data_goes_only_to_models_that_are_cleared_for_it() {
    let cleared = |name: &str, clearance| Model { clearance: Some(clearance), ..model(name, None) };
    let offers = [
        model("a", None),
        cleared("b", DataLabel::Public),
        cleared("c", DataLabel::Confidential),
        cleared("d", DataLabel::Restricted),
    ];
    let labelled = |label: &str| bound(&contract(json!({ "data_label": label })), &offers);
    assert_eq!(labelled("public").expect("all").len(), 4);
    assert_eq!(labelled("internal").expect("three"), ["a", "c", "d"]);
    assert_eq!(labelled("confidential").expect("two"), ["c", "d"]);
    assert_eq!(labelled("restricted").expect("one"), ["d"]);
    let unmet = bound(&contract(json!({ "data_label": "restricted" })), &offers[..3]).expect_err("none");
    assert!(unmet.to_string().contains("c: it is cleared for confidential data, and the agent's is restricted"));
}

#[test]
fn where_spending_is_bounded_the_cost_must_be_known() {
    let bounded = contract(json!({ "class": { "latency": "dt", "cost": { "spend": 5 } } }));
    let priced = Model { cost: Some(1), ..model("b", None) };
    assert_eq!(bound(&bounded, &[model("a", None), priced]), Ok(vec!["b".to_owned()]));
}

#[test]
fn smooth_takes_the_highest_version_in_range() {
    let offers = [model("a", Some("1.2.0")), model("a", Some("1.10.0")), model("a", Some("2.0.0")), model("b", None)];
    let named = |models: &[&str]| contract(json!({ "binding": "smooth", "model": { "models": models } }));
    assert_eq!(bound(&named(&["a@^1"]), &offers), Ok(vec!["a@1.10.0".to_owned(), "a@1.2.0".to_owned()]));
    assert_eq!(bound(&named(&["c", "b", "a"]), &offers), Ok(vec!["b".to_owned()]), "the first that is offered");
    assert_eq!(bound(&named(&["a@^3"]), &offers).expect_err("none").clause, "model.models");
}

#[test]
fn flexible_weighs_aim_cost_and_preference() {
    let cheap = Model { cost: Some(100_000), ttft_ms: Some(200), ..model("cheap", None) };
    let dear = Model { cost: Some(900_000), ttft_ms: Some(90), ..model("dear", None) };
    let slow = Model { cost: Some(1_000), ttft_ms: Some(900), ..model("slow", None) };
    let unknown = model("unknown", None);
    let all = [dear.clone(), slow.clone(), unknown.clone(), cheap.clone()];
    let open = contract(json!({}));
    assert_eq!(bound(&open, &all), Ok(["cheap", "dear", "unknown", "slow"].map(str::to_owned).to_vec()));
    // Without costs the preference decides; without the preferred, the next.
    let prefer = contract(json!({ "model": { "models": ["x", "y", "z"] } }));
    let offers = [model("z", None), model("y", None), model("x", None), model("w", None)];
    assert_eq!(bound(&prefer, &offers), Ok(["x", "y", "z"].map(str::to_owned).to_vec()));
    assert_eq!(bound(&prefer, &offers[..2]), Ok(["y", "z"].map(str::to_owned).to_vec()));
    let bound = bind(&prefer, what("model"), Candidates { models: offers.to_vec(), ..Candidates::default() });
    let whys = bound.expect("bound").models;
    assert_eq!(whys.iter().map(|why| why.rank).collect::<Vec<_>>(), [Some(3), Some(2), Some(1), None]);
    assert!(whys[3].reason.contains("does not name it"), "{whys:?}");
}

#[test]
fn a_context_that_is_too_short_is_out_in_every_mode() {
    for mode in ["strict", "smooth", "flexible"] {
        let wants = contract(json!({ "binding": mode, "model": { "context_tokens": 16_000 } }));
        let short = Model { context_tokens: Some(8_000), ..model("short", None) };
        let unmet = bound(&wants, std::slice::from_ref(&short)).expect_err("too short");
        assert!(unmet.to_string().contains("prompts of 8000 tokens"), "{unmet}");
        let long = Model { context_tokens: Some(32_000), ..model("long", None) };
        assert_eq!(bound(&wants, &[short, long]), Ok(vec!["long".to_owned()]));
    }
}

#[test]
fn labels_hold_in_every_mode() {
    for mode in ["strict", "smooth", "flexible"] {
        let wants = contract(json!({ "binding": mode, "placement": { "labels": ["on-prem"] } }));
        let with = |labels: &[&str]| Candidates {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            ..Candidates::default()
        };
        let unmet = bind(&wants, what("native"), with(&["cloud"])).expect_err("another place");
        assert_eq!(unmet.clause, "placement.labels[0]");
        assert!(bind(&wants, what("native"), with(&["cloud", "on-prem"])).is_ok());
    }
}

#[test]
fn only_strict_insists_on_every_tool() {
    let listed =
        || Candidates { tools: vec![tool("calc/sub"), tool("calc/add"), tool("files/read")], ..Candidates::default() };
    let with = |mode: &str, capabilities: &[&str]| contract(json!({ "binding": mode, "capabilities": capabilities }));
    let bound = bind(&with("flexible", &["calc/*", "gone/tool"]), what("wasm"), listed()).expect("bound");
    assert_eq!(bound.manifest.tools, [tool("calc/add"), tool("calc/sub")]);
    assert!(bound.tools.iter().any(|why| why.candidate == "files/read" && why.rank.is_none()));
    let unmet = bind(&with("strict", &["calc/*", "gone/tool"]), what("wasm"), listed()).expect_err("gone");
    assert_eq!(unmet.clause, "capabilities[1]");
    assert!(bind(&with("strict", &["calc/*", "files/read"]), what("wasm"), listed()).is_ok());
}

/// What every field is when one, two, three or all layers set it: the highest wins.
#[test]
fn the_request_goes_before_the_role_before_the_tenant_before_the_platform() {
    let layer = |ttft: u64| json!({ "class": { "latency": "srt", "ttft_ms": ttft }, "model": { "models": [format!("m{ttft}")] } });
    let (tenant, role, request) = (layer(1), layer(2), layer(3));
    let least = json!({ "class": { "latency": "srt" } });
    for (tenanted, roled, requested, ttft, by) in [
        (false, false, false, 250, Layer::Platform),
        (true, false, false, 1, Layer::Tenant),
        (false, true, false, 2, Layer::Role),
        (true, true, false, 2, Layer::Role),
        (false, false, true, 3, Layer::Request),
        (true, false, true, 3, Layer::Request),
        (false, true, true, 3, Layer::Request),
        (true, true, true, 3, Layer::Request),
    ] {
        let mut layers = vec![(Layer::Request, if requested { &request } else { &least })];
        layers.extend(tenanted.then_some((Layer::Tenant, &tenant)));
        layers.extend(roled.then_some((Layer::Role, &role)));
        let made = normalise(&layers).expect("a contract");
        assert_eq!(made.fields["class.ttft_ms"], (json!(ttft), by));
        assert_eq!(made.fields["class.latency"].1, Layer::Request);
        if by != Layer::Platform {
            assert_eq!(made.fields["model.models"], (json!([format!("m{ttft}")]), by));
        }
    }
}

#[test]
fn layers_of_another_class_say_nothing_of_this_one() {
    let tenant = json!({ "class": { "latency": "srt", "ttft_ms": 100 }, "compute": { "calls_per_turn": 3 } });
    let request = json!({ "class": { "latency": "dt" } });
    let made = normalise(&[(Layer::Tenant, &tenant), (Layer::Request, &request)]).expect("a contract");
    assert_eq!(made.contract.class.name(), "dt");
    assert_eq!(made.fields["compute.calls_per_turn"], (json!(3), Layer::Tenant));
    assert!(!made.fields.contains_key("class.ttft_ms"));
    let none = normalise(&[(Layer::Tenant, &json!({ "compute": {} })), (Layer::Request, &json!({}))]);
    assert_eq!(none.expect_err("no class")[0].field, "class");
    let unknown = normalise(&[(Layer::Role, &json!({ "compute": { "memori": 1 } })), (Layer::Request, &request)]);
    assert_eq!(unknown.expect_err("a typo in a template")[0].field, "compute.memori");
}

fn models_of() -> impl Strategy<Value = Vec<Model>> {
    let one = ("[abc]", prop::option::of("[0-2]\\.[0-2]\\.0"), prop::option::of(0u64..3), prop::option::of(0u64..500))
        .prop_map(|(name, version, cost, ttft_ms)| Model { cost, ttft_ms, ..model(&name, version.as_deref()) });
    prop::collection::vec(one, 0..6)
}

proptest! {
    /// The order in which tools were listed changes nothing, and a manifest replays to itself.
    #[test]
    fn the_same_candidates_give_the_same_manifest(
        offers in models_of(),
        wanted in prop::collection::vec("[abc](@\\^[0-2])?", 0..3),
        mode in prop::sample::select(vec!["strict", "smooth", "flexible"]),
        mut names in prop::collection::vec("[ab]/[xy]", 0..6),
        seed in any::<u64>(),
    ) {
        let mut wanted = wanted;
        wanted.sort();
        wanted.dedup();
        let contract = contract(json!({ "binding": mode, "model": { "models": wanted }, "capabilities": ["a/*"] }));
        let listed = |names: &[String]| Candidates {
            models: offers.clone(),
            tools: names.iter().map(|name| tool(name)).collect(),
            labels: Vec::new(),
        };
        let one = bind(&contract, what("model"), listed(&names));
        let turn = usize::try_from(seed % 7).unwrap_or(0).min(names.len());
        names.rotate_left(turn);
        let other = bind(&contract, what("model"), listed(&names));
        prop_assert_eq!(&one, &other);
        if let Ok(bound) = one {
            for model in &bound.manifest.models {
                prop_assert!(allows(&contract.model.models, &model.name, model.version.as_deref()));
            }
            let read = Manifest::read(&bound.manifest.canonical());
            prop_assert_eq!(read.as_ref(), Ok(&bound.manifest));
            let again = replay(&bound.manifest).expect("the same").manifest.hash();
            prop_assert_eq!(again, bound.manifest.hash());
        }
    }
}

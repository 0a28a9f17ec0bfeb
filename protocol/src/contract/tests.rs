use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Class, Contract, Grade, OnOverrun, Srt, TOOL_NAME_MAX, TurnRecord, is_tool_name};

fn problems(contract: &Value) -> Vec<(String, &'static str)> {
    let found = Contract::from_value(contract).expect_err("it has something wrong with it");
    found.into_iter().map(|problem| (problem.field, problem.rule)).collect()
}

fn hrt() -> Value {
    json!({ "class": { "latency": "hrt", "period_us": 10_000, "deadline_us": 8_000, "budget_us": 500 } })
}

#[test]
fn the_least_contract_names_a_class() {
    let contract = Contract::from_value(&json!({ "class": { "latency": "srt" } })).expect("sound");
    let Class::Srt(srt) = &contract.class else { panic!("{contract:?}") };
    assert_eq!((srt.ttft_ms, srt.priority), (250, 100));
    assert_eq!(Contract::of(Class::Srt(Srt::default())), contract);
    assert_eq!(problems(&json!({})), [("class".to_owned(), "missing")]);
}

#[test]
fn a_tool_has_a_name_that_the_schema_lets_a_contract_have() {
    let [long, longer] = [TOOL_NAME_MAX, TOOL_NAME_MAX + 1].map(|length| "x".repeat(length));
    for (name, is_one) in [
        ("read.text", true),
        ("A_b-9", true),
        ("__", true),
        (long.as_str(), true),
        (longer.as_str(), false),
        ("", false),
        ("a b", false),
        ("a/b", false),
        ("zw\u{f6}lf", false),
        ("a\n", false),
    ] {
        let contract = json!({ "class": { "latency": "srt" }, "capabilities": [format!("files/{name}")] });
        assert_eq!(is_tool_name(name), is_one, "{name:?}");
        assert_eq!(Contract::from_value(&contract).is_ok(), is_one, "{name:?}");
    }
}

#[test]
fn what_a_hard_class_lacks_is_named() {
    for field in ["period_us", "deadline_us", "budget_us"] {
        let mut contract = hrt();
        contract["class"].as_object_mut().expect("sound").shift_remove(field);
        assert_eq!(problems(&contract), [(format!("class.{field}"), "missing")]);
        let found = Contract::from_value(&contract).expect_err("wrong");
        assert!(found[0].fix.contains("icroseconds"), "{}", found[0]);
    }
}

#[test]
fn a_wrong_key_word_type_or_number_says_what_to_write() {
    let cases = [
        (json!({ "class": { "latency": "hard" } }), "class.latency", "unknown-word", "hrt, srt, dt"),
        (json!({ "class": { "latency": "srt", "priorty": 3 } }), "class.priorty", "unknown-key", "priority"),
        (json!({ "class": { "latency": "srt", "priority": 256 } }), "class.priority", "out-of-range", "0 to 255"),
        (json!({ "class": { "latency": "srt", "priority": "3" } }), "class.priority", "wrong-type", "a whole number"),
        (json!({ "class": { "latency": "srt", "period_us": 1000 } }), "class.period_us", "unknown-key", "Known"),
        (json!({ "class": { "latency": "dt" }, "colour": 1 }), "colour", "unknown-key", "Known"),
        (json!({ "class": { "latency": "dt" }, "version": 2 }), "version", "constant", "Write 1"),
        (json!({ "class": "dt" }), "class", "wrong-type", "a map"),
        (json!([]), "", "wrong-type", "a map"),
        (json!({ "class": { "latency": "dt", "cost": {} } }), "class.cost", "too-few", "cpu_ms"),
        (json!({ "class": { "latency": "srt", "cost": { "tokens": 1 } } }), "class.cost", "unknown-key", "Known"),
        (json!({ "class": { "latency": "dt", "cost": { "usd": 1 } } }), "class.cost.usd", "unknown-key", "spend"),
        (json!({ "class": { "latency": "dt" }, "data_label": "secret" }), "data_label", "unknown-word", "restricted"),
        (json!({ "class": { "latency": "dt" }, "observability": "all" }), "observability", "unknown-word", "content"),
        (json!({ "class": { "latency": "dt" }, "record": "all" }), "record", "unknown-word", "none, tape"),
    ];
    for (contract, field, rule, fix) in cases {
        let found = Contract::from_value(&contract).expect_err("wrong");
        let found = found.first().expect("sound");
        assert_eq!((found.field.as_str(), found.rule), (field, rule), "{contract}: {found}");
        assert!(found.fix.contains(fix), "{contract}: {found}");
    }
}

#[test]
fn consent_is_asked_for_what_is_allowed() {
    let with = |consent: &str| {
        json!({
            "class": { "latency": "srt" },
            "capabilities": ["files/read", "permits/*"],
            "security": { "consent_for": [consent] },
        })
    };
    for consent in ["files/read", "permits/*", "permits/issue"] {
        assert!(Contract::from_value(&with(consent)).is_ok(), "{consent}");
    }
    for consent in ["files/write", "files/*", "other/read"] {
        let field = "security.consent_for[0]".to_owned();
        assert_eq!(problems(&with(consent)), [(field, "consent-for-capability")], "{consent}");
    }
}

#[test]
fn times_fit_each_other() {
    let with = |field: &str, value: u64| {
        let mut contract = hrt();
        contract["class"][field] = json!(value);
        contract
    };
    assert_eq!(problems(&with("budget_us", 8_001)), [("class.budget_us".to_owned(), "budget-within-deadline")]);
    let mut over = with("deadline_us", 30_000);
    over["class"]["budget_us"] = json!(10_001);
    assert_eq!(problems(&over), [("class.budget_us".to_owned(), "budget-within-period")], "no core can keep that");
    assert_eq!(problems(&with("section_us", 501)), [("class.section_us".to_owned(), "section-within-budget")]);
    assert_eq!(problems(&with("jitter_us", 8_001)), [("class.jitter_us".to_owned(), "jitter-within-deadline")]);
    let mut large = hrt();
    large["compute"] = json!({ "memory_bytes": 17 * 1024 * 1024 });
    assert_eq!(problems(&large), [("compute.memory_bytes".to_owned(), "hrt-memory")]);
    large["class"] = json!({ "latency": "dt" });
    assert!(Contract::from_value(&large).is_ok());
}

#[test]
fn signals_have_names_and_one_direction() {
    let with = |inputs: Value, outputs: Value| {
        let mut contract = hrt();
        contract["signals"] = json!({ "inputs": inputs, "outputs": outputs });
        contract
    };
    assert!(Contract::from_value(&with(json!(["arm.angle"]), json!(["arm.torque"]))).is_ok());
    let rule = |contract: &Value| problems(contract)[0].1;
    assert_eq!(rule(&with(json!(["Arm"]), json!([]))), "name-form");
    assert_eq!(rule(&with(json!(["a", "a"]), json!([]))), "twice");
    assert_eq!(rule(&with(json!((0..33).map(|n| format!("s{n}")).collect::<Vec<_>>()), json!([]))), "too-many");
    assert_eq!(rule(&with(json!(["a"]), json!(["a"]))), "signal-both-ways");
}

#[test]
fn limits_are_of_outputs_and_leave_room_for_values() {
    let with = |limits: Value| {
        let mut contract = hrt();
        contract["signals"] = json!({ "inputs": ["arm.angle"], "outputs": ["arm.torque"], "limits": limits });
        contract
    };
    let torque = |limit: Value| with(json!({ "arm.torque": limit }));
    for sound in [json!({ "min": -5, "max": 5.5, "step": 0.25 }), json!({ "max": 0 }), json!({ "min": 1, "max": 1 })] {
        let contract = Contract::from_value(&torque(sound.clone())).expect("sound");
        let written = serde_json::to_value(&contract).expect("JSON");
        assert_eq!(written["signals"]["limits"]["arm.torque"], sound);
    }
    let found = |field: &str, rule| [(field.to_owned(), rule)];
    for (contract, field, rule) in [
        (with(json!({ "arm.angle": { "max": 1 } })), "signals.limits.arm.angle", "limit-of-an-output"),
        (torque(json!({ "min": 2, "max": 1 })), "signals.limits.arm.torque.min", "limit-range"),
        (torque(json!({ "step": 0 })), "signals.limits.arm.torque.step", "limit-step"),
        (torque(json!({ "max": 1, "step": -0.5 })), "signals.limits.arm.torque.step", "limit-step"),
        (torque(json!({})), "signals.limits.arm.torque", "too-few"),
        (torque(json!({ "max": "high" })), "signals.limits.arm.torque.max", "wrong-type"),
        (torque(json!({ "maximum": 1 })), "signals.limits.arm.torque.maximum", "unknown-key"),
    ] {
        assert_eq!(problems(&contract), found(field, rule), "{contract}");
    }
    let plain = Contract::from_value(&hrt()).expect("sound");
    assert!(serde_json::to_value(&plain).expect("JSON").pointer("/signals/limits").is_none());
}

#[test]
fn what_is_recorded_is_said_and_nothing_without_that() {
    let with = |record: Value| json!({ "class": { "latency": "srt" }, "record": record });
    let plain = Contract::from_value(&json!({ "class": { "latency": "srt" } })).expect("sound");
    let [none, tape] = ["none", "tape"].map(|word| Contract::from_value(&with(json!(word))).expect("sound"));
    assert_eq!((plain.record, tape.record), (TurnRecord::None, TurnRecord::Tape));
    assert_eq!(none, plain);
    assert_eq!(none.digest(), plain.digest(), "contracts from before mean what they meant");
    assert_ne!(tape.digest(), plain.digest());
    assert_eq!(problems(&with(json!(true)))[0].0, "record");
}

#[test]
fn the_digest_names_what_is_said_and_not_how() {
    let plain = Contract::from_value(&hrt()).expect("sound");
    let mut spelled = hrt();
    spelled["version"] = json!(1);
    spelled["class"]["on_overrun"] = json!("skip");
    spelled["compute"] = json!({});
    assert_eq!(plain.digest(), Contract::from_value(&spelled).expect("sound").digest());
    let mut other = hrt();
    other["class"]["on_overrun"] = json!("suspend");
    let other = Contract::from_value(&other).expect("sound");
    assert!(matches!(&other.class, Class::Hrt(hrt) if hrt.on_overrun == OnOverrun::Suspend));
    assert_ne!(plain.digest(), other.digest());
}

#[test]
fn the_better_grade_is_the_lesser() {
    assert!(Grade::A < Grade::B && Grade::B < Grade::C);
}

fn junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z_]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["hrt", "srt", "dt", "A", "skip"]).prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-z_]{0,12}",
        prop::sample::select(vec!["class", "latency", "period_us", "deadline_us", "budget_us", "compute", "placement"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever is written, it is refused with words or means something that means the same when written again.
    #[test]
    fn junk_is_refused_with_words(contract in junk()) {
        match Contract::from_value(&contract) {
            Ok(read) => {
                let again = Contract::from_value(&serde_json::to_value(&read).expect("sound")).expect("sound");
                prop_assert_eq!(read, again);
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                prop_assert!(problems.iter().all(|problem| problem.rule != "shape" && !problem.fix.is_empty()), "{problems:?}");
            }
        }
    }

    /// The schema and the types agree: what the schema accepts is read.
    #[test]
    fn what_the_schema_accepts_is_read(
        period in 1_000_u64..=86_400_000_000, deadline in 100_u64..=86_400_000_000, budget in 10_u64..=86_400_000_000,
        overrun in prop::sample::select(vec!["skip", "degrade", "suspend"]),
        arrival in prop::sample::select(vec!["periodic", "sporadic"]),
        grade in prop::sample::select(vec!["A", "B", "C"]),
    ) {
        let contract = json!({
            "class": { "latency": "hrt", "period_us": period, "deadline_us": deadline, "budget_us": budget,
                "on_overrun": overrun, "arrival": arrival },
            "placement": { "min_grade": grade },
        });
        match Contract::from_value(&contract) {
            Ok(read) => prop_assert_eq!(Contract::from_value(&serde_json::to_value(&read).expect("sound")).expect("sound"), read),
            Err(problems) => {
                let late = (budget > deadline).then_some("budget-within-deadline");
                let over = (budget > period).then_some("budget-within-period");
                let expected: Vec<&str> = late.into_iter().chain(over).collect();
                prop_assert!(!expected.is_empty());
                prop_assert_eq!(problems.iter().map(|problem| problem.rule).collect::<Vec<_>>(), expected);
            }
        }
    }
}

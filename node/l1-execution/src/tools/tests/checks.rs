//! What an agent is told of its calls by checks.

use althing_td::Effect;

use super::*;

/// The tools of an agent whose contract wants `files/read` asked after each call of `files/write`.
fn checking(effect: Effect) -> (Tools, Arc<Counting>) {
    let contract = json!({
        "class": { "latency": "srt" },
        "capabilities": ["files/*"],
        "verify": { "checks": [{ "by": "files/read", "after": "files/write" }] },
    });
    let contract = Contract::from_value(&contract).expect("a contract");
    assert!(!contract.verify.judges_answers(true), "its answers are not held back for that");
    let (tools, counting) = tools(&["files/*"]);
    let file = BTreeMap::from([("files/read".to_owned(), effect)]);
    (tools.with_effects(Effects { node: BTreeMap::new(), file }).with_checks(&contract.verify), counting)
}

fn texts(result: &Value) -> Vec<String> {
    let parts = result["content"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_check_is_asked_after_each_call_and_its_word_is_told_with_the_result() {
    let (tools, counting) = checking(Effect::None);
    let (result, record) = tools.invoke("files__write", r#"{"path":"a"}"#).await;
    let told = texts(&result.expect("a result"));
    let [own, said] = &told[..] else { panic!("{told:?}") };
    assert_eq!((own.as_str(), record.tool.as_str()), (r#"write {"path":"a"}"#, "files/write"));
    assert!(said.starts_with("The check files/read says of this call: read "), "{said}");
    assert!(
        said.contains(r#"{\"path\":\"a\"}"#) && said.contains("write"),
        "it is given the call and its result: {said}"
    );
    assert_eq!(counting.calls.load(Ordering::SeqCst), 2);
    // Not after other calls, and not after its own.
    assert_eq!(texts(&tools.invoke("files/read", "{}").await.0.expect("a result")).len(), 1);
    assert_eq!(counting.calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_check_that_could_change_something_is_not_asked() {
    let (tools, counting) = checking(Effect::Repeatable);
    let told = texts(&tools.invoke("files/write", "{}").await.0.expect("a result"));
    assert!(told[1].contains("nobody said that it changes nothing"), "{told:?}");
    assert_eq!(counting.calls.load(Ordering::SeqCst), 1);
}

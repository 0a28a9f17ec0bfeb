//! What an agent is told of its calls by checks.

use std::io::Write;

use althing_protocol::contract::Observability;
use althing_td::Effect;

use super::*;

/// The lines of a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no holder panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The tools of an agent whose contract wants `files/read` asked after each call of `files/write`.
fn checking(effect: Effect) -> (Tools, Arc<Counting>) {
    checked_by("files/read", effect)
}

fn checked_by(by: &str, effect: Effect) -> (Tools, Arc<Counting>) {
    let contract = json!({
        "class": { "latency": "srt" },
        "capabilities": ["files/*"],
        "verify": { "checks": [{ "by": by, "after": "files/write" }] },
    });
    let contract = Contract::from_value(&contract).expect("a contract");
    assert!(!contract.verify.judges_answers(true), "its answers are not held back for that");
    let (tools, counting) = tools(&["files/*"]);
    let file = BTreeMap::from([(by.to_owned(), effect)]);
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

#[tokio::test]
async fn what_a_check_calls_is_no_call_of_the_agent_and_its_word_is_traced() {
    let (tools, _) = checking(Effect::None);
    let turn = CallContext { observability: Observability::Calls, ..CallContext::default() };
    let run = turn.run.clone();
    context::CALL_CONTEXT
        .scope(turn, async {
            tools.invoke("files/write", "{}").await.0.expect("a result");
            tools.invoke("files/read", "{}").await.0.expect("a result");
        })
        .await;
    let calls = run.facts().calls;
    let made: Vec<(&str, bool)> = calls.iter().map(|call| (call.tool.as_str(), call.is_check)).collect();
    assert_eq!(made, [("files/write", false), ("files/read", true), ("files/read", false)]);

    // A check that cannot be asked refuses.
    let (tools, _) = checked_by("files/none", Effect::None);
    for (observability, words) in [(Observability::None, 0), (Observability::Calls, 1), (Observability::Content, 1)] {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let turn = CallContext { observability, ..CallContext::default() };
        let calls = tools.invoke("files/write", "{}");
        context::CALL_CONTEXT.scope(turn, calls).await.0.expect("a result");
        drop(guard);
        let lines = String::from_utf8(log.0.lock().expect("no holder panics").clone()).expect("text");
        let told: Vec<&str> = lines.lines().filter(|line| line.contains("gen_ai.evaluation.name")).collect();
        assert_eq!(told.len(), words, "{observability:?}: {lines}");
        for line in told {
            assert!(line.contains("\"files/none\"") && line.contains("\"fail\""), "{line}");
            assert_eq!(line.contains("explanation"), observability == Observability::Content, "{line}");
        }
    }
}

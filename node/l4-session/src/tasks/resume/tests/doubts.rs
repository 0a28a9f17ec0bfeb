//! Whatever ends a turn, its task says which of its final calls have no result.

use super::*;

/// Makes a call that never answers.
struct CallerAgent;

impl Agent for CallerAgent {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let journal =
                turn.parameters.rights.journal.clone().ok_or_else(|| AgentError::Failed("none".to_owned()))?;
            let (arguments, effect) = (json!({}), Effect::Final);
            let (kind, name) = (CallKind::Tool, "bank/pay");
            let step = Step { kind, name, arguments: &arguments, effect, callee: None, gate: None, meanwhile: None };
            // The output too: where it is closed nothing but the end of the turn is waited for.
            let _held = (journal.step(step).await?, out);
            std::future::pending().await
        })
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

pub(super) fn caller(_: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(CallerAgent))
}

/// Sends a message whose turn may take a second; gives the task.
async fn send_within_a_second(node: &Node) -> String {
    let metadata = json!({ "https://althing.dev/ext/latency/v1": { "withinMs": 1_000 } });
    let parts = json!([{ "text": "go" }]);
    let message = json!({ "messageId": "m-1", "role": "ROLE_USER", "parts": parts, "metadata": metadata });
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let request = OperationRequest::parse(Operation::SendMessage, params.to_string().into_bytes());
    let Params::Send(request) = request.expect("a message").params else { panic!("it is a message") };
    let call = CallMetadata { principals: vec![Principal::Local], ..CallMetadata::default() };
    let answer = node.tasks.send(&node.agent, scope(), *request, &call, None).await.expect("it is accepted");
    let Reply::One(answer) = answer else { panic!("one answer") };
    json(&answer)["task"]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_stopped_during_a_final_call_says_which_one() {
    for is_late in [false, true] {
        let mut node = Node::start(&disk(), world(), "1.0.0", UNENDING).await;
        let file = json!({
            "name": "caller",
            "version": "1.0.0",
            "description": "Calls",
            "runtime": { "native": { "builtin": "caller", "config": {} } },
            "contract": { "class": { "latency": "srt" } },
        });
        let file = AgentFile::parse(&file.to_string()).expect("an agent file");
        node.tasks.runner.host().start(&file, Path::new("/")).expect("it starts");
        let agent = AgentRef::new(owner(), "caller", "1.0.0").expect("a name");
        node.agent = HostedAgent { agent, ..hosted("1.0.0") };
        let id = send_within_a_second(&node).await;
        node.settle().await;
        if is_late {
            tokio::time::sleep(Duration::from_secs(2)).await;
        } else {
            node.tasks.cancel_agent(&node.agent.agent);
        }
        node.settle().await;
        assert_eq!(node.state(&id), if is_late { "TASK_STATE_FAILED" } else { "TASK_STATE_CANCELED" });
        let said = node.said(&id);
        assert!(said.contains("step 0 called") && said.contains("bank/pay"), "{said}");
        assert_eq!(said.contains("1000 ms"), is_late, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_cancelled_says_which_call_of_it_was_in_doubt() {
    // Before its agent is here, and while it waits for what somebody says.
    for is_added in [false, true] {
        let (disk, world, id) = in_doubt().await;
        let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
        if is_added {
            node.add();
            node.settle().await;
        }
        let before = calls(world);
        let request = serde_json::from_value(json!({ "id": id })).expect("a request");
        let cancelled = node.tasks.cancel(&node.agent, scope(), &request, &CallMetadata::default()).await;
        assert!(cancelled.is_ok());
        node.settle().await;
        assert_eq!(node.state(&id), "TASK_STATE_CANCELED");
        let said = node.said(&id);
        assert_eq!(said.matches("count/add").count(), 1, "{is_added}: {said}");
        assert!(said.contains("Nobody knows whether this call took place"), "{is_added}: {said}");
        assert_eq!(calls(world), before, "it is not made again");
        assert!(node.sessions().list().is_empty());
    }
}

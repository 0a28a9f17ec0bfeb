//! A message interrupts a turn of which something was seen already.

use super::*;

/// Says a part of its answer, and no more; what it is asked then it answers.
struct Talker;

impl Agent for Talker {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            if turn.history.is_empty() {
                out.chunk("begun", "the total is", false, false).await?;
                return std::future::pending().await;
            }
            out.chunk("whole", "7", false, true).await
        })
    }
}

/// A node whose agent has that under `verify` in its contract, and lets messages interrupt it.
async fn node(verify: &Value) -> Node {
    let mut builtins = Builtins::new();
    builtins.insert("talker", |_, _, _| Ok(Arc::new(Talker)));
    let ports = Ports { owner: owner(), ..Ports::none() };
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    let file = json!({
        "name": "worker",
        "version": "1.0.0",
        "description": "Talks",
        "runtime": { "native": { "builtin": "talker" } },
        "contract": { "class": { "latency": "srt" }, "verify": verify },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    let mut node = Node::over(&disk(), host, "1.0.0", UNENDING).await;
    node.agent.barge_in = true;
    node
}

/// Sends a message to a task, and waits until it is answered.
async fn say(node: &Node, task: &str) {
    let message = json!({ "messageId": "m-2", "taskId": task, "role": "ROLE_USER", "parts": [{ "text": "well?" }] });
    let params = json!({ "message": message }).to_string().into_bytes();
    let request = OperationRequest::parse(Operation::SendMessage, params);
    let Params::Send(request) = request.expect("a message").params else { panic!("it is a message") };
    let call = CallMetadata { principals: vec![Principal::Local], ..CallMetadata::default() };
    node.tasks.send(&node.agent, scope(), *request, &call, None).await.expect("it is answered");
}

/// The ids of the artifacts of a task.
fn artifacts(node: &Node, task: &str) -> Vec<String> {
    let task = node.task(task);
    let all = task["artifacts"].as_array().into_iter().flatten();
    all.map(|artifact| artifact["artifactId"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_seen_of_an_answer_that_is_interrupted_before_it_is_judged_is_in_no_task() {
    let number = json!({ "output": { "type": "integer" } });
    for (verify, left) in [
        (json!({ "schema": number, "deliver": "early" }), vec!["whole"]),
        (json!({ "deliver": "early" }), vec!["begun", "whole"]),
        (json!({}), vec!["begun", "whole"]),
    ] {
        let node = node(&verify).await;
        let id = node.send().await.expect("it is accepted");
        node.settle().await;
        assert_eq!(artifacts(&node, &id), ["begun"], "{verify}: it is seen");
        say(&node, &id).await;
        assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{verify}");
        assert_eq!(artifacts(&node, &id), left, "{verify}");
    }
}

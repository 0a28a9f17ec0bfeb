use axum::body::HttpBody as _;
use prost::Message as _;
use prost_reflect::DescriptorPool;
use serde_json::{Value, json};
use tonic::codegen::Service as _;

use super::*;

/// Answers what it is told to, and keeps what it was asked.
struct Told {
    asked: std::sync::Mutex<Vec<(String, Value)>>,
    events: Vec<Result<Value, OperationError>>,
}

impl Answers for Told {
    fn request_bytes_max(&self) -> usize {
        2_048
    }

    fn ask(
        &self,
        _: &HeaderMap,
        _: Identity,
        agent: String,
        operation: Result<Operation, OperationError>,
        params: Vec<u8>,
    ) -> BoxFuture<'static, Result<Reply, OperationError>> {
        let params = serde_json::from_slice(&params).expect("JSON");
        self.asked.lock().expect("no panic").push((agent, params));
        let mut events = self.events.iter().map(|event| event.clone().map(|event| event.to_string().into_bytes()));
        let reply = match operation {
            Err(error) => Err(error),
            Ok(operation) if operation.streams() => {
                Ok(Reply::Events(futures::stream::iter(events.collect::<Vec<_>>()).boxed()))
            }
            Ok(_) => events.next().expect("an answer").map(Reply::One),
        };
        futures::future::ready(reply).boxed()
    }
}

/// The headers of an answer with its trailers, and its messages.
struct Heard {
    headers: HeaderMap,
    messages: Vec<DynamicMessage>,
}

fn told(events: Vec<Result<Value, OperationError>>) -> Arc<Told> {
    Arc::new(Told { asked: std::sync::Mutex::default(), events })
}

async fn hear(answers: &Arc<Told>, name: &str, body: Vec<u8>) -> Heard {
    let request = Request::post(format!("/lf.a2a.v1.A2AService/{name}"));
    let request = request.header("content-type", "application/grpc").body(Body::from(body)).expect("a request");
    let mut routes: Router = routes(answers.clone());
    let answer = routes.call(request).await.expect("an answer");
    let mut headers = answer.headers().clone();
    let (mut body, mut bytes) = (answer.into_body(), Vec::new());
    while let Some(frame) = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await {
        match frame.expect("a frame").into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(trailers) => headers.extend(trailers.into_trailers().expect("data or trailers")),
        }
    }
    let output = messages::method(name).map(|method| method.output());
    let (mut messages, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((prefix, more)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        let output = output.clone().expect("a method");
        messages.push(DynamicMessage::decode(output, &more[..length]).expect("a message"));
        rest = &more[length..];
    }
    // It would be metadata, for gRPC's client.
    assert!(!headers.contains_key("content-length"), "{headers:?}");
    Heard { headers, messages }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// A request of a method from its JSON.
fn request(name: &str, json: &Value) -> Vec<u8> {
    let input = messages::method(name).expect("a method").input();
    framed(&messages::from_json(input, json.to_string().as_bytes()).expect("a request").encode_to_vec())
}

/// What `grpc-status-details-bin` says.
fn details(heard: &Heard) -> Value {
    let metadata = tonic::metadata::MetadataMap::from_headers(heard.headers.clone());
    let bytes = metadata.get_bin("grpc-status-details-bin").expect("details").to_bytes().expect("base64");
    let status = messages::message("google.rpc.Status").expect("it is known");
    let status = DynamicMessage::decode(status, bytes).expect("a status");
    serde_json::to_value(&status).expect("JSON")
}

#[tokio::test]
async fn a_request_becomes_json_and_an_answer_protobuf() {
    let said = json!({
        "messageId": "m", "role": "ROLE_USER", "contextId": "c",
        "parts": [{ "text": "" }, { "raw": "AAEC" }, { "data": { "n": 1, "f": 1.5, "big": -9_007_199_254_740_991_i64, "deep": [null, true] } }],
        "metadata": { "trip": 7 },
    });
    let sent =
        json!({ "tenant": "a", "message": said, "configuration": { "historyLength": 0, "returnImmediately": true } });
    let task = json!({
        "id": "t", "contextId": "c", "metadata": { "x": 1 }, "unknown": { "left": "out" },
        "status": { "state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-23T20:00:00.123Z" },
        "artifacts": [{ "artifactId": "i", "parts": [{ "data": [1, "x"] }] }],
    });
    let answers = told(vec![Ok(json!({ "task": task }))]);
    let heard = hear(&answers, "SendMessage", request("SendMessage", &sent)).await;
    assert_eq!(heard.headers["grpc-status"], "0", "{:?}", heard.headers);
    let mut params = sent.clone();
    params.as_object_mut().expect("an object").remove("tenant");
    assert_eq!(*answers.asked.lock().expect("no panic"), [("a".to_owned(), params)]);
    let [answer] = &heard.messages[..] else { panic!("one message") };
    let mut back = serde_json::to_value(answer).expect("JSON");
    messages::whole_numbers(&mut back);
    let mut expected = json!({ "task": task });
    expected["task"].as_object_mut().expect("an object").remove("unknown");
    assert_eq!(back, expected);
}

#[tokio::test]
async fn a_stream_ends_with_the_status_of_its_error() {
    let events = vec![
        Ok(json!({ "task": { "id": "t", "status": { "state": "TASK_STATE_WORKING" } } })),
        Ok(json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } } })),
        Err(OperationError::agent_unreachable("its node is gone")),
    ];
    let heard =
        hear(&told(events), "SubscribeToTask", request("SubscribeToTask", &json!({ "tenant": "a", "id": "t" }))).await;
    assert_eq!(heard.messages.len(), 2);
    assert_eq!(
        (&heard.headers["grpc-status"], &heard.headers["grpc-message"]),
        (&"14".parse().expect("a header"), &"its%20node%20is%20gone".parse().expect("a header"))
    );
    let info = json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "AGENT_UNREACHABLE", "domain": "althing.dev" });
    assert_eq!(details(&heard), json!({ "code": 14, "message": "its node is gone", "details": [info] }));
}

#[tokio::test]
async fn an_agents_details_are_kept_as_far_as_they_are_known() {
    let violation = json!({ "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{ "field": "parts", "description": "no" }] });
    let other = json!({ "@type": "type.googleapis.com/example.Other", "x": 1 });
    let error = OperationError::of_agent(-32_602, "no", vec![violation.clone(), other]);
    let task = request("GetTask", &json!({ "tenant": "a", "id": "t" }));
    let heard = hear(&told(vec![Err(error)]), "GetTask", task.clone()).await;
    assert_eq!(heard.headers["grpc-status"], "3");
    let told_details = details(&heard)["details"].as_array().cloned().expect("a list");
    assert_eq!(
        (told_details.len(), &told_details[0]["reason"], &told_details[1]),
        (2, &json!("INVALID_PARAMS"), &violation)
    );
    // What is long is cut, so that clients take the metadata.
    let long = OperationError::of_agent(
        -32_602,
        "ä".repeat(2_000),
        vec![json!({ "@type": violation["@type"], "fieldViolations": [{ "field": "x".repeat(3_900) }] })],
    );
    let heard = hear(&told(vec![Err(long)]), "GetTask", task).await;
    let size: usize = heard.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
    assert!(size < 8_192, "{size} bytes of metadata");
    assert_eq!(details(&heard)["details"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_is_no_request_is_refused_by_type() {
    let deep = {
        // google.protobuf.Value in Value: a list of one list of one list …
        let mut value: Vec<u8> = Vec::new();
        for _ in 0..150 {
            let list = [&[0x0a][..], &varint(value.len()), &value].concat();
            value = [&[0x32][..], &varint(list.len()), &list].concat();
        }
        let part = [&[0x22][..], &varint(value.len()), &value].concat();
        let message = [&[0x2a][..], &varint(part.len()), &part].concat();
        [&[0x0a, 1, b'a', 0x12][..], &varint(message.len()), &message].concat()
    };
    let cases = [
        ("no protobuf", framed(&[0xff; 9]), "3"),
        ("a text that is not UTF-8", framed(&[0x0a, 2, 0xff, 0xfe]), "3"),
        ("deeper than any message", framed(&deep), "3"),
        ("a length beyond the body", vec![0, 0, 0, 0, 9, 0x0a], "13"),
        ("longer than the limit", framed(&[0; 3_000]), "3"),
        ("compressed", vec![1, 0, 0, 0, 0], "13"),
        ("no tenant", framed(&[]), "5"),
    ];
    for (name, body, status) in cases {
        let answers = told(vec![Ok(json!({}))]);
        let heard = hear(&answers, "SendMessage", body).await;
        assert_eq!(heard.headers["grpc-status"], status, "{name}: {:?}", heard.headers);
        assert!(answers.asked.lock().expect("no panic").is_empty(), "{name}");
    }
    let heard = hear(&told(Vec::new()), "Other", framed(&[])).await;
    assert_eq!(heard.headers["grpc-status"], "12");
    let nonsense = told(vec![Ok(json!({ "task": "no object" }))]);
    let heard = hear(&nonsense, "SendMessage", request("SendMessage", &json!({ "tenant": "a" }))).await;
    assert_eq!(heard.headers["grpc-status"], "13");
    assert_eq!(details(&heard)["details"][0]["reason"], "INVALID_AGENT_RESPONSE");
}

#[tokio::test]
async fn other_content_types_are_refused_before_the_body_is_read() {
    for kind in ["", "text/plain", "application/json", "application/grpc-web", "application/grpc+json"] {
        let answers = told(Vec::new());
        let request = Request::post("/lf.a2a.v1.A2AService/SendMessage").header("content-type", kind);
        let mut routes: Router = routes(answers.clone());
        let answer = routes.call(request.body(Body::from(framed(&[]))).expect("a request")).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
        assert!(answers.asked.lock().expect("no panic").is_empty(), "{kind}");
    }
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// Files of the set that lie in `proto`; what they import besides, `protoc` has in its own version.
const FILES: [&str; 3] = ["a2a.proto", "status.proto", "google/api/field_behavior.proto"];

/// `ALTHING_BLESS=1` writes them anew after a change of the files in `proto`.
#[test]
fn the_descriptors_are_those_of_the_files_beside_them() {
    let proto = std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    let proto = proto.join("proto");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = folder.path().join("descriptors.bin");
    let mut protoc = std::process::Command::new("protoc");
    protoc.arg("--include_imports").arg("--descriptor_set_out").arg(&made).arg("--proto_path").arg(&proto);
    let output = match protoc.args(&FILES[..2]).output() {
        Ok(output) => output,
        Err(error) => return althing_testing::skip(&format!("no protoc: {error}"), althing_testing::remedy::PROTOC),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if std::env::var_os("ALTHING_BLESS").is_some() {
        std::fs::copy(&made, proto.join("descriptors.bin")).expect("a written file");
    }
    let compiled = DescriptorPool::decode(&*std::fs::read(&made).expect("protoc wrote it")).expect("descriptors");
    for name in FILES {
        let of = |pool: &DescriptorPool| pool.get_file_by_name(name).map(|file| file.file_descriptor_proto().clone());
        let (kept, new) = (of(&messages::DESCRIPTORS), of(&compiled));
        assert!(new.is_some() && kept == new, "{name} changed: ALTHING_BLESS=1 make one CRATE=althing-grpc");
    }
}

//! Bad bodies and parameters.

use std::collections::BTreeSet;

use althing_api::{
    AcceptRequest, AddRegistry, AddRequest, AddToken, AdoptRequest, AmendGroup, AnswerRequest, AppRequest,
    ApproveRequest, AttestRequest, CallRequest, ComparisonRequest, CreateGroup, DoctorRequest, EraseRequest, FindQuery,
    GroupRequest, HandoffRequest, InstallRequest, JoinGroup, MakeNetworkKey, MarkRequest, MeasureRequest,
    MemberRequest, MemoryRequest, OpenGateway, OrganiseRequest, PeopleText, PolicyQuestion, PolicyTest, PolicyText,
    Problem, ProveRequest, PruneRequest, PublishRequest, PurgeRequest, RejectRequest, ReplayRequest, ReserveRequest,
    RestartRequest, ResumeRequest, RevokeRequest, RolloutOrder, RolloutRequest, RotateRequest, RouteChannel,
    RouteEvaluation, RouteFile, RouteRequest, ScheduleRequest, ServeGroup, StopRequest, SubmitTask, TaskRequest,
    TestRequest, TrustRequest, UpdateRequest, UpdateRuleRequest, WithdrawRequest, WorkflowRequest,
};
use axum::http::Request;

use super::*;
use crate::{OverheadRequest, all_routes};

/// How a body is read, and what is wrong with it.
type Reader = fn(&[u8]) -> Result<(), ApiError>;

fn read_as<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), ApiError> {
    parse::<T>(bytes).map(drop)
}

/// Each POST: its path, how its body is read, and a body with a member of a wrong type.
const POSTS: &[(&str, Reader, &str)] = &[
    ("/adding", read_as::<AddRequest>, r#"{"folder":7}"#),
    ("/adopt", read_as::<AdoptRequest>, r#"{"dry_run":"no"}"#),
    ("/audit/erase", read_as::<EraseRequest>, r#"{"subject":7}"#),
    ("/audit/prune", read_as::<PruneRequest>, r#"{"beforeMs":"today"}"#),
    ("/pending/{ask}", read_as::<AnswerRequest>, r#"{"approved":"yes"}"#),
    ("/people", read_as::<PeopleText>, r#"{"text":7}"#),
    ("/policy", read_as::<PolicyText>, r#"{"text":7}"#),
    ("/policy/diff", read_as::<PolicyText>, r#"{"text":["a"]}"#),
    ("/policy/explain", read_as::<PolicyQuestion>, r#"{"principal":7}"#),
    ("/policy/lint", read_as::<PolicyText>, r#"{"text":{}}"#),
    ("/policy/test", read_as::<PolicyTest>, r#"{"policy":7}"#),
    ("/stop", read_as::<StopRequest>, r#"{"revoke":"yes"}"#),
    ("/adopt/accept", read_as::<AcceptRequest>, r#"{"name":[]}"#),
    ("/agents", read_as::<AddRequest>, r#"{"sources":"a.yaml"}"#),
    ("/answer", read_as::<CallRequest>, r#"{"agent":"echo","task":7}"#),
    ("/apps", read_as::<AppRequest>, r#"{"remove":{"group":1,"app":"a"}}"#),
    ("/bind", read_as::<AddRequest>, r#"{"file":7}"#),
    ("/blueprints", read_as::<MeasureRequest>, r#"{"tokens":-1}"#),
    ("/call", read_as::<CallRequest>, r#"{"agent":"echo","text":{}}"#),
    ("/cancel", read_as::<CallRequest>, r#"{"anyone":1}"#),
    ("/comparisons", read_as::<ComparisonRequest>, r#"{"before":"a","margin":"small"}"#),
    ("/doctor", read_as::<DoctorRequest>, r#"{"agent":false}"#),
    ("/doctor/overhead", read_as::<OverheadRequest>, "[]"),
    ("/gateway/open", read_as::<OpenGateway>, "[]"),
    ("/groups", read_as::<CreateGroup>, r#"{"name":"a","votersMax":300}"#),
    ("/groups/{group}", read_as::<GroupRequest>, r#"{"leave":{"forget":"yes"}}"#),
    ("/groups/{group}/schedules", read_as::<ScheduleRequest>, r#"{"remove":{"name":null}}"#),
    ("/groups/{group}/serve", read_as::<ServeGroup>, r#"{"end":true}"#),
    ("/groups/{group}/tasks", read_as::<TaskRequest>, r#"{"submit":{"attempts":"three"}}"#),
    ("/groups/{group}/workflows", read_as::<WorkflowRequest>, r#"{"run":{"file":[],"input":""}}"#),
    ("/install", read_as::<InstallRequest>, r#"{"reference":{}}"#),
    ("/installed/{name}/update", read_as::<UpdateRuleRequest>, r#"{"update":"never"}"#),
    ("/join", read_as::<JoinGroup>, r#"{"ticket":0}"#),
    ("/keys/revoke", read_as::<RevokeRequest>, r#"{"owner":[]}"#),
    ("/keys/rotate", read_as::<RotateRequest>, r#"{"overlapMinutes":-1}"#),
    ("/keys/withdraw", read_as::<WithdrawRequest>, r#"{"node":7}"#),
    ("/memory/{namespace}", read_as::<MemoryRequest>, r#"{"add":"a text"}"#),
    ("/network-key", read_as::<MakeNetworkKey>, "[]"),
    ("/org", read_as::<OrganiseRequest>, r#"{"approvals":"two"}"#),
    ("/org/members", read_as::<MemberRequest>, r#"{"publisher":"a","roles":"read"}"#),
    ("/org/prove", read_as::<ProveRequest>, r#"{"registry":1}"#),
    ("/publish", read_as::<PublishRequest>, r#"{"file":1}"#),
    ("/registries", read_as::<AddRegistry>, r#"{"url":"a","key":"b","wanted":1.5}"#),
    ("/releases/approve", read_as::<ApproveRequest>, r#"{"what":1}"#),
    ("/releases/attest", read_as::<AttestRequest>, r#"{"days":"7"}"#),
    ("/releases/mark", read_as::<MarkRequest>, r#"{"standing":true}"#),
    ("/releases/purge", read_as::<PurgeRequest>, r#"{"version":2}"#),
    ("/releases/reject", read_as::<RejectRequest>, r#"{"id":2}"#),
    ("/replay", read_as::<ReplayRequest>, r#"{"task":7}"#),
    ("/reserve", read_as::<ReserveRequest>, r#"{"lease_s":"an hour"}"#),
    ("/rollouts/{agent}", read_as::<RolloutRequest>, r#"{"steps":"5"}"#),
    ("/rollouts/{agent}/changes", read_as::<AddRequest>, r#"{"file":7}"#),
    ("/rollouts/{agent}/end", read_as::<RolloutOrder>, r#"{"keep":"both"}"#),
    ("/route", read_as::<RouteRequest>, r#"{"text":"a","mode":"psychic"}"#),
    ("/route/channel", read_as::<RouteChannel>, r#"{"capabilities":{}}"#),
    ("/route/eval", read_as::<RouteEvaluation>, r#"{"text":false}"#),
    ("/route/learn", read_as::<RouteFile>, r#"{"text":["a"]}"#),
    ("/sessions/{task}", read_as::<ResumeRequest>, r#"{"step":"one","outcome":"again"}"#),
    ("/sessions/{task}/restart", read_as::<RestartRequest>, r#"{"from":"the second"}"#),
    ("/tasks/{task}/handoff", read_as::<HandoffRequest>, r#"{"agent":7}"#),
    ("/run", read_as::<AddRequest>, r#"{"agreed":7}"#),
    ("/tests", read_as::<TestRequest>, r#"{"agent":"a","cases":7}"#),
    ("/tokens", read_as::<AddToken>, r#"{"name":"a","scopes":["everything"]}"#),
    ("/trust", read_as::<TrustRequest>, r#"{"id":"a","trusted":"yes"}"#),
    ("/update", read_as::<UpdateRequest>, r#"{"young":"yes"}"#),
];

/// The message of a refusal, which names no type of the program.
#[track_caller]
fn refused(read: Reader, body: &str) -> String {
    let Problem { kind, message, .. } = read(body.as_bytes()).expect_err(body).into();
    assert_eq!(kind, Kind::Invalid, "{body}: {message}");
    for word in ["struct", "enum", "variant", "Request", "u8", "expected"] {
        assert!(!message.contains(word), "{body}: {message}");
    }
    message
}

#[test]
fn every_post_refuses_what_it_does_not_know_and_what_has_a_wrong_type() {
    let routes = all_routes().table;
    let served: BTreeSet<&str> = routes.iter().filter(|route| route.method == "POST").map(|route| route.path).collect();
    let tried: BTreeSet<&str> = POSTS.iter().map(|(path, ..)| *path).collect();
    assert_eq!(served, tried);
    for (path, read, wrong) in POSTS {
        let unknown = refused(*read, r#"{"nobodyKnowsThis":1}"#);
        assert!(unknown.contains("`nobodyKnowsThis`"), "{path}: {unknown}");
        refused(*read, wrong);
        for other in ["", "7", "null", "true", "[]", r#"["a",true]"#, "{", r#"{} {}"#, r#"{"nobodyKnowsThis":"#] {
            refused(*read, other);
        }
    }
}

#[test]
fn a_member_within_an_operation_that_nobody_knows_is_refused_too() {
    let within: [(Reader, &str); 8] = [
        (read_as::<GroupRequest>, r#"{"leave":{"forget":true,"x":1}}"#),
        (read_as::<GroupRequest>, r#"{"amend":{"x":1}}"#),
        (read_as::<TaskRequest>, r#"{"submit":{"x":1}}"#),
        (read_as::<TaskRequest>, r#"{"cancel":{"task":"a","x":1}}"#),
        (read_as::<WorkflowRequest>, r#"{"resume":{"run":"a","x":1}}"#),
        (read_as::<AppRequest>, r#"{"remove":{"group":"a","app":"b","x":1}}"#),
        (read_as::<MemoryRequest>, r#"{"forget":{"what":"a","x":1}}"#),
        (read_as::<ScheduleRequest>, r#"{"remove":{"name":"a","x":1}}"#),
    ];
    for (read, body) in within {
        assert!(refused(read, body).contains("`x`"), "{body}");
    }
    assert!(read_as::<GroupRequest>(br#""dissolve""#).is_ok(), "an operation that needs nothing is its name");
    assert!(read_as::<AmendGroup>(b"{}").is_ok());
    assert!(refused(read_as::<SubmitTask>, "{}").contains(" is missing"));
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let said = refused(read_as::<CreateGroup>, r#"{"name":"a","votersMax":300}"#);
    assert!(
        said.contains("at `votersMax`: it is the number `300`, and should be a whole number of 0 to 255"),
        "{said}"
    );
    let said = refused(read_as::<TrustRequest>, r#"{"id":"a","trusted":"yes"}"#);
    assert!(said.contains(r#"at `trusted`: it is the text "yes", and should be a boolean"#), "{said}");
    let said = refused(read_as::<TrustRequest>, r#"{"id":"a"}"#);
    assert!(said.ends_with("`trusted` is missing"), "{said}");
    let said = refused(read_as::<TrustRequest>, "{\n  \"id\": a }");
    assert!(said.contains("no JSON") && said.contains("line 2"), "{said}");
}

fn post(kind: &str, body: impl Into<body::Body>) -> axum::extract::Request {
    Request::post("/trust").header(CONTENT_TYPE, kind).body(body.into()).expect("a request")
}

async fn status(request: axum::extract::Request) -> (u16, String) {
    let answer = match Body::<TrustRequest>::from_request(request, &()).await {
        Ok(Body(read)) => return (200, read.id),
        Err(error) => error.into_response(),
    };
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
    let bytes = body::to_bytes(answer.into_body(), 4_096).await.expect("a short answer");
    (status, serde_json::from_slice::<Problem>(&bytes).expect("a problem").message)
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit_whether_its_length_is_announced_or_not() {
    let padded = |bytes: usize| {
        let said = r#"{"id":"a","trusted":true}"#;
        said.to_owned() + &" ".repeat(bytes - said.len())
    };
    let chunked = |text: String| {
        let parts: Vec<Result<Vec<u8>, std::io::Error>> =
            text.into_bytes().chunks(10_000).map(|part| Ok(part.to_vec())).collect();
        body::Body::from_stream(futures::stream::iter(parts))
    };
    let json = "application/json; charset=utf-8";
    assert_eq!(status(post(json, padded(BODY_BYTES_MAX))).await, (200, "a".to_owned()));
    assert_eq!(status(post(json, chunked(padded(BODY_BYTES_MAX)))).await, (200, "a".to_owned()));
    for body in [body::Body::from(padded(BODY_BYTES_MAX + 1)), chunked(padded(BODY_BYTES_MAX + 1))] {
        let (status, message) = status(post(json, body)).await;
        assert!(status == Kind::TooLarge.status() && message.contains("2 MiB"), "{status} {message}");
    }
    let mut with_files = post(json, padded(BODY_BYTES_MAX + 1));
    with_files.extensions_mut().insert(BodyLimit(BODY_BYTES_MAX + 1));
    assert_eq!(status(with_files).await, (200, "a".to_owned()), "the table says how much is read");
    let (status, message) = status(post("text/plain", padded(100))).await;
    assert!(status == Kind::Invalid.status() && message.contains("application/json"), "{status} {message}");
}

async fn found(query: &str) -> Result<FindQuery, String> {
    let request = Request::get(format!("/find{query}")).body(()).expect("a request");
    let (mut parts, ()) = request.into_parts();
    let read = Parameters::<FindQuery>::from_request_parts(&mut parts, &()).await;
    read.map(|Parameters(query)| query).map_err(|error| Problem::from(error).message)
}

#[tokio::test]
async fn parameters_are_as_strict_as_bodies() {
    let query = found("?capability=a.b%40%5E1&max_load=0.5&limit=3").await.expect("all of it is known");
    assert_eq!((query.capability.as_deref(), query.max_load, query.limit), (Some("a.b@^1"), Some(0.5), Some(3)));
    assert!(found("").await.is_ok());
    for (query, said) in [
        ("?verbose=1", "`verbose`"),
        ("?limit=many", "a whole number"),
        ("?limit=-1", "a whole number"),
        ("?max_load=low", "a number"),
        ("?signed_in=1", "`true` or `false`"),
        ("?limit=1&limit=2", "twice"),
    ] {
        let message = found(query).await.expect_err(query);
        assert!(message.contains(said) && !message.contains("deserialize"), "{query}: {message}");
    }
}

#[tokio::test]
async fn what_no_handler_has_is_refused_in_json_too() {
    let uri = || Uri::from_static("/nowhere");
    for (status, kind) in [
        (StatusCode::NOT_FOUND, Kind::NotFound),
        (StatusCode::METHOD_NOT_ALLOWED, Kind::Invalid),
        (StatusCode::BAD_REQUEST, Kind::Invalid),
    ] {
        let answer = as_problem(Method::PUT, uri(), (status, "of axum").into_response()).await;
        let expected = if status == StatusCode::BAD_REQUEST { Kind::Invalid.status() } else { status.as_u16() };
        assert_eq!(answer.status().as_u16(), expected);
        let bytes = body::to_bytes(answer.into_body(), 4_096).await.expect("a short answer");
        let problem: Problem = serde_json::from_slice(&bytes).expect("a problem");
        assert!(problem.kind == kind && problem.message.contains("/nowhere"), "{problem:?}");
    }
    let own = as_problem(Method::GET, uri(), ApiError::failed("no").into_response()).await;
    let bytes = body::to_bytes(own.into_body(), 4_096).await.expect("a short answer");
    assert!(String::from_utf8_lossy(&bytes).contains(r#""message":"no""#), "what a handler says stays");
}

#[tokio::test]
async fn what_breaks_off_is_an_answer_too() {
    let broken = detached::<()>(async { panic!("on purpose") }).await.expect_err("it ended early");
    assert_eq!(Problem::from(broken).kind, Kind::Failed);
    assert_eq!(detached(async { Ok(7) }).await, Ok(7));
}

/// Handlers that change nothing here, or for which somebody must be there who listens: by their file and name.
const ATTENDED: &[(&str, &str)] = &[
    // Each binds or shows, and keeps nothing of it that is not whole.
    ("bind.rs", "bind"),
    ("policies.rs", "lint"),
    ("policies.rs", "test"),
    ("policies.rs", "explain"),
    ("policies.rs", "diff"),
    ("adding.rs", "adding"),
    ("rollouts.rs", "changes"),
    // Turns beside the tasks, of which nothing stays.
    ("comparisons.rs", "compare"),
    ("trials.rs", "replay"),
    ("trials.rs", "test"),
    // It makes a key, and keeps none.
    ("credentials.rs", "make_network_key"),
    ("lib.rs", "examine"),
    ("routing.rs", "channel"),
    ("routing.rs", "evaluate"),
    ("routing.rs", "route"),
    // It shows a task.
    ("lib.rs", "answer"),
    // Of a call the agent's node makes a task, which whoever hung up does not wait for.
    ("lib.rs", "call"),
    ("lib.rs", "cancel"),
];

#[test]
fn whoever_hangs_up_cuts_no_change_in_half() {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is");
    let folder = std::path::PathBuf::from(root).join("src");
    let mut attended = BTreeSet::new();
    let mut changing = 0;
    for entry in std::fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let file = path.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
        let text = std::fs::read_to_string(&path).expect("a source");
        for function in text.split("async fn ").skip(1) {
            let function = function.split("\n}\n").next().unwrap_or_default();
            let name: String = function.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let (signature, body) = function.split_once("{\n").unwrap_or((function, ""));
            // A body comes with each POST; what a DELETE removed is called so, but for the policies.
            let is_handler = signature.contains("State(node)");
            let is_delete = signature.contains("Removal>") || name == "unload";
            if !is_handler || !(signature.contains("Body(") || is_delete) {
                continue;
            }
            changing += 1;
            if !body.contains("detached(") && !body.contains("with_files(") {
                attended.insert((file.clone(), name));
            }
        }
    }
    let known: BTreeSet<(String, String)> =
        ATTENDED.iter().map(|(file, name)| ((*file).to_owned(), (*name).to_owned())).collect();
    assert_eq!(attended, known, "what is not carried out in a task of its own ends where its client does");
    let table = all_routes().table;
    let routes = table.iter().filter(|route| route.method != "GET").count();
    // Two paths share a handler in no case: each is seen.
    assert_eq!(changing, routes);
}

//! What the gRPC binding asks of the gateway.

use std::sync::Arc;

use althing_calls::{Callee, Operation, OperationError, OperationRequest, Reply};
use althing_edge::Identity;
use althing_grpc::Answers;
use axum::http::HeaderMap;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::ask::answered;
use super::parameters::{call_request, check_version};
use crate::client::{principal, target};
use crate::{BODY_BYTES_MAX, Gateway};

/// Answers gRPC.
pub(crate) struct Grpc(pub Arc<Gateway>);

impl Answers for Grpc {
    fn request_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn ask(
        &self,
        headers: &HeaderMap,
        identity: Identity,
        agent: String,
        operation: Result<Operation, OperationError>,
        params: Vec<u8>,
    ) -> BoxFuture<'static, Result<Reply, OperationError>> {
        let gateway = self.0.clone();
        let request = || {
            check_version(headers, None)?;
            OperationRequest::parse(operation?, params)
        };
        let (request, headers) = (request(), headers.clone());
        async move {
            let request = request?;
            let target = target(&identity, &gateway.calls, &Callee::near(agent)).await?;
            let request = call_request(target, request, &headers, principal(&identity));
            answered(&gateway, &headers, request).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use althing_simulations::mesh;
    use serde_json::{Value, json};

    use super::super::rest::tests::World;

    /// A request of gRPC, whose messages are written here by hand: fields of protobuf with their lengths.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("short");
        assert!(length < 0x80, "a length of one byte");
        [&[number << 3 | 2, length], bytes].concat()
    }

    fn said(tenant: &str, text: &str) -> Vec<u8> {
        let id = mesh::message(text)["message"]["messageId"].as_str().expect("an id").to_owned();
        let part = field(5, &field(1, text.as_bytes()));
        let role = [4 << 3, 1].to_vec();
        let message = [field(1, id.as_bytes()), role, part].concat();
        [field(1, tenant.as_bytes()), field(2, &message)].concat()
    }

    async fn call(world: &World, method: &str, message: &[u8], version: &str) -> (reqwest::header::HeaderMap, Vec<u8>) {
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client");
        let length = u32::try_from(message.len()).expect("short").to_be_bytes();
        let request = client
            .post(format!("http://{}/lf.a2a.v1.A2AService/{method}", world.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("a2a-version", version)
            .body([&[0], &length[..], message].concat());
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        (answer.headers().clone(), answer.bytes().await.expect("a body").to_vec())
    }

    #[tokio::test]
    async fn the_tenant_is_the_agent_here_or_on_another_node() {
        let world = World::start().await;
        for agent in &world.agents {
            let tenant = agent.to_string();
            let (_, body) = call(&world, "SendMessage", &said(&tenant, "hello over gRPC"), "1.0").await;
            assert!(body.windows(15).any(|part| part == b"hello over gRPC"), "{body:?}");
            let (_, body) = call(&world, "SendStreamingMessage", &said(&tenant, "pieces"), "1.0").await;
            for piece in ["0 ", "4 ", "made 4"] {
                assert!(body.windows(piece.len()).any(|part| part == piece.as_bytes()), "{piece}: {body:?}");
            }
            let (_, card) = call(&world, "GetExtendedAgentCard", &field(1, tenant.as_bytes()), "1.0").await;
            let hosts = b"https://althing.dev/ext/hosts/v1";
            assert!(card.windows(hosts.len()).any(|part| part == hosts), "{card:?}");
            let (_, listed) = call(&world, "ListTasks", &field(1, tenant.as_bytes()), "1.0").await;
            assert!(listed.len() > 100, "{listed:?}");
        }
    }

    #[tokio::test]
    async fn refusals_have_their_codes() {
        let world = World::start().await;
        let tenant = world.agents[1].to_string();
        let task = [field(1, tenant.as_bytes()), field(2, b"../nobody")].concat();
        let named = [field(1, tenant.as_bytes()), field(3, b"../nobody")].concat();
        let push = [named, field(4, b"https://hooks.example/")].concat();
        let cases = [
            ("GetTask", task.clone(), "1.0", "5"),
            ("CancelTask", task.clone(), "1.0.1", "5"),
            ("SubscribeToTask", task.clone(), "1.0", "5"),
            ("GetTask", task.clone(), "0.3", "9"),
            ("GetTask", field(1, tenant.as_bytes()), "1.0", "3"),
            ("GetTask", field(2, b"x"), "1.0", "5"),
            ("SendMessage", said("nobody", "hello"), "1.0", "5"),
            ("SendMessage", field(1, tenant.as_bytes()), "1.0", "3"),
            ("SendMessage", vec![0x0a, 0x7f, 0x00], "1.0", "3"),
            ("GetExtendedAgentCard", field(1, b"nobody"), "1.0", "5"),
            ("CreateTaskPushNotificationConfig", field(1, tenant.as_bytes()), "1.0", "3"),
            ("CreateTaskPushNotificationConfig", push, "1.0", "9"),
            ("NoSuchMethod", Vec::new(), "1.0", "12"),
        ];
        for (method, message, version, status) in cases {
            let (headers, body) = call(&world, method, &message, version).await;
            assert_eq!(headers["grpc-status"], status, "{method} {headers:?}");
            assert!(
                body.is_empty() && (status == "12" || headers.contains_key("grpc-status-details-bin")),
                "{headers:?}"
            );
        }
    }

    #[tokio::test]
    async fn the_card_names_the_tenant() {
        let world = World::start().await;
        let url = format!("http://{}/a2a/{}/.well-known/agent-card.json", world.address, world.agents[0]);
        let card: Value = world.http.get(url).send().await.expect("an answer").json().await.expect("JSON");
        let interfaces = card["supportedInterfaces"].as_array().expect("interfaces");
        let grpc = interfaces.iter().find(|interface| interface["protocolBinding"] == "GRPC").expect("it is named");
        let (url, tenant) = (format!("http://{}", world.address), world.agents[0].to_string());
        assert_eq!((&grpc["url"], &grpc["tenant"]), (&json!(url), &json!(tenant)), "{card}");
    }
}

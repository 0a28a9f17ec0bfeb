//! How long bodies may be: as the route says, whether a length is announced or not.

use crate::party::{Party, client, refused};
use crate::support::{Served, open, problem};
use althing_protocol::digest;
use althing_protocol::limits::PRESENCE_BYTES_MAX;
use althing_registry::service::KEPT_BUNDLE_BYTES_MAX;
use althing_registry::tokens::TokenScope;
use althing_registry_client::StagedRelease;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Body, Method};

/// A body of so many bytes, in parts, of which no length is announced.
fn chunked(bytes: usize) -> Body {
    const PART: usize = 10_000;
    let part = move |at: usize| Ok::<_, std::io::Error>(vec![b'x'; PART.min(bytes - at * PART)]);
    Body::wrap_stream(futures::stream::iter((0..bytes.div_ceil(PART)).map(part)))
}

/// SR-8
#[tokio::test]
async fn a_body_that_is_too_long_for_its_route_is_refused_without_a_length_too() {
    let served = Served::start(open()).await;
    let posted = async |path: &str, body: Body| {
        let request = served.request(Method::POST, path).header("content-type", "application/td+json").body(body);
        problem(request.send().await.expect("an answer")).await
    };
    for (path, max) in [("/hosts", PRESENCE_BYTES_MAX), ("/things", 896 << 10), ("/sessions", 2 << 20)] {
        let (status, told) = posted(path, chunked(max + 1)).await;
        assert!(status == 413 && told["detail"].as_str().is_some_and(|why| why.contains(&max.to_string())), "{told}");
        let (status, told) = posted(path, chunked(max)).await;
        assert!(status != 413, "as long as it may be: {path}: {told}");
    }
}

/// SR-8
#[tokio::test]
async fn a_bundle_of_the_largest_size_that_is_kept_can_be_staged() {
    let served = Served::start(open()).await;
    let org = Party::new(1);
    let build = client(&served).with_token(served.token_of("ci", TokenScope::StageReleases, org.id()));
    let build = build.expect("on loopback");
    let staged = |bytes: usize| {
        let bundle = vec![7; bytes];
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        StagedRelease {
            agent: org.agent("billing").to_string(),
            version: "1.0.0".to_owned(),
            digest: hex(&digest(&bundle)),
            description: String::from_utf8(org.td("billing", "1.0.0")).expect("text"),
            bundle: STANDARD.encode(bundle),
        }
    };
    assert_eq!(refused(build.stage(&staged(KEPT_BUNDLE_BYTES_MAX + 1)).await).0, 422, "what is kept is bounded");
    let id = build.stage(&staged(KEPT_BUNDLE_BYTES_MAX)).await.expect("it can be released, so it can be staged");
    assert!(!id.is_empty());
}

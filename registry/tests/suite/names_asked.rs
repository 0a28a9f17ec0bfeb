//! By which names a registry and a witness are asked: by their own, and by no other site's page.

use std::sync::Arc;

use crate::support::{HOST, NOW, Served, open, problem};
use althing_edge::{Access, Limits, serve};
use althing_protocol::SecretKey;
use althing_registry::http::{at_own_names, witness_router};
use althing_registry::witness::{FAMILIES, Witness, WitnessConfig};
use althing_store::MemoryStore;
use reqwest::Method;
use tokio_util::sync::CancellationToken;

/// SR-6: what is on this machine's address is not to be had by a name that somebody else lets lead there.
#[tokio::test]
async fn a_registry_answers_by_its_own_names_and_no_other_sites_page() {
    let served = Served::start(open()).await;
    let port = served.url.rsplit(':').next().expect("a port").to_owned();
    let asked = async |path: &str, host: &str, origin: Option<&str>| {
        let mut request = served.request(Method::GET, path).header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        request.send().await.expect("an answer")
    };
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), HOST.to_owned(), format!("{HOST}:8443")];
    for host in &own {
        assert_eq!(asked("/things", host, None).await.status(), 200, "{host}");
        let page = format!("http://{host}");
        assert_eq!(asked("/things", host, Some(&page)).await.status(), 200, "its own page at {host}");
    }
    for path in ["/", "/things", "/search/jsonpath?query=$[*]", "/checkpoint", "/nothing"] {
        let other = asked(path, &format!("evil.example:{port}"), None).await;
        let (status, told) = problem(other).await;
        assert!(status == 421 && told["detail"].as_str().is_some_and(|why| why.contains("--host")), "{path}: {told}");
        let page = asked(path, &own[0], Some("https://evil.example")).await;
        assert_eq!(problem(page).await.0, 403, "{path}");
    }
    let thing = crate::support::thing("urn:example:lamp", "Lamp").to_string();
    let written = served.request(Method::PUT, "/things/urn:example:lamp").header("host", "evil.example");
    let written = written.header("content-type", crate::support::TD).body(thing).send().await.expect("an answer");
    assert_eq!((written.status().as_u16(), served.registry.checkpoint().head.size), (421, 0), "nothing is written");
}

/// SR-6
#[tokio::test]
async fn a_witness_answers_by_its_own_names_too() {
    let config = WitnessConfig { name: "witness.example.net".to_owned(), logs: Vec::new(), is_first: true };
    let store = Arc::new(MemoryStore::new(&FAMILIES));
    let witness =
        Witness::open(store, SecretKey::from_seed(&[7; 32]), config, Arc::new(|| NOW)).await.expect("it opens");
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let named = Access::at(address, vec!["witness.example.net".to_owned()]);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(serve(listener, at_own_names(witness_router(Arc::new(witness)), named), Limits::default(), stop));
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    for (host, status) in [("localhost", 200), ("witness.example.net", 200), ("evil.example", 421)] {
        let answer = client.get(format!("http://{address}/")).header("host", host).send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{host}");
    }
}

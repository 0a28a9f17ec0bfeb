//! TLS with certificates that are made for the test.

use std::os::unix::fs::PermissionsExt as _;

use axum::routing::get;
use axum::{Extension, Router};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::gate::Gate;
use crate::{Access, Guard, Identity, Limits, authenticate, serve_tls};

/// An issuer of certificates.
struct Issuer {
    certificate: Certificate,
    key: KeyPair,
}

impl Issuer {
    fn new() -> Issuer {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Issuer { certificate: params.self_signed(&key).expect("a certificate"), key }
    }

    /// A certificate of somebody, with its key.
    fn issue(&self, name: &str) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.certificate, &self.key).expect("a certificate");
        (certificate, key)
    }
}

/// The files of a server.
struct Scene {
    folder: tempfile::TempDir,
    server: Issuer,
    clients: Issuer,
}

impl Scene {
    fn new() -> Scene {
        let scene =
            Scene { folder: tempfile::tempdir().expect("a folder"), server: Issuer::new(), clients: Issuer::new() };
        scene.install();
        scene.write("ca.pem", &scene.clients.certificate.pem(), 0o644);
        scene
    }

    /// A new certificate with a new key.
    fn install(&self) -> Vec<u8> {
        let (certificate, key) = self.server.issue("gateway");
        self.write("key.pem", &key.serialize_pem(), 0o600);
        self.write("cert.pem", &certificate.pem(), 0o644);
        certificate.der().to_vec()
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let (staged, path) = (self.folder.path().join("staged"), self.folder.path().join(name));
        std::fs::write(&staged, text).expect("it is ours");
        std::fs::set_permissions(&staged, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        std::fs::rename(staged, path).expect("it is ours");
    }

    fn files(&self, ca: bool) -> TlsFiles {
        let path = |name: &str| self.folder.path().join(name);
        TlsFiles { cert: path("cert.pem"), key: path("key.pem"), client_ca: ca.then(|| path("ca.pem")) }
    }

    /// Serves who asks.
    async fn serve(&self, ca: bool, stop: &CancellationToken) -> std::net::SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let access = Access { tls: true, ..Access::default() };
        let guard = Guard { access: Arc::new(access), needs: Arc::new(|_, _| Scope::Call) };
        let who = |Extension(identity): Extension<Identity>| async move { format!("{identity:?}") };
        let router =
            Router::new().route("/", get(who)).layer(axum::middleware::from_fn_with_state(guard, authenticate));
        let tls = Arc::new(Tls::open(self.files(ca)).expect("good files"));
        tokio::spawn(serve_tls(listener, router, Limits::default(), tls, stop.clone()));
        address
    }

    /// A client with a certificate, or none.
    fn client(
        &self,
        version: &'static rustls::SupportedProtocolVersion,
        shows: Option<&(Certificate, KeyPair)>,
    ) -> ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.server.certificate.der().clone()).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots);
        match shows {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).expect("a pair")
            }
        }
    }
}

/// What the server answered, and its certificate.
async fn ask(address: std::net::SocketAddr, client: ClientConfig) -> std::io::Result<(String, Vec<u8>)> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await?;
    let shown = stream.get_ref().1.peer_certificates().expect("it has one")[0].to_vec();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok((answer, shown))
}

#[tokio::test]
async fn tls_1_3_is_spoken_and_1_2_is_refused() {
    let (scene, stop) = (Scene::new(), CancellationToken::new());
    let address = scene.serve(false, &stop).await;
    let (answer, _) = ask(address, scene.client(&rustls::version::TLS13, None)).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("Local"), "{answer}");
    let refused = ask(address, scene.client(&rustls::version::TLS12, None)).await.expect_err("an old version");
    assert!(refused.to_string().to_lowercase().contains("protocol"), "{refused}");
    stop.cancel();
}

/// Also a client that would rather speak HTTP/2.
#[tokio::test]
async fn who_finds_no_place_is_told_so_over_tls_too() {
    let scene = Scene::new();
    let tls = Arc::new(Tls::open(scene.files(false)).expect("good files"));
    for offers in [Vec::new(), vec![b"h2".to_vec(), b"http/1.1".to_vec()]] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let mut client = scene.client(&rustls::version::TLS13, None);
        client.alpn_protocols = offers;
        let turning_away = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            Gate::of(0).turn_away(stream, Some(tls.clone()));
        };
        let (answer, ()) = tokio::join!(ask(address, client), turning_away);
        let (answer, _) = answer.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 5\r\n"), "{answer}");
    }
}

/// A client that says nothing holds one of a few slots, and no more than that.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_shake_hands_is_left_after_some_seconds() {
    let scene = Scene::new();
    let tls = Arc::new(Tls::open(scene.files(false)).expect("good files"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let (accepted, client) = tokio::join!(listener.accept(), TcpStream::connect(address));
    Gate::of(0).turn_away(accepted.expect("a connection").0, Some(tls));
    let mut said = Vec::new();
    client.expect("it listens").read_to_end(&mut said).await.expect("it is closed");
    assert!(said.is_empty(), "{said:?}");
}

#[tokio::test]
async fn certificates_are_read_again_when_they_change() {
    let (scene, stop) = (Scene::new(), CancellationToken::new());
    let address = scene.serve(false, &stop).await;
    let shown = async || ask(address, scene.client(&rustls::version::TLS13, None)).await.expect("an answer").1;
    let first = shown().await;
    let second = scene.install();
    assert_eq!(shown().await, second);
    assert_ne!(first, second);
    scene.write("cert.pem", "nothing", 0o644);
    assert_eq!(shown().await, second, "those before stay in use");
    stop.cancel();
}

#[tokio::test]
async fn a_client_is_the_user_whom_its_certificate_names() {
    let (scene, stop) = (Scene::new(), CancellationToken::new());
    let address = scene.serve(true, &stop).await;
    let by = async |shows: Option<(Certificate, KeyPair)>| {
        ask(address, scene.client(&rustls::version::TLS13, shows.as_ref())).await
    };
    let (answer, _) = by(Some(scene.clients.issue("alice"))).await.expect("an answer");
    assert!(answer.contains("\"alice@cert\"") && answer.contains("Call"), "{answer}");
    let (answer, _) = by(Some(scene.clients.issue("A name, of people"))).await.expect("an answer");
    assert!(answer.contains("\"subject-"), "{answer}");
    assert!(by(None).await.is_err(), "none is shown");
    assert!(by(Some(Issuer::new().issue("alice"))).await.is_err(), "of another issuer");
    stop.cancel();
}

#[test]
fn files_that_cannot_be_used_are_refused_with_what_to_do() {
    let scene = Scene::new();
    let refused = || Tls::open(scene.files(true)).expect_err("it is refused").to_string();
    std::fs::set_permissions(scene.folder.path().join("key.pem"), std::fs::Permissions::from_mode(0o640))
        .expect("it is ours");
    assert!(refused().contains("0640") && refused().contains("chmod 600"), "{}", refused());
    scene.write("key.pem", &KeyPair::generate().expect("a key").serialize_pem(), 0o600);
    assert!(refused().contains("cert.pem"), "another's key: {}", refused());
    scene.write("key.pem", "no key", 0o600);
    assert!(refused().contains("private key"), "{}", refused());
    scene.install();
    scene.write("ca.pem", "", 0o644);
    assert!(refused().contains("ca.pem"), "{}", refused());
    std::fs::remove_file(scene.folder.path().join("cert.pem")).expect("it was there");
    let refused = Tls::open(scene.files(false)).expect_err("it is refused").to_string();
    assert!(refused.contains("cannot read"), "{refused}");
}

#[test]
fn two_subjects_are_never_one_user() {
    let issuer = Issuer::new();
    let named = |subject: &[(&DnType, &str)]| {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name = rcgen::DistinguishedName::new();
        subject.iter().for_each(|(kind, value)| params.distinguished_name.push((*kind).clone(), *value));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer.certificate, &issuer.key).expect("a certificate");
        user(certificate.der()).expect("a user").name
    };
    let (name, unit) = (DnType::CommonName, DnType::OrganizationName);
    let of_name = |value: &str| named(&[(&name, value)]);
    assert_eq!((of_name("alice"), of_name("alice")), ("alice@cert".to_owned(), "alice@cert".to_owned()));
    let by_digest = of_name("Alice");
    assert!(by_digest.starts_with("subject-"), "{by_digest}");
    // Whoever is issued such a name is not who has that digest.
    let imitated = of_name(by_digest.trim_end_matches(CERTIFIED));
    let all = [
        of_name("alice"),
        by_digest.clone(),
        of_name("ALICE"),
        imitated,
        of_name("alice@cert"),
        named(&[(&name, "alice"), (&unit, "one")]),
        named(&[(&name, "alice"), (&unit, "two")]),
        named(&[(&unit, "alice")]),
        named(&[]),
    ];
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
}

/// A time of day that a test sets, in seconds.
#[derive(Debug)]
struct Clock(std::sync::atomic::AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(std::sync::atomic::Ordering::SeqCst))))
    }
}

#[tokio::test]
async fn a_connection_ends_with_its_certificate() {
    let (scene, stop) = (Scene::new(), CancellationToken::new());
    let now = std::sync::Arc::new(Clock(1_800_000_000.into()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let guard =
        Guard { access: Arc::new(Access { tls: true, ..Access::default() }), needs: Arc::new(|_, _| Scope::Call) };
    let events = || async {
        let first = futures::stream::iter([Ok::<_, std::convert::Infallible>("first")]);
        axum::body::Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
    };
    let router = Router::new().route("/", get(events)).layer(axum::middleware::from_fn_with_state(guard, authenticate));
    let tls = Arc::new(Tls::at(scene.files(true), now.clone()).expect("good files"));
    let serving = tokio::spawn(serve_tls(listener, router, Limits::default(), tls, stop.clone()));
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &scene.clients.certificate, &scene.clients.key).expect("a certificate");
    let shows = (certificate, key);
    let stream = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let client = scene.client(&rustls::version::TLS13, Some(&shows));
    let mut reads = tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await.expect("TLS");
    reads.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it listens");
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("first") {
        assert_ne!(reads.read_buf(&mut said).await.expect("it goes on"), 0, "{}", String::from_utf8_lossy(&said));
    }
    tokio::time::pause();
    let many = tokio::time::timeout(Duration::from_secs(42), reads.read_buf(&mut said)).await;
    assert!(many.is_err(), "it goes on while the certificate is good");
    now.0.store(1_893_456_001, std::sync::atomic::Ordering::SeqCst);
    let gone = tokio::time::Instant::now();
    // Without a farewell: whoever reads is told that it broke off.
    let _ = tokio::time::timeout(Duration::from_secs(60), reads.read_to_end(&mut said)).await;
    assert!(gone.elapsed() <= Duration::from_secs(10), "{:?}", gone.elapsed());
    stop.cancel();
    serving.await.expect("it ends");
}

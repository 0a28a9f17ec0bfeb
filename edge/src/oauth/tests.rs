use std::sync::atomic::{AtomicUsize, Ordering};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const ISSUER: &str = "https://issuer.example/realm";
const AUDIENCE: &str = "https://mesh.example";
const NOW: u64 = 1_800_000_000;
/// Made once with OpenSSL; the private key is gone.
const RSA_N: &str = "n885nkVkM4cda7UiInMtH4r0NTsPWqyzA4XZU003N-rSPgWC__tEMd3y3faRuCVr_HJca7LZ75UxoWwtxnsei-5_oWA6_2CuIWUQQrjCZUdD\
    M_e0DxaOTcQoGbhpD1e2V-sCOzDvTYRnBwL9VG0MbPZLktb1bGC8hOTeXukg2R2EsW6vN0i-C_Ur786EImeQGe9CZrqAXZaiAV7Hr4dNgXYD\
    SLHhXTvVRN6DyunqBtzprNEqTwY1dYT3fRdXlbuVTrmV3gMfqoXrs5O7x5jAkjrXIDHejKA5bLzYGpiqrn0O9KcKY9hw5QFQY9fNeUKPKYMP\
    fEpjVlih3LMKAnnJaw";
const RSA_TOKEN: [&str; 3] = [
    "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6InJzYSJ9",
    "eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlL3JlYWxtIiwiYXVkIjpbIm90aGVyIiwiaHR0cHM6Ly9tZXNoLmV4YW1wbGUiXSwic3Vi\
    Ijoicm9ib3QiLCJleHAiOjQxMDI0NDQ4MDAsInNjb3BlIjoib3BlbmlkIG1lc2gucmVhZCJ9",
    "eSAJlRki39L76STcycfR0_GP1SWqQGJYvoLlzV4a6IW39mKfMuyj7Xb-O241v8FpvxIdZVT9VbUHFcQ23sk3Bz4SkUmaIPEEaGW7TC3TQWJu\
    i4s5sg_fWQdlwc0Uxbb3usulStE32-VKmsFlqy8ego_oia0_hrStACVRPgLMu2o3dQzLf3g1kZwSafjUbS8pCis_q2CBBvkMkfDsAzT9JdWj\
    4xLKi3hcp_8Duw8T-5aQcLBsxGLbQ-cE19PiO-u0UAw4QCQo82rPS-xv22zJvFYb06zKBr-Y_HpgQ3wRlutReyScylwzaLmvx4dOxJ7iO_6y\
    --jzJFTPJ0mmOTtdoA",
];

/// An issuer of the tests: what it publishes, and how often it was read.
#[derive(Debug, Default)]
struct Published {
    pages: std::sync::Mutex<BTreeMap<String, Value>>,
    read: AtomicUsize,
}

impl Published {
    fn put(&self, url: &str, page: Value) {
        self.pages.lock().expect("no panic").insert(url.to_owned(), page);
    }
}

impl Publications for Published {
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        self.read.fetch_add(1, Ordering::SeqCst);
        let page = self.pages.lock().expect("no panic").get(url).map(|page| page.to_string().into_bytes());
        Box::pin(std::future::ready(page.ok_or_else(|| "404".to_owned())))
    }
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn ed25519(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a seed")
}

fn jwk(id: &str, key: &Ed25519KeyPair) -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": URL_SAFE_NO_PAD.encode(key.public_key()) })
}

fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", encoded(header), encoded(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn header() -> Value {
    json!({ "alg": "EdDSA", "typ": "at+jwt", "kid": "one" })
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 300, "scope": "mesh.read mesh.call email" })
}

fn by(key: &Ed25519KeyPair, header: &Value, claims: &Value) -> String {
    signed(header, claims, |bytes| key.sign(bytes).as_ref().to_vec())
}

fn issuer(published: &Arc<Published>) -> Issuer {
    let scopes = [("mesh.read", Scope::Read), ("mesh.call", Scope::Call), ("mesh.admin", Scope::Admin)];
    let config = IssuerConfig {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        jwks: None,
        scopes: scopes.into_iter().map(|(word, scope)| (word.to_owned(), scope)).collect(),
    };
    Issuer::new(config, published.clone(), Box::new(|| NOW))
}

/// One that publishes these keys.
fn publishing(keys: &[Value]) -> (Arc<Published>, Issuer) {
    let published = Arc::new(Published::default());
    let metadata = json!({ "issuer": ISSUER, "jwks_uri": "https://issuer.example/keys" });
    published.put("https://issuer.example/.well-known/oauth-authorization-server/realm", metadata);
    published.put("https://issuer.example/keys", json!({ "keys": keys }));
    let issuer = issuer(&published);
    (published, issuer)
}

#[tokio::test]
async fn a_token_of_the_issuer_shows_its_user_and_what_the_scopes_allow() {
    let key = ed25519(1);
    let (_, issuer) = publishing(&[jwk("one", &key)]);
    let user = issuer.of_token(&by(&key, &header(), &claims())).await.expect("a user");
    assert_eq!((user.name.as_str(), &user.scopes), ("alice@oauth", &[Scope::Read, Scope::Call].into()));
    let mut nobody = claims();
    nobody["scope"] = json!("email");
    let user = issuer.of_token(&by(&key, &header(), &nobody)).await.expect("a user");
    assert!(user.scopes.is_empty(), "it may nothing: {user:?}");
    let mut others = claims();
    (others["sub"], others["scp"]) = (json!("Alice"), json!(["mesh.admin"]));
    let user = issuer.of_token(&by(&key, &header(), &others)).await.expect("a user");
    assert!(user.name.starts_with("subject-") && user.may(Scope::Admin), "{user:?}");
}

#[tokio::test]
async fn keys_of_all_common_kinds_are_known() {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).expect("a key");
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let [x, y] = [x, y].map(|half| URL_SAFE_NO_PAD.encode(half));
    let (_, issuer) = publishing(&[
        json!({ "kty": "oct", "k": "c2VjcmV0" }),
        json!({ "kty": "EC", "crv": format!("P-{}", 8 * 32), "kid": "ec", "use": "sig", "x": x, "y": y }),
        json!({ "kty": "RSA", "alg": "RS256", "kid": "rsa", "n": RSA_N, "e": "AQAB" }),
    ]);
    let token = signed(&json!({ "alg": "ES256", "kid": "ec" }), &claims(), |bytes| {
        key.sign(&random, bytes).expect("a signature").as_ref().to_vec()
    });
    assert!(issuer.of_token(&token).await.is_some());
    let user = issuer.of_token(&RSA_TOKEN.join(".")).await.expect("a user");
    assert_eq!((user.name.as_str(), user.may(Scope::Read), user.may(Scope::Call)), ("robot@oauth", true, false));
}

/// Threats: tokens of others, for others, over, without a signature, or signed by what everybody knows.
#[tokio::test]
async fn every_other_token_is_refused() {
    let (key, other) = (ed25519(1), ed25519(2));
    let public = key.public_key().as_ref().to_vec();
    let (_, issuer) = publishing(&[jwk("one", &key)]);
    let claim = |name: &str, value: Value| {
        let mut changed = claims();
        changed[name] = value;
        by(&key, &header(), &changed)
    };
    let head = |name: &str, value: Value| {
        let mut changed = header();
        changed[name] = value;
        by(&key, &changed, &claims())
    };
    let good = by(&key, &header(), &claims());
    let (start, signature) = good.rsplit_once('.').expect("three parts");
    let tampered = format!(
        "{}.{}.{signature}",
        encoded(&header()),
        encoded(&json!({ "iss": ISSUER, "aud": AUDIENCE,
        "sub": "root", "exp": NOW + 300, "scope": "mesh.admin" }))
    );
    let hmac = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public);
    let symmetric = signed(&json!({ "alg": "HS256", "kid": "one" }), &claims(), |bytes| {
        ring::hmac::sign(&hmac, bytes).as_ref().to_vec()
    });
    for (what, token) in [
        ("of another issuer", claim("iss", json!("https://issuer.example"))),
        ("for another audience", claim("aud", json!(["https://mesh.example/", "x"]))),
        ("for nobody", claim("aud", Value::Null)),
        ("over", claim("exp", json!(NOW - 61))),
        ("without an end", claim("exp", Value::Null)),
        ("not valid yet", claim("nbf", json!(NOW + 61))),
        ("of no subject", claim("sub", json!(""))),
        ("with an unknown key", head("kid", json!("two"))),
        ("with critical members", head("crit", json!(["b64"]))),
        ("of another kind", head("typ", json!("logout+jwt"))),
        ("by an algorithm that the key is not for", head("alg", json!("ES256"))),
        (
            "without an algorithm",
            format!("{}.", start.replace(&encoded(&header()), &encoded(&json!({ "alg": "none" })))),
        ),
        ("signed by the public key", symmetric),
        ("signed by somebody else", by(&other, &header(), &claims())),
        ("tampered with", tampered),
        ("cut", good[..good.len() - 2].to_owned()),
        ("no token", "x.y.z".to_owned()),
        ("nothing", String::new()),
    ] {
        assert_eq!(issuer.of_token(&token).await, None, "{what}");
    }
    assert!(issuer.of_token(&good).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn new_keys_are_read_but_not_for_each_token_that_names_one() {
    let (old, new) = (ed25519(1), ed25519(2));
    let (published, issuer) = publishing(&[jwk("one", &old)]);
    assert!(issuer.of_token(&by(&old, &header(), &claims())).await.is_some());
    let reads = || published.read.load(Ordering::SeqCst);
    assert_eq!(reads(), 2, "its metadata and its keys");
    published.put("https://issuer.example/keys", json!({ "keys": [jwk("two", &new)] }));
    let mut newer = header();
    newer["kid"] = json!("two");
    let token = by(&new, &newer, &claims());
    for _ in 0..10 {
        assert_eq!(issuer.of_token(&token).await, None);
    }
    assert_eq!(reads(), 2, "it was asked just now");
    tokio::time::advance(ASK_EVERY).await;
    assert!(issuer.of_token(&token).await.is_some());
    assert_eq!(issuer.of_token(&by(&old, &header(), &claims())).await, None, "a key that was withdrawn");
    // A token that is not its own is no reason to ask.
    tokio::time::advance(USABLE).await;
    let before = reads();
    let mut foreign = claims();
    foreign["iss"] = json!("https://evil.example");
    assert_eq!(issuer.of_token(&by(&new, &newer, &foreign)).await, None);
    assert_eq!(reads(), before);
    published.pages.lock().expect("no panic").clear();
    assert_eq!(issuer.of_token(&token).await, None, "its keys are too old");
}

#[tokio::test]
async fn metadata_of_another_issuer_leads_to_no_keys() {
    let key = ed25519(1);
    let published = Arc::new(Published::default());
    published.put("https://issuer.example/keys", json!({ "keys": [jwk("one", &key)] }));
    let metadata = json!({ "issuer": "https://evil.example", "jwks_uri": "https://issuer.example/keys" });
    published.put("https://issuer.example/realm/.well-known/openid-configuration", metadata);
    let issuer = issuer(&published);
    assert_eq!(issuer.of_token(&by(&key, &header(), &claims())).await, None);
}

#[test]
fn clients_are_told_whom_to_ask() {
    let (_, issuer) = publishing(&[]);
    let (path, told) = issuer.metadata().expect("metadata");
    assert_eq!(path, "/.well-known/oauth-protected-resource");
    assert_eq!((&told["resource"], &told["authorization_servers"]), (&json!(AUDIENCE), &json!([ISSUER])));
    assert_eq!(told["scopes_supported"], json!(["mesh.admin", "mesh.call", "mesh.read"]));
}

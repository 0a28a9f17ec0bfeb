//! Strangers' URLs lead to the internet and nowhere else, however they are written; what is connected to is counted.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_fetch::header::HeaderMap;
use althing_fetch::{Fetch, FetchError, Given, Limits, Method, Place, Request, Url, blocked, bound, places, refusal};

use crate::support::{Names, ONE, Site, TWO, fetch, url};

const LIMITS: Limits = Limits { bytes: 1_000, time: Duration::from_secs(20) };

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn to(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// One address in every spelling that some parser of URLs takes.
fn spellings(address: Ipv4Addr) -> Vec<String> {
    let ([a, b, c, d], n) = (address.octets(), address.to_bits());
    let wide = |digit: char| char::from_u32(u32::from(digit) + 0xfee0).expect("a full-width digit");
    let (high, low) = (n >> 16, n & 0xffff);
    vec![
        address.to_string(),
        format!("{n}"),
        format!("0x{n:x}"),
        format!("0X{n:X}"),
        format!("0{n:o}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("{a}.0x{b:x}.0{c:o}.{d}"),
        format!("{a}.{b}.{}", u32::from(c) << 8 | u32::from(d)),
        format!("{a}.{}", n & 0xff_ffff),
        format!("{address}."),
        format!("{a}\u{3002}{b}\u{ff0e}{c}\u{ff61}{d}"),
        address.to_string().chars().map(|c| if c.is_ascii_digit() { wide(c) } else { c }).collect(),
        address.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect(),
        format!("[::ffff:{address}]"),
        format!("[::ffff:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{address}]"),
        format!("[64:ff9b::{address}]"),
        format!("[64:ff9b:1::{address}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[::{address}]"),
    ]
}

const BLOCKED_V4: [[u8; 4]; 20] = [
    [127, 0, 0, 1],
    [127, 1, 2, 3],
    [0, 0, 0, 0],
    [10, 0, 0, 1],
    [10, 255, 255, 254],
    [100, 64, 0, 1],
    [100, 100, 100, 200],
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [172, 16, 0, 1],
    [172, 31, 255, 254],
    [192, 0, 0, 192],
    [192, 0, 2, 1],
    [192, 168, 0, 1],
    [192, 168, 255, 254],
    [198, 18, 0, 1],
    [224, 0, 0, 251],
    [240, 0, 0, 1],
    [255, 255, 255, 255],
    [168, 63, 129, 16],
];
const BLOCKED_V6: [&str; 16] = [
    "::1",
    "::",
    "0:0:0:0:0:0:0:1",
    "fe80::1",
    "febf::1",
    "fc00::1",
    "fd00::7",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "64:ff9b::1",
    "64:ff9b:1::1",
    "3fff::1",
    "100::1",
    "5f00::1",
];
/// A name, and where it leads.
const NAMES: [(&str, &[&str]); 9] = [
    ("localhost", &["127.0.0.1", "::1"]),
    ("metadata.google.internal", &["169.254.169.254"]),
    ("inside.example", &["10.0.0.1"]),
    ("six.example", &["::1"]),
    ("mapped.example", &["::ffff:127.0.0.1"]),
    ("nat64.example", &["64:ff9b::7f00:1"]),
    // One good address does not excuse the other, in whatever order.
    ("mixed.example", &["8.8.8.8", "127.0.0.1"]),
    ("other-way.example", &["127.0.0.1", "8.8.8.8"]),
    ("nowhere.example", &[]),
];

/// What leads into a blocked net, or is no URL of the web: `PORT` stands for one on which somebody listens.
fn hostile() -> Vec<String> {
    let mut all: Vec<String> = BLOCKED_V4
        .iter()
        .flat_map(|octets| spellings(Ipv4Addr::from(*octets)))
        .chain(BLOCKED_V6.iter().map(|address| format!("[{address}]")))
        .map(|host| format!("http://{host}:PORT/td"))
        .collect();
    for (name, _) in NAMES {
        all.extend([format!("http://{name}:PORT/"), format!("http://{name}.:PORT/"), format!("https://{name}:PORT/")]);
        all.push(format!("http://{}:PORT/", name.to_uppercase()));
    }
    let tricks = [
        // The part before the @ is a user's name, whatever it looks like.
        "http://8.8.8.8@127.0.0.1:PORT/",
        "http://127.0.0.1:PORT@8.8.8.8/",
        "http://things.example:80@127.0.0.1:PORT/",
        "http://user:secret@things.example/",
        "http://@127.0.0.1:PORT/",
        "http://:@127.0.0.1:PORT/",
        "http://things.example\\@127.0.0.1:PORT/",
        "http:\\\\127.0.0.1:PORT\\td",
        "http:127.0.0.1:PORT/",
        "http:/127.0.0.1:PORT/",
        "http:///127.0.0.1:PORT/",
        "HTTP://127.0.0.1:PORT/",
        "http://127.0.0.1:PORT#@things.example/",
        "http://127.0.0.1:PORT?@things.example/",
        "http://127.0.0.1:PORT;things.example/",
        " http://127.0.0.1:PORT/",
        "ht\ttp://127.0.0.1:PORT/",
        "http://127.0.\t0.1:PORT/",
        "http://127.0.0.1\n:PORT/",
        "http://\u{24db}ocalhost:PORT/",
        "http://local\u{ad}host:PORT/",
        "http://l\u{200b}ocalhost:PORT/",
        "http://localhost%2e:PORT/",
        "http://127.1:PORT/",
        "http://0:PORT/",
        "http://0x7f.1:PORT/",
        "http://[::ffff:7f00:1]:PORT/",
        "http://[::ffff:0:127.0.0.1]:PORT/",
        "http://[fe80::1%25eth0]:PORT/",
        "ftp://things.example/",
        "file:///etc/passwd",
        "file://things.example/etc/passwd",
        "gopher://127.0.0.1:PORT/_GET",
        "data:application/td+json,{}",
        "javascript:alert(1)",
        "ws://127.0.0.1:PORT/",
        "unix:/var/run/docker.sock",
        "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
        "dict://127.0.0.1:PORT/",
        "jar:http://127.0.0.1:PORT/!/",
        "http://8.8.8.8:0/",
        "http://8.8.8.8:22/",
        "http://8.8.8.8:25/",
        "http://8.8.8.8:53/",
        "https://8.8.8.8:465/",
        "http://8.8.8.8:6379/",
        "http://8.8.8.8:6667/",
    ];
    all.extend(tricks.map(str::to_owned));
    all.push(format!("http://things.example/{}", "x".repeat(2_048)));
    all
}

#[tokio::test]
async fn no_spelling_of_a_blocked_address_connects_to_anything() {
    let names = Arc::<Names>::default();
    for (name, addresses) in NAMES {
        names.answer(name, &[addresses]);
    }
    names.answer("things.example", &[&["127.0.0.1"]]);
    let fetch = fetch(&[], &names);
    let site = Site::at(ONE, |_| Some(ok("secret"))).await;
    let hostile = hostile();
    assert!(hostile.len() >= 200, "{}", hostile.len());
    let (mut unread, mut refused) = (0, 0);
    for text in &hostile {
        let text = text.replace("PORT", &site.address.port().to_string());
        let Ok(url) = Url::parse(&text) else {
            unread += 1;
            continue;
        };
        match fetch.get(&url, Given::Stranger, "*/*", LIMITS).await {
            Err(FetchError::Blocked { .. } | FetchError::Url(_) | FetchError::Unresolved(_)) => refused += 1,
            other => panic!("{text} ({url}): {other:?}"),
        }
    }
    assert_eq!(site.seen(), 0, "connections");
    assert!(refused >= 200 && unread < 40, "{refused} refused, {unread} are no URL");
    // The counter counts: what the operator wrote leads there.
    assert_eq!(fetch.get(&site.url("/td"), Given::Operator, "*/*", LIMITS).await.expect("read"), b"secret");
    assert_eq!(site.seen(), 1);
}

#[tokio::test]
async fn what_the_internet_routes_is_let_through_in_every_spelling() {
    let fetch = fetch(&[], &Arc::default());
    for address in ["8.8.8.8", "1.1.1.1", "9.255.255.255", "172.32.0.1", "100.128.0.1", "223.255.255.254"] {
        let address: Ipv4Addr = address.parse().expect("an address");
        // Those in which IPv4 hides in IPv6 are followed nowhere: nobody needs them.
        for host in spellings(address).iter().filter(|host| !host.starts_with('[')) {
            let url = url(&format!("http://{host}:8080/td"));
            assert_eq!(fetch.check(&url, Given::Stranger), Ok(()), "{host}");
        }
    }
    for text in [
        "https://[2606:4700::1111]/",
        "http://[2a00::1]:8080/",
        "http://things.example/",
        "https://xn--bcher-kva.example/",
    ] {
        assert_eq!(fetch.check(&url(text), Given::Stranger), Ok(()), "{text}");
    }
    assert!(blocked("2a00::1".parse().expect("an address"), &[]).is_none());
}

/// Whoever answers with one address when it is checked and with another when it is connected to gains nothing: there is one
/// look-up, and its answer is what is connected to.
#[tokio::test]
async fn a_rebinding_name_server_leads_to_the_checked_address_only() {
    let names = Arc::<Names>::default();
    let good = Site::at(TWO, |_| Some(ok("good"))).await;
    let listener = std::net::TcpListener::bind((ONE, good.address.port()));
    let hidden = listener.expect("the same port of another address");
    hidden.set_nonblocking(true).expect("a socket");
    names.answer("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let fetch = fetch(&["127.0.0.2"], &names);
    let there = url(&format!("http://rebind.example:{}/", good.address.port()));
    assert_eq!(fetch.get(&there, Given::Stranger, "*/*", LIMITS).await.expect("read"), b"good");
    assert_eq!((good.seen(), names.asked.load(Ordering::Relaxed)), (1, 1), "one look-up, one connection");
    let again = fetch.get(&there, Given::Stranger, "*/*", LIMITS).await;
    assert!(matches!(again, Err(FetchError::Blocked { address, .. }) if address == IpAddr::V4(ONE)), "{again:?}");
    assert_eq!(names.asked.load(Ordering::Relaxed), 2, "what was checked once is not taken for checked");
    assert_eq!(hidden.accept().err().map(|error| error.kind()), Some(std::io::ErrorKind::WouldBlock), "nobody came");
}

#[tokio::test]
async fn each_redirect_is_a_strangers_address_whoever_gave_the_first_one() {
    let secret = Site::at(ONE, |_| Some(ok("secret"))).await;
    let port = secret.address.port();
    let names = Arc::<Names>::default();
    names.answer("inside.example", &[&["127.0.0.1"]]);
    let first = Site::at(TWO, move |path| {
        Some(match path {
            "/start" => to("/here"),
            "/here" => ok("here"),
            "/loop" => to("/loop"),
            "/address" => to(&format!("http://127.0.0.1:{port}/")),
            "/spelled" => to(&format!("http://2130706433:{port}/")),
            "/name" => to(&format!("//inside.example:{port}/")),
            "/user" => to(&format!("http://a@127.0.0.1:{port}/")),
            "/file" => to("file:///etc/passwd"),
            "/far" => to("/address"),
            "/none" => "HTTP/1.1 302 Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
            _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
        })
    })
    .await;
    let fetch = fetch(&[], &names);
    for given in [Given::Operator, Given::Neighbour(IpAddr::V4(TWO))] {
        let get = async |path: &str| fetch.get(&first.url(path), given, "*/*", LIMITS).await;
        assert_eq!(get("/start").await.expect("followed"), b"here", "{given:?}");
        for path in ["/address", "/spelled", "/name", "/far"] {
            let refused = get(path).await;
            let is_refused = matches!(refused, Err(FetchError::Blocked { .. } | FetchError::Url(_)));
            assert!(is_refused, "{given:?} {path}: {refused:?}");
        }
        for path in ["/user", "/file"] {
            assert!(matches!(get(path).await, Err(FetchError::Url(_))), "{given:?} {path}");
        }
        assert_eq!(get("/loop").await, Err(FetchError::Redirects(4)), "{given:?}");
        assert_eq!(get("/none").await, Err(FetchError::Status(302)));
        assert_eq!(get("/missing").await, Err(FetchError::Status(404)));
    }
    assert_eq!(secret.seen(), 0, "connections to what no redirect may lead to");
    let elsewhere = fetch.get(&secret.url("/"), Given::Neighbour(IpAddr::V4(TWO)), "*/*", LIMITS).await;
    assert!(
        matches!(elsewhere, Err(FetchError::Blocked { .. })),
        "a neighbour speaks for its own address: {elsewhere:?}"
    );
}

#[tokio::test]
async fn what_comes_and_how_long_it_takes_are_bounded() {
    let site = Site::at(ONE, |path| match path {
        "/fits" => Some(ok(&"x".repeat(1_000))),
        "/long" => Some(ok(&"x".repeat(1_001))),
        // It says less than it sends, and goes on.
        "/endless" => {
            let chunk = format!("400\r\n{}\r\n", "x".repeat(1_024));
            Some(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}", chunk.repeat(64)))
        }
        _ => None,
    })
    .await;
    let fetch = fetch(&[], &Arc::default());
    let get =
        async |path: &str, time| fetch.get(&site.url(path), Given::Operator, "*/*", Limits { time, ..LIMITS }).await;
    assert_eq!(get("/fits", LIMITS.time).await.map(|body| body.len()), Ok(1_000));
    for path in ["/long", "/endless"] {
        assert_eq!(get(path, LIMITS.time).await, Err(FetchError::TooLong(1_000)), "{path}");
    }
    assert_eq!(get("/silent", Duration::from_millis(300)).await, Err(FetchError::TooLate(300)));
}

#[tokio::test]
async fn no_error_tells_the_query_which_may_hold_a_secret() {
    let site = Site::at(ONE, |path| match path.split('?').next() {
        // It ends in the middle of its body.
        Some("/half") => Some("HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\nhalf".to_owned()),
        // The connection is closed without an answer.
        _ => Some(String::new()),
    })
    .await;
    let fetch = fetch(&[], &Arc::default());
    for path in ["/closed?key=SECRET", "/half?key=SECRET"] {
        let there = site.url(path);
        let nothing = ("text/plain", Vec::new());
        let got = fetch.get(&there, Given::Operator, "*/*", LIMITS).await.map(drop);
        let sent = fetch.exchange(Method::POST, &there, Given::Operator, nothing, LIMITS).await.map(drop);
        let request = Request { method: Method::GET, url: there, headers: HeaderMap::new(), body: Vec::new() };
        let asked = fetch.ask(Given::Operator, request, LIMITS, |_| false).await.map(drop);
        for failed in [got, sent, asked] {
            match failed {
                Err(FetchError::Transport(why)) => assert!(!why.contains("SECRET"), "{path}: {why}"),
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}

/// A client that is bound follows a name nowhere but where it led at first, whatever the name server says later.
#[tokio::test]
async fn a_name_that_was_agreed_to_is_followed_nowhere_else() {
    // Another test may have chosen it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let site = Site::at(ONE, |_| Some(ok("here"))).await;
    let names = Arc::new(Names::default());
    let port = site.address.port();
    let get = |client: reqwest::Client, name: &str| {
        let asked = client.get(format!("http://{name}:{port}/"));
        async move { asked.send().await }
    };
    let client = |places: BTreeSet<Place>| {
        let builder = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        bound(builder, names.clone(), places).build().expect("a client")
    };
    names.answer("near.test", &[&["127.0.0.1"], &["127.0.0.1"], &["10.0.0.1"]]);
    let near = places("http://near.test/", &*names).await.expect("it has an address");
    assert_eq!(near, BTreeSet::from([Place::Loopback]));
    let answer = get(client(near.clone()), "near.test").await.expect("it is there");
    assert_eq!(answer.text().await.expect("a body"), "here");
    let elsewhere = get(client(near), "near.test").await.expect_err("it leads into another net");
    assert_eq!(refusal(&elsewhere), Some(&FetchError::Elsewhere("10.0.0.1".parse().expect("an address"))));

    // What was on the internet leads to no program of this machine.
    names.answer("far.test", &[&["1.1.1.1"], &["127.0.0.1"]]);
    let far = places("http://far.test/", &*names).await.expect("it has an address");
    assert_eq!((far.contains(&Place::Internet), far.len()), (true, 1));
    let seen = site.seen();
    let rebound = get(client(far), "far.test").await.expect_err("it leads to this machine now");
    assert!(matches!(refusal(&rebound), Some(FetchError::Elsewhere(address)) if address.is_loopback()), "{rebound:?}");
    assert_eq!(site.seen(), seen, "nothing was connected to");

    names.answer("cloud.test", &[&["169.254.169.254"]]);
    assert!(matches!(places("http://cloud.test/", &*names).await, Err(FetchError::Blocked { .. })));
    assert!(matches!(places("http://nobody.test/", &*names).await, Err(FetchError::Unresolved(_))));
    assert_eq!(places("http://127.0.0.1:80/", &*names).await, Ok(BTreeSet::new()), "an address is no name");
}

/// SR-4: the same of a fetch, each time anew, whatever is asked.
#[tokio::test]
async fn a_fetch_that_is_bound_follows_the_operators_names_nowhere_else() {
    let site = Site::at(ONE, |_| Some(ok("here"))).await;
    let names = Arc::new(Names::default());
    // It makes sure of what clients need.
    drop(fetch(&[], &names));
    let port = site.address.port();
    names.answer("near.test", &[&["127.0.0.1"], &["10.0.0.1"]]);
    let near = Fetch::leading_to(BTreeSet::from([Place::Loopback]), names.clone()).expect("a client");
    let at = url(&format!("http://near.test:{port}/"));
    assert_eq!(near.get(&at, Given::Operator, "*/*", LIMITS).await, Ok(b"here".to_vec()));
    let elsewhere = Err(FetchError::Elsewhere("10.0.0.1".parse().expect("an address")));
    assert_eq!(near.get(&at, Given::Operator, "*/*", LIMITS).await, elsewhere);

    names.answer("far.test", &[&["127.0.0.1"], &["169.254.169.254"], &["10.0.0.1"], &["::1"]]);
    let far = Fetch::leading_to(BTreeSet::from([Place::Internet]), names.clone()).expect("a client");
    let (at, seen) = (url(&format!("http://far.test:{port}/")), site.seen());
    for _ in 0..4 {
        let request = Request { method: Method::GET, url: at.clone(), headers: HeaderMap::new(), body: Vec::new() };
        let asked = far.ask(Given::Operator, request, LIMITS, |_| false).await;
        assert!(matches!(asked, Err(FetchError::Elsewhere(_))), "{asked:?}");
    }
    assert_eq!(site.seen(), seen, "nothing was connected to");
    assert!(far.get(&site.url("/"), Given::Operator, "*/*", LIMITS).await.is_ok(), "digits lead nowhere else");
}

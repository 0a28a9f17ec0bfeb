//! The proxy: which hosts a program reaches through it, and how.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_egress::{Bounds, Event, Login, Outcome, Scheme, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{AllBut, Host, Way, ask, head, listen, ok, tunnel};

fn get(url: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nHost: proxied\r\nConnection: close\r\n\r\n")
}

fn connect(to: &str) -> String {
    format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n")
}

/// A host that hears all that is said before it answers, on one connection.
async fn patient() -> u16 {
    let (listener, at) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = String::new();
                stream.read_to_string(&mut heard).await.expect("text");
                // Whoever asked may have gone.
                drop(stream.write_all(format!("heard {heard}").as_bytes()).await);
            });
        }
    });
    at.port()
}

#[tokio::test]
async fn a_host_that_the_file_does_not_name_is_denied_and_says_what_to_write() {
    let way = Way::open();
    way.names.answer("other.example", "127.0.0.1");
    let host = Host::new(|_| ok("", "reached")).await;
    let port = host.at.port();
    let (proxy, _) = way.proxy(&["named.example", "*.below.example"]).await;
    let asked = [
        (connect("other.example:443"), "other.example"),
        (get("http://other.example/"), "other.example"),
        (connect("below.example:443"), "below.example"),
        (get("http://named.example:8443/"), "named.example:8443"),
        (connect("127.0.0.1:443"), "127.0.0.1"),
        (get("http://2130706433/"), "127.0.0.1"),
    ];
    for (request, write) in asked {
        let answer = ask(proxy, &request).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{request}{answer}");
        assert!(answer.contains(&format!("sandbox: {{ egress: [{write}] }}")), "{request}{answer}");
        assert_eq!(way.outcomes().pop(), Some(Outcome::Denied { write: write.to_owned() }));
    }
    let answer = ask(proxy, &connect("[::1]:8443")).await;
    assert!(answer.contains("egress: [\"[::1]:8443\"]"), "as YAML has it: {answer}");
    let answer = ask(proxy, &get(&format!("http://other.example:{port}/"))).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!((way.names.asked(), host.count()), (0, 0), "what is denied is not even looked up");

    // What is denied by one file is reached by another.
    let (proxy, _) = way.proxy(&[&format!("other.example:{port}")]).await;
    let answer = ask(proxy, &get(&format!("http://other.example:{port}/"))).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("reached"), "{answer}");
    assert_eq!(way.events().pop(), Some(Event { host: "other.example".to_owned(), port, outcome: Outcome::Reached }));
}

#[tokio::test]
async fn what_the_file_names_and_nobody_admits_is_not_even_looked_up() {
    let decides = Arc::new(AllBut { host: "closed.example", asked: Mutex::default(), patterns: Mutex::default() });
    let way = Way::open().asking(decides.clone());
    ["closed.example", "open.example"].into_iter().for_each(|name| way.names.answer(name, "127.0.0.1"));
    let host = Host::new(|_| ok("", "reached")).await;
    let port = host.at.port();
    let (proxy, _) = way.proxy(&[&format!("closed.example:{port}"), &format!("open.example:{port}")]).await;
    for request in [connect(&format!("closed.example:{port}")), get(&format!("http://closed.example:{port}/"))] {
        let answer = ask(proxy, &request).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("closed\" forbids it"), "{request}{answer}");
        let why = "the rule \"closed\" forbids it".to_owned();
        assert_eq!(way.outcomes().pop(), Some(Outcome::Forbidden { why }));
    }
    assert_eq!((way.names.asked(), host.count()), (0, 0));
    let answer = ask(proxy, &get(&format!("http://open.example:{port}/"))).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let asked = |host: &str, method: Option<&str>| (host.to_owned(), port, method.map(str::to_owned));
    let expected =
        [asked("closed.example", None), asked("closed.example", Some("GET")), asked("open.example", Some("GET"))];
    assert_eq!(*decides.asked.lock().expect("whole"), expected);
    // What the file does not name is denied by it, and nobody else is asked.
    ask(proxy, &connect("other.example:443")).await;
    assert_eq!(decides.asked.lock().expect("whole").len(), expected.len());
}

#[tokio::test]
async fn whoever_decides_is_told_methods_that_everybody_knows_and_by_which_pattern_a_host_is_named() {
    let decides = Arc::new(AllBut { host: "closed.example", asked: Mutex::default(), patterns: Mutex::default() });
    let way = Way::open().asking(decides.clone());
    way.names.answer("own.open.example", "127.0.0.1");
    let host = Host::new(|_| ok("", "reached")).await;
    let port = host.at.port();
    let (proxy, _) = way.proxy(&[&format!("*.open.example:{port}")]).await;
    let local = Target::new(Scheme::Http, "127.0.0.1", port, "", Vec::new()).expect("a target");
    let local = way.local(local).await;
    let made_up = format!("BREW-{}", "A".repeat(1_000));
    let rest = "HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    for (at, url) in [(proxy, format!("http://own.open.example:{port}/")), (local, "/".to_owned())] {
        let answer = ask(at, &format!("{made_up} {url} {rest}")).await;
        assert!(answer.ends_with("reached") && host.last().starts_with(&made_up), "it is the host's matter: {answer}");
    }
    let asked = |host: &str| (host.to_owned(), port, Some("OTHER".to_owned()));
    assert_eq!(*decides.asked.lock().expect("whole"), [asked("own.open.example"), asked("127.0.0.1")]);
    assert_eq!(*decides.patterns.lock().expect("whole"), [Some(format!("*.open.example:{port}")), None]);
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_each_side_may_end_first() {
    let way = Way::open();
    way.names.answer("far.example", "127.0.0.1");
    let port = patient().await;
    let (proxy, _) = way.proxy(&[&format!("far.example:{port}")]).await;
    let (mut stream, head) = tunnel(proxy, &format!("FAR.example:{port}")).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    stream.write_all(b"one").await.expect("it is carried");
    stream.shutdown().await.expect("the half of it");
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.expect("the other half stays");
    assert_eq!(heard, "heard one");
    assert_eq!(way.events(), [Event { host: "far.example".to_owned(), port, outcome: Outcome::Reached }]);

    // Who does not wait for the answer loses nothing.
    let mut hasty = TcpStream::connect(proxy).await.expect("it listens");
    let at_once = format!("CONNECT far.example:{port} HTTP/1.1\r\nHost: x\r\n\r\ntwo");
    hasty.write_all(at_once.as_bytes()).await.expect("it is heard");
    let head = crate::support::head(&mut hasty).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    hasty.shutdown().await.expect("the half of it");
    let mut heard = String::new();
    hasty.read_to_string(&mut heard).await.expect("the other half stays");
    assert_eq!(heard, "heard two");

    // The host ends first.
    let (listener, at) = listen().await;
    let (proxy, _) = way.proxy(&[&format!("far.example:{}", at.port())]).await;
    let (mut stream, _) = tunnel(proxy, &format!("far.example:{}", at.port())).await;
    let (mut host, _) = listener.accept().await.expect("somebody");
    host.write_all(b"bye").await.expect("it is carried");
    host.shutdown().await.expect("the half of it");
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.expect("the end");
    assert_eq!(heard, "bye");
    stream.write_all(b"still here").await.expect("it is carried");
    stream.shutdown().await.expect("all of it");
    heard.clear();
    host.read_to_string(&mut heard).await.expect("the end");
    assert_eq!(heard, "still here");
}

#[tokio::test]
async fn a_name_of_the_file_leads_only_where_urls_of_strangers_do() {
    let way = Way::new(&[], Bounds::default());
    let host = Host::new(|_| ok("", "secret")).await;
    let port = host.at.port();
    for (name, address) in [
        ("here.example", "127.0.0.1"),
        ("mapped.example", "::ffff:127.0.0.1"),
        ("private.example", "10.0.0.1"),
        ("cloud.example", "169.254.169.254"),
        ("link.example", "fe80::1"),
    ] {
        way.names.answer(name, address);
        let (proxy, _) = way.proxy(&[&format!("{name}:{port}"), name]).await;
        for request in [
            connect(&format!("{name}:{port}")),
            get(&format!("http://{name}:{port}/")),
            get(&format!("http://{name}/")),
        ] {
            let answer = ask(proxy, &request).await;
            assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{request}{answer}");
            assert!(answer.contains("not followed there") && !answer.contains(address), "{request}{answer}");
            let told = way.outcomes().pop();
            let is_told = matches!(&told, Some(Outcome::Failed { why }) if why.contains(address));
            assert!(is_told, "the owner is told all of it: {told:?}");
        }
    }
    for literal in ["169.254.169.254", "127.0.0.1", "[::1]", "[::ffff:7f00:1]", "[fd00:ec2::254]"] {
        let (proxy, _) = way.proxy(&[literal]).await;
        for request in [connect(&format!("{literal}:443")), get(&format!("http://{literal}/"))] {
            let answer = ask(proxy, &request).await;
            assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{request}{answer}");
        }
    }
    // A port of another protocol, although the file names it.
    let (proxy, _) = way.proxy(&["mail.example:25"]).await;
    let answer = ask(proxy, &connect("mail.example:25")).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("another protocol"), "{answer}");
    assert_eq!(host.count(), 0, "connections");
}

#[tokio::test]
async fn what_fails_says_why() {
    let way = Way::open();
    let (listener, at) = listen().await;
    drop(listener);
    way.names.answer("closed.example", "127.0.0.1");
    let port = at.port();
    let (proxy, _) = way.proxy(&["nobody.example", &format!("closed.example:{port}")]).await;
    for (request, why) in [
        (connect("nobody.example:443"), "no such name"),
        (get("http://nobody.example/"), "no such name"),
        (connect(&format!("closed.example:{port}")), "nothing listens there"),
        (get(&format!("http://closed.example:{port}/")), "nothing listens there"),
    ] {
        let answer = ask(proxy, &request).await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.contains(why), "{request}{answer}");
        let told = way.outcomes().pop();
        assert!(matches!(&told, Some(Outcome::Failed { why: told }) if told.contains(why)), "{told:?}");
    }
    let silent = listen().await;
    let bounds = Bounds { idle: Duration::from_millis(300), ..Bounds::default() };
    let way = Way::new(&["127.0.0.1"], bounds);
    let (proxy, _) = way.proxy(&[&format!("127.0.0.1:{}", silent.1.port())]).await;
    let answer = ask(proxy, &get(&format!("http://127.0.0.1:{}/", silent.1.port()))).await;
    assert!(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n") && answer.contains("more than 300 ms"), "{answer}");
}

#[tokio::test]
async fn a_plain_request_is_asked_without_what_was_for_the_proxy() {
    let way = Way::open();
    way.names.answer("far.example", "127.0.0.1");
    let host = Host::new(|request| match request.split(' ').nth(1) {
        Some("/moved") => b"HTTP/1.1 302 Found\r\nlocation: http://else.example/\r\ncontent-length: 0\r\n\r\n".to_vec(),
        _ => ok("connection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nx-own: 2\r\n", "hello"),
    })
    .await;
    let port = host.at.port();
    let (proxy, _) = way.proxy(&[&format!("far.example:{port}")]).await;
    let answer = ask(
        proxy,
        &format!(
            "POST http://far.example:{port}/a?b=c HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close, X-Drop\r\n\
             Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic aHVzaA==\r\nX-Drop: 1\r\nX-Keep: 2\r\n\
             Content-Length: 4\r\n\r\nbody"
        ),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(answer.contains("x-own: 2\r\n") && !answer.contains("x-hop") && !answer.contains("keep-alive"), "{answer}");
    let heard = host.last();
    assert!(heard.starts_with("POST /a?b=c HTTP/1.1\r\n") && heard.ends_with("\r\n\r\nbody"), "{heard}");
    assert!(heard.contains(&format!("host: far.example:{port}\r\n")) && heard.contains("x-keep: 2\r\n"), "{heard}");
    for dropped in ["elsewhere", "x-drop", "proxy-", "hush"] {
        assert!(!heard.contains(dropped), "{dropped}: {heard}");
    }

    // A body whose end the program tells by chunks; and a redirect, which is the program's to follow.
    let chunked = "Connection: close\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    ask(proxy, &format!("PUT http://far.example:{port}/ HTTP/1.1\r\n{chunked}")).await;
    let heard = host.last();
    assert!(
        heard.contains("transfer-encoding: chunked\r\n") && heard.contains("abc") && heard.contains("de"),
        "{heard}"
    );
    let moved = ask(proxy, &get(&format!("http://far.example:{port}/moved"))).await;
    assert!(
        moved.starts_with("HTTP/1.1 302 Found\r\n") && moved.contains("location: http://else.example/\r\n"),
        "{moved}"
    );
}

#[tokio::test]
async fn whoever_takes_it_for_something_else_is_told_what_it_is() {
    let way = Way::open();
    let (proxy, _) = way.proxy(&["named.example"]).await;
    for request in [
        get("/"),
        get("https://named.example/"),
        get("ftp://named.example/"),
        connect("named.example"),
        connect("user@named.example:443"),
        "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(),
    ] {
        let answer = ask(proxy, &request).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request}{answer}");
    }
    assert!(ask(proxy, &get("/")).await.contains("This is a proxy of an Althing node"));
    assert_eq!((way.names.asked(), way.events().len()), (0, 0));
    let long = format!("GET http://named.example/ HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(128 << 10));
    let answer = ask(proxy, &long).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn where_others_reach_the_proxy_only_who_has_the_password_does_anything_with_it() {
    let way = Way::open();
    way.names.answer("far.example", "127.0.0.1");
    let host = Host::new(|_| ok("", "reached")).await;
    let port = host.at.port();
    let named = format!("far.example:{port}");
    let (proxy, _) = way.proxy_to(&[&named], Some(Login::new("YWx0aGluZzpodXNo".to_owned()))).await;
    let with = |request: String, header: &str| request.replacen("\r\n", &format!("\r\n{header}\r\n"), 1);
    let requests = [get(&format!("http://{named}/")), connect(&named), get("http://other.example/"), get("/")];
    for request in requests {
        let wrong = with(request.clone(), "Proxy-Authorization: Basic YWx0aGluZzpodXNp");
        let elsewhere = with(request.clone(), "Authorization: Basic YWx0aGluZzpodXNo");
        for request in [request, wrong, elsewhere] {
            let answer = ask(proxy, &request).await;
            assert!(answer.starts_with("HTTP/1.1 407 Proxy Authentication Required\r\n"), "{request}{answer}");
            assert!(answer.contains("proxy-authenticate: Basic realm=\"althing\"\r\n"), "{request}{answer}");
            assert!(!answer.contains("example") && !answer.contains("YWx0"), "nothing of the program: {answer}");
        }
    }
    assert_eq!((way.names.asked(), way.events().len(), host.count()), (0, 0, 0));
    let right = "proxy-authorization: basic YWx0aGluZzpodXNo";
    let answer = ask(proxy, &with(get(&format!("http://{named}/")), right)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("reached"), "{answer}");
    assert!(!host.last().contains("YWx0"), "the host is not told: {}", host.last());
    let denied = ask(proxy, &with(connect("other.example:443"), right)).await;
    assert!(denied.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{denied}");
}

#[tokio::test]
async fn what_a_program_takes_is_bounded() {
    let bounds = Bounds { bytes: 8, idle: Duration::from_millis(300), connections: 1, ..Bounds::default() };
    let way = Way::new(&["127.0.0.1"], bounds);
    let port = patient().await;
    let to = format!("127.0.0.1:{port}");
    let (proxy, _) = way.proxy(&[&to]).await;
    let last = || way.outcomes().pop();
    let is_failure = |told: &str| matches!(last(), Some(Outcome::Failed { why }) if why.contains(told));

    // One byte too many, from the program: the tunnel ends.
    let (mut stream, _) = tunnel(proxy, &to).await;
    stream.write_all(b"123456789").await.expect("it is heard");
    let mut heard = Vec::new();
    drop(stream.read_to_end(&mut heard).await);
    assert!(heard.is_empty() && is_failure("more than 8 bytes"), "{:?}", last());

    // Nothing passes. The next program waits until there is a place, and finds it.
    let (mut idle, _) = tunnel(proxy, &to).await;
    let mut next = TcpStream::connect(proxy).await.expect("it listens");
    let asked = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    next.write_all(asked.as_bytes()).await.expect("it is kept");
    let answered = head(&mut next).await;
    assert!(answered.starts_with("HTTP/1.1 200 OK\r\n"), "{answered}");
    heard.clear();
    drop(idle.read_to_end(&mut heard).await);
    assert!(heard.is_empty());
    let is_told = |event: &Event| matches!(&event.outcome, Outcome::Failed { why } if why.contains("nothing passed"));
    assert!(way.events().iter().any(is_told), "{:?}", way.events());
    drop(next);

    // Nor does it take more than may come of an answer: it is cut off.
    let way = Way::new(&["127.0.0.1"], Bounds { bytes: 8, ..Bounds::default() });
    let host = Host::new(|_| ok("", "123456789")).await;
    let (proxy, _) = way.proxy(&[&host.at.to_string()]).await;
    let answer = ask(proxy, &get(&format!("http://{}/", host.at))).await;
    assert!(!answer.contains("123456789"), "{answer}");
    assert!(matches!(way.outcomes().pop(), Some(Outcome::Failed { why }) if why.contains("more than 8 bytes")));
}

#[tokio::test]
async fn a_proxy_that_ends_ends_its_tunnels() {
    let way = Way::open();
    let to = format!("127.0.0.1:{}", patient().await);
    let (proxy, served) = way.proxy(&[&to]).await;
    let (mut stream, head) = tunnel(proxy, &to).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    served.abort();
    let mut heard = Vec::new();
    drop(stream.read_to_end(&mut heard).await);
    assert!(heard.is_empty());
    assert!(TcpStream::connect(proxy).await.is_err(), "nobody listens any more");
}

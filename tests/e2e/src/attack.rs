//! The malformed requests of `hostile_http.rs`, each with what must be answered.

use serde_json::{Value, json};

use crate::http::{Answer, HONEST, authority, request, says};

/// What an honest answer to a request would be.
#[derive(Debug, Clone)]
pub enum Expect {
    /// A JSON-RPC error of one of these codes.
    Code(Vec<i64>),
    /// An HTTP status.
    Status(u16),
    /// Any answer in the protocol's own terms: a JSON-RPC answer, an HTTP refusal, or a closed connection.
    Typed,
}

pub struct Case {
    name: String,
    pub bytes: Vec<u8>,
    expect: Expect,
}

/// Writes the cases against one gateway.
pub struct Attack {
    gateway: String,
    pub cases: Vec<Case>,
    random: u64,
}

impl Attack {
    /// Every case there is, the same every time.
    pub fn on(gateway: &str) -> Attack {
        let mut attack = Attack { gateway: gateway.to_owned(), cases: Vec::new(), random: 0x5eed_5eed_5eed_5eed };
        attack.broken_json();
        attack.deep_json();
        attack.no_requests();
        attack.wrong_parameters();
        attack.wrong_headers();
        attack.broken_http();
        attack.other_bindings();
        attack.huge_bodies();
        attack
    }

    /// xorshift64: the same attack every time.
    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 16).expect("64 bits") % below
    }

    fn body(&mut self, name: &str, body: impl AsRef<[u8]>, expect: Expect) {
        self.headers(name, &HONEST, body, expect);
    }

    fn headers(&mut self, name: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>, expect: Expect) {
        let bytes = request(&self.gateway, "POST", "/a2a/echo", headers, body.as_ref());
        self.raw(name, bytes, expect);
    }

    fn raw(&mut self, name: &str, bytes: Vec<u8>, expect: Expect) {
        self.cases.push(Case { name: name.to_owned(), bytes, expect });
    }

    fn broken_json(&mut self) {
        let honest = honest("SendMessage", says("hello"));
        for end in 0..honest.len() {
            self.body("cut off", &honest[..end], code(-32700));
        }
        for _ in 0..400 {
            let length = 1 + self.random(300);
            // Begins with a byte that no JSON begins with.
            let noise: Vec<u8> =
                (0..length).map(|at| if at == 0 { b'}' } else { self.random(256).to_le_bytes()[0] }).collect();
            self.body("noise", noise, code(-32700));
        }
        for bad in [
            "{'a':1}",
            "{\"a\":}",
            "{\"a\":1,}",
            "nul",
            "{\"jsonrpc\":\"2.0\"} x",
            "\u{feff}{}",
            "{\"id\":01}",
            "\"\\x\"",
        ] {
            self.body("no JSON", bad, code(-32700));
        }
        for bytes in [&b"\xff\xfe{}"[..], b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\x28\"}", b"\xed\xa0\x80"] {
            self.body("not UTF-8", bytes, code(-32700));
        }
        for at in 0..800 {
            let mut mutated = honest.clone().into_bytes();
            for _ in 0..=at % 4 {
                let (place, byte) = (self.random(mutated.len()), self.random(256).to_le_bytes()[0]);
                mutated[place] = byte;
            }
            self.body("mutated", mutated, Expect::Typed);
        }
    }

    fn deep_json(&mut self) {
        for depth in (10..=4_000).step_by(70) {
            let deep = "[".repeat(depth) + &"]".repeat(depth);
            self.body("deep batch", &deep, code(-32600));
            let half = "[".repeat(depth);
            self.body("deep and cut off", &half, Expect::Code(vec![-32700, -32600]));
            let params = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{deep}}}"#);
            self.body("deep parameters", params, code(-32602));
            let part = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": "DEEP" }] });
            let message = json!({ "message": part }).to_string().replace("\"DEEP\"", &deep);
            let data = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{message}}}"#);
            self.body("deep data", data, if depth > 32 { code(-32602) } else { Expect::Typed });
            let id = format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"SendMessage","params":{{}}}}"#);
            self.body("deep id", id, code(-32600));
        }
    }

    fn no_requests(&mut self) {
        for body in ["[]", "[1,2]", "1", "null", "\"x\"", "true", "{}", "[{\"jsonrpc\":\"2.0\"}]"] {
            self.body("no request", body, code(-32600));
        }
        for count in 1..=50 {
            let batch = vec![honest("GetTask", json!({ "id": "x" })); count].join(",");
            self.body("batch", format!("[{batch}]"), code(-32600));
        }
        let whole = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says("hello") });
        for version in [json!(null), json!("1.0"), json!(2.0), json!(["2.0"]), json!("2.0 "), json!({}), json!(true)] {
            self.member(&whole, "jsonrpc", version, -32600);
        }
        for id in [json!({}), json!([]), json!(true), json!(1.5), json!(-0.5), json!([1])] {
            self.member(&whole, "id", id, -32600);
        }
        for method in [json!(null), json!(1), json!([]), json!({})] {
            self.member(&whole, "method", method, -32600);
        }
        for method in
            ["", "sendMessage", "SendMessage ", "message/send", "tasks/get", "rpc.discover", "../SendMessage", "\u{0}"]
        {
            self.member(&whole, "method", json!(method), -32601);
        }
        for length in (1..100_000).step_by(2_000) {
            self.member(&whole, "method", json!("m".repeat(length)), -32601);
        }
    }

    /// The honest request with one member changed.
    fn member(&mut self, whole: &Value, name: &str, value: Value, expected: i64) {
        let mut changed = whole.clone();
        changed[name] = value;
        self.body(&format!("wrong {name}"), changed.to_string(), code(expected));
    }

    fn wrong_parameters(&mut self) {
        let parts = |parts: Value| json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": parts } });
        let messages = [
            json!({}),
            json!([]),
            json!(null),
            json!("message"),
            json!({ "message": null }),
            json!({ "message": [] }),
            json!({ "message": { "role": "ROLE_USER", "parts": [{ "text": "no id" }] } }),
            json!({ "message": { "messageId": "", "role": "ROLE_USER", "parts": [{ "text": "x" }] } }),
            json!({ "message": { "messageId": "m".repeat(1_000), "role": "ROLE_USER", "parts": [{ "text": "x" }] } }),
            json!({ "message": { "messageId": "m", "parts": [{ "text": "no role" }] } }),
            json!({ "message": { "messageId": "m", "role": "ROLE_KING", "parts": [{ "text": "x" }] } }),
            json!({ "message": { "messageId": "m", "role": "ROLE_USER" } }),
            parts(json!([])),
            parts(json!([{}])),
            parts(json!([{ "text": "x", "url": "https://example.com" }])),
            parts(json!([{ "text": 1 }])),
            parts(json!([{ "raw": "not base64!" }])),
            parts(json!("x")),
            parts(json!(vec![json!({ "text": "x" }); 1_000])),
        ];
        for method in ["SendMessage", "SendStreamingMessage"] {
            for message in &messages {
                self.body("wrong message", honest(method, message.clone()), code(-32602));
            }
        }
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            for task in [
                json!({}),
                json!({ "id": null }),
                json!({ "id": 7 }),
                json!({ "id": "" }),
                json!({ "id": "x".repeat(9_999) }),
            ] {
                self.body("wrong task", honest(method, task), code(-32602));
            }
            for at in 0..50 {
                self.body("no such task", honest(method, json!({ "id": format!("task-{at}") })), code(-32001));
            }
        }
        for list in [
            json!({ "pageSize": "many" }),
            json!({ "pageSize": 0 }),
            json!({ "pageSize": 101 }),
            json!({ "status": "GONE" }),
        ] {
            self.body("wrong list", honest("ListTasks", list), code(-32602));
        }
    }

    fn wrong_headers(&mut self) {
        let body = honest("SendMessage", says("hello"));
        let kinds = [
            "text/plain",
            "",
            "application/xml",
            "application/jsonx",
            "json",
            "multipart/form-data; boundary=x",
            "*/*",
        ];
        let gateway = self.gateway.clone();
        for kind in kinds.into_iter().cycle().take(140) {
            self.headers("content type", &[("Content-Type", kind), ("A2A-Version", "1.0")], &body, code(-32005));
        }
        self.headers("no content type", &[("A2A-Version", "1.0")], "{", code(-32005));
        for version in ["", "0.3", "2.0", "1", "1.1", "one", "1.0, 0.3"].into_iter().cycle().take(140) {
            let headers = [("Content-Type", "application/json"), ("A2A-Version", version)];
            self.headers("version", &headers, &body, code(-32009));
        }
        self.headers("no version", &[("Content-Type", "application/json")], &body, code(-32009));
        let port = authority(&gateway).rsplit_once(':').expect("a port").1.to_owned();
        let hosts = [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            "[",
            "10.0.0.1",
            "xn--nxasmq6b",
            "0.0.0.0",
        ];
        for host in hosts.into_iter().cycle().take(160) {
            for host in [host.to_owned(), format!("{host}:{port}")] {
                let headers = [HONEST[0], HONEST[1], ("Host", host.as_str())];
                // What is no authority at all may be refused by HTTP itself.
                let expect =
                    if host.contains(['[']) || host.starts_with(':') { Expect::Typed } else { Expect::Status(421) };
                self.headers(&format!("host {host:?}"), &headers, &body, expect);
            }
        }
        let origins = [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
            "",
            "file://",
            "http://127.0.0.1.evil.example",
        ];
        for origin in origins.into_iter().cycle().take(120) {
            let headers = [HONEST[0], HONEST[1], ("Origin", origin)];
            self.headers(&format!("origin {origin:?}"), &headers, &body, Expect::Status(403));
        }
    }

    fn broken_http(&mut self) {
        let gateway = self.gateway.clone();
        let host = authority(&gateway).to_owned();
        for at in 0..300 {
            let length = 1 + self.random(600);
            let mut noise: Vec<u8> = (0..length).map(|_| self.random(256).to_le_bytes()[0]).collect();
            if at % 2 == 0 {
                noise.splice(0..0, *b"POST /a2a/echo HTTP/1.1\r\n");
            }
            noise.extend(b"\r\n\r\n");
            self.raw("noise", noise, Expect::Typed);
        }
        for line in [
            "POST",
            "POST /",
            "POST / HTTP/9.9",
            "\u{0}",
            "POST  /  HTTP/1.1",
            "CONNECT x:1 HTTP/1.1",
            "PRI * HTTP/2.0",
        ] {
            self.raw(
                "request line",
                format!("{line}\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes(),
                Expect::Typed,
            );
        }
        for chunk in ["zz\r\n", "-1\r\nx\r\n", "ffffffffffffffffff\r\nx\r\n", "5;x\r\nab\r\n0\r\n\r\n"] {
            let head = format!(
                "POST /a2a/echo HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n"
            );
            let text = format!("{head}A2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
            self.raw("chunks", text.into_bytes(), Expect::Typed);
        }
        let many: Vec<(String, String)> = (0..500).map(|at| (format!("X-{at}"), "v".to_owned())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.headers("many headers", &many, "{}", Expect::Status(431));
        let long = "v".repeat(1 << 20);
        self.headers("long header", &[("X-Long", &long)], "{}", Expect::Typed);
        self.headers("two lengths", &[("Content-Length", "5")], "{}", Expect::Typed);
        for path in
            ["/nothing", "/a2a", "/a2a/echo/x", "/..", "/a2a/%2e%2e/etc", "/.well-known/agent-card.json", "/%ff%fe"]
        {
            let bytes = request(&gateway, "GET", path, &[], b"");
            self.raw(&format!("path {path}"), bytes, Expect::Status(404));
        }
        for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
            self.raw(
                &format!("method {method}"),
                request(&gateway, method, "/a2a/echo", &[], b""),
                Expect::Status(405),
            );
        }
        for agent in ["nobody", "did%3Akey%3Az6Mk%2Fecho", "%00", "%F0%9F%A6%80", "a".repeat(4_000).as_str()] {
            let bytes = request(
                &gateway,
                "POST",
                &format!("/a2a/{agent}"),
                &HONEST,
                honest("SendMessage", says("x")).as_bytes(),
            );
            self.raw("no such agent", bytes, code(-32000));
        }
    }

    /// HTTP+JSON and gRPC, whose refusals have HTTP statuses.
    fn other_bindings(&mut self) {
        let cases = [
            ("GET", "/a2a/echo/tasks/..%2f..%2fetc%2fpasswd", 404),
            ("GET", "/a2a/echo/tasks/../../../etc/passwd", 404),
            ("GET", "/a2a/echo/tasks/%ff", 400),
            ("GET", "/a2a/%ff/tasks", 400),
            ("GET", "/a2a/echo/other/tasks", 404),
            ("GET", "/a2a/echo/tasks?pageSize=1000000000", 400),
            ("GET", "/a2a/echo/tasks?pageSize=-1", 400),
            ("GET", "/a2a/echo/tasks?pageToken=%00%ff", 400),
            ("GET", "/a2a/echo/tasks?unknown=1", 400),
            ("DELETE", "/a2a/echo/tasks/7", 405),
            ("PUT", "/a2a/echo/message:send", 405),
            ("POST", "/a2a/echo/message:sends", 404),
            ("GET", "/lf.a2a.v1.A2AService/GetTask", 405),
            ("POST", "/lf.a2a.v1.A2AService/GetTask", 415),
            ("POST", "/lf.a2a.v1.A2AService/a/b", 404),
        ];
        for (method, path, status) in cases {
            let bytes = request(&self.gateway, method, path, &HONEST, b"");
            self.raw(&format!("{method} {path}"), bytes, Expect::Status(status));
        }
        let honest = says("hello").to_string();
        for end in (0..honest.len()).step_by(3) {
            let cut = &honest.as_bytes()[..end];
            let bytes = request(&self.gateway, "POST", "/a2a/echo/message:send", &HONEST, cut);
            self.raw("cut off", bytes, Expect::Status(400));
        }
    }

    fn huge_bodies(&mut self) {
        let huge = vec![b'['; 8 << 20];
        for _ in 0..12 {
            self.body("huge", &huge, Expect::Typed);
        }
        let text = honest("SendMessage", says(&"x".repeat(2 << 20)));
        for _ in 0..12 {
            self.body("huge text", &text, Expect::Typed);
        }
    }
}

pub fn honest(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn code(code: i64) -> Expect {
    Expect::Code(vec![code])
}

pub fn judge(case: &Case, answer: &Answer) -> Result<(), String> {
    let fine = match &case.expect {
        Expect::Code(codes) => {
            let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            let typed = value["jsonrpc"] == "2.0" && value["error"]["data"][0]["reason"].is_string();
            typed && answer.code().is_some_and(|code| codes.contains(&code))
        }
        Expect::Status(status) => answer.status == *status,
        Expect::Typed => {
            let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            let json_rpc = value["jsonrpc"] == "2.0" && (value["error"]["code"].is_i64() || !value["result"].is_null());
            json_rpc || answer.status == 0 || (400..500).contains(&answer.status)
        }
    };
    if fine {
        return Ok(());
    }
    let shown: String = String::from_utf8_lossy(&case.bytes).chars().take(400).collect();
    let body: String = answer.body.chars().take(400).collect();
    Err(format!("{}: expected {:?}, got {} {body}\nsent: {shown}", case.name, case.expect, answer.status))
}

//! Official clients behind nginx that ends TLS, as docs/configuration.md has it: what the gateway says of itself, its streams, and
//! calls that take longer than nginx waits for a silent server. None is answered by nginx itself.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use althing_e2e::http::authority;
use althing_e2e::python::python;
use althing_e2e::{Machine, Running, cast, free_port, until};
use althing_testing::at_night;

use crate::proxied::nginx;

const CLIENTS: &str = include_str!("../../python/proxied.py");
const AGENT: &str = include_str!("../../python/silent.py");
const CERTIFICATE: &str = include_str!("../../python/certificate.py");
const SOON: Duration = Duration::from_secs(60);
/// Beside the silence.
const CLIENTS_MAX: Duration = Duration::from_secs(900);

/// How long things wait.
struct Waits {
    /// What nginx is told of it: nothing where it waits for 60 s, its default.
    proxy: &'static str,
    /// How long an agent says nothing, in seconds.
    silence: &'static str,
    /// Between requests, in seconds: about as long as nginx keeps connections.
    pauses: &'static [&'static str],
}

/// Twice as long as nginx waits; and at night ten times, without a word to nginx.
const WAITS: [Waits; 2] = [
    Waits { proxy: "proxy_read_timeout 20s;", silence: "42", pauses: &[] },
    Waits { proxy: "", silence: "630", pauses: &["30", "58", "59", "60", "61", "65"] },
];

/// nginx on a port of its own, in front of a gateway.
fn proxy(machine: &Machine, program: &Path, port: u16, gateway: &str, more: &str) -> Running {
    let (folder, at) = (machine.folder().display(), authority(gateway));
    let config = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n\
         events {{}}\nhttp {{\n  access_log off;\n  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n  \
         fastcgi_temp_path {folder}/fcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n  \
         upstream node {{ server {at}; keepalive 8; }}\n  server {{\n    listen 127.0.0.1:{port} ssl;\n    \
         ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; {more}\n    \
         location /mesh/ {{\n      proxy_pass http://node/;\n      proxy_set_header Host $host;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n}}\n"
    );
    let file = machine.write("nginx.conf", &config);
    let running = Running::start(machine.command(program).arg("-c").arg(file).arg("-e").arg("stderr"));
    until(SOON, "nginx listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    running
}

#[test]
fn official_clients_behind_tls_find_hear_and_wait_for_all_that_they_would_without() {
    let (Some(program), Some(python)) = (nginx(), python()) else { return };
    let waits = &WAITS[usize::from(at_night())];
    let machine = Machine::new();
    let port = free_port();
    let public = format!("https://localhost:{port}/mesh");
    machine.configure(&format!("[gateway]\npublic = {public:?}\n"));
    for (name, text) in [("certificate.py", CERTIFICATE), ("silent.py", AGENT), ("proxied.py", CLIENTS)] {
        machine.write(name, text);
    }
    let made = Running::start(machine.command(python).args(["certificate.py", "cert.pem", "key.pem"])).end(SOON);
    assert_eq!(made.code, 0, "{made:?}");
    let mut agent = Running::start(machine.command(python).arg("silent.py"));
    let agent_port = agent.line(SOON).expect("its port");
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    machine.json(&["adopt", "--as", "silent", &format!("http://127.0.0.1:{agent_port}")]);
    let _proxy = proxy(&machine, &program, port, &node.gateway(), waits.proxy);
    let mut clients = machine.command(python);
    clients.args(["proxied.py", &public, waits.silence]).args(waits.pauses);
    clients.env("SSL_CERT_FILE", machine.folder().join("cert.pem"));
    let outcome = Running::start(&mut clients).end(CLIENTS_MAX);
    let errors = std::fs::read_to_string(machine.folder().join("error.log")).expect("nginx has it");
    assert!(outcome.code == 0 && outcome.stdout.ends_with("PROXIED OK\n"), "{outcome:?}\n{errors}");
    assert!(!errors.contains("[error]"), "{errors}");
}

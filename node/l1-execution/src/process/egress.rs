//! What a program asks of hosts: which hosts its file names, and what the node adds to what it asks them. Who serves that is a
//! port.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use althing_keeper::Level;
use althing_keeper::channel::take_listeners;
use althing_keeper::job::{Descriptor, Job};
use althing_protocol::hex;
use althing_td::{Egress, Sandbox};
use futures::future::BoxFuture;

use super::work::Work;
use crate::containment::Refusals;
use crate::entropy::Entropy;

/// Variables by which programs find a proxy, in both spellings that are usual.
const PROXY_VARIABLES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
/// The name before the password in the address of a proxy; whoever asks needs both.
const LOGIN: &str = "althing";
/// Bytes of the password of one program.
const PASSWORD_BYTES: usize = 16;
/// Those that say what is asked without it.
const DIRECT_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// Why no program asks a host to which the node adds secrets unless it has a network of its own.
const SHARED: &str = "its file has the node add secrets to what it asks (sandbox: egress with headers), and where a program has no \
                      network of its own, every account of this machine could ask so";
/// What is asked without the proxy: the program's own loopback.
const DIRECT: &str = "localhost,127.0.0.1,::1";
/// Node.js follows the variables of proxies where this is set (since 24).
const NODE_VARIABLE: (&str, &str) = ("NODE_USE_ENV_PROXY", "1");

/// A host that the node asks for a program.
#[derive(Clone)]
pub struct AskedHost {
    /// The host, perhaps with a port, as the agent file has it: `api.example.org`, `[::1]:8443`.
    pub host: String,
    /// The path below which it is asked; empty: any.
    pub path: String,
    /// The variable by which the program is told where it asks.
    pub variable: String,
    /// What is added to each request.
    pub headers: Vec<SecretHeader>,
}

/// A header with secrets in it.
#[derive(Clone)]
pub struct SecretHeader {
    /// Its name.
    pub name: String,
    /// Its value, with the secrets.
    pub value: String,
    /// The secrets.
    pub secrets: Vec<String>,
}

impl fmt::Debug for AskedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskedHost").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The hosts that the node asks for a program, with the secrets that `secret` looks up.
///
/// # Errors
/// Those of `secret`.
pub fn asked_hosts<E>(sandbox: &Sandbox, secret: impl Fn(&str) -> Result<String, E>) -> Result<Vec<AskedHost>, E> {
    let asked = |egress: &Egress| {
        let Some(variable) = egress.variable.clone() else { return Ok(None) };
        let secrets: Vec<String> = egress.secrets().into_iter().map(&secret).collect::<Result<_, E>>()?;
        let headers = egress.headers_with(&secret)?.into_iter();
        let headers = headers.map(|(name, value)| SecretHeader { name, value, secrets: secrets.clone() }).collect();
        let (host, path) = (egress.host.clone(), egress.path.clone().unwrap_or_default());
        Ok(Some(AskedHost { host, path, variable, headers }))
    };
    sandbox.egress.iter().filter_map(|egress| asked(egress).transpose()).collect()
}

/// What a program may ask of hosts.
#[derive(Debug, Clone, Default)]
pub struct EgressRules {
    /// The hosts that it asks itself, through the proxy.
    pub hosts: Vec<String>,
    /// Those that the node asks for it.
    pub asked: Vec<AskedHost>,
}

impl EgressRules {
    /// What a file names, with the hosts that the node asks.
    #[must_use]
    pub fn of(sandbox: &Sandbox, asked: Vec<AskedHost>) -> EgressRules {
        let direct = sandbox.egress.iter().filter(|egress| egress.variable.is_none());
        EgressRules { hosts: direct.map(|egress| egress.host.clone()).collect(), asked }
    }

    fn has_secrets(&self) -> bool {
        self.asked.iter().any(|asked| !asked.headers.is_empty())
    }
}

/// Whose program asks.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The name of its agent.
    pub agent: String,
    /// What it works on.
    pub work: Work,
    /// What it is refused.
    pub refusals: Refusals,
}

/// Where the node listens for one program.
pub struct Entrance {
    /// A proxy, and after it the hosts that the node asks, in their order.
    pub listeners: Vec<TcpListener>,
    /// What the program says to the proxy, `NAME:PASSWORD`, where others reach that too; none where nobody else does.
    pub login: Option<String>,
}

/// Serves what one program asks of hosts, until it is dropped. The error is for the owner.
pub type Serve = dyn Fn(Entrance, EgressRules, Asker) -> Result<BoxFuture<'static, ()>, String> + Send + Sync;

/// Who serves what programs ask of hosts.
#[derive(Clone)]
pub struct ServeEgress {
    /// Serves it.
    pub serve: Arc<Serve>,
    /// Makes the passwords of programs.
    pub entropy: Entropy,
}

impl fmt::Debug for ServeEgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServeEgress")
    }
}

/// Where one program asks, before it runs.
pub struct Outlet {
    serve: ServeEgress,
    rules: EgressRules,
    asker: Asker,
    /// On this machine's loopback, for a program that has none of its own.
    here: Vec<TcpListener>,
    /// By this the proxy knows the program there.
    login: String,
    /// By this the sockets of its own loopback come.
    stream: UnixStream,
    /// The keeper's end of it.
    pub(super) theirs: UnixStream,
}

impl Outlet {
    /// Prepares where a contained program asks, and tells it in its environment. With secrets it is not started without a network of its
    /// own.
    ///
    /// # Errors
    /// When there is no port free, or no socket can be made.
    pub fn prepare(
        job: &mut Job,
        serve: &ServeEgress,
        rules: &EgressRules,
        asker: &Asker,
    ) -> io::Result<Option<Outlet>> {
        let Some(enclosure) = &mut job.enclosure else { return Ok(None) };
        let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let here = (0..=rules.asked.len()).map(listen).collect::<io::Result<Vec<_>>>()?;
        let ports = here.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<io::Result<Vec<_>>>()?;
        job.environment.extend(variables(&ports, &rules.asked));
        let mut password = [0_u8; PASSWORD_BYTES];
        (serve.entropy)(&mut password);
        let login = format!("{LOGIN}:{}", hex(&password));
        // Every account of the machine reaches that loopback. Its own nobody else does, and not each program knows of passwords.
        enclosure.shared_environment = proxy_variables(&ports, Some(&login));
        enclosure.ports.extend(&ports);
        // Its own loopback has the same ports, which nobody else has there.
        enclosure.listen = ports;
        enclosure.apart = rules.has_secrets().then(|| SHARED.to_owned());
        let (stream, theirs) = UnixStream::pair()?;
        job.descriptors.push(Descriptor::Listeners);
        let (serve, rules, asker) = (serve.clone(), rules.clone(), asker.clone());
        Ok(Some(Outlet { serve, rules, asker, here, login, stream, theirs }))
    }

    /// Serves what the program asks, which runs enclosed by that level.
    ///
    /// # Errors
    /// Why it cannot be served, for the owner.
    pub fn open(self, level: Level) -> Result<BoxFuture<'static, ()>, String> {
        let (listeners, login) = match level {
            Level::Namespaces => (take_listeners(&self.stream).map_err(|error| error.to_string())?, None),
            _ if self.rules.has_secrets() => return Err(SHARED.to_owned()),
            _ => (self.here, Some(self.login)),
        };
        (self.serve.serve)(Entrance { listeners, login }, self.rules, self.asker)
    }
}

/// How a program is told where it asks: at the first port through the proxy, at the others the hosts.
fn variables(ports: &[u16], asked: &[AskedHost]) -> BTreeMap<String, String> {
    let mut all = proxy_variables(ports, None);
    if !all.is_empty() {
        all.extend(DIRECT_VARIABLES.map(|name| (name.to_owned(), DIRECT.to_owned())));
        all.insert(NODE_VARIABLE.0.to_owned(), NODE_VARIABLE.1.to_owned());
    }
    for (port, asked) in ports.iter().skip(1).zip(asked) {
        all.insert(asked.variable.clone(), format!("http://127.0.0.1:{port}{}", asked.path));
    }
    all
}

/// How it is told where the proxy is: at the first port, with what it says there.
fn proxy_variables(ports: &[u16], login: Option<&str>) -> BTreeMap<String, String> {
    let login = login.map(|login| format!("{login}@")).unwrap_or_default();
    let one = |port: &u16| PROXY_VARIABLES.map(|name| (name.to_owned(), format!("http://{login}127.0.0.1:{port}")));
    ports.first().into_iter().flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU8, Ordering};

    use althing_keeper::Grants;
    use althing_keeper::job::{Enclosure, Limits};
    use serde_json::json;

    use super::*;

    fn sandbox() -> Sandbox {
        let headers = json!({ "Authorization": "Bearer {KEY}", "X-Team": "a" });
        serde_json::from_value(json!({ "egress": [
            "api.example.org",
            { "host": "models.example.org:8443", "variable": "MODELS", "path": "/v1", "headers": headers },
        ] }))
        .expect("a sandbox")
    }

    #[test]
    fn hosts_with_a_variable_are_asked_by_the_node_and_the_others_by_the_program() {
        let secret = |name: &str| Ok::<_, ()>(format!("<{name}>"));
        let rules = EgressRules::of(&sandbox(), asked_hosts(&sandbox(), secret).expect("it is there"));
        assert_eq!(rules.hosts, ["api.example.org"]);
        let [asked] = rules.asked.as_slice() else { panic!("{rules:?}") };
        assert_eq!((asked.host.as_str(), asked.path.as_str()), ("models.example.org:8443", "/v1"));
        let headers: Vec<_> =
            asked.headers.iter().map(|header| (header.name.as_str(), header.value.as_str())).collect();
        assert_eq!(headers, [("Authorization", "Bearer <KEY>"), ("X-Team", "a")]);
        assert_eq!(asked.headers[0].secrets, ["<KEY>"]);
        assert!(!format!("{rules:?}").contains("<KEY>"), "no secret is shown");
        assert_eq!(asked_hosts(&sandbox(), |name| Err::<String, _>(name.to_owned())).map(drop), Err("KEY".to_owned()));
        let told = variables(&[7, 8], &rules.asked);
        assert_eq!(told["https_proxy"], "http://127.0.0.1:7");
        assert_eq!(told["MODELS"], "http://127.0.0.1:8/v1");
        assert!(!format!("{told:?}").contains("<KEY>"), "nor told the program");
    }

    /// A job that is contained, and asks nobody yet.
    fn job() -> Job {
        let enclosure = Enclosure {
            required: false,
            grants: Grants::default(),
            temporary: "/tmp".into(),
            ports: Vec::new(),
            listen: Vec::new(),
            shared_environment: BTreeMap::new(),
            account: None,
            unhidden: None,
            apart: None,
        };
        Job {
            command: vec!["server".to_owned()],
            folder: "/".into(),
            environment: BTreeMap::new(),
            descriptors: Vec::new(),
            orphan_ms: 0,
            limits: Limits::default(),
            bridge: None,
            enclosure: Some(enclosure),
        }
    }

    #[test]
    fn a_program_whose_hosts_are_asked_with_secrets_is_not_started_without_a_network_of_its_own() {
        let serve = ServeEgress {
            serve: Arc::new(|_: Entrance, _: EgressRules, _: Asker| {
                Err::<BoxFuture<'static, ()>, String>("nobody asks".to_owned())
            }),
            entropy: Arc::new(|_: &mut [u8]| {}),
        };
        let asker = Asker { agent: String::new(), work: Work::default(), refusals: Refusals::default() };
        let asked = asked_hosts(&sandbox(), |_| Ok::<_, ()>("k".to_owned())).expect("it is there");
        let with = EgressRules::of(&sandbox(), asked);
        for (rules, apart) in [(with, Some(SHARED)), (EgressRules::default(), None)] {
            let mut job = job();
            let outlet = Outlet::prepare(&mut job, &serve, &rules, &asker).expect("a port").expect("it is contained");
            assert_eq!(job.enclosure.expect("it is contained").apart.as_deref(), apart);
            // Whoever starts it nevertheless is not served.
            assert_eq!(outlet.open(Level::Landlock).err().as_deref(), Some(apart.unwrap_or("nobody asks")));
        }
    }

    #[test]
    fn a_program_has_a_password_of_its_own_where_others_reach_its_proxy() {
        let heard = Arc::<Mutex<Vec<Option<String>>>>::default();
        let (logins, made) = (heard.clone(), AtomicU8::new(0));
        let serve = ServeEgress {
            serve: Arc::new(move |entrance: Entrance, _: EgressRules, _: Asker| {
                logins.lock().expect("whole").push(entrance.login);
                let served: BoxFuture<'static, ()> = Box::pin(std::future::ready(()));
                Ok::<_, String>(served)
            }),
            entropy: Arc::new(move |bytes: &mut [u8]| bytes.fill(made.fetch_add(1, Ordering::Relaxed))),
        };
        for (level, number) in [(Level::Landlock, "00"), (Level::Account, "01"), (Level::None, "02")] {
            let mut job = job();
            let asker = Asker { agent: String::new(), work: Work::default(), refusals: Refusals::default() };
            let outlet = Outlet::prepare(&mut job, &serve, &EgressRules::default(), &asker).expect("a port");
            let served = outlet.expect("it is contained").open(level);
            assert!(served.is_ok(), "{level:?}");
            let login = format!("althing:{}", number.repeat(PASSWORD_BYTES));
            assert_eq!(heard.lock().expect("whole").pop(), Some(Some(login.clone())), "{level:?}");
            let enclosure = job.enclosure.expect("it is contained");
            let port = enclosure.listen[0];
            for name in PROXY_VARIABLES {
                let at = format!("http://{login}@127.0.0.1:{port}");
                assert_eq!(enclosure.shared_environment[name], at, "{level:?}");
                assert_eq!(job.environment[name], format!("http://127.0.0.1:{port}"), "with a loopback of its own");
            }
        }
    }
}

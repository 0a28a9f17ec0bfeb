//! What programs ask of hosts, served by the proxy of `althing_egress`.

use std::net::IpAddr;
use std::sync::Arc;

use althing_calls::Trace;
use althing_egress::{
    Admission, Attempt, Bounds, Egress, Event, Login, NoHeaderValue, Outcome, Rules, Scheme, SecretValue, Target,
    Traces, place,
};
use althing_execution::memory::Entropy;
use althing_execution::process::{AskedHost, Asker, CallSpan, EgressRules, Entrance, ServeEgress};
use althing_execution::{Access, Lack, Refusal};
use althing_fetch::header::HeaderName;
use althing_fetch::{Fetch, FetchError, Net, SystemResolver};
use althing_node::{Act, Gates, admit_by};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use tracing::Span;

/// The port of a host that is asked by TLS, unless its file names another.
const HTTPS: u16 = 443;
/// The port of one that is asked in the clear.
const HTTP: u16 = 80;

/// Serves what programs ask of hosts, which may also lead into these nets, as the owner's policies permit it. Their passwords are
/// made by `entropy`.
///
/// # Errors
/// When no HTTP client can be made.
pub fn serve(nets: Vec<Net>, entropy: Entropy, gates: Gates) -> Result<ServeEgress, FetchError> {
    let fetch = Fetch::new(nets, Arc::new(SystemResolver))?;
    let serve = Arc::new(move |entrance, rules: EgressRules, asker: Asker| {
        let policies = Arc::new(ByPolicies { gates: gates.clone(), agent: asker.agent.clone() });
        serve_one(&fetch, entrance, &rules, (asker, policies))
    });
    Ok(ServeEgress { serve, entropy })
}

fn serve_one(
    fetch: &Fetch,
    Entrance { listeners, login }: Entrance,
    rules: &EgressRules,
    (asker, policies): (Asker, Arc<ByPolicies>),
) -> Result<BoxFuture<'static, ()>, String> {
    let hosts = Rules::read(rules.hosts.iter().map(String::as_str)).map_err(|error| error.to_string())?;
    let targets = rules.asked.iter().map(target).collect::<Result<Vec<_>, String>>()?;
    let (refusals, agent) = (asker.refusals.clone(), asker.agent.clone());
    let told = move |event: Event| {
        if let Some(refusal) = refusal(&event) {
            let words = refusals.advice(&refusal);
            if refusals.add(refusal) {
                tracing::warn!(agent, host = event.host, port = event.port, "a program was refused: {words}");
            }
        }
    };
    let egress = Egress::new(fetch.clone(), Arc::new(told), Bounds::default());
    let egress = egress.within(Arc::new(OfCalls(asker))).asking(policies);
    let mut listeners = listeners.into_iter().map(|listener| {
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    });
    let mut next = || {
        let listener = listeners.next().ok_or_else(|| "a socket of its loopback is missing".to_owned())?;
        listener.map_err(|error| error.to_string())
    };
    let login = login.map(|login| Login::new(STANDARD.encode(login)));
    let proxy = egress.clone().serve(next()?, hosts, login);
    let mut served = Vec::new();
    for target in targets {
        served.push(egress.clone().serve_host(next()?, target));
    }
    Ok(Box::pin(async move {
        futures::future::join(proxy, futures::future::join_all(served)).await;
    }))
}

/// Connections in the trace of the call that their program works on, where that is one call and no more; each other one is a
/// trace of its own, which names the agent.
struct OfCalls(Asker);

impl Traces for OfCalls {
    fn is_told(&self) -> bool {
        !self.0.work.is_hidden()
    }

    fn join(&self, span: &Span) {
        // Who only looks at what it may adopt has no agent yet.
        if !self.0.agent.is_empty() {
            span.record("gen_ai.agent.name", self.0.agent.as_str());
        }
        // By its name, as of another node: a connection that lasts longer does not keep the call's own span open.
        if let Some(CallSpan { span: call, binding_hash }) = self.0.work.only_call() {
            if !binding_hash.is_empty() {
                span.record("althing.binding.hash", &*binding_hash);
            }
            Trace::of(&call).continue_in(span);
        }
    }
}

/// The owner's policies, asked for the program of one agent.
struct ByPolicies {
    gates: Gates,
    agent: String,
}

impl Admission for ByPolicies {
    fn admit<'a>(&'a self, Attempt { host, port, method, pattern }: Attempt<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let act = Act::Egress { agent: &self.agent, host, port: Some(port), method, pattern };
            admit_by(&self.gates, &act).await.map_err(|forbidden| forbidden.reason().to_owned())
        })
    }
}

/// A host that the node asks: by TLS, unless it is this very machine.
fn target(asked: &AskedHost) -> Result<Target, String> {
    let (host, port) = place(&asked.host).map_err(|error| error.to_string())?;
    let host = if host == "localhost" { "127.0.0.1".to_owned() } else { host };
    let (scheme, usual) = if is_here(&host) { (Scheme::Http, HTTP) } else { (Scheme::Https, HTTPS) };
    let headers = asked.headers.iter().map(|header| {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|error| error.to_string())?;
        let secrets: Vec<&str> = header.secrets.iter().map(String::as_str).collect();
        let value = SecretValue::new(&header.value, &secrets).map_err(|error: NoHeaderValue| error.to_string())?;
        Ok((name, value))
    });
    let headers = headers.collect::<Result<Vec<_>, String>>()?;
    Target::new(scheme, &host, port.unwrap_or(usual), &asked.path, headers).map_err(|error| error.to_string())
}

/// Whether a host is this very machine, by its address.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What a program was refused, and what it lacks; none if it reached the host.
fn refusal(event: &Event) -> Option<Refusal> {
    let Event { host, port, outcome } = event;
    let lack = match outcome {
        Outcome::Reached => return None,
        // What is asked on this machine is not asked through the proxy.
        Outcome::Denied { .. } if is_here(host) => Lack::Service(format!("127.0.0.1:{port}")),
        Outcome::Denied { write } => Lack::Host(write.clone()),
        Outcome::Failed { why } | Outcome::Forbidden { why } => Lack::Answer(why.clone()),
    };
    Some(Refusal { access: Access::Connect, path: format!("{host}:{port}"), lack })
}

#[cfg(test)]
mod tests {
    use althing_execution::process::SecretHeader;

    use super::*;

    fn asked(host: &str) -> AskedHost {
        let header = SecretHeader {
            name: "Authorization".to_owned(),
            value: "Bearer k".to_owned(),
            secrets: vec!["k".to_owned()],
        };
        AskedHost { host: host.to_owned(), path: String::new(), variable: "URL".to_owned(), headers: vec![header] }
    }

    #[test]
    fn a_host_is_asked_by_tls_unless_it_is_this_machine() {
        for (host, expected) in [
            ("api.example.org", ("api.example.org", 443)),
            ("api.example.org:8443", ("api.example.org", 8443)),
            ("127.0.0.1:11434", ("127.0.0.1", 11_434)),
            ("localhost", ("127.0.0.1", 80)),
            ("[::1]", ("::1", 80)),
        ] {
            let target = target(&asked(host)).expect(host);
            assert_eq!((target.host(), target.port()), expected);
        }
    }

    #[test]
    fn what_was_refused_is_told_with_what_is_lacking() {
        let event = |outcome| Event { host: "api.example.org".to_owned(), port: 443, outcome };
        assert_eq!(refusal(&event(Outcome::Reached)), None);
        let denied = event(Outcome::Denied { write: "api.example.org".to_owned() });
        let said = |event| refusal(event).map(|refusal| (refusal.to_string(), refusal.lack));
        let words = "connect to api.example.org:443".to_owned();
        assert_eq!(said(&denied), Some((words.clone(), Lack::Host("api.example.org".to_owned()))));
        let here = Event { host: "127.0.0.1".to_owned(), ..denied.clone() };
        let service = Lack::Service("127.0.0.1:443".to_owned());
        assert_eq!(said(&here), Some(("connect to 127.0.0.1:443".to_owned(), service)));
        let why = "the owner's policies forbid it (no-shop)".to_owned();
        let forbidden = event(Outcome::Forbidden { why: why.clone() });
        assert_eq!(said(&forbidden), Some((words.clone(), Lack::Answer(why))), "no change of its file grants it");
        let failed = event(Outcome::Failed { why: "it does not answer".to_owned() });
        assert_eq!(said(&failed), Some((words, Lack::Answer("it does not answer".to_owned()))));
    }
}

//! The proxy: tunnels and plain requests to the hosts that the agent file names.

use std::sync::Mutex;

use althing_fetch::{Given, Url, spelling};
use http::{Method, Request, Uri};
use hyper::body::Incoming;
use tracing::Instrument as _;

use crate::admission;
use crate::answers::{self, Answer};
use crate::egress::Egress;
use crate::forward::forward;
use crate::machine::login::Login;
use crate::machine::rules::{Rules, Verdict};
use crate::told::Exchange;
use crate::tunnel::Tunnel;

/// What is served to whom.
pub(crate) struct Proxy {
    /// The hosts.
    pub(crate) rules: Rules,
    /// What whoever asks must have.
    pub(crate) login: Option<Login>,
}

/// Answers a request of a program. A tunnel that begins with the answer is left in `tunnel`.
pub(crate) async fn answer(
    egress: &Egress,
    Proxy { rules, login }: &Proxy,
    tunnel: &Mutex<Option<Tunnel>>,
    request: Request<Incoming>,
) -> Answer {
    if login.as_ref().is_some_and(|login| !login.is_in(request.headers())) {
        return answers::unknown();
    }
    if request.method() == Method::CONNECT {
        return connect(egress, rules, tunnel, request).await;
    }
    // Whoever asks by https through a proxy asks for a tunnel.
    if request.uri().scheme_str() != Some("http") {
        return answers::proxy();
    }
    let Ok(url) = Url::parse(&request.uri().to_string()) else { return answers::proxy() };
    let host = url.host_str().and_then(|host| spelling(host).ok());
    let (Some(host), Some(port)) = (host, url.port_or_known_default()) else { return answers::proxy() };
    let method = admission::word(request.method());
    match admitted(egress, rules, (host.as_str(), port), Some(method)).await {
        Ok(exchange) => forward(egress, exchange, request, url, None).await,
        Err(denied) => *denied,
    }
}

async fn connect(
    egress: &Egress,
    rules: &Rules,
    tunnel: &Mutex<Option<Tunnel>>,
    mut request: Request<Incoming>,
) -> Answer {
    let Some((host, port)) = named(request.uri()) else { return answers::proxy() };
    let exchange = match admitted(egress, rules, (host.as_str(), port), None).await {
        Ok(exchange) => exchange,
        Err(denied) => return *denied,
    };
    match egress.fetch.dial(&host, port, Given::Stranger).instrument(exchange.span()).await {
        Ok(origin) => {
            exchange.reached();
            let begun = Tunnel::new(hyper::upgrade::on(&mut request), origin, exchange);
            *tunnel.lock().expect("no holder panics") = Some(begun);
            answers::empty()
        }
        Err(error) => {
            exchange.failed(&error);
            answers::failed(&host, port, &error)
        }
    }
}

/// What a program asks for, if the agent file names the host, and whoever decides on that admits it.
async fn admitted(
    egress: &Egress,
    rules: &Rules,
    (host, port): (&str, u16),
    method: Option<&str>,
) -> Result<Exchange, Box<Answer>> {
    let exchange = Exchange::begin(&egress.told, &*egress.traces, host, port);
    match rules.allows(host, port) {
        Verdict::Allowed { pattern } => {
            admission::admitted(&*egress.admission, exchange, (method, pattern.as_deref())).await
        }
        Verdict::Denied { write } => {
            exchange.denied(&write);
            Err(Box::new(answers::denied(host, port, &write)))
        }
    }
}

/// The host and port to which a tunnel is asked for.
fn named(uri: &Uri) -> Option<(String, u16)> {
    let authority = uri.authority()?;
    // What stands before an @ can make one host look like another.
    if authority.as_str().contains('@') {
        return None;
    }
    Some((spelling(authority.host()).ok()?, authority.port_u16()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_names_a_host_and_a_port() {
        let named = |text: &str| super::named(&text.parse::<Uri>().expect("a URI"));
        assert_eq!(named("API.example.org:443"), Some(("api.example.org".to_owned(), 443)));
        assert_eq!(named("[::1]:8443"), Some(("::1".to_owned(), 8443)));
        for wrong in ["api.example.org", "user@api.example.org:443", "/path"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }
}

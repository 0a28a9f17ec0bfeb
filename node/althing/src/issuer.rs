//! The issuer of tokens for the gateway: what it publishes is read by the guarded fetch.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::WallClock;
use althing_fetch::{Fetch, Given, Limits, SystemResolver, Url};
use althing_gateway::{Issuer, Publications};
use futures::future::BoxFuture;

use crate::config::Config;

/// Of what an issuer publishes.
const LIMITS: Limits = Limits { bytes: 256 << 10, time: Duration::from_secs(5) };

/// The issuer of the configuration, if there is one.
pub fn of(config: &Config, clock: WallClock) -> Option<Issuer> {
    let issuer = config.gateway.oauth.issuer()?;
    let hosts =
        [Some(&issuer.issuer), issuer.jwks.as_ref()].into_iter().flatten().filter_map(|url| host(url)).collect();
    let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver));
    let fetch = fetch.inspect_err(|error| tracing::warn!(%error, "tokens of the issuer cannot be verified")).ok()?;
    Some(Issuer::new(issuer, Arc::new(Published { fetch, hosts }), Box::new(move || clock.now_ms() / 1_000)))
}

/// What is on the internet, and on the hosts that the operator named, wherever they are.
#[derive(Debug)]
struct Published {
    fetch: Fetch,
    hosts: Vec<String>,
}

impl Publications for Published {
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            if !althing_td::keeps_bearer(url) {
                return Err("keys are read over https only".to_owned());
            }
            let parsed = Url::parse(url).map_err(|error| error.to_string())?;
            let is_named = host(url).is_some_and(|host| self.hosts.contains(&host));
            let given = if is_named { Given::Operator } else { Given::Stranger };
            self.fetch.get(&parsed, given, "application/json", LIMITS).await.map_err(|error| error.to_string())
        })
    }
}

/// Host and port of an address.
fn host(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

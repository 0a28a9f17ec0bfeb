//! The issuer of tokens for the gateway: what it publishes is read by the guarded fetch.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::WallClock;
use althing_fetch::{Fetch, Given, Limits, SystemResolver, Url};
use althing_gateway::{Issuer, Publications};
use futures::future::BoxFuture;

use crate::config::Config;
use crate::exit::Failure;

/// Of what an issuer publishes.
const LIMITS: Limits = Limits { bytes: 256 << 10, time: Duration::from_secs(5) };

/// What the issuer of the configuration publishes, if there is one. A node that could not read it would know none of its users,
/// so it does not start.
///
/// # Errors
/// Nothing can be read over https: most often there are no CA certificates.
pub fn published(config: &Config) -> Result<Option<Published>, Failure> {
    let Some(issuer) = config.gateway.oauth.issuer() else { return Ok(None) };
    let hosts =
        [Some(&issuer.issuer), issuer.jwks.as_ref()].into_iter().flatten().filter_map(|url| host(url)).collect();
    let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver)).map_err(|error| {
        Failure::failed(format!(
            "`gateway.oauth`: the keys of {} cannot be read over https: {error}. Install the CA certificates of your system \
             (ca-certificates), or set SSL_CERT_FILE to a file that has some",
            issuer.issuer
        ))
    })?;
    Ok(Some(Published { fetch, hosts }))
}

/// The issuer of the configuration.
pub fn of(config: &Config, published: Published, clock: WallClock) -> Option<Issuer> {
    let issuer = config.gateway.oauth.issuer()?;
    Some(Issuer::new(issuer, Arc::new(published), Box::new(move || clock.now_ms() / 1_000)))
}

/// What is on the internet, and on the hosts that the operator named, wherever they are.
#[derive(Debug)]
pub struct Published {
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

//! `althing mcp`: a small process between a client and the running node's gateway.

use std::net::SocketAddr;

use althing_api::NodeStatus;
use althing_mcp_server::BridgeError;

use crate::args::Mcp;
use crate::commands::agent::escape;
use crate::config::Config;
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// The environment variable with the token of a user of the gateway; without it that of the configuration is used.
const TOKEN_VARIABLE: &str = "ALTHING_GATEWAY_TOKEN";

/// Serves MCP on standard input and output until the client closes its end. Standard output carries nothing else.
pub async fn run(at: &Paths, mcp: &Mcp) -> Result<(), Failure> {
    let status: NodeStatus = at.connect().await?.read("/status").await?;
    let url = status.gateway.as_deref().unwrap_or_default();
    if url.starts_with("https://") {
        return Err(Failure::failed(format!(
            "this node's gateway speaks TLS, and `althing mcp` does not; let the client use {url}/mcp itself, by HTTP"
        )));
    }
    let gateway = url.strip_prefix("http://");
    let gateway: SocketAddr = gateway.and_then(|address| address.parse().ok()).ok_or_else(|| {
        Failure::failed("this node has no gateway, which serves MCP; `gateway.listen` in althing.toml sets one")
    })?;
    let token = match std::env::var(TOKEN_VARIABLE) {
        Ok(token) => token,
        Err(_) => Config::read(&at.config, at.config_named)?.gateway.token,
    };
    let url = format!("http://{}/mcp{}", reached(gateway), query(mcp));
    let token = (!token.is_empty()).then_some(token.as_str());
    let bridging = althing_mcp_server::bridge(&url, token, tokio::io::stdin(), tokio::io::stdout());
    Box::pin(bridging).await.map_err(|error| match error {
        BridgeError::Unauthorised => Failure::new(code::REFUSED, unauthorised(token.is_some())),
        error => Failure::failed(error.to_string()),
    })
}

/// What to do about a gateway that refuses the token, or that there is none.
fn unauthorised(shown: bool) -> String {
    let what = if shown { "does not accept the token that it was shown" } else { "wants a token, and there is none" };
    format!(
        "this node's gateway {what}: put the token of one of its users (`althing token add NAME`) into the variable \
         {TOKEN_VARIABLE}, in the client's `env`; without the variable that of `gateway.token` in althing.toml is shown"
    )
}

/// Where this machine reaches a listener, which may listen on all addresses.
fn reached(gateway: SocketAddr) -> SocketAddr {
    match gateway {
        SocketAddr::V4(address) if address.ip().is_unspecified() => {
            SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port())
        }
        SocketAddr::V6(address) if address.ip().is_unspecified() => {
            SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), address.port())
        }
        address => address,
    }
}

/// Which agents are listed.
fn query(mcp: &Mcp) -> String {
    let agents = mcp.mesh.then_some(("agents", "mesh"));
    let named = [("agent", &mcp.agent), ("capability", &mcp.capability), ("text", &mcp.text)];
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let all: Vec<String> =
        agents.into_iter().chain(named).map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_on_loopback() {
        for (listens, at) in
            [("0.0.0.0:7420", "127.0.0.1:7420"), ("[::]:7420", "[::1]:7420"), ("192.0.2.7:80", "192.0.2.7:80")]
        {
            assert_eq!(reached(listens.parse().expect("an address")).to_string(), at);
        }
    }

    #[test]
    fn what_is_listed_stands_in_the_query() {
        let mcp = |mesh, capability: Option<&str>, text: Option<&str>| Mcp {
            mesh,
            capability: capability.map(str::to_owned),
            text: text.map(str::to_owned),
            agent: None,
        };
        assert_eq!(query(&mcp(false, None, None)), "");
        assert_eq!(query(&Mcp { agent: Some("files".to_owned()), ..mcp(false, None, None) }), "?agent=files");
        assert_eq!(
            query(&mcp(true, Some("billing.*"), Some("a & ä"))),
            "?agents=mesh&capability=billing.%2A&text=a%20%26%20%C3%A4"
        );
    }
}

//! One connection to an address that was checked, for whoever speaks something else than our HTTP on it.

use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;

use crate::address::{Host, host_of, url_of};
use crate::{CONNECT_MAX, Fetch, FetchError, Given};

/// An address of a name has so long before the next is tried beside it (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

impl Fetch {
    /// Connects to a host: a name, or an address in any notation. It leads where a URL of that host and port would:
    /// ports of other protocols are refused, the name is resolved once, its addresses are checked as `given` says, and
    /// one of these addresses is what is connected to. Of several the first that answers.
    ///
    /// # Errors
    /// [`FetchError::Url`], [`FetchError::Blocked`], [`FetchError::Elsewhere`], [`FetchError::Unresolved`],
    /// [`FetchError::TooLate`], [`FetchError::Closed`] and [`FetchError::Transport`].
    pub async fn dial(&self, host: &str, port: u16, given: Given) -> Result<TcpStream, FetchError> {
        let url = url_of(host, port)?;
        self.check(&url, given)?;
        let host = host_of(&url)?;
        let connected = async {
            let addresses = match host {
                Host::Address(address) => vec![SocketAddr::new(address, port)],
                Host::Name(name) => self.addresses(&name, port, given).await?,
            };
            first(addresses).await
        };
        let late = |_| Err(FetchError::TooLate(CONNECT_MAX.as_millis()));
        tokio::time::timeout(CONNECT_MAX, connected).await.unwrap_or_else(late)
    }

    /// The addresses of a name, as the client for such URLs is given them: each was checked.
    async fn addresses(&self, name: &str, port: u16, given: Given) -> Result<Vec<SocketAddr>, FetchError> {
        let names = if given == Given::Operator { &self.free_names } else { &self.guarded_names };
        let name: reqwest::dns::Name = name.parse().map_err(|_| FetchError::Url("it names no host"))?;
        let found = match names.resolve(name).await {
            Ok(found) => found,
            Err(error) => {
                return Err(match error.downcast::<FetchError>() {
                    Ok(ours) => *ours,
                    Err(other) => FetchError::Unresolved(other.to_string()),
                });
            }
        };
        Ok(found.map(|address| SocketAddr::new(address.ip(), port)).collect())
    }
}

/// A connection to the first of these addresses that takes one.
async fn first(addresses: Vec<SocketAddr>) -> Result<TcpStream, FetchError> {
    let attempt = |(turn, address): (u32, SocketAddr)| async move {
        if turn > 0 {
            tokio::time::sleep(STAGGER * turn).await;
        }
        let stream = TcpStream::connect(address).await?;
        // What is said on it may be small, and would wait for the acknowledgement of what was said before.
        stream.set_nodelay(true)?;
        Ok::<TcpStream, std::io::Error>(stream)
    };
    let mut attempts: FuturesUnordered<_> = (0..).zip(addresses).map(attempt).collect();
    let mut failed = FetchError::Unresolved("it has no address".to_owned());
    while let Some(attempt) = attempts.next().await {
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = why(&error),
        }
    }
    Err(failed)
}

fn why(error: &std::io::Error) -> FetchError {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => FetchError::Closed,
        _ => FetchError::Transport(error.to_string()),
    }
}

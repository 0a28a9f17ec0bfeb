//! Resolves names to addresses, each of which is checked before the client connects to it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolving};

use crate::error::FetchError;
use crate::nets::Net;
use crate::permitted_all;

/// The addresses of one name that are checked.
pub(crate) const ADDRESSES_MAX: usize = 16;

/// Resolves names.
pub trait Resolve: Send + Sync {
    /// The addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>>;
}

/// The resolver of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        async move {
            let found = tokio::net::lookup_host((name, 0)).await.map_err(|error| error.to_string())?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    }
}

/// The only resolver of the HTTP client.
pub(crate) struct Guarded {
    pub resolver: Arc<dyn Resolve>,
    /// None: addresses are not checked, since the operator wrote the name.
    pub exceptions: Option<Arc<[Net]>>,
}

impl reqwest::dns::Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, exceptions) = (self.resolver.clone(), self.exceptions.clone());
        Box::pin(async move {
            let found = resolver.resolve(name.as_str()).await.map_err(FetchError::Unresolved)?;
            let found: Vec<SocketAddr> =
                found.into_iter().take(ADDRESSES_MAX).map(|address| SocketAddr::new(address, 0)).collect();
            if found.is_empty() {
                return Err(FetchError::Unresolved("it has no address".to_owned()).into());
            }
            if let Some(exceptions) = &exceptions {
                permitted_all(&found, exceptions)?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

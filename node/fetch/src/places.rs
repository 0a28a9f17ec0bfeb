//! Where names lead, and clients that follow them nowhere else: whoever has a name may let it lead elsewhere at any time (DNS
//! rebinding).

use std::collections::BTreeSet;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolving};
use reqwest::{ClientBuilder, Url};

use crate::address::{Host, host_of};
use crate::error::FetchError;
use crate::nets::{METADATA_NAME, blocked, is_metadata};
use crate::resolve::{ADDRESSES_MAX, Resolve};

/// Who can be at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A program of this machine.
    Loopback,
    /// Somebody in a net that is not routed on the internet.
    Private,
    /// Anybody.
    Internet,
}

impl Place {
    /// Where an address is. None where clouds keep a machine's secrets: no name may lead there.
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        if is_metadata(address) {
            return None;
        }
        // Linux takes the unspecified address for its own.
        Some(match blocked(address, &[]) {
            _ if address.is_loopback() || address.is_unspecified() => Place::Loopback,
            Some(_) => Place::Private,
            None => Place::Internet,
        })
    }
}

/// The places to which the name in a URL leads now. None for a literal address, which leads nowhere else later.
///
/// # Errors
/// [`FetchError::Url`], [`FetchError::Unresolved`], and [`FetchError::Blocked`] for an address where clouds keep secrets.
pub async fn places(url: &str, resolver: &dyn Resolve) -> Result<BTreeSet<Place>, FetchError> {
    let url: Url = url.parse().map_err(|_| FetchError::Url("it is no URL"))?;
    let Host::Name(name) = host_of(&url)? else { return Ok(BTreeSet::new()) };
    let found = resolver.resolve(&name).await.map_err(FetchError::Unresolved)?;
    if found.is_empty() {
        return Err(FetchError::Unresolved("it has no address".to_owned()));
    }
    let place = |address| Place::of(address).ok_or(FetchError::Blocked { address, net: METADATA_NAME });
    found.into_iter().map(place).collect()
}

/// Resolves names for a client of its own, and gives it only the addresses that are at these places.
pub(crate) struct Bound {
    pub resolver: Arc<dyn Resolve>,
    pub places: BTreeSet<Place>,
}

impl reqwest::dns::Resolve for Bound {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, places) = (self.resolver.clone(), self.places.clone());
        Box::pin(async move {
            let found = resolver.resolve(name.as_str()).await.map_err(FetchError::Unresolved)?;
            let kept = kept(&found, &places)?;
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

/// The addresses that are at one of these places; an error if there is none.
fn kept(found: &[IpAddr], places: &BTreeSet<Place>) -> Result<Vec<SocketAddr>, FetchError> {
    let is_kept = |address: &&IpAddr| Place::of(**address).is_some_and(|place| places.contains(&place));
    let kept: Vec<SocketAddr> =
        found.iter().filter(is_kept).take(ADDRESSES_MAX).map(|address| SocketAddr::new(*address, 0)).collect();
    match (kept.is_empty(), found.first()) {
        (false, _) => Ok(kept),
        (true, Some(address)) => Err(FetchError::Elsewhere(*address)),
        (true, None) => Err(FetchError::Unresolved("it has no address".to_owned())),
    }
}

/// Has a client follow names to these places only. A name is resolved once for each connection, and the addresses that were
/// checked are those that are connected to.
pub fn bound(builder: ClientBuilder, resolver: Arc<dyn Resolve>, places: BTreeSet<Place>) -> ClientBuilder {
    builder.dns_resolver(Arc::new(Bound { resolver, places }))
}

/// Why a client that is bound did not connect, if that is why its request failed.
#[must_use]
pub fn refusal<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a FetchError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<FetchError>() {
            return Some(ours);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_address_is_at_one_place_and_where_clouds_keep_secrets_nobody_is() {
        for (place, addresses) in [
            (Some(Place::Loopback), &["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"][..]),
            (Some(Place::Private), &["10.1.2.3", "192.168.0.1", "169.254.1.1", "fd00::1", "fe80::1", "100.64.0.1"]),
            (Some(Place::Internet), &["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"]),
            (None, &["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254"]),
        ] {
            for one in addresses {
                assert_eq!(Place::of(address(one)), place, "{one}");
            }
        }
    }

    #[test]
    fn of_several_addresses_those_are_left_that_are_where_the_name_may_lead() {
        let found = [address("127.0.0.1"), address("192.168.0.7"), address("1.1.1.1")];
        let kept = |places: &[Place]| {
            let kept = super::kept(&found, &places.iter().copied().collect())?;
            Ok::<Vec<IpAddr>, FetchError>(kept.iter().map(SocketAddr::ip).collect())
        };
        assert_eq!(kept(&[Place::Internet]), Ok(vec![found[2]]));
        assert_eq!(kept(&[Place::Private, Place::Loopback]), Ok(vec![found[0], found[1]]));
        let none = BTreeSet::from([Place::Internet]);
        assert_eq!(super::kept(&found[..2], &none), Err(FetchError::Elsewhere(found[0])));
        assert!(matches!(super::kept(&[], &none), Err(FetchError::Unresolved(_))));
    }
}

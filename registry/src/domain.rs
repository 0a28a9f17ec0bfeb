//! Looks for the proofs of domains: `https://DOMAIN/.well-known/althing-registry`, a text of one organisation's id on each line,
//! and TXT records `althing=URN` of `_althing.DOMAIN`.

use std::sync::Arc;
use std::time::Duration;

use althing_fetch::{Fetch, FetchError, Given, Limits, Url};
use althing_protocol::PublisherId;
use althing_protocol::registry::{Domain, DomainFinding, Means};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use futures::{FutureExt as _, pin_mut};
use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::proto::rr::{RData, Record};

use crate::service::{Registry, RequestError};

/// Bytes of the text at the well-known address.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// How long a look-up may take.
const TIME_MAX: Duration = Duration::from_secs(10);
/// TXT records of one name that are read.
const RECORDS_MAX: usize = 32;
/// Between two looks at which proofs are due.
const LOOK_EVERY: Duration = Duration::from_secs(15 * 60);
/// Proofs that are looked for at one time: domains that do not answer must not keep others waiting.
const LOOKS_AT_ONCE: usize = 32;
/// What a TXT record begins with.
const RECORD: &str = "althing=";

/// Where a registry looks for proofs.
pub trait DomainLookup: Send + Sync {
    /// The text at the well-known address of a domain; none if there is none.
    ///
    /// # Errors
    /// It could not be looked for.
    fn well_known<'a>(&'a self, domain: &'a Domain) -> BoxFuture<'a, Result<Option<String>, String>>;

    /// The TXT records of `_althing.DOMAIN`; none if there are none.
    ///
    /// # Errors
    /// They could not be looked for.
    fn records<'a>(&'a self, domain: &'a Domain) -> BoxFuture<'a, Result<Vec<String>, String>>;
}

/// What was found of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// The domain names the organisation.
    Proven(Means),
    /// It does not, in none of these places.
    Not(Vec<Means>),
    /// It could not be looked for.
    Unknown(String),
}

/// Looks for the proof of a domain in the places that are given.
pub async fn look(lookup: &dyn DomainLookup, domain: &Domain, organisation: PublisherId, places: &[Means]) -> Looked {
    let wanted = organisation.to_string();
    let (mut not, mut unknown) = (Vec::new(), None);
    for means in places {
        let found = match means {
            Means::WellKnown => lookup
                .well_known(domain)
                .await
                .map(|text| text.is_some_and(|text| text.lines().any(|line| line.trim() == wanted))),
            Means::Dns => lookup.records(domain).await.map(|records| {
                records.iter().any(|record| record.trim().strip_prefix(RECORD) == Some(wanted.as_str()))
            }),
            Means::Operator => continue,
        };
        match found {
            Ok(true) => return Looked::Proven(*means),
            Ok(false) => not.push(*means),
            Err(error) => unknown = Some(format!("{}: {error}", means.name())),
        }
    }
    unknown.map_or(Looked::Not(not), Looked::Unknown)
}

/// Looks for the proof of an organisation's domain now, and writes down what was found.
///
/// # Errors
/// See [`RequestError`].
pub async fn prove(
    registry: &Registry,
    lookup: &dyn DomainLookup,
    organisation: PublisherId,
) -> Result<(Domain, Looked), RequestError> {
    let domain = registry.names().claimed_domain(organisation)?;
    let looked = look(lookup, &domain, organisation, &[Means::WellKnown, Means::Dns]).await;
    write_down(registry, &domain, organisation, &looked).await?;
    Ok((domain, looked))
}

/// Repeats the proofs that are due; how many were looked for.
///
/// # Errors
/// See [`RequestError`].
pub async fn repeat(registry: &Registry, lookup: &dyn DomainLookup) -> Result<usize, RequestError> {
    let due = registry.names().due_proofs();
    let count = due.len();
    let looks = due.into_iter().map(|(domain, organisation, means)| async move {
        let looked = look(lookup, &domain, organisation, &[means]).await;
        (domain, organisation, looked)
    });
    let all_looked = stream::iter(looks).buffer_unordered(LOOKS_AT_ONCE);
    pin_mut!(all_looked);
    while let Some((domain, organisation, looked)) = all_looked.next().await {
        if let Looked::Unknown(error) = &looked {
            tracing::warn!(%domain, error, "the proof of a domain could not be repeated");
        }
        write_down(registry, &domain, organisation, &looked).await?;
    }
    Ok(count)
}

async fn write_down(
    registry: &Registry,
    domain: &Domain,
    organisation: PublisherId,
    looked: &Looked,
) -> Result<(), RequestError> {
    let finding = |means, proven| DomainFinding { domain: domain.clone(), organisation, means, proven };
    match looked {
        Looked::Proven(means) => {
            registry.names().found(finding(*means, true)).await?;
        }
        Looked::Not(places) => {
            for means in places {
                registry.names().found(finding(*means, false)).await?;
            }
        }
        // Nobody knows anything new; an old proof gets older.
        Looked::Unknown(_) => {}
    }
    Ok(())
}

/// Repeats proofs for as long as the registry runs.
pub async fn keep_proving(registry: Arc<Registry>, lookup: Arc<dyn DomainLookup>) {
    loop {
        if let Err(error) = repeat(&registry, lookup.as_ref()).await {
            tracing::error!(%error, "the proofs of domains could not be repeated");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Looks in the internet.
pub struct Internet {
    fetch: Fetch,
    resolver: TokioResolver,
}

impl Internet {
    /// With the system's name servers.
    ///
    /// # Errors
    /// The name servers cannot be read.
    pub fn new(fetch: Fetch) -> Result<Internet, String> {
        let builder = TokioResolver::builder_tokio().map_err(|error| error.to_string())?;
        Ok(Internet { fetch, resolver: builder.build().map_err(|error| error.to_string())? })
    }
}

impl DomainLookup for Internet {
    fn well_known<'a>(&'a self, domain: &'a Domain) -> BoxFuture<'a, Result<Option<String>, String>> {
        well_known(&self.fetch, domain).boxed()
    }

    fn records<'a>(&'a self, domain: &'a Domain) -> BoxFuture<'a, Result<Vec<String>, String>> {
        async move {
            let name = format!("_althing.{domain}.");
            let found = tokio::time::timeout(TIME_MAX, self.resolver.txt_lookup(name)).await;
            match found.map_err(|_| "no name server answers in time".to_owned())? {
                Ok(found) => Ok(texts(&found)),
                Err(error) if error.is_no_records_found() => Ok(Vec::new()),
                Err(error) => Err(error.to_string()),
            }
        }
        .boxed()
    }
}

/// The text at the well-known address.
async fn well_known(fetch: &Fetch, domain: &Domain) -> Result<Option<String>, String> {
    let url =
        Url::parse(&format!("https://{domain}/.well-known/althing-registry")).map_err(|error| error.to_string())?;
    let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
    match fetch.get(&url, Given::Stranger, "text/plain", limits).await {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(FetchError::Status(404 | 410)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The texts of the answers: each record may be cut into pieces.
fn texts(found: &Lookup) -> Vec<String> {
    let text = |record: &Record| match &record.data {
        RData::TXT(text) => Some(String::from_utf8_lossy(&text.txt_data.concat()).into_owned()),
        _ => None,
    };
    found.answers().iter().filter_map(text).take(RECORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What a domain shows.
    struct Shows {
        text: Mutex<Result<Option<String>, String>>,
        records: Mutex<Result<Vec<String>, String>>,
    }

    impl Shows {
        fn new() -> Shows {
            Shows { text: Mutex::new(Ok(None)), records: Mutex::new(Ok(Vec::new())) }
        }
    }

    impl DomainLookup for Shows {
        fn well_known<'a>(&'a self, _: &'a Domain) -> BoxFuture<'a, Result<Option<String>, String>> {
            let shown = self.text.lock().expect("no holder panics").clone();
            async move { shown }.boxed()
        }

        fn records<'a>(&'a self, _: &'a Domain) -> BoxFuture<'a, Result<Vec<String>, String>> {
            let shown = self.records.lock().expect("no holder panics").clone();
            async move { shown }.boxed()
        }
    }

    #[tokio::test]
    async fn a_domain_names_an_organisation_in_one_of_two_places() {
        let (org, other) = (PublisherId::from_digest([1; 32]), PublisherId::from_digest([2; 32]));
        let (shows, domain) = (Shows::new(), "example.org".parse::<Domain>().expect("a domain"));
        let places = [Means::WellKnown, Means::Dns];
        let looked = async || look(&shows, &domain, org, &places).await;
        assert_eq!(looked().await, Looked::Not(places.to_vec()));
        *shows.text.lock().expect("no holder panics") = Ok(Some(format!("{other}\n {org} \n")));
        assert_eq!(looked().await, Looked::Proven(Means::WellKnown));
        *shows.text.lock().expect("no holder panics") = Err("it does not answer".to_owned());
        assert!(matches!(looked().await, Looked::Unknown(_)), "not to know is not to find nothing");
        for record in [format!("althing={other}"), format!("{org}"), format!("althing={org}x")] {
            *shows.records.lock().expect("no holder panics") = Ok(vec![record]);
            assert!(matches!(looked().await, Looked::Unknown(_)));
        }
        *shows.records.lock().expect("no holder panics") = Ok(vec!["v=spf1".to_owned(), format!("althing={org}")]);
        assert_eq!(looked().await, Looked::Proven(Means::Dns));
    }

    #[tokio::test]
    async fn the_well_known_address_leads_to_no_private_net() {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let fetch = Fetch::new(Vec::new(), Arc::new(Loopback)).expect("a client");
        let found = well_known(&fetch, &"example.org".parse().expect("a domain")).await;
        assert!(found.expect_err("it is refused").contains("127.0.0.1"));
    }

    /// Every name leads to this machine.
    struct Loopback;

    impl althing_fetch::Resolve for Loopback {
        fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<std::net::IpAddr>, String>> {
            async { Ok(vec![std::net::IpAddr::from([127, 0, 0, 1])]) }.boxed()
        }
    }
}

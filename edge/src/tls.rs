//! TLS 1.3 of the gateway. Certificates and keys are read again when their files change; a key that others may read is
//! refused.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_protocol::digest;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::users::{LOOKED_AT_EVERY, Scope, User};

/// Bytes of a file of certificates or of a key.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;
/// What the name of a user ends with that a certificate names.
const CERTIFIED: &str = "@cert";
/// What the name of a user begins with whose subject is no name.
const BY_DIGEST: &str = "subject-";
/// Characters of a user's name before that ending.
const NAME_MAX: usize = 48;

/// The files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its issuer (PEM).
    pub cert: PathBuf,
    /// Its key (PEM), which only its owner may read.
    pub key: PathBuf,
    /// Certificates of issuers (PEM): if set, a client must show a certificate that one of them issued.
    pub client_ca: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; check the path, and that the file belongs to whoever runs the node", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others may read the key.
    #[error("{} is the gateway's key, but its mode {mode:04o} opens it to others; if only you have had access, run: chmod 600 {}", .path.display(), .path.display())]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file holds something else.
    #[error("{} has no {wanted} in PEM: {why}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        wanted: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Certificate and key do not fit, or cannot be used.
    #[error("certificate {} and key {} cannot be used: {why}", .cert.display(), .key.display())]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        why: String,
    },
}

/// What tells one version of a file from another.
type Stamp = (u64, u64, i64, i64);

/// TLS with the files as they are now.
pub struct Tls {
    files: TlsFiles,
    /// The time at which certificates are valid, or not.
    time: Arc<dyn TimeProvider>,
    read: Mutex<(Vec<Stamp>, Arc<ServerConfig>)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn open(files: TlsFiles) -> Result<Tls, TlsError> {
        Tls::at(files, Arc::new(DefaultTimeProvider))
    }

    fn at(files: TlsFiles, time: Arc<dyn TimeProvider>) -> Result<Tls, TlsError> {
        let stamps = stamps(&files);
        let config = configure(&files, &time)?;
        Ok(Tls { files, time, read: Mutex::new((stamps, config)) })
    }

    /// Who a client is by the certificates that it showed, its own first. They were verified.
    pub(crate) fn certified(&self, shown: &[CertificateDer<'_>]) -> Option<Certified> {
        let user = user(shown.first()?)?;
        // One of an issuer may end before those that it issued.
        let until = shown.iter().map(not_after).min()??;
        Some(Certified { user: Arc::new(user), until, time: self.time.clone() })
    }

    /// Whether clients must show certificates.
    #[must_use]
    pub(crate) fn asks_clients(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// What a new connection uses. If files have changed and are wrong now, those before stay in use, and the log says why.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        let stamps = stamps(&self.files);
        let mut read = self.read.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if read.0 != stamps {
            match configure(&self.files, &self.time) {
                Ok(config) => {
                    tracing::info!("the gateway's certificates have changed, and are in use");
                    read.1 = config;
                }
                Err(error) => tracing::error!(%error, "the gateway's certificates have changed; those before are used"),
            }
            read.0 = stamps;
        }
        read.1.clone()
    }

    /// The same for a connection on which HTTP/1.1 is spoken.
    pub(crate) fn config_of_http1(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.config());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn stamps(files: &TlsFiles) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let facts = std::fs::metadata(path);
        facts.map_or((0, 0, 0, 0), |facts| (facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()))
    };
    [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()].into_iter().flatten().map(stamp).collect()
}

fn configure(files: &TlsFiles, time: &Arc<dyn TimeProvider>) -> Result<Arc<ServerConfig>, TlsError> {
    let pair = |why: String| TlsError::Pair { cert: files.cert.clone(), key: files.key.clone(), why };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder =
        builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(|error| pair(error.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = |why: String| TlsError::Content { path: path.clone(), wanted: "certificate", why };
            let mut roots = rustls::RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|error| wrong(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(error.to_string()))?)
        }
    };
    let (chain, key) = (certificates(&files.cert)?, key(&files.key)?);
    let mut config = builder.with_single_cert(chain, key).map_err(|error| pair(error.to_string()))?;
    config.time_provider = time.clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A session that is resumed would outlive the certificates, of either side.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::Content { path: path.to_owned(), wanted: "certificate", why };
    let bytes = bytes(path, false)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() { Err(wrong("there is none".to_owned())) } else { Ok(all) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = bytes(path, true)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| TlsError::Content {
        path: path.to_owned(),
        wanted: "private key",
        why: error.to_string(),
    })
}

/// A regular file of bounded length.
fn bytes(path: &Path, secret: bool) -> Result<Vec<u8>, TlsError> {
    use std::io::Read as _;
    let io = |source| TlsError::Io { path: path.to_owned(), source };
    // A pipe would be waited for.
    let facts = std::fs::metadata(path).map_err(io)?;
    if !facts.is_file() || facts.len() > FILE_BYTES_MAX {
        let why = format!("it is no regular file of at most {FILE_BYTES_MAX} bytes");
        return Err(TlsError::Content { path: path.to_owned(), wanted: "certificate or key", why });
    }
    let file = std::fs::File::open(path).map_err(io)?;
    let mode = file.metadata().map_err(io)?.mode();
    if secret && mode & OTHERS != 0 {
        return Err(TlsError::OpenToOthers { path: path.to_owned(), mode: mode & 0o7777 });
    }
    let mut all = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut all).map_err(io)?;
    Ok(all)
}

/// The user whom the certificate of a connection names, an extension of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Certified {
    user: Arc<User>,
    until: UnixTime,
    time: Arc<dyn TimeProvider>,
}

impl Certified {
    /// The user, while the certificate is valid.
    pub(crate) fn user(&self) -> Option<&User> {
        // RFC 5280 §4.1.2.5: the last second is one of its own.
        self.time.current_time().is_some_and(|now| now <= self.until).then_some(self.user.as_ref())
    }

    /// Ends within some seconds after the certificate has expired.
    pub(crate) async fn expired(&self) {
        while self.user().is_some() {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
        }
    }
}

/// When a certificate ends.
fn not_after(certificate: &CertificateDer<'_>) -> Option<UnixTime> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
}

/// The user that a verified certificate names: by its subject, if that is a common name alone which can be a user's as it is,
/// or else by a digest of the subject. So two subjects are never one user. A user may read and call.
fn user(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let is_alone = subject.iter_attributes().count() == 1;
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._@-".contains(&byte);
    let fits =
        |name: &&str| (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(word) && !name.starts_with(BY_DIGEST);
    let name = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).filter(fits);
    let name = name.filter(|_| is_alone).map_or_else(
        || {
            let digest = digest(subject.as_raw());
            let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{BY_DIGEST}{digits}")
        },
        str::to_owned,
    );
    let scopes: BTreeSet<Scope> = [Scope::Read, Scope::Call].into();
    Some(User { name: format!("{name}{CERTIFIED}"), scopes, agents: BTreeSet::new() })
}

#[cfg(test)]
mod tests;

//! What is configured of the gateway.

use super::*;

/// `[gateway]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// Address and port.
    pub listen: String,
    /// A bearer token that every request must carry. Required beyond loopback.
    pub token: String,
    /// Host names under which it may be addressed, beyond loopback's.
    pub hosts: Vec<String>,
    /// What the world calls it, such as "https://agents.example.org/mesh"; empty: what each request calls it.
    pub public: String,
    /// Origins whose pages may use it, such as "https://app.example.org"; empty: its own alone.
    pub origins: Vec<String>,
    /// Connections of one net.
    pub connections_per_net: u16,
    /// Encrypted connections.
    pub tls: GatewayTls,
    /// Who issues tokens for it.
    pub oauth: GatewayOauth,
    /// Whether the address was set on the command line: then no other is used.
    #[serde(skip)]
    pub fixed: bool,
}

/// `[gateway.tls]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayTls {
    /// The file of the certificate, with those between it and its issuer (PEM); empty: no TLS.
    pub cert: PathBuf,
    /// The file of its key (PEM).
    pub key: PathBuf,
    /// The file of the issuers' certificates (PEM) of which clients must show one; empty: none is asked for.
    pub client_ca: PathBuf,
}

impl GatewayTls {
    /// The files, if there is to be TLS.
    pub fn files(&self) -> Option<althing_gateway::TlsFiles> {
        let set = |path: &PathBuf| (!path.as_os_str().is_empty()).then(|| path.clone());
        Some(althing_gateway::TlsFiles {
            cert: set(&self.cert)?,
            key: set(&self.key)?,
            client_ca: set(&self.client_ca),
        })
    }
}

/// `[gateway.oauth]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayOauth {
    /// The identifier of the issuer, a URL; empty: no tokens of issuers are taken.
    pub issuer: String,
    /// What its tokens are for: the identifier of this gateway.
    pub audience: String,
    /// Where its keys are; empty: what its metadata says.
    pub jwks: String,
    /// Scopes of its tokens that allow to read.
    pub read: Vec<String>,
    /// Those that allow to call agents.
    pub call: Vec<String>,
    /// Those that allow everything.
    pub admin: Vec<String>,
}

impl Default for GatewayOauth {
    fn default() -> Self {
        let word = |scope: Scope| vec![format!("althing.{scope}")];
        GatewayOauth {
            issuer: String::new(),
            audience: String::new(),
            jwks: String::new(),
            read: word(Scope::Read),
            call: word(Scope::Call),
            admin: word(Scope::Admin),
        }
    }
}

impl GatewayOauth {
    /// The issuer, if there is one.
    pub fn issuer(&self) -> Option<althing_gateway::IssuerConfig> {
        let of =
            |words: &[String], scope: Scope| words.iter().map(move |word| (word.clone(), scope)).collect::<Vec<_>>();
        let scopes = [of(&self.read, Scope::Read), of(&self.call, Scope::Call), of(&self.admin, Scope::Admin)];
        (!self.issuer.is_empty()).then(|| althing_gateway::IssuerConfig {
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            jwks: (!self.jwks.is_empty()).then(|| self.jwks.clone()),
            scopes: scopes.into_iter().flatten().collect(),
        })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for (key, url) in [("issuer", &self.issuer), ("jwks", &self.jwks)] {
            if !url.is_empty() && !althing_td::keeps_bearer(url) {
                return Err(format!("`gateway.oauth.{key}` is an address with https, not {url:?}"));
            }
        }
        match (self.issuer.is_empty(), self.audience.is_empty()) {
            (false, true) => {
                Err("`gateway.oauth` needs `audience`: what tokens are for that this gateway takes".to_owned())
            }
            (true, _) if !(self.audience.is_empty() && self.jwks.is_empty()) => {
                Err("`gateway.oauth` needs `issuer`".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Gateway {
            listen: "127.0.0.1:7420".to_owned(),
            token: String::new(),
            hosts: Vec::new(),
            public: String::new(),
            origins: Vec::new(),
            connections_per_net: 128,
            tls: GatewayTls::default(),
            oauth: GatewayOauth::default(),
            fixed: false,
        }
    }
}

impl Gateway {
    /// What the world calls it, if the operator says so; a wrong one was refused when the configuration was read.
    pub fn base(&self) -> Option<althing_gateway::Base> {
        self.public.parse().ok()
    }

    /// The origins whose pages may use it, as browsers write them.
    pub fn origins(&self) -> Vec<String> {
        self.origins.iter().filter_map(|text| althing_gateway::origin_of(text).ok()).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let address: std::net::SocketAddr = self.listen.parse().map_err(|_| {
            format!("`gateway.listen` is an address and a port, such as 127.0.0.1:7420, not {:?}", self.listen)
        })?;
        if !self.token.is_empty() && self.token.len() < TOKEN_MIN {
            return Err(format!("`gateway.token` has at least {TOKEN_MIN} characters"));
        }
        if self.connections_per_net == 0 {
            return Err("`gateway.connections_per_net` is 1 or more; 1024 lets one net have all".to_owned());
        }
        let GatewayTls { cert, key, client_ca } = &self.tls;
        let [cert, key, client_ca] = [cert, key, client_ca].map(|path| !path.as_os_str().is_empty());
        if cert != key || client_ca && !cert {
            return Err("`gateway.tls` needs `cert` and `key`; `client_ca` goes with both".to_owned());
        }
        if !self.public.is_empty() {
            let base = self.public.parse::<althing_gateway::Base>();
            let base = base.map_err(|error| format!("`gateway.public`: {error}"))?;
            // A proxy may take the path off, or not: which it did is told by what a request begins with.
            if let Some(own) = base.path().split('/').nth(1).filter(|first| althing_gateway::is_own_path(first)) {
                return Err(format!(
                    "the path of `gateway.public` begins with /{own}, as paths of the gateway do; take another"
                ));
            }
        }
        for origin in &self.origins {
            althing_gateway::origin_of(origin).map_err(|error| format!("`gateway.origins`: {error}"))?;
        }
        self.oauth.check()?;
        if !address.ip().is_loopback() && self.token.is_empty() && !client_ca && self.oauth.issuer.is_empty() {
            return Err(format!(
                "`gateway.listen` is {address}, which others can reach: set `gateway.token`, `gateway.tls.client_ca` or \
                 `gateway.oauth`, or listen on 127.0.0.1"
            ));
        }
        Ok(())
    }
}

//! Why something is not fetched.

use std::net::IpAddr;

/// Why something was not fetched. None of it goes to a stranger: which nets there are is nobody else's business.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The URL itself is not followed.
    #[error("this URL is not followed: {0}")]
    Url(&'static str),
    /// It leads to a net that an address from outside must not lead to.
    #[error("{address} is {net}: an address from outside is not followed there, unless the operator names the net")]
    Blocked {
        /// Where it leads.
        address: IpAddr,
        /// What that is.
        net: &'static str,
    },
    /// The name has no address.
    #[error("its name cannot be resolved: {0}")]
    Unresolved(String),
    /// One redirect after the other.
    #[error("it was redirected more than {0} times")]
    Redirects(usize),
    /// The other side answered with something else than success.
    #[error("it answered {0}")]
    Status(u16),
    /// The answer is too long.
    #[error("it answers with more than {0} bytes")]
    TooLong(usize),
    /// It took too long.
    #[error("it took more than {0} ms")]
    TooLate(u128),
    /// Connecting, sending or receiving failed.
    #[error("{0}")]
    Transport(String),
}

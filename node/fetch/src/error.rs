//! The errors of a fetch.

use std::net::IpAddr;

/// Why a fetch failed. Never sent to strangers, since it would reveal the private subnets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The URL is refused.
    #[error("this URL is not followed: {0}")]
    Url(&'static str),
    /// It leads to a blocked subnet.
    #[error("{address} is {net}: an address from outside is not followed there, unless the operator names the net")]
    Blocked {
        /// Where it leads.
        address: IpAddr,
        /// What that is.
        net: &'static str,
    },
    /// The name leads elsewhere than it may.
    #[error("its name leads to {0}, and to nothing where it led when it was agreed to: it is not followed there")]
    Elsewhere(IpAddr),
    /// The name has no address.
    #[error("its name cannot be resolved: {0}")]
    Unresolved(String),
    /// Too many redirects.
    #[error("it was redirected more than {0} times")]
    Redirects(usize),
    /// The server answered with an error status.
    #[error("it answered {0}")]
    Status(u16),
    /// The answer is too long.
    #[error("it answers with more than {0} bytes")]
    TooLong(usize),
    /// More was to be sent than may be.
    #[error("more than {0} bytes were to be sent to it")]
    TooMuch(usize),
    /// It took too long.
    #[error("it took more than {0} ms")]
    TooLate(u128),
    /// No program listens at its port.
    #[error("nothing listens there")]
    Closed,
    /// Connecting, sending or receiving failed.
    #[error("{0}")]
    Transport(String),
}

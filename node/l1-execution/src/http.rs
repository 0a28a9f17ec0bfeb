//! The HTTP client for what stands outside the node: endpoints of models, tool servers.

use std::time::Duration;

use reqwest::redirect::Policy;

/// A client for what is at `url`. It follows no redirect, which could lead a secret elsewhere. What it sends in the clear
/// goes through no proxy, which could read it: a secret that may go to this very machine would leave it. Over https a
/// proxy of the environment has nothing to read.
///
/// # Errors
/// The reason, for people.
pub fn client(url: &str, connect_timeout: Duration) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder().redirect(Policy::none()).connect_timeout(connect_timeout);
    if !url.starts_with("https://") {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| error.to_string())
}

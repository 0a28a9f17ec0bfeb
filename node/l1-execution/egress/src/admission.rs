//! Whether a host may be reached at all, beside what the agent file names: a port.

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::answers::{self, Answer};
use crate::told::Exchange;

/// A host that a program asks for, and its file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// The host, as URLs spell it.
    pub host: &'a str,
    /// Where it is asked there: 443 for most.
    pub port: u16,
    /// The method of HTTP; none of a tunnel, into which nobody sees.
    pub method: Option<&'a str>,
}

/// Decides on what programs reach. Asked before a host is even looked up.
pub trait Admission: Send + Sync {
    /// Whether it may be reached. The error says why not, to the program and to its owner.
    fn admit<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<(), String>>;
}

/// What the agent file names is reached.
pub(crate) struct ByFile;

impl Admission for ByFile {
    fn admit<'a>(&'a self, _: Attempt<'a>) -> BoxFuture<'a, Result<(), String>> {
        std::future::ready(Ok(())).boxed()
    }
}

/// What a program asks for, if it is admitted; otherwise what it is answered.
pub(crate) async fn admitted(
    admission: &dyn Admission,
    exchange: Exchange,
    method: Option<&str>,
) -> Result<Exchange, Box<Answer>> {
    let attempt = Attempt { host: exchange.host(), port: exchange.port(), method };
    let answer = admission.admit(attempt).await;
    match answer {
        Ok(()) => Ok(exchange),
        Err(why) => {
            exchange.forbidden(&why);
            Err(Box::new(answers::forbidden(exchange.host(), exchange.port(), &why)))
        }
    }
}

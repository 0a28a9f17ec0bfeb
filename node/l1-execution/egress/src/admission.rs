//! Whether a host may be reached at all, beside what the agent file names: a port.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Method;

use crate::answers::{self, Answer};
use crate::told::Exchange;

/// A host that a program asks for, and its file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// The host, as URLs spell it.
    pub host: &'a str,
    /// Where it is asked there: 443 for most.
    pub port: u16,
    /// The method of HTTP, one of those that everybody knows, or `OTHER`; none of a tunnel, into which nobody sees.
    pub method: Option<&'a str>,
    /// The pattern by which the file names the host, `*.example.org`: the program may make up as many as it likes. None where the file
    /// names it itself.
    pub pattern: Option<&'a str>,
}

/// The methods that are told by their names (RFC 9110, RFC 5789).
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
/// All others: whoever decides keeps what it is told, and a program makes up words as it likes.
const OTHER: &str = "OTHER";

/// How a method is told to whoever decides.
pub(crate) fn word(method: &Method) -> &'static str {
    METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER)
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
    (method, pattern): (Option<&str>, Option<&str>),
) -> Result<Exchange, Box<Answer>> {
    let attempt = Attempt { host: exchange.host(), port: exchange.port(), method, pattern };
    let answer = admission.admit(attempt).await;
    match answer {
        Ok(()) => Ok(exchange),
        Err(why) => {
            exchange.forbidden(&why);
            Err(Box::new(answers::forbidden(exchange.host(), exchange.port(), &why)))
        }
    }
}

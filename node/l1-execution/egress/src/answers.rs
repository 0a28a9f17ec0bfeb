//! What the node itself answers to a program, and to the person who reads what the program logs of it.

use std::convert::Infallible;

use althing_fetch::FetchError;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

/// An answer whose body may be a stream.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, FetchError>>;

/// What a proxy says to whoever does not use it as one.
const PROXY: &str = "\
This is a proxy of an Althing node, for one program that it runs. It serves CONNECT HOST:PORT, and requests of the form
GET http://HOST/PATH, to the hosts that the program's agent file names (sandbox: { egress: [HOST] }). Most HTTP clients
use it once HTTP_PROXY and HTTPS_PROXY name it, as the node sets them.
";
/// What a proxy says to whoever does not have its password.
const UNKNOWN: &str = "\
This is a proxy of an Althing node, for one program that it runs, and this request does not have the password of that program.
The program has it in HTTP_PROXY and HTTPS_PROXY, as http://NAME:PASSWORD@HOST:PORT, and sends it as Proxy-Authorization.
";
/// What a local address says to whoever takes it for a proxy.
const LOCAL: &str = "\
This is the local address of one host, at which an Althing node has a program ask it: GET /PATH here is GET /PATH there,
with the headers that the agent file names. It is no proxy, and serves no CONNECT.
";

pub(crate) fn empty() -> Answer {
    said(String::new())
}

pub(crate) fn proxy() -> Answer {
    text(StatusCode::BAD_REQUEST, PROXY.to_owned())
}

/// Somebody who does not show that it is the program.
pub(crate) fn unknown() -> Answer {
    let mut answer = text(StatusCode::PROXY_AUTHENTICATION_REQUIRED, UNKNOWN.to_owned());
    // Some clients send what is in the address of their proxy only once they were asked for it.
    answer.headers_mut().insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"althing\""));
    answer
}

pub(crate) fn local() -> Answer {
    text(StatusCode::BAD_REQUEST, LOCAL.to_owned())
}

/// A host that the agent file does not name.
pub(crate) fn denied(host: &str, port: u16, write: &str) -> Answer {
    // In a list of YAML a bracket would begin another list.
    let write = if write.starts_with('[') { format!("\"{write}\"") } else { write.to_owned() };
    let text = format!(
        "This program may not reach {host} at port {port}: its agent file does not name it. If it should, its owner writes \
         into the agent file, beside the program's command:\n\n  sandbox: {{ egress: [{write}] }}\n"
    );
    self::text(StatusCode::FORBIDDEN, text)
}

/// A host that the agent file names, and whoever decides on that does not admit.
pub(crate) fn forbidden(host: &str, port: u16, why: &str) -> Answer {
    let text = format!("This program may not reach {host} at port {port}, although its agent file names it: {why}.\n");
    self::text(StatusCode::FORBIDDEN, text)
}

/// A path that the agent file does not name.
pub(crate) fn refused(host: &str, why: &str) -> Answer {
    let text = format!(
        "{host} was not asked this: {why}. Its owner can widen or leave out `path` in the agent file's egress.\n"
    );
    self::text(StatusCode::FORBIDDEN, text)
}

/// A host that was not reached.
pub(crate) fn failed(host: &str, port: u16, error: &FetchError) -> Answer {
    let status = match error {
        FetchError::TooLate(_) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    // Addresses would tell the program of the owner's nets.
    let why = match error {
        FetchError::Blocked { net, .. } => {
            format!("it leads to an address that is {net}, and is not followed there unless the operator names the net")
        }
        FetchError::Elsewhere(_) => "its name leads elsewhere than it may".to_owned(),
        other => other.to_string(),
    };
    text(status, format!("{host} was not reached at port {port}: {why}.\n"))
}

/// An answer that no answer can be made of.
pub(crate) fn nonsense(host: &str, status: StatusCode) -> Answer {
    text(StatusCode::BAD_GATEWAY, format!("{host} answers with the status {status}, which ends no request.\n"))
}

/// An answer that cannot be searched for the secrets that the host was asked with.
pub(crate) fn encoded(host: &str, coding: &str) -> Answer {
    let text = format!(
        "{host} was asked with a secret that this program does not have, and answers in {coding} although it is asked not to: \
         the node cannot see whether the secret stands in that, and does not pass it on. Ask for something that the host does \
         not encode, or have its operator heed `Accept-Encoding: identity`.\n"
    );
    self::text(StatusCode::BAD_GATEWAY, text)
}

fn text(status: StatusCode, text: String) -> Answer {
    let mut answer = said(text);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // What of a body was not read is not read any more.
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn said(text: String) -> Answer {
    let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {});
    Response::new(body.boxed_unsync())
}

//! The local address of one host, which the node asks with secrets.

use http::uri::PathAndQuery;
use http::{Method, Request};
use hyper::body::Incoming;

use crate::admission::{admitted, word};
use crate::answers::{self, Answer};
use crate::egress::Egress;
use crate::forward::forward;
use crate::target::Target;
use crate::told::Exchange;

/// Asks the host what the program asks.
pub(crate) async fn answer(egress: &Egress, target: &Target, request: Request<Incoming>) -> Answer {
    // Whoever names another host takes this for a proxy.
    if request.method() == Method::CONNECT || request.uri().authority().is_some() {
        return answers::local();
    }
    let asked = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    let exchange = Exchange::begin(&egress.told, &*egress.traces, target.host(), target.port());
    match target.url(asked) {
        Ok(url) => {
            let method = word(request.method());
            match admitted(&*egress.admission, exchange, (Some(method), None)).await {
                Ok(exchange) => forward(egress, exchange, request, url, Some(target)).await,
                Err(denied) => *denied,
            }
        }
        Err(why) => {
            exchange.broke("refused", format!("a program asked something of it that was refused: {why}"));
            answers::refused(target.host(), &why)
        }
    }
}

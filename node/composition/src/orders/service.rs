//! Answers what peers ask of orders.

use std::sync::{Arc, Weak};

use althing_communication::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_ERROR, refusal};
use althing_communication::{AcceptError, Answer, Caller, Communication, Inbound, Priority, Request, StreamLimits};
use althing_protocol::Digest;
use althing_protocol::keyring::decode_known;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::ledger::{ORDERS_PROTOCOL, Orders};

/// A node asks each peer on one stream, and pushes news on another.
const LIMITS: StreamLimits = StreamLimits { per_peer_max: 8, total_max: 1_024, idle_max: 1 };

/// Tells peers of orders, and hears from them, from now on.
pub(crate) fn serve(orders: &Arc<Orders>, communication: &Communication) -> Result<(), AcceptError> {
    orders.connect(communication);
    communication.serve(ORDERS_PROTOCOL, LIMITS, Arc::new(OrderService(Arc::downgrade(orders))))
}

/// Serves the protocol of orders.
struct OrderService(Weak<Orders>);

type OrderRefusal = (i32, Option<&'static str>, String);

impl Inbound for OrderService {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let orders = self.0.upgrade();
        async move {
            let Some(orders) = orders else { return Answer::Response(Vec::new()) };
            match answer(&orders, &caller, &request).await {
                Ok(body) => Answer::Response(body),
                Err((code, reason, message)) => Answer::Error(refusal(code, reason, &message)),
            }
        }
        .boxed()
    }

    fn priority(&self, _: &Request) -> Priority {
        Priority::Urgent
    }
}

async fn answer(orders: &Orders, caller: &Caller, request: &Request) -> Result<Vec<u8>, OrderRefusal> {
    let is_own = caller.owner == Some(orders.owner());
    let invalid = |message: String| (INVALID_PARAMS, None, message);
    match request.operation.as_str() {
        "compare" => {
            let known = decode_known(&request.body).map_err(|error| invalid(error.to_string()))?;
            Ok(orders.book().news(is_own, |digest| !known.contains(digest)).encode())
        }
        "news" => {
            let heard = orders.receive(caller.node, &request.body, true).await;
            heard.map(|_| Vec::new()).map_err(|error| invalid(error.to_string()))
        }
        "policy" | "status" if !is_own => {
            let message = "only the nodes of this node's owner are told of its policy set".to_owned();
            Err((SERVER_ERROR, Some("CALLER_NOT_ALLOWED"), message))
        }
        "policy" => {
            let wanted = Digest::try_from(request.body.as_slice());
            let wanted = wanted.map_err(|_| invalid("a policy set is asked for by its 32 bytes".to_owned()))?;
            let text = orders.policy_text(&wanted);
            text.map(String::into_bytes).ok_or_else(|| invalid("that policy set is not here".to_owned()))
        }
        "status" => Ok(minicbor::to_vec(orders.policy_set()).expect("writing to a vector cannot fail")),
        other => Err((METHOD_NOT_FOUND, None, format!("there is no operation {other:?} here"))),
    }
}

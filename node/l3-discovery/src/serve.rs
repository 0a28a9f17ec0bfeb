//! Serves `/althing/placements/1` and `/althing/describe/1` to peers.

use std::sync::Arc;

use althing_communication::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_ERROR, refusal};
use althing_communication::{Answer, Caller, Inbound, Request};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::exchange::{PlacementExchange, STALE};
use crate::instance;
use crate::intake::{Intake, PlacementError};
use crate::state::Shared;

/// Answers calls of peers.
pub(crate) struct Server(pub Arc<Shared>);

impl Inbound for Server {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let (shared, peer) = (&self.0, caller.node);
        let exchange = PlacementExchange(shared.clone());
        let answer = match request.operation.as_str() {
            "placement" => match Intake(shared.clone()).take(peer, &request.body) {
                Ok(_) => {
                    exchange.on_call(peer);
                    exchange.on_placement_taken(peer);
                    Ok(Vec::new())
                }
                Err(PlacementError::Stale { reason, .. }) => Err((INVALID_PARAMS, Some(STALE), reason)),
                Err(PlacementError::Invalid(why)) => Err((INVALID_PARAMS, None, why)),
            },
            "watch" => match exchange.subscribe(peer) {
                Ok(events) => return futures::future::ready(events).boxed(),
                Err(why) => Err((SERVER_ERROR, None, why)),
            },
            "find" => shared.testify(peer, &request.body).map_err(|why| (INVALID_PARAMS, None, why)),
            "instance" => instance::answer(shared, peer, &request.body).map_err(|why| (INVALID_PARAMS, None, why)),
            "describe" => {
                shared.own_evidence(peer, &request.body).map_err(|why| (SERVER_ERROR, Some("AGENT_NOT_HERE"), why))
            }
            other => Err((METHOD_NOT_FOUND, None, format!("there is no operation {other:?} here"))),
        };
        let answer = match answer {
            Ok(body) => Answer::Response(body),
            Err((code, reason, message)) => Answer::Error(refusal(code, reason, &message)),
        };
        futures::future::ready(answer).boxed()
    }
}

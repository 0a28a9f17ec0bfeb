//! By which names a registry or a witness is asked: a page of another site may have a name of its own lead here (DNS rebinding),
//! and would then read and write what only this machine or this net may.

use std::sync::Arc;

use althing_edge::{Access, Outside, outside};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use super::problem::Problem;

/// Routes that are served under these names only, and to no other site's page.
pub fn at_own_names(router: Router, access: Access) -> Router {
    router.layer(from_fn_with_state(Arc::new(access), check))
}

async fn check(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    match outside(&access, &mut request) {
        None => next.run(request).await,
        Some(outside) => refusal(outside).into_response(),
    }
}

fn refusal(outside: Outside) -> Problem {
    let detail = match outside {
        Outside::Host => {
            "it is not known here by that Host: whoever runs it names the hosts by which it is asked (--host NAME; of a registry \
             beside a node --registry-host NAME)"
        }
        Outside::Origin => "pages of other origins may not speak to it; a page at another port is another origin",
    };
    Problem::new(outside.status(), detail)
}

//! How long a client may go on: what began with a token or a certificate ends soon after it is removed or has expired.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};

use crate::access::Access;
use crate::tls::Certified;
use crate::users::{Identity, LOOKED_AT_EVERY};

/// What a request showed, and who its sender was by that: an extension of each request that passed the guard.
#[derive(Debug, Clone)]
pub struct Standing(Arc<Shown>);

#[derive(Debug)]
struct Shown {
    access: Arc<Access>,
    token: Option<String>,
    certified: Option<Certified>,
    identity: Identity,
}

impl Standing {
    pub(crate) fn new(
        access: Arc<Access>,
        token: Option<String>,
        certified: Option<Certified>,
        identity: Identity,
    ) -> Standing {
        Standing(Arc::new(Shown { access, token, certified, identity }))
    }

    /// Ends within some seconds after the sender is somebody else by what it showed, or nobody, or may do other things.
    pub async fn over(&self) {
        let Shown { access, token, certified, identity } = self.0.as_ref();
        loop {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
            if access.identify(token.as_deref(), certified.as_ref()).await.as_ref() != Some(identity) {
                return;
            }
        }
    }

    /// An answer that breaks off when this is over. One whose length is known is sent as it is.
    pub(crate) fn bound(self, answer: Response) -> Response {
        if answer.body().size_hint().exact().is_some() {
            return answer;
        }
        let over = async move { self.over().await }.boxed();
        answer.map(|body| Body::new(Bound { body, over, is_over: false }))
    }
}

/// What is over is told no more.
#[derive(Debug, thiserror::Error)]
#[error("the token or certificate of this request is over")]
struct Over;

/// An answer's body, until its reader may read no more.
struct Bound {
    body: Body,
    over: BoxFuture<'static, ()>,
    is_over: bool,
}

impl HttpBody for Bound {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // First: a body that always has something to give ends too.
        if self.is_over || self.over.poll_unpin(context).is_ready() {
            self.is_over = true;
            return Poll::Ready(Some(Err(axum::Error::new(Over))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use futures::stream::{self, StreamExt as _};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Guard, Limits, Scope, User, Users, authenticate, serve};

    /// One user, whose token is taken back.
    #[derive(Debug, Default)]
    struct Alice {
        is_gone: AtomicBool,
    }

    impl Users for Alice {
        fn is_used(&self) -> bool {
            true
        }

        fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<User>> {
            let user = User { name: "alice".to_owned(), scopes: [Scope::Read].into(), agents: [].into() };
            let known = token == "hers" && !self.is_gone.load(Ordering::SeqCst);
            Box::pin(std::future::ready(known.then_some(user)))
        }
    }

    /// What a connection says from when it was asked to when the token is gone, and how long after that it ended.
    async fn until_gone(path: &str) -> (String, Duration) {
        let alice = Arc::new(Alice::default());
        let access = Access { users: vec![alice.clone()], ..Access::default() };
        let guard = Guard { access: Arc::new(access), needs: Arc::new(|_, _| Scope::Read) };
        let events = || async {
            let first = stream::iter([Ok::<_, Infallible>("first")]);
            Body::from_stream(first.chain(stream::pending()))
        };
        let busy = || async {
            let always = stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Some((Ok::<_, Infallible>("more"), ()))
            });
            Body::from_stream(always)
        };
        let late = || std::future::pending::<&str>();
        let router = Router::new().route("/events", get(events)).route("/busy", get(busy)).route("/late", get(late));
        let router = router.layer(from_fn_with_state(guard, authenticate));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, router, Limits::default(), stop.clone()));
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer hers\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("it listens");
        let mut said = Vec::new();
        let many = tokio::time::timeout(Duration::from_secs(42), client.read_to_end(&mut said)).await;
        assert!(many.is_err(), "{path}: it goes on while the token is good");
        alice.is_gone.store(true, Ordering::SeqCst);
        let gone = Instant::now();
        let mut rest = vec![0; 4_096];
        let ended = async {
            loop {
                match client.read(&mut rest).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => said.extend_from_slice(&rest[..count]),
                }
                if path == "/late" {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(60), ended).await;
        let took = gone.elapsed();
        stop.cancel();
        serving.await.expect("it ends");
        (String::from_utf8_lossy(&said).into_owned(), took)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_token_began_ends_soon_after_it() {
        for (path, says) in [("/events", "first"), ("/busy", "more"), ("/late", "HTTP/1.1 401")] {
            let (said, took) = until_gone(path).await;
            assert!(said.contains(says), "{path}: {said}");
            assert!(!said.ends_with("0\r\n\r\n"), "{path}: it breaks off");
            assert!(took <= Duration::from_secs(10), "{path}: {took:?}");
        }
    }
}

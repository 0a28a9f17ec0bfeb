//! Answers what the owner's other nodes ask of rollouts, and hears what they tell.

use std::sync::{Arc, Weak};

use althing_communication::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_ERROR, refusal};
use althing_communication::{AcceptError, Answer, Caller, Communication, Inbound, Priority, Request, StreamLimits};
use althing_verification::machine::rollout::{decode_news, encode_news};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::news_decisions::{all_news, hear};
use super::news_port::ROLLOUTS_PROTOCOL;
use super::node_rollouts::Rollouts;

/// A node asks each other one of its owner on one stream, and pushes news on another.
const LIMITS: StreamLimits = StreamLimits { per_peer_max: 8, total_max: 1_024, idle_max: 1 };

/// Tells the owner's other nodes of rollouts, and hears from them, from now on.
pub(crate) fn serve(rollouts: &Arc<Rollouts>, communication: &Communication) -> Result<(), AcceptError> {
    rollouts.news().connect(communication);
    communication.serve(ROLLOUTS_PROTOCOL, LIMITS, Arc::new(NewsService(Arc::downgrade(rollouts))))
}

/// Serves the protocol of news of rollouts.
struct NewsService(Weak<Rollouts>);

type NewsRefusal = (i32, Option<&'static str>, String);

impl Inbound for NewsService {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let rollouts = self.0.upgrade();
        async move {
            let Some(rollouts) = rollouts else { return Answer::Response(Vec::new()) };
            match answer(&rollouts, &caller, &request).await {
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

async fn answer(rollouts: &Rollouts, caller: &Caller, request: &Request) -> Result<Vec<u8>, NewsRefusal> {
    // Before anything is read: others do not learn which agents there are.
    if caller.owner != Some(rollouts.news().owner()) {
        let message = "only the nodes of this node's owner tell it of rollouts, and are told".to_owned();
        return Err((SERVER_ERROR, Some("CALLER_NOT_ALLOWED"), message));
    }
    if !rollouts.news().admits(caller.node) {
        return Err((SERVER_ERROR, Some("BUSY"), "too much is told at once: tell it again later".to_owned()));
    }
    match request.operation.as_str() {
        "compare" if !request.body.is_empty() => {
            Err((INVALID_PARAMS, None, "what is known of rollouts is asked for without a body".to_owned()))
        }
        "compare" => match all_news(rollouts) {
            Ok(news) => Ok(encode_news(news)),
            Err(error) => Err((SERVER_ERROR, None, error.to_string())),
        },
        "news" => {
            let news = decode_news(&request.body).map_err(|error| (INVALID_PARAMS, None, error.to_string()))?;
            hear(rollouts, caller.node, news).await;
            Ok(Vec::new())
        }
        other => Err((METHOD_NOT_FOUND, None, format!("there is no operation {other:?} here"))),
    }
}

#[cfg(test)]
mod tests {
    use althing_communication::WallClock;
    use althing_protocol::{PublicKey, PublisherId, SecretKey};
    use althing_store::MemoryStore;

    use super::*;
    use crate::node::FAMILIES;

    fn owner(number: u8) -> PublisherId {
        PublisherId::from_digest([number; 32])
    }

    fn node() -> PublicKey {
        SecretKey::from_seed(&[1; 32]).public()
    }

    /// What a caller is refused with, or else the answer.
    async fn asked(
        rollouts: &Rollouts,
        owner: Option<PublisherId>,
        operation: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, i32> {
        let request = Request::new(operation, body.to_vec());
        let answered = answer(rollouts, &Caller { node: node(), owner }, &request).await;
        answered.map_err(|(code, reason, message)| {
            assert!(!message.is_empty());
            assert_eq!(code == SERVER_ERROR, reason.is_some(), "{message}");
            code
        })
    }

    /// SPEC P-222.
    #[tokio::test(start_paused = true)]
    async fn only_nodes_of_the_owner_tell_and_are_told_and_only_so_much() {
        let store = Arc::new(MemoryStore::new(&FAMILIES));
        let rollouts = Rollouts::open(store, WallClock::new(|| 5), owner(7)).expect("it is read");
        for of in [None, Some(owner(8))] {
            for operation in ["compare", "news", "other"] {
                assert_eq!(asked(&rollouts, of, operation, &[0xff]).await, Err(SERVER_ERROR), "{operation}");
            }
        }
        let own = Some(owner(7));
        assert_eq!(asked(&rollouts, own, "compare", &[]).await, Ok(encode_news(Vec::new())));
        assert_eq!(asked(&rollouts, own, "news", &encode_news(Vec::new())).await, Ok(Vec::new()));
        assert_eq!(asked(&rollouts, own, "compare", &[1]).await, Err(INVALID_PARAMS));
        assert_eq!(asked(&rollouts, own, "news", &[0xff]).await, Err(INVALID_PARAMS));
        assert_eq!(asked(&rollouts, own, "other", &[]).await, Err(METHOD_NOT_FOUND));
        let mut answers = 5;
        while asked(&rollouts, own, "compare", &[]).await.is_ok() {
            answers += 1;
            assert!(answers < 100, "whoever asks without end is told to wait");
        }
        assert_eq!(answers, 16);
    }
}

//! Memory held by responses in flight, limited per client and in total.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The media type of most answers.
pub(crate) const JSON: &str = "application/json";

use althing_calls::OperationError;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

/// Bytes that are kept for all clients.
const ALL_BYTES_MAX: usize = 64 << 20;
/// Bytes that are kept for one, which has room for an answer of any size, its output included.
const CLIENT_BYTES_MAX: usize = 16 << 20;

/// How much memory responses may take, and take now, by client.
#[derive(Debug)]
pub(crate) struct ResponseBudget {
    all_max: usize,
    client_max: usize,
    used: Mutex<BudgetUse>,
}

#[derive(Debug, Default)]
struct BudgetUse {
    all: usize,
    /// Clients with something, and how much.
    by_client: BTreeMap<Arc<str>, usize>,
}

impl Default for ResponseBudget {
    fn default() -> ResponseBudget {
        ResponseBudget::new(ALL_BYTES_MAX, CLIENT_BYTES_MAX)
    }
}

impl ResponseBudget {
    pub fn new(all_max: usize, client_max: usize) -> ResponseBudget {
        ResponseBudget { all_max, client_max, used: Mutex::default() }
    }

    /// The account of a client of that name.
    pub fn account(self: &Arc<Self>, client: &str) -> Account {
        Account { budget: self.clone(), client: client.into() }
    }

    /// Bytes that are kept for all.
    pub fn bytes(&self) -> usize {
        self.used().all
    }

    fn used(&self) -> MutexGuard<'_, BudgetUse> {
        self.used.lock().expect("no holder of the budget panics")
    }
}

/// There is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// The client has its share.
    #[error("{0} bytes of answers and events are kept for this client, which is its share; read them first")]
    Client(usize),
    /// All have taken everything.
    #[error("{0} bytes of answers and events are kept for all clients, which is the most; try again")]
    All(usize),
}

impl From<Full> for OperationError {
    fn from(full: Full) -> OperationError {
        OperationError::busy(full.to_string())
    }
}

/// A client's account.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    budget: Arc<ResponseBudget>,
    client: Arc<str>,
}

impl Account {
    /// Makes room for that many bytes until the share is dropped.
    ///
    /// # Errors
    /// When there is none.
    pub fn hold(&self, bytes: usize) -> Result<Share, Full> {
        let mut share = Share { account: self.clone(), bytes: 0 };
        share.resize(bytes)?;
        Ok(share)
    }
}

/// An answer of JSON, which counts until the client has read it.
///
/// # Errors
/// When there is no room for it.
pub(crate) fn json(account: &Account, value: &Value) -> Result<Response, Full> {
    let text = value.to_string();
    let body = account.hold(text.len())?.into_bytes(text)?;
    Ok(([(header::CONTENT_TYPE, JSON)], Body::from(body)).into_response())
}

/// Room that a client has.
#[derive(Debug)]
pub(crate) struct Share {
    account: Account,
    bytes: usize,
}

impl Share {
    /// Makes it that large.
    ///
    /// # Errors
    /// When there is no room for what it grows by; it stays as it was.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Full> {
        let ResponseBudget { all_max, client_max, .. } = *self.account.budget;
        let mut used = self.account.budget.used();
        let BudgetUse { all, by_client } = &mut *used;
        let of_client = by_client.get(&self.account.client).copied().unwrap_or_default();
        let (all_then, client_then) = (*all - self.bytes + bytes, of_client - self.bytes + bytes);
        if bytes > self.bytes && client_then > client_max {
            return Err(Full::Client(client_max));
        }
        if bytes > self.bytes && all_then > all_max {
            return Err(Full::All(all_max));
        }
        if client_then == 0 {
            by_client.remove(&self.account.client);
        } else {
            by_client.insert(self.account.client.clone(), client_then);
        }
        (*all, self.bytes) = (all_then, bytes);
        Ok(())
    }

    /// The bytes of a text, which hold this share until the last of them was sent.
    pub fn into_bytes(mut self, text: String) -> Result<Bytes, Full> {
        struct Sent {
            text: String,
            _share: Share,
        }
        impl AsRef<[u8]> for Sent {
            fn as_ref(&self) -> &[u8] {
                self.text.as_bytes()
            }
        }
        self.resize(text.len())?;
        Ok(Bytes::from_owner(Sent { text, _share: self }))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Less always has room.
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_share_and_all_together_theirs() {
        let budget = Arc::new(ResponseBudget::new(25, 10));
        let [a, b, c] = ["a", "b", "c"].map(|name| budget.account(name));
        let first = a.hold(6).expect("room");
        let mut second = a.hold(4).expect("room");
        assert_eq!(a.hold(1).expect_err("its share"), Full::Client(10));
        assert_eq!(second.resize(5), Err(Full::Client(10)));
        let _others = (b.hold(10).expect("room"), c.hold(5).expect("room"));
        assert_eq!(c.hold(1).expect_err("all"), Full::All(25));
        drop(first);
        assert_eq!(budget.bytes(), 19);
        assert_eq!(second.resize(8), Ok(()));
        second.resize(0).expect("less has room");
        assert!(!budget.used().by_client.contains_key("a"), "who has nothing is forgotten");
    }

    #[test]
    fn what_is_sent_counts_until_its_last_byte_is_gone() {
        let budget = Arc::new(ResponseBudget::new(100, 100));
        let mut bytes = budget.account("a").hold(50).expect("room").into_bytes("0123456789".to_owned()).expect("less");
        let rest = bytes.split_off(5);
        drop(bytes);
        assert_eq!((budget.bytes(), &rest[..]), (10, &b"56789"[..]));
        drop(rest);
        assert_eq!(budget.bytes(), 0);
    }
}

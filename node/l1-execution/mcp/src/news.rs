//! How far the calls of one connection are, as its server tells it: in order, and before the answers that follow.

use std::sync::{Arc, Mutex, OnceLock};

use rmcp::model::{NumberOrString, ProgressToken};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Notifications that wait for the calls of one caller: more than anybody leaves unread by far.
const OF_CALLER_MAX: usize = 4_096;
/// Notifications that wait for all calls of a connection.
const WAITING_MAX: usize = 4 * OF_CALLER_MAX;
/// Below it, each whole number is one of floating point.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
/// Bytes of what a notification says.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// Where the calls of a connection listen.
#[derive(Debug, Default)]
pub struct News(Mutex<Vec<Listener>>);

#[derive(Debug)]
struct Listener {
    /// Of its call, once that is sent; until then it hears of all calls.
    token: Arc<OnceLock<i64>>,
    whose: Arc<[String]>,
    sender: mpsc::Sender<Told>,
}

/// How far the call of a token is.
#[derive(Debug, Clone)]
struct Told {
    token: i64,
    /// As far as it says so.
    progress: Option<f64>,
    total: Option<f64>,
    message: Option<String>,
}

impl Told {
    /// Reads MCP's notification, member by member; none if it names no call. What cannot be read of it is not there: it is a sign
    /// of life all the same.
    fn read(params: &Value) -> Option<Told> {
        let token = match &params["progressToken"] {
            Value::String(text) => text.trim().parse().ok()?,
            Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?))?,
            _ => return None,
        };
        let mut message = match &params["message"] {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
            _ => None,
        };
        if let Some(message) = &mut message {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        }
        Some(Told { token, progress: amount(&params["progress"]), total: amount(&params["total"]), message })
    }
}

/// A whole number that is written as another.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < WHOLE_MAX).then_some(number as i64)
}

/// A number, also one that is written as a text.
fn amount(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite())
}

/// What one call hears, until this is dropped.
#[derive(Debug)]
pub struct Ear {
    token: Arc<OnceLock<i64>>,
    receiver: mpsc::Receiver<Told>,
    /// How far its call was last.
    progress: f64,
}

impl Ear {
    /// Listens to the call of this token only: a call learns it when it was sent.
    pub fn settle(&self, token: &ProgressToken) {
        if let Some(token) = number(token) {
            // A call is sent once.
            let _ = self.token.set(token);
        }
    }

    /// The next that is told of its call: `progress`, `total` and `message` of MCP's notification; one that does not say how far its
    /// call is has the last `progress`. None if nothing comes any more.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let Told { token, progress, total, message } = self.receiver.recv().await?;
            if self.token.get() == Some(&token) {
                let progress = progress.unwrap_or(self.progress);
                self.progress = progress;
                return Some(json!({ "progress": progress, "total": total, "message": message }));
            }
        }
    }
}

impl News {
    /// Listens for a call on behalf of `whose`.
    pub fn listen(&self, whose: &Arc<[String]>) -> Ear {
        let (sender, receiver) = mpsc::channel(OF_CALLER_MAX);
        let token = Arc::<OnceLock<i64>>::default();
        let mut all = self.lock();
        all.retain(|one| !one.sender.is_closed());
        all.push(Listener { token: token.clone(), whose: whose.clone(), sender });
        Ear { token, receiver, progress: 0.0 }
    }

    /// Tells the call of its token, and those that do not know theirs yet, what stands in the parameters of a notification. A
    /// caller who does not read misses what is too much; nobody else waits for that, or misses anything before the connection has
    /// as much as it may.
    pub fn tell(&self, params: &Value) {
        let Some(told) = Told::read(params) else { return };
        let token = told.token;
        let mut all = self.lock();
        all.retain(|one| !one.sender.is_closed());
        for one in all.iter().filter(|one| one.token.get().is_none_or(|own| *own == token)) {
            let of_caller: usize = all.iter().filter(|other| other.whose == one.whose).map(Listener::waiting).sum();
            let in_all: usize = all.iter().map(Listener::waiting).sum();
            if of_caller < OF_CALLER_MAX && in_all < WAITING_MAX {
                // There is room, or its call ended just now.
                let _ = one.sender.try_send(told.clone());
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Listener>> {
        self.0.lock().expect("no holder of the listeners panics")
    }
}

impl Listener {
    /// Notifications that it did not read yet.
    fn waiting(&self) -> usize {
        self.sender.max_capacity() - self.sender.capacity()
    }
}

/// The number of a token, whether its server writes it back as a number or as a text. All of ours are numbers.
fn number(token: &ProgressToken) -> Option<i64> {
    match &token.0 {
        NumberOrString::Number(number) => Some(*number),
        NumberOrString::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    fn tell(news: &News, of: i64, progress: u32) {
        news.tell(&json!({ "progressToken": of, "progress": progress }));
    }

    fn ear(news: &News, of: i64, whose: &str) -> Ear {
        let ear = news.listen(&[whose.to_owned()].into());
        ear.settle(&token(of));
        ear
    }

    /// How far its call was told to be, as far as that waits.
    fn heard(ear: &mut Ear) -> Vec<u64> {
        std::iter::from_fn(|| ear.next().now_or_never().flatten())
            .map(|told| told["progress"].as_f64().map_or(u64::MAX, |progress| progress as u64))
            .collect()
    }

    #[test]
    fn a_call_hears_of_itself_only_also_what_came_before_it_knew_its_token() {
        let news = News::default();
        let (mut early, mut other) = (news.listen(&["ada".to_owned()].into()), ear(&news, 2, "ada"));
        tell(&news, 1, 1);
        tell(&news, 2, 7);
        early.settle(&token(1));
        tell(&news, 2, 8);
        news.tell(&json!({ "progressToken": "1", "progress": 2 }));
        news.tell(&json!({ "progressToken": "x", "progress": 3 }));
        assert_eq!(early.receiver.len(), 3, "nothing of another call is queued once its token is known");
        assert_eq!((heard(&mut early), heard(&mut other)), (vec![1, 2], vec![7, 8]));
    }

    #[test]
    fn what_is_odd_in_a_notification_is_left_out_and_the_rest_is_heard() {
        let news = News::default();
        let mut ear = ear(&news, 4, "ada");
        let none = Value::Null;
        for (params, [progress, total, message]) in [
            (json!({ "progressToken": 4, "progress": "1" }), [json!(1.0), none.clone(), none.clone()]),
            (
                json!({ "progressToken": 4.0, "progress": 2, "total": "3", "message": 7 }),
                [json!(2.0), json!(3.0), json!("7")],
            ),
            (json!({ "progressToken": " 4", "message": "on it" }), [json!(2.0), none.clone(), json!("on it")]),
            (
                json!({ "progressToken": 4, "progress": "half", "total": [], "message": {} }),
                [json!(2.0), none.clone(), none.clone()],
            ),
        ] {
            news.tell(&params);
            let told = json!({ "progress": progress, "total": total, "message": message });
            assert_eq!(ear.next().now_or_never().flatten(), Some(told), "{params}");
        }
        for none in [json!({}), json!(null), json!({ "progressToken": 4.5 }), json!({ "progressToken": [4] })] {
            news.tell(&none);
            assert_eq!(ear.next().now_or_never(), None, "{none}");
        }
    }

    #[test]
    fn equal_tokens_of_two_connections_are_two_calls() {
        let (news, others) = (News::default(), News::default());
        let (mut one, mut other) = (ear(&news, 1, "ada"), ear(&others, 1, "ben"));
        tell(&news, 1, 5);
        assert_eq!((heard(&mut one), heard(&mut other)), (vec![5], Vec::new()));
    }

    #[test]
    fn a_caller_who_does_not_read_takes_no_room_of_others() {
        let news = News::default();
        let mut all: Vec<Ear> = (0..8).map(|of| ear(&news, of, "ada")).collect();
        let mut ben = ear(&news, 8, "ben");
        for of in 0..8 {
            (0..4_096).for_each(|progress| tell(&news, of, progress));
        }
        tell(&news, 8, 1);
        let waiting: usize = all.iter().map(|ear| ear.receiver.len()).sum();
        assert_eq!((waiting, heard(&mut ben)), (OF_CALLER_MAX, vec![1]));
        assert_eq!(heard(&mut all[0]).len(), OF_CALLER_MAX);
        // And all of them no more than a connection may have.
        let many: Vec<Ear> = (10..16).map(|of| ear(&news, of, &format!("caller-{of}"))).collect();
        for of in 10..16 {
            (0..4_096).for_each(|progress| tell(&news, of, progress));
        }
        assert_eq!(many.iter().map(|ear| ear.receiver.len()).sum::<usize>(), WAITING_MAX);
    }
}

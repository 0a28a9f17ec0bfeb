//! Which call a question of a server belongs to. Only the stream on which it comes, or the task that it names, says so; any other
//! question may belong to each call that its server has not answered, whether anybody waits for that call still or not.

use std::collections::BTreeMap;

/// Requests of one connection that were given up and are not answered.
const GIVEN_UP_MAX: usize = 256;

/// What a question says of where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// The stream that answers the request of this id.
    Stream(&'a str),
    /// The task of this id.
    Task(&'a str),
    /// Nothing.
    Unsaid,
}

/// The requests of one connection that call tools, by their ids, until they are over and nobody waits for them.
#[derive(Debug, Default)]
pub struct Origins {
    requests: BTreeMap<String, Request>,
    /// Whether more were given up than are remembered.
    is_full: bool,
}

#[derive(Debug)]
struct Request {
    state: State,
    /// Whether its caller waits for it.
    is_awaited: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Unanswered,
    /// It was answered with this task, which goes on.
    Task(String),
    Over,
}

impl Origins {
    /// A request is sent.
    pub fn sent(&mut self, id: &str) {
        self.note(id, true);
    }

    /// Its server answered a request: with a task, on which it works, or for good. So it is when a task is over.
    pub fn answered(&mut self, id: &str, task: Option<&str>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = task.map_or(State::Over, |task| State::Task(task.to_owned()));
        self.forget(id);
    }

    /// Nobody waits for a request any more. It may not even be sent yet.
    pub fn left(&mut self, id: &str) {
        self.note(id, false).is_awaited = false;
        self.forget(id);
        let given_up = || self.requests.iter().filter(|(_, request)| !request.is_awaited);
        if given_up().count() > GIVEN_UP_MAX {
            let first = given_up().next().map(|(id, _)| id.clone());
            self.is_full = true;
            if let Some(first) = first {
                self.requests.remove(&first);
            }
        }
    }

    /// Whether this is a request that is not over.
    pub fn knows(&self, id: &str) -> bool {
        self.requests.get(id).is_some_and(Request::is_open)
    }

    /// The request whose caller a question is for. None if nobody waits for it, or it may be another's.
    pub fn asker(&self, source: Source<'_>) -> Option<&str> {
        let mut open = self.requests.iter().filter(|(_, request)| request.is_open());
        let (id, request) = match source {
            Source::Stream(id) => open.find(|(own, _)| *own == id),
            Source::Task(id) => open.find(|(_, request)| matches!(&request.state, State::Task(own) if own == id)),
            Source::Unsaid => open.next().filter(|_| open.next().is_none() && !self.is_full),
        }?;
        request.is_awaited.then_some(id.as_str())
    }

    /// Whether an answer is outstanding that nobody waits for.
    pub fn owes(&self) -> bool {
        let is_owed = |request: &Request| !request.is_awaited && request.state == State::Unanswered;
        self.is_full || self.requests.values().any(is_owed)
    }

    fn note(&mut self, id: &str, is_awaited: bool) -> &mut Request {
        self.requests.entry(id.to_owned()).or_insert(Request { state: State::Unanswered, is_awaited })
    }

    fn forget(&mut self, id: &str) {
        if self.requests.get(id).is_some_and(|request| !request.is_awaited && !request.is_open()) {
            self.requests.remove(id);
        }
    }
}

impl Request {
    fn is_open(&self) -> bool {
        self.state != State::Over
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens on a connection; a number chooses the call.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Calls,
        HangsUpBeforeItIsSent,
        HangsUp(usize),
        Answers(usize),
        BeginsTask(usize),
        Asks(usize),
    }

    /// A call as its server and its caller know it.
    #[derive(Debug, Clone, Copy)]
    struct Call {
        is_awaited: bool,
        is_open: bool,
        is_task: bool,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let pick = || 0..1_000usize;
        let event = prop_oneof![
            3 => Just(Event::Calls),
            1 => Just(Event::HangsUpBeforeItIsSent),
            2 => pick().prop_map(Event::HangsUp),
            3 => pick().prop_map(Event::Answers),
            1 => pick().prop_map(Event::BeginsTask),
            4 => pick().prop_map(Event::Asks),
        ];
        prop::collection::vec(event, 1..120)
    }

    /// One of the calls that are such.
    fn one_of(calls: &[Call], number: usize, is_such: impl Fn(&Call) -> bool) -> Option<usize> {
        let such: Vec<usize> = (0..calls.len()).filter(|place| is_such(&calls[*place])).collect();
        such.get(number % such.len().max(1)).copied()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_024))]
        #[test]
        fn no_question_reaches_a_caller_who_could_not_be_its_origin(events in events()) {
            let (mut origins, mut calls) = (Origins::default(), Vec::<Call>::new());
            for event in events {
                let id = calls.len().to_string();
                match event {
                    Event::Calls => {
                        origins.sent(&id);
                        calls.push(Call { is_awaited: true, is_open: true, is_task: false });
                    }
                    Event::HangsUpBeforeItIsSent => {
                        origins.left(&id);
                        origins.sent(&id);
                        calls.push(Call { is_awaited: false, is_open: true, is_task: false });
                    }
                    Event::HangsUp(number) => if let Some(one) = one_of(&calls, number, |call| call.is_awaited) {
                        origins.left(&one.to_string());
                        calls[one].is_awaited = false;
                    },
                    Event::Answers(number) => if let Some(one) = one_of(&calls, number, |call| call.is_open) {
                        origins.answered(&one.to_string(), None);
                        calls[one].is_open = false;
                    },
                    Event::BeginsTask(number) => {
                        if let Some(one) = one_of(&calls, number, |call| call.is_open && !call.is_task) {
                            origins.answered(&one.to_string(), Some(&format!("task-{one}")));
                            calls[one].is_task = true;
                        }
                    }
                    Event::Asks(number) => if let Some(one) = one_of(&calls, number, |call| call.is_open) {
                        let (own, task) = (one.to_string(), format!("task-{one}"));
                        let right = calls[one].is_awaited.then_some(own.as_str());
                        prop_assert_eq!(origins.asker(Source::Stream(&own)), right);
                        let of_task = right.filter(|_| calls[one].is_task);
                        prop_assert_eq!(origins.asker(Source::Task(&task)), of_task);
                        let is_only = calls.iter().filter(|call| call.is_open).count() == 1;
                        prop_assert_eq!(origins.asker(Source::Unsaid), right.filter(|_| is_only));
                    },
                }
                let owed = calls.iter().any(|call| !call.is_awaited && call.is_open && !call.is_task);
                prop_assert_eq!(origins.owes(), owed);
            }
        }
    }

    #[test]
    fn a_question_of_a_caller_who_hung_up_is_nobody_elses() {
        let mut origins = Origins::default();
        origins.sent("1");
        origins.left("1");
        origins.sent("2");
        assert_eq!(origins.asker(Source::Unsaid), None, "it may be the first's");
        origins.answered("1", None);
        assert_eq!(origins.asker(Source::Unsaid), Some("2"));
        assert_eq!(origins.asker(Source::Stream("1")), None);
        assert_eq!(origins.asker(Source::Stream("7")), None, "of no call");
        assert_eq!(origins.asker(Source::Task("t")), None, "of no task");
    }

    #[test]
    fn where_more_were_given_up_than_are_remembered_nobody_is_asked() {
        let mut origins = Origins::default();
        for id in 0..=GIVEN_UP_MAX {
            origins.sent(&id.to_string());
            origins.left(&id.to_string());
        }
        assert_eq!(origins.requests.len(), GIVEN_UP_MAX);
        for id in 0..=GIVEN_UP_MAX {
            origins.answered(&id.to_string(), None);
        }
        origins.sent("last");
        assert_eq!(origins.asker(Source::Unsaid), None);
        assert!(origins.owes());
        assert_eq!(origins.asker(Source::Stream("last")), Some("last"), "its stream says so");
    }
}

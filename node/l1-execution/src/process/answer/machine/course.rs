//! Decides when the answer to a message is complete: when a last state says so, or a message is all of it. What ends before
//! that is followed: the task is asked for, with longer and longer pauses.

use std::time::Duration;

use a2a::{StreamResponse, TaskState};

use crate::agent::AgentError;

/// Before the task is asked for: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How long requests for the task may lead to nothing, where the turn has no end of its own.
const SILENT_MAX: Duration = Duration::from_secs(600);
/// How long a task may change nothing while it is asked for.
const STILL_MAX: Duration = Duration::from_secs(3_600);
/// Before the end of the turn's time, the task is asked for the last time.
const LAST: Duration = Duration::from_millis(200);
/// Things in an answer that are not A2A, and are passed over.
const ODD_MAX: u32 = 16;
/// How each of these failures begins.
const ENDED: &str = "its answer ended while it worked";

/// How far an answer is.
#[derive(Debug)]
pub struct Course {
    /// The agent's task: the one that the message continues, then the one that the answer names.
    task: Option<String>,
    /// Whether the answer named it.
    is_named: bool,
    is_over: bool,
    odd: u32,
    /// The first thing that was not A2A.
    first_odd: Option<String>,
    /// Requests for the task in a row that led to nothing, and why the last one did.
    missed: Option<(u32, String)>,
    pause: Duration,
    /// When the agent told something last, since the turn began.
    heard: Duration,
    /// When the task changed last, since the turn began.
    changed: Duration,
    /// The time that the turn has.
    within: Option<Duration>,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is told.
    Take,
    /// It is a message beside the task, and told as progress: only a state ends a task.
    Aside,
    /// It is of another task, or comes after the end: it is passed over.
    Pass,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// The answer to the message is at its end, or broke off.
    Answer,
    /// The agent told of its task, and whether anything of it was new.
    Told {
        /// Whether it was.
        changed: bool,
    },
    /// Asking for the task led to nothing.
    Missed(Miss),
}

/// Why asking for a task led to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// The same request may succeed later; why it did not now.
    Now(String),
    /// It never will, in words.
    Ever(String),
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The answer is complete.
    Done,
    /// Ask for that task after a pause.
    Ask {
        /// The agent's id of it.
        task: String,
        /// How long to wait before.
        pause: Duration,
    },
    /// The turn failed.
    Fail(AgentError),
    /// The turn failed, and the task is to be cancelled.
    GiveUp(AgentError),
}

impl Course {
    /// The answer to a message that continues that task, in a turn that has so much time.
    pub fn new(task: Option<String>, within: Option<Duration>) -> Course {
        Course {
            task,
            is_named: false,
            is_over: false,
            odd: 0,
            first_odd: None,
            missed: None,
            pause: PAUSE.0,
            heard: Duration::ZERO,
            changed: Duration::ZERO,
            within,
        }
    }

    /// Whether the answer is complete; what comes after that is passed over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Judges an event.
    pub fn hear(&mut self, event: &StreamResponse) -> Verdict {
        if self.is_over {
            return Verdict::Pass;
        }
        let (task, state) = match event {
            StreamResponse::Message(_) if self.is_named => return Verdict::Aside,
            StreamResponse::Message(_) => {
                self.is_over = true;
                return Verdict::Take;
            }
            StreamResponse::Task(task) => (&task.id, Some(&task.status.state)),
            StreamResponse::StatusUpdate(update) => (&update.task_id, Some(&update.status.state)),
            StreamResponse::ArtifactUpdate(update) => (&update.task_id, None),
        };
        if self.is_named && self.task.as_ref() != Some(task) {
            return Verdict::Pass;
        }
        self.task = Some(task.clone());
        self.is_named = true;
        self.is_over = state.is_some_and(is_last);
        Verdict::Take
    }

    /// Notes something that is not A2A.
    ///
    /// # Errors
    /// There is too much of it.
    pub fn odd(&mut self, what: String) -> Result<(), AgentError> {
        self.odd += 1;
        let first = self.first_odd.get_or_insert(what);
        if self.odd > ODD_MAX { Err(AgentError::NotA2a(first.clone())) } else { Ok(()) }
    }

    /// What to do after that; `now` is the time since the turn began.
    pub fn next(&mut self, after: After, now: Duration) -> Next {
        if self.is_over {
            return Next::Done;
        }
        let Some(task) = self.task.clone() else {
            return Next::Fail(match self.first_odd.take() {
                Some(what) => AgentError::NotA2a(what),
                None => failed("it named no task that could be asked for"),
            });
        };
        match after {
            After::Answer | After::Told { changed: true } => {
                (self.pause, self.changed, self.heard, self.missed) = (PAUSE.0, now, now, None);
            }
            After::Told { changed: false } => (self.heard, self.missed) = (now, None),
            After::Missed(Miss::Ever(why)) => return Next::Fail(failed(&why)),
            After::Missed(Miss::Now(why)) => {
                let times = self.missed.take().map_or(0, |(times, _)| times);
                self.missed = Some((times + 1, why));
            }
        }
        if self.within.is_none() && now.saturating_sub(self.heard) >= SILENT_MAX {
            return self.give_up("nothing was told of its task for ten minutes");
        }
        if now.saturating_sub(self.changed) >= STILL_MAX {
            return self.give_up("nothing of its task changed for an hour");
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE.1);
        let Some(left) = self.within.map(|within| within.saturating_sub(now)) else { return Next::Ask { task, pause } };
        match left.checked_sub(LAST) {
            Some(left) if !left.is_zero() => Next::Ask { task, pause: pause.min(left) },
            _ => self.give_up("the time that its caller gave it is over"),
        }
    }

    /// Gives the task up, with what asking for it led to last.
    fn give_up(&self, why: &str) -> Next {
        Next::GiveUp(failed(&match &self.missed {
            None => why.to_owned(),
            Some((times, last)) => format!("{why}; its task was asked for {times} times in vain: {last}"),
        }))
    }
}

fn failed(why: &str) -> AgentError {
    AgentError::Failed(format!("{ENDED}: {why}"))
}

/// Whether no more comes of a task by itself: it is over, or waits for its user.
pub fn is_last(state: &TaskState) -> bool {
    state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(event: Value) -> StreamResponse {
        serde_json::from_value(event).expect("an event")
    }

    fn task(id: &str, state: &str) -> StreamResponse {
        event(json!({ "task": { "id": id, "contextId": "c", "status": { "state": format!("TASK_STATE_{state}") } } }))
    }

    fn message() -> StreamResponse {
        event(json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "hello" }] } }))
    }

    fn why(next: Next) -> String {
        match next {
            Next::Fail(error) | Next::GiveUp(error) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    const NOW: Duration = Duration::from_secs(1);

    #[test]
    fn only_a_last_state_or_a_message_alone_ends_an_answer() {
        for state in ["COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"] {
            let mut course = Course::new(None, None);
            assert_eq!(course.hear(&task("t", "WORKING")), Verdict::Take);
            assert_eq!(course.hear(&task("t", state)), Verdict::Take);
            assert_eq!(course.hear(&task("t", "WORKING")), Verdict::Pass, "it is over");
            assert_eq!(course.next(After::Answer, NOW), Next::Done, "{state}");
        }
        for state in ["SUBMITTED", "WORKING", "UNSPECIFIED"] {
            let mut course = Course::new(None, None);
            course.hear(&task("t", state));
            assert_eq!(course.hear(&message()), Verdict::Aside, "a message ends no task");
            assert_eq!(course.hear(&task("other", "COMPLETED")), Verdict::Pass, "it is another's");
            assert!(matches!(course.next(After::Answer, NOW), Next::Ask { task, .. } if task == "t"), "{state}");
        }
        let mut course = Course::new(Some("t".to_owned()), None);
        assert_eq!(course.hear(&message()), Verdict::Take);
        assert_eq!(course.next(After::Answer, NOW), Next::Done);
    }

    #[test]
    fn what_says_nothing_is_followed_where_the_task_is_known_and_fails_elsewhere() {
        assert!(why(Course::new(None, None).next(After::Answer, NOW)).starts_with(ENDED));
        let mut continued = Course::new(Some("t".to_owned()), None);
        assert!(matches!(continued.next(After::Answer, NOW), Next::Ask { .. }));
        let mut odd = Course::new(None, None);
        odd.odd("hello".to_owned()).expect("the first");
        assert_eq!(odd.next(After::Answer, NOW), Next::Fail(AgentError::NotA2a("hello".to_owned())));
        let outcome = (0..=ODD_MAX).map(|_| odd.odd("more".to_owned())).find(Result::is_err);
        assert!(outcome.is_some(), "it is not read for ever");
    }

    #[test]
    fn a_task_is_asked_for_with_longer_pauses_and_sooner_again_once_it_changes() {
        let mut course = Course::new(Some("t".to_owned()), None);
        let mut now = NOW;
        let mut pauses = Vec::new();
        let mut next = course.next(After::Answer, now);
        for _ in 0..9 {
            let Next::Ask { pause, .. } = next else { panic!("{next:?}") };
            pauses.push(u64::try_from(pause.as_millis()).expect("it is short"));
            now += pause;
            next = course.next(After::Told { changed: false }, now);
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
        let sooner = course.next(After::Told { changed: true }, now);
        assert!(matches!(sooner, Next::Ask { pause, .. } if pause == PAUSE.0), "{sooner:?}");
        assert!(why(course.next(After::Told { changed: false }, now + STILL_MAX)).contains("for an hour"));
    }

    #[test]
    fn what_asking_leads_to_decides_how_long_it_goes_on() {
        let missed = || After::Missed(Miss::Now("it does not answer".to_owned()));
        let mut course = Course::new(Some("t".to_owned()), None);
        course.next(After::Answer, NOW);
        let almost = NOW + SILENT_MAX - Duration::from_secs(1);
        for _ in 0..100 {
            assert!(matches!(course.next(missed(), almost), Next::Ask { pause, .. } if pause <= PAUSE.1));
        }
        let told = course.next(After::Told { changed: false }, almost);
        assert!(matches!(told, Next::Ask { .. }), "it is back: {told:?}");
        assert!(matches!(course.next(missed(), almost), Next::Ask { .. }));
        let told = why(course.next(missed(), almost + SILENT_MAX));
        assert!(told.starts_with(ENDED) && told.ends_with("asked for 2 times in vain: it does not answer"), "{told}");
        let ever = course.next(After::Missed(Miss::Ever("it does not know the task any more".to_owned())), NOW);
        assert!(matches!(&ever, Next::Fail(_)), "{ever:?}");
    }

    #[test]
    fn a_turn_with_an_end_asks_until_then_however_often_that_leads_to_nothing() {
        let within = SILENT_MAX * 3;
        let mut course = Course::new(Some("t".to_owned()), Some(within));
        course.next(After::Answer, NOW);
        let missed = || After::Missed(Miss::Now("it does not answer".to_owned()));
        let (mut now, mut times) = (NOW, 0);
        let last = loop {
            match course.next(missed(), now) {
                Next::Ask { pause, .. } => now += pause,
                other => break other,
            }
            times += 1;
            assert!(times < 1_000, "it does not end");
        };
        assert!(matches!(&last, Next::GiveUp(_)) && now + LAST >= within, "{last:?} after {now:?}");
        let told = why(last);
        assert!(told.contains("its caller gave it is over") && told.ends_with("it does not answer"), "{told}");
    }

    #[test]
    fn the_turns_time_is_used_up_and_no_longer() {
        let mut course = Course::new(Some("t".to_owned()), Some(Duration::from_millis(1_500)));
        course.hear(&task("t", "WORKING"));
        let of = Duration::from_millis;
        let pause = |next: Next| match next {
            Next::Ask { pause, .. } => pause,
            other => panic!("{other:?}"),
        };
        assert_eq!(pause(course.next(After::Answer, of(0))), of(200));
        assert_eq!(pause(course.next(After::Told { changed: false }, of(200))), of(400));
        assert_eq!(pause(course.next(After::Told { changed: false }, of(600))), of(700), "and not 800");
        let over = course.next(After::Told { changed: false }, of(1_300));
        assert!(matches!(&over, Next::GiveUp(_)), "{over:?}");
        assert_eq!(why(over), format!("{ENDED}: the time that its caller gave it is over"));
    }
}

//! Decides when the answer to a message is complete: when a last state says so, or a message is all of it. What ends before
//! that is followed: the task is asked for, with longer and longer pauses. So is what has a gap, where something that may have been
//! a piece of it was passed over: no answer with a gap is complete.

use std::time::Duration;

use a2a::{Message, StreamResponse, TaskState, TaskStatus};

use super::artifacts::Share;
use super::decoder::{Hint, SkippedItem};
use super::evidence::{Losses, Pieces, Subject};
use super::words::{is_interrupted, may_be_whole, says_something};
use crate::agent::AgentError;
use crate::tools::RESULT_TOO_LONG;

/// Before the task is asked for: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How long requests for the task may lead to nothing, where the turn has no end of its own; and in any turn, how long they may
/// lead to what cannot be read.
const SILENT_MAX: Duration = Duration::from_secs(600);
/// How long a task may change nothing while it is asked for.
const STILL_MAX: Duration = Duration::from_secs(3_600);
/// The same where its agent had answered with an error.
const REFUSED_STILL_MAX: Duration = Duration::from_secs(120);
/// How often a task is asked for whose answer is at its end, and has a gap.
const GAP_ASKS_MAX: u32 = 5;
/// Before the end of the turn's time, the task is asked for the last time.
const LAST: Duration = Duration::from_millis(200);
/// Things in a row in an answer that are not A2A, and are passed over.
const FOREIGN_MAX: u32 = 16;
/// How failures begin of answers that end early.
const ENDED: &str = "its answer ended while it worked";
/// How failures begin of answers in which something may be missing.
const GAP: &str = "a part of its answer could not be read";

/// How far an answer is. The stage only grows, and so does what is known of the task and of gaps.
#[derive(Debug)]
pub struct Course {
    stage: Stage,
    subject: Subject,
    pieces: Pieces,
    losses: Losses,
    /// Things in a row that were not A2A.
    foreign: u32,
    /// The error that the agent answered with, while its task went on.
    refusal: Option<AgentError>,
    /// Requests for the task in a row that led to nothing, and why the last one did.
    missed: Option<(u32, String)>,
    /// Whether what the agent told of its task last could not be read.
    is_odd: bool,
    pause: Duration,
    /// When the agent told something last, since the turn began. Of what cannot be read, the first counts: it may tell the same for
    /// ever.
    heard: Duration,
    /// When the task changed last, since the turn began.
    changed: Duration,
    /// The time that the turn has.
    within: Option<Duration>,
}

/// Where an answer is in its course, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It is read.
    Open,
    /// It broke off; what arrived of it is still read.
    Broken,
    /// Nothing more of it is read, though its task is not over: that is to be asked for.
    Left,
    /// The task was asked for: what is heard now is told by that.
    Asking,
    /// It is complete.
    Over,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is told.
    Take,
    /// It is a message beside the task, and told as progress: only a state ends a task.
    Aside,
    /// It is a message that names a task, or answers what goes on with one, of which nothing else was heard: it is told once more is known. If the agent knows no such
    /// task, it is all of the answer.
    Hold,
    /// It is a last state, and the answer has a gap: it is told once the task has all.
    Withhold,
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
    /// The agent told something that cannot be read, in words: it may tell the same for ever, or something else once its task goes on.
    Odd(String),
    /// It never will, in words.
    Ever(String),
    /// The agent does not tell of its tasks, in words.
    Silent(String),
    /// The agent knows no such task.
    Unknown,
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
            stage: Stage::Open,
            subject: task.map_or(Subject::Nothing, Subject::Continuation),
            pieces: Pieces::Whole,
            losses: Losses::default(),
            foreign: 0,
            refusal: None,
            missed: None,
            is_odd: false,
            pause: PAUSE.0,
            heard: Duration::ZERO,
            changed: Duration::ZERO,
            within,
        }
    }

    /// Whether nothing more of the answer is read: it is complete, or its task is asked for.
    pub fn is_heard(&self) -> bool {
        self.stage >= Stage::Left
    }

    /// The agent's task, if it is known.
    pub fn task(&self) -> Option<&str> {
        self.subject.task()
    }

    /// Judges an event; `share` says how much of what was told it has.
    pub fn hear(&mut self, event: &StreamResponse, share: Share) -> Verdict {
        if matches!(self.stage, Stage::Left | Stage::Over) {
            return Verdict::Pass;
        }
        self.foreign = 0;
        let (task, status) = match event {
            StreamResponse::Message(message) => return self.hear_message(message),
            StreamResponse::Task(task) => (&task.id, Some(&task.status)),
            StreamResponse::StatusUpdate(update) => (&update.task_id, Some(&update.status)),
            StreamResponse::ArtifactUpdate(update) => (&update.task_id, None),
        };
        if self.subject.is_named() && self.task() != Some(task.as_str()) {
            return Verdict::Pass;
        }
        self.subject = Subject::Task(task.clone());
        let Some(status) = status.filter(|status| is_last(&status.state)) else { return Verdict::Take };
        if may_be_whole(&status.state) && !self.has_all(status, share) {
            self.reach(Stage::Left);
            self.pieces.withhold();
            return Verdict::Withhold;
        }
        self.reach(Stage::Over);
        Verdict::Take
    }

    fn hear_message(&mut self, message: &Message) -> Verdict {
        if self.subject.is_named() {
            self.subject.expect_more();
            return Verdict::Aside;
        }
        let named = message.task_id.as_deref().filter(|task| !task.trim().is_empty());
        let Some(task) = named.or(self.task()).map(str::to_owned) else {
            // What could not be read was of a task: the message is beside it.
            if self.pieces.gap().is_some_and(|gap| gap.hint >= Hint::Task) {
                return Verdict::Aside;
            }
            self.reach(Stage::Over);
            return Verdict::Take;
        };
        self.subject = if self.stage == Stage::Broken { Subject::Task(task) } else { Subject::Message(task) };
        Verdict::Hold
    }

    /// Whether nothing of the answer can be missing that ends with that status.
    fn has_all(&self, status: &TaskStatus, share: Share) -> bool {
        let Some(hint) = self.pieces.gap().map(|gap| gap.hint) else { return true };
        let is_asking = self.stage == Stage::Asking;
        let has_word = is_asking && says_something(status);
        // Nothing that was made, perhaps long ago, says what its user is asked.
        if self.losses.word && is_interrupted(&status.state) && !has_word {
            return false;
        }
        match (hint, share) {
            (_, Share::All) => true,
            // All that was made was told.
            (Hint::LastWord, Share::Less) => !self.losses.more && (status.state == TaskState::Completed || has_word),
            (_, Share::Nothing) if !is_asking => false,
            // An agent that is asked and knows of no artifacts had none, unless one was seen.
            (Hint::Anything | Hint::Task, Share::Nothing) => true,
            (Hint::LastWord, Share::Nothing) => has_word,
            (Hint::Artifact | Hint::ArtifactAndWord, Share::Nothing) | (_, Share::Less) => false,
        }
    }

    /// Goes on to a stage, unless it was passed already.
    fn reach(&mut self, stage: Stage) {
        self.stage = self.stage.max(stage);
    }

    /// Notes something that was passed over, and may have been a piece.
    pub fn note_gap(&mut self, item: SkippedItem) {
        self.losses.note(item.hint);
        self.pieces.note_gap(item);
    }

    /// Notes something that is not A2A. After too much of it the answer is left, and its task is asked for.
    ///
    /// # Errors
    /// There is too much of it, and no task that could be asked for.
    pub fn note_foreign(&mut self, item: SkippedItem) -> Result<(), AgentError> {
        self.note_gap(item);
        self.foreign += 1;
        if self.foreign > FOREIGN_MAX { self.leave() } else { Ok(()) }
    }

    /// Notes that the answer goes on with something that is too long to be read.
    ///
    /// # Errors
    /// There is no task that could be asked for.
    pub fn endless(&mut self) -> Result<(), AgentError> {
        if self.task().is_none() {
            return Err(AgentError::TooLong(RESULT_TOO_LONG));
        }
        self.note_gap(SkippedItem { what: RESULT_TOO_LONG.to_owned(), hint: Hint::Artifact });
        self.leave()
    }

    /// Notes the agent's error.
    ///
    /// # Errors
    /// That error, unless the answer named a task before, which may go on.
    pub fn refuse(&mut self, error: AgentError) -> Result<(), AgentError> {
        if !self.subject.is_named() {
            return Err(error);
        }
        self.refusal = Some(error);
        self.leave()
    }

    /// Notes that the answer broke off.
    pub fn break_off(&mut self) {
        self.reach(Stage::Broken);
        self.subject.expect_more();
    }

    fn leave(&mut self) -> Result<(), AgentError> {
        if self.task().is_none() {
            return Err(self.no_a2a());
        }
        self.reach(Stage::Left);
        Ok(())
    }

    /// Of an answer without a task.
    fn no_a2a(&self) -> AgentError {
        match self.pieces.gap() {
            Some(gap) => AgentError::NotA2a(gap.what.clone()),
            None => failed("it named no task that could be asked for"),
        }
    }

    /// What to do after that; `now` is the time since the turn began.
    pub fn next(&mut self, after: After, now: Duration) -> Next {
        if self.stage == Stage::Over {
            return Next::Done;
        }
        let Some(task) = self.task().map(str::to_owned) else {
            return Next::Fail(self.no_a2a());
        };
        match after {
            After::Answer | After::Told { changed: true } => {
                (self.pause, self.changed, self.heard) = (PAUSE.0, now, now);
                (self.missed, self.is_odd) = (None, false);
            }
            After::Told { changed: false } => (self.heard, self.missed, self.is_odd) = (now, None, false),
            // Nothing but the message is there, or ever will be.
            After::Missed(Miss::Unknown | Miss::Silent(_))
                if matches!((&self.subject, &self.pieces), (Subject::Message(_), Pieces::Whole)) =>
            {
                self.reach(Stage::Over);
                return Next::Done;
            }
            After::Missed(Miss::Unknown) => return Next::Fail(self.failure("it does not know its task any more")),
            After::Missed(Miss::Ever(why) | Miss::Silent(why)) => return Next::Fail(self.failure(&why)),
            After::Missed(Miss::Odd(why)) => {
                if !std::mem::replace(&mut self.is_odd, true) {
                    self.heard = now;
                }
                if now.saturating_sub(self.heard) >= SILENT_MAX {
                    // It may be over at the agent, and well: nothing is cancelled there.
                    return Next::Fail(self.failure(&format!("its task cannot be read (GetTask): {why}")));
                }
                self.miss(why);
            }
            After::Missed(Miss::Now(why)) => self.miss(why),
        }
        if let Pieces::Withheld { asks, .. } = &mut self.pieces {
            *asks += 1;
            if *asks > GAP_ASKS_MAX {
                return self.give_up("the task has less than was told, or could not be read");
            }
        }
        if self.refusal.is_some() && now.saturating_sub(self.changed) >= REFUSED_STILL_MAX {
            return self.give_up("nothing of its task changed since");
        }
        if self.within.is_none() && now.saturating_sub(self.heard) >= SILENT_MAX {
            return self.give_up("nothing was told of its task for ten minutes");
        }
        if now.saturating_sub(self.changed) >= STILL_MAX {
            return self.give_up("nothing of its task changed for an hour");
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE.1);
        let left = self.within.map(|within| within.saturating_sub(now).saturating_sub(LAST));
        if left.is_some_and(|left| left.is_zero()) {
            return self.give_up("the time that its caller gave it is over");
        }
        self.reach(Stage::Asking);
        Next::Ask { task, pause: left.map_or(pause, |left| pause.min(left)) }
    }

    fn miss(&mut self, why: String) {
        let times = self.missed.take().map_or(0, |(times, _)| times);
        self.missed = Some((times + 1, why));
    }

    /// Gives the task up, with what asking for it led to last.
    fn give_up(&self, why: &str) -> Next {
        let failure = self.failure(&match &self.missed {
            None => why.to_owned(),
            Some((times, last)) => format!("{why}; its task was asked for {times} times in vain: {last}"),
        });
        match &self.pieces {
            // It is over at the agent, or waits for its user: nothing goes on there that could be cancelled.
            Pieces::Withheld { .. } => Next::Fail(failure),
            Pieces::Whole | Pieces::Gap(_) => Next::GiveUp(failure),
        }
    }

    /// Why the turn failed whose task could not be followed: with the agent's own error, if it said one.
    fn failure(&self, why: &str) -> AgentError {
        match (&self.refusal, &self.pieces) {
            (Some(refusal), _) => refusal.clone(),
            (None, Pieces::Withheld { gap, .. }) => {
                AgentError::Failed(format!("{GAP} ({}), and its task does not show it: {why}", gap.what))
            }
            _ => failed(why),
        }
    }
}

fn failed(why: &str) -> AgentError {
    AgentError::Failed(format!("{ENDED}: {why}"))
}

/// Whether no more comes of a task by itself: it is over, or waits for its user.
pub fn is_last(state: &TaskState) -> bool {
    state.is_terminal() || is_interrupted(state)
}

#[cfg(test)]
mod tests;

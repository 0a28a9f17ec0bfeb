//! A tape as the journal of a turn: the turn is told what the tape has, and makes no call.

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use althing_execution::journal::{
    Checkpoint, Clock, Intent, Journal, JournalError, NextStep, Reading, Replay, Step, StepOutcome,
};
use althing_store::Batch;
use futures::future::{self, BoxFuture};

use crate::machine::tape::{NotOnTape, OnTape, Playback, Request, Tape};

/// Plays a tape to one turn. Nothing that the turn asks is asked of anybody, and nothing is written.
pub struct Player {
    state: Mutex<State>,
}

struct State {
    playback: Playback,
    /// How many readings of clocks were told.
    readings: usize,
}

impl Player {
    /// Of a tape, from its beginning.
    #[must_use]
    pub fn new(tape: Tape) -> Player {
        Player { state: Mutex::new(State { playback: Playback::new(tape), readings: 0 }) }
    }

    /// How far it was played by now.
    #[must_use]
    pub fn playback(&self) -> Playback {
        self.state().playback.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the tape panics")
    }
}

impl State {
    fn read_clock(&mut self, now: Reading) -> Result<Reading, JournalError> {
        let readings = &self.playback.tape().turn().readings;
        let name = match now.clock {
            Clock::Wall => "a look at the time of day",
            Clock::Monotonic => "a look at the clock of the turn",
        };
        match readings.get(self.readings).filter(|told| told.clock == now.clock) {
            Some(told) => {
                self.readings += 1;
                Ok(*told)
            }
            None => {
                let has = if self.readings == 0 { OnTape::Nothing } else { OnTape::FewerTimes(readings.len()) };
                Err(refusal(&NotOnTape { name: name.to_owned(), has }))
            }
        }
    }
}

impl Journal for Player {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        let request = Request { kind: step.kind, name: step.name, arguments: step.arguments };
        let answer = self.state().playback.answer(request);
        let next = answer.map(|(_, outcome)| NextStep::Replayed(outcome)).map_err(|missing| refusal(&missing));
        Box::pin(future::ready(next))
    }

    // No step may be made, so nothing comes of one.
    fn done<'a>(&'a self, _: Intent, _: &'a StepOutcome, _: Batch) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(future::ready(Err(JournalError::Write)))
    }

    fn replay(&self) -> Option<&dyn Replay> {
        Some(self)
    }

    fn refuse_answer(&self, name: &str, whose: &str) -> Option<JournalError> {
        Some(refusal(&self.state().playback.refuse(name, whose)))
    }
}

impl Replay for Player {
    fn seed(&self) -> [u8; 32] {
        self.state().playback.tape().turn().seed
    }

    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError> {
        self.state().read_clock(now)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.state().playback.tape().turn().checkpoint.clone()
    }

    // The turn is not resumed: what it saves is not needed.
    fn save<'a>(&'a self, _: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(future::ready(Ok(())))
    }

    fn done_with<'a>(&'a self, _: Intent, _: &'a StepOutcome, _: Batch) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(future::ready(Err(JournalError::Write)))
    }
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").finish_non_exhaustive()
    }
}

fn refusal(missing: &NotOnTape) -> JournalError {
    JournalError::NotOnTape { what: missing.to_string() }
}

#[cfg(test)]
mod tests {
    use althing_execution::journal::Effect;
    use althing_execution::tools::CallKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::tape::tests::{heard, turn};

    async fn ask(player: &Player, name: &str, arguments: &Value) -> Result<NextStep, JournalError> {
        let (kind, effect) = (CallKind::Tool, Effect::Final);
        let step = Step { kind, name, arguments, effect, callee: None, gate: None, meanwhile: None };
        player.step(step).await
    }

    fn played() -> Player {
        let readings = vec![Reading { clock: Clock::Wall, ns: 5 }];
        let turn = althing_session::RecordedTurn { readings, ..turn(&[("mail/send", json!(1), Some(heard(2)))]) };
        Player::new(Tape::new(turn, "clerk").expect("it is the agent's"))
    }

    #[test]
    fn a_turn_is_told_what_the_tape_has_and_may_make_nothing() {
        futures::executor::block_on(async {
            let player = played();
            assert_eq!(ask(&player, "mail/send", &json!(1)).await, Ok(NextStep::Replayed(heard(2))));
            let refused = ask(&player, "mail/drop", &json!(1)).await.expect_err("it is not there");
            assert!(refused.to_string().starts_with("NOT_ON_TAPE: not on the tape: mail/drop"), "{refused}");
            assert!(player.playback().unplayed().is_empty() && player.playback().missing().is_some());
        });
    }

    #[test]
    fn clocks_say_what_they_said_and_no_more() {
        let player = played();
        let now = |clock| Reading { clock, ns: 90 };
        assert!(player.read_clock(now(Clock::Monotonic)).is_err(), "it read another one");
        assert_eq!(player.read_clock(now(Clock::Wall)), Ok(Reading { clock: Clock::Wall, ns: 5 }));
        assert!(player.read_clock(now(Clock::Wall)).is_err());
        assert_eq!(player.seed(), [9; 32]);
    }
}

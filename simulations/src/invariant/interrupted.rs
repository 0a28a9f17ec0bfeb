//! A new message to a working task ends its turn at once: what was made until then stays, nothing is added to it, and the new message
//! is answered.

use super::{Interrupted, Invariant, Seen};
use crate::actor::PIECES;

pub(super) struct GivesWay;

/// What is wrong with the answer to the second message.
fn wrong(said: &[String; 2], seen: &Seen) -> Option<&'static str> {
    let [first, second] = said;
    let Some((last, before)) = seen.artifacts.split_last() else { return Some("it made nothing") };
    let whole = PIECES.concat();
    let is_part = |made: &String| whole.starts_with(made.as_str()) && *made != whole;
    match before {
        _ if !seen.done || last != second => Some("the second message was not answered"),
        _ if seen.said != *said => Some("the messages were not kept"),
        [] => None,
        [made] if first == "pieces" && is_part(made) => None,
        _ => Some("the first turn went on"),
    }
}

impl Invariant for GivesWay {
    fn name(&self) -> &'static str {
        "interrupted-turns-give-way"
    }

    fn check_interrupted(&mut self, interrupted: &Interrupted) -> Result<(), String> {
        let Interrupted { caller, agent, said, answer, later, undisturbed, .. } = interrupted;
        let broken = |why: &str| Err(format!("node {caller} interrupted {agent}: {why}: {answer:?}, later {later:?}"));
        match (answer, later) {
            (Err(_), _) | (_, Err(_)) if *undisturbed => broken("it failed, and nothing was in the way"),
            (Ok(seen), _) if wrong(said, seen).is_some() => broken(wrong(said, seen).unwrap_or_default()),
            (Ok(seen), Ok(later)) if seen != later => broken("the task changed after it was over"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use crate::mesh::Owner;

    fn seen(artifacts: &[&str], said: &[&str]) -> Seen {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Seen { done: true, artifacts: owned(artifacts), said: owned(said) }
    }

    #[test]
    fn a_turn_that_goes_on_and_a_message_without_an_answer_break_it() {
        let agent = althing_protocol::AgentId::new(Owner::new(key(100)).id(), "agent").expect("a name");
        let said = ["pieces", "second"];
        let good = seen(&["0 1 ", "second"], &said);
        let interrupted = |answer: &Seen, later: &Seen| Interrupted {
            began_ms: 0,
            ended_ms: 100,
            caller: 1,
            agent: agent.clone(),
            said: said.map(str::to_owned),
            answer: Ok(answer.clone()),
            later: Ok(later.clone()),
            undisturbed: true,
        };
        let holds = |answer: &Seen, later: &Seen| GivesWay.check_interrupted(&interrupted(answer, later)).is_ok();
        assert!(holds(&good, &good) && holds(&seen(&["second"], &said), &seen(&["second"], &said)));
        let bad = [
            Seen { done: false, ..good.clone() },
            seen(&[], &said),
            seen(&["0 1 "], &said),
            seen(&["0 1 ", "second"], &["second"]),
            seen(&["0 1 2 3 4 ", "second"], &said),
            seen(&["second", "0 1 "], &said),
        ];
        for bad in bad {
            assert!(!holds(&bad, &bad), "{bad:?}");
        }
        assert!(!holds(&good, &seen(&["0 1 2 ", "second"], &said)), "it went on behind the new one");
        let failed = Interrupted { answer: Err("no".to_owned()), ..interrupted(&good, &good) };
        assert!(GivesWay.check_interrupted(&failed).is_err());
        assert!(GivesWay.check_interrupted(&Interrupted { undisturbed: false, ..failed }).is_ok());
    }
}

//! An agent's question is answered by the agent that it names, which learns on whose behalf it is asked; none is answered across owners
//! that do not trust each other.

use super::{Asked, Invariant, LONGEST_MS};

pub(super) struct AskedFor;

/// The principals that the last agent must be told: the local user of the first node, and each agent in between.
fn principals(asked: &Asked) -> String {
    let between = asked.agents.split_last().map_or(&[][..], |(_, before)| before);
    let chain = std::iter::once("local".to_owned()).chain(between.iter().map(ToString::to_string));
    chain.collect::<Vec<_>>().join(" ")
}

impl Invariant for AskedFor {
    fn name(&self) -> &'static str {
        "agents-ask-for-their-caller"
    }

    fn check_asked(&mut self, asked: &Asked) -> Result<(), String> {
        let names: Vec<&str> = asked.agents.iter().map(|agent| agent.name()).collect();
        let (asker, names, took_ms) = (asked.asker, names.join(", "), asked.ended_ms - asked.began_ms);
        if took_ms > LONGEST_MS {
            return Err(format!("node {asker} waited {took_ms} ms for {names}"));
        }
        match &asked.answer {
            Ok(_) if asked.trusted == Some(false) => {
                Err(format!("node {asker} was answered by {names}, and one of their nodes does not trust another"))
            }
            Ok(answer) if *answer != principals(asked) => {
                Err(format!("of {names} the last was called for {answer:?}, and not for {:?}", principals(asked)))
            }
            Err(why) if asked.undisturbed && asked.trusted == Some(true) => {
                Err(format!("node {asker} asked {names}, and nothing was in the way: {why}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use crate::mesh::Owner;
    use althing_protocol::AgentId;

    #[test]
    fn a_lost_question_a_hidden_principal_and_an_answer_to_a_stranger_break_it() {
        let agent = |name: &str| AgentId::new(Owner::new(key(100)).id(), name).expect("a name");
        let agents = vec![agent("a"), agent("b"), agent("c")];
        let answer = Ok(format!("local {} {}", agents[0], agents[1]));
        let good =
            Asked { began_ms: 0, ended_ms: 100, asker: 1, agents, answer, undisturbed: true, trusted: Some(true) };
        let holds = |asked: &Asked| AskedFor.check_asked(asked).is_ok();
        assert!(holds(&good));
        let hidden = Asked { answer: Ok(format!("local {}", good.agents[1])), ..good.clone() };
        assert!(!holds(&hidden), "{:?}", hidden.answer);
        let lost = Asked { answer: Err("no".to_owned()), ..good.clone() };
        assert!(!holds(&lost) && holds(&Asked { undisturbed: false, ..lost.clone() }));
        assert!(
            holds(&Asked { trusted: Some(false), ..lost }) && !holds(&Asked { trusted: Some(false), ..good.clone() })
        );
        assert!(!holds(&Asked { ended_ms: LONGEST_MS + 1, ..good }));
    }
}

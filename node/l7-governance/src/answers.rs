//! Answers of people.

use althing_protocol::audit::AnswerWord;
use althing_protocol::{digest_of_hex, hex};
use althing_store::{Batch, Durability};
use serde_json::Value;

use crate::actor::{Actor, Answer, StandingTerms};
use crate::consents::Consents;
use crate::error::AnswerError;
use crate::governance::Governance;
use crate::leaves::{self, OwnerChange};
use crate::machine::consent::{AskId, Need, Question, Speaker, StandingYes, Template, escaped};
use crate::machine::key::PersonSignature;
use crate::machine::people::People;

/// How far a question came.
pub use crate::machine::consent::QuestionState as AskState;

/// Characters of the reason of a no that an agent hears.
const REASON_CHARS_MAX: usize = 500;
/// Characters of the name of an argument, which an agent wrote.
const NAME_CHARS: usize = 200;

impl Governance {
    /// Takes an answer to a question. It is on disk, and on record, before it counts.
    ///
    /// # Errors
    /// [`AnswerError`]; the question stays as it was.
    pub async fn answer(&self, id: &str, answer: Answer, by: Actor) -> Result<AskState, AnswerError> {
        let id = ask_id(id).ok_or_else(|| AnswerError::Id(escaped(id, 40)))?;
        let _writing = self.writing().lock().await;
        // What a person signed names this call, and no further ones.
        if answer.standing.is_some() && matches!(by, Actor::Person { .. }) {
            return Err(AnswerError::Standing("a signature agrees to one call alone"));
        }
        let (people, now_ms) = (self.people_now().0, self.now_ms());
        let mut next = (*self.book().now()).clone();
        let question = next.asks.get(&id).ok_or(crate::machine::consent::ConsentError::Unknown)?;
        let (word, until_ms) = terms(question, &answer, &by);
        let speaker = speaker(&by, &people)?;
        let state = next.asks.answer(&id, (word, until_ms), speaker, &people, now_ms)?;
        let mut batch = Batch::new();
        if let Some(standing) = answer.standing.filter(|_| answer.yes) {
            add_standing(self, &mut next, &id, (standing, now_ms), &people, &mut batch)?;
        }
        if let (Some(details), Some(reason)) = (next.details.get_mut(&id), answer.reason.filter(|_| !answer.yes)) {
            details.denial = Some(escaped(&reason, REASON_CHARS_MAX));
        }
        next.put(&id, &mut batch);
        if let Some((question, details)) = next.asks.get(&id).zip(next.details.get(&id)) {
            let person = question.answers().last().map(|answer| answer.person.as_str());
            let leaf = leaves::answered(question, details, (person, Some(word)), now_ms);
            // A no counts also where what lies beside the log has no room.
            let audit = self.audit();
            batch.append(if answer.yes { audit.entry(leaf)? } else { audit.entry_at_least(leaf)? });
        }
        self.write(batch, Durability::Synced).await?;
        self.book().publish(next);
        Ok(state)
    }

    /// The text that a person signs who answers a question; nothing where there is none.
    #[must_use]
    pub fn text_to_sign(&self, id: &str, yes: bool, until_ms: u64) -> Option<String> {
        let word = if yes { AnswerWord::Approve } else { AnswerWord::Deny };
        Some(self.book().now().asks.get(&ask_id(id)?)?.text(word, until_ms))
    }

    /// Every yes that counts more than once.
    #[must_use]
    pub fn standing(&self) -> Vec<StandingYes> {
        self.book().now().standing.iter().cloned().collect()
    }

    /// Takes a standing yes back: the owner's, or that of whoever gave it. It counts for nothing from then on. Gives what it was;
    /// nothing where there is none of that id.
    ///
    /// # Errors
    /// [`AnswerError`]; it stays.
    pub async fn withdraw_standing(&self, id: &str, by: Actor) -> Result<Option<StandingYes>, AnswerError> {
        let id = ask_id(id).ok_or_else(|| AnswerError::Id(escaped(id, 40)))?;
        let _writing = self.writing().lock().await;
        let mut next = (*self.book().now()).clone();
        let Some(yes) = next.standing.iter().find(|yes| yes.id == id).cloned() else { return Ok(None) };
        let person = withdrawer(by, &yes, &self.people_now().0)?;
        next.standing.withdraw(&id);
        let mut batch = Batch::new();
        next.put_standing(&id, &mut batch);
        let what = OwnerChange { what: "standing yes", agent: None, before: &outlined(&yes), after: "withdrawn" };
        // It has arguments of calls on that person's behalf.
        let leaf = leaves::owner_changed(what, &person, self.now_ms()).about(&yes.person);
        batch.append(self.audit().entry_at_least(leaf)?);
        self.write(batch, Durability::Synced).await?;
        self.book().publish(next);
        Ok(Some(yes))
    }
}

/// The person who takes a standing yes back, if they may.
fn withdrawer(by: Actor, yes: &StandingYes, people: &People) -> Result<String, AnswerError> {
    match by {
        Actor::Owner => Ok(people.owner().to_owned()),
        // It only makes less possible, so that nobody has to sign it.
        Actor::Person { name, .. } if name == yes.person => Ok(name),
        Actor::Person { .. } => Err(AnswerError::NotGiver(yes.person.clone())),
    }
}

/// A standing yes in words, for the record of its end.
pub(crate) fn outlined(yes: &StandingYes) -> String {
    let StandingYes { id, person, template, until_ms, left, .. } = yes;
    let named = |name: &str| escaped(name, NAME_CHARS);
    let fixed = template.fixed.iter().map(|(name, value)| format!("\n{} = {value}", named(name))).collect::<String>();
    let free = template.free.iter().map(|name| format!("\n{} = anything", named(name))).collect::<String>();
    let (agent, action) = (&template.agent, &template.action);
    format!("{} of {person}: {action} by {agent}, {left} times until {until_ms}{fixed}{free}", hex(id))
}

fn add_standing(
    governance: &Governance,
    next: &mut Consents,
    id: &AskId,
    (terms, at_ms): (StandingTerms, u64),
    people: &People,
    batch: &mut Batch,
) -> Result<(), AnswerError> {
    let Some((question, details)) = next.asks.get(id).zip(next.details.get(id)) else {
        return Err(AnswerError::Standing("nothing is known of the call any more"));
    };
    let Need::Consent { person } = question.need() else {
        return Err(AnswerError::Standing("a sign-off is given for one call alone"));
    };
    let Ok(Value::Object(arguments)) = serde_json::from_str(&details.arguments) else {
        return Err(AnswerError::Standing("the arguments of the call have no names"));
    };
    let yes = StandingYes {
        id: governance.ports().entropy.bytes(),
        person: person.clone(),
        template: Template::of(&question.ask().terms, &arguments, terms.free),
        at_ms,
        until_ms: terms.until_ms,
        left: terms.count,
        consent: Some(question.ask().digest()),
    };
    let id = yes.id;
    next.standing.add(yes, people, at_ms)?;
    next.put_standing(&id, batch);
    Ok(())
}

/// What is said, and until when that counts.
fn terms(question: &Question, answer: &Answer, by: &Actor) -> (AnswerWord, u64) {
    let word = if answer.yes { AnswerWord::Approve } else { AnswerWord::Deny };
    let until_ms = match by {
        Actor::Person { signed: Some(signed), .. } => signed.until_ms,
        Actor::Owner | Actor::Person { signed: None, .. } => question.ask().not_after_ms,
    };
    (word, until_ms)
}

/// Who speaks, as far as that is proved.
fn speaker<'a>(by: &'a Actor, people: &People) -> Result<Speaker<'a>, AnswerError> {
    match by {
        Actor::Owner => Ok(Speaker::Local),
        Actor::Person { name, signed: None } => Err(AnswerError::Unsigned(escaped(name, 40))),
        Actor::Person { name, signed: Some(signed) } => {
            let signature =
                PersonSignature::read(&signed.signature).map_err(crate::machine::consent::ConsentError::from)?;
            // A key of nobody is refused with the answer.
            match people.person_with(&signature.signer()) {
                Some(person) if person != name => Err(AnswerError::Another { said: escaped(name, 40) }),
                _ => Ok(Speaker::Signature(&signed.signature)),
            }
        }
    }
}

/// The id of 32 hexadecimal digits.
pub(crate) fn ask_id(text: &str) -> Option<AskId> {
    // Read as the half of a digest.
    let whole = digest_of_hex(&format!("{text}{text}")).filter(|_| text.len() == 32)?;
    AskId::try_from(&whole[..16]).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use althing_protocol::contract::DataLabel;
    use althing_protocol::{AgentId, Label, PublisherId};

    use super::*;

    #[test]
    fn a_standing_yes_is_recorded_with_each_argument_on_its_line() {
        let template = Template {
            agent: AgentId::new(PublisherId::from_digest([3; 32]), "buyer").expect("a good name"),
            action: "shop/order".to_owned(),
            definition: [1; 32],
            server: [2; 32],
            fixed: BTreeSet::from([("item\nfree".to_owned(), "\"lamp\"".to_owned())]),
            free: BTreeSet::from(["note\u{202e}".to_owned()]),
            label: Label { level: DataLabel::Internal, trusted: true },
        };
        let yes = StandingYes {
            id: [7; 16],
            person: "ada".to_owned(),
            template,
            at_ms: 1,
            until_ms: 2,
            left: 3,
            consent: None,
        };
        let told = outlined(&yes);
        let lines: Vec<&str> = told.lines().skip(1).collect();
        assert_eq!(lines, [r#"item\u{a}free = "lamp""#, r"note\u{202e} = anything"], "{told}");
    }
}

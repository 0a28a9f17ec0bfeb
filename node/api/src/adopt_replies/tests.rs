use super::*;
use crate::golden::assert_json;

/// An agent file as it is stored.
const FILE: &str = concat!(
    r#"{"name":"clock","title":"Clock","description":"Tells the time","version":"0.1.0","#,
    r#""skills":[{"id":"tell","name":"Tell","description":"Tells it","tags":[],"examples":[]}],"#,
    r#""runtime":{"native":{"builtin":"tools","config":null}},"#,
    r#""tools":{"server":{"command":["clock"],"sandbox":{"read":["/srv/zones"]}}},"#,
    r#""callers":"trusted","exposure":"own","input_modes":["text/plain"],"output_modes":["text/plain"]}"#,
);

/// What every reply about an agent begins with, without the brace at its end.
fn begin() -> String {
    let left_out = r#"[{"what":"set","why":"it has no name"}]"#;
    format!(
        r#"{{"kind":"MCP server","file":{FILE},"reaches":["clock"],"leftOut":{left_out},"digest":"9c0d","signature":null,"requests":[]"#
    )
}

fn draft() -> AgentDraft {
    AgentDraft {
        kind: "MCP server".to_owned(),
        file: serde_json::from_str(FILE).expect("it is an agent file"),
        reaches: vec!["clock".to_owned()],
        left_out: vec![DraftOmission { what: "set".to_owned(), why: "it has no name".to_owned() }],
        digest: "9c0d".to_owned(),
        signature: None,
        requests: Vec::new(),
    }
}

fn needs() -> ProgramNeeds {
    ProgramNeeds {
        sandbox: Sandbox { read: vec!["/srv/a".into()], ..Sandbox::default() },
        block: "sandbox: { read: [/srv/a] }".to_owned(),
        words: vec!["reads /srv/a".to_owned()],
        refused: vec!["read /srv/a".to_owned()],
        more_refused: false,
    }
}

/// The same as JSON.
const NEEDS: &str = concat!(
    r#"{"sandbox":{"read":["/srv/a"]},"block":"sandbox: { read: [/srv/a] }","words":["reads /srv/a"],"#,
    r#""refused":["read /srv/a"],"moreRefused":false}"#,
);

fn addition() -> AgentAddition {
    AgentAddition { id: "urn:x".to_owned(), name: "clock".to_owned(), card: None, status: None }
}

/// The same as JSON.
const ADDED: &str = r#"{"id":"urn:x","name":"clock","card":null,"status":null}"#;

fn looked_at() -> AgentAdoption {
    let (needs, refused) = (None, Vec::new());
    AgentAdoption { draft: draft(), taken: Some(false), added: None, needs, refused, more_refused: None }
}

#[test]
fn what_is_adopted_is_told_with_what_it_became_and_lacks() {
    let (only, begin) = (looked_at(), begin());
    assert_json(&AdoptReply::Agent(Box::new(only.clone())), &format!(r#"{begin},"taken":false}}"#));
    let added = AgentAdoption { taken: None, added: Some(addition()), ..only.clone() };
    let lacking = AgentAdoption { needs: Some(needs()), ..added.clone() };
    assert_json(&AdoptReply::Agent(Box::new(lacking)), &format!(r#"{begin},"added":{ADDED},"needs":{NEEDS}}}"#));
    let refused = AgentAdoption { refused: vec!["write /srv".to_owned()], more_refused: Some(false), ..added };
    assert_json(
        &AdoptReply::Agent(Box::new(refused)),
        &format!(r#"{begin},"added":{ADDED},"refused":["write /srv"],"moreRefused":false}}"#),
    );
    let signed = AgentDraft { signature: Some("by nobody".to_owned()), requests: vec!["GET /x".to_owned()], ..draft() };
    let signed = AgentAdoption { draft: signed, ..only };
    let json = format!(r#"{begin},"taken":false}}"#)
        .replace(r#""signature":null,"requests":[]"#, r#""signature":"by nobody","requests":["GET /x"]"#);
    assert_json(&AdoptReply::Agent(Box::new(signed)), &json);
}

#[test]
fn what_is_accepted_is_told_with_what_changed() {
    let begin = begin();
    let change = DraftChange { what: "skill tell".to_owned(), old: String::new(), new: "Tell".to_owned() };
    let looked_at = AgentAcceptance {
        draft: draft(),
        changes: vec![change],
        needs: Some(needs()),
        refused: Vec::new(),
        more_refused: None,
        added: None,
    };
    let changes = r#""changes":[{"what":"skill tell","old":"","new":"Tell"}]"#;
    assert_json(&AcceptReply::Agent(Box::new(looked_at.clone())), &format!(r#"{begin},{changes},"needs":{NEEDS}}}"#));
    let accepted = AgentAcceptance {
        needs: None,
        refused: vec!["write /srv".to_owned()],
        more_refused: Some(true),
        added: Some(addition()),
        ..looked_at
    };
    assert_json(
        &AcceptReply::Agent(Box::new(accepted)),
        &format!(r#"{begin},{changes},"refused":["write /srv"],"moreRefused":true,"added":{ADDED}}}"#),
    );
}

#[test]
fn a_program_that_does_not_answer_is_told_with_what_it_needs() {
    let program = UnansweredProgram { unanswered: "it ended".to_owned(), needs: needs() };
    let json = format!(r#"{{"unanswered":"it ended","needs":{NEEDS}}}"#);
    assert_json(&AdoptReply::Unanswered(program.clone()), &json);
    assert_json(&AcceptReply::Unanswered(program), &json);
}

#[test]
fn a_directory_is_told_with_what_became_of_the_things_that_were_chosen() {
    let entry = ThingEntry { id: "urn:lamp".to_owned(), title: "Lamp".to_owned(), url: "http://x/lamp".to_owned() };
    let listed = ThingDirectory {
        kind: "directory of Things".to_owned(),
        things: vec![entry],
        without_id: 2,
        left_out: vec![DraftOmission { what: "3".to_owned(), why: "it has no id".to_owned() }],
        adopted: Vec::new(),
    };
    let begin = concat!(
        r#"{"kind":"directory of Things","things":[{"id":"urn:lamp","title":"Lamp","url":"http://x/lamp"}],"#,
        r#""withoutId":2,"leftOut":[{"what":"3","why":"it has no id"}]"#,
    );
    assert_json(&AdoptReply::Directory(listed.clone()), &format!("{begin}}}"));
    let failure = ThingFailure { id: "urn:lamp".to_owned(), failed: "no".to_owned() };
    let adopted = vec![ThingAdoption::Failure(failure), ThingAdoption::Agent(Box::new(looked_at()))];
    assert_json(
        &AdoptReply::Directory(ThingDirectory { adopted, ..listed }),
        &format!(r#"{begin},"adopted":[{{"id":"urn:lamp","failed":"no"}},{},"taken":false}}]}}"#, self::begin()),
    );
}

//! What a turn answers, of all that its agent emitted. Pure.
//!
//! **Input**: the outputs of a turn, in their order. **Output**: the pieces of the answer as a caller has them in the end, and
//! those that were replaced meanwhile: who listens to a stream has seen them.

use a2a::{Part, PartContent, TaskState};
use althing_execution::agent::Made;
use serde_json::Value;

/// The data that the node's own runtimes add to an answer.
const NOTES: [&str; 2] = ["usage", "tools"];
/// The model in a note, as the endpoint or else the owner names it.
const MODEL: &str = "model";
/// Bytes of a name or a hash in a note: the longest is that of a tool, 32 of its server, a slash and 128 of its own.
const NAME_BYTES_MAX: usize = 32 + 1 + 128;
/// What stands in one beside letters and digits.
const NAME_MARKS: &str = "._:/@+-";

/// What a turn answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Its pieces; texts that follow each other in one artifact are one.
    pub pieces: Vec<Piece>,
    /// How the turn ends.
    pub ending: AnswerEnd,
    /// What the node's own runtime noted of it.
    pub notes: Notes,
    /// The ids of the artifacts that it adds to and did not begin: where the task had one of these before, the two are one to callers.
    pub continued: Vec<String>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What it says.
    pub content: Content,
    /// Its media type, where that is said.
    pub media: Option<String>,
}

/// What a piece says.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// What people read, as it is.
    Text(String),
    /// JSON.
    Data(Value),
    /// Bytes, or where they are: as text, where they are one.
    File(Option<String>),
}

/// How a turn ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnswerEnd {
    /// With its answer.
    #[default]
    Complete,
    /// With a question to its caller, which is no answer.
    Question,
    /// The agent itself says that it failed.
    Failure,
}

/// What the node's own runtime notes of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notes {
    /// Why its model stopped, in the words of its endpoint.
    pub finish: Option<String>,
}

impl Answer {
    /// The answer of a turn that emitted all that. `notes`: whether its runtime is the node's own, which adds notes.
    #[must_use]
    pub fn of(outputs: &[Made], notes: bool) -> Answer {
        let mut reader = Reader { notes, ..Reader::default() };
        for made in outputs {
            reader.output(made);
        }
        let pieces = reader.artifacts.into_iter().flat_map(|(_, pieces)| pieces).chain(reader.message).collect();
        Answer { pieces, ending: reader.ending, notes: reader.found, continued: reader.continued }
    }

    /// What a message says.
    #[must_use]
    pub fn of_message(parts: &[Part]) -> Answer {
        Answer { pieces: Reader::default().pieces(Vec::new(), parts), ..Answer::default() }
    }

    /// Whether it says anything.
    #[must_use]
    pub fn says_something(&self) -> bool {
        self.pieces.iter().any(|piece| match &piece.content {
            Content::Text(text) => !text.trim().is_empty(),
            Content::Data(_) | Content::File(_) => true,
        })
    }

    /// Its texts, and its data as JSON, each on lines of its own.
    #[must_use]
    pub fn text(&self) -> String {
        let said = self.pieces.iter().filter(|piece| !matches!(piece.content, Content::File(_)));
        said.filter_map(Piece::text).collect::<Vec<_>>().join("\n")
    }

    /// All of it as a text, files too; none where a file is none: whoever reads texts cannot judge it.
    #[must_use]
    pub fn whole_text(&self) -> Option<String> {
        let texts: Option<Vec<String>> = self.pieces.iter().map(Piece::text).collect();
        texts.map(|texts| texts.join("\n"))
    }
}

impl Piece {
    fn text(&self) -> Option<String> {
        match &self.content {
            Content::Text(text) => Some(text.clone()),
            Content::Data(data) => Some(data.to_string()),
            Content::File(text) => text.clone(),
        }
    }
}

#[derive(Default)]
struct Reader {
    notes: bool,
    /// The artifacts by their ids; one that was replaced stays under its own.
    artifacts: Vec<(String, Vec<Piece>)>,
    /// The message that ends the turn.
    message: Vec<Piece>,
    ending: AnswerEnd,
    found: Notes,
    continued: Vec<String>,
}

impl Reader {
    fn output(&mut self, made: &Made) {
        match made {
            Made::Annotated(made, _) => self.output(made),
            Made::Artifact { artifact, append, .. } => {
                let known = self.artifacts.iter().rposition(|(id, _)| *id == artifact.artifact_id).filter(|_| *append);
                if *append && known.is_none() {
                    self.continued.push(artifact.artifact_id.clone());
                }
                let before = known.map(|place| std::mem::take(&mut self.artifacts[place].1)).unwrap_or_default();
                let pieces = self.pieces(before, &artifact.parts);
                match known {
                    Some(place) => self.artifacts[place].1 = pieces,
                    None => self.artifacts.push((artifact.artifact_id.clone(), pieces)),
                }
            }
            Made::Status(TaskState::Working, _) | Made::Remember(_) | Made::Begun { .. } => {}
            Made::Status(TaskState::InputRequired | TaskState::AuthRequired, _) => self.ending = AnswerEnd::Question,
            Made::Status(TaskState::Failed | TaskState::Rejected | TaskState::Canceled, _) => {
                self.ending = AnswerEnd::Failure;
            }
            Made::Status(_, message) => {
                self.ending = AnswerEnd::Complete;
                if let Some(message) = message {
                    self.add_message(&message.parts);
                }
            }
            Made::Reply(message) => self.add_message(&message.parts),
        }
    }

    fn add_message(&mut self, parts: &[Part]) {
        let before = std::mem::take(&mut self.message);
        self.message = self.pieces(before, parts);
    }

    /// These pieces, and those of more parts.
    fn pieces(&mut self, mut pieces: Vec<Piece>, parts: &[Part]) -> Vec<Piece> {
        for part in parts {
            let media = part.media_type.as_deref().map(essence);
            let content = match &part.content {
                PartContent::Data(data) if self.is_note(data) => continue,
                PartContent::Data(data) => Content::Data(data.clone()),
                PartContent::Raw(bytes) => Content::File(std::str::from_utf8(bytes).ok().map(str::to_owned)),
                PartContent::Url(_) => Content::File(None),
                PartContent::Text(more) => match pieces.last_mut() {
                    Some(Piece { content: Content::Text(text), media: known }) if *known == media => {
                        text.push_str(more);
                        continue;
                    }
                    _ => Content::Text(more.clone()),
                },
            };
            pieces.push(Piece { content, media });
        }
        pieces
    }

    /// Whether it is a note of the node's own runtime, which it reads then.
    fn is_note(&mut self, data: &Value) -> bool {
        let Some(members) = data.as_object().filter(|_| self.notes) else { return false };
        if members.is_empty() || !members.keys().all(|name| NOTES.contains(&name.as_str())) || !is_bare(data) {
            return false;
        }
        if let Some(finish) = data["usage"]["finish"].as_str() {
            self.found.finish = Some(finish.to_owned());
        }
        true
    }
}

/// Whether it says names, hashes and numbers alone: what could be read as a text is judged as a part of the answer. Runtimes note
/// nothing else by themselves; but in a turn that goes on from its journal, or that is run from a tape, they note what its rows say
/// (why a model stopped; in a checkpoint, which tools were called), and earlier builds wrote any text there.
fn is_bare(note: &Value) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || NAME_MARKS.contains(letter);
    let is_name = |text: &str| text.len() <= NAME_BYTES_MAX && text.chars().all(is_plain);
    match note {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => is_name(text),
        Value::Array(all) => all.iter().all(is_bare),
        // The owner names a model as it likes, and the runtime takes of its endpoint's word for it what is a name.
        Value::Object(members) => {
            members.iter().all(|(name, value)| is_name(name) && (name == MODEL || is_bare(value)))
        }
    }
}

/// A media type in small letters, without its parameters.
#[must_use]
pub fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
pub(super) mod tests {
    use a2a::{Artifact, Message, Role};
    use serde_json::json;

    use super::*;

    /// An artifact, or what is appended to one.
    pub fn artifact(id: &str, parts: Vec<Part>, append: bool) -> Made {
        let artifact = Artifact {
            artifact_id: id.to_owned(),
            name: None,
            description: None,
            parts,
            metadata: None,
            extensions: None,
        };
        Made::Artifact { artifact, append, last: false }
    }

    /// The same, of one text.
    pub fn text(id: &str, text: &str, append: bool) -> Made {
        artifact(id, vec![Part::text(text)], append)
    }

    fn texts(outputs: &[Made]) -> Vec<String> {
        let text = |piece: Piece| match piece.content {
            Content::Text(text) => text,
            other => panic!("{other:?}"),
        };
        Answer::of(outputs, false).pieces.into_iter().map(text).collect()
    }

    #[test]
    fn streamed_pieces_are_one_and_what_was_replaced_was_seen() {
        let streamed = [text("a", "{\"to", false), text("b", "other", false), text("a", "tal\":1}", true)];
        assert_eq!(texts(&streamed), ["{\"total\":1}", "other"]);
        assert_eq!(texts(&[text("a", "a lie", false), text("a", "the truth", false)]), ["a lie", "the truth"]);
        assert_eq!(texts(&[text("a", "1", false), text("a", "2", false), text("a", "3", true)]), ["1", "23"]);
        let ending = Made::Status(TaskState::Completed, Some(Message::new(Role::Agent, vec![Part::text("done")])));
        assert_eq!(texts(&[ending.annotated(Some([("a".to_owned(), json!(1))].into()))]), ["done"]);
    }

    #[test]
    fn notes_are_the_runtimes_own_and_of_others_they_are_data() {
        let data = json!({
            "usage": { "finish": "length" }, "tools": [{ "tool": "shop/order", "outcome": "denied" }],
        });
        let noted = artifact("a", vec![Part::text("x"), Part::data(data)], false);
        let own = Answer::of(std::slice::from_ref(&noted), true);
        assert_eq!((own.pieces.len(), own.notes.finish.as_deref()), (1, Some("length")));
        let other = Answer::of(&[noted], false);
        assert_eq!((other.pieces.len(), other.notes), (2, Notes::default()));
        let mixed = artifact("a", vec![Part::data(json!({ "usage": {}, "answer": 42 }))], false);
        assert_eq!(Answer::of(&[mixed], true).pieces.len(), 1);
    }

    #[test]
    fn what_could_be_read_in_a_note_is_a_part_of_the_answer() {
        let pieces = |note: Value| Answer::of(&[artifact("a", vec![Part::data(note)], false)], true).pieces.len();
        let called =
            json!({ "tool": "shop/order", "definition": "ab12", "result": null, "outcome": "done", "tookUs": 7 });
        let usage = json!({ "model": "My model", "finish": "stop", "inputTokens": 3, "estimated": false });
        assert_eq!(pieces(json!({ "usage": usage, "tools": [called] })), 0);
        let longest = format!("{}/{}", "s".repeat(32), "x".repeat(128));
        assert_eq!(pieces(json!({ "tools": [{ "tool": longest, "outcome": "done" }] })), 0, "there is such a tool");
        for note in [
            json!({ "tools": [{ "tool": "the real total is 7" }] }),
            json!({ "tools": [{ "tool": "shop/order", "more": { "text": "siebenundzwanzig€" } }] }),
            json!({ "tools": "x".repeat(NAME_BYTES_MAX + 1) }),
            json!({ "usage": { "finish": "it stopped, since the total is 7" } }),
        ] {
            assert_eq!(pieces(note.clone()), 1, "{note}");
        }
    }

    #[test]
    fn what_an_answer_adds_to_and_did_not_begin_is_known() {
        let continued = |outputs: &[Made]| Answer::of(outputs, false).continued;
        assert_eq!(continued(&[text("a", "1", false), text("a", "2", true)]), [] as [&str; 0]);
        assert_eq!(continued(&[text("b", "1", false), text("a", "2", true), text("a", "3", true)]), ["a"]);
        assert_eq!(continued(&[text("a", "2", true), text("a", "34", false)]), ["a"], "it was seen as one");
    }

    #[test]
    fn all_of_it_is_a_text_where_its_files_are() {
        let whole = |parts: Vec<Part>| {
            let answer = Answer::of(&[artifact("a", parts, false)], false);
            assert_eq!(answer.text(), "see");
            answer.whole_text()
        };
        let file = |bytes: &[u8]| Part::raw(bytes.to_vec());
        assert_eq!(whole(vec![Part::text("see"), file(b"fn main() {}")]).as_deref(), Some("see\nfn main() {}"));
        assert_eq!(whole(vec![Part::text("see"), file(&[0xff, 0xfe])]), None);
        assert_eq!(whole(vec![Part::text("see"), Part::url("https://files.example/a.rs")]), None);
    }

    #[test]
    fn a_question_and_a_failure_are_no_answers() {
        let ends = |state| Answer::of(&[Made::Status(state, None)], false).ending;
        assert_eq!(ends(TaskState::InputRequired), AnswerEnd::Question);
        assert_eq!(ends(TaskState::Rejected), AnswerEnd::Failure);
        assert_eq!(ends(TaskState::Completed), AnswerEnd::Complete);
        assert!(!Answer::of(&[text("a", " \n", false)], false).says_something());
    }
}

//! Generated endings: whatever becomes of an answer on its way, none is complete that its agent did not complete, none lacks a
//! piece, and none fails that it did.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex};

use a2a::{Message, Part, Role, TaskState};
use bytes::Bytes;

use super::*;
use crate::agent::{Made, Outputs};

mod words;

/// How many endings are tried.
const ENDINGS: u64 = 2_000;
/// The agent's task, and one of somebody else.
const OURS: &str = "t-1";
const OTHERS: &str = "t-2";
const LAST: [&str; 6] = ["COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"];
/// Of these, those whose answer people read.
const WHOLE: [&str; 3] = ["COMPLETED", "INPUT_REQUIRED", "AUTH_REQUIRED"];
/// How often a task is asked for whose answer has a gap.
const GAP_ASKS: u32 = 5;
/// What the agent made, as it tells when it is asked.
const MADE: &str = "piece 0 piece 1 piece 2 and the rest";
const EARLY: [&str; 3] = ["SUBMITTED", "WORKING", "UNSPECIFIED"];

/// Numbers that look random, the same for each seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits") % sides
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.roll(all.len())]
    }
}

/// What an event means to whoever reads it.
#[derive(Debug, Clone, PartialEq)]
enum Meaning {
    /// That task has that state.
    State(&'static str, &'static str),
    /// That task goes on, with this text.
    Piece(&'static str, String),
    /// A message.
    Message,
    /// A message beside that task.
    Word(&'static str),
    /// It cannot be read, and may be a piece; whether it is of a task at least.
    Gap(bool),
    /// More of that than anybody reads.
    Flood,
    /// The agent's error.
    Refusal,
    /// Nothing: it is passed over.
    Nothing,
}

/// An event as it is sent, and what it means.
#[derive(Debug, Clone)]
struct Item {
    /// A line before the data, such as a name.
    before: &'static str,
    data: String,
    meaning: Meaning,
}

impl Item {
    fn of(result: &Value, meaning: Meaning) -> Item {
        Item { before: "", data: json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string(), meaning }
    }

    fn task(id: &'static str, state: &'static str, text: &str) -> Item {
        Item::of(&json!({ "task": task(id, state, text) }), Meaning::State(id, state))
    }

    fn status(id: &'static str, state: &'static str) -> Item {
        let status = json!({ "state": format!("TASK_STATE_{state}") });
        let update = json!({ "statusUpdate": { "taskId": id, "contextId": "c", "status": status } });
        Item::of(&update, Meaning::State(id, state))
    }

    fn piece(id: &'static str, text: &str) -> Item {
        let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
        let update = json!({ "taskId": id, "contextId": "c", "artifact": artifact, "append": true });
        Item::of(&json!({ "artifactUpdate": update }), Meaning::Piece(id, text.to_owned()))
    }

    fn word(id: &'static str) -> Item {
        let message =
            json!({ "messageId": "w", "taskId": id, "role": "ROLE_AGENT", "parts": [{ "text": "starting" }] });
        Item::of(&json!({ "message": message }), Meaning::Word(id))
    }

    /// A piece that cannot be read.
    fn broken(mut self, dice: &mut Dice) -> Item {
        self.meaning = Meaning::Gap(true);
        match dice.roll(6) {
            0 => self.data = self.data.replace("\"text\"", "\"txt\""),
            1 => self.data = self.data.replace("{\"text\":", "{\"text\":2,\"was\":"),
            2 => self.data = self.data.replace("artifactUpdate", "artifact-update"),
            3 => self.data = self.data.replace("taskId", "task"),
            4 => self.before = "event: chunk\n",
            _ => self.data = self.data.replace("\"result\"", "\"outcome\""),
        }
        self
    }

    fn flood(dice: &mut Dice) -> Item {
        let one = dice.one_of(&["nonsense", "{\"at\":1}", "7"]);
        let data = [one; 20].join("\n\ndata: ");
        Item { before: "", data, meaning: Meaning::Flood }
    }

    fn refusal() -> Item {
        let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32_603, "message": "not any more" } });
        Item { before: "", data: error.to_string(), meaning: Meaning::Refusal }
    }

    fn message() -> Item {
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "hello" }] });
        Item::of(&json!({ "message": message }), Meaning::Message)
    }

    /// What is there beside events.
    fn beside(dice: &mut Dice) -> Item {
        let (before, data, meaning) = match dice.roll(8) {
            0 => ("", String::new(), Meaning::Nothing),
            1 => ("event: ping\n", "{}".to_owned(), Meaning::Nothing),
            2 => ("event: status\n", Item::status(OURS, "COMPLETED").data, Meaning::Gap(true)),
            3 => ("", "[DONE]".to_owned(), Meaning::Nothing),
            4 => (": keep-alive\n\n", String::new(), Meaning::Nothing),
            5 => ("", ["ping"; 20].join("\n\ndata: "), Meaning::Nothing),
            6 => ("", "{}".to_owned(), Meaning::Nothing),
            _ => ("", "nonsense".to_owned(), Meaning::Gap(false)),
        };
        Item { before, data, meaning }
    }
}

fn task(id: &str, state: &str, text: &str) -> Value {
    let mut task = json!({ "id": id, "contextId": "c", "status": { "state": format!("TASK_STATE_{state}") } });
    if !text.is_empty() {
        task["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": text }] }]);
    }
    task
}

/// What the agent says: a message, a task in some order, or nothing.
fn course(dice: &mut Dice) -> Vec<Item> {
    let mut items = Vec::new();
    match dice.roll(8) {
        0 => items.push(Item::message()),
        1 => {}
        _ => {
            items.push(match dice.roll(6) {
                0 => Item::word(OURS),
                _ => Item::task(OURS, dice.one_of(&EARLY), ""),
            });
            for number in 0..dice.roll(4) {
                items.push(match dice.roll(3) {
                    0 => Item::status(OURS, "WORKING"),
                    1 => Item::task(OURS, "WORKING", ""),
                    _ => Item::piece(OURS, &format!("piece {number} ")),
                });
            }
            match dice.roll(3) {
                0 => items.push(Item::status(OURS, dice.one_of(&LAST))),
                1 => items.push(Item::task(OURS, dice.one_of(&LAST), "")),
                _ => {}
            }
        }
    }
    items
}

/// What becomes of that: empty, reordered, doubled, with what is of others, with what is no event.
fn disturbed(mut items: Vec<Item>, dice: &mut Dice) -> Vec<Item> {
    for _ in 0..dice.roll(4) {
        let at = dice.roll(items.len() + 1);
        match dice.roll(12) {
            0 if at < items.len() => drop(items.remove(at)),
            1 if at < items.len() => items.insert(at, items[at].clone()),
            2 if at + 1 < items.len() => items.swap(at, at + 1),
            3 => items.insert(at, Item::status(OTHERS, dice.one_of(&LAST))),
            4 => items.insert(at, Item::message()),
            5 | 6 => items.insert(at, Item::piece(OURS, "lost ").broken(dice)),
            7 if dice.roll(3) == 0 => items.insert(at, Item::flood(dice)),
            8 if dice.roll(2) == 0 => items.insert(at, Item::refusal()),
            9 => items.insert(at, Item::word(dice.one_of(&[OURS, OTHERS]))),
            _ => items.insert(at, Item::beside(dice)),
        }
    }
    items
}

/// The bytes of an answer, and where the data of each event ends in them.
fn written(items: &[Item], dice: &mut Dice) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    if let [only] = items
        && only.before.is_empty()
        && only.data.starts_with('{')
        && matches!(serde_json::from_str::<Value>(&only.data), Ok(Value::Object(members)) if members.len() > 2)
        && dice.roll(3) == 0
    {
        // No stream.
        bytes.extend_from_slice(only.data.as_bytes());
        ends.push(bytes.len());
        return (bytes, ends);
    }
    let line_end = if dice.roll(4) == 0 { "\r\n" } else { "\n" };
    if dice.roll(4) == 0 {
        bytes.extend_from_slice("\u{feff}".as_bytes());
    }
    for item in items {
        bytes.extend_from_slice(item.before.replace('\n', line_end).as_bytes());
        bytes.extend_from_slice(if dice.roll(4) == 0 { &b"data:"[..] } else { b"data: " });
        bytes.extend_from_slice(item.data.as_bytes());
        ends.push(bytes.len());
        bytes.extend_from_slice(line_end.repeat(2).as_bytes());
    }
    (bytes, ends)
}

/// What the agent tells of its task when it is asked again and again.
#[derive(Debug, Clone)]
enum Told {
    State(&'static str, &'static str),
    /// The task as its agent writes it.
    Task(Value),
    Miss(Miss),
}

fn told(dice: &mut Dice) -> Vec<Told> {
    let mut all = Vec::new();
    for _ in 0..dice.roll(12) {
        all.push(match dice.roll(8) {
            0 => Told::State(OURS, dice.one_of(&LAST)),
            1 => Told::State(OTHERS, dice.one_of(&LAST)),
            2 | 3 => Told::Miss(Miss::Now("it does not answer".to_owned())),
            4 if dice.roll(2) == 0 => Told::Miss(Miss::Unknown),
            4 => Told::Miss(Miss::Ever("it refuses".to_owned())),
            _ => Told::State(OURS, dice.one_of(&EARLY)),
        });
    }
    all
}

struct Script(Mutex<VecDeque<Told>>);

impl Tasks for Script {
    async fn task(&self, id: &str) -> Result<ToldTask, Miss> {
        assert!([OURS, OTHERS].contains(&id), "{id:?} was never named");
        // At its end, the server is gone.
        let next = self.0.lock().expect("no holder panics").pop_front();
        match next.unwrap_or(Told::Miss(Miss::Ever("its server is gone".to_owned()))) {
            Told::State(of, state) => decoder::task(task(of, state, MADE)).map_err(Miss::Odd),
            Told::Task(task) => decoder::task(task).map_err(Miss::Odd),
            Told::Miss(miss) => Err(miss),
        }
    }
}

/// An error of a connection that breaks.
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection broke")
    }
}

/// An ending.
struct Ending {
    /// What of the answer arrives.
    arrives: Vec<u8>,
    /// In pieces of so many bytes.
    pieces: usize,
    breaks: bool,
    told: Vec<Told>,
    right: Right,
}

/// How an answer has to end.
#[derive(Debug, Clone, PartialEq)]
enum Right {
    /// With that state, or a message, and with this text in its artifacts.
    End(&'static str, String),
    /// As a failure.
    Failure,
    /// As a failure, or with the message that named a task which its agent does not know.
    Either,
}

impl Ending {
    fn of(seed: u64) -> Ending {
        let dice = &mut Dice(seed);
        let items = disturbed(course(dice), dice);
        let (mut arrives, ends) = written(&items, dice);
        if dice.roll(2) == 0 {
            arrives.truncate(dice.roll(arrives.len() + 1));
        }
        let told = told(dice);
        let whole = items.iter().zip(ends).filter(|(_, end)| *end <= arrives.len()).map(|(item, _)| &item.meaning);
        let right = right(whole, &told);
        Ending { pieces: 1 + dice.roll(200), breaks: dice.roll(3) == 0, arrives, told, right }
    }
}

/// How an answer ends that says this, with an agent that tells that when it is asked: written as simply as can be.
fn right<'a>(said: impl Iterator<Item = &'a Meaning>, told: &[Told]) -> Right {
    let (mut named, mut text, mut has_gap, mut is_alone) = (None, String::new(), false, false);
    let (mut is_of_task, mut asks) = (false, u32::MAX);
    for meaning in said {
        match meaning {
            // It is beside the task that could not be read.
            Meaning::Message if named.is_none() && is_of_task => {}
            Meaning::Message if named.is_none() => return Right::End("a message", String::new()),
            Meaning::Word(id) if named.is_none() => (named, is_alone) = (Some(*id), true),
            Meaning::Message | Meaning::Word(_) => is_alone = false,
            Meaning::Nothing => {}
            Meaning::Gap(of_task) => (has_gap, is_of_task) = (true, is_of_task || *of_task),
            Meaning::Flood | Meaning::Refusal if named.is_none() => return Right::Failure,
            Meaning::Flood | Meaning::Refusal => break,
            Meaning::Piece(id, more) => {
                if *named.get_or_insert(*id) == *id {
                    is_alone = false;
                    text.push_str(more);
                }
            }
            Meaning::State(id, state) => {
                if *named.get_or_insert(*id) != *id {
                    continue;
                }
                is_alone = false;
                if LAST.contains(state) && has_gap && WHOLE.contains(state) {
                    asks = GAP_ASKS;
                    break;
                }
                if LAST.contains(state) {
                    return Right::End(state, text);
                }
            }
        }
    }
    let Some(named) = named else { return Right::Failure };
    for one in told.iter().take(usize::try_from(asks).expect("a number")) {
        match one {
            Told::State(id, state) if *id == named && LAST.contains(state) => {
                return Right::End(state, MADE.to_owned());
            }
            Told::State(id, _) => is_alone &= *id != named,
            Told::Miss(Miss::Unknown) if is_alone => return Right::Either,
            Told::Miss(Miss::Ever(_) | Miss::Silent(_) | Miss::Unknown) => return Right::Failure,
            // It is asked again. No ending has a task in words of its own.
            Told::Miss(Miss::Now(_) | Miss::Odd(_)) | Told::Task(_) => {}
        }
    }
    Right::Failure
}

/// What the outputs of a turn that went well say of its end.
fn end(made: &[Made]) -> Option<String> {
    let told: Vec<&Made> = made.iter().filter(|made| !matches!(made, Made::Begun { .. })).collect();
    let (last, before) = told.split_last()?;
    let ends = |made: &&&Made| match made {
        Made::Status(state, _) => machine::course::is_last(state),
        Made::Reply(_) => true,
        _ => false,
    };
    assert_eq!(before.iter().filter(ends).count(), 0, "it goes on after its end: {made:?}");
    match last {
        Made::Reply(_) => Some("a message".to_owned()),
        Made::Status(state, _) => Some(json!(state).as_str()?.trim_start_matches("TASK_STATE_").to_owned()),
        _ => None,
    }
}

async fn all(mut made: Outputs) -> Vec<Made> {
    let mut all = Vec::new();
    while let Some(one) = made.recv().await {
        all.push(one);
    }
    all
}

/// What comes of an ending.
async fn comes_of(ending: &Ending) -> (Vec<Made>, Result<(), AgentError>) {
    let (out, made) = Output::channel();
    let relay = Relay::new(out, &Message::new(Role::User, vec![Part::text("x")]), &[]);
    let mut answer = Answer::new("shop".to_owned(), "t-0".to_owned(), relay, Course::new(None, None));
    let pieces = ending.arrives.chunks(ending.pieces).map(|piece| Ok(Bytes::copy_from_slice(piece)));
    let pieces: Vec<Result<Bytes, Broken>> = pieces.chain(ending.breaks.then_some(Err(Broken))).collect();
    let script = Script(Mutex::new(ending.told.iter().cloned().collect()));
    let running = async move {
        answer.listen(futures::stream::iter(pieces)).await?;
        answer.follow(&script).await
    };
    let (made, ended) = tokio::join!(all(made), running);
    (made, ended)
}

#[tokio::test(start_paused = true)]
async fn no_ending_is_complete_that_was_not_and_none_fails_that_was() {
    let (mut complete, mut failed) = (0, 0);
    for seed in 0..ENDINGS {
        let ending = Ending::of(seed);
        let (made, ended) = comes_of(&ending).await;
        let story = || {
            let arrives = String::from_utf8_lossy(&ending.arrives);
            format!("seed {seed}: {arrives:?}, breaks: {}, then {:?}: {made:?}, {ended:?}", ending.breaks, ending.told)
        };
        match (&ended, &ending.right) {
            (Ok(()), Right::End(right, whole)) => {
                assert_eq!(end(&made).as_deref(), Some(*right), "{}", story());
                assert_eq!(text(&made), *whole, "{}", story());
                complete += 1;
            }
            (Ok(()), Right::Either) => assert_eq!(end(&made).as_deref(), Some("a message"), "{}", story()),
            (Err(error), Right::Failure | Right::Either) => {
                let said = error.to_string();
                let told = ["its answer ended while it worked", "answered with", "could not be read", "not any more"];
                assert!(told.iter().any(|told| said.contains(told)), "{}", story());
                failed += 1;
            }
            _ => panic!("it is right to end with {:?}; {}", ending.right, story()),
        }
    }
    assert!(
        complete > ENDINGS / 5 && failed > ENDINGS / 5,
        "the dice are loaded: {complete} complete, {failed} failed"
    );
}

/// The text of all artifacts as whoever is told of them has it.
fn text(made: &[Made]) -> String {
    let mut text = String::new();
    for one in made {
        if let Made::Artifact { artifact, append, .. } = one {
            if !append {
                text.clear();
            }
            text.extend(artifact.parts.iter().filter_map(a2a::Part::as_text));
        }
    }
    text
}

#[tokio::test(start_paused = true)]
async fn what_was_told_before_the_cut_is_completed_and_not_repeated() {
    let items = [Item::task(OURS, "WORKING", ""), Item::piece(OURS, "piece 0 "), Item::piece(OURS, "piece 1 ")];
    let arrives = items.iter().map(|item| format!("data: {}\n\n", item.data)).collect::<String>().into_bytes();
    let told = vec![Told::State(OURS, "WORKING"), Told::State(OURS, "WORKING"), Told::State(OURS, "COMPLETED")];
    let (made, ended) = comes_of(&Ending { arrives, pieces: 7, breaks: true, told, right: Right::Failure }).await;
    ended.expect("it is complete");
    assert_eq!(text(&made), "piece 0 piece 1 piece 2 and the rest");
    let artifacts = made.iter().filter(|made| matches!(made, Made::Artifact { .. })).count();
    assert_eq!(artifacts, 3, "two pieces, and the rest: {made:?}");
    let working = made.iter().filter(|made| matches!(made, Made::Status(TaskState::Working, _))).count();
    assert_eq!(working, 0, "nothing new is told of a task that only goes on: {made:?}");
    assert_eq!(end(&made).as_deref(), Some("COMPLETED"));
}

/// What comes of a stream of these, with an agent that tells that when it is asked.
async fn streamed(items: &[Item], breaks: bool, told: &[Told]) -> (Vec<Made>, Result<(), AgentError>) {
    let line = |item: &Item| format!("{}data: {}\n\n", item.before, item.data);
    let arrives = items.iter().map(line).collect::<String>().into_bytes();
    comes_of(&Ending { arrives, pieces: 50, breaks, told: told.to_vec(), right: Right::Failure }).await
}

#[tokio::test(start_paused = true)]
async fn a_completed_answer_with_a_gap_is_told_as_its_task_has_it_or_has_failed() {
    let done = || Item::status(OURS, "COMPLETED");
    for seed in 0..30 {
        let lost = Item::piece(OURS, "piece 1 ").broken(&mut Dice(seed));
        let items = [
            Item::task(OURS, "WORKING", ""),
            Item::piece(OURS, "piece 0 "),
            lost,
            Item::piece(OURS, "piece 2 "),
            done(),
        ];
        let (made, ended) = streamed(&items, false, &[Told::State(OURS, "COMPLETED")]).await;
        ended.expect("its task has all");
        assert_eq!((text(&made).as_str(), end(&made).as_deref()), (MADE, Some("COMPLETED")), "{:?}", items[2]);
        for miss in [Miss::Unknown, Miss::Ever("it refuses".to_owned()), Miss::Now("it does not answer".to_owned())] {
            let (made, ended) = streamed(&items, false, &vec![Told::Miss(miss); 8]).await;
            let error = ended.expect_err("nobody knows what is missing").to_string();
            assert!(error.contains("a part of its answer could not be read"), "{error}");
            assert!(!made.iter().any(|made| matches!(made, Made::Status(TaskState::Completed, _))), "{made:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_names_its_task_is_followed_by_what_becomes_of_that() {
    let failed = [Item::word(OURS), Item::status(OURS, "FAILED")];
    let (made, ended) = streamed(&failed, false, &[]).await;
    ended.expect("it is told");
    assert_eq!(end(&made).as_deref(), Some("FAILED"));
    let working = [Item::word(OURS), Item::task(OURS, "WORKING", "")];
    let (made, ended) = streamed(&working, false, &[Told::State(OURS, "COMPLETED")]).await;
    ended.expect("it is followed");
    assert_eq!((text(&made).as_str(), end(&made).as_deref()), (MADE, Some("COMPLETED")));
    let word =
        |made: &&Made| matches!(made, Made::Status(TaskState::Working, Some(said)) if said.text() == Some("starting"));
    assert_eq!(made.iter().filter(word).count(), 1, "it is told as progress: {made:?}");
    // One whose agent knows no such task was the answer, unless that broke off.
    let (made, ended) = streamed(&working[..1], false, &[Told::Miss(Miss::Unknown)]).await;
    ended.expect("it is the answer");
    assert!(matches!(&made[..], [Made::Reply(said)] if said.text() == Some("starting")), "{made:?}");
    let (made, ended) = streamed(&working[..1], true, &[Told::Miss(Miss::Unknown)]).await;
    ended.expect_err("it broke off");
    assert!(!made.iter().any(|made| matches!(made, Made::Reply(_))), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_or_too_much_is_left_and_its_task_is_followed() {
    let begun = Item::task(OURS, "WORKING", "");
    let long = Item { before: "", data: "x".repeat(5 << 20), meaning: Meaning::Gap(false) };
    for other in [Item::flood(&mut Dice(1)), Item::refusal(), long] {
        let line = |item: &Item| format!("data: {}\n\n", item.data);
        let arrives = [line(&begun), line(&other)].concat().into_bytes();
        let told = vec![Told::State(OURS, "WORKING"), Told::State(OURS, "COMPLETED")];
        let ending = Ending { arrives, pieces: 1 << 16, breaks: false, told, right: Right::Failure };
        let (made, ended) = comes_of(&ending).await;
        ended.expect("its task went on");
        assert_eq!((text(&made).as_str(), end(&made).as_deref()), (MADE, Some("COMPLETED")));
    }
    let (_, ended) = streamed(&[begun, Item::refusal()], false, &[Told::Miss(Miss::Unknown)]).await;
    assert!(matches!(ended, Err(AgentError::Refused { code: -32_603, .. })), "{ended:?}");
}

/// What a program calls its events is told to whoever makes it, and is its own word all the same.
#[tokio::test(start_paused = true)]
async fn no_failure_without_words_has_the_name_of_an_event() {
    let named = |item: Item| Item { before: "event: quicksand\n", ..item };
    let items = [named(Item::task(OURS, "WORKING", "")), named(Item::status(OURS, "COMPLETED"))];
    let (made, ended) = streamed(&items, false, &[]).await;
    let error = ended.expect_err("nothing of it can be read");
    assert!(made.is_empty() && error.to_string().contains("quicksand"), "{error}");
    let (left, words) = error.without_words(true);
    assert!(!left.to_string().contains("quicksand"), "{left}");
    assert!(words.as_deref().is_some_and(|words| words.contains("quicksand")), "{words:?}");
}

#[test]
fn what_is_refused_ends_the_asking_and_what_fails_does_not() {
    let refused = |code| AgentError::Refused { code, message: "no".to_owned(), details: Vec::new() };
    let odd = |what: &str| AgentError::NotA2a(what.to_owned());
    for error in [
        refused(error_code::METHOD_NOT_FOUND),
        refused(error_code::INVALID_PARAMS),
        odd("HTTP 401 Unauthorized"),
        odd("HTTP 404 Not Found"),
        AgentError::TooLong("its answer has more than 4 MiB"),
        AgentError::Breakdown(PROGRAM_ENDED),
    ] {
        assert!(matches!(miss(error.clone()), Miss::Ever(_) | Miss::Silent(_)), "{error:?}");
    }
    assert_eq!(miss(refused(error_code::TASK_NOT_FOUND)), Miss::Unknown);
    for error in [
        refused(error_code::INTERNAL_ERROR),
        refused(-32_000),
        odd("HTTP 503 Service Unavailable"),
        odd("HTTP 429 Too Many Requests"),
        odd("something else than A2A: it is no JSON"),
        AgentError::Breakdown("the agent's program did not answer"),
        AgentError::Busy("later".to_owned()),
    ] {
        assert!(matches!(miss(error.clone()), Miss::Now(_)), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_odd_part_beside_a_good_one_loses_neither_the_good_one_nor_the_end() {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": MADE }, { "odd": 1 }] });
    let mut done = task(OURS, "COMPLETED", "");
    done["artifacts"] = json!([artifact]);
    done["status"]["timestamp"] = json!("2026-01-01T00:00:00");
    let update = json!({ "taskId": OURS, "contextId": "c", "artifact": artifact });
    let whole = Item::of(&json!({ "task": done }), Meaning::State(OURS, "COMPLETED"));
    let (made, ended) = streamed(&[whole], false, &[]).await;
    ended.expect("it is complete");
    assert_eq!((text(&made).as_str(), end(&made).as_deref()), (MADE, Some("COMPLETED")));
    // Where something of a piece is missing, the task is asked for that.
    let piece = Item::of(&json!({ "artifactUpdate": update }), Meaning::Gap(true));
    let items = [Item::task(OURS, "WORKING", ""), piece, Item::status(OURS, "COMPLETED")];
    let (made, ended) = streamed(&items, false, &[Told::State(OURS, "COMPLETED")]).await;
    ended.expect("its task shows it");
    assert_eq!((text(&made).as_str(), end(&made).as_deref()), (MADE, Some("COMPLETED")));
    let (_, ended) = streamed(&items, false, &[Told::Miss(Miss::Unknown)]).await;
    let error = ended.expect_err("nobody knows what is missing").to_string();
    assert!(error.contains("/artifactUpdate/artifact/parts/1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_state_that_nobody_knows_is_waited_through() {
    let working = [Item::task(OURS, "WORKING", "")];
    let mut running = task(OURS, "WORKING", "");
    running["status"]["state"] = json!("running");
    let mut told = vec![Told::Task(running); 16];
    told.push(Told::State(OURS, "COMPLETED"));
    let (made, ended) = streamed(&working, true, &told).await;
    ended.expect("its task went on, and well");
    assert_eq!((text(&made).as_str(), end(&made).as_deref()), (MADE, Some("COMPLETED")));
}

#[tokio::test(start_paused = true)]
async fn a_word_without_an_id_is_told_once_whatever_else_changes() {
    let working = |n: u32| {
        let message = json!({ "contextId": n.to_string(), "metadata": { "at": n }, "parts": [{ "text": "at it" }] });
        let mut task = task(OURS, "WORKING", "");
        task["status"]["message"] = message;
        Told::Task(task)
    };
    let mut told: Vec<Told> = (0..20).map(working).collect();
    told.push(Told::State(OURS, "COMPLETED"));
    let (made, ended) = streamed(&[Item::task(OURS, "WORKING", "")], true, &told).await;
    ended.expect("it is complete");
    let words = made.iter().filter(|made| matches!(made, Made::Status(TaskState::Working, Some(_)))).count();
    assert_eq!(words, 1, "{made:?}");
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no holder panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_is_named_once_with_its_agent_and_its_task() {
    let log = Log::default();
    let to = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let odd = |number: usize| {
        let mut parts = vec![json!({ "odd": 1 }); number];
        parts.push(json!({ "text": MADE }));
        let artifact = json!({ "artifactId": "a", "parts": parts });
        let mut task = task(OURS, "WORKING", "");
        task["artifacts"] = json!([artifact]);
        task["status"]["message"] = json!(7);
        task
    };
    let items: Vec<Item> =
        (1..40).map(|number| Item::of(&json!({ "task": odd(number) }), Meaning::Gap(true))).collect();
    let told: Vec<Told> = (1..40).map(|number| Told::Task(odd(number))).collect();
    let (_, ended) = streamed(&items, false, &[&told[..], &[Told::State(OURS, "COMPLETED")]].concat()).await;
    ended.expect("its task shows all");
    let bytes = log.0.lock().expect("no holder panics").clone();
    let text = String::from_utf8(bytes).expect("text");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("is left out")).collect();
    assert_eq!(lines.len(), 2, "one for each kind of place: {text}");
    for line in lines {
        assert!(line.contains("agent=\"shop\"") && line.contains("task=\"t-0\""), "{line}");
    }
}

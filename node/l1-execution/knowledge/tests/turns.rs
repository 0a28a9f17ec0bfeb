//! The agent as a node runs it: it answers from the folder as it is now.

use std::fs::{remove_file, rename, write};
use std::path::Path;
use std::sync::Arc;

use a2a::{Message, Part, Role};
use althing_execution::agent::{Agent, Made, Parameters};
use althing_execution::{AgentError, Output, Turn};
use althing_knowledge::Knowledge;
use serde_json::json;

fn agent(folder: &Path) -> Arc<dyn Agent> {
    Knowledge::build(&json!({ "folder": folder }), Path::new("/")).expect("an agent")
}

async fn asked(agent: &Arc<dyn Agent>, question: &str) -> Result<String, AgentError> {
    let (out, mut made) = Output::channel();
    let turn = Turn {
        task_id: "t".to_owned(),
        context_id: "c".to_owned(),
        message: Message::new(Role::User, vec![Part::text(question)]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    };
    let taking = async {
        let mut text = String::new();
        while let Some(made) = made.recv().await {
            if let Made::Artifact { artifact, .. } = made {
                artifact.parts.iter().filter_map(Part::as_text).for_each(|part| text.push_str(part));
            }
        }
        text
    };
    let (ended, text) = tokio::join!(agent.turn(turn, out), taking);
    ended.map(|()| text)
}

#[tokio::test]
async fn what_changes_in_the_folder_is_known_in_the_next_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    write(file("birds.md"), "# Birds\n\nThe heron fishes at dawn.\n").expect("a file");
    let agent = agent(folder.path());
    let answer = asked(&agent, "When does the heron fish?").await.expect("an answer");
    assert!(answer.contains("birds.md:3\n> The heron fishes at dawn."), "{answer}");
    assert!(asked(&agent, "badger").await.expect("an answer").starts_with("Nothing in these files"));

    write(file("mammals.txt"), "The badger digs at night.\n").expect("a new file");
    assert!(asked(&agent, "badger").await.expect("an answer").contains("mammals.txt:1"));

    write(file("birds.md"), "# Birds\n\nA note first.\n\nThe heron sleeps at noon.\n").expect("a changed file");
    let answer = asked(&agent, "heron").await.expect("an answer");
    assert!(answer.contains("birds.md:5") && !answer.contains("dawn"), "{answer}");

    rename(file("mammals.txt"), file("beasts.txt")).expect("another name");
    assert!(asked(&agent, "badger").await.expect("an answer").contains("beasts.txt:1"));

    remove_file(file("beasts.txt")).expect("it is there");
    assert!(asked(&agent, "badger").await.expect("an answer").starts_with("Nothing in these files"));
}

#[tokio::test]
async fn a_folder_that_is_gone_fails_the_turn_and_where_it_was_is_not_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("docs");
    std::fs::create_dir(&inner).expect("a folder");
    write(inner.join("a.md"), "Something.\n").expect("a file");
    let agent = agent(&inner);
    std::fs::remove_dir_all(&inner).expect("it is there");
    let failed = asked(&agent, "something").await.expect_err("it is gone").to_string();
    assert!(failed.contains("folder") && !failed.contains("docs") && !failed.contains('/'), "{failed}");
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_other_encodings_are_read_as_far_as_they_go() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path().join("latin.txt"), b"Gr\xfc\xdfe from the harbour.\n").expect("a file");
    write(folder.path().join("large.txt"), "tide ".repeat(2 << 20)).expect("a file");
    write(folder.path().join("noise.txt"), [0, 1, 2, 3]).expect("a file");
    let agent = agent(folder.path());
    assert!(asked(&agent, "harbour").await.expect("an answer").contains("latin.txt:1"));
    let nothing = asked(&agent, "tide").await.expect("an answer");
    assert!(nothing.contains("large.txt") && nothing.contains("noise.txt"), "{nothing}");
}

#[tokio::test]
async fn pipes_sockets_and_links_among_the_files_hold_up_neither_the_start_nor_a_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let pipe = |name: &str| nix::unistd::mkfifo(&file(name), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    write(file("birds.md"), "The heron fishes at dawn.\n").expect("a file");
    pipe("before.md");
    let _listener = std::os::unix::net::UnixListener::bind(file("socket.txt")).expect("a socket");
    for (name, target) in [("zero.md", "/dev/zero"), ("pipe-link.md", "before.md")] {
        std::os::unix::fs::symlink(target, file(name)).expect("a link");
    }
    let agent = agent(folder.path());
    assert!(asked(&agent, "heron").await.expect("an answer").contains("birds.md:1"));
    pipe("after");
    write(file("more.md"), "The heron sleeps.\n").expect("a new file, so that the folder is read anew");
    assert!(asked(&agent, "heron").await.expect("an answer").contains("more.md:1"));
}

//! A model of embeddings that follows a script, on a real socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use althing_store::MemoryStore;
use serde_json::{Value, json};

use super::*;

/// What an endpoint does with a request.
type Script = dyn Fn(&[String]) -> Reply + Send + Sync;

enum Reply {
    /// A status, and a body.
    Says(u16, String),
    /// Nothing, for as long as the client waits.
    Silence,
}

/// An endpoint, and what it was asked for.
struct Model {
    url: String,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Model {
    fn of(script: impl Fn(&[String]) -> Reply + Send + Sync + 'static) -> Model {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("it listens"));
        let asked = Arc::<Mutex<Vec<Vec<String>>>>::default();
        let (script, all): (Arc<Script>, _) = (Arc::new(script), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, all) = (script.clone(), all.clone());
                std::thread::spawn(move || answer(stream, script.as_ref(), &all));
            }
        });
        Model { url, asked }
    }

    fn embedding(&self, store: &Arc<dyn Store>) -> Arc<Embedding> {
        let endpoint = Embeddings { url: self.url.clone(), model: "toy".to_owned(), secret: None };
        Arc::new(Embedding::new(endpoint, None, store.clone()))
    }

    fn asked(&self) -> Vec<Vec<String>> {
        self.asked.lock().expect("nobody panics").clone()
    }
}

fn answer(mut stream: TcpStream, script: &Script, all: &Mutex<Vec<Vec<String>>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).expect("a line") == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let asked: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(asked["model"], "toy");
    let texts: Vec<String> = serde_json::from_value(asked["input"].clone()).expect("texts");
    all.lock().expect("nobody panics").push(texts.clone());
    match script(&texts) {
        Reply::Says(status, body) => {
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // The client may have had enough.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
        Reply::Silence => drop(reader.read(&mut [0])),
    }
}

/// A vector of that many dimensions for each text, which tells texts apart.
fn vectors(texts: &[String], dimensions: usize) -> Reply {
    let of = |text: &String| -> Vec<f64> {
        (0..dimensions).map(|place| if place == text.len() % dimensions { 1.0 } else { 0.25 }).collect()
    };
    let data: Vec<Value> =
        texts.iter().enumerate().map(|(index, text)| json!({ "index": index, "embedding": of(text) })).collect();
    Reply::Says(200, json!({ "data": data }).to_string())
}

fn store() -> Arc<dyn Store> {
    // The client of HTTP needs it; another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Arc::new(MemoryStore::new(&crate::FAMILIES))
}

fn said(near: usize, strange: &[&str]) -> Texts {
    let mut near: Vec<String> = (0..near).map(|index| "x".repeat(index + 1)).collect();
    near.sort_unstable();
    Texts { near, strange: strange.iter().map(|text| (*text).to_owned()).collect() }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn vectors_are_made_once_and_kept_but_not_those_of_sentences() {
    let (model, store) = (Model::of(|texts| vectors(texts, 3)), store());
    let embedding = model.embedding(&store);
    assert_eq!(embedding.of_sentence("where is it").await.expect("a vector").len(), 3);
    let texts = said(100, &["a stranger"]);
    let made = embedding.of_texts(texts.clone(), 3, LONG).await.expect("vectors");
    assert!(texts.near.iter().chain(&texts.strange).all(|text| made.of(text).is_some()));
    let sizes: Vec<usize> = model.asked().iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 64, 36, 1], "in requests of 64, strangers by themselves");
    // Another process, later.
    let again = model.embedding(&store).of_texts(texts.clone(), 3, LONG).await.expect("vectors");
    assert_eq!((model.asked().len(), again.of("xx")), (4, made.of("xx")));
    assert_eq!(store.scan(VECTORS, Range::all(1_000)).expect("rows").len(), 101, "the sentence is not kept");
    // The model is another one now, under the same name.
    let (other, texts) = (Model::of(|texts| vectors(texts, 5)), said(2, &[]));
    let embedding = other.embedding(&store);
    assert_eq!(embedding.of_texts(texts, 5, LONG).await.expect("vectors").dimensions(), 5);
    assert_eq!(other.asked().len(), 1, "what is kept has the wrong length");
}

#[tokio::test]
async fn a_hostile_answer_is_an_error() {
    let many = |count: usize| -> String {
        let data: Vec<Value> = (0..count).map(|index| json!({ "index": index, "embedding": [1.0] })).collect();
        json!({ "data": data }).to_string()
    };
    let wide = json!({ "data": [{ "index": 0, "embedding": vec![1.0; 5_000] }] }).to_string();
    for (status, body, why) in [
        (500, String::new(), "status 500"),
        (302, String::new(), "status 302"),
        (200, "<html>".to_owned(), "malformed"),
        (200, many(0), "0 vectors for 1"),
        (200, many(7), "7 vectors for 1"),
        (200, wide, "too long"),
        (200, r#"{"data":[{"index":0,"embedding":[1e999]}]}"#.to_owned(), "malformed"),
        (200, format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), "malformed"),
        (200, " ".repeat(embed::ANSWER_BYTES_MAX + 1), "bytes"),
    ] {
        let (body, store) = (body.clone(), store());
        let model = Model::of(move |_| Reply::Says(status, body.clone()));
        let error = model.embedding(&store).of_sentence("hello").await.expect_err(why).to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[tokio::test]
async fn vectors_of_another_length_than_the_sentences_are_refused() {
    let model = Model::of(|texts| vectors(texts, if texts.iter().any(|text| text == "xx") { 4 } else { 3 }));
    let (store, texts) = (store(), said(3, &[]));
    let refused = model.embedding(&store).of_texts(texts, 3, LONG).await;
    assert_eq!(refused.expect_err("it is refused"), EmbeddingsError::Dimensions { wanted: 3, made: 4 });
    assert!(store.scan(VECTORS, Range::all(10)).expect("rows").is_empty());
}

#[tokio::test]
async fn an_endpoint_that_failed_is_left_alone_for_a_while() {
    let (model, store) = (Model::of(|_| Reply::Silence), store());
    let embedding = model.embedding(&store);
    let begun = Instant::now();
    let late = embedding.of_sentence("hello").await.expect_err("it is silent").to_string();
    assert!(late.contains("2000 ms") && begun.elapsed() < LONG, "{late}");
    let resting = embedding.of_sentence("hello").await.expect_err("it rests");
    assert!(matches!(resting, EmbeddingsError::Resting(1..=11)), "{resting:?}");
    assert_eq!(model.asked().len(), 1);
    *embedding.rests.lock().expect("nobody panics") = Some(Instant::now());
    embedding.of_sentence("hello").await.expect_err("it is silent still");
    assert_eq!(model.asked().len(), 2, "it was asked again");
}

#[tokio::test]
async fn what_strangers_say_costs_nobody_elses_vectors() {
    let choke = |texts: &[String]| texts.iter().any(|text| text == "choke");
    let model = Model::of(move |texts| if choke(texts) { Reply::Says(400, String::new()) } else { vectors(texts, 3) });
    let (store, texts) = (store(), said(2, &["choke"]));
    let embedding = model.embedding(&store);
    let made = embedding.of_texts(texts.clone(), 3, LONG).await.expect("near ones have vectors");
    assert!(made.of("x").is_some() && made.of("choke").is_none());
    embedding.of_texts(texts, 3, LONG).await.expect("the same");
    assert_eq!(model.asked().len(), 2, "what it choked on is not sent again");
    assert!(embedding.of_sentence("hello").await.is_ok(), "the endpoint does not rest for that");
}

#[tokio::test]
async fn what_takes_long_goes_on_for_the_next_call() {
    let (open, gate) = std::sync::mpsc::sync_channel::<()>(2);
    let gate = Mutex::new(gate);
    let model = Model::of(move |texts| {
        gate.lock().expect("nobody panics").recv().expect("it is opened");
        vectors(texts, 3)
    });
    let (store, texts) = (store(), said(70, &[]));
    let embedding = model.embedding(&store);
    let early = embedding.of_texts(texts.clone(), 3, Duration::from_millis(50)).await.expect_err("it takes longer");
    assert_eq!(early, EmbeddingsError::Reading { read: 0, all: 70 });
    open.send(()).expect("it waits");
    open.send(()).expect("it waits");
    // Until the first call's work is done.
    drop(embedding.reading.lock().await);
    embedding.of_texts(texts, 3, LONG).await.expect("all are there");
    assert_eq!(model.asked().len(), 2);
    let many = Texts { near: vec![String::new(); TEXTS_MAX + 1], strange: Vec::new() };
    assert_eq!(embedding.of_texts(many, 3, LONG).await.expect_err("too many"), EmbeddingsError::Many(TEXTS_MAX + 1));
}

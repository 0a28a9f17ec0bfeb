//! The floor: axum over RocksDB. It validates descriptions by the same schema, verifies the same signatures, and has on disk
//! what it acknowledges; it keeps no log, no state and no index.

use std::sync::{Arc, mpsc};

use althing_protocol::object::{self, Authored, Description};
use althing_protocol::registry::{Release, Submission};
use althing_protocol::{KeyLog, digest};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post, put};
use rocksdb::{DB, DBCompressionType, Direction, IteratorMode, Options, WriteBatch, WriteOptions};
use serde_json::Value;
use tokio::sync::oneshot;

use super::data::NETWORK;

/// The token that writers show.
pub const TOKEN: &str = "floor_token_of_the_benchmark_0123456789abcdef";
/// Rows of one write, while others wait for the disk.
const GROUP_MAX: usize = 256;

type Row = (Vec<u8>, Vec<u8>);
type Job = (Row, oneshot::Sender<()>);

struct Floor {
    db: DB,
    token: [u8; 32],
    queue: mpsc::Sender<Job>,
}

type Shared = State<Arc<Floor>>;

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

impl Floor {
    /// Writes one row, and waits for the disk: what is fastest for one writer.
    fn write(&self, (key, value): Row) {
        self.db.put_opt(key, value, &synced()).expect("it is written");
    }

    /// Writes a row with those of others that wait: what is fastest for many.
    async fn write_grouped(&self, row: Row) {
        let (done, written) = oneshot::channel();
        self.queue.send((row, done)).expect("the writer runs");
        written.await.expect("it is written");
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        shown.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|it| digest(it.as_bytes()) == self.token)
    }
}

/// A Thing's row, if the request is good.
fn thing(floor: &Floor, id: &str, headers: &HeaderMap, body: &[u8]) -> Result<Row, StatusCode> {
    if !floor.admits(headers) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let td = althing_td::Description::parse(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    if td.id() != Some(id) {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok((format!("t/{id}").into_bytes(), body.to_vec()))
}

/// A release's row, if its signatures and its description are good.
fn release(body: &[u8]) -> Option<Row> {
    let submission = Submission::decode(body).ok()?;
    let events: Vec<&[u8]> = submission.key_log.iter().map(|event| event.as_slice()).collect();
    let log = KeyLog::verify(&events).ok()?;
    let release: Authored<Release> = object::open(submission.statements.first()?, NETWORK, "").ok()?;
    let described: Authored<Description> = object::open(submission.descriptions.first()?, NETWORK, "").ok()?;
    let now_ms = release.body.made_ms;
    log.accepts(release.signer, now_ms).ok()?;
    log.accepts(described.signer, now_ms).ok()?;
    althing_td::Description::parse(&described.body.td).ok()?;
    Some((format!("r/{}/{}", release.body.agent, release.body.version).into_bytes(), body.to_vec()))
}

async fn put_one(State(floor): Shared, Path(id): Path<String>, headers: HeaderMap, body: Bytes) -> StatusCode {
    match thing(&floor, &id, &headers, &body) {
        Ok(row) => floor.write(row),
        Err(status) => return status,
    }
    StatusCode::CREATED
}

async fn put_grouped(State(floor): Shared, Path(id): Path<String>, headers: HeaderMap, body: Bytes) -> StatusCode {
    match thing(&floor, &id, &headers, &body) {
        Ok(row) => floor.write_grouped(row).await,
        Err(status) => return status,
    }
    StatusCode::CREATED
}

async fn submit_one(State(floor): Shared, body: Bytes) -> StatusCode {
    let Some(row) = release(&body) else { return StatusCode::BAD_REQUEST };
    floor.write(row);
    StatusCode::CREATED
}

async fn submit_grouped(State(floor): Shared, body: Bytes) -> StatusCode {
    let Some(row) = release(&body) else { return StatusCode::BAD_REQUEST };
    floor.write_grouped(row).await;
    StatusCode::CREATED
}

async fn get_one(State(floor): Shared, Path(id): Path<String>) -> Result<Vec<u8>, StatusCode> {
    floor.db.get(format!("t/{id}")).expect("it is read").ok_or(StatusCode::NOT_FOUND)
}

async fn list(State(floor): Shared, Query(page): Query<Value>) -> Vec<u8> {
    let limit = page["limit"].as_str().and_then(|limit| limit.parse().ok()).unwrap_or(100_usize);
    let from = format!("t/{}\0", page["after"].as_str().unwrap_or_default());
    let rows = floor.db.iterator(IteratorMode::From(from.as_bytes(), Direction::Forward)).take(limit);
    let mut out = vec![b'['];
    for row in rows {
        let (_, td) = row.expect("it is read");
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&td);
    }
    out.push(b']');
    out
}

/// Child: serves until it is killed.
pub async fn serve(folder: &str) {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::Lz4);
    let (queue, jobs) = mpsc::channel::<Job>();
    let db = DB::open(&options, folder).expect("a database");
    let floor = Arc::new(Floor { db, token: digest(TOKEN.as_bytes()), queue });
    let writer = floor.clone();
    std::thread::spawn(move || {
        while let Ok(first) = jobs.recv() {
            let (mut batch, mut told) = (WriteBatch::default(), Vec::new());
            for ((key, value), done) in std::iter::once(first).chain(jobs.try_iter()).take(GROUP_MAX) {
                batch.put(key, value);
                told.push(done);
            }
            writer.db.write_opt(batch, &synced()).expect("it is written");
            for done in told {
                let _ = done.send(());
            }
        }
    });
    let router = Router::new()
        .route("/things", get(list))
        .route("/things/{id}", get(get_one).put(put_one))
        .route("/grouped/{id}", put(put_grouped))
        .route("/submissions", post(submit_one))
        .route("/grouped-submissions", post(submit_grouped))
        .layer(DefaultBodyLimit::max(2 << 20))
        .with_state(floor);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    println!("{}", listener.local_addr().expect("it listens"));
    axum::serve(listener, router).await.expect("it serves");
}

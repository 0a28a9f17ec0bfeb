//! Searches that an index narrows find what searches without one find: while it is behind, after a restart, and whatever becomes
//! of its files.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::{Counted, NOW, Served, escaped, open, problem, thing};
use althing_protocol::SecretKey;
use althing_registry::machine::Admission;
use althing_registry::machine::things::{Expected, Writer};
use althing_registry::service::{Registry, RegistryConfig, SearchError, search};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// The same directory without an index.
async fn unindexed(store: Arc<Counted>, now_ms: u64) -> Arc<Registry> {
    let config = RegistryConfig {
        origin: "registry.example.org/log".to_owned(),
        network: "test".to_owned(),
        admission: Admission::Anyone,
        is_first: false,
    };
    let key = SecretKey::from_seed(&[9; 32]);
    Arc::new(Registry::open(store, key, config, Arc::new(move || now_ms)).await.expect("it opens"))
}

async fn found(registry: &Arc<Registry>, query: &str) -> Result<Value, String> {
    match search(registry.clone(), None, query).await {
        Ok(found) => Ok(serde_json::from_slice(&found.json).expect("JSON")),
        Err(error @ SearchError::Thing(_)) => panic!("{query}: {error}"),
        Err(error) => Err(error.to_string()),
    }
}

/// Compares searches with those of the same directory without an index.
async fn is_right(served: &Served, queries: &[String]) {
    let plain = unindexed(served.store.clone(), served.now.load(Ordering::SeqCst)).await;
    for query in queries {
        assert_eq!(found(&served.registry, query).await, found(&plain, query).await, "{query}");
    }
}

fn queries() -> Vec<String> {
    let queries = [
        "$[?@.title=='Lamp'].id",
        "$[?@.title=='Lamp' && @['x:room']=='b'].id",
        "$[?@.title=='Pump' || @['x:floor']==2].id",
        "$[?@['x:floor'] >= 1 && !@['x:room']].id",
        "$[?@['x:rooms'][?@=='a']].id",
        "$[?@['x:nested'].n[0]==1.0].title",
        "$[?@.properties[?@.type=='number']].id",
        "$..[?@.type=='number'].unit",
        "$[?search(@.title,'^P')].id",
        "$[?@.id=='urn:3'].id",
        "$[?@.registration.ttl==60].id",
        "$[?@.registration.created < '2100' && @.title=='Pump'].id",
        "$[?@['x:absent']].id",
        "$[?@['x:absent']!='x'].id",
        "$[?@.title=='Nothing']",
        "$[?@.id=='urn:7']['title','x:floor']",
        "$[*].title",
        "$..unit",
    ];
    queries.map(str::to_owned).to_vec()
}

/// Descriptions that differ in what the queries look at.
fn described(id: u32, seed: u32) -> Value {
    let pick = |from: u32, of: u32| (seed / from) % of;
    let mut td = thing(&format!("urn:{id}"), ["Lamp", "Pump", "Lamp é \"x\""][pick(1, 3) as usize]);
    if pick(3, 2) == 0 {
        td["x:room"] = json!(["a", "b"][pick(6, 2) as usize]);
    }
    td["x:floor"] = [json!(1), json!(2.0), json!("2"), Value::Null][pick(12, 4) as usize].clone();
    td["x:rooms"] = json!([["a"], ["b"]][pick(6, 2) as usize]);
    td["x:nested"] = json!({ "n": [pick(2, 3), 1] });
    let kind = ["number", "string"][pick(5, 2) as usize];
    td["properties"] = json!({ format!("p{}", pick(7, 3)): { "type": kind, "unit": seed.to_string(), "forms": [{ "href": "http://a/" }] } });
    if pick(11, 3) == 0 {
        td["registration"] = json!({ "ttl": 60 });
    }
    td
}

fn anybody() -> Writer {
    Writer { name: String::new(), is_admin: false }
}

async fn put(served: &Served, id: u32, seed: u32) {
    let (id, body) = (format!("urn:{id}"), described(id, seed).to_string());
    let directory = served.registry.directory();
    directory.put_thing(&id, body.as_bytes(), &anybody(), Expected::Anything).await.expect("written");
}

#[tokio::test]
async fn a_search_finds_the_same_whatever_the_index_has() {
    let served = Served::start(open()).await;
    for id in 0..40 {
        put(&served, id, id * 7).await;
    }
    is_right(&served, &queries()).await;
    served.is_indexed().await;
    is_right(&served, &queries()).await;
    // Some are changed, some deleted, some are new: the index is behind, and then it is not.
    for step in 0..3 {
        for id in 0..12 {
            put(&served, id * 4 + step, id * 13 + step).await;
        }
        let gone = format!("urn:{}", step * 5);
        served.registry.directory().delete_thing(&gone, &anybody(), Expected::Anything).await.expect("deleted");
        is_right(&served, &queries()).await;
        served.is_indexed().await;
        is_right(&served, &queries()).await;
    }
    // A life that ends is no entry, which the index would hear of.
    served.now.store(NOW + 61_000, Ordering::SeqCst);
    is_right(&served, &queries()).await;
    served.stop_indexing();
    for id in 30..50 {
        put(&served, id, id * 3).await;
    }
    is_right(&served, &queries()).await;
    let served = served.again().await;
    served.is_indexed().await;
    is_right(&served, &queries()).await;
}

/// A filter of random parts.
fn filters() -> BoxedStrategy<String> {
    let names = ["title", "x:room", "x:floor", "x:rooms", "id", "registration", "x:nested", "properties", "x:absent"];
    let values = ["'Lamp'", "'Pump'", "'a'", "1", "2", "'2'", "60", "null", "'number'", "'urn:4'", "'nosec'"];
    let path = prop::collection::vec(prop::sample::select(names.to_vec()), 1..3)
        .prop_map(|names| names.iter().map(|name| format!("['{name}']")).collect::<String>());
    let signs = prop::sample::select(vec!["==", "==", "!=", "<", ">="]);
    let values = prop::sample::select(values.to_vec());
    let one = prop_oneof![
        4 => (path.clone(), signs, values.clone()).prop_map(|(path, sign, value)| format!("@{path}{sign}{value}")),
        1 => path.clone().prop_map(|path| format!("@{path}")),
        1 => (path, values).prop_map(|(path, value)| format!("@{path}[?@=={value} || @.type=={value}]")),
    ];
    let both = |inner: BoxedStrategy<String>| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}&&{other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}||{other})")),
            inner.prop_map(|one| format!("!({one})")),
        ]
    };
    one.prop_recursive(2, 8, 2, move |inner| both(inner.boxed())).boxed()
}

#[tokio::test]
async fn random_searches_find_the_same_with_an_index_and_without() {
    let mut runner = TestRunner::deterministic();
    let served = Served::start(open()).await;
    let ends = prop::sample::select(vec!["", ".id", "['title','x:floor']", "..type", ".*"]);
    let strategy = (filters(), prop::sample::select(vec!["$[?", "$[?", "$..[?"]), ends);
    for round in 0..4_u32 {
        for id in 0..40 {
            let seed: u32 = any::<u32>().new_tree(&mut runner).expect("a number").current();
            put(&served, id + round * 20, seed >> 8).await;
        }
        if round % 2 == 0 {
            served.is_indexed().await;
        }
        let mut queries = Vec::new();
        for _ in 0..150 {
            let (filter, first, end) = strategy.new_tree(&mut runner).expect("a query").current();
            queries.push(format!("{first}{filter}]{end}"));
        }
        is_right(&served, &queries).await;
    }
}

#[tokio::test]
async fn an_index_goes_on_after_a_restart_and_is_made_again_where_it_is_of_no_use() {
    let mut served = Served::start(open()).await;
    for id in 0..30 {
        put(&served, id, id * 7).await;
    }
    served.is_indexed().await;
    for what in ["nothing", "it is missing", "a byte is another", "a file is empty", "a file lies there"] {
        served.stop_indexing();
        let folder = served.index();
        let file = |wanted: &str| {
            let files = fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").path());
            files.into_iter().find(|path| path.to_string_lossy().ends_with(wanted)).expect("it is there")
        };
        match what {
            "nothing" => {}
            "it is missing" => fs::remove_dir_all(&folder).expect("removed"),
            "a byte is another" => {
                let path = file(".idx");
                let mut bytes = fs::read(&path).expect("read");
                bytes[0] ^= 1;
                // Another file in its place: whoever reads the old one still does.
                fs::remove_file(&path).expect("removed");
                fs::write(&path, &bytes).expect("written");
            }
            "a file is empty" => fs::write(folder.join("meta.json"), "").expect("written"),
            _ => {
                fs::remove_dir_all(&folder).expect("removed");
                fs::write(&folder, "no folder").expect("written");
            }
        }
        served = served.again().await;
        is_right(&served, &queries()).await;
        if what == "a file lies there" {
            put(&served, 99, 3).await;
            is_right(&served, &queries()).await;
            fs::remove_file(&folder).expect("removed");
        }
        served.is_indexed().await;
        is_right(&served, &queries()).await;
    }
}

#[tokio::test]
async fn a_registry_without_room_for_its_index_accepts_and_finds_everything() {
    let served = Served::start(open()).await;
    put(&served, 1, 1).await;
    served.is_indexed().await;
    // Its folder goes away under it, and a file takes its place: nothing can be written there any more.
    fs::remove_dir_all(served.index()).expect("removed");
    fs::write(served.index(), "no folder").expect("written");
    for id in 2..20 {
        put(&served, id, id * 5).await;
    }
    is_right(&served, &queries()).await;
    fs::remove_file(served.index()).expect("removed");
    served.is_indexed().await;
    is_right(&served, &queries()).await;
}

#[tokio::test]
async fn an_index_of_another_log_is_not_used() {
    let (served, other) = (Served::start(open()).await, Served::start(open()).await);
    for id in 0..10 {
        put(&served, id, id).await;
        put(&other, id, id + 100).await;
    }
    served.is_indexed().await;
    other.is_indexed().await;
    served.stop_indexing();
    other.stop_indexing();
    let folder = served.index();
    fs::remove_dir_all(&folder).expect("removed");
    fs::create_dir(&folder).expect("a folder");
    for file in fs::read_dir(other.index()).expect("a folder").map(|file| file.expect("a file")) {
        fs::copy(file.path(), folder.join(file.file_name())).expect("copied");
    }
    let served = served.again().await;
    is_right(&served, &queries()).await;
    served.is_indexed().await;
    is_right(&served, &queries()).await;
}

#[tokio::test]
async fn heavy_reads_take_turns_and_say_when_to_come_again() {
    let served = Served::start(open()).await;
    served.have("urn:a", "Lamp").await;
    let turns = served.registry.turns().clone();
    let far = "/things?sort_by=title&offset=20000";
    assert_eq!(served.json(far).await, json!([]));
    let held = (turns.take(None).await.expect("a turn"), turns.take(None).await.expect("a turn"));
    let query = format!("/search/jsonpath?query={}", escaped("$[?@.title=='Lamp']"));
    for path in [query.as_str(), far] {
        let busy = served.get(path).await;
        assert_eq!(busy.headers()["retry-after"], "1", "{path}");
        assert_eq!(problem(busy).await.0, 503, "{path}");
    }
    assert_eq!(served.get("/things?sort_by=title").await.status(), StatusCode::OK, "it reads from the beginning");
    drop(held);
    assert_eq!(served.get(&query).await.status(), StatusCode::OK);
}

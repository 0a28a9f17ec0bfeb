//! A directory of 10,000 Things: all are listed once, searches are narrowed and right, and a start and a lost index change
//! nothing. 100,000 and 1,000,000 are in the benchmark.

use std::collections::BTreeSet;

use crate::support::{Served, escaped, open, thing};
use althing_registry::machine::things::{Expected, Writer};
use futures::StreamExt as _;
use serde_json::{Value, json};

const THINGS: usize = 10_000;
/// Things of each capability.
const OF_CAPABILITY: usize = 10;

fn id(number: usize) -> String {
    format!("urn:example:{number:05}")
}

fn capability(number: usize) -> String {
    format!("lamp.{}", number % (THINGS / OF_CAPABILITY))
}

async fn fill(served: &Served) {
    let writer = Writer { name: String::new(), is_admin: false };
    let put = |number: usize| {
        let (registry, writer, id) = (served.registry.clone(), writer.clone(), id(number));
        async move {
            let mut td = thing(&id, &format!("Lamp {number}"));
            td["x:capability"] = json!(capability(number));
            let put = registry.directory().put_thing(&id, td.to_string().as_bytes(), &writer, Expected::Anything).await;
            put.expect("written");
        }
    };
    futures::stream::iter(0..THINGS).map(put).buffer_unordered(64).collect::<Vec<()>>().await;
}

/// The ids of all pages.
async fn listed(served: &Served) -> Vec<String> {
    let (mut ids, mut next) = (Vec::new(), Some("/things?limit=1000".to_owned()));
    while let Some(path) = next {
        let answer = served.get(&path).await;
        let links = answer.headers().get_all("link");
        let link = links.iter().find_map(|link| link.to_str().ok()?.strip_suffix(">; rel=\"next\"").map(str::to_owned));
        next = link.map(|link| link.trim_start_matches('<').to_owned());
        let page: Vec<Value> = answer.json().await.expect("a list");
        ids.extend(page.iter().map(|td| td["id"].as_str().expect("an id").to_owned()));
    }
    ids
}

async fn is_right(served: &Served) {
    let ids = listed(served).await;
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (THINGS, THINGS), "each once");
    let total = served.json("/things?format=collection&limit=1").await["total"].clone();
    assert_eq!(total, json!(THINGS));
    for number in [0, 7, THINGS - 1] {
        let query = format!("$[?@['x:capability']=='{}'].id", capability(number));
        let found = served.json(&format!("/search/jsonpath?query={}", escaped(&query))).await;
        let wanted: Vec<String> =
            (0..THINGS).filter(|other| capability(*other) == capability(number)).map(id).collect();
        assert_eq!(found, json!(wanted), "{query}");
        assert_eq!(wanted.len(), OF_CAPABILITY);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_things_are_listed_and_found_and_there_after_a_start() {
    let served = Served::start(open()).await;
    fill(&served).await;
    served.is_indexed().await;
    let before = served.store.reads();
    let query = escaped(&format!("$[?@['x:capability']=='{}'].id", capability(3)));
    served.json(&format!("/search/jsonpath?query={query}")).await;
    let read = served.store.reads() - before;
    assert!(read <= 2 * OF_CAPABILITY as u64, "{read} rows were read for {OF_CAPABILITY} hits");
    is_right(&served).await;
    let index = served.index();
    let served = served.again().await;
    is_right(&served).await;
    served.stop_indexing();
    std::fs::remove_dir_all(&index).expect("the index is there");
    let served = served.again().await;
    is_right(&served).await;
    served.is_indexed().await;
    is_right(&served).await;
}

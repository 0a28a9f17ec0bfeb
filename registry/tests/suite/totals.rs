//! What is counted for a reader does not depend on what is hidden from it: neither the answer, nor what is read for it.

use crate::party::Party;
use crate::support::{Served, escaped, open, thing};
use althing_protocol::registry::{Audience, Standing};

/// Releases that everybody sees, and Things, of each registry.
const PUBLIC: usize = 5;

/// A registry with so many releases that are not for everybody, in the middle of those that are.
async fn registry(hidden: usize) -> Served {
    let served = Served::start(open()).await;
    let (org, reader) = (Party::new(1), Party::new(2));
    for at in 0..PUBLIC {
        served.have(&format!("urn:example:{at}"), "Lamp").await;
        let release = org.release(&format!("agent-{at}"), "1.0.0", Audience::public(), b"files");
        org.publishes(&served, release).await.expect("published");
        for number in 0..hidden / PUBLIC {
            let secret = Audience::listed(vec![reader.id()]);
            let release = org.release(&format!("agent-{at}-{number}"), "1.0.0", secret, b"files");
            org.publishes(&served, release).await.expect("published");
        }
        // Things without a bundle, of which one is revoked.
        for number in 0..usize::from(hidden > 0) {
            let name = format!("thing-{at}-{number}");
            let secret = Audience::listed(vec![reader.id()]);
            let mut release = org.release(&name, "1.0.0", secret, b"files");
            release.bundle = None;
            org.publishes(&served, release).await.expect("published");
            org.marks(&served, &name, "1.0.0", Standing::Revoked).await;
        }
    }
    served.is_indexed().await;
    served
}

/// What a stranger is answered, without what names an entry or a time, and the rows that were read for it.
async fn asked(served: &Served, path: &str) -> (u16, Option<u64>, usize, u64) {
    let before = served.store.reads();
    let answer = served.get(path).await;
    let (status, value) = (answer.status().as_u16(), answer.json::<serde_json::Value>().await.expect("JSON"));
    let read = served.store.reads() - before;
    let listed = value.get("members").or_else(|| value.get("agents")).unwrap_or(&value);
    (status, value["total"].as_u64(), listed.as_array().map_or(0, Vec::len), read)
}

/// P-185
#[tokio::test]
async fn totals_and_the_rows_read_for_them_do_not_depend_on_what_is_hidden() {
    let (bare, full) = (registry(0).await, registry(200).await);
    let query = escaped("$[?@.title==\"Lamp\"]");
    let all = escaped("$[?@.title!=\"Lamp\"]");
    for path in [
        "/things?format=collection&limit=1".to_owned(),
        "/things?format=collection&limit=1&offset=7".to_owned(),
        "/things?format=collection&sort_by=modified&sort_order=desc".to_owned(),
        "/things?limit=1000".to_owned(),
        format!("/search/jsonpath?query={query}"),
        format!("/search/jsonpath?query={all}"),
        "/agents".to_owned(),
        "/revoked".to_owned(),
        "/published".to_owned(),
        "/hosts".to_owned(),
    ] {
        let (one, other) = (asked(&bare, &path).await, asked(&full, &path).await);
        assert_eq!(one, other, "{path}");
        assert_eq!(one.0, 200, "{path}");
    }
    let (_, total, ..) = asked(&full, "/things?format=collection&limit=1").await;
    assert_eq!(total, Some(2 * PUBLIC as u64));
}

#[tokio::test]
async fn what_is_read_for_the_first_time_is_counted() {
    let served = registry(0).await;
    let path = "/things?limit=1000";
    let (_, _, listed, written) = asked(&served, path).await;
    assert_eq!(served.put("urn:example:more", thing("urn:example:more", "Lamp").to_string()).await.status(), 201);
    served.is_indexed().await;
    let (.., more) = asked(&served, path).await;
    assert_eq!(more, written, "what was just written is in memory");
    let served = served.again().await;
    served.is_indexed().await;
    let (.., first) = asked(&served, path).await;
    let (.., second) = asked(&served, path).await;
    assert!(first > second && second == written, "{first} and {second} rows of {listed} descriptions");
}

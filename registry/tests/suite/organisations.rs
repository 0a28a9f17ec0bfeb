//! Organisations: names that are proven, releases that are approved, and who sees what.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::party::{DOMAIN, NETWORK, Party, client, refused};
use crate::support::{NOW, Served, escaped, open};
use althing_protocol::inquiry::Inquiry;
use althing_protocol::object::{self, Grant};
use althing_protocol::record::Contact;
use althing_protocol::registry::{Audience, Means, Presence, Release, Role, SignIn, Standing, Version, Visit};
use althing_protocol::{AgentId, SecretKey, digest};
use althing_registry::tokens::TokenScope;
use althing_registry_client::{Reference, RegistryError, StagedRelease, check_approved};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, StatusCode};

const DAY: u64 = 24 * 60 * 60 * 1_000;
const BUNDLE: &[u8] = b"the files of a bundle";

fn version(text: &str) -> Version {
    text.parse().expect("a version")
}

fn name(text: &str) -> Reference {
    Reference::parse(&format!("{DOMAIN}/{text}")).expect("a name")
}

#[tokio::test]
async fn an_agent_is_found_by_the_name_that_its_organisation_gives_it() {
    let served = Served::start(open()).await;
    let (org, member, stranger) = (Party::new(1), Party::new(2), Party::new(3));
    let early = client(&served).resolve(NETWORK, &name("billing"), NOW).await;
    assert_eq!(refused(early).0, 404, "nobody has the domain");
    let members = vec![member.member(&[Role::Stage, Role::Approve], &["pay-*"])];
    org.names(&served, org.roster(members, 1, NOW)).await.expect("a roster");
    // The roster names the domain, and nobody has proven yet that it is the organisation's.
    let unproven = org.publishes(&served, org.release("billing", "1.0.0", Audience::public(), BUNDLE)).await;
    assert!(matches!(refused(unproven), (409, why) if why.contains("althing org prove")));
    served.registry.names().found(org.finding(true)).await.expect("written down");
    for (party, agent) in [(&org, "billing"), (&member, "pay-in"), (&member, "other"), (&stranger, "pay-out")] {
        let release = party.release(agent, "1.0.0", Audience::public(), BUNDLE);
        party.publishes(&served, release).await.expect("accepted");
    }
    let resolved = client(&served).resolve(NETWORK, &name("billing@^1"), NOW).await.expect("its own");
    assert_eq!(resolved.name.agent, org.agent("billing"));
    assert_eq!((resolved.name.finding.means, resolved.name.found_ms), (Means::Dns, NOW));
    let resolved = client(&served).resolve(NETWORK, &name("pay-in"), NOW).await.expect("a member's");
    assert_eq!(resolved.name.agent, member.agent("pay-in"));
    for other in ["other", "pay-out", "nothing"] {
        assert_eq!(refused(client(&served).resolve(NETWORK, &name(other), NOW).await).0, 404, "{other}");
    }
    let shown = client(&served).domain(DOMAIN).await.expect("it is known");
    let names: Vec<&str> = shown.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!((shown.by.as_str(), shown.proven, names), ("dns", true, vec!["billing", "pay-in"]));
    // Nobody else names the organisation's members.
    let forged = org.roster(vec![stranger.member(&[Role::Approve], &["*"])], 1, NOW + 1);
    assert_eq!(refused(stranger.names(&served, forged).await).0, 403);
    // What was accepted is there after a restart too.
    let served = served.again().await;
    assert!(client(&served).resolve(NETWORK, &name("billing"), NOW).await.is_ok());
}

#[tokio::test]
async fn a_lapsed_proof_or_roster_freezes_publishing_and_takes_the_name() {
    let served = Served::start(open()).await;
    let org = Party::new(1);
    org.is_organisation(&served, vec![], 1).await;
    let release = |version: &str, sequence: u64| {
        let mut body = org.release("billing", version, Audience::public(), BUNDLE);
        body.sequence = sequence;
        body
    };
    org.publishes(&served, release("1.0.0", NOW)).await.expect("accepted");
    served.registry.names().found(org.finding(false)).await.expect("written down");
    assert_eq!(refused(org.publishes(&served, release("1.1.0", NOW + 1)).await).0, 409);
    assert_eq!(refused(client(&served).resolve(NETWORK, &name("billing"), NOW).await).0, 409);
    // It takes back what it published all the same.
    org.marks(&served, "billing", "1.0.0", Standing::Yanked).await;
    served.registry.names().found(org.finding(true)).await.expect("written down");
    org.publishes(&served, release("1.1.0", NOW + 2)).await.expect("it is proven again");
    served.now.store(NOW + DAY + 1, Ordering::SeqCst);
    let late = org.publishes(&served, release("1.2.0", NOW + 3)).await;
    assert!(matches!(refused(late), (409, why) if why.contains("roster")));
    // A registry that still shows the old roster is not believed.
    served.now.store(NOW, Ordering::SeqCst);
    let old = client(&served).resolve(NETWORK, &name("billing"), NOW + DAY + 1).await;
    assert!(matches!(old, Err(RegistryError::Name(_))));
}

#[tokio::test]
async fn a_release_is_seen_when_as_many_approve_it_as_the_roster_wants() {
    let served = Served::start(open()).await;
    let (org, one, two) = (Party::new(1), Party::new(2), Party::new(3));
    let mut members = vec![one.member(&[Role::Approve], &["billing"]), two.member(&[Role::Read], &["*"])];
    members.sort_by_key(|member| member.publisher);
    org.is_organisation(&served, members, 2).await;
    let release = org.release("billing", "1.0.0", Audience::public(), BUNDLE);
    org.publishes(&served, release.clone()).await.expect("accepted");
    let (agent, number) = (org.agent("billing"), version("1.0.0"));
    let hidden = client(&served).release(NETWORK, &agent, &number).await;
    let absent = client(&served).release(NETWORK, &org.agent("absent"), &number).await;
    assert_eq!(refused(hidden).1.replace("billing", "absent"), refused(absent).1);
    let visitor = one.visits(&served).await;
    let waiting = visitor.pending().await.expect("a list").waiting;
    assert_eq!((waiting.len(), waiting[0].wanted, waiting[0].agent.clone()), (1, 2, agent.to_string()));
    assert!(two.visits(&served).await.pending().await.expect("a list").waiting.is_empty(), "it approves nothing");
    let outsider = two.visits(&served).await.waiting(NETWORK, &agent, &number).await;
    assert_eq!(refused(outsider).0, 404);
    // Who may not, who approves something else, and who approves twice.
    assert_eq!(refused(two.approves(&served, &release, NOW).await).0, 403);
    let mut other: Release = release.clone();
    other.description = [7; 32];
    assert!(matches!(refused(one.approves(&served, &other, NOW).await), (409, why) if why.contains("something else")));
    one.approves(&served, &release, NOW).await.expect("accepted");
    one.approves(&served, &release, NOW).await.expect("the same statement again is no error");
    let twice = refused(one.approves(&served, &release, NOW + 1).await);
    assert!(matches!(&twice, (409, why) if why.contains("approved")), "{twice:?}");
    let seen = client(&served).release(NETWORK, &agent, &number).await.expect("two of two approve it");
    assert_eq!(seen.approvers.len(), 2);
    let resolved = client(&served).resolve(NETWORK, &name("billing"), NOW).await.expect("a name");
    assert!(check_approved(&seen, &resolved.name.roster.body).is_ok());
    // A registry that leaves the approvals out is caught.
    let mut evidence = served.registry.releases().evidence(&agent, &number, None).expect("it is there");
    evidence.approvals.clear();
    let key = served.registry.note_key();
    assert!(evidence.verify(NETWORK, &agent, &number, key).expect_err("one of two").to_string().contains("2 must"));
    evidence.roster = None;
    let bare = evidence.verify(NETWORK, &agent, &number, key).expect("what is there is valid");
    let refused = check_approved(&bare, &resolved.name.roster.body);
    assert!(matches!(refused, Err(RegistryError::NotApproved { approved: 1, wanted: 2, .. })));
    let served = served.again().await;
    assert!(client(&served).release(NETWORK, &agent, &number).await.is_ok(), "after a restart too");
}

fn staged(agent: &AgentId, party: &Party, number: &str) -> StagedRelease {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    StagedRelease {
        agent: agent.to_string(),
        version: number.to_owned(),
        digest: hex(&digest(BUNDLE)),
        description: String::from_utf8(party.td(agent.name(), number)).expect("text"),
        bundle: STANDARD.encode(BUNDLE),
    }
}

#[tokio::test]
async fn a_build_machine_stages_and_does_nothing_else() {
    let served = Served::start(open()).await;
    let (org, other) = (Party::new(1), Party::new(2));
    let token = served.token_of("ci", TokenScope::StageReleases, org.id());
    let reads = served.token_of("audit", TokenScope::ReadReleases, org.id());
    let build = client(&served).with_token(token.clone()).expect("on loopback");
    let agent = org.agent("billing");
    let good = staged(&agent, &org, "1.0.0");
    assert_eq!(refused(client(&served).stage(&good).await).0, 401, "no token");
    assert_eq!(
        refused(client(&served).with_token(reads).expect("on loopback").stage(&good).await).0,
        401,
        "a token that reads"
    );
    assert_eq!(
        refused(client(&served).with_token(format!("{token}x")).expect("on loopback").stage(&good).await).0,
        401,
        "a wrong one"
    );
    let of_other = build.stage(&staged(&other.agent("billing"), &other, "1.0.0")).await;
    assert!(matches!(refused(of_other), (403, why) if why.contains("releases:stage")));
    let damaged = StagedRelease { bundle: STANDARD.encode(b"something else"), ..good.clone() };
    assert!(matches!(refused(build.stage(&damaged).await), (422, why) if why.contains("digest")));
    let wrong = StagedRelease { version: "1.0.1".to_owned(), ..good.clone() };
    assert!(matches!(refused(build.stage(&wrong).await), (422, why) if why.contains("description")));
    let id = build.stage(&good).await.expect("staged");
    assert_eq!(build.stage(&good).await.expect("the same again"), id);
    // The token neither reads nor approves nor rejects.
    assert_eq!(refused(build.pending().await).0, 401);
    assert_eq!(refused(build.staged(&id).await).0, 401);
    assert_eq!(refused(build.unstage(&id).await).0, 401);
    // Somebody else sees nothing of it, and cannot tell it from what is not there.
    let stranger = other.visits(&served).await;
    assert!(stranger.pending().await.expect("a list").staged.is_empty());
    let (hidden, absent) = (stranger.staged(&id).await, stranger.staged(&"0".repeat(32)).await);
    assert_eq!(refused(hidden).1.replace(&id, &"0".repeat(32)), refused(absent).1);
    assert_eq!(refused(stranger.unstage(&id).await).0, 404);
    let visitor = org.visits(&served).await;
    let listed = visitor.pending().await.expect("a list").staged;
    assert_eq!((listed.len(), listed[0].id.clone(), listed[0].bytes), (1, id.clone(), BUNDLE.len() as u64));
    let whole = visitor.staged(&id).await.expect("it is there");
    assert_eq!((whole.bundle, whole.digest), (good.bundle.clone(), good.digest.clone()));
    assert_eq!(served.registry.releases().list(None, 10, Some(org.id())).len(), 0, "nothing of it is published");
    visitor.unstage(&id).await.expect("rejected");
    assert_eq!(refused(visitor.staged(&id).await).0, 404);
    for at in 0..32 {
        build.stage(&staged(&agent, &org, &format!("1.0.{at}"))).await.expect("there is room");
    }
    assert_eq!(refused(build.stage(&staged(&agent, &org, "2.0.0")).await).0, 507);
}

/// Asks, and gives the status and the body.
async fn ask(
    served: &Served,
    (method, path): (Method, &str),
    body: impl Into<reqwest::Body>,
    token: Option<&str>,
) -> (StatusCode, String) {
    let mut request = served.request(method, &format!("/{path}")).body(body);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    (status, String::from_utf8_lossy(&answer.bytes().await.expect("a body")).into_owned())
}

/// A node tells that it hosts these agents; gives what it is answered.
async fn hosts(served: &Served, org: &Party, node: u8, agents: &[&str]) -> (StatusCode, String) {
    let node = SecretKey::from_seed(&[node; 32]);
    let addresses = vec!["/ip4/192.0.2.1/tcp/1".to_owned()];
    let contact = object::sign(Contact::new(node.public(), 1, NOW, NOW + 60_000, addresses), NETWORK, "", &node);
    let grant = |name: &&str| {
        let body = Grant::new(org.agent(name), node.public(), NOW - 1_000, NOW + 60_000);
        object::sign(body, NETWORK, "", &org.key).expect("a grant").bytes.into()
    };
    let contact = contact.expect("a contact").bytes.into();
    let presence = Presence { contact, grants: agents.iter().map(grant).collect() };
    ask(served, (Method::POST, "hosts"), presence.encode(), None).await
}

/// Everything that could tell of an agent, as a reader without a session or with one sees it.
async fn surfaces(served: &Served, agent: &AgentId, token: Option<&str>) -> Vec<(String, StatusCode, String)> {
    let mut seen = Vec::new();
    let name = agent.name();
    let paths = [
        "agents".to_owned(),
        format!("agents/{agent}"),
        format!("agents/{agent}/1.0.0"),
        format!("agents/{agent}/1.0.0/bundle"),
        "revoked".to_owned(),
        format!("names/{DOMAIN}"),
        format!("names/{DOMAIN}/{name}"),
        format!("things/{agent}"),
        format!("things/{agent}/submitted"),
        "things?format=collection".to_owned(),
        "things".to_owned(),
        "search/jsonpath?query=$[*].id".to_owned(),
        format!("hosts?agent={agent}"),
        "hosts".to_owned(),
        format!("staged/{agent}/1.0.0"),
    ];
    for path in paths {
        let (status, body) = ask(served, (Method::GET, &path), "", token).await;
        seen.push((path.replace(name, "NAME"), status, body.replace(name, "NAME")));
    }
    let put = format!("agents/{agent}/1.0.0/bundle");
    let (status, body) = ask(served, (Method::PUT, &put), "other bytes", token).await;
    seen.push(("PUT a bundle".to_owned(), status, body.replace(name, "NAME")));
    seen
}

#[tokio::test]
async fn what_is_hidden_looks_like_what_is_absent_on_every_surface() {
    let served = Served::start(open()).await;
    let (org, member, reader, stranger) = (Party::new(1), Party::new(2), Party::new(3), Party::new(4));
    org.is_organisation(&served, vec![member.member(&[Role::Read], &[])], 1).await;
    let public = org.release("open", "1.0.0", Audience::public(), BUNDLE);
    org.publishes(&served, public).await.expect("accepted");
    let absent = org.agent("absent");
    let shown = served.token_of("audit", TokenScope::ReadReleases, member.id());
    let of = async |party: &Party| {
        let answer = served.request(Method::POST, "/sessions").body(party_sign_in(party, &served)).send().await;
        let answer: serde_json::Value = answer.expect("an answer").json().await.expect("JSON");
        answer["token"].as_str().expect("a token").to_owned()
    };
    let outside = of(&stranger).await;
    hosts(&served, &org, 100, &["open"]).await;
    let host_of_open = ask(&served, (Method::GET, &format!("hosts?agent={}", org.agent("open"))), "", None).await.1;
    assert!(host_of_open.contains("contact"), "a host of what is public is named: {host_of_open}");
    let before = [surfaces(&served, &absent, None).await, surfaces(&served, &absent, Some(&outside)).await];
    for (agent, audience, bundle) in [
        ("internal", Audience::organisation(), b"internal files".as_slice()),
        ("listed", Audience::listed([reader.id()]), b"listed files".as_slice()),
    ] {
        org.publishes(&served, org.release(agent, "1.0.0", audience, bundle)).await.expect("accepted");
        let own = org.visits(&served).await;
        let kept = own.keep_bundle(&org.agent(agent), &version("1.0.0"), bundle.to_vec()).await;
        kept.expect("its publisher sends the bundle");
    }
    org.marks(&served, "listed", "1.0.0", Standing::Revoked).await;
    hosts(&served, &org, 100, &["open", "internal", "listed"]).await;
    let hidden = hosts(&served, &org, 101, &["internal", "listed"]).await;
    assert_eq!(hidden, hosts(&served, &org, 101, &["absent"]).await, "who hosts it is not told either");
    for agent in ["internal", "listed"] {
        let after = [
            surfaces(&served, &org.agent(agent), None).await,
            surfaces(&served, &org.agent(agent), Some(&outside)).await,
        ];
        for ((path, status, body), (_, status_before, body_before)) in
            after.iter().flatten().zip(before.iter().flatten())
        {
            assert_eq!((status, body), (status_before, body_before), "{agent} at {path}");
        }
    }
    // And those for whom it is see it.
    for (party, agent) in [(&org, "internal"), (&member, "internal"), (&org, "listed"), (&reader, "listed")] {
        let visitor = party.visits(&served).await;
        let (id, number) = (org.agent(agent), version("1.0.0"));
        let release = visitor.release(NETWORK, &id, &number).await.expect("it is shown");
        let wanted = release.release.body.bundle.expect("a bundle");
        assert!(visitor.bundle(&id, &number, wanted).await.is_ok());
        assert_eq!(visitor.versions(&id).await.expect("a list").len(), 1);
        assert!(visitor.agents(None).await.expect("a list").iter().any(|listed| listed.id == id.to_string()));
    }
    for (party, agent) in [(&member, "listed"), (&reader, "internal")] {
        let visitor = party.visits(&served).await;
        assert_eq!(refused(visitor.release(NETWORK, &org.agent(agent), &version("1.0.0")).await).0, 404);
    }
    let reads = client(&served).with_token(shown.clone()).expect("on loopback");
    assert!(reads.release(NETWORK, &org.agent("internal"), &version("1.0.0")).await.is_ok(), "by a token that reads");
    assert_eq!(refused(reads.pending().await).0, 401, "which approves nothing");
    assert_eq!(of(&reader).await.len(), outside.len());
    let revoked = reader.visits(&served).await.revoked(0).await.expect("a list");
    assert_eq!(revoked.len(), 1, "who sees the release hears of its revocation");
    let name = name("internal");
    assert!(member.visits(&served).await.resolve(NETWORK, &name, NOW).await.is_ok());
    // A member that is no longer in the roster sees nothing any more.
    org.names(&served, org.roster(vec![], 1, NOW + 1)).await.expect("a roster");
    let visitor = member.visits(&served).await;
    assert_eq!(refused(visitor.release(NETWORK, &org.agent("internal"), &version("1.0.0")).await).0, 404);
    // Nor does anybody whose session is over.
    let old = org.visits(&served).await;
    served.now.store(NOW + 11 * 60 * 1_000, Ordering::SeqCst);
    assert_eq!(refused(old.release(NETWORK, &org.agent("internal"), &version("1.0.0")).await).0, 401);
}

/// A search of somebody: what it finds, and the rows that were read for it.
async fn searched(served: &Served, query: &str, token: Option<&str>) -> (String, u64) {
    served.is_indexed().await;
    let (path, before) = (format!("search/jsonpath?query={}", escaped(query)), served.store.reads());
    let (status, found) = ask(served, (Method::GET, &path), "", token).await;
    assert_eq!(status, StatusCode::OK, "{query}: {found}");
    (found, served.store.reads() - before)
}

/// P-185
#[tokio::test]
async fn members_find_by_search_what_is_for_the_organisation_and_nobody_else_does() {
    let served = Served::start(open()).await;
    let (org, member, stranger) = (Party::new(1), Party::new(2), Party::new(3));
    org.is_organisation(&served, vec![member.member(&[Role::Read], &[])], 1).await;
    let release = |name: &str, number: &str, audience: Audience, at: u64| {
        let mut body = org.release(name, number, audience, BUNDLE);
        body.sequence += at;
        body
    };
    org.publishes(&served, release("open", "1.0.0", Audience::public(), 0)).await.expect("accepted");
    let session = async |party: &Party| {
        let answer = ask(&served, (Method::POST, "sessions"), party_sign_in(party, &served), None).await.1;
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        answer["token"].as_str().expect("a token").to_owned()
    };
    let (outside, inside, own) = (session(&stranger).await, session(&member).await, session(&org).await);
    let reads = served.token_of("audit", TokenScope::ReadReleases, member.id());
    let queries = [
        "$[?@.title=='internal'].id",
        "$[?@.title=='open'].version.instance",
        "$[?@.title!='none'].id",
        "$[?@.title=='builds'].id",
    ];
    let outsiders = [None, Some(outside.as_str())];
    let mut before = Vec::new();
    for (query, token) in queries.iter().flat_map(|query| outsiders.map(|token| (query, token))) {
        before.push(searched(&served, query, token).await);
    }
    org.publishes(&served, release("internal", "1.0.0", Audience::organisation(), 0)).await.expect("accepted");
    org.publishes(&served, release("open", "1.1.0", Audience::organisation(), 1)).await.expect("accepted");
    let mut builds = release("builds", "1.0.0", Audience::organisation(), 0);
    builds.bundle = None;
    org.publishes(&served, builds).await.expect("accepted");
    // Those for whom it is find it, each agent in the version that they see.
    let id = |name: &str| format!("[\"{}\"]", org.agent(name));
    let all = format!("[\"{}\",\"{}\",\"{}\"]", org.agent("builds"), org.agent("internal"), org.agent("open"));
    for token in [&inside, &own, &reads] {
        let mut found = Vec::new();
        for query in queries {
            found.push(searched(&served, query, Some(token)).await.0);
        }
        assert_eq!(found, [id("internal"), "[\"1.1.0\"]".to_owned(), all.clone(), id("builds")]);
    }
    // Nobody else does; nor does anybody read more rows for them, also after members searched.
    let mut after = Vec::new();
    for (query, token) in queries.iter().flat_map(|query| outsiders.map(|token| (query, token))) {
        after.push(searched(&served, query, token).await);
    }
    assert_eq!(after, before);
    let total = async |token: &str| ask(&served, (Method::GET, "things?format=collection"), "", Some(token)).await.1;
    assert!(total(&inside).await.contains("\"total\":1,"), "the list is everybody's");
    // The same of Things by what they can do.
    let anything = Inquiry { capability: None, action: None, target: None, agent: None };
    let client = client(&served);
    for (token, count) in [(&outside, 0), (&inside, 1), (&own, 1), (&reads, 1), (&outside, 0)] {
        let asking = client.clone().with_token(token.clone()).expect("on loopback");
        assert_eq!(asking.published(&anything).await.expect("a list").len(), count);
    }
    assert!(client.published(&anything).await.expect("a list").is_empty());
    // Who is no member any more finds nothing any more.
    org.names(&served, org.roster(vec![], 1, NOW + 1)).await.expect("a roster");
    assert_eq!(searched(&served, queries[0], Some(&inside)).await.0, "[]");
    let wrong = ask(&served, (Method::GET, "search/jsonpath?query=$[*].id"), "", Some("another")).await.0;
    assert_eq!(wrong, StatusCode::UNAUTHORIZED, "a token that opens nothing finds not less, but is refused");
}

/// What happened from the beginning on, as it is told, until that is told.
async fn told(served: &Served, last: &str) -> String {
    let (mut answer, mut text) = (served.get("/events?from=0&diff").await, String::new());
    while !text.contains(last) {
        let more = tokio::time::timeout(Duration::from_secs(30), answer.chunk()).await.expect("it comes soon");
        text.push_str(std::str::from_utf8(&more.expect("it comes").expect("it goes on")).expect("text"));
    }
    text
}

#[tokio::test]
async fn entries_and_events_do_not_tell_what_is_hidden() {
    let served = Served::start(open()).await;
    let (org, reader, stranger) = (Party::new(1), Party::new(3), Party::new(4));
    org.is_organisation(&served, vec![], 1).await;
    org.publishes(&served, org.release("open", "1.0.0", Audience::public(), BUNDLE)).await.expect("accepted");
    let first = served.registry.checkpoint().head.size;
    for (agent, audience) in [("internal", Audience::organisation()), ("listed", Audience::listed([reader.id()]))] {
        org.publishes(&served, org.release(agent, "1.0.0", audience, BUNDLE)).await.expect("accepted");
    }
    org.marks(&served, "listed", "1.0.0", Standing::Revoked).await;
    let end = served.registry.checkpoint().head.size;
    assert_eq!(end - first, 3);
    let session = ask(&served, (Method::POST, "sessions"), party_sign_in(&stranger, &served), None).await.1;
    let session: serde_json::Value = serde_json::from_str(&session).expect("JSON");
    for token in [None, session["token"].as_str()] {
        let statement = async |index: u64| {
            let (status, body) = ask(&served, (Method::GET, &format!("statements/{index}")), "", token).await;
            (status, body.replace(&format!("entry {index} "), "entry N "))
        };
        let absent = statement(9_999).await;
        assert_eq!(absent.0, StatusCode::NOT_FOUND);
        assert_eq!(statement(first - 1).await.0, StatusCode::OK, "what is public is shown");
        for index in first..end {
            assert_eq!(statement(index).await, absent, "entry {index}");
        }
    }
    served.have("urn:example:end", "Lamp").await;
    let told = told(&served, "urn:example:end").await;
    assert!(told.contains(&org.agent("open").to_string()), "what is public is told: {told}");
    let ids: Vec<&str> = told.lines().filter_map(|line| Some(line.strip_prefix("id:")?.trim())).collect();
    for index in first..end {
        assert!(!ids.contains(&index.to_string().as_str()), "{told}");
    }
    for agent in ["internal", "listed"] {
        assert!(!told.contains(&org.agent(agent).to_string()), "{told}");
    }
}

fn party_sign_in(party: &Party, served: &Served) -> Vec<u8> {
    let scope = served.registry.note_key().to_string();
    let visit = object::sign(Visit::new(party.id(), NOW), NETWORK, &scope, &party.key).expect("a good visit");
    let key_log = party.log.to_bytes().into_iter().map(Into::into).collect();
    SignIn { key_log, visit: visit.bytes.into() }.encode()
}

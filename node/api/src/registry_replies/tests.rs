//! The JSON of replies about registries and releases.

use serde_json::json;

use super::*;
use crate::golden::assert_json;

fn own(text: &str) -> String {
    text.to_owned()
}

fn publication() -> ReleasePublication {
    ReleasePublication {
        agent: own("urn:p:echo"),
        version: own("1.2.0"),
        registry: own("http://r/"),
        entries: 4,
        bytes: 9,
    }
}

fn release() -> ReleaseOffer {
    ReleaseOffer {
        agent: own("urn:p:echo"),
        version: own("1.2.0"),
        registry: own("http://r/"),
        digest: own("0f"),
        passed_over: Vec::new(),
        accepted_ms: 5,
        named: None,
        trusted: false,
        standing: own("good"),
        reason: None,
        attested: Vec::new(),
        twins: Vec::new(),
        name: own("echo"),
        contents: ReleaseContents::Agent { file: json!({ "name": "echo" }), reaches: Vec::new() },
    }
}

fn attestation() -> Attestation {
    Attestation {
        name: own("audit"),
        by: own("urn:q"),
        version: None,
        finding: json!({ "passed": true }),
        accepted_ms: 5,
        until_ms: 9,
    }
}

/// A release as JSON, whose end is left open.
const RELEASE: &str = concat!(
    r#"{"agent":"urn:p:echo","version":"1.2.0","registry":"http://r/","digest":"0f","passedOver":[],"acceptedMs":5,"#,
    r#""named":null,"trusted":false,"standing":"good","reason":null,"attested":[],"twins":[],"name":"echo","#,
    r#""file":{"name":"echo"},"reaches":[]"#,
);

fn status() -> InstallStatus {
    InstallStatus {
        name: own("echo"),
        agent: own("urn:p:echo"),
        version: own("1.0.0"),
        range: own("^1"),
        registry: own("http://r/"),
        newest: Some(own("1.2.0")),
        why: None,
        passed_over: Vec::new(),
        revoked: None,
        yanked: None,
        quarantined: None,
        named: None,
        passed_to: None,
        update: UpdateRule::Asked,
        tried: None,
        held: None,
    }
}

#[test]
fn registries_are_listed_with_witnesses_and_evidence_only_where_there_are_some() {
    let plain = RegistryStatus {
        at: own("http://r/"),
        name: own("r"),
        key: own("r+1+A"),
        entries: Some(4),
        forked: None,
        witnesses: None,
    };
    assert_json(&plain, r#"{"at":"http://r/","name":"r","key":"r+1+A","entries":4}"#);
    let caught = RegistryStatus {
        entries: None,
        forked: Some(RegistryFork { before: own("a"), now: own("b") }),
        witnesses: Some(RegistryWitnesses { keys: vec![own("w+2+B")], wanted: 1 }),
        ..plain
    };
    let json = concat!(
        r#"{"registries":[{"at":"http://r/","name":"r","key":"r+1+A","entries":null,"#,
        r#""forked":{"before":"a","now":"b"},"witnesses":{"keys":["w+2+B"],"wanted":1}}]}"#,
    );
    assert_json(&RegistryList { registries: vec![caught] }, json);
    assert_json(&RegistryRemoval { removed: own("http://r/") }, r#"{"removed":"http://r/"}"#);
}

#[test]
fn what_is_published_is_told_and_of_a_mark_the_standing_too() {
    let begun = r#"{"agent":"urn:p:echo","version":"1.2.0","registry":"http://r/","entries":4,"bytes":9"#;
    assert_json(&publication(), &format!("{begun}}}"));
    let mark = ReleaseMark { publication: publication(), standing: own("yanked") };
    assert_json(&mark, &format!(r#"{begun},"standing":"yanked"}}"#));
}

#[test]
fn releases_are_listed_with_attestations_where_an_agent_was_named() {
    let version = ReleaseVersion { version: own("1.2.0"), standing: own("yanked"), reason: Some(own("it forgets")) };
    let plain = ReleaseVersion { version: own("1.0.0"), standing: own("good"), reason: None };
    let agent =
        ReleaseVersions { agent: own("urn:p:echo"), versions: vec![plain, version], twins: vec![own("urn:q:ech0")] };
    let list = ReleaseList { registry: own("http://r/"), agents: vec![agent], attested: None };
    let begun = concat!(
        r#"{"registry":"http://r/","agents":[{"agent":"urn:p:echo","versions":["#,
        r#"{"version":"1.0.0","standing":"good","reason":null},"#,
        r#"{"version":"1.2.0","standing":"yanked","reason":"it forgets"}],"twins":["urn:q:ech0"]}]"#,
    );
    assert_json(&list, &format!("{begun}}}"));
    let found =
        r#"[{"name":"audit","by":"urn:q","version":null,"finding":{"passed":true},"acceptedMs":5,"untilMs":9}]"#;
    let with = ReleaseList { attested: Some(vec![attestation()]), ..list.clone() };
    assert_json(&with, &format!(r#"{begun},"attested":{found}}}"#));
    assert_json(&ReleaseList { attested: Some(Vec::new()), ..list }, &format!(r#"{begun},"attested":[]}}"#));
}

#[test]
fn what_would_be_installed_is_told_and_then_what_is_there() {
    let offer = InstallOffer { release: release(), taken: true };
    assert_json(&offer, &format!(r#"{RELEASE},"taken":true}}"#));
    let added = AgentAddition { id: own("urn:o:echo"), name: own("echo"), card: None, status: None };
    let done = InstallCompletion { release: release(), added: InstallAddition::Agent(Box::new(added)) };
    let told = r#""added":{"id":"urn:o:echo","name":"echo","card":null,"status":null}"#;
    assert_json(&done, &format!("{RELEASE},{told}}}"));
    let workflow = InstallAddition::Workflow(WorkflowAddition { name: own("letter") });
    assert_json(&workflow, r#"{"name":"letter"}"#);
    let replies = [InstallReply::Offer(Box::new(offer)), InstallReply::Completion(Box::new(done))];
    let written = replies.map(|reply| serde_json::to_string(&reply).expect("a reply is JSON"));
    assert_eq!(written, [format!(r#"{RELEASE},"taken":true}}"#), format!("{RELEASE},{told}}}")]);
}

#[test]
fn a_release_is_offered_with_what_proves_its_name_and_what_was_found_of_it() {
    let offer = ReleaseOffer {
        passed_over: vec![own("1.3.0 is yanked")],
        named: Some(NameProof {
            domain: own("example.org"),
            organisation: own("urn:p"),
            by: own("dns"),
            twins: vec![own("examp1e.org")],
        }),
        trusted: true,
        standing: own("deprecated"),
        reason: Some(own("old")),
        attested: vec![attestation()],
        twins: vec![own("urn:q:ech0")],
        ..release()
    };
    let json = concat!(
        r#"{"agent":"urn:p:echo","version":"1.2.0","registry":"http://r/","digest":"0f","#,
        r#""passedOver":["1.3.0 is yanked"],"acceptedMs":5,"named":{"domain":"example.org","organisation":"urn:p","#,
        r#""by":"dns","twins":["examp1e.org"]},"trusted":true,"standing":"deprecated","reason":"old","#,
        r#""attested":[{"name":"audit","by":"urn:q","version":null,"finding":{"passed":true},"acceptedMs":5,"#,
        r#""untilMs":9}],"twins":["urn:q:ech0"],"name":"echo","file":{"name":"echo"},"reaches":[]}"#,
    );
    assert_json(&offer, json);
}

#[test]
fn an_update_is_told_with_what_it_replaces() {
    let installed = InstallContents::Agent { reaches: Vec::new(), file: json!({ "name": "old" }) };
    let (before, before_agent) = (own("1.0.0"), own("urn:p:echo"));
    let offer = UpdateOffer {
        release: release(),
        before: before.clone(),
        before_agent: before_agent.clone(),
        installed: Some(installed),
    };
    let was = r#""before":"1.0.0","beforeAgent":"urn:p:echo""#;
    let whole = format!(r#"{RELEASE},{was},"installed":{{"reaches":[],"file":{{"name":"old"}}}}}}"#);
    assert_json(&UpdateLook::Offer(Box::new(offer.clone())), &whole);
    let unread = UpdateOffer { installed: None, ..offer };
    assert_json(&unread, &format!(r#"{RELEASE},{was},"installed":null}}"#));
    let added = InstallAddition::Workflow(WorkflowAddition { name: own("echo") });
    let done = UpdateCompletion { release: release(), before, before_agent, added };
    assert_json(&done, &format!(r#"{RELEASE},{was},"added":{{"name":"echo"}}}}"#));
    let replies = [UpdateReply::Look(UpdateLook::Offer(Box::new(unread))), UpdateReply::Completion(Box::new(done))];
    let written = replies.map(|reply| serde_json::to_string(&reply).expect("a reply is JSON"));
    let expected =
        [format!(r#"{RELEASE},{was},"installed":null}}"#), format!(r#"{RELEASE},{was},"added":{{"name":"echo"}}}}"#)];
    assert_eq!(written, expected);
}

#[test]
fn what_was_installed_is_told_with_what_became_of_it() {
    let begun = r#"{"name":"echo","agent":"urn:p:echo","version":"1.0.0","range":"^1","registry":"http://r/","#;
    let plain = concat!(
        r#""newest":"1.2.0","why":null,"passedOver":[],"revoked":null,"yanked":null,"quarantined":null,"#,
        r#""named":null,"passedTo":null,"update":"asked","tried":null,"held":null"#,
    );
    let bad = InstallStatus {
        newest: None,
        why: Some(own("nobody answers")),
        passed_over: vec![own("1.3.0 is yanked")],
        revoked: Some(own("it leaks")),
        yanked: Some(String::new()),
        quarantined: Some(own("it hurts")),
        named: Some(own("example.org/echo")),
        passed_to: Some(own("urn:q")),
        update: UpdateRule::Rollout,
        tried: Some(own("1.2.0")),
        held: Some(own("1.3.0: it may do more")),
        ..status()
    };
    let told = concat!(
        r#""newest":null,"why":"nobody answers","passedOver":["1.3.0 is yanked"],"revoked":"it leaks","yanked":"","#,
        r#""quarantined":"it hurts","named":"example.org/echo","passedTo":"urn:q","#,
        r#""update":"rollout","tried":"1.2.0","held":"1.3.0: it may do more""#,
    );
    let list = InstallList { installed: vec![status(), bad] };
    assert_json(&list, &format!(r#"{{"installed":[{begun}{plain}}},{begun}{told}}}]}}"#));
    let absence = UpdateAbsence { status: status(), before: own("1.0.0"), before_agent: own("urn:p:echo") };
    let whole = format!(r#"{begun}{plain},"before":"1.0.0","beforeAgent":"urn:p:echo"}}"#);
    assert_json(&UpdateLook::Absence(Box::new(absence)), &whole);
    assert_json(&InstallRemoval { removed: own("echo") }, r#"{"removed":"echo"}"#);
}

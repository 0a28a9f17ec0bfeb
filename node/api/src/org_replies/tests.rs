//! The JSON of replies about organisations and approvals.

use serde_json::json;

use super::*;
use crate::ReceiptFault;
use crate::golden::assert_json;

fn own(text: &str) -> String {
    text.to_owned()
}

#[test]
fn an_organisation_is_told_with_its_members() {
    let member =
        OrganisationMember { publisher: own("urn:q"), roles: vec![own("read"), own("stage")], names: vec![own("b*")] };
    let status = OrganisationStatus {
        registry: own("http://r/"),
        organisation: own("urn:p"),
        domain: own("example.org"),
        approvals: 2,
        members: vec![member],
        signed_ms: 5,
    };
    let json = concat!(
        r#"{"registry":"http://r/","organisation":"urn:p","domain":"example.org","approvals":2,"#,
        r#""members":[{"publisher":"urn:q","roles":["read","stage"],"names":["b*"]}],"signedMs":5}"#,
    );
    assert_json(&status, json);
}

#[test]
fn a_domain_is_told_with_who_holds_it() {
    let proof = DomainProof {
        organisation: own("urn:p"),
        domain: own("example.org"),
        proven: false,
        by: None,
        why: Some(own("it names nobody")),
        held: None,
    };
    let json = concat!(
        r#"{"organisation":"urn:p","domain":"example.org","proven":false,"by":null,"why":"it names nobody","#,
        r#""held":null}"#,
    );
    assert_json(&proof, json);
    let claim = DomainClaim { organisation: own("urn:p"), by: own("dns"), since_ms: 7 };
    let holder = DomainHolder {
        organisation: own("urn:q"),
        by: own("operator"),
        proven: true,
        found_ms: 6,
        claim: Some(claim),
        twins: vec![own("examp1e.org")],
    };
    let json = concat!(
        r#"{"organisation":"urn:q","by":"operator","proven":true,"foundMs":6,"#,
        r#""claim":{"organisation":"urn:p","by":"dns","sinceMs":7},"twins":["examp1e.org"]}"#,
    );
    assert_json(&holder, json);
    let unclaimed = DomainHolder { claim: None, twins: Vec::new(), ..holder };
    let told = concat!(
        r#"{"organisation":"urn:p","domain":"example.org","proven":true,"by":"dns","why":null,"#,
        r#""held":{"organisation":"urn:q","by":"operator","proven":true,"foundMs":6,"claim":null,"twins":[]}}"#,
    );
    let held = DomainProof { proven: true, by: Some(own("dns")), why: None, held: Some(unclaimed), ..proof };
    assert_json(&held, told);
}

#[test]
fn a_log_is_told_with_what_is_missing_of_it() {
    let notice = LogNotice { entry: 3, at_ms: 5, what: own("release"), about: own("urn:p:echo"), detail: own("1.0.0") };
    let missing = ReceiptEntry::Fault(ReceiptFault { entry: 2, why: own("it was changed") });
    let watch = LogWatch { entries: 4, watched: vec![notice], missing: vec![missing] };
    let json = concat!(
        r#"{"entries":4,"watched":[{"entry":3,"atMs":5,"what":"release","about":"urn:p:echo","detail":"1.0.0"}],"#,
        r#""missing":[{"entry":2,"why":"it was changed"}]}"#,
    );
    assert_json(&watch, json);
}

#[test]
fn what_waits_for_approval_is_told() {
    let stage = StageSummary {
        id: own("0a"),
        agent: own("urn:p:echo"),
        version: own("1.0.0"),
        digest: own("0f"),
        bytes: 9,
        staged_ms: 5,
    };
    let waiting =
        ApprovalSummary { agent: own("urn:q:bill"), version: own("2.0.0"), approved_by: vec![own("urn:r")], wanted: 3 };
    let list = ApprovalList { registry: own("http://r/"), staged: vec![stage], waiting: vec![waiting] };
    let json = concat!(
        r#"{"registry":"http://r/","staged":[{"id":"0a","agent":"urn:p:echo","version":"1.0.0","digest":"0f","#,
        r#""bytes":9,"stagedMs":5}],"waiting":[{"agent":"urn:q:bill","version":"2.0.0","approvedBy":["urn:r"],"#,
        r#""wanted":3}]}"#,
    );
    assert_json(&list, json);
}

#[test]
fn what_would_be_approved_has_a_file_or_null_and_a_workflow_behind_that() {
    let unread = ApprovalOffer {
        agent: own("urn:p:echo"),
        version: own("1.0.0"),
        registry: own("http://r/"),
        digest: own("0f"),
        file: None,
        reaches: None,
        workflow: None,
    };
    let begun = r#"{"agent":"urn:p:echo","version":"1.0.0","registry":"http://r/","digest":"0f","file":"#;
    assert_json(&unread, &format!("{begun}null}}"));
    let agent = ApprovalOffer {
        file: Some(json!({ "name": "echo" })),
        reaches: Some(vec![own("runtime: x")]),
        ..unread.clone()
    };
    assert_json(&agent, &format!(r#"{begun}{{"name":"echo"}},"reaches":["runtime: x"]}}"#));
    let outline = WorkflowOutline {
        name: own("letter"),
        title: own("Letter"),
        description: Some(own("Writes")),
        version: own("1.0.0"),
        steps: Vec::new(),
        capabilities: Vec::new(),
        agents: Vec::new(),
        unknown: Vec::new(),
    };
    let workflow = ApprovalOffer { workflow: Some(outline), ..unread.clone() };
    let told = concat!(
        r#""workflow":{"name":"letter","title":"Letter","description":"Writes","version":"1.0.0","steps":[],"#,
        r#""capabilities":[],"agents":[],"unknown":[]}"#,
    );
    assert_json(&workflow, &format!("{begun}null,{told}}}"));
    let offer = serde_json::to_string(&ApprovalReply::Offer(Box::new(unread))).expect("a reply is JSON");
    assert_eq!(offer, format!("{begun}null}}"));
}

#[test]
fn what_is_approved_rejected_and_purged_is_told() {
    let publication = ReleasePublication {
        agent: own("urn:p:echo"),
        version: own("1.0.0"),
        registry: own("http://r/"),
        entries: 4,
        bytes: 9,
    };
    let approved = serde_json::to_string(&ApprovalReply::Publication(publication)).expect("a reply is JSON");
    let begun = r#"{"agent":"urn:p:echo","version":"1.0.0","registry":"http://r/""#;
    assert_eq!(approved, format!(r#"{begun},"entries":4,"bytes":9}}"#));
    let rejected = StageRejection { rejected: own("0a"), registry: own("http://r/") };
    assert_json(&rejected, r#"{"rejected":"0a","registry":"http://r/"}"#);
    let purge = ReleasePurge { agent: own("urn:p:echo"), version: own("1.0.0"), registry: own("http://r/") };
    assert_json(&purge, &format!("{begun}}}"));
}

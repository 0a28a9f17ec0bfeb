//! What agents' names mean, and who may have which agent.

use althing_calls::{AllowedAgents, Among, Asker, Callee, Purpose, Target, TrustRelation};
use althing_conformance::mesh::{Node, file, store};
use althing_conformance::world::until;
use althing_protocol::CallerId;

use crate::mesh::{OWNER, STRANGER, actor, calm, crowd, found, meant, nodes_of, pair};

#[tokio::test(start_paused = true)]
async fn a_name_belongs_to_the_nearest_publisher_and_no_stranger_takes_it() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let stranger = Node::start(&net, 3, STRANGER, &[], store()).await;
    let theirs = stranger.host(&actor()).await;
    let lone = stranger.host(&file("lone", "is alone", "alone.be", "be", "alone")).await;
    stranger.connect(&a).await;
    found(&a, &theirs).await;
    assert_eq!(meant(&a, "actor", Among::Anyone).await, Ok(id.clone()), "the owner's own comes first");
    assert_eq!(
        meant(&a, "lone", Among::Anyone).await,
        Ok(lone.clone()),
        "a stranger's may be called by a name that nobody near has, where that is asked for"
    );
    net.crash(b.id());
    until("the owner's is gone", || nodes_of(&a, &id) == 0).await;
    let gone = meant(&a, "actor", Among::Anyone).await.expect_err("it is not replaced by the stranger's");
    assert!(gone.message.contains(&id.to_string()), "{gone}");
    assert_eq!(meant(&a, &theirs.to_string(), Among::Near).await, Ok(theirs));
    // A name that its owner gave up is free.
    let own = a.host(&file("lone", "is ours", "alone.be", "be", "alone")).await;
    assert_eq!(meant(&a, "lone", Among::Near).await, Ok(own.clone()));
    a.discovery.unhost(&own);
    assert_eq!(meant(&a, "lone", Among::Anyone).await, Ok(lone.clone()));

    // Among strangers a name must be one agent's.
    let other = Node::start(&net, 4, 102, &[], store()).await;
    let second = other.host(&file("lone", "is not alone", "alone.be", "be", "alone")).await;
    other.connect(&a).await;
    found(&a, &second).await;
    assert_eq!(meant(&a, "lone", Among::Anyone).await.expect_err("two of them").reason(), "AGENT_UNKNOWN");
}

/// Threat 6, finding 12: whether that name was ever resolved before, and whether the node was started anew since, makes no
/// difference.
#[tokio::test(start_paused = true)]
async fn a_bare_name_never_leads_to_a_stranger_s_agent_when_its_host_is_down() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let stranger = Node::start(&net, 3, STRANGER, &[], store()).await;
    let theirs = stranger.host(&actor()).await;
    stranger.connect(&a).await;
    found(&a, &theirs).await;
    // Nobody has asked for it by its name yet.
    net.crash(b.id());
    until("the owner's is gone", || nodes_of(&a, &id) == 0).await;
    let refused = meant(&a, "actor", Among::Near).await.expect_err("the stranger's is not meant");
    assert_eq!(refused.reason(), "AGENT_UNKNOWN");
    assert!(refused.message.contains(&theirs.to_string()) && refused.remedy.is_some(), "{refused:?}");
    assert_eq!(meant(&a, "actor", Among::Anyone).await, Ok(theirs.clone()), "it was asked for");
    assert_eq!(meant(&a, &theirs.to_string(), Among::Near).await, Ok(theirs.clone()));

    // A node that was started anew remembers nothing of the name.
    net.crash(a.id());
    drop(a);
    let a = Node::start(&net, 1, OWNER, &[], store()).await;
    stranger.connect(&a).await;
    found(&a, &theirs).await;
    assert!(meant(&a, "actor", Among::Near).await.is_err());
    // Who is trusted is meant.
    let trusting = Node::start(&net, 5, OWNER, &[CallerId::Publisher(stranger.owner.id())], store()).await;
    stranger.connect(&trusting).await;
    found(&trusting, &theirs).await;
    assert_eq!(meant(&trusting, "actor", Among::Near).await, Ok(theirs));
}

/// Who asks, what for, and in which order it is refused: an agent that is not there is unknown to everybody, before anything
/// is said of who may have it.
#[tokio::test(start_paused = true)]
async fn whoever_asks_has_the_agents_that_it_may_and_unknown_ones_come_first() {
    let net = calm();
    let (a, _b, near) = pair(&net).await;
    let stranger = Node::start(&net, 3, STRANGER, &[], store()).await;
    let far = stranger.host(&file("far", "is far away", "acting.do", "do", "play")).await;
    stranger.connect(&a).await;
    found(&a, &far).await;
    let bound = |agents: &[String]| {
        Asker::User(AllowedAgents { user: "alice".to_owned(), agents: agents.iter().cloned().collect() })
    };
    let by_name = bound(&["actor".to_owned(), "far".to_owned()]);
    let by_id = bound(&[far.to_string()]);
    let (near_text, far_text) = ("actor".to_owned(), far.to_string());
    // Asker, callee, and whether it may call it and read it.
    let cases = [
        (&Asker::Owner, &near_text, true, true),
        (&Asker::Owner, &far_text, true, true),
        (&by_name, &near_text, true, true),
        (&by_name, &far_text, false, true),
        (&by_id, &near_text, false, true),
        (&by_id, &far_text, true, true),
        (&Asker::Agent, &near_text, true, true),
        (&Asker::Agent, &far_text, false, false),
    ];
    for (asker, text, calls, reads) in cases {
        let callee = Callee::near(text);
        for (purpose, may) in [(Purpose::Call, calls), (Purpose::Read, reads)] {
            let target = a.calls.target(asker, &callee, purpose).await;
            match target {
                Ok(Target { agent, relation, .. }) => {
                    let (is_near, is_far) = (agent == near, agent == far);
                    assert!(may && (is_near || is_far), "{asker:?} {text} {purpose:?}");
                    assert_eq!(relation == TrustRelation::Own, is_near, "{agent}");
                }
                Err(error) => assert_eq!((may, error.reason()), (false, "CALLER_NOT_ALLOWED"), "{asker:?} {text}"),
            }
        }
    }
    for asker in [&Asker::Owner, &by_name, &by_id, &Asker::Agent] {
        for purpose in [Purpose::Call, Purpose::Read, Purpose::Wait] {
            // A stranger's is none by its name alone.
            for unknown in ["nobody", "far"] {
                let refused = a.calls.target(asker, &Callee::near(unknown), purpose).await.expect_err(unknown);
                assert_eq!(refused.reason(), "AGENT_UNKNOWN", "{asker:?} {unknown} {purpose:?}");
            }
        }
    }
}

/// Whoever only says what a call waits for looks for nothing on other nodes.
#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_told_without_asking_another_node() {
    let net = calm();
    let (nodes, id) = crowd(&net, 45).await;
    let seeker = nodes.iter().find(|node| nodes_of(node, &id) == 0).expect("somebody who does not hear the last one");
    let waiting = seeker.calls.target(&Asker::Owner, &Callee::near("actor"), Purpose::Wait).await;
    assert_eq!(waiting.expect_err("it was not heard of").reason(), "AGENT_UNKNOWN");
    assert_eq!(nodes_of(seeker, &id), 0, "nobody was asked");
    assert_eq!(meant(seeker, "actor", Among::Near).await, Ok(id.clone()), "the table knows it");
    let by_id = seeker.calls.target(&Asker::Owner, &Callee::Id(id.clone()), Purpose::Wait).await;
    assert_eq!(by_id.expect("an id is enough").agent, id);
}

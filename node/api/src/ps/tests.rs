use super::*;
use crate::golden::assert_json;

fn bare() -> AgentInstance {
    AgentInstance::new("clerk", "srt", "process", AgentCondition::Ready)
}

#[test]
fn agents_are_told_with_what_they_do_not_have() {
    let start =
        AgentStart { name: "slow".to_owned(), class: "dt".to_owned(), state: AgentCondition::Starting, why: None };
    let careful = AgentStart { why: Some("its tool list was cut".to_owned()), ..start.clone() };
    let failure = AgentFailure {
        name: "broken".to_owned(),
        state: AgentCondition::Failed,
        why: "no such program".to_owned(),
        said: None,
    };
    let agents = vec![
        AgentEntry::Instance(Box::new(bare())),
        AgentEntry::Start(start),
        AgentEntry::Start(careful),
        AgentEntry::Failure(failure),
    ];
    assert_json(
        &AgentEntries { agents },
        concat!(
            r#"{"agents":[{"name":"clerk","class":"srt","runtime":"process","state":"ready","why":null,"pid":null,"#,
            r#""said":null,"containment":[],"turns":0,"turnsTotal":0,"firstOutputUs":{"p50":0.0,"p99":0.0,"late":0},"#,
            r#""hrt":null,"toolsRefused":[]},{"name":"slow","class":"dt","state":"starting"},"#,
            r#"{"name":"slow","class":"dt","state":"starting","why":"its tool list was cut"},"#,
            r#"{"name":"broken","state":"failed","why":"no such program","said":null}]}"#,
        ),
    );
}

#[test]
fn an_agent_is_told_with_all_that_it_has() {
    let refusal = ProgramRefusal {
        access: FileAccess::Read,
        path: "/srv/map".to_owned(),
        write: Some("sandbox: { read: [/srv/map] }".to_owned()),
        text: "read /srv/map".to_owned(),
    };
    let hopeless = ProgramRefusal {
        access: FileAccess::Connect,
        path: "/run/docker.sock".to_owned(),
        write: None,
        text: "connect to /run/docker.sock (nothing grants it)".to_owned(),
    };
    let program = ProgramContainment {
        program: "tools.maps".to_owned(),
        contained: true,
        level: EnclosureLevel::Namespaces,
        how: "contained".to_owned(),
        refused: vec![refusal, hopeless],
        more_refused: false,
        needs: Some("sandbox: { read: [/srv/map] }".to_owned()),
    };
    let open = ProgramContainment {
        program: "runtime".to_owned(),
        contained: false,
        level: EnclosureLevel::None,
        how: "off (sandbox: none)".to_owned(),
        refused: Vec::new(),
        more_refused: true,
        needs: None,
    };
    let hrt = HardJobs {
        core: 1,
        jobs: 2,
        missed: 3,
        explained: 4,
        overruns: 5,
        failures: 6,
        fallbacks: 7,
        response_bound_us: 812.5,
        response_p99_us: 40.25,
        response_max_us: 91.0,
    };
    let difference =
        ToolDifference { field: "description".to_owned(), old: "Adds.".to_owned(), new: "Takes.".to_owned() };
    let tool = ToolRefusal {
        tool: "maps/find".to_owned(),
        reason: "TOOL_CHANGED".to_owned(),
        why: "its definition is not the one that was bound (description)".to_owned(),
        differences: vec![difference],
    };
    let agent = AgentInstance {
        class: "hrt".to_owned(),
        state: AgentCondition::Degraded,
        why: Some("no real-time scheduling".to_owned()),
        pid: Some(7),
        said: Some(ProgramLine { program: "runtime".to_owned(), text: "up".to_owned(), at_ms: 9 }),
        containment: vec![open, program],
        turns: 1,
        turns_total: 12,
        first_output_us: FirstOutput { p50: 81.5, p99: 90.0, late: 2 },
        hrt: Some(hrt),
        tools_refused: vec![tool],
        ..bare()
    };
    assert_json(
        &AgentEntry::Instance(Box::new(agent)),
        concat!(
            r#"{"name":"clerk","class":"hrt","runtime":"process","state":"degraded","why":"no real-time scheduling","#,
            r#""pid":7,"said":{"program":"runtime","text":"up","atMs":9},"containment":[{"program":"runtime","#,
            r#""contained":false,"level":"none","how":"off (sandbox: none)","refused":[],"moreRefused":true,"needs":null},"#,
            r#"{"program":"tools.maps","contained":true,"level":"namespaces","how":"contained","refused":["#,
            r#"{"access":"read","path":"/srv/map","write":"sandbox: { read: [/srv/map] }","text":"read /srv/map"},"#,
            r#"{"access":"connect","path":"/run/docker.sock","write":null,"#,
            r#""text":"connect to /run/docker.sock (nothing grants it)"}],"#,
            r#""moreRefused":false,"needs":"sandbox: { read: [/srv/map] }"}],"turns":1,"turnsTotal":12,"#,
            r#""firstOutputUs":{"p50":81.5,"p99":90.0,"late":2},"hrt":{"core":1,"jobs":2,"missed":3,"explained":4,"#,
            r#""overruns":5,"failures":6,"fallbacks":7,"responseBoundUs":812.5,"responseP99Us":40.25,"#,
            r#""responseMaxUs":91.0},"toolsRefused":[{"tool":"maps/find","reason":"TOOL_CHANGED","#,
            r#""why":"its definition is not the one that was bound (description)","#,
            r#""differences":[{"field":"description","old":"Adds.","new":"Takes."}]}]}"#,
        ),
    );
}

#[test]
fn what_was_found_of_its_turns_is_told_where_something_was() {
    let found = AgentFinding {
        finding: "said-nothing".to_owned(),
        count: 2,
        task: "t-2".to_owned(),
        version: "1.0.0".to_owned(),
    };
    let told = serde_json::to_value(AgentInstance { findings: vec![found.clone()], ..bare() }).expect("JSON");
    let entry = serde_json::json!([{ "finding": "said-nothing", "count": 2, "task": "t-2", "version": "1.0.0" }]);
    assert_eq!(told["findings"], entry);
    let read: AgentInstance = serde_json::from_value(told).expect("its own JSON");
    assert_eq!(read.findings, [found]);
}

#[test]
fn a_state_has_one_word() {
    for (state, word) in [
        (AgentCondition::Ready, "ready"),
        (AgentCondition::Starting, "starting"),
        (AgentCondition::Restarting, "restarting"),
        (AgentCondition::Unreachable, "unreachable"),
        (AgentCondition::Degraded, "degraded"),
        (AgentCondition::Suspended, "suspended"),
        (AgentCondition::Failed, "failed"),
    ] {
        assert_json(&state, &format!("\"{word}\""));
        assert_eq!(state.name(), word);
    }
}

#[test]
fn a_tool_server_that_does_not_answer_is_told_and_none_that_does() {
    let absence = ToolServerAbsence { server: "maps".to_owned(), why: "it did not answer within 20 s".to_owned() };
    let told = serde_json::to_value(AgentInstance { tools_away: vec![absence], ..bare() }).expect("JSON");
    let expected = serde_json::json!([{ "server": "maps", "why": "it did not answer within 20 s" }]);
    assert_eq!(told["toolsAway"], expected);
    assert!(serde_json::to_value(bare()).expect("JSON").get("toolsAway").is_none());
}

//! A decision about a call beside Cedar's own about the same request, with the same policies and entities.

use std::time::{Duration, Instant};

use althing_policy::{
    Answer, Bounds, EntityName, Entry, Gate, Kind, PolicySet, Request, Schema, ToolInput, ToolSignature, World,
};
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use cedar_policy::{Authorizer, Context, Decision, Entities};
use serde_json::{Map, Value, json};

use super::office;
use crate::figures::{Goals, median, percentile, us};

const ROUNDS: usize = 11;
const DECISIONS: usize = 2_000;
const AGENTS: usize = 300;
const PERSONS: usize = 300;
const TOOLS: usize = 50;
const NODES: usize = 320;
/// Publishers, roles and servers, of each so many: with the others a thousand entities.
const PARENTS: usize = 10;
/// A decision, as a multiple of bare Cedar's.
const RATIO_MAX: f64 = 1.5;
const P99_MS_MAX: f64 = 1.0;
/// How long all processors decide, and how many decisions a second are wanted of them.
const BUSY: Duration = Duration::from_secs(2);
const RATE_WANTED: f64 = 1e5;

/// What there is, as policies are told of it.
fn entries() -> Vec<Entry> {
    let agents = (0..AGENTS).map(|number| Entry::Agent {
        id: format!("agent-{number}"),
        version: "1.0.0".to_owned(),
        publisher: Some(format!("publisher-{}", number % PARENTS)),
    });
    let persons = (0..PERSONS).map(|number| Entry::Person {
        id: format!("person-{number}"),
        roles: vec![format!("role-{}", number % PARENTS)],
    });
    let tools = (0..TOOLS).map(|number| Entry::Tool {
        server: format!("server-{}", number % PARENTS),
        name: format!("say-{number}"),
        effect: "final".to_owned(),
        trusted: true,
        label: DataLabel::Internal,
        clearance: DataLabel::Restricted,
        tier: 6,
    });
    let nodes = (0..NODES).map(|number| Entry::Node { id: format!("node-{number}") });
    agents.chain(persons).chain(tools).chain(nodes).collect()
}

/// The name of something, in Cedar's JSON.
fn uid(kind: &str, id: &str) -> Value {
    json!({ "type": kind, "id": id })
}

fn entity(kind: &str, id: &str, attributes: &Value, parents: &[Value]) -> Value {
    json!({ "uid": uid(kind, id), "attrs": attributes, "parents": parents })
}

/// The same, as Cedar reads it.
fn entities() -> Entities {
    let none = json!({});
    let label = |name: &str| json!({ "__entity": uid("Label", name) });
    let mut all = vec![entity("Action", "useTool", &none, &[])];
    for (rank, name) in ["public", "internal", "confidential", "restricted"].into_iter().enumerate() {
        all.push(entity("Label", name, &json!({ "rank": rank }), &[]));
    }
    for number in 0..PARENTS {
        for (kind, name) in [("Publisher", "publisher"), ("Role", "role"), ("Server", "server")] {
            all.push(entity(kind, &format!("{name}-{number}"), &none, &[]));
        }
    }
    for number in 0..AGENTS {
        let parent = uid("Publisher", &format!("publisher-{}", number % PARENTS));
        all.push(entity("Agent", &format!("agent-{number}"), &json!({ "version": "1.0.0" }), &[parent]));
    }
    for number in 0..PERSONS {
        let parent = uid("Role", &format!("role-{}", number % PARENTS));
        all.push(entity("Person", &format!("person-{number}"), &none, &[parent]));
    }
    for number in 0..TOOLS {
        let (server, name) = (format!("server-{}", number % PARENTS), format!("say-{number}"));
        let attributes = json!({
            "server": server, "name": name, "effect": "final", "trusted": true, "label": label("internal"),
            "clearance": label("restricted"), "tier": 6,
        });
        all.push(entity("Tool", &format!("{server}/{name}"), &attributes, &[uid("Server", &server)]));
        all.push(entity("Action", &name, &none, &[uid("Action", "useTool")]));
    }
    for number in 0..NODES {
        all.push(entity("Node", &format!("node-{number}"), &none, &[]));
    }
    Entities::from_json_value(all.into(), None).expect("entities")
}

/// Our policies, what they know, and a request.
struct Ours {
    set: PolicySet,
    world: World,
    principal: EntityName,
    resource: EntityName,
    arguments: Map<String, Value>,
}

impl Ours {
    fn new() -> Ours {
        let names: Vec<(String, String)> =
            (0..TOOLS).map(|number| (format!("server-{}", number % PARENTS), format!("say-{number}"))).collect();
        let input = ToolInput::of_schema(&office::schema());
        let tools: Vec<ToolSignature<'_>> =
            names.iter().map(|(server, name)| ToolSignature { server, name, input: &input }).collect();
        let schema = Schema::new(&tools);
        let set = PolicySet::read("policy.cedar", &office::policies(), &schema, &Bounds::default());
        let arguments = Map::from_iter([("step".to_owned(), json!(7))]);
        Ours {
            set: set.expect("they are good"),
            world: World::new(&schema, &entries()).expect("a world"),
            principal: EntityName::new(Kind::Agent, "agent-7"),
            resource: EntityName::tool("server-7", "say-7"),
            arguments,
        }
    }

    fn decide(&self) -> Answer {
        let request = Request {
            principal: &self.principal,
            gate: Gate::UseTool,
            resource: &self.resource,
            arguments: &self.arguments,
            label: Label { level: DataLabel::Confidential, trusted: true },
            person: Some("person-7"),
            facts: &[],
        };
        self.set.decide(&self.world, &request).answer
    }

    /// Decisions a second of all processors.
    fn rate(&self) -> f64 {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let work = || {
            let (begun, mut made) = (Instant::now(), 0_u32);
            while begun.elapsed() < BUSY {
                std::hint::black_box(self.decide());
                made += 1;
            }
            f64::from(made) / begun.elapsed().as_secs_f64()
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            all.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
        })
    }
}

/// Cedar alone, with a request that was made before.
struct Bare {
    authorizer: Authorizer,
    policies: cedar_policy::PolicySet,
    entities: Entities,
    request: cedar_policy::Request,
}

impl Bare {
    fn new() -> Bare {
        let context = json!({
            "input": { "step": 7 }, "label": { "__entity": uid("Label", "confidential") }, "level": 2, "trusted": true,
            "person": { "__entity": uid("Person", "person-7") },
        });
        let context = Context::from_json_value(context, None).expect("a context");
        let named = |name: &str| name.parse::<cedar_policy::EntityUid>().expect("a name");
        let (principal, action) = (named("Agent::\"agent-7\""), named("Action::\"say-7\""));
        let resource = named("Tool::\"server-7/say-7\"");
        Bare {
            authorizer: Authorizer::new(),
            policies: office::policies().parse().expect("they are good"),
            entities: entities(),
            request: cedar_policy::Request::new(principal, action, resource, context, None).expect("a request"),
        }
    }

    fn decide(&self) -> Decision {
        self.authorizer.is_authorized(&self.request, &self.policies, &self.entities).decision()
    }
}

fn timed<T>(times: &mut Vec<Duration>, work: impl FnOnce() -> T) {
    let begun = Instant::now();
    std::hint::black_box(work());
    times.push(begun.elapsed());
}

/// Prints both figures.
pub fn run(goals: &mut Goals) {
    let (ours, bare) = (Ours::new(), Bare::new());
    assert_eq!((ours.decide(), bare.decide()), (Answer::Permit, Decision::Allow));
    let (mut ratios, mut all, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut times, mut floor) = (Vec::with_capacity(DECISIONS), Vec::with_capacity(DECISIONS));
        for _ in 0..DECISIONS {
            timed(&mut floor, || bare.decide());
            timed(&mut times, || ours.decide());
        }
        if round == 0 {
            continue; // warming up
        }
        ratios.push(us(percentile(&mut times, 0.5)) / us(percentile(&mut floor, 0.5)));
        all.append(&mut times);
        floors.append(&mut floor);
    }
    let (ratio, p99) = (median(ratios), percentile(&mut all, 0.99));
    println!(
        "  a decision among a thousand entities: p50 {:.1} µs, bare Cedar {:.1} µs; ratio {ratio:.2} {}; p99 {:.3} ms {}, bare Cedar {:.3} ms",
        us(percentile(&mut all, 0.5)),
        us(percentile(&mut floors, 0.5)),
        goals.at_most(ratio, RATIO_MAX),
        us(p99) / 1e3,
        goals.at_most(us(p99) / 1e3, P99_MS_MAX),
        us(percentile(&mut floors, 0.99)) / 1e3,
    );
    println!("  decisions of all processors: {:.0} a second (wanted: {RATE_WANTED:.0})", ours.rate());
}

//! What an owner should look at before a set is put in force.

use cedar_policy::{ActionConstraint, Effect, EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

use crate::finding::Finding;
use crate::gate::Gate;
use crate::kind::{EntityName, Kind};
use crate::set::{PolicySet, name_of};
use crate::world::World;

/// Annotations that mean something here, and those that tell people something.
const ANNOTATIONS: [&str; 9] = ["id", "ask", "consent", "sign_off", "doc", "description", "title", "reason", "advice"];

/// What is found of a set with which everything is denied.
pub const NO_PERMIT: &str = "no policy permits anything";

/// Without a permit for these a node does little, for its owner too; and what does not happen then.
const NEEDED: [(Gate, &str); 4] = [
    (Gate::Call, "no agent is called"),
    (Gate::Model, "no model is asked"),
    (Gate::BindAgent, "no agent with a model or tools starts"),
    (Gate::AddAgent, "no agent is added"),
];

/// The warnings of a set: what can never apply, names of what is not known here, annotations that mean nothing, a policy
/// that makes others useless, what no permit reaches.
#[must_use]
pub fn lint(file: &str, set: &PolicySet, world: &World) -> Vec<Finding> {
    let mut findings = set.warnings().to_vec();
    for policy in set.cedar().policies() {
        let warn = |what: String, remedy: &str| {
            let id = name_of(policy.id());
            let place = set.place_of(&id);
            Finding { file: file.to_owned(), place, policy: Some(id), what, remedy: remedy.to_owned() }
        };
        findings.extend(
            unknown_annotations(policy).map(|what| {
                warn(what, "it changes nothing; those that do are `@id`, `@ask`, `@consent` and `@sign_off`")
            }),
        );
        findings.extend(unknown_names(set, world, policy).map(|name| {
            let what = format!("nothing is known of {name}");
            warn(what, "correct the name, or add what it names; until then a condition on it is never true")
        }));
        if is_unconditional(policy) {
            let asks = set.demands_of(&name_of(policy.id())).is_some();
            match policy.effect() {
                Effect::Forbid => {
                    findings.push(warn("it forbids everything".to_owned(), "no permit has an effect beside it"))
                }
                Effect::Permit if !asks => {
                    let remedy = "no policy that asks has an effect beside it: forbid what should not be done";
                    findings.push(warn("it permits everything that is not forbidden".to_owned(), remedy));
                }
                Effect::Permit => {}
            }
        }
    }
    if !set.cedar().policies().any(|policy| policy.effect() == Effect::Permit) {
        let what = NO_PERMIT.to_owned();
        let remedy = "with this set everything is denied; add a permit".to_owned();
        findings.push(Finding { file: file.to_owned(), place: None, policy: None, what, remedy });
    } else {
        findings.extend(unreached(file, set));
    }
    findings.sort_by(|a, b| (a.place, a).cmp(&(b.place, b)));
    findings.dedup();
    findings
}

/// What a node needs and no permit is for.
fn unreached(file: &str, set: &PolicySet) -> Option<Finding> {
    let permits: Vec<&Policy> = set.cedar().policies().filter(|policy| policy.effect() == Effect::Permit).collect();
    let is_unreached = |(gate, _): &&(Gate, &str)| !permits.iter().any(|permit| reaches(permit, *gate));
    let (gates, follows): (Vec<&str>, Vec<&str>) =
        NEEDED.iter().filter(is_unreached).map(|(gate, follows)| (gate.word(), *follows)).unzip();
    if gates.is_empty() {
        return None;
    }
    let what = format!("no permit reaches {}", gates.join(", "));
    let remedy =
        format!("add a permit for each that is wanted; with this set {}, also on the owner's word", follows.join(", "));
    Some(Finding { file: file.to_owned(), place: None, policy: None, what, remedy })
}

/// Whether the scope of a policy is for the action of a gate.
fn reaches(policy: &Policy, gate: Gate) -> bool {
    let wanted = Kind::Action.uid(gate.word());
    match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(action) => action == wanted,
        ActionConstraint::In(actions) => actions.contains(&wanted),
    }
}

fn unknown_annotations(policy: &Policy) -> impl Iterator<Item = String> {
    let names = policy.annotations().map(|(name, _)| name).filter(|name| !ANNOTATIONS.contains(name));
    names.map(|name| format!("the annotation `@{name}` means nothing"))
}

fn unknown_names(set: &PolicySet, world: &World, policy: &Policy) -> impl Iterator<Item = String> {
    let is_unknown = move |uid: &EntityUid| {
        EntityName::of_uid(uid).is_some_and(|name| match name.kind {
            Kind::Tool => !set.acts().has_tool(&name.id),
            // They are not listed anywhere, or the schema itself lists them.
            Kind::Memory | Kind::Host | Kind::Secret | Kind::Action | Kind::Number | Kind::Null => false,
            _ => !world.knows_uid(uid),
        })
    };
    policy.entity_literals().into_iter().filter(is_unknown).map(|uid| uid.to_string())
}

fn is_unconditional(policy: &Policy) -> bool {
    !policy.has_non_scope_constraint()
        && policy.principal_constraint() == PrincipalConstraint::Any
        && policy.action_constraint() == ActionConstraint::Any
        && policy.resource_constraint() == ResourceConstraint::Any
}

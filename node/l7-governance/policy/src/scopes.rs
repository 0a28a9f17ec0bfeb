//! Which policies of a set can apply to a request, by their scopes alone.
//!
//! Cedar evaluates each policy of a set for each request. Of one whose scope (`principal`, `action`, `resource`) does not fit it
//! reads nothing else: it is false, gives no reason and no error, so that the set decides alike without it. Most policies are about
//! something else than a request is. What is left of the set for one is made once, and kept: it follows from names, and from what is
//! in what.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use cedar_policy::{
    ActionConstraint, Entities, EntityTypeName, EntityUid, Policy, PolicyId, PolicySet, PrincipalConstraint, Request,
    ResourceConstraint,
};

/// Policies in all parts that are kept, a kilobyte each: whatever fits none of these is decided by the whole set.
const KEPT_POLICIES_MAX: usize = 4_096;
const WORD_BITS: usize = 64;

/// Places of policies in a set, a bit each.
type Places = Vec<u64>;

/// The scopes of the policies of a set.
#[derive(Default)]
pub(crate) struct Scopes {
    ids: Vec<PolicyId>,
    principals: ScopeIndex,
    actions: ScopeIndex,
    resources: ScopeIndex,
    parts: RwLock<Parts>,
}

/// Which policies want what of one of the three. Names are found as Cedar compares them: where they stand in a text is no part of
/// that.
#[derive(Default)]
struct ScopeIndex {
    of_any_type: Places,
    of_type: HashMap<EntityTypeName, Places>,
    of_any: Places,
    of_one: HashMap<EntityUid, Places>,
    /// Of one, and of what is in it.
    of_group: HashMap<EntityUid, Places>,
}

/// Parts of the set, by the policies that are in them.
#[derive(Default)]
struct Parts {
    kept: BTreeMap<Places, Arc<PolicySet>>,
    /// In all of them.
    policies: usize,
}

/// What a scope wants of one of the three.
struct Need {
    of_type: Option<EntityTypeName>,
    entity: EntityNeed,
}

enum EntityNeed {
    Any,
    One(EntityUid),
    /// One of these, or what is in it.
    Group(Vec<EntityUid>),
}

impl Scopes {
    /// Those of the policies of a set; templates decide nothing.
    pub(crate) fn of(set: &PolicySet) -> Scopes {
        let mut scopes = Scopes::default();
        for (place, policy) in set.policies().enumerate() {
            scopes.ids.push(policy.id().clone());
            scopes.principals.add(place, of_principal(policy));
            scopes.actions.add(place, of_action(policy));
            scopes.resources.add(place, of_resource(policy));
        }
        scopes
    }

    /// The part of the set that can apply to a request; nothing where that is the whole, or no more parts are kept.
    pub(crate) fn part(&self, set: &PolicySet, request: &Request, entities: &Entities) -> Option<Arc<PolicySet>> {
        let words = self.ids.len().div_ceil(WORD_BITS);
        let mut fitting = self.principals.fitting(request.principal()?, entities, words);
        meet(&mut fitting, &self.actions.fitting(request.action()?, entities, words));
        meet(&mut fitting, &self.resources.fitting(request.resource()?, entities, words));
        let count = places(&fitting).count();
        if count == self.ids.len() {
            return None;
        }
        let known = self.parts().kept.get(&fitting).cloned();
        known.or_else(|| self.make(set, fitting, count))
    }

    fn make(&self, set: &PolicySet, fitting: Places, count: usize) -> Option<Arc<PolicySet>> {
        if self.parts().policies + count > KEPT_POLICIES_MAX {
            return None;
        }
        let policies: Option<Vec<Policy>> =
            places(&fitting).map(|place| set.policy(&self.ids[place]).cloned()).collect();
        let part = Arc::new(PolicySet::from_policies(policies?).ok()?);
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have made it meanwhile, or taken the room.
        if parts.policies + count <= KEPT_POLICIES_MAX && parts.kept.insert(fitting, part.clone()).is_none() {
            parts.policies += count;
        }
        Some(part)
    }

    fn parts(&self) -> RwLockReadGuard<'_, Parts> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScopeIndex {
    fn add(&mut self, place: usize, need: Need) {
        let Need { of_type, entity } = need;
        match of_type {
            None => put(&mut self.of_any_type, place),
            Some(of_type) => put(self.of_type.entry(of_type).or_default(), place),
        }
        match entity {
            EntityNeed::Any => put(&mut self.of_any, place),
            EntityNeed::One(one) => put(self.of_one.entry(one).or_default(), place),
            EntityNeed::Group(groups) => {
                for group in groups {
                    put(self.of_group.entry(group).or_default(), place);
                }
            }
        }
    }

    /// The policies that one fits, as so many words.
    fn fitting(&self, one: &EntityUid, entities: &Entities, words: usize) -> Places {
        let mut of_type: Places = vec![0; words];
        let mut fitting = of_type.clone();
        join(&mut of_type, Some(&self.of_any_type));
        join(&mut of_type, self.of_type.get(one.type_name()));
        join(&mut fitting, Some(&self.of_any));
        join(&mut fitting, self.of_one.get(one));
        if !self.of_group.is_empty() {
            // What nothing is known of is in itself, as everything is.
            join(&mut fitting, self.of_group.get(one));
            for group in entities.ancestors(one).into_iter().flatten() {
                join(&mut fitting, self.of_group.get(group));
            }
        }
        meet(&mut fitting, &of_type);
        fitting
    }
}

fn of_principal(policy: &Policy) -> Need {
    match policy.principal_constraint() {
        PrincipalConstraint::Any => Need { of_type: None, entity: EntityNeed::Any },
        PrincipalConstraint::Eq(one) => Need { of_type: None, entity: EntityNeed::One(one) },
        PrincipalConstraint::In(group) => Need { of_type: None, entity: EntityNeed::Group(vec![group]) },
        PrincipalConstraint::Is(of_type) => Need { of_type: Some(of_type), entity: EntityNeed::Any },
        PrincipalConstraint::IsIn(of_type, group) => {
            Need { of_type: Some(of_type), entity: EntityNeed::Group(vec![group]) }
        }
    }
}

fn of_action(policy: &Policy) -> Need {
    let entity = match policy.action_constraint() {
        ActionConstraint::Any => EntityNeed::Any,
        ActionConstraint::Eq(one) => EntityNeed::One(one),
        ActionConstraint::In(groups) => EntityNeed::Group(groups),
    };
    Need { of_type: None, entity }
}

fn of_resource(policy: &Policy) -> Need {
    match policy.resource_constraint() {
        ResourceConstraint::Any => Need { of_type: None, entity: EntityNeed::Any },
        ResourceConstraint::Eq(one) => Need { of_type: None, entity: EntityNeed::One(one) },
        ResourceConstraint::In(group) => Need { of_type: None, entity: EntityNeed::Group(vec![group]) },
        ResourceConstraint::Is(of_type) => Need { of_type: Some(of_type), entity: EntityNeed::Any },
        ResourceConstraint::IsIn(of_type, group) => {
            Need { of_type: Some(of_type), entity: EntityNeed::Group(vec![group]) }
        }
    }
}

fn put(places: &mut Places, place: usize) {
    let word = place / WORD_BITS;
    if places.len() <= word {
        places.resize(word + 1, 0);
    }
    places[word] |= 1_u64 << (place % WORD_BITS);
}

/// Adds places to others, of which there are as many words or more.
fn join(all: &mut [u64], more: Option<&Places>) {
    for (word, more) in all.iter_mut().zip(more.into_iter().flatten()) {
        *word |= *more;
    }
}

/// Leaves those of places that are others too, of which there are as many words.
fn meet(all: &mut [u64], others: &[u64]) {
    for (word, other) in all.iter_mut().zip(others) {
        *word &= *other;
    }
}

fn places(of: &[u64]) -> impl Iterator<Item = usize> {
    of.iter().enumerate().flat_map(|(at, word)| {
        let word = *word;
        (0..WORD_BITS).filter(move |bit| (word >> *bit) & 1 == 1).map(move |bit| at * WORD_BITS + bit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::str::FromStr as _;

    use cedar_policy::{Authorizer, Context, Response};
    use serde_json::{Value, json};

    use super::*;

    /// Each form of each of the three scopes; two that cannot be evaluated where they apply.
    const POLICIES: &str = r#"
        permit(principal, action, resource);
        permit(principal == Agent::"clerk", action, resource == Tool::"shop/search");
        permit(principal is Agent, action in Action::"useTool", resource is Tool);
        permit(principal is Person in Role::"staff", action, resource is Tool in Server::"shop");
        forbid(principal in Publisher::"acme", action == Action::"pay", resource);
        forbid(principal in Agent::"clerk", action in [Action::"search", Action::"recall"], resource in Server::"bank");
        forbid(principal, action in Action::"pay", resource in Tool::"bank/pay");
        forbid(principal in Agent::"nobody", action, resource in Memory::"m");
        forbid(principal is Role, action, resource);
        forbid(principal is Node, action, resource) when { context.missing };
        forbid(principal, action, resource == Tool::"bank/pay") when { principal.missing };
    "#;

    /// An entity's type and id.
    type Uid = (&'static str, &'static str);

    /// Each with what it is in.
    const ENTITIES: [(Uid, Option<Uid>); 13] = [
        (("Publisher", "acme"), None),
        (("Agent", "clerk"), Some(("Publisher", "acme"))),
        (("Agent", "other"), None),
        (("Role", "staff"), None),
        (("Role", "auditor"), Some(("Role", "staff"))),
        (("Person", "ada"), Some(("Role", "auditor"))),
        (("Server", "bank"), None),
        (("Server", "shop"), None),
        (("Tool", "bank/pay"), Some(("Server", "bank"))),
        (("Tool", "shop/search"), Some(("Server", "shop"))),
        (("Action", "useTool"), None),
        (("Action", "pay"), Some(("Action", "useTool"))),
        (("Action", "search"), Some(("Action", "useTool"))),
    ];

    fn entities() -> Entities {
        let name = |(of_type, id): (&str, &str)| json!({ "type": of_type, "id": id });
        let entity = |(one, group): ((&'static str, &'static str), Option<(&'static str, &'static str)>)| {
            let parents: Vec<Value> = group.into_iter().map(name).collect();
            json!({ "uid": name(one), "attrs": {}, "parents": parents })
        };
        let all: Vec<Value> = ENTITIES.into_iter().map(entity).collect();
        Entities::from_json_value(all.into(), None).expect("entities")
    }

    fn uid(text: &str) -> EntityUid {
        EntityUid::from_str(text).expect("a name")
    }

    fn request(principal: &str, action: &str, resource: &str) -> Request {
        Request::new(uid(principal), uid(action), uid(resource), Context::empty(), None).expect("a request")
    }

    /// What a response says: the decision, its reasons, and what could not be evaluated.
    fn said(response: &Response) -> (bool, BTreeSet<String>, BTreeSet<String>) {
        let (allows, why) = (response.decision() == cedar_policy::Decision::Allow, response.diagnostics());
        (allows, why.reason().map(ToString::to_string).collect(), why.errors().map(ToString::to_string).collect())
    }

    #[test]
    fn a_part_decides_every_request_as_the_whole_set() {
        let set = PolicySet::from_str(POLICIES).expect("policies");
        let (scopes, entities, authorizer) = (Scopes::of(&set), entities(), Authorizer::new());
        let principals =
            ["Agent::\"clerk\"", "Agent::\"other\"", "Agent::\"nobody\"", "Person::\"ada\"", "Node::\"n\""];
        let actions = ["Action::\"useTool\"", "Action::\"pay\"", "Action::\"search\"", "Action::\"recall\""];
        let resources =
            ["Tool::\"bank/pay\"", "Tool::\"shop/search\"", "Tool::\"unknown\"", "Memory::\"m\"", "Server::\"shop\""];
        let (mut sizes, mut failing) = (BTreeSet::new(), 0);
        // The second time each part is there.
        for principal in principals.iter().chain(&principals) {
            for action in actions {
                for resource in resources {
                    let request = request(principal, action, resource);
                    let part = scopes.part(&set, &request, &entities).expect("some policy fits none of these");
                    let whole = said(&authorizer.is_authorized(&request, &set, &entities));
                    let by_part = said(&authorizer.is_authorized(&request, &part, &entities));
                    assert_eq!(by_part, whole, "{principal} {action} {resource}");
                    sizes.insert(part.policies().count());
                    failing += whole.2.len();
                }
            }
        }
        assert!(sizes.first() < Some(&4) && sizes.last() < Some(&set.policies().count()), "{sizes:?}");
        assert!(failing > 0, "what cannot be evaluated is left in");
    }

    #[test]
    fn parts_take_bounded_room_and_what_has_none_is_decided_by_the_whole() {
        let general = "permit(principal, action, resource);".repeat(500);
        let own = (0..20).map(|agent| format!("forbid(principal == Agent::\"a{agent}\", action, resource);"));
        let set = PolicySet::from_str(&(general + &own.collect::<String>())).expect("policies");
        let (scopes, none) = (Scopes::of(&set), Entities::empty());
        let asked = |agent: usize| request(&format!("Agent::\"a{agent}\""), "Action::\"pay\"", "Tool::\"t\"");
        let kept = |agent: &usize| scopes.part(&set, &asked(*agent), &none).is_some();
        let first: Vec<usize> = (0..20).filter(kept).collect();
        assert_eq!(first, (0..KEPT_POLICIES_MAX / 501).collect::<Vec<_>>());
        assert_eq!((0..20).filter(kept).collect::<Vec<_>>(), first, "those that there are stay");
        assert!(scopes.parts().policies <= KEPT_POLICIES_MAX);
    }

    #[test]
    fn a_set_that_applies_as_a_whole_is_not_copied() {
        let set = PolicySet::from_str("permit(principal, action, resource);").expect("a policy");
        let request = request("Agent::\"a\"", "Action::\"pay\"", "Tool::\"t\"");
        assert!(Scopes::of(&set).part(&set, &request, &Entities::empty()).is_none());
    }
}

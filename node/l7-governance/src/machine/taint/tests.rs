use proptest::prelude::*;

use super::*;

const LEVELS: [DataLabel; 4] = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];

fn label(level: DataLabel, trusted: bool) -> Label {
    Label { level, trusted }
}

fn tool(effect: Effect, clearance: DataLabel) -> ToolProfile {
    ToolProfile { effect, clearance, is_stated: true, ..ToolProfile::default() }
}

/// One whose arguments stay in the node.
fn staying(effect: Effect, clearance: DataLabel) -> ToolProfile {
    ToolProfile { leaves: false, ..tool(effect, clearance) }
}

fn call(profile: &ToolProfile, has_arguments: bool) -> LabelledCall<'_> {
    LabelledCall { profile, has_arguments, hidden: None, tier_max: None }
}

#[test]
fn what_says_nothing_of_its_label_is_confidential_from_elsewhere() {
    let of = |said, origin| Taint::of_message(said, origin, DataLabel::Internal).label();
    assert_eq!(of(None, Origin::Elsewhere), label(DataLabel::Confidential, false));
    assert_eq!(of(None, Origin::Here), label(DataLabel::Internal, true));
    let said = label(DataLabel::Public, false);
    assert_eq!(of(Some(said), Origin::Here), said);
}

#[test]
fn a_turn_that_read_what_nobody_vouches_for_goes_on_reading_and_is_asked_about_the_rest() {
    let mut turn = Taint::of_message(None, Origin::Here, DataLabel::Public);
    let (read, write) = (tool(Effect::None, DataLabel::Restricted), tool(Effect::Repeatable, DataLabel::Restricted));
    let says = |turn, call: &LabelledCall<'_>| LabelFinding::of(turn, call, true).in_force();
    assert_eq!(says(turn, &call(&write, true)), Verdict::Permit, "all of it is trusted");
    turn.read(label(DataLabel::Public, false));
    let within = staying(Effect::None, DataLabel::Restricted);
    assert_eq!(says(turn, &call(&within, true)), Verdict::Permit, "a read that stays here");
    assert_eq!(says(turn, &call(&read, false)), Verdict::Permit, "a read that carries nothing out");
    assert_eq!(says(turn, &call(&read, true)), Verdict::Ask(AskReason::Text));
    for effect in [Effect::Repeatable, Effect::Keyed, Effect::Final] {
        let write = staying(effect, DataLabel::Restricted);
        assert_eq!(says(turn, &call(&write, false)), Verdict::Ask(AskReason::Effect), "{effect:?}");
    }
}

#[test]
fn data_go_to_no_tool_that_is_not_cleared_for_them() {
    for level in LEVELS {
        for clearance in LEVELS {
            let turn = Taint::of_message(Some(label(level, true)), Origin::Here, DataLabel::Public);
            let profile = staying(Effect::None, clearance);
            let says = LabelFinding::of(turn, &call(&profile, true), false).in_force();
            let denied = Verdict::Deny(DenyReason::Clearance { level, clearance });
            assert_eq!(says, if level > clearance { denied } else { Verdict::Permit });
        }
    }
    let turn = Taint::of_message(None, Origin::Here, DataLabel::Public);
    let profile = tool(Effect::None, DataLabel::Internal);
    let handle = LabelledCall { hidden: Some(label(DataLabel::Restricted, true)), ..call(&profile, true) };
    let found = LabelFinding::of(turn, &handle, true);
    assert!(matches!(found.in_force(), Verdict::Deny(DenyReason::Clearance { .. })), "what a handle names counts");
    assert_eq!((found.label.level, turn.label().level), (DataLabel::Restricted, DataLabel::Public));
}

#[test]
fn data_go_to_no_model_that_is_not_cleared_for_them_and_what_nobody_vouches_for_may_be_asked_about() {
    for (level, trusted) in LEVELS.into_iter().flat_map(|level| [(level, true), (level, false)]) {
        for clearance in LEVELS {
            let turn = Taint::of_message(Some(label(level, trusted)), Origin::Here, DataLabel::Public);
            let found = LabelFinding::of_model(turn, &ToolProfile::of_model(clearance, true), false);
            let denied = Verdict::Deny(DenyReason::Model { level, clearance });
            assert_eq!(found.in_force(), if level > clearance { denied } else { Verdict::Permit });
        }
    }
    let turn = Taint::of_message(Some(label(DataLabel::Restricted, true)), Origin::Here, DataLabel::Public);
    let unwritten = ToolProfile::of_model(DataLabel::Internal, false);
    let found = LabelFinding::of_model(turn, &unwritten, false);
    assert!(!found.decides && matches!(found.verdict, Verdict::Deny(DenyReason::Model { .. })), "it is only told");
    let Verdict::Deny(why) = LabelFinding::of_model(turn, &unwritten, true).in_force() else {
        panic!("a policy is loaded")
    };
    assert!(why.to_string().contains("restricted") && why.to_string().contains("cleared for internal"), "{why}");
}

#[test]
fn labels_decide_where_a_policy_is_loaded_or_a_profile_demands_it() {
    let turn = Taint::of_message(None, Origin::Elsewhere, DataLabel::Public);
    let nobody = ToolProfile::default();
    let found = LabelFinding::of(turn, &call(&nobody, true), false);
    assert!(!found.decides && matches!(found.verdict, Verdict::Deny(_)));
    assert_eq!(found.in_force(), Verdict::Permit, "it is only told");
    assert!(matches!(LabelFinding::of(turn, &call(&nobody, true), true).in_force(), Verdict::Deny(_)));
    let tiered = LabelledCall { tier_max: Some(3), ..call(&nobody, false) };
    let denied = Verdict::Deny(DenyReason::Tier { most: 3 });
    assert_eq!(LabelFinding::of(turn, &tiered, false).in_force(), denied, "the contract names it");
}

fn labels() -> impl Strategy<Value = Label> {
    (0..LEVELS.len(), any::<bool>()).prop_map(|(level, trusted)| label(LEVELS[level], trusted))
}

proptest! {
    /// Whatever a turn reads, in whatever order: its label is at least that of each, and never falls.
    #[test]
    fn a_label_never_falls(first in labels(), rest in proptest::collection::vec(labels(), 0..24)) {
        let mut turn = Taint::of_message(Some(first), Origin::Here, DataLabel::Public);
        let mut given = vec![first];
        for label in rest {
            let before = turn.label();
            turn.read(label);
            given.push(label);
            let now = turn.label();
            prop_assert!(now.level >= before.level && (before.trusted || !now.trusted));
            prop_assert!(given.iter().all(|label| label.level <= now.level && (label.trusted || !now.trusted)));
        }
    }

    /// A turn that read more is never allowed what it was denied, or was asked about, before.
    #[test]
    fn reading_more_allows_nothing(first in labels(), more in labels(), effect in 0..4usize, clearance in 0..4usize,
                                   leaves in any::<bool>(), has_arguments in any::<bool>()) {
        let effect = [Effect::None, Effect::Repeatable, Effect::Keyed, Effect::Final][effect];
        let profile = ToolProfile { leaves, ..tool(effect, LEVELS[clearance]) };
        let mut turn = Taint::of_message(Some(first), Origin::Here, DataLabel::Public);
        let before = LabelFinding::of(turn, &call(&profile, has_arguments), true).in_force();
        turn.read(more);
        let after = LabelFinding::of(turn, &call(&profile, has_arguments), true).in_force();
        let rank = |verdict| match verdict {
            Verdict::Permit => 0,
            Verdict::Ask(_) => 1,
            Verdict::Deny(_) => 2,
        };
        prop_assert!(rank(after) >= rank(before));
    }
}

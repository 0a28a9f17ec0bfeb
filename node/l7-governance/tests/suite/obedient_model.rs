//! A model that does what the texts say that it reads: once one of them is nobody's word, no call with an effect is made without a
//! person, whatever was read before or after, and no data reach a tool that is not cleared for them.

use althing_governance::machine::profile::ToolProfile;
use althing_governance::machine::taint::{LabelFinding, LabelledCall, Origin, Taint, Verdict};
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use althing_td::Effect;
use proptest::prelude::*;

const LEVELS: [DataLabel; 4] = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
const EFFECTS: [Effect; 4] = [Effect::None, Effect::Repeatable, Effect::Keyed, Effect::Final];

fn label() -> impl Strategy<Value = Label> {
    (0..LEVELS.len(), any::<bool>()).prop_map(|(level, trusted)| Label { level: LEVELS[level], trusted })
}

proptest! {
    #[test]
    fn an_order_in_what_was_read_has_no_effect_by_itself(
        reads in prop::collection::vec(label(), 0..6),
        (effect, clearance) in (0..EFFECTS.len(), 0..LEVELS.len()),
        (leaves, has_arguments) in any::<(bool, bool)>(),
        hidden in prop::option::of(label()),
    ) {
        let profile = ToolProfile {
            effect: EFFECTS[effect],
            clearance: LEVELS[clearance],
            leaves,
            is_stated: true,
            ..ToolProfile::default()
        };
        let mut taint = Taint::of_message(None, Origin::Here, DataLabel::Internal);
        reads.iter().for_each(|label| taint.read(*label));
        let call = LabelledCall { profile: &profile, has_arguments, hidden, tier_max: None };
        let verdict = LabelFinding::of(taint, &call, false).in_force();
        let all = || reads.iter().copied().chain(hidden);
        let is_tainted = all().any(|label| !label.trusted);
        let level = all().map(|label| label.level).max().unwrap_or(DataLabel::Internal).max(DataLabel::Internal);
        let is_uncleared = has_arguments && level > profile.clearance;
        let is_asked = is_tainted && (profile.effect != Effect::None || (leaves && has_arguments));
        match verdict {
            Verdict::Permit => prop_assert!(!is_uncleared && !is_asked),
            Verdict::Ask(_) => prop_assert!(is_asked && !is_uncleared),
            Verdict::Deny(_) => prop_assert!(is_uncleared),
        }
    }
}

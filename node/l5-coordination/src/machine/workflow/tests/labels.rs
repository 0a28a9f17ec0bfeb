//! What a step is given has the label of all results that its run had before.

use althing_protocol::contract::DataLabel;

use super::*;

fn label_of(group: &Group, id: &str) -> Option<Label> {
    group.work.tasks().get(&open(group, id)).expect("its task").submit.label
}

/// P-201
#[test]
fn each_step_has_the_label_of_all_results_so_far_and_no_label_falls() {
    let step = |id: &str, after: &[&str]| Step::new(id, after, task("go on"));
    let steps = [step("first", &[]), step("second", &["first"]), step("third", &["second"])];
    let mut group = begun(workflow(steps), "go");
    assert_eq!(label_of(&group, "first"), None, "nobody said anything yet");
    let done = |group: &mut Group, id: &str, label| {
        let task = open(group, id);
        complete_labelled(group, task, Content::Inline(b"done".to_vec().into()), label);
        assert_eq!(group.work.tasks().get(&task).expect("its task").label, label);
    };
    let restricted = Label::of_trusted(DataLabel::Restricted);
    done(&mut group, "first", Some(restricted));
    assert_eq!(label_of(&group, "second"), Some(restricted));
    // Of a result of which nothing is said nobody can say that it may go anywhere.
    done(&mut group, "second", None);
    let all = Some(Label { level: DataLabel::Restricted, trusted: false });
    assert_eq!(label_of(&group, "third"), all);
    done(&mut group, "third", Some(Label::of_trusted(DataLabel::Public)));
    assert_eq!((run(&group).state, run(&group).label), (RunState::Completed, all));
}

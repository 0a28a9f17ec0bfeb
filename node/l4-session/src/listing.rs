//! Merges task lists of several nodes: an agent that several nodes host has tasks on each.

use a2a::{ListTasksResponse, Task};

use crate::machine::listing::{Order, order, page_token};

/// A task's position in the list.
pub(crate) fn place(task: &Task) -> Order {
    order(task.status.timestamp.map_or(0, |at| at.timestamp_millis()), &task.id)
}

/// Merges the pages of all nodes into one page: a token means the same position on every node. A node may end a page early;
/// tasks behind that position are left for the next page.
#[must_use]
pub fn merge(pages: Vec<ListTasksResponse>) -> ListTasksResponse {
    let page_size = pages.iter().map(|page| page.page_size).max().unwrap_or_default();
    let total_size = pages.iter().fold(0i32, |sum, page| sum.saturating_add(page.total_size));
    let size = usize::try_from(page_size).unwrap_or(0);
    let unfinished = pages.iter().filter(|page| !page.next_page_token.is_empty());
    let known_until = unfinished.clone().filter_map(|page| page.tasks.last().map(place)).min();
    let mut more = unfinished.count() > 0;
    let mut tasks: Vec<Task> = pages.into_iter().flat_map(|page| page.tasks).collect();
    tasks.retain(|task| known_until.as_ref().is_none_or(|until| place(task) <= *until));
    tasks.sort_by_cached_key(place);
    more |= tasks.len() > size;
    tasks.truncate(size);
    let next_page_token = tasks.last().filter(|_| more).map_or_else(String::new, |last| page_token(&place(last)));
    ListTasksResponse { tasks, next_page_token, page_size, total_size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use a2a::{TaskState, TaskStatus};
    use chrono::DateTime;
    use proptest::prelude::*;

    fn task(changed_ms: i64, id: String) -> Task {
        let timestamp = DateTime::from_timestamp_millis(changed_ms);
        let status = TaskStatus { state: TaskState::Working, message: None, timestamp };
        Task { id, context_id: "c".to_owned(), status, artifacts: None, history: None, metadata: None }
    }

    /// A node's page of `size` after `after`, ended early after `most`.
    fn page(all: &[Task], after: Option<&Order>, size: usize, most: usize) -> ListTasksResponse {
        let mut rest: Vec<Task> =
            all.iter().filter(|task| after.is_none_or(|after| place(task) > *after)).cloned().collect();
        rest.sort_by_cached_key(place);
        let more = rest.len() > size.min(most);
        rest.truncate(size.min(most));
        let next_page_token = rest.last().filter(|_| more).map_or_else(String::new, |last| page_token(&place(last)));
        let page_size = i32::try_from(size).expect("a small page");
        let total_size = i32::try_from(all.len()).expect("few tasks");
        ListTasksResponse { tasks: rest, next_page_token, page_size, total_size }
    }

    proptest! {
        #[test]
        fn pages_of_several_nodes_hold_every_task_once_newest_first(
            nodes in prop::collection::vec(prop::collection::vec(0i64..20, 0..30), 1..4),
            size in 1usize..12,
            most in 1usize..6,
        ) {
            let nodes: Vec<Vec<Task>> = nodes.iter().enumerate().map(|(node, times)| {
                times.iter().enumerate().map(|(at, ms)| task(*ms, format!("{node}-{at}"))).collect()
            }).collect();
            let mut wanted: Vec<Order> = nodes.iter().flatten().map(place).collect();
            wanted.sort();
            let mut got = Vec::new();
            let mut after: Option<Order> = None;
            loop {
                let merged = merge(nodes.iter().enumerate().map(|(node, all)| {
                    page(all, after.as_ref(), size, if node == 0 { most } else { size })
                }).collect());
                prop_assert!(merged.tasks.len() <= size);
                prop_assert_eq!(merged.total_size as usize, wanted.len());
                got.extend(merged.tasks.iter().map(place));
                if merged.next_page_token.is_empty() {
                    break;
                }
                // P-57
                after = crate::machine::listing::read_token(&merged.next_page_token);
                prop_assert!(after.is_some());
            }
            prop_assert_eq!(got, wanted);
        }
    }
}

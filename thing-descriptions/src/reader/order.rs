//! Brings what waits for each other into an order.

/// The places of items in an order in which each stands after those that it waits for; apart from that, as they are given.
///
/// # Errors
/// The places of a circle: each waits for the next one, and the last one is the first one again.
pub(crate) fn order(waits: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut ordered: Vec<usize> = Vec::with_capacity(waits.len());
    let mut open: Vec<usize> = (0..waits.len()).collect();
    while !open.is_empty() {
        let is_ready = |at: &usize| waits[*at].iter().all(|on| !open.contains(on));
        let Some(next) = open.iter().position(is_ready) else { return Err(circle(waits, &open)) };
        ordered.push(open.remove(next));
    }
    Ok(ordered)
}

/// A circle among items of which each waits for another one of them.
fn circle(waits: &[Vec<usize>], open: &[usize]) -> Vec<usize> {
    let mut path: Vec<usize> = Vec::new();
    let mut here = open.first().copied();
    while let Some(at) = here {
        if let Some(first) = path.iter().position(|known| *known == at) {
            path.drain(..first);
            path.push(at);
            break;
        }
        path.push(at);
        here = waits[at].iter().copied().find(|on| open.contains(on));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn items_stand_after_those_that_they_wait_for_and_a_circle_is_named() {
        assert_eq!(order(&[]), Ok(vec![]));
        assert_eq!(order(&[vec![2], vec![], vec![1]]), Ok(vec![1, 2, 0]));
        assert_eq!(order(&[vec![], vec![], vec![0]]), Ok(vec![0, 1, 2]), "what waits for nothing stays where it is");
        assert_eq!(order(&[vec![0]]), Err(vec![0, 0]));
        // The first one waits for the circle and is not part of it.
        assert_eq!(order(&[vec![2], vec![3], vec![1], vec![2]]), Err(vec![2, 1, 3, 2]));
    }
}

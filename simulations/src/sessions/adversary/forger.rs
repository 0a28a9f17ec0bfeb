//! Somebody who changes the rows of turns while the node is down: cuts and changes them, takes some out, exchanges two, or puts one of
//! another turn there. The last row of a turn is left alone, since no row follows that would tell.

use std::collections::BTreeMap;

use althing_calls::{SESSION_HEADS, SESSION_ROWS};
use althing_store::{Batch, Rows};
use rand::Rng as _;
use rand::rngs::StdRng;

use super::{Adversary, Disk, Surroundings};
use crate::sessions::evidence::{Event, View};

pub(super) struct Forger;

impl Adversary for Forger {
    fn name(&self) -> &'static str {
        "forger"
    }

    fn strike(&self, world: &Surroundings, disk: &Disk, rng: &mut StdRng) {
        let all = disk.rows(SESSION_ROWS);
        for (head, task) in disk.rows(SESSION_HEADS) {
            let Some(turn) = turn_of(world, &task) else { continue };
            let rows: Rows = all.iter().filter(|(key, _)| key.starts_with(&head)).cloned().collect();
            if rows.len() >= 2 && rng.random_ratio(2, 3) {
                let foreign = all.iter().find(|(key, _)| !key.starts_with(&head)).map(|(_, row)| row.clone());
                disk.forge(change(&rows, foreign, rng));
                world.evidence().forged.insert(turn);
            }
        }
    }
}

/// The turn whose task's id is in those bytes, if it is not over.
fn turn_of(world: &Surroundings, head: &[u8]) -> Option<usize> {
    let evidence = world.evidence();
    let tasks: BTreeMap<&str, usize> = evidence
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Acknowledgement { turn, task } => Some((task.as_str(), *turn)),
            _ => None,
        })
        .collect();
    let is_in_head = |task: &str| head.windows(task.len().max(1)).any(|window| window == task.as_bytes());
    let turn = tasks.into_iter().find(|(task, _)| is_in_head(task)).map(|(_, turn)| turn)?;
    let is_over = evidence.last(turn).is_some_and(View::is_end);
    (!is_over).then_some(turn)
}

/// A change of one of these rows, but not of the last one.
fn change(rows: &[(Vec<u8>, Vec<u8>)], foreign: Option<Vec<u8>>, rng: &mut StdRng) -> Batch {
    let place = rng.random_range(0..rows.len() - 1);
    let ((key, row), (next_key, next)) = (&rows[place], &rows[place + 1]);
    let mut batch = Batch::large();
    match (rng.random_range(0..5), foreign) {
        (0, _) => batch.delete(SESSION_ROWS, key.as_slice()),
        (1, _) => batch.put(SESSION_ROWS, key.as_slice(), &row[..row.len() / 2]),
        (2, _) => {
            batch.put(SESSION_ROWS, key.as_slice(), next.as_slice());
            batch.put(SESSION_ROWS, next_key.as_slice(), row.as_slice())
        }
        (3, Some(foreign)) => batch.put(SESSION_ROWS, key.as_slice(), foreign),
        _ => {
            let mut changed = row.clone();
            let at = rng.random_range(0..changed.len());
            changed[at] ^= 1_u8 << rng.random_range(0..8_u32);
            batch.put(SESSION_ROWS, key.as_slice(), changed)
        }
    };
    batch
}

//! Snapshots as states of memory, for the slider of a page.

use super::{Cell, Grid, Snapshot, Use, draw::NAMES, draw::colour, requests, seconds};
use crate::report::{CellUse, MemoryState, MemoryStates};

/// Letters of the uses in [`NAMES`], and of all others.
const LETTERS: [char; 6] = ['m', 'r', 'u', 'a', 'h', 'o'];

/// The states of one side.
pub(in super::super) fn states(label: &str, seen: &[Snapshot]) -> MemoryStates {
    let grid = Grid::of(seen.first().map_or(0, |snapshot| snapshot.cells.len()));
    let uses = NAMES.iter().zip(LETTERS).map(|(&(of, name), letter)| CellUse {
        letter,
        name,
        colour: colour(of),
    });
    let other = CellUse { letter: LETTERS[5], name: "other", colour: "#7f7f7f" };
    let state = |snapshot: &Snapshot| MemoryState {
        time: format!(
            "pass {}, {}, {}",
            snapshot.pass,
            requests(snapshot.attempt),
            seconds(snapshot)
        ),
        cells: snapshot.grouped(grid.group).cells.iter().flat_map(written).collect(),
    };
    MemoryStates {
        label: label.to_owned(),
        columns: grid.columns,
        group: grid.group,
        uses: uses.chain([other]).collect(),
        states: seen.iter().map(state).collect(),
    }
}

/// A cell as a letter and a digit.
fn written(cell: &Cell) -> [char; 2] {
    let letter = |of: Use| NAMES.iter().position(|(it, _)| *it == of).unwrap_or(NAMES.len());
    let share = (cell.full.clamp(0.0, 1.0) * 9.0).round() as u32;
    [LETTERS[letter(cell.of)], char::from_digit(share, 10).unwrap_or('0')]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::high_alloc::picture::tests::snapshot;

    #[test]
    fn a_cell_is_a_letter_and_a_digit() {
        let states = states("base", &[snapshot(1, 40), snapshot(2, 40)]);
        assert_eq!((states.columns, states.group, states.states.len()), (32, 1, 2));
        assert_eq!(states.states[0].cells, "m5".repeat(40));
        assert_eq!(states.states[1].time, "pass 2, 7 requests, 1.5 s");
    }
}

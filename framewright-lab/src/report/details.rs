//! Results that are no figures, for pages: latencies, and snapshots of memory.

/// Times of one kind, for histograms beside one another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// The operation that the latencies are of.
    pub title: String,
    /// Nanoseconds, by side.
    pub sides: Vec<(String, Vec<u64>)>,
}

/// States of the memory of one side, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryStates {
    /// The side.
    pub label: String,
    /// Cells in a row of the map.
    pub columns: usize,
    /// Pageblocks in a cell.
    pub group: usize,
    /// The uses that cells have.
    pub uses: Vec<CellUse>,
    /// The states.
    pub states: Vec<MemoryState>,
}

/// A use of a pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellUse {
    /// Its letter in [`MemoryState::cells`].
    pub letter: char,
    /// Its name.
    pub name: &'static str,
    /// Its colour, as in CSS.
    pub colour: &'static str,
}

/// The memory at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryState {
    /// The time in words.
    pub time: String,
    /// Two characters for each cell: the letter of its use, and its share in use in ninths, as a digit.
    pub cells: String,
}

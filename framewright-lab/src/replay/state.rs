//! The state of a real machine's memory at the start of a recording, as the initial state of
//! another machine.
//!
//! The kernel's tables count free blocks and pageblocks by migratetype; `vmstat` counts the pages
//! of programs, files and huge pages. The counts of all zones are added, because the other machine
//! has one zone, and scaled to its number of pageblocks. The tables contain no positions of
//! pageblocks: these are drawn at random.

use std::path::Path;

use framewright::{MigrateType, NodeId, ZoneKind, frame::PAGEBLOCK_ORDER};

use super::{
    census::Census,
    map::{PageblockMap, map_zone},
    plan::{TypePlan, ZonePlan},
    survey::{PAGEBLOCK, TYPES},
};
use crate::trace::{Snapshot, TraceError};

/// The state of a recorded machine's memory.
#[derive(Clone, Debug)]
pub struct State {
    name: String,
    types: [TypePlan; TYPES],
    pageblocks: u64,
    /// Pages of files, and of programs: the proportion in movable pageblocks.
    files: u64,
    programs: u64,
}

/// A pageblock at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pageblock {
    pub(crate) of: MigrateType,
    /// Runs of frames in use: start and length.
    pub(crate) used: Vec<(u32, u32)>,
}

impl State {
    /// Reads a file of the kernel's tables, as stored next to recordings (`NAME.before`).
    ///
    /// # Errors
    ///
    /// The file cannot be read, has a malformed line, or lacks a required table.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::of(&path.display().to_string(), &Snapshot::open(path)?)
    }

    /// Reads the kernel's tables from memory; messages name them `file`.
    ///
    /// # Errors
    ///
    /// As [`State::open`].
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, TraceError> {
        Self::of(file, &Snapshot::parse(file, bytes)?)
    }

    fn of(file: &str, snapshot: &Snapshot) -> Result<Self, TraceError> {
        let unusable = |reason: String| TraceError::Unusable { file: file.to_owned(), reason };
        let order = snapshot.pageblock_order.unwrap_or(PAGEBLOCK_ORDER);
        let mut types = [TypePlan::default(); TYPES];
        for zone in snapshot.zones.iter().filter(|zone| zone.managed > 0) {
            if zone.types.is_empty() {
                return Err(unusable(format!(
                    "/proc/pagetypeinfo has no zone {}; only root can read it, so the tables have to \
                     be recorded as root",
                    zone.name
                )));
            }
            let plan = ZonePlan::typed(NodeId::default(), ZoneKind::Normal, zone, order);
            let plan = plan.ok_or_else(|| {
                unusable(format!(
                    "zone {} has more free blocks in pagetypeinfo than fit into its size in zoneinfo",
                    zone.name
                ))
            })?;
            types.iter_mut().zip(plan.types).for_each(|(sum, of)| sum.add(of));
        }
        let count = |name: &str| snapshot.vmstat.get(name).copied();
        let (Some(anonymous), Some(cached)) = (count("nr_anon_pages"), count("nr_file_pages"))
        else {
            return Err(unusable(
                "no nr_anon_pages or nr_file_pages: expected /proc/vmstat behind a line `# vmstat`"
                    .into(),
            ));
        };
        // Shared memory counts as pages of files, but like the memory of programs it cannot be
        // dropped.
        let shared = count("nr_shmem").unwrap_or(0).min(cached);
        let movable = &mut types[MigrateType::Movable as usize];
        let huge = count("nr_anon_transparent_hugepages").unwrap_or(0);
        movable.full = huge.min(movable.used.saturating_sub(movable.least_used()));
        let pageblocks = types.iter().map(TypePlan::pageblocks).fold(0, u64::saturating_add);
        let programs = anonymous.saturating_add(shared);
        Ok(Self { name: file.to_owned(), types, pageblocks, files: cached - shared, programs })
    }

    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Pageblocks of the recorded machine.
    #[must_use]
    pub fn pageblocks(&self) -> u64 {
        self.pageblocks
    }

    /// The share of its memory that was free, in percent.
    #[must_use]
    pub fn free_pct(&self) -> f64 {
        let free: u64 = self.types.iter().map(TypePlan::free_frames).sum();
        100.0 * free as f64 / (self.pageblocks * PAGEBLOCK).max(1) as f64
    }

    /// The share of free memory in blocks smaller than a pageblock, in percent.
    #[must_use]
    pub fn scattered_pct(&self) -> f64 {
        let free: u64 = self.types.iter().map(TypePlan::free_frames).sum();
        let small: u64 = self.types.iter().map(TypePlan::small_frames).sum();
        100.0 * small as f64 / free.max(1) as f64
    }

    /// The share of its pageblocks that are unmovable or reclaimable and not wholly free, in percent.
    #[must_use]
    pub fn unmovable_pct(&self) -> f64 {
        let others = (0..TYPES).filter(|&of| of != MigrateType::Movable as usize);
        let used: u64 = others.map(|of| self.types[of].used).sum();
        100.0 * used as f64 / self.pageblocks.max(1) as f64
    }

    /// The share of file pages in movable memory, 0 to 1.
    pub(crate) fn file_share(&self) -> f64 {
        self.files as f64 / self.files.saturating_add(self.programs).max(1) as f64
    }

    /// The state on a machine of this number of pageblocks, from the first one on.
    pub(crate) fn on(&self, pageblocks: u64, random: &mut fastrand::Rng) -> Vec<Pageblock> {
        let mut plan =
            ZonePlan::untyped(NodeId::default(), ZoneKind::Normal, pageblocks * PAGEBLOCK, 0);
        plan.types = self.types.map(|of| of.scaled(pageblocks, self.pageblocks));
        let planned: u64 = plan.types.iter().map(TypePlan::pageblocks).sum();
        // The rest after rounding.
        plan.types[MigrateType::Movable as usize].used += pageblocks - planned;
        (plan.first, plan.spanned) = (0, pageblocks);
        let mut map = map_zone(&plan, &Default::default(), &Census::default());
        shuffle(&mut map, random);
        map.iter().map(Pageblock::of).collect()
    }
}

/// Permutes the pageblocks that are not wholly free at random.
fn shuffle(map: &mut [PageblockMap], random: &mut fastrand::Rng) {
    let taken: Vec<usize> = (0..map.len()).filter(|&at| map[at].used.is_some()).collect();
    for left in (1..taken.len()).rev() {
        let (this, other) = (taken[left], taken[random.usize(..=left)]);
        let (number, other_number) = (map[this].number, map[other].number);
        map.swap(this, other);
        (map[this].number, map[other].number) = (number, other_number);
    }
}

impl Pageblock {
    fn of(map: &PageblockMap) -> Self {
        let runs = map.used.iter().flat_map(|used| used.layout.used_runs());
        Self { of: map.of, used: runs.map(|(at, size)| (at as u32, size as u32)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\
# zoneinfo
Node 0, zone   Normal
  pages free     3074
        spanned  8192
        present  8192
        managed  8192
# buddyinfo
Node 0, zone   Normal 2 0 0 0 0 0 0 4 0 1 2
# pagetypeinfo
Page block order: 9
Node    0, zone   Normal, type    Unmovable 0 0 0 0 0 0 0 2 0 0 0
Node    0, zone   Normal, type      Movable 2 0 0 0 0 0 0 2 0 1 2
Node    0, zone   Normal, type  Reclaimable 0 0 0 0 0 0 0 0 0 0 0

Number of blocks type     Unmovable      Movable  Reclaimable
Node 0, zone   Normal            3           12            1
# vmstat
nr_anon_pages 3000
nr_file_pages 1100
nr_shmem 100
nr_anon_transparent_hugepages 2
";

    fn state(tables: &str) -> Result<State, String> {
        State::parse("s", tables.as_bytes()).map_err(|error| error.to_string())
    }

    fn counted(blocks: &[Pageblock], of: MigrateType) -> (usize, u32) {
        let mine: Vec<_> = blocks.iter().filter(|block| block.of == of).collect();
        let used = mine.iter().flat_map(|block| &block.used).map(|&(_, size)| size).sum();
        (mine.len(), used)
    }

    #[test]
    fn a_state_has_the_same_shares_on_any_machine() {
        let state = state(TABLES).unwrap();
        assert_eq!(state.pageblocks(), 16);
        assert!((state.file_share() - 1000.0 / 4100.0).abs() < 1e-9, "{}", state.file_share());
        for times in [1u32, 4] {
            let blocks = state.on(16 * u64::from(times), &mut fastrand::Rng::with_seed(1));
            let counted = |of| counted(&blocks, of);
            assert_eq!(blocks.len(), 16 * times as usize);
            assert_eq!(counted(MigrateType::Unmovable), (3 * times as usize, times * 1280));
            assert_eq!(counted(MigrateType::Reclaimable), (times as usize, times * 512));
            let (movable, used) = counted(MigrateType::Movable);
            assert_eq!((movable, used), (12 * times as usize, times * (7 * 512 - 258)));
        }
        let half = state.on(8, &mut fastrand::Rng::with_seed(1));
        assert_eq!(half.len(), 8);
        let free = 8 * 512 - half.iter().flat_map(|it| &it.used).map(|&(_, n)| n).sum::<u32>();
        assert!(free.abs_diff(3074 / 2) <= 512, "{free} of {}", 3074 / 2);
    }

    #[test]
    fn positions_depend_on_the_seed() {
        let state = state(TABLES).unwrap();
        let on = |seed| state.on(64, &mut fastrand::Rng::with_seed(seed));
        assert_eq!(on(1), on(1));
        assert_ne!(on(1), on(2));
    }

    #[test]
    fn missing_tables_are_named() {
        let (zoneinfo, rest) = TABLES.split_once("# buddyinfo").unwrap();
        assert!(state(zoneinfo).unwrap_err().contains("pagetypeinfo"));
        let (tables, _) = rest.split_once("# vmstat").unwrap();
        let error = state(&format!("{zoneinfo}# buddyinfo{tables}")).unwrap_err();
        assert!(error.starts_with("s: ") && error.contains("vmstat"), "{error}");
        let bad = TABLES.replace("managed  8192", "managed  many");
        assert!(state(&bad).unwrap_err().starts_with("s:6: "), "{:?}", state(&bad));
    }

    #[test]
    fn the_shipped_state_fits_a_small_machine() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.before");
        let state = State::open(Path::new(path)).unwrap();
        let blocks = state.on(512, &mut fastrand::Rng::with_seed(1));
        let used: u64 = blocks.iter().flat_map(|it| &it.used).map(|&(_, n)| u64::from(n)).sum();
        let free = 100.0 - 100.0 * used as f64 / (512.0 * 512.0);
        assert!((free - state.free_pct()).abs() < 1.0, "{free} and {}", state.free_pct());
    }
}

//! The use of each frame, from `/proc/kpageflags`: what compaction can move in each pageblock, and where to.
//!
//! The flags of a frame say whether it is free, or has a page that can be moved. They do not say whether a page is pinned
//! for the moment. A frame without any flag is on a CPU's list, or the kernel uses it.
//!
//! Source: Linux's documentation, admin-guide/mm/pagemap.rst.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    num::NonZero,
    path::Path,
};

use crate::trace::snapshot::Zone;

/// The frame is free.
const BUDDY: u64 = 1 << 10;
/// The page is on a list for reclaim, as those of programs and files: it can be moved.
const LRU: u64 = 1 << 5;
/// The page is of hugetlbfs.
const HUGE: u64 = 1 << 17;
/// There is no frame.
const NOPAGE: u64 = 1 << 20;
/// A frame with one of these is not free: it has a page of the slab allocator, a mapped one, an anonymous one.
const IN_USE: u64 = LRU | HUGE | NOPAGE | 1 << 7 | 1 << 11 | 1 << 12;

/// Bytes of the flags of a frame.
const SIZE: u64 = 8;

/// The pageblocks of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonePages {
    /// The node.
    pub node: u16,
    /// The zone.
    pub zone: String,
    /// Its whole pageblocks, without holes: of a large zone every `step`-th.
    pub pageblocks: Vec<Pageblock>,
    /// The number of pageblocks that one of them stands for.
    pub step: NonZero<u64>,
}

/// Of a zone with more pageblocks, only a part is read: this number, or up to twice as many. The kernel needs about 30 ms
/// for the flags of 1 GiB.
const READ: u64 = 1 << 15;

/// The frames of a pageblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pageblock {
    /// Free frames.
    pub free: u32,
    /// Frames with pages that can be moved.
    pub movable: u32,
    /// Frames without flags: on a CPU's list, or in use by the kernel.
    pub unknown: u32,
    /// Frames that stay in use: those of the kernel, and holes.
    pub fixed: u32,
}

/// Reads the flags of all frames of the zones. `order` is that of a pageblock.
///
/// # Errors
///
/// The file cannot be read, has fewer frames than the zones, or contradicts them.
pub(super) fn read(path: &Path, zones: &[Zone], order: u8) -> io::Result<Vec<ZonePages>> {
    let mut file = File::open(path)?;
    let zones = zones.iter().filter(|zone| zone.managed > 0);
    zones
        .map(|zone| {
            let step = NonZero::new((zone.spanned >> order) / READ).unwrap_or(NonZero::<u64>::MIN);
            let pageblocks = pageblocks(&mut file, zone, 1 << order, step.get())?;
            let pages = ZonePages { node: zone.node, zone: zone.name.clone(), pageblocks, step };
            match pages.contradiction(zone, 1 << order) {
                Some(reason) => Err(io::Error::new(ErrorKind::InvalidData, reason)),
                None => Ok(pages),
            }
        })
        .collect()
}

fn pageblocks(file: &mut File, zone: &Zone, size: u64, step: u64) -> io::Result<Vec<Pageblock>> {
    let first = zone.start_pfn.unwrap_or(0);
    let end = first.saturating_add(zone.spanned) / size;
    let first = first.div_ceil(size);
    let mut holes = zone.spanned.saturating_sub(zone.present) / size;
    let mut flags = vec![0; (size * SIZE) as usize];
    let mut pageblocks = Vec::new();
    for pageblock in (first..end).step_by(step as usize) {
        file.seek(SeekFrom::Start(pageblock * size * SIZE))?;
        file.read_exact(&mut flags).map_err(|error| cut(error, file, zone))?;
        // Frames of holes have no flags either.
        if holes > 0 && is_absent(&flags) {
            holes = holes.saturating_sub(step);
        } else {
            pageblocks.push(Pageblock::of(&flags));
        }
    }
    Ok(pageblocks)
}

/// The error of a file that ends before the zone does, in words.
fn cut(error: io::Error, file: &mut File, zone: &Zone) -> io::Error {
    let end = zone.start_pfn.unwrap_or(0).saturating_add(zone.spanned);
    match file.stream_position() {
        Ok(at) if error.kind() == ErrorKind::UnexpectedEof => {
            let (node, name, first) = (zone.node, &zone.name, at / SIZE);
            let reason = format!(
                "it is not used: the flags of frame {first} and later ones are missing, but node {node}, zone {name} \
                 ends before frame {end}"
            );
            io::Error::new(error.kind(), reason)
        }
        _ => error,
    }
}

/// Whether all frames may be missing.
fn is_absent(flags: &[u8]) -> bool {
    frames(flags).all(|flags| flags == 0 || flags & NOPAGE != 0)
}

fn frames(flags: &[u8]) -> impl Iterator<Item = u64> {
    let (frames, _) = flags.as_chunks();
    frames.iter().map(|&frame| u64::from_ne_bytes(frame))
}

impl Pageblock {
    fn of(flags: &[u8]) -> Self {
        let mut of = Self::default();
        for flags in frames(flags) {
            *match flags {
                0 => &mut of.unknown,
                _ if flags & (BUDDY | IN_USE) == BUDDY => &mut of.free,
                // No kernel writes such flags.
                _ if flags & BUDDY != 0 => &mut of.fixed,
                _ if flags & (LRU | HUGE) == LRU => &mut of.movable,
                _ => &mut of.fixed,
            } += 1;
        }
        of
    }
}

impl ZonePages {
    /// Why the flags cannot be those of the zone: they show less than half of its free frames or of its frames in use.
    /// The zone changes while the tables are read, and has frames outside of whole pageblocks, which have `size` frames.
    /// Some kernels mark only the first frame of a free block.
    fn contradiction(&self, zone: &Zone, size: u64) -> Option<String> {
        let read = self.pageblocks.len() as u64 * self.step.get();
        let not_read = zone.managed.saturating_sub(read.saturating_mul(size)).min(2 * size);
        let in_use = zone.managed.saturating_sub(zone.free).saturating_sub(zone.held_by_cpus());
        let counts = [
            (zone.free, self.sum(|of| of.free), "free"),
            (in_use, self.sum(|of| of.movable + of.unknown + of.fixed), "in use"),
        ];
        counts.into_iter().find_map(|(expected, found, what)| {
            let found = found * self.step.get();
            (expected / 2 > found + not_read).then(|| {
                format!(
                    "it contradicts zoneinfo and is not used: frames {what} in node {}, zone {}: {found} by the flags, \
                     {expected} by zoneinfo",
                    self.node, self.zone
                )
            })
        })
    }

    fn sum(&self, count: fn(&Pageblock) -> u32) -> u64 {
        self.pageblocks.iter().map(|of| u64::from(count(of))).sum()
    }

    /// The pageblocks without unknown frames, if `on_cpu_lists` frames are on CPU lists. They become free ones: the same
    /// share of the unknown frames everywhere, but all or none of a pageblock's. The others become fixed ones.
    pub(super) fn settled(&self, on_cpu_lists: u64) -> Vec<Pageblock> {
        let unknown = self.sum(|of| of.unknown).max(1);
        let on_cpu_lists = (on_cpu_lists / self.step).min(unknown);
        // In units of a frame / `unknown`: those that have to become free so far, less those that have.
        let mut due = 0;
        let settle = |of: &Pageblock| {
            due += u64::from(of.unknown) * on_cpu_lists;
            let all = u64::from(of.unknown) * unknown;
            if due >= all {
                due -= all;
                Pageblock { free: of.free + of.unknown, unknown: 0, ..*of }
            } else {
                Pageblock { fixed: of.fixed + of.unknown, unknown: 0, ..*of }
            }
        };
        self.pageblocks.iter().map(settle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pageblock([free, movable, unknown, fixed]: [u32; 4]) -> Pageblock {
        Pageblock { free, movable, unknown, fixed }
    }

    fn zone(pageblocks: &[[u32; 4]]) -> ZonePages {
        let pageblocks = pageblocks.iter().copied().map(pageblock).collect();
        ZonePages { node: 0, zone: "Normal".into(), pageblocks, step: NonZero::<u64>::MIN }
    }

    #[test]
    fn flags_say_what_a_frame_is_used_for() {
        let frames =
            [0, BUDDY, LRU | 1 << 3, LRU | HUGE, 1 << 7, NOPAGE, 1 << 26, BUDDY, BUDDY | LRU];
        let flags: Vec<u8> = frames.iter().flat_map(|flags: &u64| flags.to_ne_bytes()).collect();
        assert_eq!(Pageblock::of(&flags), pageblock([2, 1, 1, 5]));
    }

    #[test]
    fn whole_pageblocks_of_each_zone_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let frame = |pfn: u64| if pfn < 8 { BUDDY } else { LRU };
        let flags: Vec<u8> = (0..16).flat_map(|pfn| frame(pfn).to_ne_bytes()).collect();
        std::fs::write(file.path(), flags).unwrap();
        let of = |start, spanned| Zone {
            name: "Normal".into(),
            start_pfn: Some(start),
            spanned,
            managed: spanned,
            present: spanned,
            ..Default::default()
        };
        let zones = [of(1, 7), Zone::default(), of(8, 7)];
        let pages = read(file.path(), &zones, 2).unwrap();
        let pageblocks: Vec<_> = pages.into_iter().map(|of| of.pageblocks).collect();
        let [free, movable] = [[4, 0, 0, 0], [0, 4, 0, 0]].map(|of| vec![pageblock(of)]);
        assert_eq!(pageblocks, [free, movable]);
        std::fs::write(file.path(), [[0; 8], NOPAGE.to_ne_bytes()].concat().repeat(8)).unwrap();
        let hole = Zone { present: 8, ..of(0, 16) };
        let pages = read(file.path(), &[hole], 2).unwrap();
        assert_eq!(pages[0].pageblocks, [pageblock([0, 0, 2, 2]); 2], "two of four are a hole");
        let short = read(file.path(), &[of(8, 12)], 2).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
        let words = "the flags of frame 16 and later ones are missing, but node 0, zone Normal ends before frame 20";
        assert!(short.to_string().ends_with(words), "{short}");
    }

    #[test]
    fn frames_without_flags_are_free_as_far_as_cpu_lists_explain_them() {
        let some = zone(&[[502, 0, 10, 0]; 8]);
        let free = |on_cpu_lists| {
            let settled = some.settled(on_cpu_lists);
            assert!(settled.iter().all(|of| of.unknown == 0 && of.free + of.fixed == 512));
            settled.iter().filter(|of| of.free == 512).count()
        };
        assert_eq!([0, 20, 40, 80, 500].map(free), [0, 2, 4, 8, 8]);
        // A pageblock without flags is on the CPU lists, or the kernel's.
        let all = zone(&[[0, 0, 512, 0], [512, 0, 0, 0]]).settled(0);
        assert_eq!(all, [pageblock([0, 0, 0, 512]), pageblock([512, 0, 0, 0])]);
    }

    #[test]
    fn a_part_of_a_large_zone_stands_for_all() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (size, pageblocks) = (1 << 2, 3 * READ + 7);
        file.as_file().set_len(pageblocks * size * SIZE).unwrap();
        let spanned = pageblocks * size;
        let zone = Zone { spanned, managed: spanned, present: spanned, ..Default::default() };
        let pages = read(file.path(), &[zone], 2).unwrap().remove(0);
        assert_eq!((pages.step.get(), pages.pageblocks.len() as u64), (3, READ + 3));
        // A third of the frames on CPU lists are in these pageblocks.
        let settled = pages.settled(30 * size);
        assert_eq!(settled.iter().filter(|of| of.free > 0).count(), 10);
    }

    #[test]
    fn flags_that_contradict_zoneinfo_are_not_used() {
        let contradiction = |pageblocks: &[[u32; 4]], free, managed| {
            let of = Zone { free, managed, name: "Normal".into(), ..Default::default() };
            zone(pageblocks).contradiction(&of, 512)
        };
        let first_frames_only = contradiction(&[[1, 0, 511, 0]], 512, 512).unwrap();
        assert!(
            first_frames_only.contains("frames free in node 0, zone Normal: 1 by the flags, 512"),
            "{first_frames_only}"
        );
        let all_free = contradiction(&[[512, 0, 0, 0]], 0, 512).unwrap();
        assert!(
            all_free.contains("in use in node 0, zone Normal: 0 by the flags, 512"),
            "{all_free}"
        );
        assert_eq!(contradiction(&[[256, 256, 0, 0]], 500, 512), None, "a program took memory");
        assert_eq!(contradiction(&[[0, 512, 0, 0]], 500, 1024), None, "free outside of pageblocks");
        assert!(contradiction(&[], 6144, 9000).is_some(), "the place of the zone is not known");
    }
}

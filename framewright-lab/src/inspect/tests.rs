//! Tests with tables that were recorded, made up and damaged.

use std::{fs, path::Path};

use super::*;
use crate::trace::Snapshot;

/// Two zones: one with free huge pages and a lowmem reserve, one with free memory in small blocks.
pub(super) const TABLES: [(&str, &str); 5] = [
    (
        "zoneinfo",
        "\
Node 0, zone    DMA32
  pages free     6144
        boost    0
        min      100
        low      200
        high     300
        managed  9000
        protection: (0, 0, 1000, 1200)
Node 0, zone   Normal
  pages free     5016
        boost    8
        min      400
        managed  50000
        protection: (0, 0, 0, 0)
",
    ),
    (
        "buddyinfo",
        "Node 0, zone    DMA32 0 0 0 0 0 0 0 0 0 2 5
Node 0, zone   Normal 1000 0 0 0 0 0 0 0 1 3 0
",
    ),
    (
        "pagetypeinfo",
        "Page block order: 9
Node    0, zone    DMA32, type    Unmovable 0 0 0 0 0 0 0 0 0 1 0
Node    0, zone    DMA32, type      Movable 0 0 0 0 0 0 0 0 0 0 5
Node    0, zone    DMA32, type   HighAtomic 0 0 0 0 0 0 0 0 0 1 0
Node    0, zone   Normal, type    Unmovable 300 0 0 0 0 0 0 0 0 0 0
Node    0, zone   Normal, type      Movable 700 0 0 0 0 0 0 0 1 3 0
Node    0, zone   Normal, type   HighAtomic 0 0 0 0 0 0 0 0 0 0 0
Number of blocks type Unmovable Movable HighAtomic
Node 0, zone    DMA32 1 15 1
Node 0, zone   Normal 10 88 0
",
    ),
    (
        "vmstat",
        "thp_fault_alloc 7\nthp_fault_fallback 1\nallocstall_normal 2\nallocstall_movable 3\n",
    ),
    ("interrupts", "     CPU0 CPU1\nTLB:  4 5 TLB shootdowns\n"),
];

/// The tables as files in a folder, except those that `edit` leaves out.
fn saved(folder: &Path, edit: impl Fn(&str, &str) -> Option<String>) -> Result<Look, String> {
    for (name, text) in TABLES {
        let _ = fs::remove_file(folder.join(name));
        if let Some(text) = edit(name, text) {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    Source::Saved(folder.to_owned()).read().map_err(|error| error.to_string())
}

fn whole() -> Look {
    saved(tempfile::tempdir().unwrap().path(), |_, text| Some(text.to_owned())).unwrap()
}

#[test]
fn huge_pages_without_compaction_are_counted_above_the_watermark() {
    let look = whole();
    assert_eq!(look.missing, [] as [String; 0]);
    let huge = HugePages::predict(&look);
    let [dma32, normal] = &huge.zones[..] else { panic!("{huge:?}") };
    // One of 12 is kept. (6144 - 512 kept - 100 - 1200) / 512 = 8.46.
    assert_eq!((dma32.free, dma32.above_watermark, dma32.without), (11, 8, 8));
    // (5016 - 408) / 512 = 9.
    assert_eq!((normal.free, normal.above_watermark, normal.without), (3, 9, 3));
    assert_eq!((huge.without(), huge.bytes()), (11, 2 << 20));
}

#[test]
fn from_tables_alone_movable_free_memory_is_summed() {
    let huge = HugePages::predict(&whole());
    // 3 are free, and (700 + 256 + 60 % of 300) / 512 = 2.2 are added. 60 % of 5 are 3, and 115 % are 5.75.
    assert_eq!((huge.basis, huge.zones[1].with), (Basis::Pagetypeinfo, [3, 5]));
    // 8 are above the watermark: 90 %, and 110 % are 8.8.
    assert_eq!((huge.zones[0].with, huge.with()), ([7, 8], [10, 13]));
    let folder = tempfile::tempdir().unwrap();
    // 80 % of 1000 frames on CPU lists are added: (1136 + 800) / 512 = 3.8. 60 % of 6 are 3, and 115 % are 6.9.
    let lists = |name: &str, text: &str| {
        let lists = "protection: (0, 0, 0, 0)\n  pagesets\n    cpu: 0\n      count: 1000\n";
        Some(if name == "zoneinfo" {
            text.replace("protection: (0, 0, 0, 0)\n", lists)
        } else {
            text.to_owned()
        })
    };
    let huge = HugePages::predict(&saved(folder.path(), lists).unwrap());
    assert_eq!(huge.zones[1].with, [3, 6]);
    // Without types, all 1256 + 800 frames count.
    let without_types =
        saved(folder.path(), |name, text| lists(name, text).filter(|_| name != "pagetypeinfo"));
    let huge = HugePages::predict(&without_types.unwrap());
    assert_eq!((huge.basis, huge.zones[1].with), (Basis::Buddyinfo, [4, 8]));
}

/// The flags of the frames of a zone of ten pageblocks, from the second pageblock of the machine on.
fn saved_flags(folder: &Path, edit: impl Fn(&mut Vec<u8>)) -> Look {
    let [buddy, lru, slab] = [10, 5, 7].map(|bit| 1u64 << bit);
    let pageblock = |first: u64, count| [vec![first; count], vec![lru; 512 - count]].concat();
    let free = vec![pageblock(buddy, 512); 3].concat();
    let mixed = vec![pageblock(buddy, 312); 6].concat();
    let all = [pageblock(slab, 512), free, mixed, pageblock(slab, 512)].concat();
    let mut bytes: Vec<u8> = all.iter().flat_map(|flags| flags.to_ne_bytes()).collect();
    edit(&mut bytes);
    fs::write(folder.join("kpageflags"), bytes).unwrap();
    let look = saved(folder, |name, text| {
        let spanned =
            "managed  5120\n  start_pfn: 512\n        spanned  5120\n        present  5120\n";
        Some(if name == "zoneinfo" {
            let text =
                text.replace("free     6144", "free     0").replace("managed  9000", "managed  0");
            text.replace("managed  50000\n", spanned)
        } else {
            text.to_owned()
        })
    });
    assert!(look.is_ok(), "{look:?}");
    Source::Saved(folder.to_owned()).read_with_pages().unwrap()
}

#[test]
fn with_the_flags_of_all_frames_compaction_is_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let look = saved_flags(folder.path(), |_| ());
    let huge = HugePages::predict(&look);
    assert_eq!(look.missing, [] as [String; 0]);
    // The pages of three of the six mixed pageblocks fit into the others, so there are six. The sixth would leave 336
    // frames, less than the watermark. 83 % of 5 are 4.15, and 118 % are 5.9.
    assert_eq!((huge.basis, huge.with()), (Basis::Kpageflags, [4, 5]));
    let looked = Source::Saved(folder.path().to_owned()).read().unwrap();
    assert_eq!(HugePages::predict(&looked).basis, Basis::Pagetypeinfo, "they are not always read");
}

#[test]
fn flags_that_are_not_believed_are_named_and_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 1u64;
    let random = |_: &u8| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let random: Vec<u8> = vec![0; 512 * 11 * 8].iter().map(random).collect();
    let cut = "the flags of frame 4608 and later ones are missing, but node 0, zone Normal ends before frame 5632";
    let free = "contradicts zoneinfo and is not used: frames free in node 0, zone Normal: ";
    for (hint, edit) in [
        (cut, &(|flags: &mut Vec<u8>| flags.truncate(512 * 9 * 8)) as &dyn Fn(&mut Vec<u8>)),
        (free, &|flags| flags.fill(0)),
        (free, &|flags| flags.clone_from(&random)),
        (free, &|flags| flags.fill(0xff)),
    ] {
        let look = saved_flags(folder.path(), edit);
        let without = Source::Saved(folder.path().to_owned()).read().unwrap();
        assert_eq!(HugePages::predict(&look), HugePages::predict(&without));
        let [missing] = &look.missing[..] else { panic!("{:?}", look.missing) };
        assert!(missing.contains("kpageflags: ") && missing.contains(hint), "{missing}");
        assert!(missing.contains("free blocks alone"), "{missing}");
    }
}

#[test]
fn indices_are_those_of_debugfs() {
    let look = whole();
    let of = |zone: usize| Fragmentation::of(&look.tables.zones[zone]).unwrap();
    assert_eq!((of(0).unusable(9), of(0).unusable(10)), (0.0, 0.166));
    assert_eq!((of(0).index(9), of(1).index(9)), (-1.0, -1.0));
    assert_eq!(of(1).unusable(9), 0.449);
    assert_eq!(of(1).index(10), 0.997);
    let empty = Fragmentation { blocks: vec![0; 11], types: Vec::new() };
    assert_eq!((empty.unusable(3), empty.index(3)), (1.0, 0.0));
    assert_eq!(empty.index(1000), 0.0);
}

#[test]
fn counters_are_read_by_name() {
    let counters: Vec<_> =
        counters(&whole().tables).into_iter().map(|of| (of.name, of.value)).collect();
    let expected = [
        ("thp_fault_alloc", 7),
        ("thp_fault_fallback", 1),
        ("allocstall", 5),
        ("tlb_shootdowns", 9),
    ];
    assert_eq!(counters, expected);
}

#[test]
fn figures_have_a_key_and_a_line_each() {
    let figures = figures(&whole());
    let found = |place: &str, key: &str| {
        let mut found = figures.iter().filter(|of| of.place() == place && of.key() == key);
        let figure = found.next().unwrap_or_else(|| panic!("{place} has no {key}"));
        assert!(found.next().is_none(), "{place} has {key} twice");
        figure.csv(1.5)
    };
    for (place, key, line) in [
        ("node 0 DMA32", "free", "1.500,0,DMA32,,,free,frames,6144"),
        ("node 0 DMA32", "free_blocks_order10", "1.500,0,DMA32,,10,free_blocks,count,5"),
        (
            "node 0 Normal",
            "free_blocks_movable_order0",
            "1.500,0,Normal,Movable,0,free_blocks,count,700",
        ),
        ("node 0 Normal", "pageblocks_movable", "1.500,0,Normal,Movable,,pageblocks,count,88"),
        (
            "node 0 Normal",
            "unusable_free_index_order9",
            "1.500,0,Normal,,9,unusable_free_index,ratio,0.449",
        ),
        (
            "machine",
            "huge_pages_without_compaction",
            "1.500,,,,,huge_pages_without_compaction,count,11",
        ),
        ("machine", "tlb_shootdowns", "1.500,,,,,tlb_shootdowns,count,9"),
    ] {
        assert_eq!(found(place, key), line);
    }
    let columns = |line: &str| line.split(',').count();
    assert!(figures.iter().all(|of| columns(&of.csv(0.0)) == columns(CSV_HEADER)));
}

#[test]
fn missing_tables_are_named_and_the_rest_is_used() {
    let folder = tempfile::tempdir().unwrap();
    for (left_out, hint) in [
        ("buddyinfo", "no huge pages are predicted"),
        ("pagetypeinfo", "only root can read it"),
        ("vmstat", "stalls are not counted"),
        ("interrupts", "shootdowns are not counted"),
    ] {
        let look =
            saved(folder.path(), |name, text| (name != left_out).then(|| text.to_owned())).unwrap();
        let [missing] = &look.missing[..] else { panic!("{:?}", look.missing) };
        let file = folder.path().join(left_out);
        assert!(missing.starts_with(&format!("{}: No such file", file.display())), "{missing}");
        assert!(missing.contains(hint), "{missing}");
        assert!(!figures(&look).is_empty());
        let look = saved(folder.path(), |name, text| {
            Some(if name == left_out { String::new() } else { text.to_owned() })
        });
        assert!(look.unwrap().missing[0].starts_with(&format!("no rows in {left_out}; ")));
    }
    let error = saved(folder.path(), |name, text| (name != "zoneinfo").then(|| text.to_owned()))
        .unwrap_err();
    assert!(error.contains("zoneinfo: cannot read: No such file"), "{error}");
}

#[test]
fn rows_that_a_table_lacks_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (table, row, hint) in [
        (
            "buddyinfo",
            "Node 0, zone    DMA32 0 0 0 0 0 0 0 0 0 2 5\n",
            "buddyinfo: free blocks of node 0, zone DMA32 are missing; without them, no huge pages",
        ),
        (
            "pagetypeinfo",
            "Node 0, zone    DMA32 1 15 1\n",
            "pagetypeinfo: pageblocks of node 0, zone DMA32 are missing; ",
        ),
    ] {
        let look = saved(folder.path(), |name, text| {
            assert!(name != table || text.contains(row), "{row}");
            Some(if name == table { text.replacen(row, "", 1) } else { text.to_owned() })
        });
        let look = look.unwrap();
        let [missing] = &look.missing[..] else { panic!("{:?}", look.missing) };
        assert!(missing.starts_with(hint), "{missing}");
    }
}

#[test]
fn malformed_tables_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    for (table, from, to, hint) in [
        ("zoneinfo", "min      100", "min      -1", "zoneinfo:4: min `-1`"),
        ("buddyinfo", "1000 0 0", "x 0 0", "buddyinfo:2: count `x`"),
        ("buddyinfo", " 3 0\n", "", "buddyinfo:2: counts `Node 0, zone   Normal 1000"),
        (
            "buddyinfo",
            "Node 0, zone    DMA32",
            "Node 1, zone    DMA32",
            "buddyinfo:1: zone `DMA32`",
        ),
        ("buddyinfo", "zone   Normal", "zone   No\u{1b}[2J", "buddyinfo:2: zone `"),
        ("pagetypeinfo", "1 15 1", "1 15", "pagetypeinfo:9: pageblocks ` 1 15`"),
        (
            "pagetypeinfo",
            "type    Unmovable 300",
            "type    Un,movable 300",
            "pagetypeinfo:5: migratetype",
        ),
        (
            "pagetypeinfo",
            "type Unmovable Movable",
            "type Unmovable Mov\"able",
            "pagetypeinfo:8: migratetype",
        ),
        ("vmstat", "thp_fault_alloc 7", "thp_fault_alloc", "vmstat:1: vmstat is missing"),
        ("interrupts", "TLB:  4 5", "TLB:  n/a", "interrupts:2: TLB `n/a TLB shootdowns`"),
        ("vmstat", "thp_fault_alloc", "\0", "vmstat: binary data"),
    ] {
        let error = saved(folder.path(), |name, text| {
            assert!(name != table || text.contains(from), "{from}");
            Some(if name == table { text.replacen(from, to, 1) } else { text.to_owned() })
        });
        let error = error.expect_err(to);
        assert!(error.contains(hint), "{to}: {error}");
    }
}

#[test]
fn recorded_tables_are_read() {
    let recordings = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings"));
    for name in ["compile.before", "sockets.before"] {
        let look = Source::Saved(recordings.join(name)).read().unwrap();
        let huge = HugePages::predict(&look);
        let [least, most] = huge.with();
        assert!(huge.without() <= most && least <= most && most > 0, "{name}: {huge:?}");
        assert_eq!(huge.basis, Basis::Pagetypeinfo);
        assert!(figures(&look).len() > 100, "{name}");
        let [missing] = &look.missing[..] else { panic!("{:?}", look.missing) };
        assert!(missing.starts_with("no rows in interrupts"), "{missing}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_running_kernel_s_tables_are_read() {
    let look = Source::Running.read().unwrap();
    assert!(look.tables.managed() > 0);
    assert!(figures(&look).iter().all(|figure| figure.value.is_finite()));
}

#[test]
fn impossible_counts_do_not_overflow() {
    let most = (1u64 << 40).to_string();
    let blocks = vec![most.as_str(); 14].join(" ");
    let mut text = format!(
        "# zoneinfo\nNode 0, zone Normal\npages free {most}\nmin {most}\nboost {most}\nmanaged {most}\n\
         # buddyinfo\nNode 0, zone Normal {blocks}\n# pagetypeinfo\n"
    );
    for of in 0..200 {
        text += &format!(
            "Node 0, zone Normal, type T{of} {blocks}\nNode 0, zone Normal, type Isolate {blocks}\n"
        );
    }
    let tables = Snapshot::parse("t", text.as_bytes()).unwrap();
    let look = Look { tables, pages: Vec::new(), missing: Vec::new() };
    assert_eq!(HugePages::predict(&look).without(), 0);
    assert!(!figures(&look).is_empty());
}

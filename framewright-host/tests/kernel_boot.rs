//! Tests of the boot data of `kernel/`: the command line, the memory map, a loader's start info,
//! firmware tables. `kernel/` has no test harness. Some of the tested cases occur on no emulator.

#![allow(dead_code, unsafe_code)]

use boot::{CommandLine, MemoryMap, Region, StartInfo, pair};

#[path = "../../kernel/src/acpi/mod.rs"]
mod acpi;

#[path = "../../kernel/src/boot"]
mod boot {
    mod command_line;
    mod memory_map;
    mod multiboot;
    mod start_info;

    pub(crate) use command_line::{CommandLine, pair};
    pub(crate) use memory_map::{MemoryMap, Region};
    pub(crate) use start_info::StartInfo;
}

/// Replacements for other parts of the kernel that these modules use.
mod cpu {
    pub(crate) const MAX_CPUS: usize = 32;
}
mod frames {
    pub(crate) const BYTES: u64 = 4096;
}

mod firmware {
    use super::acpi::{Tables, Topology, cpus};

    /// Bytes that are never freed.
    fn kept(bytes: Vec<u8>) -> &'static [u8] {
        Box::leak(bytes.into_boxed_slice())
    }

    fn address(bytes: &'static [u8]) -> u64 {
        bytes.as_ptr() as u64
    }

    /// A table: a header with signature and length, and a body.
    fn table(signature: &[u8; 4], body: &[u8]) -> &'static [u8] {
        let mut table = signature.to_vec();
        table.extend((36 + body.len() as u32).to_le_bytes());
        table.resize(36, 0);
        table.extend(body);
        kept(table)
    }

    /// The root of some tables: a root pointer of this revision, and a root table with their
    /// addresses.
    fn tables(revision: u8, tables: &[&'static [u8]]) -> Tables {
        let wide = revision > 0;
        let entries = tables.iter().flat_map(|table| {
            let entry = address(table).to_le_bytes();
            entry[..if wide { 8 } else { 4 }].to_vec()
        });
        let root = table(if wide { b"XSDT" } else { b"RSDT" }, &entries.collect::<Vec<u8>>());
        let mut pointer = b"RSD PTR ".to_vec();
        pointer.resize(36, 0);
        pointer[15] = revision;
        pointer[24..32].copy_from_slice(&address(root).to_le_bytes());
        // SAFETY: the bytes are never freed.
        unsafe { Tables::at(address(kept(pointer))) }
    }

    /// A structure of a table: type, length, and bytes.
    fn structure(kind: u8, bytes: &[u8]) -> Vec<u8> {
        [&[kind, bytes.len() as u8 + 2], bytes].concat()
    }

    /// The entry of a processor: a local APIC, or an x2APIC if the number needs more than 8 bits.
    fn processor(apic: u32, enabled: bool) -> Vec<u8> {
        let flags = u32::from(enabled).to_le_bytes();
        match u8::try_from(apic) {
            Ok(apic) => structure(0, &[&[0, apic], &flags[..]].concat()),
            Err(_) => structure(9, &[&[0, 0], &apic.to_le_bytes()[..], &flags, &[0; 4]].concat()),
        }
    }

    fn madt(structures: &[Vec<u8>]) -> &'static [u8] {
        table(b"APIC", &[&[0; 8][..], &structures.concat()].concat())
    }

    /// A memory range of a domain.
    fn memory(domain: u32, start: u64, bytes: u64, enabled: bool) -> Vec<u8> {
        let (start, bytes) = (start.to_le_bytes(), bytes.to_le_bytes());
        let flags = u32::from(enabled).to_le_bytes();
        let of = domain.to_le_bytes();
        structure(1, &[&of[..], &[0; 2], &start, &bytes, &[0; 4], &flags, &[0; 8]].concat())
    }

    /// The domain of a processor.
    fn affinity(apic: u32, domain: u32) -> Vec<u8> {
        let flags = 1u32.to_le_bytes();
        let of = domain.to_le_bytes();
        match u8::try_from(apic) {
            Ok(apic) => {
                structure(0, &[&[of[0], apic], &flags[..], &[0], &of[1..], &[0; 4]].concat())
            }
            Err(_) => {
                structure(2, &[&[0; 2], &of[..], &apic.to_le_bytes(), &flags, &[0; 8]].concat())
            }
        }
    }

    fn srat(structures: &[Vec<u8>]) -> &'static [u8] {
        table(b"SRAT", &[&[0; 12][..], &structures.concat()].concat())
    }

    fn slit(localities: u64, distances: &[u8]) -> &'static [u8] {
        table(b"SLIT", &[&localities.to_le_bytes()[..], distances].concat())
    }

    #[test]
    fn usable_cpus_are_found_in_all_kinds_of_entries() {
        let other = structure(2, &[0; 8]);
        let madt = madt(&[
            processor(0, true),
            other,
            processor(7, false),
            processor(3, true),
            processor(300, true),
            processor(301, false),
        ]);
        assert_eq!(cpus(tables(2, &[slit(0, &[]), madt])).apics(), [0, 3, 300]);
    }

    #[test]
    fn if_there_are_too_many_cpus_the_first_are_used() {
        let all: Vec<_> = (0..40).map(|apic| processor(apic, true)).collect();
        assert_eq!(cpus(tables(2, &[madt(&all)])).apics(), (0..32).collect::<Vec<_>>());
    }

    /// The table is cut off at every byte.
    #[test]
    fn a_table_that_is_cut_off_ends_there() {
        let all = [processor(5, true), processor(300, true), processor(6, true)].concat();
        let whole = |end: usize| match end {
            ..8 => 0,
            8..24 => 1,
            24..32 => 2,
            _ => 3,
        };
        for end in 0..=all.len() {
            let madt = table(b"APIC", &[&[0; 8], &all[..end]].concat());
            let found = cpus(tables(2, &[madt])).apics().len();
            assert_eq!(found, whole(end), "{end} bytes");
        }
        // A structure of length 0 would be read forever.
        let endless = madt(&[processor(5, true), vec![0, 0], processor(6, true)]);
        assert_eq!(cpus(tables(2, &[endless])).apics(), [5]);
    }

    #[test]
    fn without_tables_there_is_one_node_and_no_cpu_is_named() {
        let mut other = b"RSD PTX ".to_vec();
        other.resize(36, 0);
        // SAFETY: bytes that are never freed, and a null address.
        let none = unsafe { [Tables::at(0), Tables::at(address(kept(other)))] };
        for tables in none.into_iter().chain([tables(2, &[])]) {
            assert!(cpus(tables).apics().is_empty());
            let nodes = Topology::new(tables);
            assert_eq!((nodes.count(), nodes.distance(0, 0)), (1, 10));
            assert_eq!(nodes.of_memory(1 << 30), (Default::default(), u64::MAX));
            assert_eq!(nodes.of_cpu(3).get(), 0);
        }
    }

    const GIB: u64 = 1 << 30;

    /// Nodes are the domains that have memory, in the order of their entries.
    #[test]
    fn memory_and_cpus_are_on_the_nodes_that_firmware_says() {
        let srat = srat(&[
            affinity(0, 9),
            affinity(1, 0x0102_0304),
            affinity(300, 9),
            memory(4, 0, 0, true),
            memory(9, 0, GIB, true),
            memory(0x0102_0304, 2 * GIB, GIB, true),
            memory(5, 8 * GIB, GIB, false),
            memory(9, 4 * GIB, GIB, true),
        ]);
        let nodes = Topology::new(tables(2, &[srat]));
        assert_eq!(nodes.count(), 2);
        let of_memory = |at: u64| (nodes.of_memory(at).0.get(), nodes.of_memory(at).1);
        assert_eq!(of_memory(GIB - 1), (0, GIB));
        assert_eq!(of_memory(2 * GIB), (1, 3 * GIB));
        assert_eq!(of_memory(4 * GIB), (0, 5 * GIB));
        // Memory without an entry is on the first node, up to the next memory with an entry.
        assert_eq!(of_memory(GIB), (0, 2 * GIB));
        assert_eq!(of_memory(8 * GIB), (0, u64::MAX));
        assert_eq!([0, 1, 300, 77].map(|apic| nodes.of_cpu(apic).get()), [0, 1, 0, 0]);
        assert_eq!((nodes.distance(0, 0), nodes.distance(0, 1)), (10, 20));
    }

    #[test]
    fn distances_are_those_of_the_domains() {
        let domains = srat(&[memory(1, 0, GIB, true), memory(0, GIB, GIB, true)]);
        let nodes = Topology::new(tables(2, &[domains, slit(2, &[10, 31, 17, 11])]));
        assert_eq!(
            [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| nodes.distance(a, b)),
            [11, 17, 31, 10]
        );
        // A matrix without a domain, and one that is cut off.
        for slit in [slit(1, &[10, 31, 17, 11]), slit(2, &[10])] {
            let nodes = Topology::new(tables(2, &[domains, slit]));
            assert_eq!((nodes.distance(0, 0), nodes.distance(1, 0)), (10, 20));
        }
    }
}

#[test]
fn words_of_the_command_line() {
    let line = CommandLine::new("workload=boot  icount set=a=1 pages=x set=b=2 rounds= boot");
    assert!(line.has("icount") && line.has("boot") && !line.has("workload") && !line.has("x"));
    assert_eq!(line.value("workload"), Some("boot"));
    assert_eq!(line.values("set").collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!((line.value("set"), line.value("work")), (Some("b=2"), None));
    assert_eq!((line.number("pages"), line.number("rounds")), (Err("x"), Err("")));
    assert_eq!((line.number("trials"), line.words().count()), (Ok(None), 7));
    let pairs = ["a=b=c", "a=", "=b", "a"].map(pair);
    assert_eq!(pairs, [Some(("a", "b=c")), Some(("a", "")), Some(("", "b")), None]);
}

#[test]
fn a_command_line_that_is_too_long_is_cut_off() {
    let long = "x ".repeat(600);
    assert_eq!(CommandLine::new(&long).words().count(), 512);
}

fn region(start: u64, end: u64) -> Region {
    Region { start, end }
}

#[test]
fn a_memory_map_consists_of_whole_frames_in_order() {
    let mut map = MemoryMap::new();
    for (start, end) in [(0x9_0001, 0x9_5fff), (0x3_0000, 0x3_1000), (0x5_0fff, 0x5_1001), (9, 9)] {
        map.add(region(start, end));
    }
    // The third region contains no whole frame.
    assert_eq!(map.regions(), [region(0x3_0000, 0x3_1000), region(0x9_1000, 0x9_5000)]);
    assert_eq!((map.end(), MemoryMap::new().end()), (0x9_5000, 0));
}

#[test]
fn a_removed_range_is_in_no_region_of_a_memory_map() {
    let mut map = MemoryMap::new();
    map.add(region(0x1000, 0x9000));
    map.add(region(0xa000, 0x10000));
    map.remove(region(0x2800, 0x2900));
    assert_eq!(map.regions()[..2], [region(0x1000, 0x2000), region(0x3000, 0x9000)]);
    map.remove(region(0x4000, 0xc000));
    map.remove(region(0x10000, 0x20000));
    let left = [region(0x1000, 0x2000), region(0x3000, 0x4000), region(0xc000, 0x10000)];
    assert_eq!(map.regions(), left);
    assert_eq!(map.largest_below(0x10000), Some(left[2]));
    assert_eq!(map.largest_below(0xffff).map(|region| region.bytes()), Some(0x1000));
    assert_eq!(map.largest_below(0x1fff), None);
    // A range up to the last possible address.
    map.remove(region(0x3800, u64::MAX));
    assert_eq!(map.regions(), [left[0]]);
}

#[test]
fn a_full_memory_map_ignores_further_regions() {
    let mut map = MemoryMap::new();
    (0..100u64).rev().for_each(|at| map.add(region(at << 13, (at << 13) + 0x1000)));
    assert_eq!((map.regions().len(), map.regions()[0].start), (64, 36 << 13));
}

/// Multiboot2 boot information of consistent length.
fn multiboot(tags: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut info = vec![0; 8];
    for (kind, body) in tags {
        info.extend(kind.to_le_bytes());
        info.extend((8 + body.len() as u32).to_le_bytes());
        info.extend(body);
        info.resize(info.len().next_multiple_of(8), 0);
    }
    let length = info.len() as u32;
    info[..4].copy_from_slice(&length.to_le_bytes());
    info
}

/// A Multiboot2 memory map with entries of `bytes` bytes: start, length, type.
fn regions(bytes: u32, regions: &[(u64, u64, u32)]) -> Vec<u8> {
    let mut map = [bytes.to_le_bytes(), 0u32.to_le_bytes()].concat();
    for (start, length, kind) in regions {
        let entry = [&start.to_le_bytes()[..], &length.to_le_bytes(), &kind.to_le_bytes()].concat();
        map.extend(&entry);
        map.resize(map.len() + bytes as usize - entry.len(), 0);
    }
    map
}

fn read(info: &[u8]) -> Option<StartInfo> {
    const MULTIBOOT2: u32 = 0x36d7_6289;
    // SAFETY: the information is in `info`.
    unsafe { StartInfo::read(MULTIBOOT2, info.as_ptr() as u64) }
}

#[test]
fn a_loader_s_information_is_read_tag_by_tag() {
    let map = [(0x10_0000, 0x10_0000, 1), (0x40_0000, 0x1000, 2), (0x80_0000, 0x2000, 1)];
    let tags = [
        (9, vec![1, 2, 3]),
        (1, b"workload=boot\0rest".to_vec()),
        (6, regions(32, &map)),
        (14, b"RSD PTR ".to_vec()),
        (0, vec![]),
        (1, b"workload=late\0".to_vec()),
    ];
    let info = multiboot(&tags);
    let start = read(&info).unwrap();
    assert_eq!(start.command_line.value("workload"), Some("boot"));
    let ram = [region(0x10_0000, 0x20_0000), region(0x80_0000, 0x80_2000)];
    assert_eq!(start.memory.regions(), ram);
    let at = (start.rsdp - info.as_ptr() as u64) as usize;
    assert_eq!(&info[at..at + 8], b"RSD PTR ");
}

#[test]
fn information_that_is_cut_off_is_refused() {
    let tags = [(1, b"a\0".to_vec()), (6, regions(24, &[(0, 0x1000, 1)])), (0, vec![])];
    let whole = multiboot(&tags);
    assert!(read(&whole).is_some());
    for end in 8..whole.len() {
        let mut cut = whole[..end].to_vec();
        cut[..4].copy_from_slice(&(end as u32).to_le_bytes());
        assert!(read(&cut).is_none(), "{end} bytes");
    }
    // A tag that is shorter than its header, and a memory map whose entries have 0 bytes.
    let mut short = whole.clone();
    short[12..16].copy_from_slice(&4u32.to_le_bytes());
    assert!(read(&short).is_none());
    let tiny = multiboot(&[(6, regions(24, &[(0, 0x1000, 1)])), (0, vec![])]);
    let mut tiny_entries = tiny.clone();
    tiny_entries[16..20].copy_from_slice(&0u32.to_le_bytes());
    assert_eq!(read(&tiny_entries).unwrap().memory.regions(), [region(0, 0x1000)]);
}

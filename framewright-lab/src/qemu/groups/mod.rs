//! Instructions by group, from a plugin's counts by address (`linux/counter`).
//!
//! | module | job |
//! |---|---|
//! | `counter` | runs QEMU with the plugin, and adds the counts of groups to a run |
//!
//! In the repository's kernel, the source lines of an address determine its group (`addr2line`, of
//! binutils). If functions are inlined into one another, the outermost function of the library
//! decides, or else the innermost of the kernel. On Linux, the name of the function at an address
//! determines the group.

mod counter;

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

pub(super) use counter::Counter;

const ALLOCATOR: &str = "instructions_allocator";
const CLEARING: &str = "instructions_clearing";
const LRU: &str = "instructions_lru";
const RMAP_AND_TABLES: &str = "instructions_rmap_and_tables";
const STATISTICS: &str = "instructions_statistics";
const REST: &str = "instructions_rest";

/// Instructions by address.
type ByAddress = BTreeMap<u64, u64>;
/// Instructions by group.
type ByGroup = BTreeMap<&'static str, u64>;

/// The source of the groups of addresses.
#[derive(Clone, Copy)]
pub(super) enum Names<'n> {
    /// Symbols that Linux has printed.
    OfLinux,
    /// Source lines of the repository's kernel, in this file.
    OfLines(&'n Path),
}

/// The output of `addr2line` for addresses; empty if it is not installed.
fn source_lines(kernel: &Path, counts: &ByAddress) -> String {
    let child = Command::new("addr2line")
        .args(["-a", "-i", "-e"])
        .arg(kernel)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return String::new() };
    let input = child.stdin.take();
    let addresses: String = counts.keys().map(|at| format!("{at:x}\n")).collect();
    let feeder = std::thread::spawn(move || input.map(|mut to| to.write_all(addresses.as_bytes())));
    let output = child.wait_with_output();
    // If writing failed, the child has reported why.
    let _ = feeder.join();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Instructions of the kernel by group: `lines` are addresses, each with the source lines that are
/// inlined there, innermost first.
fn by_line(counts: &ByAddress, lines: &str) -> ByGroup {
    let mut groups = ByGroup::new();
    let mut places: Vec<(u64, Place)> = Vec::new();
    for line in lines.lines() {
        match line.strip_prefix("0x").and_then(|at| u64::from_str_radix(at, 16).ok()) {
            Some(at) => places.push((at, Place::default())),
            None => places.iter_mut().last().into_iter().for_each(|place| place.1.add(line)),
        }
    }
    for (at, place) in places {
        *groups.entry(place.group()).or_default() += counts.get(&at).copied().unwrap_or(0);
    }
    groups
}

/// The source lines at an address, as far as they determine a group.
#[derive(Default)]
struct Place {
    /// The innermost line of the kernel.
    kernel: Option<&'static str>,
    /// The outermost line of the library.
    library: Option<&'static str>,
}

impl Place {
    /// Adds the next line, one level further out.
    fn add(&mut self, line: &str) {
        let Some(group) = group_of_line(line) else { return };
        if line.contains("kernel/src/") {
            self.kernel.get_or_insert(group);
        } else {
            self.library = Some(group);
        }
    }

    /// Clearing is a group of its own, although the library calls the kernel to clear frames.
    fn group(&self) -> &'static str {
        let clearing = self.kernel.filter(|group| *group == CLEARING);
        clearing.or(self.library).or(self.kernel).unwrap_or(REST)
    }
}

/// The code that finds the zone of a frame, in `memory/zones.rs` and `zone/mod.rs`, is mostly
/// called by LRU lists and reverse mappings. It counts for LRU lists, the larger of these two
/// groups.
fn group_of_line(line: &str) -> Option<&'static str> {
    let groups = [
        ("kernel/src/frames.rs", CLEARING),
        ("kernel/src/paging/", RMAP_AND_TABLES),
        ("kernel/src/rmap.rs", RMAP_AND_TABLES),
        ("kernel/src/shootdown.rs", RMAP_AND_TABLES),
        ("framewright/src/tlb/", RMAP_AND_TABLES),
        ("framewright/src/reclaim/", LRU),
        ("framewright/src/memory/zones.rs", LRU),
        ("framewright/src/memory/side_tables.rs", RMAP_AND_TABLES),
        ("framewright/src/zone/mod.rs", LRU),
        ("framewright/src/alloc/", ALLOCATOR),
        ("framewright/src/pcp/", ALLOCATOR),
        ("framewright/src/buddy/", ALLOCATOR),
        ("framewright/src/zone/", ALLOCATOR),
    ];
    groups.into_iter().find(|(folder, _)| line.contains(folder)).map(|(_, group)| group)
}

/// Lower addresses belong to programs.
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// Groups, each with prefixes or parts of the names of its functions. The last group that matches
/// counts. Checks of lists and charges of control groups, which the repository's kernel does not
/// have, count as statistics.
const GROUPS: [(&str, &[&str]); 5] = [
    (CLEARING, &["clear_page"]),
    (
        ALLOCATOR,
        &[
            "__alloc_pages",
            "get_page_from_freelist",
            "rmqueue",
            "__rmqueue",
            "free_unref",
            "free_pcp",
            "__free_one_page",
            "__free_pages",
            "free_pages",
            "prep_new_page",
            "post_alloc_hook",
            "check_new_pages",
            "__mod_zone_page_state",
            "__zone_watermark",
            "free_unref_page_list",
            "__folio_alloc",
            "__get_free_pages",
        ],
    ),
    (
        LRU,
        &[
            "lru_",
            "folio_add_lru",
            "folio_batch_move_lru",
            "release_pages",
            "__folio_batch_release",
            "free_pages_and_swap_cache",
            "free_swap_cache",
            "folio_lruvec",
        ],
    ),
    (
        RMAP_AND_TABLES,
        &[
            "page_add_",
            "page_remove_rmap",
            "__page_set_anon_rmap",
            "anon_vma",
            "__anon_vma",
            "unmap_page_range",
            "unmap_vmas",
            "tlb_",
            "__tlb",
            "pte_",
            "__pte",
            "pmd_",
            "pud_",
            "p4d_",
            "pgd_",
            "pfn_pte",
            "vm_normal_page",
            "free_pgtables",
            "free_pgd_range",
            "page_table",
        ],
    ),
    (
        STATISTICS,
        &[
            "memcg",
            "mem_cgroup",
            "cgroup",
            "charge_",
            "uncharge_",
            "lruvec",
            "__mod_node_page_state",
            "__mod_lruvec",
            "__count_",
            "count_memcg",
            "__list_add_valid",
            "__list_del_entry_valid",
        ],
    ),
];

/// Instructions of Linux by group: `symbols` are addresses and names.
fn by_symbol(counts: &ByAddress, symbols: &str) -> ByGroup {
    let mut functions = BTreeMap::new();
    for (at, name) in symbols.lines().filter_map(|line| line.split_once(' ')) {
        if let Ok(at) = u64::from_str_radix(at, 16) {
            functions.insert(at, name);
        }
    }
    let mut groups = ByGroup::new();
    for (&at, &count) in counts.range(KERNEL..) {
        if let Some((_, name)) = functions.range(..=at).next_back() {
            *groups.entry(group_of(name)).or_default() += count;
        }
    }
    groups
}

fn group_of(name: &str) -> &'static str {
    let fits = |parts: &[&str]| parts.iter().any(|part| name.starts_with(part));
    // Names of functions for statistics may contain the part anywhere.
    let is_statistics = |group: &str, parts: &[&str]| {
        group == STATISTICS && parts.iter().any(|part| name.contains(part))
    };
    let found =
        GROUPS.iter().rev().find(|(group, parts)| fits(parts) || is_statistics(group, parts));
    found.map_or(REST, |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::{counter::counts, *};

    #[test]
    fn the_outermost_line_of_the_library_determines_the_group() {
        let lines = "0x0000000000000010\n/x/core/num.rs:1\n/x/framewright/src/buddy/take.rs:7\n\
                     /x/framewright/src/reclaim/lru.rs:9\n0x0000000000000020\n??:?\n";
        let groups = by_line(&ByAddress::from([(0x10, 5), (0x20, 2)]), lines);
        assert_eq!(groups, ByGroup::from([(LRU, 5), (REST, 2)]));
    }

    #[test]
    fn each_function_is_in_one_group() {
        for (name, group) in [
            ("clear_page_rep", CLEARING),
            ("get_page_from_freelist", ALLOCATOR),
            ("__mod_zone_page_state", ALLOCATOR),
            ("release_pages", LRU),
            ("lru_add_fn", LRU),
            ("__mod_memcg_lruvec_state", STATISTICS),
            ("__list_del_entry_valid", STATISTICS),
            ("page_remove_rmap", RMAP_AND_TABLES),
            ("handle_mm_fault", REST),
        ] {
            assert_eq!(group_of(name), group, "{name}");
        }
    }

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = "ffffffff81000000 clear_page_rep\nffffffff81000010 release_pages\n";
        let text = "401000 7\nffffffff81000000 1\nffffffff8100000f 2\nffffffff81000011 4\n";
        let groups = by_symbol(&counts(text), symbols);
        assert_eq!(groups[CLEARING], 3);
        assert_eq!(groups[LRU], 4);
        assert_eq!(groups.len(), 2);
    }
}

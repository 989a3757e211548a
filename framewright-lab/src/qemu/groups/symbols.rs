//! Linux, whose functions are small: its symbols say what an address belongs to.

use std::collections::BTreeMap;

use super::{ALLOCATOR, ByAddress, ByGroup, CLEARING, LRU, REST, RMAP_AND_TABLES, STATISTICS};

/// Below are programs.
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// Groups, and how the names of their functions begin or what is in them; the last that fits. What
/// lists check and what groups of processes are charged is counted with neither: our kernel has none.
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
pub(super) fn by_group(counts: &ByAddress, symbols: &str) -> ByGroup {
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
    // Statistics have names of all sorts.
    let is_statistics = |group: &str, parts: &[&str]| {
        group == STATISTICS && parts.iter().any(|part| name.contains(part))
    };
    let found =
        GROUPS.iter().rev().find(|(group, parts)| fits(parts) || is_statistics(group, parts));
    found.map_or(REST, |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::{super::counter::counts, *};

    #[test]
    fn functions_are_of_one_group() {
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
    fn addresses_are_of_the_function_before_them() {
        let symbols = "ffffffff81000000 clear_page_rep\nffffffff81000010 release_pages\n";
        let text = "401000 7\nffffffff81000000 1\nffffffff8100000f 2\nffffffff81000011 4\n";
        let groups = by_group(&counts(text), symbols);
        assert_eq!(groups[CLEARING], 3);
        assert_eq!(groups[LRU], 4);
        assert_eq!(groups.len(), 2);
    }
}

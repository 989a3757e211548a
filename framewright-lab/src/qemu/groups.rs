//! Instructions by group, from a plugin's counts by address (`linux/counter`).
//!
//! What an address belongs to, Linux says itself: its symbols. Its functions are small. In our kernel much
//! is inlined, so it is the lines of the source that say it (`addr2line`, of binutils): of the functions
//! that are inlined into one another at an address, the outermost that is the library's, or else the
//! innermost of the kernel's.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use super::{boot::QEMU, build};
use crate::report::{Better, Metric, Run, Unit};

/// Below are programs.
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// Groups, and how the names of their functions begin or what is in them; the last that fits. What
/// lists check and what groups of processes are charged is counted with neither: our kernel has none.
const GROUPS: [(&str, &[&str]); 5] = [
    (CLEARING, &["clear_page"]),
    (
        "instructions_allocator",
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
        "instructions_lru",
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
        "instructions_rmap_and_tables",
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
        "instructions_statistics",
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
const CLEARING: &str = "instructions_clearing";
const REST: &str = "instructions_rest";

/// What says to whom an address belongs.
#[derive(Clone, Copy)]
pub(super) enum Names<'n> {
    /// Symbols that Linux has told.
    OfLinux,
    /// Lines of the source of our kernel, in this file.
    OfLines(&'n Path),
}

/// What has QEMU count instructions by address.
pub(super) struct Counter {
    plugin: PathBuf,
    folder: TempDir,
}

impl Counter {
    /// Builds it, and sees whether everything is there that it takes.
    ///
    /// # Errors
    ///
    /// Why there are no groups, for people.
    pub(super) fn build() -> Result<Self, String> {
        if Command::new("addr2line").arg("--version").output().is_err() {
            return Err("there is no addr2line, of binutils".to_owned());
        }
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| format!("there is no temporary folder: {error}"))?;
        let plugin = build::instruction_counter();
        let plugin = plugin.map_err(|error| format!("QEMU's plugin cannot be had: {error}"))?;
        let counter = Self { plugin, folder };
        counter.is_loaded_by(QEMU).map(|()| counter)
    }

    /// Whether a QEMU loads the plugin, which speaks its language of 7 and 8: a machine without anything is
    /// started with it, and quit.
    fn is_loaded_by(&self, qemu: &str) -> Result<(), String> {
        let child = Command::new(qemu)
            .args(["-M", "none", "-accel", "tcg", "-nodefaults", "-display", "none", "-S"])
            .args(["-monitor", "stdio", "-plugin", &self.option()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let ended = child.and_then(|mut child| {
            // One that has refused already does not listen.
            let _ = child.stdin.take().map(|mut to| to.write_all(b"quit\n"));
            child.wait_with_output()
        });
        match ended {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let why = said.lines().find(|line| !line.trim().is_empty());
                Err(format!("this QEMU does not load the plugin: {}", why.unwrap_or("no reason")))
            }
            Err(error) => Err(format!("QEMU does not start: {error}")),
        }
    }

    fn option(&self) -> String {
        format!("file={},out={}", self.plugin.display(), self.counts().display())
    }

    fn counts(&self) -> PathBuf {
        self.folder.path().join("counts")
    }

    fn symbols(&self) -> PathBuf {
        self.folder.path().join("symbols")
    }

    /// Options of QEMU: the plugin, and a port for the symbols.
    pub(super) fn arguments(&self) -> Vec<String> {
        let symbols = format!("file,id=symbols,path={}", self.symbols().display());
        let port = "isa-debugcon,iobase=0xe9,chardev=symbols";
        ["-plugin", &self.option(), "-chardev", &symbols, "-device", port]
            .map(str::to_owned)
            .to_vec()
    }

    /// Adds what each group took in the boot that has just ended, per page, to its run; nothing if that
    /// cannot be told.
    pub(super) fn add_groups(&self, run: &mut Run, names: Names<'_>) {
        let counts = counts(&fs::read_to_string(self.counts()).unwrap_or_default());
        let groups = match names {
            Names::OfLinux => {
                of_symbols(&counts, &fs::read_to_string(self.symbols()).unwrap_or_default())
            }
            Names::OfLines(kernel) => of_lines(&counts, &lines(kernel, &counts)),
        };
        let Some(pages) = run.metrics.get("pages").map(|pages| pages.median) else { return };
        for (group, instructions) in groups {
            let metric =
                Metric::once(instructions as f64 / pages, Unit::Ratio, Some(Better::Lower));
            run.metrics.insert(group.to_owned(), metric);
        }
    }
}

/// Counts by address.
fn counts(text: &str) -> BTreeMap<u64, u64> {
    let count = |line: &str| {
        let (at, count) = line.split_once(' ')?;
        Some((u64::from_str_radix(at, 16).ok()?, count.parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

/// What `addr2line` says of addresses; nothing if there is none.
fn lines(kernel: &Path, counts: &BTreeMap<u64, u64>) -> String {
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
    // Who does not listen has said why.
    let _ = feeder.join();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Instructions of our kernel by group: `lines` are addresses, each with the lines of the source that
/// are inlined there, innermost first.
fn of_lines(counts: &BTreeMap<u64, u64>, lines: &str) -> BTreeMap<&'static str, u64> {
    let mut groups = BTreeMap::new();
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

/// The lines at an address, as far as they say whose it is.
#[derive(Default)]
struct Place {
    /// Of the kernel, the innermost.
    kernel: Option<&'static str>,
    /// Of the library, the outermost.
    library: Option<&'static str>,
}

impl Place {
    /// The next line, further out.
    fn add(&mut self, line: &str) {
        let Some(group) = group_of_line(line) else { return };
        if line.contains("kernel/src/") {
            self.kernel.get_or_insert(group);
        } else {
            self.library = Some(group);
        }
    }

    /// Clearing is done for the library.
    fn group(&self) -> &'static str {
        let clearing = self.kernel.filter(|group| *group == CLEARING);
        clearing.or(self.library).or(self.kernel).unwrap_or(REST)
    }
}

/// Finding the zone of a frame is in `memory` and `zone`, and done for LRU lists and reverse mappings
/// most of the time; of the two it is the larger that has it.
fn group_of_line(line: &str) -> Option<&'static str> {
    let rooms = [
        ("kernel/src/frames.rs", CLEARING),
        ("kernel/src/paging/", "instructions_rmap_and_tables"),
        ("kernel/src/rmap.rs", "instructions_rmap_and_tables"),
        ("kernel/src/shootdown.rs", "instructions_rmap_and_tables"),
        ("framewright/src/tlb/", "instructions_rmap_and_tables"),
        ("framewright/src/reclaim/", "instructions_lru"),
        ("framewright/src/memory/zones.rs", "instructions_lru"),
        ("framewright/src/memory/planes.rs", "instructions_rmap_and_tables"),
        ("framewright/src/zone/mod.rs", "instructions_lru"),
        ("framewright/src/alloc/", "instructions_allocator"),
        ("framewright/src/pcp/", "instructions_allocator"),
        ("framewright/src/buddy/", "instructions_allocator"),
        ("framewright/src/zone/", "instructions_allocator"),
    ];
    rooms.into_iter().find(|(room, _)| line.contains(room)).map(|(_, group)| group)
}

/// Instructions of Linux by group: `symbols` are addresses and names.
fn of_symbols(counts: &BTreeMap<u64, u64>, symbols: &str) -> BTreeMap<&'static str, u64> {
    let mut functions = BTreeMap::new();
    for (at, name) in symbols.lines().filter_map(|line| line.split_once(' ')) {
        if let Ok(at) = u64::from_str_radix(at, 16) {
            functions.insert(at, name);
        }
    }
    let mut groups = BTreeMap::new();
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
        group == "instructions_statistics" && parts.iter().any(|part| name.contains(part))
    };
    let found =
        GROUPS.iter().rev().find(|(group, parts)| fits(parts) || is_statistics(group, parts));
    found.map_or(REST, |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A QEMU that says something and ends so, and whether it is said to load a plugin.
    fn loaded_by(script: &str) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let qemu = folder.path().join("qemu");
        fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        let counter = Counter { plugin: "x.so".into(), folder: tempfile::tempdir().unwrap() };
        counter.is_loaded_by(qemu.to_str().unwrap())
    }

    #[test]
    fn a_qemu_that_refuses_the_plugin_is_a_reason_and_no_failure() {
        assert_eq!(loaded_by("cat >/dev/null"), Ok(()));
        let why = loaded_by("echo 'plugin requires API version 1' >&2; exit 1").unwrap_err();
        assert_eq!(why, "this QEMU does not load the plugin: plugin requires API version 1");
    }

    #[test]
    fn functions_are_of_one_group() {
        for (name, group) in [
            ("clear_page_rep", "instructions_clearing"),
            ("get_page_from_freelist", "instructions_allocator"),
            ("__mod_zone_page_state", "instructions_allocator"),
            ("release_pages", "instructions_lru"),
            ("lru_add_fn", "instructions_lru"),
            ("__mod_memcg_lruvec_state", "instructions_statistics"),
            ("__list_del_entry_valid", "instructions_statistics"),
            ("page_remove_rmap", "instructions_rmap_and_tables"),
            ("handle_mm_fault", REST),
        ] {
            assert_eq!(group_of(name), group, "{name}");
        }
    }

    #[test]
    fn addresses_are_of_the_function_before_them() {
        let symbols = "ffffffff81000000 clear_page_rep\nffffffff81000010 release_pages\n";
        let counts = "401000 7\nffffffff81000000 1\nffffffff8100000f 2\nffffffff81000011 4\n";
        let groups = of_symbols(&super::counts(counts), symbols);
        assert_eq!(groups["instructions_clearing"], 3);
        assert_eq!(groups["instructions_lru"], 4);
        assert_eq!(groups.len(), 2);
    }

    #[test]
    fn lines_are_of_the_outermost_room() {
        let lines = "0x0000000000000010\n/x/core/num.rs:1\n/x/framewright/src/buddy/take.rs:7\n\
                     /x/framewright/src/reclaim/lru.rs:9\n0x0000000000000020\n??:?\n";
        let groups = of_lines(&BTreeMap::from([(0x10, 5), (0x20, 2)]), lines);
        assert_eq!(groups, BTreeMap::from([("instructions_lru", 5), (REST, 2)]));
    }
}

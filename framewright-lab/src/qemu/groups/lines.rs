//! Our kernel, in which much is inlined: the lines of the source say what an address belongs to (`addr2line`,
//! of binutils). Of the functions that are inlined into one another there it is the outermost that is the
//! library's, or else the innermost of the kernel's.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use super::{ALLOCATOR, ByAddress, ByGroup, CLEARING, LRU, REST, RMAP_AND_TABLES};

/// What `addr2line` says of addresses; nothing if there is none.
pub(super) fn of(kernel: &Path, counts: &ByAddress) -> String {
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
pub(super) fn by_group(counts: &ByAddress, lines: &str) -> ByGroup {
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
    rooms.into_iter().find(|(room, _)| line.contains(room)).map(|(_, group)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_of_the_outermost_room() {
        let lines = "0x0000000000000010\n/x/core/num.rs:1\n/x/framewright/src/buddy/take.rs:7\n\
                     /x/framewright/src/reclaim/lru.rs:9\n0x0000000000000020\n??:?\n";
        let groups = by_group(&ByAddress::from([(0x10, 5), (0x20, 2)]), lines);
        assert_eq!(groups, ByGroup::from([(LRU, 5), (REST, 2)]));
    }
}

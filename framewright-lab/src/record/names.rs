//! The names of tasks, the events of a recording, and the tables of `/proc`.
//!
//! An event has only the number of its task. The kernel stores the names of the tasks that ran
//! last, 128 by default; a compilation exceeds that within a second, and all tracers share the
//! setting. The names of all tasks are therefore read at the start. Two events report every change:
//! `task_newtask` (a child has its parent's name) and `task_rename`.

use std::{collections::HashMap, fs, path::Path};

use super::{
    format::{Field, Format},
    lost::RecordError,
};

/// The kernel's text for a task without a known name.
const UNKNOWN: &[u8] = b"<...>";

/// Names by number, at the current position in the recording.
#[derive(Clone, Debug)]
pub(super) struct Names {
    names: HashMap<i32, Box<[u8]>>,
    changes: Vec<Change>,
}

/// An event that names a task.
#[derive(Clone, Debug)]
struct Change {
    id: u16,
    pid: Field,
    name: Field,
}

impl Names {
    /// Creates a table with the idle task alone. Later, the events of `formats` that contain the
    /// name of a task change it ([`Names::note`]).
    pub(super) fn new(formats: &[Format]) -> Self {
        let change = |format: &Format| {
            let name = format.field("newcomm").or_else(|| format.field("comm"))?;
            Some(Change { id: format.id, pid: format.field("pid")?.clone(), name: name.clone() })
        };
        Self {
            names: HashMap::from([(0, (*b"<idle>").into())]),
            changes: formats.iter().filter_map(change).collect(),
        }
    }

    /// Reads the names of all tasks in `proc`. Unreadable ones stay unknown.
    pub(super) fn learn(&mut self, proc: &Path) {
        for task in numbered(proc).flat_map(|(_, process)| numbered(&process.join("task"))) {
            if let Ok(name) = fs::read(task.1.join("comm")) {
                let name = name.strip_suffix(b"\n").unwrap_or(&name);
                self.names.insert(task.0, name.into());
            }
        }
    }

    /// Numbers of the events that [`Names::note`] uses.
    pub(super) fn events(&self) -> Vec<u16> {
        self.changes.iter().map(|change| change.id).collect()
    }

    /// If `event` names a task, stores the name and returns `true`.
    #[inline]
    pub(super) fn note(&mut self, id: u16, event: &[u8]) -> bool {
        let Some(change) = self.changes.iter().find(|change| change.id == id) else {
            return false;
        };
        let pid = change.pid.number(event) as i32;
        self.names.insert(pid, change.name.text(event).into());
        true
    }

    /// The name of a task.
    #[inline]
    pub(super) fn of(&self, pid: i32) -> &[u8] {
        self.names.get(&pid).map_or(UNKNOWN, |name| name)
    }
}

/// The entries of a folder whose names are numbers.
fn numbered(folder: &Path) -> impl Iterator<Item = (i32, std::path::PathBuf)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path()))
    })
}

/// Whether `/proc` numbers tasks as the kernel's events do. In a container it does not.
pub(super) fn proc_uses_initial_pid_namespace() -> bool {
    // The inode number of the initial PID namespace, the same on every Linux.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() == FIRST)
}

/// An event of the kernel, by subsystem and name.
pub(crate) struct Wanted {
    /// Its subsystem; an empty name stands for all events of it.
    pub(super) subsystem: &'static str,
    pub(super) name: &'static str,
    /// Whether a recording needs it; others are omitted if a kernel lacks them.
    pub(super) needed: bool,
}

const fn needed(subsystem: &'static str, name: &'static str) -> Wanted {
    Wanted { subsystem, name, needed: true }
}

const fn optional(subsystem: &'static str, name: &'static str) -> Wanted {
    Wanted { subsystem, name, needed: false }
}

/// The events of a recording.
pub(crate) const RECORDED: &[Wanted] = &[
    needed("kmem", "mm_page_alloc"),
    needed("kmem", "mm_page_free"),
    optional("kmem", "mm_page_free_batched"),
    optional("kmem", "mm_page_pcpu_drain"),
    optional("kmem", "mm_page_alloc_zone_locked"),
    optional("kmem", "mm_page_alloc_extfrag"),
    // Proposed; no released kernel has it.
    optional("kmem", "mm_zone_locked"),
    optional("lock", "contention_begin"),
    optional("lock", "contention_end"),
    optional("compaction", ""),
    optional("tlb", "tlb_flush"),
    optional("vmscan", "mm_vmscan_kswapd_wake"),
    optional("vmscan", "mm_vmscan_kswapd_sleep"),
    optional("vmscan", "mm_vmscan_wakeup_kswapd"),
    optional("vmscan", "mm_vmscan_direct_reclaim_begin"),
    optional("vmscan", "mm_vmscan_direct_reclaim_end"),
];

/// The events of waits for locks.
pub(crate) const LOCKS: &[Wanted] = &[
    optional("kmem", "mm_zone_locked"),
    needed("lock", "contention_begin"),
    needed("lock", "contention_end"),
];

/// Events with the names of tasks. They are not recorded.
pub(super) const NAMING: &[Wanted] =
    &[optional("task", "task_newtask"), optional("task", "task_rename")];

/// The tables of `/proc` that are recorded. Only the first is required.
const TABLES: [&str; 4] = ["zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat"];

/// Reads the tables in `proc`, each after a line with its name.
pub(super) fn read(proc: &Path) -> Result<String, RecordError> {
    let mut text = String::new();
    for (index, table) in TABLES.into_iter().enumerate() {
        let file = proc.join(table);
        match fs::read_to_string(&file) {
            Ok(rows) => {
                text.push_str("# ");
                text.push_str(table);
                text.push('\n');
                text.push_str(&rows);
            }
            Err(reason) if index == 0 => return Err(RecordError::kernel("reading", &file, reason)),
            Err(_) => {}
        }
    }
    Ok(text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::trace::Snapshot;

    pub(in crate::record) const NEWTASK: &str = "\
name: task_newtask
ID: 205
format:
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;

print fmt: \"pid=%d comm=%s\", REC->pid, REC->comm
";

    pub(in crate::record) fn newtask(pid: i32, name: &str) -> Vec<u8> {
        let mut event = vec![0; 28];
        event[..2].copy_from_slice(&205u16.to_ne_bytes());
        event[8..12].copy_from_slice(&pid.to_ne_bytes());
        event[12..12 + name.len()].copy_from_slice(name.as_bytes());
        event
    }

    #[test]
    fn names_come_from_proc_and_from_events() {
        let proc = tempfile::tempdir().unwrap();
        for (task, name) in [("7/task/7", "bash\n"), ("7/task/8", "a b\n"), ("self/task/9", "x\n")]
        {
            fs::create_dir_all(proc.path().join(task)).unwrap();
            fs::write(proc.path().join(task).join("comm"), name).unwrap();
        }
        let mut names = Names::new(&[Format::parse(NEWTASK).unwrap()]);
        names.learn(proc.path());
        let read = |names: &Names, pid| String::from_utf8(names.of(pid).to_vec()).unwrap();
        assert_eq!(read(&names, 0), "<idle>");
        assert_eq!(read(&names, 7), "bash");
        assert_eq!(read(&names, 8), "a b");
        assert_eq!(read(&names, 9), "<...>");
        assert_eq!(names.events(), [205]);
        assert!(names.note(205, &newtask(9, "rustc")));
        assert!(!names.note(653, &newtask(9, "other")));
        assert_eq!(read(&names, 9), "rustc");
    }

    #[test]
    fn this_kernel_s_tables_are_a_snapshot() {
        let text = read(Path::new("/proc")).unwrap();
        assert!(Snapshot::parse("tables", text.as_bytes()).unwrap().managed() > 0);
    }

    #[test]
    fn only_zoneinfo_is_required() {
        let proc = tempfile::tempdir().unwrap();
        assert!(read(proc.path()).unwrap_err().to_string().contains("zoneinfo"));
        fs::write(proc.path().join("zoneinfo"), "z\n").unwrap();
        fs::write(proc.path().join("vmstat"), "v 1\n").unwrap();
        assert_eq!(read(proc.path()).unwrap(), "# zoneinfo\nz\n# vmstat\nv 1\n");
    }
}

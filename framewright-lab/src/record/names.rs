//! How tasks are called.
//!
//! An event carries the number of its task alone. The kernel keeps the names of the last few tasks
//! it switched to, 128 unless told otherwise, which a compile exceeds within a second; and that
//! setting is for all tracers. So the names of all tasks are read at the start, and two events tell
//! of every change: `task_newtask` (a child is called as its parent) and `task_rename`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::format::{Field, Format};

/// What the kernel prints for a task whose name it does not know.
const UNKNOWN: &[u8] = b"<...>";

/// Names by number, at the moment that the recording has been read up to.
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
    /// Knows the idle task alone, and will understand those of `formats` that name tasks.
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

    /// Learns the names of all tasks that `proc` lists. What cannot be read stays unknown.
    pub(super) fn learn(&mut self, proc: &Path) {
        for task in numbered(proc).flat_map(|(_, process)| numbered(&process.join("task"))) {
            if let Ok(name) = fs::read(task.1.join("comm")) {
                let name = name.strip_suffix(b"\n").unwrap_or(&name);
                self.names.insert(task.0, name.into());
            }
        }
    }

    /// Numbers of the events that [`Names::note`] wants to see.
    pub(super) fn events(&self) -> Vec<u16> {
        self.changes.iter().map(|change| change.id).collect()
    }

    /// If `event` names a task, takes note of it and says so.
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

/// Whether `/proc` numbers tasks as the kernel's events do: not so inside a container.
pub(super) fn proc_counts_as_the_kernel() -> bool {
    // The number that the first namespace of process numbers has on every Linux.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() == FIRST)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

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
}

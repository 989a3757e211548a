//! The kernel's tables at one moment, in the form that [`Snapshot`](crate::trace::Snapshot) reads.

use std::fs;
use std::path::Path;

use super::error::RecordError;

/// Only the first must be there.
const TABLES: [&str; 4] = ["zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat"];

/// Reads the tables in `proc`, each behind a line with its name.
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
mod tests {
    use super::*;
    use crate::trace::Snapshot;

    #[test]
    fn this_kernel_s_tables_are_a_snapshot() {
        let text = read(Path::new("/proc")).unwrap();
        assert!(Snapshot::parse("tables", text.as_bytes()).unwrap().managed() > 0);
    }

    #[test]
    fn only_zoneinfo_must_be_there() {
        let proc = tempfile::tempdir().unwrap();
        assert!(read(proc.path()).unwrap_err().to_string().contains("zoneinfo"));
        fs::write(proc.path().join("zoneinfo"), "z\n").unwrap();
        fs::write(proc.path().join("vmstat"), "v 1\n").unwrap();
        assert_eq!(read(proc.path()).unwrap(), "# zoneinfo\nz\n# vmstat\nv 1\n");
    }
}

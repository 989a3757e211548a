//! A setting of the kernel that is changed for a while.
//!
//! A child process waits for the end of this one, or of the change, and then restores the value: the
//! value is restored even if this process is killed. The child ignores the signals that a terminal
//! sends. It keeps the file locked, so that two programs do not take each other's value for that of
//! the machine.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

/// Reads to the end of its input, and then writes a value into a file.
const RESTORE: &str = "trap '' INT TERM HUP QUIT; cat > /dev/null; echo \"$2\" > \"$1\"";

/// A changed setting; restored when it is dropped.
#[derive(Debug)]
pub(crate) struct Setting {
    child: Child,
    /// The child restores the value when this is closed, also by the end of this process.
    alive: Option<ChildStdin>,
}

impl Setting {
    /// Writes `value` into the file of a setting. If the file lists all values with the present one in
    /// brackets, that one is restored.
    ///
    /// # Errors
    ///
    /// A reason: no permission, no such setting, or another program has changed it for a while.
    pub(crate) fn change(file: &Path, value: &str) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot change '{}': {error}", file.display());
        let lock = File::open(file).map_err(fail)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                format!("'{}' is being changed by another program", file.display())
            }
            TryLockError::Error(error) => fail(error),
        })?;
        let before = fs::read_to_string(file).map_err(fail)?;
        let child = Command::new("sh")
            .args(["-c", RESTORE, "sh"])
            .arg(file)
            .arg(present(&before))
            .process_group(0)
            .stdin(Stdio::piped())
            // Only keeps the lock: the script writes to the file by its name.
            .stdout(lock)
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.map_err(|error| format!("cannot start 'sh': {error}"))?;
        let alive = child.stdin.take();
        let setting = Self { child, alive };
        fs::write(file, value).map_err(fail)?;
        Ok(setting)
    }
}

/// The present value of a setting: the text of its file, or the word in brackets.
pub(crate) fn present(text: &str) -> &str {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(text.trim())
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.alive = None;
        // An error means that the child has ended already.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, thread, time::Duration};

    fn file(value: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), value).unwrap();
        file
    }

    fn value(path: &Path) -> String {
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    #[test]
    fn a_value_is_restored_at_the_end() {
        let file = file("17\n");
        let setting = Setting::change(file.path(), "100000").unwrap();
        assert_eq!(value(file.path()), "100000");
        drop(setting);
        assert_eq!(value(file.path()), "17");
    }

    #[test]
    fn the_chosen_one_of_several_values_is_restored() {
        let file = file("always defer [madvise] never\n");
        drop(Setting::change(file.path(), "never").unwrap());
        assert_eq!(value(file.path()), "madvise");
        assert_eq!((present("17\n"), present("a [b]\n"), present("")), ("17", "b", ""));
    }

    #[test]
    fn a_second_change_at_the_same_time_is_refused() {
        let file = file("17");
        let first = Setting::change(file.path(), "1").unwrap();
        let error = Setting::change(file.path(), "2").unwrap_err();
        assert!(error.contains("by another program"), "{error}");
        assert_eq!(value(file.path()), "1");
        drop(first);
        drop(Setting::change(file.path(), "3").unwrap());
        assert_eq!(value(file.path()), "17");
    }

    #[test]
    fn a_missing_setting_is_named() {
        let error = Setting::change(Path::new("/nowhere/setting"), "1").unwrap_err();
        assert!(error.contains("'/nowhere/setting': No such file"), "{error}");
    }

    /// The variable with the file for [`changes_and_is_killed`].
    const KILLED: &str = "FRAMEWRIGHT_TEST_SETTING";

    /// Not a test of its own: the next one runs it in a process, and kills that.
    #[test]
    fn changes_and_is_killed() {
        let Some(file) = env::var_os(KILLED) else { return };
        let _setting = Setting::change(Path::new(&file), "100000").unwrap();
        loop {
            thread::park();
        }
    }

    #[test]
    fn a_value_is_restored_though_the_program_is_killed() {
        let file = file("17");
        let test = "setting::tests::changes_and_is_killed";
        let mut program = Command::new(env::current_exe().unwrap())
            .args(["--exact", test])
            .env(KILLED, file.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let wait_for = |expected: &str| {
            while value(file.path()) != expected {
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for("100000");
        program.kill().unwrap();
        program.wait().unwrap();
        wait_for("17");
    }
}

//! `record`: arguments that it refuses, and recordings of the running kernel. If the kernel cannot
//! be traced (no root, no tracefs), the tests of recordings print that they were skipped, and pass.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{framewright, stdout_of};

/// Small buffers: tests record little.
const SMALL: [&str; 3] = ["record", "--buffer", "4MiB"];

/// A folder for a recording, if tests can record on this machine.
fn folder() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_framewright"))
        .args(["record", "--for", "1ms", "-o"])
        .arg(folder.path().join("probe"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot record: ") {
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{said}");
        eprintln!("skipped: {said}");
        return None;
    }
    Some(folder)
}

/// A running `record`.
struct Recorder {
    child: Child,
    name: PathBuf,
}

impl Recorder {
    fn start(folder: &Path, command: &[&str]) -> Self {
        let name = folder.join("a");
        let child = Command::new(env!("CARGO_BIN_EXE_framewright"))
            .args(SMALL)
            .arg("-o")
            .arg(&name)
            .arg("--")
            .args(command)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The recording has started when its command has started; without a command, after some
        // time.
        let began = folder.join("began");
        let deadline =
            Instant::now() + Duration::from_secs(if command.is_empty() { 1 } else { 20 });
        while !began.exists() && Instant::now() < deadline {
            sleep(Duration::from_millis(10));
        }
        assert!(command.is_empty() || began.exists());
        Self { child, name }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }
}

fn replays(name: &Path) {
    let text = stdout_of(&["replay", &format!("{}.txt.zst", name.display())]);
    assert!(text.contains("from the kernel's tables"), "{text}");
}

/// A command that announces its start and then waits.
fn waiting(folder: &Path) -> String {
    format!("touch {}/began; exec sleep 20", folder.display())
}

#[test]
fn bad_names_are_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there.txt.zst");
    fs::write(&there, "precious").unwrap();
    let refused = |name: &Path, hints: &[&str]| {
        let name = name.to_str().unwrap();
        let assert =
            framewright(&["record", "-o", name, "--", "false"]).assert().code(2).stdout("");
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert_eq!(said.lines().count(), 1, "{said}");
        for hint in hints {
            assert!(said.contains(hint), "'{hint}' is missing in: {said}");
        }
    };
    refused(&there, &["there.txt.zst", "it exists", "-o", "--force"]);
    refused(&folder.path().join("there"), &["there.txt.zst", "it exists"]);
    refused(folder.path(), &["it is a folder"]);
    refused(Path::new("/dev/null"), &["/dev/null", "a device"]);
    refused(&folder.path().join("nowhere/a"), &["nowhere/a.txt.zst", "No such file"]);
    assert_eq!(fs::read(&there).unwrap(), b"precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn bad_times_and_buffers() {
    for (option, value, hint) in [
        ("--for", "soon", "as in 10s"),
        ("--for", "10", "as in 10s"),
        ("--for", "-1s", "as in 10s"),
        ("--buffer", "1", "the minimum is 64KiB"),
        ("--buffer", "much", "as in 64MiB"),
    ] {
        let assert = framewright(&["record", option, value]).assert().code(2).stdout("");
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains(hint) && said.contains(option), "{said}");
    }
}

#[test]
fn a_command_is_recorded_and_its_exit_code_passed_on() {
    let Some(folder) = folder() else { return };
    let name = folder.path().join("a");
    let script = "echo output; ls / >/dev/null; exit 3";
    let args = [&SMALL[..], &["-o", name.to_str().unwrap(), "--", "sh", "-c", script]].concat();
    let assert = framewright(&args).assert().code(3).stdout("output\n");
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("sh: exit code 3") && said.contains(" events in "), "{said}");
    replays(&name);

    // The recording exists now. It is replaced only with --force, and only by a complete recording.
    framewright(&args).assert().code(2);
    let forced = |command| {
        let name = name.to_str().unwrap();
        framewright(&[&SMALL[..], &["--force", "-o", name, "--", command]].concat()).assert()
    };
    let old = fs::read(name.with_extension("txt.zst")).unwrap();
    forced("/no/such/program").code(2);
    assert_eq!(fs::read(name.with_extension("txt.zst")).unwrap(), old);
    forced("true").code(0);
    assert_ne!(fs::read(name.with_extension("txt.zst")).unwrap(), old);
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('a'))
        .collect();
    names.sort();
    assert_eq!(names, ["a.after", "a.before", "a.txt.zst"]);
}

#[test]
fn ctrl_c_ends_a_recording_and_keeps_it() {
    let Some(folder) = folder() else { return };
    let recorder = Recorder::start(folder.path(), &[]);
    recorder.signal(Signal::INT);
    let name = recorder.name.clone();
    let (status, said) = recorder.end();
    assert_eq!(status.code(), Some(0), "{said}");
    replays(&name);
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    let Some(folder) = folder() else { return };
    let recorder = Recorder::start(folder.path(), &["sh", "-c", &waiting(folder.path())]);
    recorder.signal(Signal::TERM);
    let name = recorder.name.clone();
    let (status, said) = recorder.end();
    assert_eq!(status.code(), Some(128 + 15), "{said}");
    assert!(said.contains("sh: ended by signal 15"), "{said}");
    replays(&name);
}

#[test]
fn the_instance_of_a_killed_recorder_is_removed_by_the_next() {
    let Some(folder) = folder() else { return };
    let recorder = Recorder::start(folder.path(), &["sh", "-c", &waiting(folder.path())]);
    let instance = format!("framewright-{}", recorder.child.id());
    recorder.signal(Signal::KILL);
    let Recorder { mut child, name } = recorder;
    child.wait().unwrap();
    assert!(!name.with_extension("txt.zst").exists());

    // Any later recording removes the instance. If another test recorded in between, the instance
    // is gone already.
    let args = [&SMALL[..], &["-o", name.to_str().unwrap(), "--", "true"]].concat();
    framewright(&args).assert().code(0);
    let forced = [&SMALL[..], &["--force", "-o", name.to_str().unwrap(), "--", "true"]].concat();
    let assert = framewright(&forced).assert().code(0);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(!said.contains(&instance), "{said}");
}

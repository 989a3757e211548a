//! One run of QEMU: the machine prints lines, its result last.

use framewright::tuning::needs_compare;
use serde::Deserialize;
use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use super::QemuSpec;
use crate::{Error, checkout, report::Report, workloads::Side};

pub(super) const QEMU: &str = "qemu-system-x86_64";
/// More than any workload takes on a machine with other load.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// Number of last lines that are shown after a failure.
const SHOWN_LINES: usize = 12;
/// Exit codes of QEMU if the kernel reports success, a failed check, or an error in its command
/// line.
const PASSED: i32 = 33;
const FAILED: i32 = 35;
const REFUSED: i32 = 37;
/// Exit code of QEMU if it cannot make such a machine.
const NO_MACHINE: i32 = 1;

/// The clock of an emulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Real time.
    Time,
    /// Instructions of all CPUs, which run one at a time.
    Instructions,
}

/// Checks that there is a QEMU; called before anything is built.
pub(super) fn check_qemu_exists() -> Result<(), Error> {
    let asked = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
    asked.map(drop).map_err(|_| {
        Error::input(format_args!(
            "{QEMU} is not installed: install it, on Debian and Ubuntu with \
             `apt install --no-install-recommends qemu-system-x86`"
        ))
    })
}

/// The system to boot.
pub(super) struct System<'g> {
    pub(super) kernel: &'g Path,
    /// The initial file system in memory (initramfs).
    pub(super) image: Option<&'g Path>,
    /// More options of QEMU.
    pub(super) more: Vec<String>,
}

/// Boots a kernel and waits for its result. `tell` gets the finished part, from 0 to 1.
pub(super) fn boot(
    spec: &QemuSpec,
    system: &System<'_>,
    clock: Clock,
    words: &[String],
    tell: &mut dyn FnMut(f64),
) -> Result<Report, Error> {
    let mut child =
        command(spec, system, clock, words).spawn().map_err(|error| cannot_run(QEMU, &error))?;
    let lines = child.stdout.take().map(listen);
    let complaints = child.stderr.take().map(read_on);
    let deadline = Instant::now() + TIME_LIMIT;
    let mut machine = Machine { child, last_lines: VecDeque::new(), report: None };
    while let Some(lines) = &lines {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => machine.handle_line(line, tell),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                machine.stop();
                return Err(Error::broken(format_args!(
                    "the machine was still running after {} s, and was stopped; its last lines:\n{}",
                    TIME_LIMIT.as_secs(),
                    machine.indented_lines()
                )));
            }
        }
    }
    let status = machine.child.wait();
    let status = status.map_err(|error| cannot_run(QEMU, &error))?;
    let complaints = complaints.and_then(|reader| reader.join().ok()).unwrap_or_default();
    machine.result(status, &complaints)
}

fn command(spec: &QemuSpec, system: &System<'_>, clock: Clock, words: &[String]) -> Command {
    let mut command = Command::new(QEMU);
    command.args(["-M", "q35", "-cpu", "max"]).args(spec.arguments());
    let mut line = words.join(" ");
    match clock {
        Clock::Time => command.args(["-accel", "tcg,thread=multi"]),
        Clock::Instructions => {
            line.push_str(" icount");
            command.args(["-accel", "tcg", "-icount", "shift=0,sleep=off"])
        }
    };
    command.arg("-kernel").arg(system.kernel).args(["-append", &line]).args(&system.more);
    if let Some(image) = system.image {
        command.arg("-initrd").arg(image);
    }
    command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot"]);
    command.args(["-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_this_thread(&mut command);
    command
}

/// Makes a program end with the thread that starts it, even if that thread panics: otherwise an
/// emulated machine would run for ever after a failure.
#[allow(unsafe_code)]
fn end_with_this_thread(command: &mut Command) {
    // SAFETY: the only action between fork and exec is one system call, which accesses no memory.
    unsafe {
        command.pre_exec(|| {
            let signal = Some(rustix::process::Signal::KILL);
            Ok(rustix::process::set_parent_process_death_signal(signal)?)
        });
    }
}

/// Reads all messages of QEMU itself.
fn read_on(mut output: ChildStderr) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        // Output other than text is ignored.
        let _ = output.read_to_string(&mut text);
        text
    })
}

/// The lines of a machine as they are printed.
fn listen(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        // The receiver may be gone.
        lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    receiver
}

/// A running machine.
struct Machine {
    child: Child,
    /// Its last lines.
    last_lines: VecDeque<String>,
    report: Option<Report>,
}

impl Machine {
    fn handle_line(&mut self, line: String, tell: &mut dyn FnMut(f64)) {
        if let Some(part) = progress(&line) {
            tell(part);
        } else if let Ok(report) = serde_json::from_str(&line) {
            self.report = Some(report);
        } else {
            if self.last_lines.len() == SHOWN_LINES {
                self.last_lines.pop_front();
            }
            self.last_lines.push_back(line);
        }
    }

    fn indented_lines(&self) -> String {
        self.last_lines.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    }

    fn stop(&mut self) {
        // The machine may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn result(mut self, status: ExitStatus, complaints: &str) -> Result<Report, Error> {
        match (status.code(), self.report.take()) {
            (Some(PASSED), Some(report)) if report.verdict.passed => Ok(report),
            (Some(FAILED), Some(report)) if !report.verdict.passed => Ok(report),
            (Some(REFUSED), None) => {
                Err(Error::input(format_args!("the kernel refuses: {}", self.reason())))
            }
            (Some(FAILED), None) => {
                Err(Error::broken(format_args!("the kernel stopped: {}", self.reason())))
            }
            (Some(NO_MACHINE), None) if self.last_lines.is_empty() => Err(Error::input(
                format_args!("QEMU cannot make this machine: {}", complaints.trim()),
            )),
            (code, _) => {
                self.last_lines.extend(complaints.lines().map(str::to_owned));
                let code = code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
                Err(Error::broken(format_args!(
                    "QEMU ended with {code} and without a result; its last lines:\n{}",
                    self.indented_lines()
                )))
            }
        }
    }

    /// The kernel's error message: its line with `error: ` and the lines after it.
    fn reason(&self) -> String {
        let at = self.last_lines.iter().position(|line| line.starts_with("error: ")).unwrap_or(0);
        let lines: Vec<&str> = self.last_lines.iter().skip(at).map(String::as_str).collect();
        lines.join("\n").trim_start_matches("error: ").to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The finished part that a line reports.
fn progress(line: &str) -> Option<f64> {
    let (done, total) = line.strip_prefix("progress ")?.split_once(' ')?;
    let (done, total): (f64, f64) = (done.parse().ok()?, total.trim().parse().ok()?);
    (total > 0.0).then(|| done / total)
}

/// The folder of the kernel in a checkout.
const KERNEL: &str = "kernel";
/// The folder of the programs that run on Linux.
const LINUX: &str = "linux";
/// Programs for Linux are static: their file system has no libraries.
const LINUX_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The part of cargo's messages that names the built files.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Builds the kernel if it is not up to date. Returns its path. If a side uses methods that exist
/// only for comparison, the build has the feature `compare`.
pub(super) fn kernel(sides: &[Side]) -> Result<PathBuf, Error> {
    let mut settings = sides.iter().flat_map(|side| &side.settings);
    let compares = settings.any(|(path, value)| needs_compare(path, value));
    let features: &[&str] = if compares { &["--features", "compare"] } else { &[] };
    cargo(KERNEL, features, None)
}

/// Builds the program that runs workloads on Linux. Returns its path.
pub(super) fn linux_init() -> Result<PathBuf, Error> {
    let what = ["-p", "framewright-linux-init", "--target", LINUX_TARGET];
    cargo(LINUX, &what, Some("-Ctarget-feature=+crt-static"))
}

/// Builds the plugin with which QEMU counts instructions by address. Returns its path.
pub(super) fn instruction_counter() -> Result<PathBuf, Error> {
    cargo(LINUX, &["-p", "framewright-instruction-counter"], None)
}

fn cargo(folder: &str, what: &[&str], flags: Option<&str>) -> Result<PathBuf, Error> {
    let sources = checkout::find().map_err(Error::input)?.join(folder);
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--locked", "--message-format=json-render-diagnostics"])
        .args(what)
        .current_dir(sources)
        // The folders have their own settings. The settings of this build are for another target.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    if let Some(flags) = flags {
        command.env("RUSTFLAGS", flags);
    }
    let output = command.output().map_err(|error| cannot_run("cargo", &error))?;
    if !output.status.success() {
        return Err(not_built(&String::from_utf8_lossy(&output.stderr)));
    }
    built(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| not_built("cargo did not report the built file"))
}

fn not_built(why: &str) -> Error {
    Error::input(format_args!("the kernel could not be built:\n{why}"))
}

fn cannot_run(program: &str, error: &io::Error) -> Error {
    Error::input(format_args!("cannot run {program}: {error}"))
}

/// The program that cargo has built, or else the shared library.
fn built(messages: &str) -> Option<PathBuf> {
    let of = |line| {
        let message: Message = serde_json::from_str(line).ok()?;
        let is_library = |file: &PathBuf| file.extension().is_some_and(|end| end == "so");
        message.executable.or_else(|| message.filenames.into_iter().find(is_library))
    };
    messages.lines().rev().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_report_progress() {
        assert_eq!(progress("progress 1 4"), Some(0.25));
        for line in ["progress 1 0", "progress x 4", "progress", "booted: 4 CPUs"] {
            assert_eq!(progress(line), None, "{line}");
        }
    }

    #[test]
    fn a_machine_that_crashes_is_no_success() {
        let ended = |code: &str, says: &str| {
            let script = format!("echo '{says}'; exit {code}");
            let child = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn();
            let mut child = child.unwrap();
            let lines = listen(child.stdout.take().unwrap());
            let mut machine = Machine { child, last_lines: VecDeque::new(), report: None };
            lines.iter().for_each(|line| machine.handle_line(line, &mut |_| ()));
            let status = machine.child.wait().unwrap();
            machine.result(status, "qemu: no")
        };
        let fell = |ended: Result<Report, Error>| {
            ended.is_err_and(|error| error.to_string().starts_with("QEMU ended with"))
        };
        let result = |passed: bool| {
            let head = r#"{"framewright":"x","command":[],"workload":"w","machine":"m","seed":null,"runs":[],"#;
            format!(r#"{head}"published":[],"verdict":{{"passed":{passed},"checks":[]}}}}"#)
        };
        assert!(ended("33", &result(true)).is_ok());
        assert!(!ended("35", &result(false)).unwrap().verdict.passed);
        assert!(fell(ended("0", &result(true))));
        assert!(fell(ended("35", &result(true))));
        assert!(fell(ended("33", "nothing")));
        let stopped = ended("35", "error: overflow").unwrap_err();
        assert_eq!(stopped.to_string(), "the kernel stopped: overflow");
        assert!(!stopped.is_bad_input());
        let refused = ended("37", "error: there is no workload x").unwrap_err();
        assert_eq!(refused.to_string(), "the kernel refuses: there is no workload x");
        assert!(refused.is_bad_input());
        let no_machine = ended("1", "progress 1 2").unwrap_err();
        assert_eq!(no_machine.to_string(), "QEMU cannot make this machine: qemu: no");
        assert!(no_machine.is_bad_input());
        let fell_over = ended("0", "panic").unwrap_err();
        assert!(!fell_over.is_bad_input() && fell_over.to_string().contains("qemu: no"));
    }

    #[test]
    fn the_built_file_is_read_from_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","executable":"x/framewright-kernel"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(built(messages), Some(PathBuf::from("x/framewright-kernel")));
        let library = r#"{"executable":null,"filenames":["x/a.rlib","x/liba.so"]}"#;
        assert_eq!(built(library), Some(PathBuf::from("x/liba.so")));
        assert_eq!(built(""), None);
    }
}

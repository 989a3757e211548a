//! One run of QEMU: the machine prints lines, the last of which is its result.

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
use crate::{Error, report::Report, workloads::Side};

pub(super) const QEMU: &str = "qemu-system-x86_64";
/// More than any workload takes on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(600);
/// Lines that are told when something went wrong.
const LAST: usize = 12;
/// What QEMU exits with when the kernel says that all is well, that something is not, or that it cannot do
/// what its command line says.
const PASSED: i32 = 33;
const FAILED: i32 = 35;
const REFUSED: i32 = 37;
/// What QEMU exits with when it cannot make such a machine.
const NO_MACHINE: i32 = 1;

/// What the clock of an emulated machine counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Time, as it passes.
    Time,
    /// Instructions of all CPUs, which run one at a time.
    Instructions,
}

/// Whether there is a QEMU at all: to be asked before anything is built.
pub(super) fn look_for_qemu() -> Result<(), Error> {
    let asked = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
    asked.map(drop).map_err(|_| {
        Error::input(format_args!(
            "there is no {QEMU}: install it, on Debian and Ubuntu with \
             `apt install --no-install-recommends qemu-system-x86`"
        ))
    })
}

/// What is booted.
pub(super) struct Guest<'g> {
    pub(super) kernel: &'g Path,
    /// The file system that it finds in memory.
    pub(super) image: Option<&'g Path>,
    /// More options of QEMU.
    pub(super) more: Vec<String>,
}

/// Boots a kernel and waits for its result. `tell` hears which part is done, from 0 to 1.
pub(super) fn boot(
    spec: &QemuSpec,
    guest: &Guest<'_>,
    clock: Clock,
    words: &[String],
    tell: &mut dyn FnMut(f64),
) -> Result<Report, Error> {
    let mut child =
        command(spec, guest, clock, words).spawn().map_err(|error| cannot_run(QEMU, &error))?;
    let lines = child.stdout.take().map(listen);
    let complaints = child.stderr.take().map(read_on);
    let deadline = Instant::now() + PATIENCE;
    let mut machine = Machine { child, said: VecDeque::new(), report: None };
    while let Some(lines) = &lines {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => machine.hear(line, tell),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                machine.stop();
                return Err(Error::broken(format_args!(
                    "the machine was still running after {} s, and was stopped; it said last:\n{}",
                    PATIENCE.as_secs(),
                    machine.said()
                )));
            }
        }
    }
    let status = machine.child.wait();
    let status = status.map_err(|error| cannot_run(QEMU, &error))?;
    let complaints = complaints.and_then(|reader| reader.join().ok()).unwrap_or_default();
    machine.result(status, &complaints)
}

fn command(spec: &QemuSpec, guest: &Guest<'_>, clock: Clock, words: &[String]) -> Command {
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
    command.arg("-kernel").arg(guest.kernel).args(["-append", &line]).args(&guest.more);
    if let Some(image) = guest.image {
        command.arg("-initrd").arg(image);
    }
    command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot"]);
    command.args(["-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_this_thread(&mut command);
    command
}

/// Has a program end when the thread that starts it does, whatever ends that: else an emulated machine
/// that nobody listens to would go on for ever.
#[allow(unsafe_code)]
fn end_with_this_thread(command: &mut Command) {
    // SAFETY: between fork and exec one system call is made, which touches no memory.
    unsafe {
        command.pre_exec(|| {
            let signal = Some(rustix::process::Signal::KILL);
            Ok(rustix::process::set_parent_process_death_signal(signal)?)
        });
    }
}

/// All that QEMU itself has to say.
fn read_on(mut output: ChildStderr) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        // What is no text is not for people.
        let _ = output.read_to_string(&mut text);
        text
    })
}

/// The lines of a machine as they come.
fn listen(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        // Whoever listened may have gone.
        lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    receiver
}

/// A machine that runs.
struct Machine {
    child: Child,
    /// Its last lines.
    said: VecDeque<String>,
    report: Option<Report>,
}

impl Machine {
    fn hear(&mut self, line: String, tell: &mut dyn FnMut(f64)) {
        if let Some(part) = progress(&line) {
            tell(part);
        } else if let Ok(report) = serde_json::from_str(&line) {
            self.report = Some(report);
        } else {
            if self.said.len() == LAST {
                self.said.pop_front();
            }
            self.said.push_back(line);
        }
    }

    fn said(&self) -> String {
        self.said.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    }

    fn stop(&mut self) {
        // It may have ended by itself.
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
            (Some(NO_MACHINE), None) if self.said.is_empty() => Err(Error::input(format_args!(
                "QEMU cannot make this machine: {}",
                complaints.trim()
            ))),
            (code, _) => {
                self.said.extend(complaints.lines().map(str::to_owned));
                let code = code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
                Err(Error::broken(format_args!(
                    "QEMU ended with {code} and without a result; the machine said last:\n{}",
                    self.said()
                )))
            }
        }
    }

    /// What the kernel said was wrong: its line with `error: ` and those behind it.
    fn reason(&self) -> String {
        let at = self.said.iter().position(|line| line.starts_with("error: ")).unwrap_or(0);
        let lines: Vec<&str> = self.said.iter().skip(at).map(String::as_str).collect();
        lines.join("\n").trim_start_matches("error: ").to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The part that a line says is done.
fn progress(line: &str) -> Option<f64> {
    let (done, total) = line.strip_prefix("progress ")?.split_once(' ')?;
    let (done, total): (f64, f64) = (done.parse().ok()?, total.trim().parse().ok()?);
    (total > 0.0).then(|| done / total)
}

/// Where the kernel is: beside this crate.
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel");
/// Where that is what runs Linux beside it.
const LINUX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../linux");
/// Programs for Linux are static: nothing else is in their file system.
const LINUX_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The part of cargo's messages that says what was built.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Builds the kernel, unless that has been done; where it is. What is there to compare with is in it for who
/// asks for it.
pub(super) fn kernel(sides: &[Side]) -> Result<PathBuf, Error> {
    let mut settings = sides.iter().flat_map(|side| &side.settings);
    let compares = settings.any(|(path, value)| needs_compare(path, value));
    let features: &[&str] = if compares { &["--features", "compare"] } else { &[] };
    cargo(KERNEL, features, None)
}

/// The same of the program that runs workloads on Linux.
pub(super) fn linux_init() -> Result<PathBuf, Error> {
    let what = ["-p", "framewright-linux-init", "--target", LINUX_TARGET];
    cargo(LINUX, &what, Some("-Ctarget-feature=+crt-static"))
}

/// The same of the plugin that has QEMU count instructions by address.
pub(super) fn instruction_counter() -> Result<PathBuf, Error> {
    cargo(LINUX, &["-p", "framewright-instruction-counter"], None)
}

fn cargo(sources: &str, what: &[&str], flags: Option<&str>) -> Result<PathBuf, Error> {
    let sources = Path::new(sources);
    if !sources.join("Cargo.toml").is_file() {
        return Err(Error::input(format_args!(
            "the sources of the kernel are not at '{}': qemu machines need a checkout of the repository \
             with its folder kernel/",
            sources.display()
        )));
    }
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--locked", "--message-format=json-render-diagnostics"])
        .args(what)
        .current_dir(sources)
        // Their own settings are in their folders; those of this build are for another target.
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
        .ok_or_else(|| not_built("cargo does not say where it is"))
}

fn not_built(why: &str) -> Error {
    Error::input(format_args!("the kernel could not be built:\n{why}"))
}

fn cannot_run(program: &str, error: &io::Error) -> Error {
    Error::input(format_args!("cannot run {program}: {error}"))
}

/// The program that cargo says it built, or else the library that others load.
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
    fn lines_say_how_far_it_is() {
        assert_eq!(progress("progress 1 4"), Some(0.25));
        for line in ["progress 1 0", "progress x 4", "progress", "booted: 4 CPUs"] {
            assert_eq!(progress(line), None, "{line}");
        }
    }

    #[test]
    fn a_machine_that_falls_over_is_no_success() {
        let ended = |code: &str, says: &str| {
            let script = format!("echo '{says}'; exit {code}");
            let child = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn();
            let mut child = child.unwrap();
            let lines = listen(child.stdout.take().unwrap());
            let mut machine = Machine { child, said: VecDeque::new(), report: None };
            lines.iter().for_each(|line| machine.hear(line, &mut |_| ()));
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
    fn cargo_says_what_it_built() {
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

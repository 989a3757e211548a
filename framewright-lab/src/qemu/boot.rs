//! One run of QEMU: the machine prints lines, the last of which is its result.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use super::{QemuError, QemuSpec};
use crate::report::Report;

const QEMU: &str = "qemu-system-x86_64";
/// More than any workload takes on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(600);
/// Lines that are told when something went wrong.
const LAST: usize = 12;
/// What QEMU exits with when the kernel says that all is well, or that something is not.
const PASSED: i32 = 33;
const FAILED: i32 = 35;

/// What the clock of an emulated machine counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Time, as it passes.
    Time,
    /// Instructions of all CPUs, which run one at a time.
    Instructions,
}

/// Whether there is a QEMU at all: to be asked before anything is built.
pub(super) fn look_for_qemu() -> Result<(), QemuError> {
    let asked = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
    asked.map(drop).map_err(|_| QemuError::NoQemu(QEMU))
}

/// Boots a kernel and waits for its result. `tell` hears which part is done, from 0 to 1.
pub(super) fn boot(
    spec: &QemuSpec,
    kernel: &Path,
    clock: Clock,
    words: &[String],
    tell: &mut dyn FnMut(f64),
) -> Result<Report, QemuError> {
    let mut child = command(spec, kernel, clock, words)
        .spawn()
        .map_err(|error| QemuError::Start { program: QEMU, error })?;
    let lines = child.stdout.take().map(listen);
    let deadline = Instant::now() + PATIENCE;
    let mut machine = Machine { child, said: VecDeque::new(), report: None };
    while let Some(lines) = &lines {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => machine.hear(line, tell),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                machine.stop();
                return Err(QemuError::TimedOut { after: PATIENCE, said: machine.said() });
            }
        }
    }
    let status = machine.child.wait();
    let status = status.map_err(|error| QemuError::Start { program: QEMU, error })?;
    machine.result(status)
}

fn command(spec: &QemuSpec, kernel: &Path, clock: Clock, words: &[String]) -> Command {
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
    command.arg("-kernel").arg(kernel).args(["-append", &line]);
    command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot"]);
    command.args(["-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
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

    fn result(mut self, status: ExitStatus) -> Result<Report, QemuError> {
        match (status.code(), self.report.take()) {
            (Some(PASSED), Some(report)) if report.verdict.passed => Ok(report),
            (Some(FAILED), Some(report)) if !report.verdict.passed => Ok(report),
            (Some(FAILED), None) => Err(QemuError::Refused(self.reason())),
            (code, _) => Err(QemuError::Ended {
                code: code.map_or_else(|| "a signal".to_owned(), |code| code.to_string()),
                said: self.said(),
            }),
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
            machine.result(status)
        };
        let result = |passed: bool| {
            let head = r#"{"framewright":"x","command":[],"workload":"w","machine":"m","seed":null,"runs":[],"#;
            format!(r#"{head}"published":[],"verdict":{{"passed":{passed},"checks":[]}}}}"#)
        };
        assert!(ended("33", &result(true)).is_ok());
        assert!(!ended("35", &result(false)).unwrap().verdict.passed);
        assert!(matches!(ended("0", &result(true)), Err(QemuError::Ended { .. })));
        assert!(matches!(ended("35", &result(true)), Err(QemuError::Ended { .. })));
        assert!(matches!(ended("33", "nothing"), Err(QemuError::Ended { .. })));
        let refused = ended("35", "error: there is no workload x").unwrap_err().to_string();
        assert_eq!(refused, "the kernel stopped: there is no workload x");
    }
}

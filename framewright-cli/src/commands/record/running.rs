//! The command that runs during a recording.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM},
    iterator,
};
use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use super::TICK;
use crate::output;

/// Shells report 128 plus the number of the signal for a command that a signal ended.
const BY_SIGNAL: i32 = 128;

/// A running command.
pub(crate) struct Running {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its program.
    pub(crate) name: String,
    /// Its exit status; `None` if it still runs.
    pub(crate) status: Option<ExitStatus>,
}

impl Running {
    /// Starts a command, if there is one.
    pub(crate) fn start(command: &[OsString]) -> Result<Option<Self>, String> {
        let [program, args @ ..] = command else { return Ok(None) };
        let name = program.to_string_lossy().into_owned();
        match Command::new(program).args(args).spawn() {
            Ok(child) => Ok(Some(Self { name, child, status: None })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("cannot run '{name}': there is no such program"))
            }
            Err(error) => Err(format!("cannot run '{name}': {error}")),
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            // An error would mean that another part of the program has waited for it.
            self.status = self.child.try_wait().unwrap_or_default();
        }
        self.status.is_some()
    }

    /// Waits until the command ends. `signal` ended the recording. A terminal sends SIGINT to the
    /// command too; other signals reach only this process, which passes them on. A further signal
    /// ends the wait.
    pub(crate) fn wait(mut self, signal: Option<i32>, signals: &Signals) -> Ended {
        /// Time for the command to react to the signal before a message is printed.
        const GRACE: Duration = Duration::from_secs(1);
        let pass_on = match signal {
            Some(SIGTERM) => Some(Signal::TERM),
            Some(SIGHUP) => Some(Signal::HUP),
            _ => None,
        };
        if let (false, Some(signal)) = (self.has_ended(), pass_on) {
            // The command may have ended in the meantime.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
        let mut waited = Duration::ZERO;
        while !self.has_ended() {
            if signals.wait(TICK).is_some() {
                break;
            }
            waited += TICK;
            if waited == GRACE {
                let (name, pid) = (&self.name, self.child.id());
                let hint = if signal == Some(SIGINT) {
                    "; press Ctrl-C again to stop waiting"
                } else {
                    ""
                };
                output::note(format_args!(
                    "the recording has ended; waiting for '{name}' (process {pid}){hint}"
                ));
            }
        }
        Ended { name: self.name, status: self.status }
    }
}

impl Ended {
    /// Its exit code as shells report it, if it failed.
    pub(crate) fn failure(&self) -> Option<u8> {
        let status = self.status?;
        let code = status.code().or_else(|| Some(BY_SIGNAL + status.signal()?)).unwrap_or(1);
        (code != 0).then(|| u8::try_from(code).unwrap_or(u8::MAX))
    }
}

/// Signals that this process has received and not handled yet.
pub(crate) struct Signals(Receiver<i32>);

impl Signals {
    /// Receives SIGCHLD, SIGHUP, SIGINT and SIGTERM from now on. They lose their usual effect.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut signals = iterator::Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM])?;
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            // This thread ends with the program.
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self(receiver))
    }

    /// Discards the signals that were received so far.
    pub(crate) fn forget(&self) {
        while self.0.try_recv().is_ok() {}
    }

    /// Waits for a signal that requests an end. The wait returns early if a child ends.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<i32> {
        self.0.recv_timeout(timeout).ok().filter(|&signal| signal != SIGCHLD)
    }
}

//! The command that runs while something is recorded.

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

/// What shells add to the number of a signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// A command at work.
pub(crate) struct Running {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its program.
    pub(crate) name: String,
    /// How it ended; `None` if it still runs.
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
            // An error would mean that somebody else has waited for it.
            self.status = self.child.try_wait().unwrap_or_default();
        }
        self.status.is_some()
    }

    /// Waits until it ends. `signal` ended the recording: a terminal sends SIGINT to the command
    /// too, others are for this process alone and are passed on. A further signal ends the wait.
    pub(crate) fn wait(mut self, signal: Option<i32>, signals: &Signals) -> Ended {
        /// It is asked to end, and may need a moment.
        const PATIENCE: Duration = Duration::from_secs(1);
        let pass_on = match signal {
            Some(SIGTERM) => Some(Signal::TERM),
            Some(SIGHUP) => Some(Signal::HUP),
            _ => None,
        };
        if let (false, Some(signal)) = (self.has_ended(), pass_on) {
            // It may have ended just now.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
        let mut waited = Duration::ZERO;
        while !self.has_ended() {
            if signals.wait(TICK).is_some() {
                break;
            }
            waited += TICK;
            if waited == PATIENCE {
                let (name, pid) = (&self.name, self.child.id());
                let hint = if signal == Some(SIGINT) { "; Ctrl-C again does not wait" } else { "" };
                output::note(format_args!(
                    "the recording has ended; waiting for '{name}' (process {pid}){hint}"
                ));
            }
        }
        Ended { name: self.name, status: self.status }
    }
}

impl Ended {
    /// Its exit code as shells tell it, if it failed.
    pub(crate) fn failure(&self) -> Option<u8> {
        let status = self.status?;
        let code = status.code().or_else(|| Some(BY_SIGNAL + status.signal()?)).unwrap_or(1);
        (code != 0).then(|| u8::try_from(code).unwrap_or(u8::MAX))
    }
}

/// The signals that this process got and nobody has looked at.
pub(crate) struct Signals(Receiver<i32>);

impl Signals {
    /// From now on these signals do nothing but appear here.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut signals = iterator::Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM])?;
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            // Ends with the program.
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self(receiver))
    }

    /// Forgets those that came so far.
    pub(crate) fn forget(&self) {
        while self.0.try_recv().is_ok() {}
    }

    /// Waits for a signal that asks to end something; a child that ended cuts the wait short.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<i32> {
        self.0.recv_timeout(timeout).ok().filter(|&signal| signal != SIGCHLD)
    }
}

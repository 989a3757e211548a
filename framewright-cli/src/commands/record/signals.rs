//! Signals as something to wait for.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;

/// The signals that this process got and nobody has looked at.
pub(super) struct Signals(Receiver<i32>);

impl Signals {
    /// From now on these signals do nothing but appear here.
    pub(super) fn listen() -> io::Result<Self> {
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
    pub(super) fn forget(&self) {
        while self.0.try_recv().is_ok() {}
    }

    /// Waits for a signal that asks to end something; a child that ended cuts the wait short.
    pub(super) fn wait(&self, timeout: Duration) -> Option<i32> {
        self.0.recv_timeout(timeout).ok().filter(|&signal| signal != SIGCHLD)
    }
}

//! The threads of a run: they begin together or not at all, and none waits for one that has panicked.
//!
//! A thread that cannot be had is no reason to hang: those that are there wait until it is known that all
//! are, and go home if not. A panic ends the others at their next rest, without words: it has said what
//! was wrong.

use std::{
    io,
    panic::resume_unwind,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, Builder},
};

/// See the module.
#[derive(Default)]
pub(super) struct Crew {
    /// A thread has panicked: the others shall not wait for it.
    broken: AtomicBool,
}

impl Crew {
    /// Has so many threads do `work`, each with its number; `builder` makes them.
    ///
    /// # Errors
    ///
    /// The system does not give as many, and nothing was done.
    ///
    /// # Panics
    ///
    /// If a thread does, once all have ended.
    pub(super) fn run(
        &self,
        count: u16,
        builder: impl Fn(u16) -> Builder,
        work: impl Fn(u16) + Sync,
    ) -> io::Result<()> {
        let all_there = OnceLock::new();
        let (all_there, work) = (&all_there, &work);
        thread::scope(|scope| {
            let _home = Home(all_there);
            for number in 0..count {
                builder(number).spawn_scoped(scope, move || {
                    let _broken = Broken(&self.broken);
                    if *all_there.wait() {
                        work(number);
                    }
                })?;
            }
            all_there.get_or_init(|| true);
            Ok(())
        })
    }

    /// Ends this thread if another has panicked.
    pub(super) fn go_on(&self) {
        if self.broken.load(Relaxed) {
            resume_unwind(Box::new("another thread has panicked"));
        }
    }
}

/// Sends threads home that wait still when it is dropped.
struct Home<'h>(&'h OnceLock<bool>);

impl Drop for Home<'_> {
    fn drop(&mut self) {
        self.0.get_or_init(|| false);
    }
}

/// Says so if it is dropped by a panic.
struct Broken<'b>(&'b AtomicBool);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(thread::panicking(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::atomic::AtomicU16,
    };

    #[test]
    fn without_one_of_the_threads_none_does_anything() {
        let done = AtomicU16::new(0);
        let work = |_| {
            done.fetch_add(1, Relaxed);
        };
        // No address space has room for the last one's stack.
        let builder = |number| match number {
            3 => Builder::new().stack_size(1 << 60),
            _ => Builder::new(),
        };
        assert!(Crew::default().run(4, builder, work).is_err());
        assert_eq!(done.load(Relaxed), 0);
        assert!(Crew::default().run(3, builder, work).is_ok());
        assert_eq!(done.load(Relaxed), 3);
    }

    #[test]
    fn who_waits_for_one_that_panics_ends() {
        let crew = Crew::default();
        let work = |number| match number {
            0 => panic!("on purpose"),
            _ => loop {
                crew.go_on();
                thread::yield_now();
            },
        };
        let run = || crew.run(3, |_| Builder::new(), work);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}

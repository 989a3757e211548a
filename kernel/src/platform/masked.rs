//! Measures the library's sections with interrupts masked: the longest section of each place in the
//! code, in cycles of the time-stamp counter (under `-icount` on one CPU: in instructions). Without
//! the feature `masked`, this module compiles to nothing.

#[cfg(feature = "masked")]
mod counted {
    #![allow(unsafe_code)]

    use core::{
        arch::asm,
        sync::atomic::{AtomicU64, Ordering},
    };

    use crate::{cpu::control, serial::println};

    /// Places that can be recorded: more than the library has.
    const PLACES: usize = 128;

    /// A place in the code at which sections end, and the longest section that ended there.
    struct Place {
        address: AtomicU64,
        longest: AtomicU64,
    }

    static LONGEST: [Place; PLACES] =
        [const { Place { address: AtomicU64::new(0), longest: AtomicU64::new(0) } }; PLACES];

    /// The time at which a section began.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Since(u64);

    impl Since {
        /// Begins a section.
        #[inline(always)]
        pub(crate) fn now() -> Self {
            Self(control::timestamp())
        }

        /// Ends the section, and records its length.
        #[inline(always)]
        pub(crate) fn end(self) {
            let length = control::timestamp() - self.0;
            note(here(), length);
        }
    }

    /// The address of the code that this is inlined into.
    #[inline(always)]
    fn here() -> u64 {
        let address;
        // SAFETY: only computes an address from the instruction pointer.
        unsafe { asm!("lea {}, [rip]", out(reg) address, options(nomem, nostack)) };
        address
    }

    #[inline(never)]
    fn note(address: u64, length: u64) {
        let known = |place: &&Place| {
            let is = place.address.load(Ordering::Relaxed);
            is == address || is == 0
        };
        let place = LONGEST.iter().find(known).expect("the library has fewer sections");
        place.address.store(address, Ordering::Relaxed);
        place.longest.fetch_max(length, Ordering::Relaxed);
    }

    /// Discards all recorded sections.
    pub(crate) fn reset() {
        LONGEST.iter().for_each(|place| place.longest.store(0, Ordering::Relaxed));
    }

    /// Prints the longest section of each place.
    pub(crate) fn print() {
        for place in &LONGEST {
            let address = place.address.load(Ordering::Relaxed);
            let longest = place.longest.load(Ordering::Relaxed);
            if longest > 0 {
                println!("masked {address:#x} {longest}");
            }
        }
    }
}

#[cfg(not(feature = "masked"))]
mod counted {
    /// Nothing.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Since;

    impl Since {
        /// Does nothing.
        #[inline(always)]
        pub(crate) fn now() -> Self {
            Self
        }

        /// Does nothing.
        #[inline(always)]
        pub(crate) fn end(self) {}
    }

    /// Does nothing.
    pub(crate) fn reset() {}

    /// Prints nothing.
    pub(crate) fn print() {}
}

pub(crate) use counted::{Since, print, reset};

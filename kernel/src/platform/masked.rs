//! Sections of the library that run with interrupts masked: the longest of each place, in ticks of the
//! counter of cycles, which are instructions under `-icount` on one CPU. The feature `masked` counts them;
//! without it nothing is there.

#[cfg(feature = "masked")]
mod counted {
    #![allow(unsafe_code)]

    use core::{
        arch::asm,
        sync::atomic::{AtomicU64, Ordering},
    };

    use crate::{cpu::control, serial::println};

    /// Places in the code: more than the library has.
    const PLACES: usize = 128;

    /// Where a section ends, and the longest that ended there.
    struct Place {
        address: AtomicU64,
        longest: AtomicU64,
    }

    static LONGEST: [Place; PLACES] =
        [const { Place { address: AtomicU64::new(0), longest: AtomicU64::new(0) } }; PLACES];

    /// When a section began.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Since(u64);

    impl Since {
        /// It begins.
        #[inline(always)]
        pub(crate) fn now() -> Self {
            Self(control::timestamp())
        }

        /// It ends.
        #[inline(always)]
        pub(crate) fn end(self) {
            let length = control::timestamp() - self.0;
            note(here(), length);
        }
    }

    /// The place that this is inlined into.
    #[inline(always)]
    fn here() -> u64 {
        let address;
        // SAFETY: reads a register.
        unsafe { asm!("lea {}, [rip]", out(reg) address, options(nomem, nostack)) };
        address
    }

    #[inline(never)]
    fn note(address: u64, length: u64) {
        let known = |place: &&Place| {
            let is = place.address.load(Ordering::Relaxed);
            is == address || is == 0
        };
        let place = LONGEST.iter().find(known).expect("the library has fewer places");
        place.address.store(address, Ordering::Relaxed);
        place.longest.fetch_max(length, Ordering::Relaxed);
    }

    /// Forgets all sections so far.
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

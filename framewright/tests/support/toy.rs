//! Minimal platforms, and memories that live as long as the process.
//!
//! A test that needs one property of a platform writes that; the rest of the platform is here.

use framewright::{Config, Layout, Memory, Platform};
use std::{boxed, mem::MaybeUninit, vec};

/// The methods of a [`Platform`] that do nothing: no interrupts, frames without contents, no time.
/// The lock is the library's own. A corruption report panics, unless the machine defines
/// `corruption` itself: `mostly_nothing!(but corruption)`.
macro_rules! mostly_nothing {
    () => {
        mostly_nothing!(but corruption);

        fn corruption(&self, report: &framewright::observe::Corruption) {
            panic!("{report}");
        }
    };
    (but corruption) => {
        type Lock = framewright::sync::SpinFlag;
        type Word = framewright::sync::PlainWord;
        type Irq = ();

        fn irq_save(&self) {}
        fn irq_restore(&self, (): ()) {}
        unsafe fn clear(&self, _: framewright::Pfn, _: framewright::Order) {}
        unsafe fn copy(&self, _: framewright::Pfn, _: framewright::Pfn) {}

        fn now(&self) -> u64 {
            0
        }
    };
}
pub(crate) use mostly_nothing;

/// A memory that lives as long as the process.
pub(crate) fn leaked<P: Platform>(platform: P, config: &Config<'_>) -> &'static Memory<'static, P> {
    let layout = Layout::new::<P>(config).unwrap();
    let buffer = vec![MaybeUninit::<u8>::uninit(); layout.bytes() + layout.align()].leak();
    let start = buffer.as_ptr().align_offset(layout.align());
    let memory = Memory::new(platform, config, &mut buffer[start..]).unwrap();
    boxed::Box::leak(boxed::Box::new(memory))
}

//! Types that must not be `Send`.
#![forbid(unsafe_code)]

use framewright::{CpuToken, platform::Captured, tlb::Flusher};

use crate::machine::Machine;

/// This trait is implemented for every type, and a second time for `Send` types. So type inference
/// finds a single implementation only for types that are not `Send`.
trait StaysHere<Why> {
    const CHECKED: () = ();
}

impl<T: ?Sized> StaysHere<()> for T {}
impl<T: ?Sized + Send> StaysHere<bool> for T {}

const _: () = <CpuToken<'_, '_, Machine> as StaysHere<_>>::CHECKED;
const _: () = <Flusher<'_, '_, Machine> as StaysHere<_>>::CHECKED;
const _: () = <Captured<'_> as StaysHere<_>>::CHECKED;

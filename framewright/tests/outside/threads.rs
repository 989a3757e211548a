//! What stays on its thread.
#![forbid(unsafe_code)]

use framewright::{CpuToken, platform::Captured, tlb::Flusher};

use crate::machine::Machine;

/// Has one implementation for every type, and another for those that may be sent: which is meant is
/// clear only where they may not.
trait StaysHere<Why> {
    const CHECKED: () = ();
}

impl<T: ?Sized> StaysHere<()> for T {}
impl<T: ?Sized + Send> StaysHere<bool> for T {}

const _: () = <CpuToken<'_, '_, Machine> as StaysHere<_>>::CHECKED;
const _: () = <Flusher<'_, '_, Machine> as StaysHere<_>>::CHECKED;
const _: () = <Captured<'_> as StaysHere<_>>::CHECKED;

//! The invariants of a memory at the end of a run.

use framewright::{Memory, Platform};

/// Checks a memory whose frames should all be free.
///
/// # Errors
///
/// The first violated invariant.
pub(crate) fn all_free<P: Platform>(memory: &Memory<'_, P>) -> Result<(), String> {
    memory.drain_all();
    let lists = || memory.lru().map_or(Ok(()), |lru| lru.check());
    memory.check().and_then(|()| lists()).map_err(|violation| violation.to_string())?;
    let (free, managed) = (memory.free(), memory.managed());
    if free == managed { Ok(()) } else { Err(format!("{free} of {managed} frames are free")) }
}

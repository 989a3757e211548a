//! What the library's work costs, in instructions: its own names for kinds of work beside the
//! machine's parameters `library.*`, which say where every figure comes from.

use crate::machine::Library;
use framewright::platform::Cost;

/// Instructions for one unit of `cost`. Kinds that no parameter prices are free.
#[inline]
pub(super) fn instructions(prices: &Library, cost: Cost) -> u64 {
    match cost {
        Cost::HotAlloc => prices.hot_alloc,
        Cost::HotFree => prices.hot_free,
        Cost::TakeFrames => prices.take_frames,
        Cost::GiveFrames => prices.give_frames,
        _ => 0,
    }
}

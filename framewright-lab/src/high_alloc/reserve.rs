//! What memory has to be left for a load that wants all of it.
//!
//! Builders whose requests are refused begin again, as programs do that were killed. With next to nothing
//! above the min watermark that goes on for ever, so it is refused before it begins.

use framewright::tuning::Auto;
use thiserror::Error;

use super::label;
use crate::workloads::Side;

/// The min watermark keeps back too much.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{side}: that keeps {} MiB back, and of {} MiB a quarter has to be left; set zone.min_free to \
     {most} at most",
    reserve.div_ceil(256), frames >> 8
)]
pub struct ReserveTooLarge {
    /// With which settings.
    side: String,
    /// Frames it keeps back.
    reserve: u64,
    /// Frames there are.
    frames: u64,
    /// Frames that it may keep back.
    most: u64,
}

/// Refuses settings that leave too little of so many frames.
pub(super) fn refuse_large(sides: &[Side], frames: u64) -> Result<(), ReserveTooLarge> {
    let most = frames / 4 * 3;
    for side in sides {
        match side.tuning.zone.min_free {
            Auto::Fixed(reserve) if u64::from(reserve) > most => {
                let reserve = reserve.into();
                return Err(ReserveTooLarge { side: label(side), reserve, frames, most });
            }
            _ => {}
        }
    }
    Ok(())
}

//! A memory on a simulated machine.

use framewright::{Config, Layout, Memory};
use framewright_sim::{
    engine::{Machine, Options},
    machine::Spec,
    platform::{LentRelief, MetadataBuffer, Settings, Simulated},
};

use super::refused;
use crate::Error;

/// Runs `play` with a modelled machine of this description and seed, and with a memory on it.
/// `play` can lend reclaim and compaction to the memory, through `relief`.
///
/// # Errors
///
/// The library refuses the memory; or an error of `play`.
pub(crate) fn on_memory<R>(
    spec: &Spec,
    config: &Config<'_>,
    seed: u64,
    relief: &LentRelief,
    play: impl FnOnce(&Machine, &Memory<'_, Simulated>) -> Result<R, Error>,
) -> Result<R, Error> {
    let layout = Layout::new::<Simulated>(config).map_err(|error| refused(spec, &error))?;
    let mut metadata = MetadataBuffer::new(&layout);
    let machine = Machine::modelled(spec.into(), Options { seed, ..Options::default() });
    let settings = Settings { prices: spec.costs().library, ..Settings::default() };
    let platform = Simulated::new(&machine, settings).with_relief(relief);
    let memory =
        Memory::new(platform, config, metadata.as_mut()).map_err(|error| refused(spec, &error))?;
    play(&machine, &memory)
}

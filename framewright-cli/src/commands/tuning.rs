//! `framewright tuning`: what can be set.

use framewright::Tuning;
use framewright::tuning::{KEYS, Key};

use crate::args::TuningArgs;
use crate::failure::{Failure, Outcome};
use crate::{output, print};

/// Lists all settings, those of a group, or one.
pub(crate) fn tuning(args: &TuningArgs) -> Result<Outcome, Failure> {
    let keys = match args.key.as_deref() {
        None => KEYS.iter().collect(),
        Some(name) => named(name)?,
    };
    output::print(&print::tuning(&keys, output::style()))?;
    Ok(Outcome::Fine)
}

/// The setting called `name`, or the settings of the group called so.
fn named(name: &str) -> Result<Vec<&'static Key>, Failure> {
    let in_group = |key: &&Key| key.path.split_once('.').is_some_and(|(group, _)| group == name);
    let group: Vec<_> = KEYS.iter().filter(in_group).collect();
    if !group.is_empty() {
        return Ok(group);
    }
    // The tuning knows which key is nearest to one that does not exist.
    Tuning::default().get(name).map_err(Failure::bad_input)?;
    Ok(KEYS.iter().filter(|key| key.path == name).collect())
}

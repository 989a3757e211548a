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

/// The setting called `name`, or those whose names begin so.
fn named(name: &str) -> Result<Vec<&'static Key>, Failure> {
    if let Some(key) = KEYS.iter().find(|key| key.path == name) {
        return Ok(vec![key]);
    }
    let begin_so: Vec<_> = KEYS.iter().filter(|key| key.path.starts_with(name)).collect();
    if !name.is_empty() && !begin_so.is_empty() {
        return Ok(begin_so);
    }
    // The tuning knows which key was probably meant.
    let error = Tuning::default().get(name).err().map(|error| error.to_string());
    let hint = "`framewright tuning` lists all";
    Err(Failure::BadInput(format!("{}; {hint}", error.unwrap_or_default())))
}

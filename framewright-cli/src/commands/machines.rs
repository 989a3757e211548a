//! `framewright machines`: what a simulated machine is made of.

use framewright_sim::machine::{Spec, presets};

use crate::args::{Machine, MachinesArgs, simulated};
use crate::failure::{Failure, Outcome};
use crate::{output, print};

/// Lists all machines, or one in full.
pub(crate) fn machines(args: &MachinesArgs) -> Result<Outcome, Failure> {
    let text = match args.machine.as_deref() {
        None => print::machines(&all()?, output::style()),
        Some(name) => {
            let spec = simulated(name)
                .map_err(|error| Failure::bad_input(format!("machine '{name}': {error}")))?;
            if args.toml { spec.to_toml() } else { print::machine(&spec, output::style()) }
        }
    };
    output::print(&text)?;
    Ok(Outcome::Fine)
}

/// Prints how many parameters a machine file inherits.
pub(super) fn note_inherited(machine: &Machine) {
    if let Machine::Simulated(spec, Some(file)) = machine
        && let Some(inherited) = spec.inherited()
    {
        let (file, inheritance) = (file.display(), print::inheritance(inherited));
        output::note(format_args!("{file}: {inheritance}; see `framewright machines {file}`"));
    }
}

fn all() -> Result<Vec<Spec>, Failure> {
    presets().map(|name| Spec::preset(name).map_err(Failure::bad_input)).collect()
}

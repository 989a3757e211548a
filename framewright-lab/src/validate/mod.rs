//! Validation of a measured machine: the same work on this computer and on the simulated machine,
//! figure by figure.
//!
//! [`measure`](crate::measure) measures single operations and runs none of this work. The rows
//! therefore test the model: no parameter was fitted to them.
//!
//! | module       | job                                                                    |
//! |--------------|------------------------------------------------------------------------|
//! | `row`        | [`Row`]: measured, modelled, factor; the verdict                       |
//! | `tasks`      | processes and threads of the real kernel that map, touch and unmap     |
//! | `faults`     | page faults of 1 to N processes and threads                            |
//! | `host_lists` | the library on threads, with small per-CPU lists                       |
//! | `shootdown`  | `mprotect` and `munmap` while a second thread runs                     |
//! | `zone_lock`  | waits for the zone lock of the real kernel                             |

mod faults;
mod host_lists;
mod row;
mod shootdown;
mod tasks;
#[cfg(test)]
mod tests;
mod zone_lock;

use framewright_sim::machine::Spec;

use crate::{Error, clock, report::several};
pub use row::{Row, Tolerance, Validated};

/// Called with the number of finished steps and of all steps.
pub type Tell<'t> = dyn FnMut(u64, u64) + 't;

/// The maximum number of tasks or threads of a row.
const MOST_TASKS: usize = 64;

/// A machine to validate, and the amount of work.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The simulated machine.
    pub spec: Spec,
    /// Measured rounds of each row.
    pub rounds: u32,
    /// Pages that a task maps at once.
    pub pages: u32,
}

/// The CPUs that every group of rows uses.
struct Here {
    /// CPUs that this process may use: as many as the simulated machine has, at most [`MOST_TASKS`].
    cpus: Vec<usize>,
}

impl Validation {
    /// A full validation: tasks of 128 MiB.
    #[must_use]
    pub fn full(spec: Spec) -> Self {
        Self { spec, rounds: 9, pages: framewright_workloads::page_fault::BURST }
    }

    /// A short one, whose figures are not to be quoted.
    #[must_use]
    pub fn quick(spec: Spec) -> Self {
        Self { rounds: 2, pages: 4096, ..Self::full(spec) }
    }

    /// Measures and models all rows.
    ///
    /// # Errors
    ///
    /// The simulated machine cannot run the work, or the library failed. If the real
    /// machine lacks something, that is no error: the rows concerned give the reason.
    pub fn run(&self, tell: &mut Tell<'_>) -> Result<Validated, Error> {
        let here = Here::detect(&self.spec);
        let groups: [Group; 4] = [faults::rows, host_lists::rows, shootdown::rows, zone_lock::rows];
        let total = groups.len() as u64;
        let mut validated = Validated::default();
        if here.cpus.len() < usize::from(self.spec.cpus()) {
            validated.notes.push(format!(
                "{} has {}, and this process may use {}",
                self.spec.name(),
                several(self.spec.cpus(), "CPU"),
                here.cpus.len()
            ));
        }
        for (done, group) in groups.iter().enumerate() {
            tell(done as u64, total);
            validated.rows.extend(group(self, &here)?);
        }
        tell(total, total);
        Ok(validated)
    }
}

/// Measures and models the rows of a group.
type Group = fn(&Validation, &Here) -> Result<Vec<Row>, Error>;

impl Here {
    fn detect(spec: &Spec) -> Self {
        let most = MOST_TASKS.min(spec.cpus().into());
        let cpus = (1..=most).rev().find_map(clock::cpus);
        Self { cpus: cpus.unwrap_or_default() }
    }

    /// Two CPUs, or the reason why there are none.
    fn two(&self) -> Result<[usize; 2], String> {
        match self.cpus[..] {
            [first, second, ..] => Ok([first, second]),
            _ => Err("this process, or the simulated machine, has one CPU only".to_owned()),
        }
    }
}

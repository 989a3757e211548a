//! One run of a plan: its command and its identity.

use std::hash::Hasher;

use twox_hash::XxHash64;

use super::plan::{Column, Machine, Value};

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Entry<'p> {
    pub(super) workload: &'p str,
    pub(super) machine: &'p Machine,
    pub(super) options: Vec<(&'p str, &'p Value)>,
    pub(super) settings: Vec<(&'p str, &'p Value)>,
    pub(super) seed: u64,
}

impl<'p> Entry<'p> {
    /// The workload.
    #[must_use]
    pub fn workload(&self) -> &'p str {
        self.workload
    }

    /// The name of the machine.
    #[must_use]
    pub fn machine(&self) -> &'p str {
        &self.machine.name
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The arguments of the workload's command: `--machine`, the options, `--set`, `--seed`.
    #[must_use]
    pub fn args(&self) -> Vec<String> {
        let mut args = vec![format!("--machine={}", self.machine.arg)];
        args.extend(self.variable_args());
        args
    }

    fn variable_args(&self) -> impl Iterator<Item = String> {
        let option = |(key, value): &(&str, &Value)| match (value.is_switch, value.text.as_str()) {
            (false, text) => Some(format!("--{key}={text}")),
            (true, "true") => Some(format!("--{key}")),
            (true, _) => None,
        };
        let setting = |(key, value): &(&str, &Value)| format!("--set={key}={}", value.text);
        let seed = format!("--seed={}", self.seed);
        let options = self.options.iter().filter_map(option);
        options.chain(self.settings.iter().map(setting)).chain([seed])
    }

    /// The command that repeats the run.
    #[must_use]
    pub fn command(&self) -> String {
        format!("framewright run {} {}", self.workload, self.args().join(" "))
    }

    /// The identity of the run: a hash of the version of the program, the workload, the machine, the options, the
    /// settings and the seed. It does not depend on the rest of the plan.
    #[must_use]
    pub fn id(&self) -> u64 {
        let Machine { name, description, .. } = self.machine;
        let mut hash = XxHash64::with_seed(0);
        // Each part has an end, so that no two lists of parts are the same bytes.
        let mut add = |part: &str| {
            hash.write(part.as_bytes());
            hash.write(&[0xff]);
        };
        [env!("CARGO_PKG_VERSION"), self.workload, name, description]
            .into_iter()
            .for_each(&mut add);
        self.variable_args().for_each(|arg| add(&arg));
        hash.finish()
    }

    /// The values in the columns of the table.
    pub(super) fn cells(&self, columns: &[Column]) -> Vec<Option<&'p str>> {
        let all = || self.options.iter().chain(&self.settings);
        let value = |name: &str| all().find(|(key, _)| *key == name).map(|it| it.1.text.as_str());
        columns.iter().map(|column| value(&column.name)).collect()
    }
}

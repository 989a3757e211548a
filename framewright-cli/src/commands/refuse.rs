//! Options that a machine would ignore in silence.

use crate::failure::Failure;

/// Refuses those of these options that were given, on a machine that does not know them.
pub(super) fn only_simulated(options: &[(&str, bool)]) -> Result<(), Failure> {
    let given = given(options);
    let (are, them) = match given[..] {
        [] => return Ok(()),
        [_] => ("is", "it"),
        _ => ("are", "them"),
    };
    Err(Failure::BadInput(format!(
        "{} {are} for simulated machines; leave {them} out, or choose one, as in --machine uniform:4",
        given.join(" and ")
    )))
}

/// Refuses those that were given and are for a kernel on an emulated machine.
pub(super) fn only_on_qemu(options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::BadInput(format!(
            "{name} is for a kernel on an emulated machine: --machine qemu:4"
        ))),
    }
}

/// Refuses those that were given and mean nothing to a kernel on an emulated machine.
pub(super) fn not_on_qemu(options: &[(&str, bool)]) -> Result<(), Failure> {
    let given = given(options);
    let (mean, them) = match given[..] {
        [] => return Ok(()),
        [_] => ("means", "it"),
        _ => ("mean", "them"),
    };
    let memory = match given.contains(&"--memory") {
        true => "; memory is a part of the machine, as in --machine qemu:4,1GiB",
        false => "",
    };
    Err(Failure::BadInput(format!(
        "{} {mean} nothing to a kernel on an emulated machine: leave {them} out{memory}",
        given.join(" and ")
    )))
}

/// Names of those that were given.
fn given<'o>(options: &[(&'o str, bool)]) -> Vec<&'o str> {
    options.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_given_is_not_named() {
        let refused = |given: [bool; 3]| {
            let names = ["--a", "--b", "--c"];
            let options: Vec<_> = names.into_iter().zip(given).collect();
            only_simulated(&options).map_err(|failure| failure.to_string())
        };
        assert!(refused([false; 3]).is_ok());
        assert!(refused([false, true, false]).unwrap_err().starts_with("--b is for simulated"));
        let error = refused([true, false, true]).unwrap_err();
        assert!(
            error.starts_with("--a and --c are for") && error.contains("leave them"),
            "{error}"
        );
    }
}

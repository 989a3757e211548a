//! `framewright completions`: completions for shells, and man pages, from the definition of the command line.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Subcommand};
use clap_complete::{Shell, generate};

use crate::cli::Args;
use crate::failure::{Failure, Outcome};
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  framewright completions bash     for ~/.local/share/bash-completion/completions/framewright
  framewright completions zsh      for a file _framewright in a folder of $fpath
  framewright completions fish     for ~/.config/fish/completions/framewright.fish
  framewright completions man ~/.local/share/man/man1";

#[derive(Debug, Subcommand)]
pub(crate) enum Format {
    /// Print completions for Bash
    Bash,
    /// Print completions for Elvish
    Elvish,
    /// Print completions for Fish
    Fish,
    /// Print completions for PowerShell
    Powershell,
    /// Print completions for Zsh
    Zsh,
    /// Write a man page for each command
    Man {
        /// The folder of the pages; it must exist
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

/// Prints completions or writes man pages.
pub(crate) fn completions(format: &Format) -> Result<Outcome, Failure> {
    let shell = match format {
        Format::Bash => Shell::Bash,
        Format::Elvish => Shell::Elvish,
        Format::Fish => Shell::Fish,
        Format::Powershell => Shell::PowerShell,
        Format::Zsh => Shell::Zsh,
        Format::Man { folder } => return man_pages(folder),
    };
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "framewright", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Fine)
}

/// Writes `framewright.1`, `framewright-run.1` and so on.
fn man_pages(folder: &Path) -> Result<Outcome, Failure> {
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(Failure::BadInput(format!(
            "there is no folder '{folder}' for the man pages: create it, or name another"
        )));
    }
    clap_mangen::generate_to(Args::command(), folder).map_err(|error| {
        Failure::BadInput(format!("cannot write man pages into '{}': {error}", folder.display()))
    })?;
    Ok(Outcome::Fine)
}

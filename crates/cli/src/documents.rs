//! Manual pages and shell completion, made of the command line's own definition, so that they never say anything else.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// `completion`: prints what makes a shell complete the command.
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell
    shell: Shell,
}

impl Completion {
    /// Prints the script for `command`.
    pub fn execute(&self, command: Command) -> Result<ExitCode> {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut visible(command), name, &mut script);
        crate::print!("{}", String::from_utf8_lossy(&script));
        Ok(ExitCode::SUCCESS)
    }
}

/// `manual`: writes a manual page for each command, as packages install them.
#[derive(Debug, Args)]
pub struct Manual {
    /// Where the pages go; made if it is not there
    directory: PathBuf,
}

impl Manual {
    /// Writes the pages of `command`.
    pub fn execute(&self, command: Command) -> Result<ExitCode> {
        let failed = || format!("cannot write manual pages to {}", self.directory.display());
        fs::create_dir_all(&self.directory).with_context(failed)?;
        let mut whole = visible(command).disable_help_subcommand(true);
        whole.build();
        self.write(&whole, &whole).with_context(failed)?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, whole: &Command, command: &Command) -> Result<()> {
        command.get_subcommands().try_for_each(|below| self.write(whole, below))?;
        let page = clap_mangen::Man::new(command.clone()).manual("Headstart").date("");
        let mut text = Vec::new();
        page.render(&mut text)?;
        // What follows the options is called so by convention.
        let text = String::from_utf8(text)?.replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
        let mut file = fs::File::create(self.directory.join(page.get_filename()))?;
        file.write_all(text.as_bytes())?;
        // A page of a command below names the one above, where files, environment and statuses are.
        let name = whole.get_name();
        if command.get_name() != name {
            writeln!(file, ".SH \"SEE ALSO\"\n\\fB{}\\fR(1)", name.replace('-', "\\-"))?;
        }
        Ok(file.sync_all()?)
    }
}

/// The command without what is hidden: generators would offer that too.
fn visible(command: Command) -> Command {
    if command.get_subcommands().all(|below| !below.is_hide_set()) {
        return command;
    }
    let mut seen = Command::new(command.get_name().to_owned()).propagate_version(true).args(command.get_arguments());
    if let Some(version) = command.get_version() {
        seen = seen.version(version.to_owned());
    }
    if let Some(about) = command.get_about() {
        seen = seen.about(about.clone());
    }
    if let Some(after) = command.get_after_long_help() {
        seen = seen.after_long_help(after.clone());
    }
    seen.subcommands(command.get_subcommands().filter(|below| !below.is_hide_set()).cloned())
}

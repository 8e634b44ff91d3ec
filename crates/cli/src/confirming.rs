//! Asks whether what cannot be taken back is meant.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Result, bail};

/// Asks, unless the answer was given; an error, which says that nothing was `done`, unless it is meant.
pub fn confirm(yes: bool, question: &str, done: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("nothing was {done}: --yes says that it is meant");
    }
    print!("{question} Type 'yes': ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() != "yes" {
        bail!("nothing was {done}");
    }
    Ok(())
}

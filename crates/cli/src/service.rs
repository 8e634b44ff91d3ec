//! The site's agent as a command talks to it, whichever process that is: one that dies meanwhile is followed by
//! another, which is asked the same again. So is one that has just ended because nobody needed it.
//!
//! Commands say what is to be, not what is to be done: each may be given twice. What an agent keeps for a connection
//! alone (copying of regions, a file's regions in several messages) is begun anew by whoever sees that
//! [`Service::lives`] has changed.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use headstart_agent::Error;
use headstart_agent::client::Client;
use headstart_agent::status::{Command, Status};
use headstart_protocol::SOCKET_FILE;

use crate::start::{SHORT_LIVES_MAX, Start, pause_after};

/// See the module.
pub struct Service {
    start: Start,
    client: RefCell<Client>,
    lives: Cell<u32>,
    /// The node whose agent is meant, if that is another one: this node's passes commands on.
    node: Option<String>,
}

impl Service {
    /// Connects to the site's agent, or starts one.
    pub fn connect(start: Start) -> headstart_agent::Result<Service> {
        let client = start.connect()?;
        Ok(Service::of(start, client))
    }

    /// Goes on with an agent that is known.
    pub fn of(start: Start, client: Client) -> Service {
        Service { start, client: RefCell::new(client), lives: Cell::new(1), node: None }
    }

    /// The agent of another node, through this node's.
    pub fn of_node(start: Start, node: &str) -> headstart_agent::Result<Service> {
        Ok(Service { node: Some(node.to_string()), ..Service::connect(start)? })
    }

    /// Whether it is another node's.
    pub fn is_elsewhere(&self) -> bool {
        self.node.is_some()
    }

    /// The command as this node's agent is to be asked.
    pub fn addressed(&self, command: &Command) -> Command {
        match &self.node {
            Some(node) => Command::At { node: node.clone(), what: Box::new(command.clone()) },
            None => command.clone(),
        }
    }

    /// How many agents there were.
    pub fn lives(&self) -> u32 {
        self.lives.get()
    }

    /// The agent's runtime directory.
    pub fn runtime(&self) -> PathBuf {
        self.client.borrow().runtime().to_path_buf()
    }

    /// Asks, and asks the next agent where this one dies.
    pub fn ask(&self, command: &Command) -> headstart_agent::Result<Status> {
        let command = self.addressed(command);
        loop {
            let answer = self.client.borrow().ask(&command);
            match answer {
                Err(gone @ Error::NoAgent { .. }) => self.follow_on(gone)?,
                answer => return answer,
            }
        }
    }

    /// Gives several commands to one agent, and all of them to the next where it dies.
    pub fn ask_all(&self, commands: &[Command]) -> headstart_agent::Result<()> {
        loop {
            let lives = self.lives();
            for command in commands {
                self.ask(command)?;
                if lives != self.lives() {
                    break;
                }
            }
            if lives == self.lives() {
                return Ok(());
            }
        }
    }

    /// Another connection to the agent, for a thread that waits.
    pub fn again(&self) -> headstart_agent::Result<Client> {
        loop {
            let client = self.client.borrow().again();
            match client {
                Err(gone @ Error::NoAgent { .. }) => self.follow_on(gone)?,
                client => return client,
            }
        }
    }

    /// Another agent in the place of one that is gone. One that somebody stopped is followed by none.
    pub fn follow_on(&self, gone: Error) -> headstart_agent::Result<()> {
        if !self.runtime().join(SOCKET_FILE).exists() {
            return Err(gone);
        }
        if self.lives.get() == 1 {
            eprintln!("headstart: the agent has ended meanwhile; starting another one");
        }
        loop {
            let lives = self.lives.get();
            if lives > SHORT_LIVES_MAX {
                return Err(gone);
            }
            self.lives.set(lives + 1);
            std::thread::sleep(pause_after(lives - 1));
            match self.start.follow_on() {
                Ok(next) => {
                    self.client.replace(next.into_client());
                    return Ok(());
                }
                Err(error) if error.means_in_use() && lives > 1 => return Err(error),
                // Another one is tried; of the last the caller tells.
                Err(_) => {}
            }
        }
    }
}

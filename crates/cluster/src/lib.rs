//! Members of a site: who may absorb what, in which order it counts, and what is left when some are gone.
//!
//! The protocol is `spec/cluster.md`; this crate is its state machines, and its checker runs them through every
//! interleaving of small cases (`checker`, in the tests). What happens comes in with its time, work goes out as
//! [`Output`]s; there is no socket, no file and no clock.
//!
//! | what | whose | files |
//! |---|---|---|
//! | names, records, messages, work | everybody's | `names.rs`, `record.rs`, `message.rs`, `output.rs` |
//! | the view, and fencing by time | the site's, the member's | `view.rs`, `lease.rs` |
//! | what a log says of files | the node that writes it | `log.rs` |
//! | who owns a file | its home | `home.rs`, `home/` |
//! | order, map, who touches slow bytes | its owner | `owner.rs`, `owner/`, `stack.rs` |
//! | a file that one member uses | its owner | `owner/alone.rs`, `member/alone.rs` |
//! | what lies over which bytes | all of them | `spans.rs` |
//! | bits, requests that wait | each member | `guest.rs`, `guest/`, `absence.rs` |
//! | which files are at work | each member | `files.rs` |
//! | all of these of one agent | the agent | `member.rs`, `member/` |
//! | names that changed, programs beside which nothing may be on flash | each agent | `note.rs`, `notes.rs` |
//! | how much flash each may take | each agent | `shares.rs` |
//! | messages, notes and views as bytes | | `wire.rs`, `wire/` |
//!
//! Imports go one way: values, parts, `member.rs`, its verbs.
//!
//! # The invariant
//!
//! A record lies in the log of the node whose call caused it. While a byte is mapped, its slow byte is touched only by
//! threads that the owner knows as writers, or by the one copy under way. Who reads or writes it without asking holds
//! absence, which is called in before anything is mapped there.
#![forbid(unsafe_code)]

mod absence;
mod files;
mod guest;
mod home;
mod lease;
mod log;
mod member;
mod message;
mod names;
mod note;
mod notes;
mod output;
mod owner;
mod record;
mod rules;
mod shares;
mod spans;
mod stack;
mod view;
pub mod wire;

#[cfg(test)]
mod checker;

pub use guest::Found;
pub use lease::Timing;
pub use log::{Log, Logged};
pub use member::Member;
pub use message::{Answer, Ask, Declared, Envelope, Message, Writing};
pub use names::{Concerned, FileId, MemberId, Order, RequestId, Seat, Stamp};
pub use note::{Note, Told};
pub use notes::Notes;
pub use output::Output;
pub use record::{Entry, Intent, Record, What};
pub use shares::Shares;
pub use view::{Fate, View};

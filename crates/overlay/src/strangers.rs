//! Programs that the library is not in use the directory: while one lives nothing comes to flash, and what
//! was there has left it.
//!
//! As when a process uses one file unseen ([`crate::requests`]), for all files, and without a process of
//! ours that would tell of it.

use crate::overlay::Overlay;
use crate::parts::pending::Operation;
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

impl Overlay {
    /// From now on nothing comes to flash, or again it may.
    pub fn keep_off(&mut self, shared: Shared<'_>, on: bool) {
        self.threads.set_strangers(on);
        if on {
            self.fetches.cancel_all();
            self.close_all_granules(shared);
        }
        self.poll(shared);
    }

    /// Whether nothing comes to flash.
    pub fn is_kept_off(&self) -> bool {
        self.threads.has_strangers()
    }

    /// Other nodes have not all said whether such programs live there, or all have: nothing comes to flash until then.
    pub fn await_others(&mut self, shared: Shared<'_>, on: bool) {
        self.threads.set_awaits_others(on);
        self.poll(shared);
    }

    /// Whether nothing comes to flash now: such programs live somewhere, or may.
    pub(crate) fn lets_nothing_in(&self) -> bool {
        self.is_kept_off() || self.threads.await_others()
    }

    /// Files of which bytes are on flash.
    pub fn files_on_flash(&self) -> impl Iterator<Item = u32> + '_ {
        self.files.iter().filter(|(_, file)| !file.map.is_empty()).map(|(&number, _)| number)
    }

    /// The file's dirty bytes go back to disk and all leave flash; then the envelope is answered.
    pub fn take_off(&mut self, shared: Shared<'_>, envelope: Envelope, file: u32) {
        self.file(file).write_back_error = None;
        self.pending.leaving().stir(file);
        self.close_granules(shared, file, Range::new(0, u64::MAX));
        self.cancel_fetches(file, Range::new(0, u64::MAX));
        self.pending.push(envelope, Operation::Bypass { file, writes: true });
        self.poll(shared);
    }
}

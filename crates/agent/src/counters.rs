//! What the agent's event loop counts itself; the overlay and the library count the rest.

use headstart_protocol::figures;
use headstart_protocol::message::Request;

figures! {
    /// What the event loop did.
    ServiceCounters {
        agent_starts_total: AGENT_STARTS [];
        connections_total: CONNECTIONS [];
        errors_answered_total: ERRORS [];
        opens_excluded_total: OPENS_EXCLUDED [];
        journal_appended_bytes_total: JOURNAL_APPENDED [];
        journal_rotations_total: JOURNAL_ROTATIONS [];
        drains_total: DRAINS [];
        strangers_total: STRANGERS [];
        log_rotations_total: LOG_ROTATIONS [];
        hello_messages_total: MESSAGES [kind = "hello"];
        open_messages_total: MESSAGES [kind = "open"];
        close_messages_total: MESSAGES [kind = "close"];
        slab_messages_total: MESSAGES [kind = "slab"];
        commit_messages_total: MESSAGES [kind = "commit"];
        read_messages_total: MESSAGES [kind = "read"];
        confirm_messages_total: MESSAGES [kind = "confirm"];
        write_messages_total: MESSAGES [kind = "write"];
        write_done_messages_total: MESSAGES [kind = "write_done"];
        truncate_messages_total: MESSAGES [kind = "truncate"];
        truncate_done_messages_total: MESSAGES [kind = "truncate_done"];
        sync_messages_total: MESSAGES [kind = "sync"];
        write_back_messages_total: MESSAGES [kind = "write_back"];
        bypass_messages_total: MESSAGES [kind = "bypass"];
        sealed_messages_total: MESSAGES [kind = "sealed"];
        descriptor_messages_total: MESSAGES [kind = "descriptor"];
        connect_messages_total: MESSAGES [kind = "connect"];
        marked_messages_total: MESSAGES [kind = "marked"];
        unlinked_messages_total: MESSAGES [kind = "unlinked"];
        times_set_messages_total: MESSAGES [kind = "times_set"];
        name_messages_total: MESSAGES [kind = "name"];
        renamed_messages_total: MESSAGES [kind = "renamed"];
        flash_failed_messages_total: MESSAGES [kind = "flash_failed"];
        regions_messages_total: MESSAGES [kind = "regions"];
        control_messages_total: MESSAGES [kind = "control"];
    }
}

impl ServiceCounters {
    /// Counts a message.
    pub fn message(&mut self, request: &Request<'_>) {
        *match request {
            Request::Hello { .. } => &mut self.hello_messages_total,
            Request::Open { .. } => &mut self.open_messages_total,
            Request::Close { .. } => &mut self.close_messages_total,
            Request::Slab { .. } => &mut self.slab_messages_total,
            Request::Commit { .. } => &mut self.commit_messages_total,
            Request::Read { .. } => &mut self.read_messages_total,
            Request::Confirm { .. } => &mut self.confirm_messages_total,
            Request::Write { .. } => &mut self.write_messages_total,
            Request::WriteDone { .. } => &mut self.write_done_messages_total,
            Request::Truncate { .. } | Request::Rearrange { .. } => &mut self.truncate_messages_total,
            Request::TruncateDone { .. } | Request::RearrangeDone { .. } => &mut self.truncate_done_messages_total,
            Request::Sync { .. } => &mut self.sync_messages_total,
            Request::WriteBack { .. } => &mut self.write_back_messages_total,
            Request::Bypass { .. } => &mut self.bypass_messages_total,
            Request::Sealed { .. } => &mut self.sealed_messages_total,
            Request::Descriptor { .. } => &mut self.descriptor_messages_total,
            Request::Connect => &mut self.connect_messages_total,
            Request::Marked => &mut self.marked_messages_total,
            Request::Unlinked { .. } => &mut self.unlinked_messages_total,
            Request::TimesSet { .. } => &mut self.times_set_messages_total,
            Request::Name { .. } => &mut self.name_messages_total,
            Request::Renamed { .. } => &mut self.renamed_messages_total,
            Request::FlashFailed { .. } => &mut self.flash_failed_messages_total,
            Request::Regions { .. } => &mut self.regions_messages_total,
            Request::Control { .. } => &mut self.control_messages_total,
        } += 1;
    }
}

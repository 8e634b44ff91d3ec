//! What metrics show.

/// Of all connections, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that others made.
    pub accepted_total: u64,
    /// Attempts of this member to make one.
    pub dials_total: u64,
    /// Of these, those that failed before the peer said who it is.
    pub failed_dials_total: u64,
    /// Connections of others that were not let in: key, version, directory, name, or no HELLO in time.
    pub refused_total: u64,
    /// Connections closed over what is no frame.
    pub bad_frames_total: u64,
    /// Connections closed because the peer was silent.
    pub silent_total: u64,
}

/// Of one peer, since it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Bytes that went, before TLS: messages, their heads, questions and answers about round trips.
    pub sent_bytes: u64,
    /// Bytes of messages that came.
    pub received_bytes: u64,
    /// Messages queued.
    pub sent_messages_total: u64,
    /// Messages that came.
    pub received_messages_total: u64,
    /// Messages that found no room or no way, and those that were queued when the way was lost.
    pub dropped_messages_total: u64,
    /// Packets that went: what waited, joined.
    pub sent_packets_total: u64,
    /// Reads that brought something.
    pub received_packets_total: u64,
    /// Connections that came to be; all but the first are reconnects.
    pub connections_total: u64,
    /// Round-trip time between the two loops, smoothed as TCP's (RFC 6298: an eighth of each new one); zero if unknown.
    pub round_trip_ns: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: u64,
}

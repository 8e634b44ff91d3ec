//! What a paper prints of a run.

use serde::Deserialize;

/// What of a report is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Bytes from the first open to the last close.
    #[default]
    MbPerS,
    /// Bytes over the time that the slowest rank spent in requests.
    RequestMbPerS,
    /// Latency below which four fifths of the requests are.
    P80Ms,
    /// Mean latency of a request at its rank.
    MeanMs,
    /// Mean distance between disk commands, in millions of sectors of 512 bytes.
    SeekMLbn,
    /// Share of requests that flash served whole, in per cent.
    FlashRequestsPercent,
    /// Mean over ranks of their bytes over their time in requests, times ranks (BTIO).
    RanksMbPerS,
    /// From the job's begin to its end.
    Seconds,
    /// Bytes of all measured jobs until nothing is dirty any more.
    DrainedMbPerS,
    /// Of the window: bytes of a disk command, in KB.
    CommandKb,
    /// Of the window: disk commands that begin more than a MiB from where the last one ended, in per cent.
    JumpsPercent,
    /// Of the window: disk commands that begin below the last one, in per cent.
    BackwardPercent,
    /// Of the window: mean distance between disk commands, in millions of sectors of 512 bytes.
    WindowSeekMLbn,
    /// Of the window: time from a request's arrival at the server to its answer, of half of them at most.
    ServerP50Ms,
    /// Of nine tenths.
    ServerP90Ms,
    /// Of all.
    ServerMaxMs,
}

impl Measure {
    /// Whether it is of what the window traces.
    pub fn is_of_window(self) -> bool {
        use Measure::{
            BackwardPercent, CommandKb, JumpsPercent, ServerMaxMs, ServerP50Ms, ServerP90Ms, WindowSeekMLbn,
        };
        matches!(
            self,
            CommandKb | JumpsPercent | BackwardPercent | WindowSeekMLbn | ServerP50Ms | ServerP90Ms | ServerMaxMs
        )
    }
}

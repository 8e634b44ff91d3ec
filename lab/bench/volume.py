"""What a volume gains and costs; the last line is one JSON object.

`suite`: eight benchmarks of 48 streams under iTransformer, on emulated devices in real time, over the same disk without, and
`uniform_random_write_4k` likewise; `predicted`: the same simulated. `liu`: LiU, simulated on its paper's servers, but for `ior_read`, which is
measured on the testbed; `liu_simulated.ior_read` stands beside that, and `liu_testbed` beside what is simulated of the other benchmarks.
`compose` and `auto`: policies above and below each other, and the volume's own choice, simulated. `paper`: rows of iTransformer's brief.
`drain_mb_s`: what strided writes are written back at, over the disk's sequential rate;
`foreground_p99_added_ms`: what that adds to reads beside it, for several bounds. `fsync_write`: flushed random writes over those of the
disk alone, and `fsync_write_sustained` on a log that is full. `recovery`: the start of a full slice of 64 GB, and
`ram_bytes_per_gb_flash`. `passthrough_iops`: 4 KiB random reads through the engine over the same file read directly, and
what one takes longer (`passthrough_added_us`; `_to_threads_us` if its thread sleeps meanwhile); `nbd_iops`: over NBD at
depth 32, a volume in front of a fast file over nbdkit's own `file` plugin on that file, in rounds that take turns. `--only KEY` measures one part."""

import sys

import harness
from cells import volume_compose, volume_drain, volume_engine, volume_flush, volume_liu, volume_nbd, volume_recovery, volume_streams, volume_suite, volume_testbed

#: Parts in the order they are measured.
PARTS = {
    "predicted": volume_suite.measure,
    "liu": volume_liu.measure,
    "paper": volume_liu.predict,
    "compose": volume_compose.measure,
    **volume_streams.PARTS,
    "uniform": volume_streams.uniform,
    "testbed": volume_testbed.measure,
    "drain": volume_drain.measure,
    "foreground": volume_drain.measure_beside,
    "fsync": volume_flush.measure,
    "sustained": volume_flush.measure_sustained,
    "recovery": volume_recovery.measure,
    "engine": volume_engine.measure,
    "nbd": volume_nbd.measure,
}


if __name__ == "__main__":
    sys.exit(harness.measure_parts(__doc__, PARTS, conclude=volume_streams.conclude))

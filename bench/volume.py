"""What a volume gains and costs; the last line is one JSON object.

`suite`: eight benchmarks of 48 streams under iTransformer over the same disk without, simulated; `passthrough_iops`: 4 KiB random reads
through the engine over the same file read directly; `fsync_write`: flushed random writes over those of the disk alone, on emulated
devices; `nbd_iops`: 4 KiB random reads over NBD at depth 32, a volume in front of a fast file over nbdkit's own `file` plugin on that file, in
rounds that take turns. `--only KEY` measures one part."""

import sys

import harness
from cells import volume_engine, volume_flush, volume_nbd, volume_suite

#: Parts in the order they are measured.
PARTS = {
    "suite": volume_suite.measure,
    "engine": volume_engine.measure,
    "fsync": volume_flush.measure,
    "nbd": volume_nbd.measure,
}


if __name__ == "__main__":
    sys.exit(harness.measure_parts(__doc__, PARTS))

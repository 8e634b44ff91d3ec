"""What a volume gains and costs; the last line is one JSON object.

`nbd_iops`: 4 KiB random reads over NBD at depth 32, a volume in front of a fast file over nbdkit's own `file` plugin on that file, in
rounds that take turns. `--only KEY` measures one part."""

import sys

import harness
from cells import volume_nbd

#: Parts in the order they are measured.
PARTS = {
    "nbd": volume_nbd.measure,
}


if __name__ == "__main__":
    sys.exit(harness.measure_parts(__doc__, PARTS))

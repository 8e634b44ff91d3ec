#!/usr/bin/env bash
# Runs every fuzz target for so many seconds. What one fails on is left in lab/fuzz/artifacts/TARGET.
set -euo pipefail
seconds=${1:?seconds}
cd "$(dirname "$0")"
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz" >&2
    exit 1
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "make fuzz needs a nightly compiler: rustup toolchain install nightly" >&2
    exit 1
fi
for target in $(cargo +nightly fuzz list); do
    echo "$target, $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048 -timeout=30 -print_final_stats=1
done

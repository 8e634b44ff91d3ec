#!/bin/sh
# Installs what is missing on Debian 12, by package name. Does nothing, quickly, where all is there.
set -eu

packages="build-essential fuse3 git libopenmpi-dev openmpi-bin python3 sqlite3"

if ! command -v cargo >/dev/null 2>&1; then
    if [ -x "$HOME/.cargo/bin/cargo" ]; then
        echo "setup: cargo is in $HOME/.cargo/bin, which is not in PATH; run: . $HOME/.cargo/env" >&2
    else
        echo "setup: cargo is missing; install Rust 1.88 or later as https://rustup.rs says, then run make again" >&2
    fi
    exit 1
fi

missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: missing:$missing; install them with: sudo apt-get install$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

if [ ! -e /dev/fuse ]; then
    echo "setup: /dev/fuse is missing: the testbed cannot mount, and tests that need it are skipped" >&2
fi

#!/bin/sh
# Makes pagewire in a container of Debian or Ubuntu: packages of the distribution, and the source tree
# that this file is in, built into /opt/venv. Dockerfile and pagewire.def run it, as root.
set -eu
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
    gcc libc6-dev libfabric-dev python3 python3-dev python3-venv
rm -rf /var/lib/apt/lists/*
export PAGEWIRE_VENV=/opt/venv PIP_NO_CACHE_DIR=1
exec "$(dirname -- "$0")/../mpirun.sh" build

#!/usr/bin/env bash
# Build the environment of a gate as `make bench` does, then add the packages of the repository under test.
#
#     bash scripts/ci/install.sh VENV ["arguments of pip install, quoted as in a shell"]
#
# A vendor's torch is never replaced: on a vendor's Python the environment has constraints of its own, with that torch.
set -euo pipefail
tool=$(dirname "${BASH_SOURCE[0]}")/../..
venv=$1 packages=${2:-}
make --no-print-directory -C "$tool" venv VENV="$venv"
pins=$venv/constraints.txt
[ -f "$pins" ] || pins=$tool/constraints.txt
xargs --no-run-if-empty "$venv/bin/python" -m pip install --no-input -c "$pins" <<<"$packages"

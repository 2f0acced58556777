#!/bin/sh
# Installs torch alone: from a wheel directory that pip is configured with (PIP_FIND_LINKS) where the build lies there,
# else from an index of PyTorch.
# Usage: install_torch.sh PYTHON REQUIREMENT INDEX_URL; `pip` is on the PATH
set -eu
python=$1 requirement=$2 index_url=$3
if [ -n "${PIP_FIND_LINKS:-}" ]; then
    pip --python "$python" install --no-index --no-deps "$requirement" && exit 0
    echo "no wheel of $requirement in $PIP_FIND_LINKS: taking it from $index_url" >&2
fi
# That index only: elsewhere the same version is a build for something else.
PIP_EXTRA_INDEX_URL='' exec pip --python "$python" install --no-deps --index-url "$index_url" "$requirement"

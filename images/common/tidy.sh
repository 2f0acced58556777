#!/bin/sh
# Takes what only builds need out of virtual environments, and compiles the rest, since nothing can be written at run
# time. The bytecode holds no times, so that the same sources give the same files.
# Usage: tidy.sh ENVIRONMENT...
set -eu
for environment in "$@"; do
    packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    # torch's own tests, a hundred megabytes; torch_shm_manager beside them is needed at run time.
    rm -rf "$packages/torch/test" "$packages"/torch/bin/*test* "$packages"/torch/bin/*Test* "$packages"/torch/bin/*bench*
    rm -rf "$packages"/torch/bin/protoc* "$packages"/torch/lib/*.a
    if [ -x "$environment/bin/pip" ]; then
        "$environment/bin/python" -m pip uninstall --quiet --yes setuptools pip
    fi
    rm -f "$environment"/bin/activate* "$environment"/bin/Activate.ps1
    find "$packages" -name __pycache__ -prune -exec rm -rf {} +
    # transformers holds hundreds of models of which none is run, and torch test files that are no Python of this version.
    "$environment/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -x '/transformers/models/(?!auto/)|/torch/testing/|/(tests?|templates?)/' "$packages"
done

#!/bin/sh
# Run the steps of the Dockerfile in an empty directory, and the commands that its comments show.
#   sh verification/container_steps.sh DIRECTORY
set -eu
target=${1:?usage: sh verification/container_steps.sh DIRECTORY}
source=$(cd "$(dirname "$0")/.." && pwd)
[ ! -e "$target" ] || { echo "$target exists already" >&2; exit 2; }
mkdir -p "$target/src" "$target/work"
cd "$source"
cp pyproject.toml constraints.txt README.md LICENSE "$target/src"
cp -R src examples "$target/src"
target=$(cd "$target" && pwd)
unset PYTHONPATH
"${PYTHON:-python3}" -m venv "$target/endive"
cd "$target/src"
"$target/endive/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check -c constraints.txt '.[probe]'
rm -rf "$target/src"
cd "$target/work"
PATH=$target/endive/bin:$PATH
endive --help > /dev/null
endive examples run load_by_provider -o experiments
test -s experiments/report.html
du -sm "$target/endive" | awk '{ print "installed: " $1 " MiB" }'

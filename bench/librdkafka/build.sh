#!/usr/bin/env bash
# Builds this program with librdkafka:
#
#   build.sh PROGRAM
#   PROGRAM bench appends --target kafka://127.0.0.1:9092?client=librdkafka
#
# One file that imports the library is laid over the command's sources, for this
# build alone. Needs a C compiler.
set -euo pipefail
program=$(realpath -m "${1:?usage: build.sh PROGRAM}")
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'package main\n\nimport _ "strandline.dev/bench/librdkafka"\n' > "$work/librdkafka.go"
printf '{"Replace": {"%s": "%s"}}\n' "$(realpath ../../cmd/strandline)/librdkafka.go" "$work/librdkafka.go" > "$work/overlay.json"
CGO_ENABLED=1 go build -overlay "$work/overlay.json" -o "$program" strandline.dev/cmd/strandline

#!/usr/bin/env bash
# Builds strandline-bench with librdkafka:
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
printf '{"Replace": {"%s": "%s"}}\n' "$(realpath ../../cmd/strandline-bench)/librdkafka.go" "$work/librdkafka.go" > "$work/overlay.json"
# The main module may require more by now than this one knows: go.mod is brought
# up to date in a copy.
cp go.mod go.sum "$work"
sed -i "s#=> ../..#=> $(realpath ../..)#" "$work/go.mod"
CGO_ENABLED=1 go build -mod=mod -modfile="$work/go.mod" -overlay "$work/overlay.json" -o "$program" strandline.dev/cmd/strandline-bench

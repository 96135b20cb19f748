#!/usr/bin/env bash
# Puts a real Apache Kafka into a directory, for "strandline bench" to start:
#
#   fetch.sh DIRECTORY [VERSION]
#
#   DIRECTORY/lib/*.jar    the broker and what it needs, as published to Maven
#   DIRECTORY/slowsync.so  the slow disk of preload/slowsync.c; absent without a C
#                          compiler, which only --fsync-delay needs
#   DIRECTORY/version      written last: it is whole
#
# Needs mvn, and a JDK or JRE of 17 or newer to run it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: fetch.sh DIRECTORY [VERSION]}
version=${2:-4.3.1}

mkdir -p "$directory"
if [ "$(cat "$directory/version" 2>/dev/null)" != "$version" ]; then
  rm -rf "$directory/lib" "$directory/version"
  mvn --quiet --batch-mode --file "$here/pom.xml" -Dkafka.version="$version" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$(realpath "$directory")/lib"
  echo "$version" > "$directory/version"
fi
if [ "$here/preload/slowsync.c" -nt "$directory/slowsync.so" ] && command -v cc > /dev/null; then
  cc -O2 -Wall -Wextra -shared -fPIC -o "$directory/slowsync.so" "$here/preload/slowsync.c" -ldl
fi

#!/bin/sh
# Builds librdkafka and its tests from the source of the system's package, in this
# folder. The argument is apt-get.
set -e
mkdir -p lists/partial cache/archives/partial
sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/*.sources > source.sources
options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$PWD/parts -o Dir::State::lists=$PWD/lists -o Dir::Cache=$PWD/cache"
mkdir -p parts
mv source.sources parts/
"$1" $options update
"$1" $options source --download-only librdkafka
mkdir -p source
tar xf librdkafka_*.orig.tar.* -C source --strip-components 1
cd source
./configure --disable-gssapi --disable-curl
make -j2 libs
cd tests
make -j2 build

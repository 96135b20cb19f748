# The verbs of a developer. `.ci/run` calls the same ones; CONTRIBUTING.md says when.
.DEFAULT_GOAL := help
.PHONY: help quick check format vet modules generated lint flaws model model-short model-traces test race unraced clients streams sim fuzz bench vulncheck fix attacks deployment monitoring site release reproducible packages installed browser

HELM    := go run helm.sh/helm/v3/cmd/helm@v3.18.4
BUF     := npx --yes @bufbuild/buf@1.71.0
LINT    := GOGC=400 go tool -modfile=tools/go.mod
SOURCES := git ls-files '*.go' | grep -v '^api/'
MODULES := $(shell git ls-files '*go.mod' | xargs -n1 dirname)

# Rooms that decide and do nothing else: one goroutine, see test/tidy/pure_test.go.
PURE := cluster cluster/access digest filter replica/core replica/core/lagging segment/format sequence

# Rooms with one goroutine. The race detector sees those of their tests that start others: Beside is in their names.
ALONE := $(PURE:%=internal/%) internal/archive internal/record internal/segment internal/segment/repair test/history/judge

# Tests of processes and of this tree, which it says nothing of. test/chaos runs nodes that are built with it.
PROCESSES := clients/scenarios examples examples/% test/cluster test/cluster/% test/flaws test/sim test/tidy

# Tests that do less under the race detector run without it too.
LESS := -run 'Costs|StayWithin|AboveTheLargestMessage|TheLargestCatalog' ./internal/node ./internal/server ./internal/server/kafka

# They take longest: they begin first, so that none is left alone at the end.
LONG  := internal/node internal/server internal/cli clients/scenarios test/cluster test/cluster/memory test/sim
first  = $(filter $(LONG:%=strandline.dev/%),$(1)) $(filter-out $(LONG:%=strandline.dev/%),$(1))

UNRACED = $(filter $(patsubst %,strandline.dev/%,$(ALONE) $(PROCESSES)),$(ALL))
RACED   = $(filter-out $(UNRACED),$(ALL))
BESIDE  = $(patsubst %,./%,$(sort $(dir $(shell git grep -lE 'func Test[A-Za-z0-9]*Beside' -- $(ALONE:%='%/*_test.go')))))
ALL     = $(shell go list ./...)

# How much: `make sim COUNT=10000 FROM=500`, `make fuzz TIME=5m`, `make bench OUT=results`.
FROM  ?= 0
COUNT ?= 1000
TIME  ?= 30s
OUT   ?= results

help: ## print these lines
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 17

check: format vet modules generated lint ## check format, vet, go.mod files, generated code and lint; change nothing

quick: ## vet everything and test what decides: half a minute
	go vet ./...
	go test $(PURE:%=./internal/%) ./internal/record ./internal/replica/... ./internal/transport/wire ./test/tidy

# What follows is the README's: all tests, each where it shows most. `go test ./...` runs all of them, too, but without
# the race detector.
ifeq ($(PKG)$(RUN),)
test: race unraced
endif
test: ## run all tests, under the race detector where there are goroutines; PKG=./client RUN=Hold for some, without it
	$(if $(PKG)$(RUN),go test $(or $(PKG),./...) $(if $(RUN),-run '$(RUN)'))

race: ## run the tests of what has goroutines under the race detector; PKG and RUN as above
	go test -race $(or $(PKG),$(call first,$(RACED))) $(if $(RUN),-run '$(RUN)')
	$(if $(PKG)$(RUN),,go test -race -run Beside $(BESIDE))

unraced: ## run the tests of all else
	go test $(call first,$(UNRACED) strandline.dev/internal/cli)
	go test -skip TheLargestRequestThatIsRefused $(LESS)
	go test -run TheLargestRequestThatIsRefused ./internal/server
	go -C examples/databases test -skip README ./kv -kv.kills=4

clients: ## build and test the clients in other languages whose tools are here
	@clients/check

.PHONY: databases
databases: ## vet and test the databases of examples/, on Pebble and SQLite, with all that is killed: a minute and their compilation
	go -C examples/databases vet ./...
	go -C examples/databases test -count=1 ./...

.PHONY: client-packages
client-packages: ## make the packages of the clients, install each into an empty project and use it there: 5 minutes
	work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && clients/package "$$work" && clients/installed "$$work" "$$(clients/program "$$work")"

.PHONY: api-changes
api-changes: ## show how the Go API has changed since BASE, or the newest tag, and fail if a change is incompatible: a minute
	scripts/api-changes $(BASE)

streams: ## run the conformance suite of Durable Streams, on one node and on three while leaders move; needs node and npm: 5 minutes
	go -C interop test -count=1 -timeout 25m -run DurableStreams .

browser: ## test the console in Chromium on real nodes, screenshots in OUT; needs chromium and npm: 5 minutes
	SHOTS="$(abspath $(OUT))" go -C test/browser test -count=1 -timeout 30m -v .

flaws: ## check that servers which are broken on purpose are noticed
	overlay=$$(mktemp -d) && trap 'rm -rf "$$overlay"' EXIT && go run ./test/flaws/overlay "$$overlay" && \
	go test -tags broken -overlay "$$overlay/overlay.json" ./test/sim ./test/flaws -run 'Flaw|Broken'

model-short: ## the runs of the model that CI does: a minute
	test/model/check short

model: ## check the TLA+ model of what Strandline adds to Raft; needs Java and pip
	test/model/check

model-traces: ## follow traces of the simulator through raft's own specification; needs Java and pip
	test/model/traces/check

sim: ## run COUNT seeds of the simulator, from seed FROM
	go run ./test/sim/seeds -from $(FROM) -count $(COUNT)

fuzz: ## fuzz each target for TIME
	scripts/fuzz $(TIME)

attacks: ## attack a node in turn in 25 ways, each beside an honest client whose p99 may double, with TLS if TLS=1: 25 minutes
	go build -o "$${TMPDIR:-/tmp}/strandline-attacks" ./test/attacks && "$${TMPDIR:-/tmp}/strandline-attacks" $(if $(TLS),-tls); \
	code=$$?; rm -f "$${TMPDIR:-/tmp}/strandline-attacks"; exit $$code

bench: ## run the short benchmark suite and write its page to OUT (15 minutes: strandline bench all)
	go run ./cmd/strandline-bench bench all --quick --out $(OUT)

vulncheck: ## look for known vulnerabilities in what is used; asks the network, or VULNDB (a URL, also file://)
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 $(if $(VULNDB),-db $(VULNDB)) ./...

deployment: ## check the chart as Helm reads it; builds Helm once: minutes
	$(HELM) lint --strict deploy/helm/strandline
	for set in '' insecure=true,nodes=1,kafka.enabled=false joining.nodes=2,joining.tokenSecret=t,zoneLabel=true,serviceMonitor.enabled=true; do \
		$(HELM) template log deploy/helm/strandline --set "$$set" >/dev/null || exit 1; \
	done

monitoring: ## check the alerts, their tests and the dashboards as Prometheus does; fetches promtool if it is not installed
	deploy/prometheus/check

site: ## build the documents of VERSION as a site in OUT and check its links; SOURCE is where its sources are, if anywhere
	SOURCE="$(SOURCE)" deploy/site/build "$(or $(VERSION),0.0.0-dev)" "$(OUT)"

release: ## make all that VERSION (as 0.1.0) is published as in OUT; KEY is minisign's secret key, to sign with: docs/releasing.md
	go -C deploy/release run . -version "$(VERSION)" -out "$(abspath $(OUT))" $(if $(KEY),-key "$(abspath $(KEY))") $(RELEASE)

reproducible: ## make a release of VERSION twice, in two places with two caches, and compare: 10 minutes
	deploy/release/twice "$(or $(VERSION),0.0.0-test)" $(RELEASE)

packages: ## pack stand-ins of the programs, and look into the packages
	go -C deploy/release test ./...

installed: ## install the package in a clean Debian, run it, upgrade and remove it, and run the image; needs root and debootstrap
	deploy/packages/check

fix: ## do what `make check` asks for: format, tidy the go.mod files, generate api/
	$(SOURCES) | xargs gofmt -w
	for m in $(MODULES); do go -C $$m mod tidy || exit 1; done
	$(BUF) generate
	[ ! -d clients/python/.venv ] || clients/python/generate
	[ ! -d clients/rust/target ] || CARGO_TARGET_DIR=clients/rust/target cargo run --quiet --manifest-path clients/rust/generate/Cargo.toml

format:
	@unformatted=$$($(SOURCES) | xargs gofmt -l); \
	[ -z "$$unformatted" ] || { echo "run \`make fix\` to format:"; echo "$$unformatted"; exit 1; }

# The folders of files that only builds with a tag have. Those of `broken` are tests, so that nothing else depends on them.
tagged = $(patsubst %,./%,$(sort $(dir $(shell git grep -l '^//go:build $(1)' -- '*.go'))))

vet:
	go vet ./...
	go vet -tags broken $(call tagged,broken)
	go vet -tags with_tla ./internal/replica/... ./test/sim/...

# bench/sarama145 has no code of its own: it has to go on fitting the main module.
modules:
	for m in $(MODULES); do go -C $$m mod tidy -diff || exit 1; done
	go -C bench/sarama145 build -o /dev/null strandline.dev/cmd/strandline-bench

# The plugins are tools of go.mod.
generated:
	$(BUF) lint
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && \
	$(BUF) generate --output "$$out" && \
	diff -r "$$out/api" api || { echo "api/ is not what proto/ generates: run \`make fix\`"; exit 1; }

lint:
	$(LINT) staticcheck ./...
	$(LINT) revive -config tools/revive.toml -exclude ./api/... ./...

# What a person runs. CI runs lint and test, nothing else.
GO ?= go
# Vet is left to make lint, and nobody debugs these binaries. On a busy machine a package may take an hour. Results are not
# cached: much is tried at random moments, and the go command would look at every file that a test has opened.
TESTFLAGS ?= -timeout 1h -count=1 -p 2 -vet=off -ldflags=-w
FUZZTIME ?= 60s

# The race detector on all that is written here and on all it uses, but for the C of SQLite that was
# turned into Go: one connection is used by one goroutine, which zombiezen.com/go/sqlite is watched for,
# and to watch every read of its memory makes what a store does three times slower.
RACE := -race '-gcflags=modernc.org/...=-race=false'

# The rooms that the race detector watches in CI: those whose code does several things at a time, and the suites of
# tests. In rooms whose tests mostly wait for git, agents or a browser it watches those tests in which something happens
# at the same time as something else.
WATCHED := ./internal/agent ./internal/agent/gateway ./internal/agent/host ./internal/agent/scripted \
  ./internal/app/people/... ./internal/engine/... ./internal/record ./internal/record/event \
  ./internal/record/store/... ./internal/sys/... ./internal/testing/... ./internal/ui/tui
PARTLY_WATCHED := ./internal/app/control ./internal/agent/acp ./internal/agent/claude ./internal/agent/codex \
  ./internal/files/git ./internal/ui/web
CONCURRENT := ^Test(AgentsShare|AnswersWhile|Any|AtOnce|Attends|CallAtOnce|Cancel|Compact|Conn|Drive|EndIn|Fake|Fork|$\
  Gone|Hub|InTurn|Item|Late|Looks|Losers|NotesAnswer|One|Options|Overtaken|PlanDispatch|RetryDecides|Room|SaidWhile|$\
  Snapshots|Stream|Stuck|Two|Waiting|WhatIsSaid)

# All rooms but the program itself.
ROOMS = $(GO) list ./internal/... | grep -v /internal/ui/cli
UNWATCHED = $(ROOMS) | grep -vxF "$$($(GO) list $(WATCHED))"

# The real Codex that the tests drive; the version is internal/agent/codex.Version.
CODEX := 0.169.0
CODEX_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plait/codex/$(CODEX)

# And the real Claude Code; the version is internal/agent/claude.Version.
CLAUDE := 2.1.330
CLAUDE_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plait/claude/$(CLAUDE)
# And the real GitHub Copilot, for the Agent Client Protocol; the version is in internal/agent/acp/kinds.go.
COPILOT := 1.0.102
COPILOT_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plait/copilot/$(COPILOT)
# What looks at every page for what people with assistive technology would stumble over; the version is that of the tests.
AXE := 4.14.1
AXE_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plait/axe/$(AXE)

# A real S3 server for what is tried for hours; the version is that of the tests.
VERSITY := 1.8.0
VERSITY_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plait/versitygw/$(VERSITY)

.PHONY: build plaitd release install-test test race lint fuzz temporal soak bench pictures house check setup agents versitygw beside hosts

build: ## one static binary, ./plait
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o plait ./cmd/plait

plaitd: ## one static binary, ./plaitd/plaitd: plait on a record in Postgres
	cd plaitd && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o plaitd .

# What a release is called. MIRROR=URL is where its files will be, KEY=FILE is the SSH key that signs its
# sums, TASK=TASK the task that tested its files.
VERSION ?= $(shell git describe --tags --always --dirty)

release: ## all files of a release in dist/, see tools/release; the same commit and Go make the same bytes
	$(GO) run ./tools/release -version '$(VERSION)' $(if $(MIRROR),-mirror '$(MIRROR)') $(if $(KEY),-key '$(KEY)') $(if $(TASK),-task '$(TASK)')

install-test: ## installs, uses and removes each kind of package in a Debian made for it; needs root and debootstrap
	PLAIT_INSTALL=1 $(GO) test -count=1 -v -timeout 60m -run '^Test(Go)?Install$$' ./tools/release

# In CI the race detector watches what does several things at a time; make race has it watch everything, the program's
# scripts too, which start hundreds of processes and take twenty times as long with it. Of plaitd it watches the record
# in Postgres.
RACED ?= $(if $(CI),rooms)
RACE_ROOMS := $(if $(RACED),$(RACE))
RACE_REST := $(if $(filter all,$(RACED)),$(RACE))

# The modules besides that of plait.
MODULES := plaitd plaitd/river plaitd/temporal tools/intoto

# What is tested, in this order, several parts at a time: much of it waits for processes, not for the processor. With
# the race detector it waits less.
PARTS := program rooms hosts $(if $(RACED),watched) record river temporal
AT_ONCE := $(if $(RACED),2,3)

.PHONY: $(PARTS:%=test-%)
test: setup ## everything; installs what the tests need
	@$(GO) run ./tools/testsum -p $(AT_ONCE) $(PARTS:%='$(MAKE) --no-print-directory test-%')

race: ## everything with the race detector
	@$(MAKE) --no-print-directory test RACED=all

test-rooms:
	@$(GO) test -json $(RACE_REST) $(TESTFLAGS) $$($(if $(RACED),$(UNWATCHED),$(ROOMS)))

test-watched:
	@$(GO) test -json $(RACE) $(TESTFLAGS) $(WATCHED)
	@$(if $(RACE_REST),,$(GO) test -json $(RACE) $(TESTFLAGS) -run '$(CONCURRENT)' $(PARTLY_WATCHED))

test-program:
	@$(GO) test -json $(RACE_REST) $(TESTFLAGS) -parallel 4 ./internal/ui/cli ./cmd/... ./tools/...
	@cd tools/intoto && $(GO) test -json $(TESTFLAGS) ./...

test-record:
	@cd plaitd && $(GO) test -json $(RACE_ROOMS) $(TESTFLAGS) ./postgres
	@cd plaitd && $(GO) test -json $(RACE_REST) $(TESTFLAGS) ./s3 ./pgtest ./faults

test-hosts:
	@cd plaitd && $(GO) test -json $(RACE_REST) $(TESTFLAGS) . ./hosts

test-river test-temporal: test-%:
	@cd plaitd/$* && $(GO) test -json $(RACE_REST) $(TESTFLAGS) ./...

setup:
	@export PATH="$$PATH:/usr/sbin"; missing=; sudo=; \
	  command -v git >/dev/null || missing="$$missing git"; \
	  command -v gcc >/dev/null || missing="$$missing gcc libc6-dev"; \
	  command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	  command -v chromium >/dev/null || missing="$$missing chromium"; \
	  command -v bwrap >/dev/null || missing="$$missing bubblewrap"; \
	  command -v mkfs.xfs >/dev/null || missing="$$missing xfsprogs"; \
	  command -v pgbouncer >/dev/null || missing="$$missing pgbouncer"; \
	  command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	  [ "$$missing" ] || exit 0; \
	  echo "installing$$missing"; \
	  [ $$(id -u) = 0 ] || { sudo=sudo; command -v sudo >/dev/null; } || { \
	    echo "that takes root: apt-get install$$missing"; exit 1; }; \
	  case $$missing in *postgresql*) \
	    $$sudo mkdir -p /etc/postgresql-common/createcluster.d; \
	    echo 'create_main_cluster = false' | $$sudo tee /etc/postgresql-common/createcluster.d/plait.conf >/dev/null; esac; \
	  $$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -yq $$missing
	@ls $(CODEX_DIR)/node_modules/@openai/codex-*/vendor/*/bin/codex >/dev/null 2>&1 || \
	  npm install --prefix $(CODEX_DIR) --no-save --ignore-scripts --no-audit --no-fund @openai/codex@$(CODEX)
	@ls $(CLAUDE_DIR)/node_modules/@anthropic-ai/claude-code-*/claude >/dev/null 2>&1 || \
	  npm install --prefix $(CLAUDE_DIR) --no-save --ignore-scripts --no-audit --no-fund @anthropic-ai/claude-code@$(CLAUDE)
	@ls $(COPILOT_DIR)/node_modules/@github/copilot-*/copilot >/dev/null 2>&1 || \
	  npm install --prefix $(COPILOT_DIR) --no-save --ignore-scripts --no-audit --no-fund @github/copilot@$(COPILOT)
	@test -f $(AXE_DIR)/node_modules/axe-core/axe.min.js || \
	  npm install --prefix $(AXE_DIR) --no-save --ignore-scripts --no-audit --no-fund axe-core@$(AXE)

# Agents of the Agent Client Protocol that are too large, or too slow, to be tried at each change: name, package, version.
# The versions are in internal/agent/acp/kinds.go. Scripts among them are run by a Node of their own.
AGENTS := opencode:opencode-ai:1.18.33 gemini:@google/gemini-cli:0.61.0 qwen:@qwen-code/qwen-code:0.24.4 \
  kimi:@moonshot-ai/kimi-code:2.1.0 codex-acp:@agentclientprotocol/codex-acp:2.6.0 \
  claude-acp:@agentclientprotocol/claude-agent-acp:0.100.0 node:node:22.23.3
AGENTS_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plait

agents: setup ## the real agents that `make test` leaves out: 1.8 GB, and minutes
	@set -e; for agent in $(AGENTS); do \
	  name=$${agent%%:*}; rest=$${agent#*:}; dir=$(AGENTS_DIR)/$$name/$${rest##*:}; \
	  ls $$dir/node_modules/$${rest%%:*}/package.json >/dev/null 2>&1 || \
	    npm install --prefix $$dir --no-save --no-audit --no-fund $${rest%%:*}@$${rest##*:}; \
	done
	PLAIT_AGENTS=1 $(GO) test -count=1 -v -timeout 60m -run TestAgents ./internal/agent/acp

lint: ## gofmt, go.mod tidy, vet, staticcheck: the cheapest first
	@out=$$(gofmt -l cmd internal tools plaitd); [ -z "$$out" ] || { echo "not gofmt-ed: $$out"; exit 1; }
	$(GO) mod tidy -diff
	set -e; for m in $(MODULES); do (cd $$m && $(GO) mod tidy -diff); done
	$(GO) vet ./...
	set -e; for m in $(MODULES); do (cd $$m && $(GO) vet ./...); done
	$(GO) tool -modfile=tools/lint/go.mod staticcheck ./...
	set -e; for m in $(MODULES); do (cd $$m && $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod staticcheck ./...); done

# The engine that the workers of make hosts share: river or temporal.
ENGINE ?= river

# The library of Temporal's server, which takes minutes to build: no part of make test. What runs beside it finds it.
SERVER := plaitd/temporal/servertest
BESIDE_temporal = $(CURDIR)/$(SERVER)/beside/beside

beside: ## Temporal's server, for what is tried beside it: minutes to build, the first time
	@echo "building Temporal's server: some minutes, the first time"
	cd $(SERVER) && $(GO) build -o beside/beside ./beside

hosts: setup $(if $(filter temporal,$(ENGINE)),beside) ## three workers and a real task with Codex, offline; one is killed: ENGINE=river or temporal
	cd plaitd && PLAIT_HOSTS_ENGINE=$(ENGINE) $(BESIDE_$(ENGINE)) $(GO) test -count=1 -v -timeout 10m -run 'TestTeam$$' ./hosts

fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg || exit 1; \
	  done; done

versitygw: ## the S3 server that make soak tries Plait's with: some minutes to build, once
	@test -x $(VERSITY_DIR)/versitygw || \
	  GOBIN=$(abspath $(VERSITY_DIR)) $(GO) install github.com/versity/versitygw/cmd/versitygw@v$(VERSITY)

temporal: ## the engine on Temporal's real server, a library of 450 modules: minutes to build, once, then one to run
	cd plaitd/temporal/servertest && $(GO) mod tidy -diff && $(GO) vet ./... && \
	  $(GO) run -C $(CURDIR) ./tools/testsum 'cd $(CURDIR)/plaitd/temporal/servertest && $(GO) test -count=1 -json $(TESTFLAGS) ./...'

soak: setup versitygw ## what Plait promises, tried for hours: kills, power cuts, failing disks; continues where it was stopped
	$(GO) run ./tools/soak

# The screens that docs/pictures shows besides.
SHOWN := task-30-light-1440 inbox-light-1440 task-asks-dark-1440

pictures: ## the screens of the page, in dist/pictures, and those of the documentation
	mkdir -p dist/pictures
	PLAIT_PICTURES=$(CURDIR)/dist/pictures $(GO) test -count=1 -run '^TestScreens$$' ./internal/ui/web
	PLAIT_PICTURES=docs $(GO) test -count=1 -run '^TestPictures$$' ./internal/ui/web
	cp $(SHOWN:%=dist/pictures/%.png) docs/pictures

bench: ## the table of docs/benchmarks.md, against a floor of the same run
	$(GO) run ./tools/bench

house: ## the measures of the code, against their limits
	$(GO) run ./tools/house

check: lint test ## all that CI runs

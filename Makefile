# What a person runs. CI runs lint and test, nothing else.
GO ?= go
TESTFLAGS ?= -timeout 15m
FUZZTIME ?= 60s

.PHONY: build test race lint fuzz bench check setup

build: ## one static binary, ./plait
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o plait ./cmd/plait

# The rooms are tested with the race detector. The program is tested by scripts that
# start it hundreds of times, which the detector makes twenty times slower: make race.
test: setup ## everything; installs what the tests need
	{ $(GO) test -json -race $(TESTFLAGS) ./internal/...; $(GO) test -json $(TESTFLAGS) ./cmd/... ./tools/...; } | $(GO) run ./tools/testsum

race: setup ## the program's scripts with the race detector too
	$(GO) test -json -race $(TESTFLAGS) ./... | $(GO) run ./tools/testsum

setup:
	@command -v git >/dev/null && command -v gcc >/dev/null || { apt-get update -q && apt-get install -yq git gcc libc6-dev; }

lint: ## gofmt, vet, staticcheck, go.mod tidy
	@out=$$(gofmt -l cmd internal tools); [ -z "$$out" ] || { echo "not gofmt-ed: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools/lint/go.mod staticcheck ./...
	$(GO) mod tidy -diff

fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg || exit 1; \
	  done; done

bench: ## the table of docs/benchmarks.md, against a floor of the same run
	$(GO) run ./tools/bench

check: lint test ## all that CI runs

# Targets are explained by their ## comments: `make` prints them.
TAGS := -tags nomsgpack,nethttpomithttp2
TOOL := go tool -modfile=tools/go.mod
FUZZTIME ?= 20s
COUNT ?= 1

.PHONY: help build test race lint format bench microbench fuzz check cluster demo down

help: ## print this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/kring
	scripts/build.sh bin/kring

test: ## the Go tests
	go test $(TAGS) ./...

race: ## the Go tests under the race detector
	go test -race $(TAGS) ./...

lint: ## formatting, go vet, staticcheck, shellcheck
	@bash -c 'source scripts/need.sh && need shellcheck' lint
	@out=$$($(TOOL) gofumpt -l .) && { test -z "$$out" || { echo "not formatted:"; echo "$$out"; exit 1; }; }
	go vet $(TAGS) ./...
	$(TOOL) staticcheck $(TAGS) ./...
	shellcheck -x scripts/*.sh bench/run.sh bench/stampede bench/hitratio .ci/run

format: ## format the Go files
	$(TOOL) gofumpt -w .

bench: ## Kring beside its peers (AREA=hit … for a part: hit, peer, batch, miss, pools, stampede, trace)
	bench/run.sh $(AREA)

microbench: ## the Go benchmarks (COUNT=5 for figures to compare)
	go test $(TAGS) -run '^$$' -bench . -benchmem -count $(COUNT) ./...

fuzz: ## every fuzz target for FUZZTIME (20s) each
	@set -e; for package in $$(go list $(TAGS) ./...); do \
		for target in $$(go test $(TAGS) -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			go test $(TAGS) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done

check: ## everything CI runs
	scripts/test.sh

cluster: ## three local nodes and the demo origin
	scripts/cluster.sh up

demo: ## start a cluster, show it working, clean up
	scripts/demo.sh

down: ## stop the cluster that `make cluster` started
	scripts/cluster.sh down

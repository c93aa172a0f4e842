package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/plaitd/pgtest"
)

// TestTwoRecords uses one PLAIT_HOME with its own record and with two in databases, of the same flow: no view of one
// is compared with another.
func TestTwoRecords(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	here := newHost(t, "")
	here.write("short.yaml", short)
	hosts := []*host{here} // the record in PLAIT_HOME first
	for range 2 {
		h := newHost(t, server.Database(t))
		h.home, h.work = here.home, here.work
		h.env = append(h.env, "PLAIT_HOME="+here.home)
		h.run(0, "migrate")
		h.run(0, "flow", "add", "short.yaml") // before anything is drawn
		hosts = append(hosts, h)
	}
	here.run(0, "flow", "add", "short.yaml")
	here.run(0, "run", "short.yaml", "-p", "go")
	for _, h := range hosts[1:] {
		h.run(0, "run", "short.yaml", "-p", "go", "--unsafe-agents")
	}
	for _, h := range hosts {
		h.run(0, "verify")
		h.run(0, "flow", "rm", "short")
	}
	drawn, err := filepath.Glob(filepath.Join(here.home, "records", "*", "bundles", "*", "threads.json"))
	if err != nil || len(drawn) != 2 {
		t.Errorf("views of the records in databases: %v, %v", drawn, err)
	}
	if err := os.RemoveAll(filepath.Join(here.home, "bundles")); err != nil { // those of the record that is there
		t.Fatal(err)
	}
	for _, h := range hosts {
		h.run(0, "gc", "--grace", "0")
		h.run(0, "verify")
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
)

// besideServer runs a command next to Temporal's server. It takes minutes to build, so it is used only if it exists.
const besideServer = "plaitd/temporal/servertest/beside/beside"

// A line of a team benchmark's output, and its figures.
var (
	teamLine   = regexp.MustCompile(`(?m)^BenchmarkTeam(\w+)/(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)
	teamFigure = regexp.MustCompile(`([\d.]+) (\S+)`)
)

// team measures a team of workers with the benchmarks of the module that has it: with three workers on River, on
// Temporal if its server is built, and by the processes that begin the tasks.
func (b *bench) team(ctx context.Context) error {
	var command []string
	server, err := filepath.Abs(besideServer)
	if err != nil {
		return err
	}
	if _, err := os.Stat(server); err == nil {
		command = append(command, server)
	} else {
		row("a team on Temporal", goal{}, "not measured: `make beside` builds its server, once")
	}
	looks := map[string]map[string]float64{}
	for _, part := range []struct{ name, times string }{{"Tasks", strconv.Itoa(b.rounds)}, {"Takeover", "1"}, {"Idle", "1"}, {"Look", "200"}, {"Talk", strconv.Itoa(b.rounds)}} {
		args := append(command, "go", "test", "./hosts", "-v", "-timeout", "30m", "-run", "^$", "-bench", "^BenchmarkTeam"+part.name+"$",
			"-benchtime", part.times+"x")
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = "plaitd"
		out, err := cmd.CombinedOutput()
		found := teamLine.FindAllSubmatch(out, -1)
		if why := strings.TrimSpace(string(sharedSkip.Find(out))); len(found) == 0 && err == nil && why != "" {
			row("a team of workers", goal{}, "not measured: %s", why)
			return nil
		}
		if err != nil {
			return fmt.Errorf("measure a team: %w\n%s", err, bytes.TrimSpace(out))
		}
		for _, line := range found {
			figures := map[string]float64{}
			for _, f := range teamFigure.FindAllSubmatch(line[3], -1) {
				figures[string(f[2])], _ = strconv.ParseFloat(string(f[1]), 64)
			}
			looks[string(line[2])] = figures
			teamRow(string(line[1]), string(line[2]), figures)
		}
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		few, many := looks[kind+"/actions=8"], looks[kind+"/actions=128"]
		cpu, took := many["ms-cpu/op"]/few["ms-cpu/op"], many["ns/op"]/few["ns/op"]
		row("a look at 128 actions to one at 8, on "+kind, atMost(1.25, max(cpu, took)/16, " for each action"),
			"**%.1f** in CPU, **%.1f** in time; for each action %.2f and %.2f", cpu, took, cpu/16, took/16)
	}
	return nil
}

// teamRow prints a line of the table.
func teamRow(part, name string, figures map[string]float64) {
	on := map[string]string{"embedded": "each by the process that began it", "river": "three workers on River", "temporal": "three workers on Temporal"}
	switch part {
	case "Tasks":
		row("five tasks of 8 agents at once, on Postgres, "+on[name], goal{}, "%.1f s, %.1f steps/s", figures["s"], figures["steps/s"])
	case "Takeover":
		silences := figures["s"] / store.LeaseTTL.Seconds()
		row("from kill -9 of a worker to the next attempt on another machine, "+name,
			atMost(1.2, silences, " of the silence after which a worker counts as dead"), "%.1f s, **%.2f** of it", figures["s"], silences)
	case "Idle":
		if name == "embedded" {
			row("idle Postgres with a record that somebody looks at", goal{}, "%.2f %% of a core", figures["postgres-%"])
			return
		}
		row("idle `plaitd worker` on "+name, atMost(1, figures["worker-%"], " % of a core"), "%.2f %% of a core, Postgres with it %.2f %%", figures["worker-%"], figures["postgres-%"])
	case "Talk":
		_, away, _ := strings.Cut(name, "=")
		row("SQL statements of a worker on River for a step of 50, Postgres "+away+" away",
			atMost(25, figures["statements/step"], ""), "**%.1f**, %.1f round trips; %.1f KB of log",
			figures["statements/step"], figures["trips/step"], figures["KB-WAL/step"])
		if away == "0s" {
			row("the whole task to one machine with SQLite", atMost(1.3, figures["to-one-machine"], ""),
				"**%.2f**", figures["to-one-machine"])
		} else {
			row("the same, Postgres "+away+" away", goal{}, "%.2f", figures["to-one-machine"])
		}
	case "Look":
		kind, actions, _ := strings.Cut(name, "/actions=")
		row("a look at a task with "+actions+" actions, on "+kind, goal{}, "%.1f ms, %.1f ms of CPU", figures["ns/op"]/1e6, figures["ms-cpu/op"])
	}
}

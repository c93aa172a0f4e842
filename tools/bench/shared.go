package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// sharedGoals are the shares of SQLite's rate, with as many writers, that commits on Postgres should reach.
var sharedGoals = map[string]float64{"writers=1": 0.35, "writers=64": 0.24, "writers=63/processes=3": 0.3}

// A line of the benchmark's output: its name and its figures.
var (
	sharedLine   = regexp.MustCompile(`(?m)^BenchmarkStep/(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)
	sharedFigure = regexp.MustCompile(`([\d.]+) (ratio|steps/s)`)
	sharedSkip   = regexp.MustCompile(`(?m)NOT TESTED.*$`)
)

// shared measures commits on Postgres relative to those on SQLite, with the benchmark of the module that
// has that store. If there is no Postgres the table says so.
func (b *bench) shared(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "./postgres", "-v", "-run", "^$", "-bench", "Step",
		"-benchtime", fmt.Sprintf("%dx", b.rounds))
	cmd.Dir = "plaitd"
	out, err := cmd.CombinedOutput()
	found := sharedLine.FindAllSubmatch(out, -1)
	if len(found) == 0 {
		why := strings.TrimSpace(string(sharedSkip.Find(out)))
		if why == "" {
			return fmt.Errorf("measure commits on Postgres: %w\n%s", err, bytes.TrimSpace(out))
		}
		row("commits on Postgres", goal{}, "not measured: %s", why)
		return nil
	}
	for _, line := range found {
		name, figures := string(line[1]), map[string]string{}
		for _, f := range sharedFigure.FindAllSubmatch(line[2], -1) {
			figures[string(f[2])] = string(f[1])
		}
		var reach goal
		if least, ok := sharedGoals[name]; ok {
			ratio, _ := strconv.ParseFloat(figures["ratio"], 64)
			reach = atLeast(least, ratio, " of SQLite")
		}
		row("durable step commits on Postgres, "+sharedName(name), reach, "**%s** of SQLite's rate (%s/s)",
			figures["ratio"], figures["steps/s"])
	}
	if err != nil {
		return fmt.Errorf("measure commits on Postgres: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// sharedName describes a benchmark's name.
func sharedName(name string) string {
	var says []string
	for part := range strings.SplitSeq(name, "/") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "away":
			says = append(says, strings.Replace(value, "ms", " ms", 1)+" away")
		case "handles":
			says = append(says, value+" handles on it in one process")
		case "processes":
			says = append(says, "in "+value+" processes")
		default:
			if value == "1" {
				key = strings.TrimSuffix(key, "s")
			}
			says = append(says, value+" "+key)
		}
	}
	return strings.Join(says, ", ")
}

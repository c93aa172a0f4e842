package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/plaitd/pgtest"
)

// blocks returns the lines of a page's shell blocks, in order, of all blocks that contain a text.
func blocks(t *testing.T, page, contains string) (lines []string) {
	t.Helper()
	for i, part := range strings.Split(file(t, filepath.Join("..", "docs", page)), "\n```") {
		block, is := strings.CutPrefix(part, "sh")
		if i == 0 || !is || !strings.Contains(block, contains) {
			continue
		}
		lines = append(lines, strings.Split(strings.TrimSpace(block), "\n")[1:]...)
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no block with %q", page, contains)
	}
	return lines
}

// TestDocsCommands checks that plaitd has the verbs and flags of every command of the pages about it. A shell reads
// them, as it would a person's.
func TestDocsCommands(t *testing.T) {
	const asks = `plaitd() { PLAIT_HOME=/none "$PLAITD" "$@" --help >/dev/null || echo "refused"; }` + "\n"
	commands := 0
	for _, page := range []string{"plaitd.md", "workers.md", "temporal.md", "bucket.md", "postgres.md"} {
		text := file(t, filepath.Join("..", "docs", page))
		if !strings.Contains(text, "\nplaitd ") {
			continue
		}
		for _, line := range blocks(t, page, "plaitd ") {
			if !strings.HasPrefix(line, "plaitd ") {
				continue
			}
			commands++
			cmd := exec.Command("sh", "-c", asks+line)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PLAITD=" + os.Args[0], be + "=plaitd", "HOME=" + t.TempDir()}
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %s: %v\n%s", page, line, err, out)
			}
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands were found", commands)
	}
}

// TestDocsSetUp follows "Set it up" of plaitd.md and then "Set one up" of workers.md, as far as a test can: the
// record's owner migrates, a role is made, the worker's file is written with the URL of the page, and the role can
// work.
func TestDocsSetUp(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	owner := newHost(t, server.Database(t))
	owner.write("short.yaml", short)
	run := func(h *host, line string) {
		t.Helper()
		args := strings.Fields(strings.TrimPrefix(line, "plaitd "))
		cmd := h.command(args...)
		if out, err := cmd.CombinedOutput(); err != nil && args[0] != "doctor" { // which complains about replication
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	plain := func(line string) string { line, _, _ = strings.Cut(line, " #"); return strings.TrimSpace(line) }
	for _, line := range blocks(t, "plaitd.md", "export PLAIT_STORE=") {
		if line = plain(line); strings.HasPrefix(line, "plaitd ") {
			run(owner, strings.NewReplacer("examples/audit.yaml", "short.yaml", `"Audit this repository"`, "go").Replace(line))
		}
	}
	role, worker := "", (*host)(nil)
	for _, line := range blocks(t, "workers.md", "useradd") {
		command, comment, _ := strings.Cut(line, "#")
		command = plain(command)
		switch words := strings.Fields(command); {
		case words[0] == "createuser":
			role = words[len(words)-1]
			// An earlier run may have made it.
			made := "DO $$ BEGIN CREATE ROLE " + role + " LOGIN; EXCEPTION WHEN duplicate_object THEN END $$"
			if err := server.Admin(t.Context(), made, "ALTER ROLE "+role+" PASSWORD 'told'"); err != nil {
				t.Fatal(err)
			}
		case words[0] == "plaitd":
			run(owner, command)
		case strings.Contains(command, "/etc/plaitd/store") && comment != "":
			url := strings.TrimSpace(comment)
			if !strings.HasPrefix(url, "postgres://"+role+":PASSWORD@") {
				t.Errorf("the file gives another role: %s", url)
			}
			there := strings.TrimPrefix(owner.env[3], "PLAIT_STORE=")
			at := strings.LastIndex(there, "@")
			worker = newHost(t, "postgres://"+role+":told"+there[at:])
			worker.be = "plaitd"
		case words[0] == "cp" || words[0] == "install" && strings.HasPrefix(words[1], "plaitd/"):
			if words[1] != "plaitd/plaitd" { // which make builds
				file(t, filepath.Join("..", words[1]))
			}
		}
	}
	if worker == nil {
		t.Fatal("the page writes no file for the worker")
	}
	worker.write("short.yaml", short)
	worker.run(0, "run", "short.yaml", "-p", "go", "--on", "team", "-d")
}

package codex

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

const (
	session1 = "01a1fdfc-0000-7000-8000-000000000001"
	session2 = "01a1fdfc-0000-7000-8000-000000000002"
	session3 = "01a1fdfc-0000-7000-8000-000000000003"
)

// putRollout writes a rollout whose session continues parent, if that is not "".
func putRollout(t *testing.T, home, name, parent string, lines ...string) string {
	t.Helper()
	dir := filepath.Join(home, "sessions", "2026", "11", "21")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	base := ""
	if parent != "" {
		base = fmt.Sprintf(`,"history_base":{"thread_id":%q}`, parent)
	}
	file := filepath.Join(dir, "rollout-2026-11-21T"+name+".jsonl")
	text := `{"type":"session_meta","payload":{"id":"x"` + base + "}}\n" + strings.Join(lines, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCopyRolloutWithItsLineage(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	putRollout(t, from, "12-00-00-"+session1, "")
	putRollout(t, from, "12-00-01-"+session2, session1)
	putRollout(t, from, "12-00-02-"+session2+"_01a1fdfc-9999", session2) // after a revert
	putRollout(t, from, "12-00-03-"+session3, session2)
	gone := putRollout(t, to, "12-00-00-"+session1, "", `{"type":"more"}`) // continued there
	if err := copyRollout(from, to, session3); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]int{session1: 1, session2: 2, session3: 1} {
		if got := len(findRollouts(to, session)); got != want {
			t.Errorf("session %s has %d rollouts, want %d", session, got, want)
		}
	}
	if data, _ := os.ReadFile(gone); !bytes.Contains(data, []byte("more")) {
		t.Error("a longer rollout was overwritten")
	}
	if got := filepath.Base(findRollout(to, session2)); !strings.Contains(got, "_01a1fdfc-9999") {
		t.Errorf("the newest rollout is %s", got)
	}
	putRollout(t, from, "12-00-04-01a1fdfc-0000-7000-8000-000000000004", "01a1fdfc-0000-7000-8000-00000000dead")
	for _, session := range []string{"01a1fdfc-0000-7000-8000-000000000004", "01a1fdfc-0000-7000-8000-000000000005",
		"../../x", ""} {
		if err := copyRollout(from, to, session); err == nil {
			t.Errorf("session %q was copied without all of it", session)
		}
	}
}

func TestReadRollout(t *testing.T) {
	first := []string{
		`{"type":"turn_context","payload":{"turn_id":"t1","model":"m1","sandbox_policy":{"type":"read-only"}}}`,
		`{"type":"token_usage_record","payload":{"turn_id":"t1","turn_token_usage":{"input_tokens":5},` +
			`"thread_token_usage":{"input_tokens":5}}}`,
		"",
	}
	file := putRollout(t, t.TempDir(), "12-00-00-"+session1, "", first...)
	offset := size(file)
	file = putRollout(t, t.TempDir(), "12-00-00-"+session1, "", append(first[:2:2],
		`{"type":"turn_context","payload":{"turn_id":"t2","model":"m2","sandbox_policy":{"type":"workspace-write"}}}`,
		`{"type":"token_usage_record","payload":{"turn_id":"t2","turn_token_usage":{"input_tokens":1},`+
			`"thread_token_usage":{"input_tokens":6}}}`,
		`{"type":"token_usage_record","payload":{"turn_id":"t2","turn_token_usage":{"input_tokens":3,`+
			`"output_tokens":2},"thread_token_usage":{"input_tokens":8}}}`,
		`{"type":"later","payload":[1,2]}`, `not JSON`, `{"type":"cut`)...)
	var kept bytes.Buffer
	got, err := readRollout(file, offset, &kept)
	if err != nil {
		t.Fatal(err)
	}
	want := rolloutTail{
		Turn: "t2", Model: "m2", Sandbox: "workspace-write", HasUse: true, Bytes: size(file) - offset,
		Usage: agent.Usage{InputTokens: 3, OutputTokens: 2}, Total: agent.Usage{InputTokens: 8},
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !strings.HasPrefix(kept.String(), `{"type":"turn_context","payload":{"turn_id":"t2"`) ||
		!strings.HasSuffix(kept.String(), `{"type":"cut`) {
		t.Errorf("kept %q", kept.String())
	}
	if _, err := readRollout(file+"x", 0, nil); err == nil {
		t.Error("a missing rollout was read")
	}
}

// TestPlantedRollouts checks that nothing is read from what an agent put in the place of a rollout.
func TestPlantedRollouts(t *testing.T) {
	home := t.TempDir()
	file := putRollout(t, home, "12-00-00-"+session1, session2)
	for name, plant := range map[string]func() error{
		"link": func() error { return os.Symlink("/dev/zero", file) },
		"FIFO": func() error { return syscall.Mkfifo(file, 0o600) },
	} {
		if err := errors.Join(os.Remove(file), plant()); err != nil {
			t.Fatal(err)
		}
		if files := findRollouts(home, session1); len(files) > 0 {
			t.Errorf("%s: found %v", name, files)
		}
		// It may take the file's place after the search.
		if _, err := readRollout(file, 0, nil); err == nil {
			t.Errorf("%s: it was read", name)
		}
		if _, err := copyOne(home, t.TempDir(), file); err == nil {
			t.Errorf("%s: it was copied", name)
		}
	}
}

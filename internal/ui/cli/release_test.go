package cli

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// release has the record of an earlier release; make.sh there says how it was made.
const release = "testdata/release"

// newRelease returns a place with that record.
func newRelease(t *testing.T) *place {
	p := newPlace(t)
	packed, err := os.Open(filepath.Join(release, "record.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		f, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(p.work, f.Name)
		if f.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			err = unpackFile(name, files)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func unpackFile(name string, from io.Reader) error {
	to, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// released returns the id of a task of that record.
func released(name string) string { return "01K0000000000000000000" + name }

// value runs plait and reads the value that it prints.
func (p *place) value(v any, args ...string) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.well(append(args, "--json")...)), &struct{ Data any }{v}); err != nil {
		p.t.Errorf("plait %v: %v", args, err)
	}
}

// several calls do for 0 to n-1, a few at a time.
func several(n int, do func(int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, 4)
	for i := range n {
		free <- struct{}{}
		all.Go(func() { do(i); <-free })
	}
	all.Wait()
}

// shown describes every thread as make.sh does: its steps, and the prompts of their agents.
func (p *place) shown() string {
	var list struct{ Threads []struct{ ID string } }
	p.value(&list, "thread", "list", "--all", "--parts", "-n", "0")
	all := make([]string, len(list.Threads))
	several(len(all), func(i int) { all[i] = p.threadShown(list.Threads[i].ID) })
	slices.Sort(all)
	return strings.Join(all, "")
}

func (p *place) threadShown(id string) string {
	var b strings.Builder
	var v struct {
		Kind, Status, Head string
		Steps              []struct {
			N, Attempts      int
			Role, Path, Hash string
			Detail           struct{ Prompt string }
		}
	}
	p.value(&v, "thread", "show", id)
	fmt.Fprintf(&b, "%s %s %s %s\n", id, v.Kind, v.Status, v.Head)
	for _, s := range v.Steps {
		fmt.Fprintf(&b, "  %d %s %s %d %s", s.N, s.Role, s.Path, s.Attempts, s.Hash)
		if s.Detail.Prompt != "" {
			var prompt struct{ Text string }
			p.value(&prompt, "thread", "show", id, "--prompt", fmt.Sprint(s.N))
			sum := sha256.Sum256([]byte(prompt.Text))
			fmt.Fprintf(&b, " %x", sum[:8])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// outcomes returns the outcome digests of tasks that have ended, or will: those that are still open are finished by the
// release afterwards.
func outcomes(t *testing.T) map[string]string {
	data, err := os.ReadFile(filepath.Join(release, "outcomes"))
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for line := range strings.Lines(string(data)) {
		id, digest, _ := strings.Cut(strings.TrimSpace(line), " ")
		digests[id] = digest
	}
	return digests
}

// TestRelease checks that the record of an earlier release is sound, is shown as it was, replays and continues.
func TestRelease(t *testing.T) {
	p, digests := newRelease(t), outcomes(t)
	p.well("verify")
	want, err := os.ReadFile(filepath.Join(release, "shown"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), p.shown()); d != "" {
		t.Errorf("what is shown differs (-then +now):\n%s", d)
	}
	for _, name := range []string{"NEST", "FA17", "CHAT", "WA1T", "P1AN"} {
		for _, args := range [][]string{{"show"}, {"thread", "show"}, {"thread", "show", "--tree"}} {
			p.well(append(args, released(name))...)
		}
	}
	var doctor struct {
		Findings []struct {
			What, Text string
			Steps      []string
		}
	}
	p.value(&doctor, "doctor")
	for _, f := range doctor.Findings {
		if f.What == "answers" && !slices.Equal(f.Steps, []string{"0dds/1"}) {
			t.Errorf("doctor: %s: %v", f.Text, f.Steps)
		}
	}
	p.replays(digests)

	// One is left to be moved by the person who continues it.
	p.move(func(row store.Thread) bool { return row.Task != released("ST0P") })
	p.write("../user/go", "")
	var gates struct{ Gates []struct{ ID, Task string } }
	p.value(&gates, "gate", "list")
	for _, g := range gates.Gates {
		if g.Task == released("WA1T") {
			p.well("answer", g.ID, "-m", "this")
		}
	}
	p.well("resume", released("WA1T"), "-q", "--trust")
	p.well("resume", released("ST0P"), "-q", "--trust", "--workspace", ".")
	p.well("resume", released("SP1T"), "-q", "--trust") // its join may be recorded otherwise than then
	if out, code := p.run("resume", released("CHAT"), "-p", "and more", "-q"); code != exitPerson {
		t.Errorf("the chat goes on with exit code %d: %s", code, out)
	}
	for id, want := range digests {
		if got := strings.TrimSpace(p.well("thread", "show", id, "--digest")); got != want {
			t.Errorf("task %s came to %s, want %s", id, got, want)
		}
	}
	p.well("verify")
}

// replays replays tasks where they were done, which is where make.sh was run: requests to models name places. Those of
// one are not recorded, and another one's answer is not done today.
func (p *place) replays(tasks map[string]string) {
	bwrap := proc.Bubblewrap()
	if bwrap == "" {
		if os.Getenv("CI") != "" {
			p.t.Error("bubblewrap is not installed")
		}
		p.t.Log("NOT TESTED: bubblewrap is not installed")
		return
	}
	ids := append(slices.Sorted(maps.Keys(tasks)), released("CHAT"))
	several(len(ids), func(i int) {
		id := ids[i]
		if id == released("K1ND") || id == released("0DDS") {
			return
		}
		cmd := p.command("replay", id, "-q", "--trust")
		args := []string{"--dev-bind", "/", "/", "--tmpfs", "/mnt", "--bind", p.work, "/mnt/plait",
			"--chdir", "/mnt/plait/ws"}
		for key, value := range scriptEnv("/mnt/plait") {
			args = append(args, "--setenv", key, value)
		}
		inside := exec.Command(bwrap, append(append(args, cmd.Path), cmd.Args[1:]...)...)
		inside.Env = cmd.Env
		if out, err := inside.CombinedOutput(); err != nil {
			p.t.Errorf("plait replay %s: %v: %s", id, err, out)
		}
	})
}

// TestReleaseExport checks that what an earlier release exported is imported and continues.
func TestReleaseExport(t *testing.T) {
	p := newPlace(t)
	exported, err := filepath.Abs(filepath.Join(release, "exported.zip"))
	if err != nil {
		t.Fatal(err)
	}
	p.well("import", exported)
	p.well("verify")
	p.write("pre.txt", "pre\n")
	var gates struct{ Gates []struct{ ID string } }
	p.value(&gates, "gate", "list")
	p.well("answer", gates.Gates[0].ID, "-m", "this")
	p.well("resume", released("WA1T"), "-q", "--trust")
	got, want := p.well("thread", "show", released("WA1T"), "--digest"), outcomes(t)[released("WA1T")]
	if strings.TrimSpace(got) != want {
		t.Errorf("it came to %s, want %s", got, want)
	}
	p.well("verify")
}

package taskdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// copyOf writes files and opens them as a copy.
func copyOf(t testing.TB, files map[string]string) (*DirReader, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := OpenCopy(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, dir
}

const oneEvent = `{"seq":1,"ts":5,"type":"task.created","task":"T","thread":"T","instance":"","attempt":"","payload":{}}` + "\n"

func TestCopy(t *testing.T) {
	v := view.Task{
		ID: "T", Title: "a: \"title\"\nof two", State: view.Working, CreatedAt: 1_700_000_000_000, Config: map[string]any{"merge": "auto"},
		Controller: &view.Controller{State: "done", Since: 1_700_000_001_000, Done: 2, Total: 3}, Reason: &view.Reason{Kind: "gate", Message: "x"},
		Roster: []view.Member{{Instance: "a", StartedAt: 1_700_000_002_000}}, Milestones: []view.Milestone{{ID: "m", DependsOn: []string{"n"}}},
		Gates: []view.Gate{{ID: "g", Options: []string{"80"}, OpenedAt: 1000}}, Threads: []view.TaskThread{{ID: "T", Steps: 3}}, Usage: view.Usage{InputTokens: 7},
	}
	text, err := YAML(v)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := copyOf(t, map[string]string{
		"task.yaml": string(text), "events.jsonl": oneEvent, "shared/evidence/index.json": `[{"id":"a.cmd-1","sources":[{"command":["ls"]}]}]`,
		"shared/reports/r.md": "# R", "shared/human-notes.md": "hello", "agents/a/session.json": `{"adapter":"codex"}`,
		"agents/a/runtime/attempts.jsonl": "{\"id\":\"1\"}\n{\"id\":\"1\"}\n{\"id\n{\"id\":\"2\"}\n", "agents/b/session.json": `{`,
		"agents/NOT/session.json": `{}`, "agents/a/artifacts/deep/x.txt": "x", "secret": "x", "shared/secret": "x",
	})
	got, err := c.Task()
	if err != nil {
		t.Fatal(err)
	}
	again, err := YAML(got)
	if diff := cmp.Diff(string(text), string(again)); err != nil || diff != "" {
		t.Errorf("-written +read\n%s%v", diff, err)
	}
	if list, err := c.Evidence(); err != nil || len(list) != 1 || list[0].ID != "a.cmd-1" || list[0].Sources[0].Command[0] != "ls" {
		t.Errorf("%+v, %v", list, err)
	}
	workers, err := c.Workers()
	if err != nil || len(workers) != 2 || workers[0].Adapter != "codex" || workers[0].Problem != "" || workers[1].Problem == "" ||
		workers[0].Tries != 2 || workers[1].Tries != 0 {
		t.Errorf("%+v, %v", workers, err)
	}
	papers, more, err := c.Documents()
	want := []Document{{"shared/reports/r.md", DocReport, 3}, {"shared/human-notes.md", DocNotes, 5}, {"agents/a/artifacts/deep/x.txt", DocArtifact, 1}}
	if diff := cmp.Diff(want, papers); err != nil || more || diff != "" {
		t.Errorf("-want +got\n%s%v", diff, err)
	}
	if diff := cmp.Diff([]Document{{"agents/a/session.json", DocSession, 19}, {"agents/a/runtime/attempts.jsonl", DocSession, 38}}, workers[0].Files); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, p := range append(papers, workers[0].Files...) {
		f, n, err := c.Open(p.Name)
		if err != nil || n != p.Size {
			t.Errorf("%s: %d bytes: %v", p.Name, n, err)
			continue
		}
		f.Close()
	}
	for _, name := range []string{"", ".", "..", "secret", "shared/secret", "../x", "/etc/passwd", "shared/reports", "shared/reports/../secret", "shared//reports/r.md", "agents/NOT/session.json", "agents/NOT/artifacts/x", "agents/a/artifacts", "agents/a/context/x", "task.yaml", "shared/reports/\xff"} {
		if _, _, err := c.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCopyEvents(t *testing.T) {
	var b strings.Builder
	for i := range 10 {
		fmt.Fprintf(&b, `{"seq":%d,"type":"t%d","payload":{}}`+"\n", i+1, i%2)
		if i == 4 {
			b.WriteString("not JSON\nnull\n" + strings.Repeat("x", maxEventLine+1) + "\n\xff\n[]\n{}\n")
		}
	}
	b.WriteString(`{"seq":11,"ty`)
	c, _ := copyOf(t, map[string]string{"events.jsonl": b.String()})
	var seqs []int64
	unclear, from := 0, int64(0)
	for range 100 {
		s, err := c.Events(from, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range s.Events {
			seqs = append(seqs, ev.Seq)
		}
		unclear += s.Unclear
		if from = s.Next; !s.More {
			break
		}
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, seqs); diff != "" || unclear != 7 || from != int64(b.Len()) {
		t.Errorf("%s%d lines are none, at %d of %d", diff, unclear, from, b.Len())
	}
	odd, err := c.Events(0, 100, func(ev store.Event) bool { return ev.Type == "t1" })
	if err != nil || len(odd.Events) != 5 || odd.More {
		t.Errorf("%d events, %v", len(odd.Events), err)
	}
	last, err := c.Events(-60, 100, nil)
	if err != nil || len(last.Events) != 1 || last.Events[0].Seq != 10 {
		t.Errorf("from the end: %+v, %v", last.Events, err)
	}
	if s, err := c.Events(1<<60, 5, nil); err != nil || len(s.Events) > 0 || s.More {
		t.Errorf("after the end: %+v, %v", s, err)
	}
}

// TestCopyHostile reads directories that were crafted to mislead.
func TestCopyHostile(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte(oneEvent), 0o644); err != nil {
		t.Fatal(err)
	}
	files := []string{"task.yaml", "events.jsonl", "shared/evidence/index.json", "agents/a/session.json", "shared/reports/r.md", "agents/a/artifacts/x.md"}
	for name, plant := range map[string]func(string) error{
		"link":      func(f string) error { return os.Symlink(outside, f) },
		"link in":   func(f string) error { return os.Symlink("README.md", f) },
		"dangling":  func(f string) error { return os.Symlink("nowhere", f) },
		"circle":    func(f string) error { return os.Symlink(filepath.Base(f), f) },
		"hard link": func(f string) error { return os.Link(outside, f) },
		"pipe":      func(f string) error { return syscall.Mkfifo(f, 0o644) },
		"directory": func(f string) error { return os.Mkdir(f, 0o755) },
		"device":    func(f string) error { return os.Symlink("/dev/zero", f) },
		"huge":      func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o644), os.Truncate(f, 1<<40)) },
		"broken":    func(f string) error { return os.WriteFile(f, []byte("{\xff\x00 [&a *a"), 0o644) },
		"deep":      func(f string) error { return os.WriteFile(f, []byte(strings.Repeat("[", 1<<20)), 0o644) },
		"deep too":  func(f string) error { return os.WriteFile(f, []byte(strings.Repeat(`{"a":`, 1<<18)), 0o644) },
		"aliases":   func(f string) error { return os.WriteFile(f, []byte(bomb), 0o644) },
		"no rights": func(f string) error { return os.WriteFile(f, nil, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := copyOf(t, map[string]string{"README.md": oneEvent, "events.jsonl": oneEvent, "shared/evidence/x": "", "shared/reports/x": "", "agents/a/artifacts/x": ""})
			for _, f := range files {
				f = filepath.Join(dir, f)
				os.Remove(f)
				if err := plant(f); err != nil {
					t.Fatal(err)
				}
			}
			if v, err := c.Task(); err == nil && v.Title != "" {
				t.Errorf("task.yaml is taken: %+v", v)
			}
			if s, err := c.Events(0, 10, nil); len(s.Events) > 0 || err == nil && name != "huge" && name != "broken" && !strings.HasPrefix(name, "deep") && name != "aliases" && name != "no rights" {
				t.Errorf("events.jsonl is taken: %+v, %v", s, err)
			}
			if list, err := c.Evidence(); err == nil && len(list) > 0 {
				t.Errorf("index.json is taken: %+v", list)
			}
			workers, err := c.Workers()
			if err != nil || len(workers) != 1 || workers[0].Problem == "" {
				t.Errorf("%+v, %v", workers, err)
			}
			if _, _, err := c.Documents(); err != nil {
				t.Error(err)
			}
			for _, f := range files[4:] {
				r, _, err := c.Open(f)
				if err == nil {
					data, _ := io.ReadAll(io.LimitReader(r, 1<<16))
					r.Close()
					if strings.Contains(string(data), "task.created") {
						t.Errorf("%s leads out", f)
					}
				}
			}
		})
	}
}

// bomb is a document whose aliases would exhaust the memory.
var bomb = func() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 12 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	return text + "title: x\nconfig: {x: *a12}\n"
}()

// TestCopyFolders plants links instead of directories.
func TestCopyFolders(t *testing.T) {
	outside := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(outside, "reports"), 0o755), os.WriteFile(filepath.Join(outside, "reports", "r.md"), nil, 0o644), os.WriteFile(filepath.Join(outside, "r.md"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"shared", "shared/reports", "agents", "agents/a", "agents/a/artifacts"} {
		for _, to := range []string{outside, "..", "other", "/dev/fd", "/proc/self"} {
			c, root := copyOf(t, map[string]string{"task.yaml": "", "other/r.md": "", "other/reports/r.md": "", "shared/x": "", "agents/a/x": ""})
			at := filepath.Join(root, dir)
			if err := errors.Join(os.RemoveAll(at), os.Symlink(to, at)); err != nil {
				t.Fatal(err)
			}
			if papers, _, _ := c.Documents(); len(papers) > 0 {
				t.Errorf("%s to %s: %+v", dir, to, papers)
			}
			for _, name := range []string{"shared/reports/r.md", "agents/a/artifacts/r.md"} {
				if _, _, err := c.Open(name); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s to %s: %s: %v", dir, to, name, err)
				}
			}
		}
	}
}

func TestOpenCopy(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o644), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{pipe: "not a directory", file: "not a directory", dir: "neither task.yaml nor events.jsonl", filepath.Join(dir, "none"): "no such file", "": "no such file"} {
		if _, err := OpenCopy(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func FuzzCopyEvents(f *testing.F) {
	f.Add([]byte(oneEvent+"x\n"+oneEvent), int64(3))
	f.Add([]byte("\n\n{\"type\":1}\n"), int64(-5))
	f.Fuzz(func(t *testing.T, data []byte, from int64) {
		c, _ := copyOf(t, map[string]string{"events.jsonl": string(data)})
		for i := 0; ; i++ {
			s, err := c.Events(from, 2, nil)
			if err != nil || s.Next > s.Size || s.More && s.Next == from || i > len(data)+2 {
				t.Fatalf("%+v, %v", s, err)
			}
			if from = s.Next; !s.More {
				return
			}
		}
	})
}

func FuzzCopyFiles(f *testing.F) {
	f.Add([]byte("id: T\ntitle: x\ncreatedAt: 2026-01-02T03:04:05Z\nroster: [{instance: a}]\n"))
	f.Add([]byte(`[{"id":"a","sources":[{"path":"x","startLine":1}]}]`))
	f.Add([]byte(`{"adapter":"a","attempts":[{"events":[1,2]}]}`))
	f.Add([]byte(bomb))
	f.Fuzz(func(t *testing.T, data []byte) {
		text := string(data)
		c, _ := copyOf(t, map[string]string{"task.yaml": text, "shared/evidence/index.json": text, "agents/a/session.json": text})
		if v, err := c.Task(); err == nil {
			if _, err := YAML(v); err != nil {
				t.Error(err)
			}
		}
		c.Evidence()
		if w := c.Worker("a"); w.Problem != "" && w.Adapter != "" {
			t.Errorf("%+v", w)
		}
	})
}

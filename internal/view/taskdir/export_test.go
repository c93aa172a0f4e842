package taskdir

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/transfer"
	"github.com/plait-run/plait/internal/testing/mem"
)

func TestKeepOrigin(t *testing.T) {
	w := newWorld(t)
	for _, x := range []struct {
		text string
		want error
	}{{"first", nil}, {"first", nil}, {"other", fs.ErrExist}} {
		if err := w.dir.KeepOrigin("01J", []byte(x.text)); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", x.text, err)
		}
	}
	if kept, err := os.ReadFile(w.path("origins/01J.plait")); string(kept) != "first" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func TestExport(t *testing.T) {
	w := newWorld(t)
	w.step(w.attempt(1), `{"$status":"done"}`, "said")
	w.draw(w.board())
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("s3cret"), 0o600), os.Symlink(secret, w.path("shared/reports/link")),
		os.Symlink(filepath.Dir(secret), w.path("shared/reports/dir")), os.Link(secret, w.path("shared/reports/second")),
		os.WriteFile(w.path("shared/reports/a\\b"), nil, 0o600), os.WriteFile(w.path("shared/reports/report.md"), []byte("# R\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var out, again bytes.Buffer
	m, err := Export(t.Context(), w.store, &out, taskID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Export(t.Context(), w.store, &again, taskID); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Errorf("exported twice it is not the same: %v", err)
	}
	var skipped []string
	for _, s := range m.Skipped {
		skipped = append(skipped, s.Name)
	}
	want := []string{`shared/reports/a\b`, "shared/reports/dir", "shared/reports/link", "shared/reports/second"}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped: -want +got\n%s", diff)
	}
	r, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(rc)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(data)
		if strings.Contains(string(data), "s3cret") {
			t.Errorf("%s has what a link led to", f.Name)
		}
		if h, ok := strings.CutPrefix(f.Name, "objects/"); ok && dag.Sum(data).String() != h {
			t.Errorf("%s does not hash to its name", f.Name)
		}
	}
	for _, name := range []string{"task/task.yaml", "task/events.jsonl", "task/shared/reports/report.md", "objects/" + w.row.Head.String(),
		"objects/" + w.row.Bundle.String(), "objects/" + dag.Sum([]byte("r")).String(), "index/threads.json", "index/attempts.json", "index/gates.json", "index/events.jsonl"} {
		if _, ok := files[name]; !ok {
			t.Errorf("no %s in the export", name)
		}
	}
	var threads []store.Thread
	if err := json.Unmarshal([]byte(files["index/threads.json"]), &threads); err != nil || len(threads) != 1 || threads[0].Head != w.row.Head {
		t.Errorf("threads.json has %+v, %v", threads, err)
	}
	var read Manifest
	if err := json.Unmarshal([]byte(files["manifest.json"]), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, read); diff != "" {
		t.Errorf("manifest.json: -want +got\n%s", diff)
	}
	if n := strings.Count(files["index/events.jsonl"], "\n"); n != m.Events || files["index/gates.json"] != "[]\n" {
		t.Errorf("%d events, want %d; gates %q", n, m.Events, files["index/gates.json"])
	}
	// Events keep what they prove where they are imported; what people read does not have it.
	events, err := w.store.Events(t.Context(), 0, store.EventFilter{Task: taskID})
	if err != nil {
		t.Fatal(err)
	}
	to := mem.New(mem.Config{})
	if _, err := transfer.Unpack(t.Context(), r, to); err != nil {
		t.Fatal(err)
	}
	kept, err := to.Events(t.Context(), 0, store.EventFilter{})
	if diff := cmp.Diff(events, kept, cmpopts.IgnoreFields(store.Event{}, "Pos")); diff != "" || err != nil {
		t.Errorf("imported: %v, -want +got\n%s", err, diff)
	}
	if !slices.ContainsFunc(events, func(ev store.Event) bool { return ev.Proof != nil }) ||
		strings.Contains(files["task/events.jsonl"], "proof") {
		t.Errorf("nothing is proven, or the plain file has it:\n%s", files["task/events.jsonl"])
	}
	if _, err := Export(t.Context(), w.store, io.Discard, "NOPE"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a task that is not there: %v", err)
	}
}

// The files that a task begins with are in its export before a step refers to them.
func TestExportUpload(t *testing.T) {
	w := newWorld(t)
	blob := dag.Sum([]byte("a bundle"))
	files, err := thread.NewNode(dag.TypeTree,
		thread.Files{Tree: strings.Repeat("1", 40), Commit: strings.Repeat("2", 40), Bundle: blob})
	if err != nil {
		t.Fatal(err)
	}
	was := w.row.State()
	w.row.Files = files.Hash
	w.commit(store.Batch{
		Objects: []store.Object{{Hash: blob, Kind: store.Blob, Data: []byte("a bundle")}, files},
		Threads: []store.ThreadChange{{Row: w.row, From: was}},
	})
	var out bytes.Buffer
	if _, err := Export(t.Context(), w.store, &out, taskID); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []dag.Hash{files.Hash, blob} {
		if _, err := r.Open("objects/" + h.String()); err != nil {
			t.Error(err)
		}
	}
}

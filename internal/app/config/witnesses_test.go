package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func TestWitnesses(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), "witnesses: [git, 'git:origin', file:/mnt/worm/checkpoint]\n")
	s, err := Load(file, "/nowhere", none)
	if err != nil {
		t.Fatal(err)
	}
	want := []Witness{{}, {Remote: "origin"}, {File: "/mnt/worm/checkpoint"}}
	if diff := cmp.Diff(Value[[]Witness]{want, file + ":1"}, s.Witness); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var texts []string
	for _, w := range want {
		texts = append(texts, w.String(), w.Noun())
	}
	if got := strings.Join(texts, "; "); got != "git; the Git repository; git:origin; the Git remote origin; "+
		"file:/mnt/worm/checkpoint; the file /mnt/worm/checkpoint" {
		t.Errorf("they are %s", got)
	}
	for _, bad := range []string{"git", "{git: origin}", "[git:]", "[git:-x]", "['git:a b']", "[file:checkpoint]",
		"[file:/a/../b]", "[https://example.org]", "['']"} {
		file := write(t, filepath.Join(t.TempDir(), "c.yaml"), "witnesses: "+bad+"\n")
		if _, err := Load(file, "/nowhere", none); err == nil || !strings.Contains(err.Error(), "witnesses must be a list") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// A project may be written by agents.
	_, err = Load("/nowhere", write(t, filepath.Join(t.TempDir(), "c.yaml"), "witnesses: [git]\n"), none)
	var invalid *flow.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || invalid.Problems[0].Code != "NOT_HERE" {
		t.Errorf("of a project: %v", err)
	}
}

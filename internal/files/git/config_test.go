package git_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUserIgnore checks that what the user never wants tracked is left out of snapshots, wherever their configuration
// says so.
func TestUserIgnore(t *testing.T) {
	const (
		list = "*.mine\n"
		sets = "[core]\n\texcludesFile = ~/mine\n"
	)
	for name, home := range map[string]files{
		"git's own place":   {".config/git/ignore": list},
		"configuration":     {".gitconfig": "[Core]\n\tExcludesFile = ~/mine\n", "mine": list},
		"XDG configuration": {".config/git/config": "[core]excludesfile=~/mine\n", "mine": list},
		"include":           {".gitconfig": "[include]\n\tpath = more\n", "more": sets, "mine": list},
		"include on a condition": {".gitconfig": "[IncludeIf \"gitdir:/\"]\n\tpath = more\n",
			"more": sets, "mine": list,
			".config/git/ignore": list},
		"configuration without it": {".gitconfig": "[user]\n\tname = x\n", ".config/git/ignore": list},
	} {
		t.Run(name, func(t *testing.T) {
			dir := commit(t, files{"a": "1"})
			files{"b": "2", "x.mine": "secret"}.write(t, dir)
			own := t.TempDir()
			home.write(t, own)
			t.Setenv("HOME", own)
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("XDG_CACHE_HOME", filepath.Join(own, "cache"))
			tree, err := open(t, dir).Snapshot(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(files{"a": "1", "b": "2"}, treeFiles(t, dir, tree)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

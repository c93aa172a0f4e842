package git_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// TestUserSettings checks that the user's own config is read, with the files that it includes, and that of the
// surrounding repository is not.
func TestUserSettings(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	if got, err := git.UserSettings(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("without a config: %v, %v", got, err)
	}
	for name, text := range map[string]string{
		".gitconfig":   "[gpg]\n\tformat = ssh\n[user]\n\tsigningKey = ~/.ssh/a\n[include]\n\tpath = more\n",
		"more":         "[user]\n\tsigningKey = ~/.ssh/b\n",
		".git/config":  "[user]\n\tsigningKey = theirs\n[core]\n\trepositoryformatversion = 0\n",
		".git/HEAD":    "ref: refs/heads/main\n",
		".git/refs/x":  "",
		".git/objects": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(home)
	got, err := git.UserSettings(t.Context())
	want := map[string]string{"gpg.format": "ssh", "user.signingkey": "~/.ssh/b", "include.path": "more"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

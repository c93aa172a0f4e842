package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55"

// TestLeftovers looks at what an agent may leave in a worktree of a repository with submodules. Remove keeps what
// Leftovers names.
func TestLeftovers(t *testing.T) {
	ctx := context.Background()
	lib := commit(t, files{"lib.c": "1", ".gitignore": "*.o\n"})
	dir := commit(t, files{"src/a": "1", ".gitignore": "dist/\n*.o\n/secret\nlink\nodd*\nnode_modules/\n"})
	for _, name := range []string{"sub", "deep/sub"} {
		userGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, name)
	}
	userGit(t, dir, "commit", "-qm", "submodules")
	lose := git.Caches{Names: []string{"node_modules", "*.pyc", "web/cache"}, Made: []string{"dist/", "src/made.o"}}
	initSub := func(t *testing.T, at string) {
		userGit(t, at, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "sub")
	}
	tests := map[string]struct {
		files  files
		do     func(t *testing.T, at string) // after the files are written
		made   []string                      // what setup made
		left   []git.Left
		caches []string
	}{
		"nothing": {files: files{"src/a": "2", "new": "3"}},
		"files below a submodule": {
			files: files{"sub/new.txt": "work", "deep/sub/x/y": "work"},
			left:  []git.Left{{Path: "deep/sub/", Why: git.InSubmodule}, {Path: "sub/", Why: git.InSubmodule}},
		},
		"only directories below a submodule": {do: func(t *testing.T, at string) { mkdir(t, at, "sub/x/y") }},
		"a submodule became a file": {
			do: func(t *testing.T, at string) {
				remove(t, filepath.Join(at, "sub"))
				files{"sub": "work"}.write(t, at)
			},
			left: []git.Left{{Path: "sub", Why: git.InSubmodule}},
		},
		"a submodule was removed": {do: func(t *testing.T, at string) { remove(t, filepath.Join(at, "sub")) }},
		"a link above a submodule": {do: func(t *testing.T, at string) {
			remove(t, filepath.Join(at, "deep"))
			link(t, lib, at, "deep")
		}},
		"a submodule as it was": {do: initSub},
		"ignored files of a submodule": {
			do: func(t *testing.T, at string) {
				initSub(t, at)
				files{"sub/x.o": "1", "sub/node_modules.o/x": "1"}.write(t, at)
			},
			left: []git.Left{{Path: "sub/node_modules.o/", Why: git.Ignored}, {Path: "sub/x.o", Why: git.Ignored}},
		},
		"a changed submodule": {
			do:   func(t *testing.T, at string) { initSub(t, at); files{"sub/lib.c": "2"}.write(t, at) },
			left: []git.Left{{Path: "sub/", Why: git.OfSubmodule}},
		},
		"a new file of a submodule": {
			do:   func(t *testing.T, at string) { initSub(t, at); files{"sub/lib.h": "2"}.write(t, at) },
			left: []git.Left{{Path: "sub/", Why: git.OfSubmodule}},
		},
		"a commit of a submodule": {
			do: func(t *testing.T, at string) {
				initSub(t, at)
				userGit(t, filepath.Join(at, "sub"), "commit", "-q", "--allow-empty", "-m", "work")
			},
			left: []git.Left{{Path: "sub/", Why: git.OfSubmodule}},
		},
		"a commit of a submodule that the index has": {
			do: func(t *testing.T, at string) {
				initSub(t, at)
				userGit(t, filepath.Join(at, "sub"), "commit", "-q", "--allow-empty", "-m", "work")
				userGit(t, at, "add", "sub")
			},
			left: []git.Left{{Path: "sub/", Why: git.OfSubmodule}},
		},
		"a commit on another branch of a submodule": {
			do: func(t *testing.T, at string) {
				initSub(t, at)
				sub := filepath.Join(at, "sub")
				userGit(t, sub, "checkout", "-qb", "work")
				userGit(t, sub, "commit", "-q", "--allow-empty", "-m", "work")
				userGit(t, sub, "checkout", "-q", "--detach", "HEAD^")
			},
			left: []git.Left{{Path: "sub/", Why: git.OfSubmodule}},
		},
		"a submodule that cannot be read": {
			do:   func(t *testing.T, at string) { files{"sub/.git": "gitdir: /nowhere\n"}.write(t, at) },
			left: []git.Left{{Path: "sub/", Why: git.OfSubmodule}},
		},
		"a submodule of only commits that were made here": {
			do: func(t *testing.T, at string) {
				userGit(t, at, "init", "-q", "own")
				userGit(t, filepath.Join(at, "own"), "commit", "-q", "--allow-empty", "-m", "work")
				userGit(t, at, "add", "own")
			},
			left: []git.Left{{Path: "own/", Why: git.OfSubmodule}},
		},
		"repositories": {
			do: func(t *testing.T, at string) {
				userGit(t, at, "init", "-q", "new")
				files{"new/x": "1"}.write(t, at)
				userGit(t, at, "clone", "-q", lib, "src/clone")
				userGit(t, at, "clone", "-q", "--bare", lib, "bare.git") // its files are in the snapshot
			},
			left: []git.Left{{Path: "new/", Why: git.Repository}, {Path: "src/clone/", Why: git.Repository}},
		},
		"ignored": {
			files: files{"dist/out": "1", "src/b.o": "1", "new/x/y.o": "1", "new/dist/out": "1", "secret": "1",
				"odd\nname": "1"},
			do: func(t *testing.T, at string) {
				mkdir(t, at, "x/dist/y")
				link(t, "/", at, "link")
				mkdir(t, at, "src/odd")
			},
			left: []git.Left{{Path: "dist/", Why: git.Ignored}, {Path: "link", Why: git.Ignored},
				{Path: "new/dist/", Why: git.Ignored}, {Path: "new/x/y.o", Why: git.Ignored},
				{Path: "odd\nname", Why: git.Ignored}, {Path: "secret", Why: git.Ignored}, {Path: "src/b.o", Why: git.Ignored}},
		},
		"Plait's own directory": {
			files: files{".plait/flows/new.yaml": "1"},
			left:  []git.Left{{Path: ".plait/", Why: git.Ignored}},
		},
		"made before": {
			files: files{"dist/out": "1", "src/made.o": "1", "src/b.o": "1"}, made: lose.Made,
			left:   []git.Left{{Path: "src/b.o", Why: git.Ignored}},
			caches: []string{"dist/", "src/made.o"},
		},
		"caches": {
			files: files{"node_modules/x": "1", "web/node_modules/x": "1", "odd/CACHEDIR.TAG": cacheTag + "\n#",
				"odd2/CACHEDIR.TAG": "Signature: 1", "odd3/x/CACHEDIR.TAG": cacheTag, "odd.pyc": "1", "my/web/cache.o": "1"},
			left: []git.Left{{Path: "my/web/cache.o", Why: git.Ignored}, {Path: "odd2/", Why: git.Ignored},
				{Path: "odd3/", Why: git.Ignored}},
			caches: []string{"node_modules/", "odd.pyc", "odd/", "web/node_modules/"},
		},
		"the tag is a link": {
			files: files{"CACHEDIR.TAG": cacheTag},
			do: func(t *testing.T, at string) {
				mkdir(t, at, "dist")
				link(t, "../CACHEDIR.TAG", at, "dist/CACHEDIR.TAG")
			},
			left: []git.Left{{Path: "dist/", Why: git.Ignored}},
		},
	}
	r := open(t, dir)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			work := checkout(t, r, snapshot(t, r, ""))
			at := work.Root()
			tt.files.write(t, at)
			if tt.do != nil {
				tt.do(t, at)
			}
			lose := git.Caches{Names: lose.Names, Made: tt.made}
			got, err := work.Leftovers(ctx, lose)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(git.Leftovers{Left: tt.left, Caches: tt.caches}, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			_, err = r.Remove(ctx, at, "refs/plait/t/1", lose)
			if held := errors.Is(err, git.ErrHeld); held != (len(tt.left) > 0) {
				t.Errorf("removing it: %v", err)
			}
			if err := r.Discard(at); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLeftoversUnreadable counts as left what another user has made unreadable.
func TestLeftoversUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	dir := commit(t, files{"a": "1", ".gitignore": "dist/\n"})
	r := open(t, dir)
	work := checkout(t, r, snapshot(t, r, ""))
	files{"dist/x/y": "1"}.write(t, work.Root())
	for _, shut := range []string{"dist/x", "dist"} {
		if err := os.Chmod(filepath.Join(work.Root(), shut), 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(filepath.Join(work.Root(), shut), 0o700)
		got, err := work.Leftovers(t.Context(), git.Caches{})
		if diff := cmp.Diff([]git.Left{{Path: "dist/", Why: git.Ignored}}, got.Left); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", shut, err, diff)
		}
	}
}

func mkdir(t *testing.T, at, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(at, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, at, name string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(at, name)); err != nil {
		t.Fatal(err)
	}
}

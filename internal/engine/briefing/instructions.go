package briefing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/text"
)

// instructionFiles are the names of files for all agents: in each directory only the first one found counts. ownFiles
// are those for the agents of one vendor, which they follow too.
var (
	instructionFiles = []string{"AGENTS.override.md", "AGENTS.md"}
	ownFiles         = []string{"CLAUDE.md"}
)

// Bounds on instructions.
const (
	maxInstructions = 32 << 10 // bytes, for one agent
	maxLooked       = 20_000   // directory entries to search
)

// filesSection tells an agent where it finds and leaves files.
const filesSection = "What you leave in the directory \"$PLAIT_ARTIFACTS\" is kept with your answer, and those who " +
	"come after you are told of it.\n" +
	"Input files are in the directory \"$PLAIT_CONTEXT\". `\"$PLAIT_BIN\" cas get HASH` prints any other object that\n" +
	"you can read, by the first digits of its hash; `plait` is the same program."

// projectInstructions are the instructions that a project had when a task began. Later changes to these files by
// agents do not count.
type projectInstructions struct {
	Place string            `json:"place"` // of the working tree in the project, with slashes
	Files map[string]string `json:"files"` // by path in the project
}

// of returns the instructions for an agent at a place in the working tree, from the project's root down. own is the
// name of its own files, "" for none; one that says the same as that for all is left out.
func (t projectInstructions) of(location, own string) []prompt.Instructions {
	dirs := []string{"."}
	for dir := range strings.SplitSeq(path.Join(t.Place, location), "/") {
		if dir != "." {
			dirs = append(dirs, path.Join(dirs[len(dirs)-1], dir))
		}
	}
	var out []prompt.Instructions
	left := maxInstructions
	add := func(file string) (added bool) {
		words := t.Files[file]
		if strings.TrimSpace(words) == "" {
			return false
		}
		words = text.Head(words, left)
		left -= len(words)
		if words != "" {
			out = append(out, prompt.Instructions{Name: file, Text: words})
		}
		return true
	}
	for _, dir := range dirs {
		common := ""
		for _, name := range instructionFiles {
			if file := path.Join(dir, name); add(file) {
				common = t.Files[file]
				break
			}
		}
		if file := path.Join(dir, own); own != "" && t.Files[file] != common {
			add(file)
		}
	}
	return out
}

// instructions returns the instructions of a task. It searches for them once, before the first attempt, and
// keeps them where no agent writes, if there is such a place. A manual fork has the instructions of the task that
// it comes from.
func (b *Briefer) instructions(ctx context.Context, row store.Thread) (projectInstructions, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, known := b.projects[row.Task]
	if known {
		return t, nil
	}
	root, err := b.cfg.Store.Thread(ctx, row.Task)
	if errors.Is(err, store.ErrNotFound) {
		root, err = row, nil
	}
	if err != nil {
		return t, err
	}
	if b.cfg.Home == "" {
		t, err = findInstructions(worktree.Of(root))
	} else {
		t, err = b.keptInstructions(ctx, root)
	}
	if err != nil {
		return t, fmt.Errorf("read the instructions of task %s: %w", row.Task, err)
	}
	b.projects[row.Task] = t
	return t, nil
}

// instructionsFile returns where the instructions of a task are kept: outside its home, which its agents can write.
func (b *Briefer) instructionsFile(task string) string {
	return filepath.Join(b.cfg.Home, "instructions", task+".json")
}

// keptInstructions returns the instructions kept for a task, after it has put them there if necessary.
func (b *Briefer) keptInstructions(ctx context.Context, root store.Thread) (t projectInstructions, err error) {
	file := b.instructionsFile(root.Task)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if data, err = b.firstInstructions(ctx, root); err == nil {
			err = keepInstructions(file, data)
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	return t, err
}

// firstInstructions returns the encoded instructions of a task that has none yet.
func (b *Briefer) firstInstructions(ctx context.Context, root store.Thread) ([]byte, error) {
	from, ok, err := thread.Origin(ctx, b.cfg.Store, root)
	if err != nil {
		return nil, err
	}
	if ok {
		data, err := os.ReadFile(b.instructionsFile(from.Task))
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	t, err := findInstructions(worktree.Of(root))
	if err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

func keepInstructions(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, data, 0o600)
}

// findInstructions reads the instructions in a working tree, and above it up to the root of its repository. It
// searches upper directories first, and only a limited number of entries.
func findInstructions(tree string) (projectInstructions, error) {
	t := projectInstructions{Place: ".", Files: map[string]string{}}
	top := tree
	for dir := tree; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			top = dir
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return t, nil // the agent that works there will report what is missing
	}
	defer root.Close()
	if rel, err := filepath.Rel(top, tree); err == nil {
		t.Place = filepath.ToSlash(rel)
	}
	for dir := path.Dir(t.Place); t.Place != "."; dir = path.Dir(dir) {
		t.read(root, dir)
		if dir == "." {
			break
		}
	}
	looked := 0
	for dirs := []string{t.Place}; len(dirs) > 0 && looked < maxLooked; dirs = dirs[1:] {
		t.read(root, dirs[0])
		entries, err := fs.ReadDir(root.FS(), dirs[0])
		if err != nil {
			continue // skip what cannot be read
		}
		looked += len(entries)
		for _, d := range entries {
			if d.IsDir() && !strings.HasPrefix(d.Name(), ".") && d.Name() != "node_modules" {
				dirs = append(dirs, path.Join(dirs[0], d.Name()))
			}
		}
	}
	return t, nil
}

// read reads the files of a directory. It does not follow links out of the project.
func (t projectInstructions) read(root *os.Root, dir string) {
	for _, name := range slices.Concat(instructionFiles, ownFiles) {
		file := path.Join(dir, name)
		f, err := root.OpenFile(filepath.FromSlash(file), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			data, _ := io.ReadAll(io.LimitReader(f, maxInstructions))
			t.Files[file] = strings.ToValidUTF8(strings.TrimPrefix(string(data), "\uFEFF"), "\uFFFD")
		}
		f.Close()
	}
}

package attempt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// Bounds on what one attempt may leave.
const (
	maxArtifacts     = 64
	maxArtifactBytes = 64 << 20
)

// collect keeps the files in the artifacts directory, in name order. It only takes regular files with one link,
// through root: a symbolic or hard link could name any file of the user's. Other files are named in
// ans.skipped.
func (r *run) collect(ctx context.Context, root *os.Root, ans *answer) error {
	if root == nil {
		return nil
	}
	total := int64(0)
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			// The agent made the file this way; its other files can still be kept.
			ans.skipped = append(ans.skipped, fmt.Sprintf("%s: %v", name, err))
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		f, info, err := openRegular(root, name, d)
		if err != nil {
			ans.skipped = append(ans.skipped, fmt.Sprintf("%s: %v", name, err))
			return nil
		}
		defer f.Close()
		if total += info.Size(); len(ans.artifacts) == maxArtifacts || total > maxArtifactBytes {
			return &agent.Failure{Kind: agent.InvalidOutput, Message: fmt.Sprintf(
				"more was left in $PLAIT_ARTIFACTS than is kept: at most %d files and %d MiB", maxArtifacts,
				maxArtifactBytes>>20)}
		}
		a := thread.Artifact{Name: name, MediaType: mediaType(name), Size: info.Size()}
		if a.Blob, err = r.bytes.Keep(ctx, f, info.Size()); err != nil {
			return fmt.Errorf("keep artifact %s: %w", name, err)
		}
		obj, err := thread.NewNode(dag.TypeArtifact, a)
		if err != nil {
			return err
		}
		r.bytes.Objects = append(r.bytes.Objects, obj)
		ans.artifacts = append(ans.artifacts, obj.Hash)
		ans.names = append(ans.names, name)
		return nil
	})
}

// Schemes of what the field artifacts of an answer can name besides files: a commit of the repository, and an object
// of the record that the agent was lent.
const (
	commitScheme = "commit:"
	objectScheme = "cas:"
)

// isRef reports whether name is that of a commit or an object, or the beginning of one.
func isRef(name string) bool {
	if id, ok := strings.CutPrefix(name, commitScheme); ok {
		return text.IsHex(id, 7, 64)
	}
	id, ok := strings.CutPrefix(name, objectScheme)
	return ok && text.IsHex(id, 8, 64)
}

// collectRefs keeps the commits and objects that the field artifacts of an answer names, as artifacts with that name.
// If one is not there, the error is an *agent.Failure. So it is if a file is not there that an action of a plan names:
// in other answers the field can have another meaning.
func (r *run) collectRefs(ctx context.Context, ans *answer) error {
	list, _ := ans.fields["artifacts"].([]any)
	for _, item := range list {
		name, _ := item.(string)
		if !isRef(name) {
			if why := ans.missing(name); why != "" && r.p.acts() && r.e.cfg.Player == nil {
				return &agent.Failure{Kind: agent.InvalidOutput, Message: fmt.Sprintf("artifacts: %q %s",
					event.Brief(name), why)}
			}
			continue
		}
		if slices.Contains(ans.names, name) {
			continue
		}
		a, err := r.referred(ctx, ans, name)
		if err == nil && len(ans.artifacts) == maxArtifacts {
			err = fmt.Errorf("more than %d artifacts", maxArtifacts)
		}
		if err != nil {
			if r.e.cfg.Player != nil { // what is recorded was there
				continue
			}
			return &agent.Failure{Kind: agent.InvalidOutput, Message: fmt.Sprintf("artifacts: %s: %v", name, err)}
		}
		obj, err := thread.NewNode(dag.TypeArtifact, a)
		if err != nil {
			return err
		}
		r.bytes.Objects = append(r.bytes.Objects, obj)
		ans.artifacts, ans.names = append(ans.artifacts, obj.Hash), append(ans.names, name)
	}
	return nil
}

// missing says why a file or directory that an answer names as an artifact is none, "" if it is one. The name may
// begin with a path of the artifacts directory.
func (a *answer) missing(name string) string {
	name = "/" + strings.TrimSuffix(name, "/")
	if slices.ContainsFunc(a.names, func(left string) bool {
		for ; left != "."; left = path.Dir(left) { // a directory has no entry of its own
			if strings.HasSuffix(name, "/"+left) {
				return true
			}
		}
		return false
	}) {
		return ""
	}
	for _, skipped := range a.skipped {
		if file, why, _ := strings.Cut(skipped, ": "); strings.HasSuffix(name, "/"+file) {
			return "was not kept: " + why
		}
	}
	return "is not in $PLAIT_ARTIFACTS: leave it there, or do not name it"
}

// referred returns the artifact for a commit or an object.
func (r *run) referred(ctx context.Context, ans *answer, name string) (a thread.Artifact,
	err error) {
	if commit, ok := strings.CutPrefix(name, commitScheme); ok {
		id, object, err := r.e.cfg.Trees.KeepCommit(ctx, r.c.Row, commit)
		if errors.Is(err, worktree.ErrNoCommit) {
			err = worktree.ErrNoCommit
		}
		if err != nil {
			return a, err
		}
		object = r.e.cfg.Host.Secrets.Bytes(object)
		a = thread.Artifact{Name: commitScheme + id, MediaType: "text/x-git-commit", Size: int64(len(object))}
		a.Blob, err = r.bytes.Keep(ctx, bytes.NewReader(object), a.Size)
		return a, err
	}
	begins := strings.TrimPrefix(name, objectScheme)
	for h := range r.readable {
		if !strings.HasPrefix(h.String(), begins) {
			continue
		}
		if !a.Blob.IsZero() {
			return a, errors.New("several objects that you can read have a hash that begins so")
		}
		a.Blob = h
	}
	if a.Blob.IsZero() {
		return a, errors.New("there is no such object among those that you can read")
	}
	blob, entry, err := r.e.cfg.Store.Open(ctx, a.Blob)
	if err != nil {
		return a, err
	}
	blob.Close()
	a.Name, a.MediaType, a.Size = objectScheme+a.Blob.String(), "application/json", entry.Size
	return a, nil
}

// wholeOutput adds an artifact of an output whose text is only the head. It takes the output's bytes, or the log if the
// bytes are only the head too.
func (r *run) wholeOutput(ctx context.Context, result agent.Result, ans *answer) (err error) {
	a := thread.Artifact{
		Name: "output", MediaType: "application/octet-stream", Size: r.logged, Blob: r.row.Transcript,
	}
	if !result.Truncated {
		a.Blob, a.Size, err = r.bytes.Stage(ctx, bytes.NewReader(r.e.cfg.Host.Secrets.Bytes(result.Output)))
		if err != nil {
			return fmt.Errorf("keep output of attempt %s: %w", r.row.ID, err)
		}
	}
	obj, err := thread.NewNode(dag.TypeArtifact, a)
	if err != nil {
		return err
	}
	r.bytes.Objects = append(r.bytes.Objects, obj)
	ans.artifacts = append(ans.artifacts, obj.Hash)
	return nil
}

// openRegular opens a regular file. It checks the open file, since the name may be exchanged between a check
// and an open.
func openRegular(root *os.Root, name string, d fs.DirEntry) (*os.File, fs.FileInfo, error) {
	if !d.Type().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil && info.Sys().(*syscall.Stat_t).Nlink != 1 {
		err = errors.New("has more than one link")
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// mediaType guesses the media type from the name alone, since contents are not trusted.
func mediaType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".md":
		return "text/markdown; charset=utf-8"
	case ".log", ".patch", ".diff", ".txt":
		return "text/plain; charset=utf-8"
	case ".jsonl":
		return "application/jsonl"
	default:
		if t := mime.TypeByExtension(ext); t != "" {
			return t
		}
	}
	return "application/octet-stream"
}

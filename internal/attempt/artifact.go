package attempt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"syscall"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// Bounds on what one attempt may leave.
const (
	maxArtifacts     = 64
	maxArtifactBytes = 64 << 20
)

// collect keeps the files in the artifacts directory, in name order. It only takes regular files with one link,
// through root: a symbolic or hard link could name any file of the user's. Other files are named in
// ans.skipped.
func (e *Runner) collect(ctx context.Context, p *Prepared, root *os.Root, ans *answer) error {
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
		if a.Blob, err = e.keepBytes(ctx, p, f, info.Size(), &ans.objects); err != nil {
			return fmt.Errorf("keep artifact %s: %w", name, err)
		}
		obj, err := thread.NewNode(dag.TypeArtifact, a)
		if err != nil {
			return err
		}
		ans.objects = append(ans.objects, obj)
		ans.artifacts = append(ans.artifacts, obj.Hash)
		ans.names = append(ans.names, name)
		return nil
	})
}

// wholeOutput makes an artifact of an output whose text is only the head. It takes the output's bytes, or the
// log if the bytes are only the head too.
func (e *Runner) wholeOutput(ctx context.Context, p *Prepared, result agent.Result) ([]store.Object, error) {
	a := thread.Artifact{
		Name: "output", MediaType: "application/octet-stream", Size: p.kept.logged, Blob: p.Row.Transcript,
	}
	if !result.Truncated {
		h, n, err := e.cfg.Store.Stage(ctx, p.Row.ID, bytes.NewReader(e.cfg.Host.Secrets.Bytes(result.Output)))
		if err != nil {
			return nil, fmt.Errorf("keep output of attempt %s: %w", p.Row.ID, err)
		}
		a.Blob, a.Size = h, n
		p.Row.Pins = append(p.Row.Pins, h)
	}
	obj, err := thread.NewNode(dag.TypeArtifact, a)
	return []store.Object{obj}, err
}

// maxInline is the largest blob that is added to the objects of a batch; larger ones are staged before it.
const maxInline = 64 << 10

// keepBytes keeps at most size bytes of r as a blob: small ones among objects, others staged and pinned.
func (e *Runner) keepBytes(ctx context.Context, p *Prepared, r io.Reader, size int64,
	objects *[]store.Object) (dag.Hash, error) {
	r = io.LimitReader(r, size)
	if size > maxInline {
		h, _, err := e.cfg.Store.Stage(ctx, p.Row.ID, r)
		p.Row.Pins = append(p.Row.Pins, h)
		return h, err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return dag.Hash{}, err
	}
	h := dag.Sum(data)
	*objects = append(*objects, store.Object{Hash: h, Data: data})
	return h, nil
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

package attest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// maxOrigins is how many proofs of a task are kept.
const maxOrigins = 32

// Sealed reports whether the comment of a ZIP file is that of a bundle.
func Sealed(comment string) bool { return strings.HasPrefix(comment, sealPrefix) }

// Origins checks a bundle without a policy, and returns what proves that the task is from elsewhere, by the ULID of the
// log: the bundle without its record, and those with which the task came there. Each is a bundle again, of the same
// bytes: it proves what it proved. The error matches store.ErrCorrupt if the bundle is refused.
func Origins(ctx context.Context, in io.ReaderAt, size int64) (map[string][]byte, error) {
	v := verifier{Check: Check{Bundle: in, Size: size, Policy: new(Policy)}}
	all, err := v.origins(ctx)
	if errors.Is(err, ErrRefused) {
		err = fmt.Errorf("%w: %w", err, store.ErrCorrupt)
	}
	return all, err
}

func (v *verifier) origins(ctx context.Context) (map[string][]byte, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for name := range v.files.files {
		file, ok := strings.CutPrefix(name, "task/"+taskdir.OriginsDir+"/")
		log, named := strings.CutSuffix(file, taskdir.OriginExt)
		if !ok || !named {
			continue
		}
		data, err := v.files.read(name, maxEnvelope+dag.MaxBytes)
		if err != nil {
			return nil, err
		}
		all[log] = data
	}
	var b Bundle
	for _, x := range []struct {
		name string
		into *[]byte
	}{{fileEnvelope, &b.Envelope}, {fileCheckpoint, &b.Checkpoint}, {fileEntries, &b.Entries}} {
		var err error
		if *x.into, err = v.files.read(x.name, maxEnvelope+dag.MaxBytes); err != nil {
			return nil, err
		}
	}
	var own bytes.Buffer
	if err := Pack(&own, b); err != nil {
		return nil, err
	}
	all[strings.TrimPrefix(v.change.Log.Origin, history.Origin(""))] = own.Bytes()
	if len(all) > maxOrigins {
		return nil, refused("bundle: it came from more than %d records", maxOrigins)
	}
	for log := range all {
		if id, err := thread.ParseID(log); err != nil || id != log {
			return nil, refused("bundle: %q is no log", clip(log))
		}
	}
	return all, nil
}

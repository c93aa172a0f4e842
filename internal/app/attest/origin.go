package attest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Limits on the proofs that a task comes with.
const (
	maxOrigins = 32
	maxOrigin  = maxEnvelope + maxEntries // bytes of all
)

// originsDir is where a bundle with a record has them.
const originsDir = "task/" + taskdir.OriginsDir + "/"

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
	size := 0
	for name := range v.files.files {
		file, ok := strings.CutPrefix(name, originsDir)
		log, named := strings.CutSuffix(file, taskdir.OriginExt)
		if !ok || !named {
			continue
		}
		_, data, err := v.origin(ctx, log)
		if err != nil {
			return nil, err
		}
		all[log] = data
		if size += len(data); size > maxOrigin || len(all) == maxOrigins {
			return nil, refused("bundle: it came from more than %d records, or their proofs are larger than %d bytes",
				maxOrigins, maxOrigin)
		}
	}
	var b Bundle
	for _, x := range []struct {
		name string
		into *[]byte
	}{{fileEnvelope, &b.Envelope}, {fileCheckpoint, &b.Checkpoint}, {fileEntries, &b.Entries}} {
		var err error
		if *x.into, err = v.files.read(x.name, maxOrigin); err != nil {
			return nil, err
		}
	}
	var own bytes.Buffer
	if err := Pack(&own, b); err != nil {
		return nil, err
	}
	log := strings.TrimPrefix(v.change.Log.Origin, history.Origin(""))
	if id, err := thread.ParseID(log); err != nil || id != log {
		return nil, refused("bundle: %q is no log", clip(log))
	}
	all[log] = own.Bytes()
	return all, nil
}

// origin returns a proof in a bundle: that of the task by another log, in which it was before. It is a bundle without a
// record, and checked with the keys of the policy.
func (v *verifier) origin(ctx context.Context, log string) (*verifier, []byte, error) {
	fail := func(err error) (*verifier, []byte, error) {
		return nil, nil, fmt.Errorf("proof by the log %s: %w", clip(log), err)
	}
	data, err := v.files.read(originsDir+log+taskdir.OriginExt, maxOrigin)
	if err != nil {
		return fail(err)
	}
	policy := *v.Policy
	policy.requires, policy.denies = nil, nil
	o := &verifier{Check: Check{Bundle: bytes.NewReader(data), Size: int64(len(data)), Policy: &policy, Now: v.Now},
		nested: true}
	if err := o.verify(ctx); err != nil {
		return fail(err)
	}
	id, err := thread.ParseID(log)
	switch {
	case err != nil || id != log || o.change.Log.Origin != history.Origin(log):
		return fail(refused("it is by %q", clip(o.change.Log.Origin)))
	case o.change.Task.ID != v.change.Task.ID:
		return fail(refused("it is of task %q", clip(o.change.Task.ID)))
	case o.report.Record:
		return fail(refused("it has a record of its own"))
	}
	return o, data, nil
}

// answered reports whether the bundle proves that an answer was given in the record of a log: its own, or one in which
// the task was before.
func (v *verifier) answered(ctx context.Context, origin string, a Approval) (bool, error) {
	log := strings.TrimPrefix(origin, history.Origin(""))
	if own := origin == v.change.Log.Origin; own || v.nested || v.files.files[originsDir+log+taskdir.OriginExt] == nil {
		return own, nil
	}
	o, _, err := v.origin(ctx, log)
	return err == nil && len(o.report.Reasons) == 0 && slices.Contains(o.change.Approvals, a), err
}

package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/sshsig"
	"github.com/plait-run/plait/internal/sys/text"
)

// A History is the head of the log, and the newest checkpoint of it that this machine keeps.
type History struct {
	Log    string          `json:"log"`
	Size   int64           `json:"size"` // events
	Root   dag.Hash        `json:"root"`
	Since  int64           `json:"since"` // position of the last event from before there was a log
	Signed *Checkpoint     `json:"signed,omitempty"`
	Keys   []history.Known `json:"keys"` // that people vouch for, or did
}

// A Checkpoint is one that was read from a file, with what its signatures are worth.
type Checkpoint struct {
	Size     int64            `json:"size"`
	Standing history.Standing `json:"standing"`
	By       string           `json:"by,omitempty"`   // fingerprint of the person's key
	Host     string           `json:"host,omitempty"` // whose log key signed it, as they say
	At       int64            `json:"at"`             // when the file was written
	Root     dag.Hash         `json:"-"`
}

// KeptOf returns where a machine keeps the newest checkpoint of a record.
func KeptOf(s store.Store, home string) history.Kept {
	return history.Kept{File: filepath.Join(home, thread.ViewsOf(s.ID()), "checkpoint")}
}

// History reads the head of the log, and what is kept of it.
func (b *Reader) History(ctx context.Context, kept history.Kept) (History, error) {
	log, err := b.Store.Log(ctx)
	if err != nil {
		return History{}, err
	}
	head := history.Head(log)
	keys, err := b.LogKeys(ctx)
	if err != nil {
		return History{}, err
	}
	h := History{Log: head.Origin, Size: head.Size, Root: head.Root, Since: log.Since, Keys: keys.Known()}
	switch c, err := b.Checkpoint(ctx, kept.File); {
	case err == nil:
		h.Signed = &c
	case !errors.Is(err, fs.ErrNotExist):
		return h, err
	}
	return h, nil
}

// Checkpoint reads a checkpoint of the record's log from a file. The error matches fs.ErrNotExist or
// history.ErrMalformed.
func (b *Reader) Checkpoint(ctx context.Context, file string) (Checkpoint, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	c, err := b.ReadCheckpoint(ctx, data)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %s: %w", text.Safe(file), err)
	}
	c.At = info.ModTime().UnixMilli()
	return c, nil
}

// ReadCheckpoint reads a checkpoint of the record's log. The error matches history.ErrMalformed.
func (b *Reader) ReadCheckpoint(ctx context.Context, signed []byte) (Checkpoint, error) {
	keys, err := b.LogKeys(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	head, is, err := keys.Read(signed)
	if err != nil {
		return Checkpoint{}, err
	}
	c := Checkpoint{Size: head.Size, Standing: is.Standing, Host: is.Host, Root: head.Root}
	if is.By != nil {
		c.By = sshsig.Fingerprint(is.By)
	}
	return c, nil
}

// LogKeys returns the log keys that people vouch for.
func (b *Reader) LogKeys(ctx context.Context) (history.Keys, error) {
	log, err := b.Store.Log(ctx)
	if err != nil {
		return history.Keys{}, err
	}
	events, err := b.Store.Events(ctx, 0, history.KeyEvents())
	return history.ReadKeys(history.Origin(log.Origin), events, b.Vouches), err
}

// Says returns a sentence: "1,204 events, the first 1,200 signed by this machine just now; SHA256:… vouches for
// its key".
func (h History) Says(now time.Time) string {
	says := text.Count(int(h.Size), "event")
	switch c := h.Signed; {
	case c == nil:
		says += ", none of them signed"
	case c.Size < h.Size:
		says += fmt.Sprintf(", the first %s %s", text.Number(c.Size), c.says(now))
	default:
		says += ", all " + c.says(now)
	}
	if h.Since > 0 {
		says += fmt.Sprintf("; the first %s are from before there was a log, and unproven", text.Number(h.Since))
	}
	return says
}

// Signatures says what they are worth: "vouched for by SHA256:…, as the key of build-2".
func (c Checkpoint) Signatures() string {
	says := c.Standing.Says(c.By)
	if c.Host != "" {
		says += ", as the key of " + text.Safe(c.Host)
	}
	return says
}

func (c *Checkpoint) says(now time.Time) string {
	signed := "signed by this machine " + text.Ago(c.At, now)
	switch c.Standing {
	case history.Vouched:
		return signed + "; " + c.By + " vouches for its key"
	case history.Revoked:
		return signed + " with a key that was revoked"
	case history.Unvouched:
		return signed + "; nobody vouches for its key"
	}
	return "kept by this machine " + text.Ago(c.At, now) + ", unsigned"
}

package cli

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/app/attest"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// An attested is what attest prints about a bundle that it wrote.
type attested struct {
	File     string           `json:"file"`
	Size     int64            `json:"size"` // bytes
	Task     string           `json:"task"`
	Key      string           `json:"key"` // fingerprint
	Subjects []attest.Subject `json:"subjects"`
	Entries  int              `json:"entries"`
	Steps    int              `json:"steps"`
}

func (a *app) attestCmd() *cobra.Command {
	var file, key string
	var proof bool
	var with []string
	cmd := &cobra.Command{
		Use:   "attest [TASK|COMMIT|RANGE|PATCH]",
		Short: "Prove a change: who made it, how it was tested, and who approved it",
		Long: `Say how a change was made, as an in-toto statement: which task made it, its steps with their agents,
models, prompts (by their hash) and sandboxes, the commands that ran and on which files, who approved
what, and what is not known. Name a task that does not run, or the commit, range (A..B) or patch file that
it made: it is found by its files or, after a rebase or squash, by its patch.

With -o, the statement is signed with your SSH key and packed into a bundle, with a signed checkpoint of
the log, the task's entries in that log, and the record of the task with every prompt, transcript and
kept file. --proof leaves the record out, and --with adds the texts of prompts or transcripts to that. Whoever
has the bundle checks it with plait verify FILE --policy POLICY, and plait import takes one with a record. What
a bundle reveals is said before it is written.

The SSH key is the one of --key, or else git's user.signingkey if gpg.format is ssh, or else the only
key of the agent.`,
		Example: `  plait attest HEAD
  plait attest last -o change.plait
  plait attest main..feature --proof -o change.plait
  plait attest HEAD --proof --with prompts -o change.plait`,
		Args:              atMost(1, "one task, commit, range or patch"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if file == "" && (proof || key != "") {
				return misused(cmd, "--proof and --key take -o")
			}
			if len(with) > 0 && !proof {
				return misused(cmd, "--with takes --proof: the record has all prompts and transcripts")
			}
			for _, what := range with {
				if err := oneOf("with", what, attest.ShowPrompts, attest.ShowTranscripts); err != nil {
					return err
				}
			}
			if _, err := os.Lstat(file); file != "" && err == nil {
				return usagef("%s already exists; choose another file with -o", text.Safe(file))
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			m, err := w.maker(ctx, newest(args))
			if err != nil {
				return err
			}
			if file != "" {
				res, err := a.writeBundle(ctx, w, m, bundleFlags{file, key, proof, with})
				return show(a, cmd, res, err, func(out page, res attested) {
					out.line("%s  %s, %d entries, %s, signed by %s", text.Safe(file), text.Count(res.Steps, "step"), res.Entries,
						text.Count(int(res.Size), "byte"), res.Key)
				})
			}
			log, err := w.store.Log(ctx)
			if err != nil {
				return err
			}
			s, _, err := m.Statement(ctx, history.Head(log), false)
			if err != nil {
				return err
			}
			data, err := s.Marshal()
			return show(a, cmd, s, err, func(out page, _ *attest.Statement) { out.line("%s", data) })
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write a signed bundle to this `file`")
	cmd.Flags().StringVar(&key, "key", "", "your SSH key: its `file`, or the public one if an agent has it")
	cmd.Flags().BoolVar(&proof, "proof", false, "leave out the record of the task")
	cmd.Flags().StringSliceVar(&with, "with", nil, "with --proof: `what` to add, prompts or transcripts")
	completeFlag(cmd, "with", attest.ShowPrompts, attest.ShowTranscripts)
	cmd.MarkFlagFilename("output", "plait")
	return cmd
}

// maker finds the task that was typed, or that made the change that was typed.
func (w *workplace) maker(ctx context.Context, typed string) (m attest.Maker, err error) {
	m.Journal = w.store
	repo, repoErr := git.Open(ctx, w.workspace)
	if repoErr != nil && !errors.Is(repoErr, git.ErrNone) {
		return m, repoErr
	}
	row, err := w.task(ctx, typed)
	var change attest.Revision
	if err != nil && repo != nil && (errors.Is(err, store.ErrNotFound) || errors.Is(err, control.ErrUsage)) {
		var changeErr error
		if change, changeErr = w.change(ctx, repo, typed); errors.Is(changeErr, git.ErrNoCommit) {
			return m, err
		}
		if err = changeErr; err == nil {
			row, err = attest.Find(ctx, w.store, repo, w.workspace, change)
		}
	}
	if err == nil && row.Status == store.Running {
		err = usagef("%s is running: wait until it has ended, or waits for you", w.view().Names().Of(ctx, row))
	}
	if err != nil {
		return m, err
	}
	if m.Record, err = attest.Read(ctx, w.store, row.ID); err != nil {
		return m, err
	}
	made, err := m.Record.Made(ctx, repo)
	if err != nil {
		return m, err
	}
	m.Subject = made.Subjects()
	if change.Patch != "" {
		m.Subject, m.ByHand = change.Subjects(), attest.ByHand(change, made)
	}
	if len(m.Subject) == 0 {
		return m, usagef("there is no change to name: %s recorded no files; its agents did not write, or not in a Git repository",
			w.view().Names().Of(ctx, row))
	}
	return m, nil
}

// change returns the change that was typed: a commit, a range, or the file of a patch.
func (w *workplace) change(ctx context.Context, repo *git.Repo, typed string) (attest.Revision, error) {
	if info, err := os.Stat(typed); err == nil && info.Mode().IsRegular() && info.Size() <= git.MaxPatch {
		patch, err := os.ReadFile(typed)
		if err != nil {
			return attest.Revision{}, fmt.Errorf("read patch: %w", err)
		}
		id, err := repo.PatchIDOf(ctx, patch)
		if err == nil && id == "" {
			err = usagef("%s is no patch", text.Safe(typed))
		}
		return attest.Revision{Patch: id}, err
	}
	return attest.Resolve(ctx, repo, typed)
}

// bundleFlags are those of attest that are about a bundle.
type bundleFlags struct {
	file, key string
	proof     bool
	with      []string
}

// writeBundle signs a statement and writes its bundle.
func (a *app) writeBundle(ctx context.Context, w *workplace, m attest.Maker, f bundleFlags) (res attested, err error) {
	place, err := a.keyPlace(ctx, f.key)
	if err != nil {
		return res, err
	}
	person, err := place.Open(ctx)
	if err != nil {
		return res, badUsage{err}
	}
	defer person.Close()
	checkpoint, err := a.signAs(ctx, w, f.key)
	if err != nil {
		return res, err
	}
	head, _, _, err := history.Open(checkpoint, note.VerifierList())
	if err != nil {
		return res, err
	}
	s, entries, err := m.Statement(ctx, head, !f.proof)
	if err != nil {
		return res, err
	}
	task := s.Predicate.Task.ID
	var export *zip.Reader
	var shown []store.Object
	reveals := "no prompt, no transcript and no file, but their hashes"
	if len(f.with) > 0 {
		if shown, err = attest.Shown(ctx, w.store, s.Predicate, f.with); err != nil {
			return res, err
		}
		reveals = fmt.Sprintf("all its %s (%s), and no file", strings.Join(f.with, " and "), text.Size(sizeOf(shown)))
	}
	if !f.proof {
		packed, manifest, err := a.export(ctx, w, task)
		if err != nil {
			return res, err
		}
		defer packed.Close()
		export = &packed.Reader
		reveals = fmt.Sprintf("the record: every prompt, transcript and kept file (%s)",
			text.Count(manifest.Objects, "object"))
	}
	fmt.Fprintf(a.err, "%s reveals the roles, agents, models, commands and people of %s, and %s\n", text.Safe(f.file),
		text.Count(len(s.Predicate.Steps), "step"), reveals)
	bundle, err := attest.NewBundle(s, checkpoint, entries, export)
	if err != nil {
		return res, err
	}
	bundle.Shown = shown
	data, err := s.Marshal()
	if err != nil {
		return res, err
	}
	if bundle.Envelope, err = attest.Sign(data, person.Signer); err != nil {
		return res, err
	}
	res = attested{File: f.file, Task: task, Key: sshsig.Fingerprint(person.Signer.PublicKey()), Subjects: s.Subject,
		Entries: len(entries.Entries), Steps: len(s.Predicate.Steps)}
	if res.Size, err = writeNew(f.file, func(out io.Writer) error { return attest.Pack(out, bundle) }); err != nil {
		return res, err
	}
	said := event.New(store.Thread{ID: task}, w.store.Now().UnixMilli(),
		event.ThreadAttested{By: gate.Person(), Key: res.Key, Statement: dag.Sum(data)})
	if err := w.store.Commit(ctx, store.Batch{Events: []store.Event{said}}); err != nil {
		return res, fmt.Errorf("record that a proof was made: %w", err)
	}
	return res, nil
}

// sizeOf returns how many bytes objects have.
func sizeOf(objects []store.Object) (n int64) {
	for _, o := range objects {
		n += int64(len(o.Data))
	}
	return n
}

// proofs returns how many proofs of a task were made.
func (w *workplace) proofs(ctx context.Context, task string) (int, error) {
	events, err := w.store.Events(ctx, 0, store.EventFilter{Thread: task, Types: event.Types(event.ThreadAttested{})})
	return len(events), err
}

// export packs the record of a task into a temporary file, which is gone once it is closed.
func (a *app) export(ctx context.Context, w *workplace, task string) (*zip.ReadCloser, taskdir.Manifest, error) {
	f, err := os.CreateTemp("", "plait-export-*")
	if err != nil {
		return nil, taskdir.Manifest{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	m, err := taskdir.Export(ctx, w.store, f, task)
	if err != nil {
		return nil, m, err
	}
	if n := len(m.Missing); n > 0 {
		return nil, m, fmt.Errorf("%d objects are missing from the record: %w", n, store.ErrCorrupt)
	}
	z, err := zip.OpenReader(f.Name())
	return z, m, err
}

// verifyBundle checks a bundle against a policy, without a record.
func (a *app) verifyBundle(cmd *cobra.Command, file, policy, dir string) error {
	ctx := cmd.Context()
	lines, err := os.ReadFile(policy)
	if err != nil {
		return usagef("read policy: %w", err)
	}
	check := attest.Check{Now: time.Now()}
	if check.Policy, err = attest.ParsePolicy(lines); err != nil {
		return badUsage{fmt.Errorf("%s: %w", text.Safe(policy), err)}
	}
	if dir != "" {
		repo, err := git.Open(ctx, dir)
		if err != nil {
			return badUsage{err}
		}
		have, err := attest.Resolve(ctx, repo, "HEAD")
		if err != nil {
			return badUsage{err}
		}
		check.Have = &have
	}
	f, err := os.Open(file)
	if err != nil {
		return usagef("read bundle: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	check.Bundle, check.Size = f, info.Size()
	report, err := attest.Verify(ctx, check)
	if err != nil {
		return err
	}
	if len(report.Reasons) > 0 {
		a.code = exitVerify
	}
	return a.print(cmd, report, func(out page) { writeProven(out, report) })
}

func writeProven(out page, r attest.Report) {
	for _, why := range r.Reasons {
		out.line("not proven: %s", text.Safe(why))
	}
	if r.Task != "" {
		out.line("task %s, signed by %s", text.Safe(r.Task), text.Safe(r.Key+" "+r.Signer))
	}
	for _, s := range r.Subjects {
		for kind, digest := range s.Digest {
			out.line("%s %s", kind, digest)
		}
	}
	for _, u := range r.NotKnown {
		what := text.Safe(string(u.What))
		if len(u.Steps) > 0 {
			what += ", " + text.Count(len(u.Steps), "step")
		}
		out.line("not known: %s", what)
	}
	if r.Redacted > 0 {
		out.line("redacted: %s", text.Count(r.Redacted, "object"))
	}
	if r.Shown > 0 {
		out.line("shown: %s of prompts and transcripts", text.Count(r.Shown, "text"))
	}
	all, more := "all ", ""
	if !r.Ended {
		all, more = "", "; it had not ended, so there may be more"
	}
	switch {
	case len(r.Reasons) > 0:
	case r.Record && r.Missing == 0:
		out.line("proven: the record and %s%d entries of the task are there%s", all, r.Entries, more)
	default:
		out.line("proven: only what it lists; %d entries of the task are not there%s", r.Missing, more)
	}
}

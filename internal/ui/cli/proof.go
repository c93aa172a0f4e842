package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/sshsig"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) proofCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "proof",
		Short: "Sign the log of the record, and check it against what was signed"})
	cmd.AddCommand(a.proofShowCmd(), a.proofSignCmd(), a.proofCheckCmd(), a.proofRevokeCmd(),
		a.proofExportCmd(), a.proofAcceptCmd())
	return cmd
}

// keptOf returns where this machine keeps the newest checkpoint of a record.
func (a *app) keptOf(s store.Store, home string) history.Kept {
	kept := view.KeptOf(s, home)
	kept.Accepts = a.accepting
	return kept
}

// seen returns a checkpoint as what somebody has seen of the log.
func seen(by string, c view.Checkpoint) verify.Seen {
	return verify.Seen{By: by, Size: c.Size, Root: c.Root, Standing: c.Standing}
}

// notary returns a record whose log this machine signs by itself.
func (a *app) notary(s store.Store, home string) *history.Notary {
	return history.NewNotary(s, history.NotaryConfig{Kept: a.keptOf(s, home), Sign: signHead, Show: a.showAtEnd,
		Failed: func(err error) {
			if a.log != nil {
				a.log.Warn("sign log", "failed", true)
			}
			if a.worker != "" { // it may be long before it ends
				fmt.Fprintf(a.err, "worker %s: the log is not signed: %s\n", a.worker, text.OneLine(err.Error(), 400))
			}
		}})
}

// signHead signs a head with the log key of this machine.
func signHead(head history.Checkpoint) ([]byte, error) {
	key, err := history.OpenLogKey(config.LogKeyFile())
	if err != nil {
		return nil, err
	}
	return key.Sign(head)
}

func (a *app) proofShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the head of the log, and what of it is signed",
		Long: `Show the head of the log: how many events it has, and the root of the tree over them. Two records
with the same root have the same history. The newest checkpoints that this machine and the witnesses keep are
shown too.`,
		Example: "  plait proof show",
		Args:    exactly(0, "no arguments"),
		RunE: read(a, func(ctx context.Context, w *workplace, _ []string) (s proofState, err error) {
			if s.History, s.Witnesses, err = a.sightings(ctx, w, nil); err == nil && exists(config.LogKeyFile()) {
				s.Key, err = ownKey(s.Log)
			}
			return s, err
		}, func(out page, s proofState) {
			out.field("log", s.Log)
			out.field("size", text.Count(int(s.Size), "event"))
			out.field("root", s.Root.String())
			if s.Since > 0 {
				out.field("unproven",
					fmt.Sprintf("the first %d events, which are from before there was a log", s.Since))
			}
			for _, k := range s.Keys {
				says := k.Key
				if k.Host != "" {
					says += " of " + text.Safe(k.Host)
				}
				says += ", vouched for by " + k.By
				if k.Revoked > 0 {
					says += fmt.Sprintf(", revoked by event %d", k.Revoked)
				}
				out.field("key", says)
			}
			if known := func(k history.Known) bool { return k.Key == s.Key }; s.Key != "" && !slices.ContainsFunc(s.Keys, known) {
				out.field("key", s.Key+" of this machine, nobody vouches for it")
			}
			if s.Signed == nil {
				out.field("signed", a.says("nothing: sign it with plait proof sign"))
			} else {
				out.field("signed", signedUpTo(*s.Signed))
			}
			for _, w := range s.Witnesses {
				out.field("witness", text.Safe(w.Witness)+": "+signedUpTo(w.Checkpoint))
			}
		}),
	}
}

// ownKey returns the log key of this machine for a log. It is made if there is none.
func ownKey(origin string) (string, error) {
	key, err := history.OpenLogKey(config.LogKeyFile())
	if err != nil {
		return "", err
	}
	return key.Public(origin)
}

// A proofState is what proof show prints.
type proofState struct {
	view.History
	Key       string      `json:"key,omitempty"` // log key of this machine, if it has one
	Witnesses []testimony `json:"witnesses"`     // what they have seen
}

// signedUpTo says what a checkpoint covers.
func signedUpTo(c view.Checkpoint) string {
	return fmt.Sprintf("the first %d events, %s", c.Size, c.Signatures())
}

func (a *app) proofSignCmd() *cobra.Command {
	var key, file, host string
	cmd := &cobra.Command{
		Use:   "sign [KEY]",
		Short: "Sign the head of the log with your SSH key and the key of this machine",
		Long: `Make a checkpoint: the head of the log, signed by the log key of this machine and by your SSH key. The
first time, your key also signs that the log key may sign checkpoints, which the log keeps: so those
that this machine makes by itself, as it does at the end of each task, count from then on. Keep this
one elsewhere too, such as in a repository: whoever can write to this machine's files can replace all.

With KEY, your key also vouches for the log key of another machine, such as a worker on which nobody has
an SSH key. KEY is what plait proof show prints there, whole: do not take it from someone who could have
made it up. --host says whose it is.

The SSH key is the one of --key, or else git's user.signingkey if gpg.format is ssh, or else the only
key of the agent.`,
		Example: `  plait proof sign
  plait proof sign -o checkpoint
  plait proof sign plait.run/log/01JX3…+78589332+AaMt… --host build-2`,
		Args: atMost(1, "the log key of another machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if host != "" && len(args) == 0 {
				return misused(cmd, "--host takes KEY")
			}
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			signed, err := a.signAs(ctx, w, key, others(args, host)...)
			if errors.Is(err, history.ErrShorter) || errors.Is(err, history.ErrRewritten) {
				return fmt.Errorf("nothing was signed: %w: %w", err, store.ErrCorrupt)
			}
			if err != nil {
				return err
			}
			if err := a.show(ctx, w.store, w.workspace); err != nil {
				fmt.Fprintln(a.err, "warning: not every witness has seen the log: "+text.Safe(err.Error()))
			}
			if file != "" {
				if err := atomicfile.Write(file, signed, 0o644); err != nil {
					return fmt.Errorf("keep checkpoint: %w", err)
				}
			}
			return a.print(cmd, map[string]string{"checkpoint": string(signed)}, func(out page) {
				out.line("%s", string(signed))
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "your SSH key: its `file`, or the public one if an agent has it")
	cmd.Flags().StringVar(&host, "host", "", "the `name` of the machine whose log key KEY is")
	cmd.Flags().StringVarP(&file, "output", "o", "", "also keep the checkpoint in this `file`")
	return cmd
}

// others returns what is to be signed about the log key of another machine, if one is named.
func others(args []string, host string) []history.Admission {
	if len(args) == 0 {
		return nil
	}
	return []history.Admission{{Host: host, Key: args[0]}}
}

// signAs makes the checkpoint that this machine keeps one of the head of the log, signed by the log key, for which the
// person vouches, and by the person, and returns it. They also vouch for the log keys of other machines.
func (a *app) signAs(ctx context.Context, w *workplace, named string, others ...history.Admission) (signed []byte,
	err error) {
	place, err := a.keyPlace(ctx, named)
	if err != nil {
		return nil, err
	}
	person, err := place.Open(ctx)
	if err != nil {
		return nil, badUsage{err}
	}
	defer person.Close()
	key, err := history.OpenLogKey(config.LogKeyFile())
	if err != nil {
		return nil, err
	}
	// The log must continue what was kept before anything is filed.
	kept := a.keptOf(w.store, w.home)
	head, err := kept.Extend(ctx, w.store, key.Sign)
	if err != nil {
		return nil, err
	}
	own := history.Admission{}
	own.Host, _ = os.Hostname() // a name for people
	if own.Key, err = key.Public(head.Origin); err != nil {
		return nil, err
	}
	if err := vouching(person.Signer.PublicKey(), w.store.Now()); err != nil {
		return nil, badUsage{fmt.Errorf("nothing was signed, since your word would not count: %w", err)}
	}
	if err := a.vouch(ctx, w, head.Origin, append(others, own), person.Signer); err != nil {
		return nil, err
	}
	_, err = kept.Extend(ctx, w.store, func(head history.Checkpoint) ([]byte, error) {
		signed, err = head.Sign(key.Signer(head.Origin), history.Person(person.Signer))
		return signed, err
	})
	return signed, err
}

// vouch files that a person vouches for log keys, unless somebody does already.
func (a *app) vouch(ctx context.Context, w *workplace, origin string, all []history.Admission, person ssh.Signer) error {
	keys, err := w.view().LogKeys(ctx)
	if err != nil {
		return err
	}
	var b store.Batch
	var said string
	for _, x := range all {
		x.At, x.Origin = w.store.Now().UnixMilli(), origin
		if _, err := x.Verifier(); err != nil {
			return badUsage{err}
		}
		if keys.Has(x.Key) {
			continue
		}
		if slices.ContainsFunc(keys.Known(), func(k history.Known) bool { return k.Key == x.Key }) {
			return view.Advise(usagef("the log key %s was revoked", x.Key),
				"run `plait proof revoke --reason …` on its machine, which then has a new one")
		}
		admits, err := x.Sign(person, gate.Person())
		if err != nil {
			return err
		}
		b.Events = append(b.Events, admits)
		said += fmt.Sprintf("%s vouches for the log key %s\n", sshsig.Fingerprint(person.PublicKey()), x.Key)
	}
	if len(b.Events) == 0 {
		return nil
	}
	if err := w.store.Commit(ctx, b); err != nil {
		return fmt.Errorf("vouch for log key: %w", err)
	}
	fmt.Fprint(a.err, said)
	return nil
}

// namedCheckpoint reads a checkpoint that a person names.
func (w *workplace) namedCheckpoint(ctx context.Context, file string) (view.Checkpoint, error) {
	c, err := w.view().Checkpoint(ctx, file)
	if errors.Is(err, history.ErrMalformed) || errors.Is(err, fs.ErrNotExist) {
		err = badUsage{err}
	}
	return c, err
}

func (a *app) proofCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check that the log begins with what a checkpoint says",
		Long: `Hash every event again, and check that the log begins with what the checkpoint in FILE says, and what
its signatures are worth. The exit code is 6 if the log does not begin so, or is not as it was written.`,
		Example: "  plait proof check checkpoint",
		Args:    exactly(1, "the file of a checkpoint"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			c, err := w.namedCheckpoint(ctx, args[0])
			if err != nil {
				return err
			}
			report, err := verify.Entries(ctx, verify.Config{Store: w.store, Seen: []verify.Seen{seen(text.Safe(args[0]), c)},
				Accepts: a.accepting})
			if err != nil {
				return err
			}
			if !report.OK() {
				a.code = exitVerify
			}
			data := struct {
				verify.Report
				Checkpoint view.Checkpoint `json:"checkpoint"`
			}{report, c}
			return a.print(cmd, data, func(out page) {
				for _, p := range report.Problems {
					out.line("%s", text.Safe(p.What))
				}
				verdict := report.History
				if verdict != verify.OK {
					verdict = report.Log.Verdict
				}
				out.line("history %s, %s; the checkpoint is of the first %d, %s", verdict,
					text.Count(int(report.Log.Size), "event"), c.Size, c.Signatures())
			})
		},
	}
}

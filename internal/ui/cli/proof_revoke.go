package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) proofRevokeCmd() *cobra.Command {
	var named, reason string
	cmd := &cobra.Command{
		Use:   "revoke [KEY]",
		Short: "Revoke a log key; that of this machine is replaced",
		Long: `Sign with your SSH key that a log key no longer counts, and why. Checkpoints that it signed of the log
as it was before still do. KEY is written as plait proof show lists it, whole or only its eight digits.

Without KEY, the log key of this machine is revoked, and replaced by a new one, for which your key
vouches. Records that are not open here keep the old key until it is revoked there too.`,
		Example: `  plait proof revoke --reason 'a new key each year'
  plait proof revoke 78589332 --reason 'the laptop was stolen'`,
		Args: atMost(1, "a log key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason: say why, for those who verify the record later")
			}
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			place, err := a.keyPlace(ctx, named)
			if err != nil {
				return err
			}
			person, err := place.Open(ctx)
			if err != nil {
				return badUsage{err}
			}
			key, err := a.revoke(ctx, w, cmp.Or(append(args, "")...), reason, person.Signer)
			if err = errors.Join(err, person.Close()); err != nil {
				return err
			}
			if len(args) == 0 {
				if err := os.Remove(config.LogKeyFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("replace log key: %w", err)
				}
				if _, err := a.signAs(ctx, w, named); err != nil {
					return err
				}
			}
			return a.print(cmd, map[string]string{"revoked": key}, func(out page) {
				out.line("revoked %s", text.Safe(key))
			})
		},
	}
	cmd.Flags().StringVar(&named, "key", "", "your SSH key: its `file`, or the public one if an agent has it")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`")
	return cmd
}

// revoke files that a log key no longer counts, that of this machine if none is named, and returns the key. What is
// revoked already stays so.
func (a *app) revoke(ctx context.Context, w *workplace, named, reason string, person ssh.Signer) (string, error) {
	known, err := w.view().History(ctx, a.keptOf(w.store, w.home))
	if err != nil {
		return "", err
	}
	if named == "" {
		if named, err = ownKey(known.Log); err != nil {
			return "", err
		}
	}
	at := slices.IndexFunc(known.Keys, func(k history.Known) bool {
		return k.Key == named || strings.Contains(k.Key, "+"+named+"+")
	})
	if at < 0 {
		return "", usagef("nobody vouches for the log key %s: see proof show", text.Safe(named))
	}
	key := known.Keys[at]
	by := sshsig.Fingerprint(person.PublicKey())
	switch {
	case key.Revoked > 0:
		return key.Key, nil
	case !slices.ContainsFunc(known.Keys, func(k history.Known) bool { return k.By == by }):
		return "", usagef("%s vouches for no key of this log, and can revoke none", by)
	}
	revokes, err := history.Revocation{At: w.store.Now().UnixMilli(), Key: key.Key, Origin: known.Log,
		Reason: reason}.Sign(person, gate.Person())
	if err != nil {
		return "", err
	}
	if err := w.store.Commit(ctx, store.Batch{Events: []store.Event{revokes}}); err != nil {
		return "", fmt.Errorf("revoke log key: %w", err)
	}
	return key.Key, nil
}

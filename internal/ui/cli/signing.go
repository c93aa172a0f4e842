package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// signing returns what answers to approvals must have, nil if the user does not demand signatures.
func (a *app) signing(w *workplace) *gate.Signing {
	if w.settings.Sign.V == "" {
		return nil
	}
	return &gate.Signing{Counts: func(ctx context.Context, key ssh.PublicKey, at time.Time) error {
		signers, err := a.signers(ctx)
		if err == nil {
			_, err = signers.Find(key, history.NamespaceApproval, at)
		}
		return err
	}}
}

// book returns the gates of a workplace, for answers by the person at this terminal. They are signed if they must
// be, or if a key is named; what is signed is first printed on out, unless that is nil.
func (a *app) book(w *workplace, key string, out io.Writer) *gate.Service {
	s := a.signing(w)
	if s == nil && key != "" {
		s = &gate.Signing{Counts: func(context.Context, ssh.PublicKey, time.Time) error { return nil }}
	}
	if s != nil {
		s.Sign = func(ctx context.Context, answer history.Approval) (history.Signed, error) {
			place, err := a.keyPlace(ctx, key)
			if err != nil {
				return "", err
			}
			k, err := place.Open(ctx)
			if err != nil {
				return "", err
			}
			defer k.Close()
			message, err := answer.Message()
			if err != nil {
				return "", err
			}
			if out != nil {
				fmt.Fprintf(out, "signing as %s in %s:\n%s\n", sshsig.Fingerprint(k.Signer.PublicKey()),
					history.NamespaceApproval, message)
			}
			return answer.Sign(k.Signer)
		}
	}
	return gate.New(gate.Config{Store: w.store, Signing: s})
}

// keyPlace returns where the person's SSH key is: the one that is named, or git's user.signingkey, or else the only key
// of the SSH agent.
func (a *app) keyPlace(ctx context.Context, named string) (sshsig.Place, error) {
	p := sshsig.Place{Key: named, Socket: a.getenv("SSH_AUTH_SOCK")}
	if named == "" {
		set, err := gitSettings(ctx)
		if err != nil {
			return p, err
		}
		if set["gpg.format"] == "ssh" {
			p.Key = inHome(set["user.signingkey"])
		}
	}
	return p, nil
}

// signers returns the people whose signatures count: those in git's gpg.ssh.allowedSignersFile, or, without one, the
// person whose key is at hand here.
func (a *app) signers(ctx context.Context) (sshsig.Signers, error) {
	list, named, err := allowed(ctx)
	if named || err != nil {
		return list, err
	}
	place, err := a.keyPlace(ctx, "")
	if err != nil {
		return nil, err
	}
	key, err := place.Public(ctx)
	if err != nil {
		return nil, fmt.Errorf("nobody's signatures count: git's gpg.ssh.allowedSignersFile is not set, and %w", err)
	}
	return sshsig.Signers{{Principals: gate.Person(), Key: key}}, nil
}

// allowed returns the people in git's gpg.ssh.allowedSignersFile, and whether that names a file.
func allowed(ctx context.Context) (list sshsig.Signers, named bool, err error) {
	set, err := gitSettings(ctx)
	file := inHome(set["gpg.ssh.allowedsignersfile"])
	if file == "" || err != nil {
		return nil, false, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, true, fmt.Errorf("read whose signatures count: %w", err)
	}
	if list, err = sshsig.ParseSigners(text); err != nil {
		err = fmt.Errorf("read whose signatures count: %s, %w", file, err)
	}
	return list, true, err
}

// vouching returns why a person's word for log keys and checkpoints does not count, nil if it does. Without git's
// gpg.ssh.allowedSignersFile anybody's does.
func vouching(key ssh.PublicKey, at time.Time) error {
	list, named, err := allowed(context.Background())
	if named && err == nil {
		_, err = list.Find(key, history.NamespaceLog, at)
	}
	return err
}

// accepting returns why a person's word for a history that is not as it was seen does not count, nil if it does.
func (a *app) accepting(key ssh.PublicKey, at time.Time) error {
	signers, err := a.signers(context.Background())
	if err == nil {
		_, err = signers.Find(key, history.NamespaceLog, at)
	}
	return err
}

// gitSettings returns the user's own git settings, none if there is no git.
func gitSettings(ctx context.Context) (map[string]string, error) {
	set, err := git.UserSettings(ctx)
	if errors.Is(err, git.ErrNoGit) {
		err = nil
	}
	return set, err
}

// inHome expands a leading ~/ of a path in git's settings.
func inHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	home, err := os.UserHomeDir()
	if !ok || err != nil {
		return path
	}
	return filepath.Join(home, rest)
}

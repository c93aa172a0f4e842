package attest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// A Report is what Verify found.
type Report struct {
	Reasons  []string  `json:"reasons"` // why the bundle does not prove what the policy asks for; empty if it does
	Task     string    `json:"task"`
	Subjects []Subject `json:"subjects"`
	Signer   string    `json:"signer"`   // as the policy names them
	Key      string    `json:"key"`      // fingerprint of their key
	Ended    bool      `json:"ended"`    // the task has; else nobody can tell whether it has more entries
	Entries  int       `json:"entries"`  // of the log that are there
	Missing  int64     `json:"missing"`  // entries of the task that are not there
	Record   bool      `json:"record"`   // the record of the task is there, and says the same
	Redacted int       `json:"redacted"` // objects of it that were redacted: what they said cannot be checked
	Shown    int       `json:"shown"`    // without it, texts of prompts and transcripts that are there
	NotKnown []Unknown `json:"notKnown"` // see Change
}

// A Check is a bundle with what it is checked against.
type Check struct {
	Bundle io.ReaderAt
	Size   int64 // of Bundle
	Policy *Policy
	Now    time.Time
	// Have is the change that the bundle has to be of, nil for any.
	Have *Revision
}

// Verify checks a bundle. It needs no record and no network. What is wrong with the bundle is in the report; an error
// is about the machine.
func Verify(ctx context.Context, c Check) (Report, error) {
	v := verifier{Check: c, report: Report{Reasons: []string{}, Subjects: []Subject{}, NotKnown: []Unknown{}}}
	err := v.verify(ctx)
	if errors.Is(err, ErrRefused) {
		v.because("%s", strings.TrimSuffix(err.Error(), ": "+ErrRefused.Error()))
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("verify bundle: %w", err)
	}
	return v.report, err
}

type verifier struct {
	Check
	report Report
	files  *opened
	change Change
	signer ssh.PublicKey
	nested bool // it checks a proof in another bundle
}

func (v *verifier) because(format string, args ...any) {
	v.report.Reasons = append(v.report.Reasons, fmt.Sprintf(format, args...))
}

// unknown adds to what is not known.
func (v *verifier) unknown(u Unknown) {
	if !slices.ContainsFunc(v.report.NotKnown, func(x Unknown) bool {
		return x.What == u.What && (len(x.Steps) == 0) == (len(u.Steps) == 0)
	}) {
		v.report.NotKnown = append(v.report.NotKnown, u)
	}
}

func (v *verifier) verify(ctx context.Context) (err error) {
	if v.files, err = open(ctx, v.Bundle, v.Size); err != nil {
		return err
	}
	data, err := v.files.read(fileEnvelope, maxEnvelope)
	if err != nil {
		return err
	}
	s, key, err := OpenEnvelope(data)
	if err != nil {
		return err
	}
	v.change, v.signer = s.Predicate, key
	v.report.Task, v.report.Subjects = v.change.Task.ID, s.Subject
	v.report.NotKnown = slices.Clone(v.change.NotKnown)
	for _, u := range v.change.gaps() { // whether the statement says so or not
		v.unknown(u)
	}
	v.report.Key = sshsig.Fingerprint(key)
	if v.report.Signer, err = v.Policy.signers.Find(key, Namespace, v.Now); err != nil {
		v.because("the statement: %v", err)
	}
	head, err := v.checkpoint()
	if err != nil {
		return err
	}
	if err := v.entries(head); err != nil {
		return err
	}
	if err := v.record(ctx); err != nil {
		return err
	}
	approvers, err := v.approvals(ctx, head)
	if err != nil {
		return err
	}
	v.subject(s)
	for _, r := range v.Policy.requires {
		if why := v.lacks(r, s, approvers); why != "" {
			v.because("line %d of the policy: %s", r.line, why)
		}
	}
	for _, gap := range v.Policy.denies {
		for _, u := range v.report.NotKnown {
			switch {
			case u.What != gap:
			case len(u.Steps) > 0:
				v.because("the policy denies %s: %d steps", gap, len(u.Steps))
			default:
				v.because("the policy denies %s", gap)
			}
		}
	}
	return nil
}

// named returns a file that the statement names, if it is the one.
func (v *verifier) named(name string, most int64) ([]byte, error) {
	data, err := v.files.read(name, most)
	if err == nil && dag.Sum(data) != v.change.Files[name] {
		err = refused("bundle: %s is not the one that the statement names", name)
	}
	return data, err
}

// headOf returns the head of the log that a statement names.
func headOf(l Log) history.Checkpoint {
	return history.Checkpoint{Origin: l.Origin, Size: l.Size, Root: l.Root}
}

// checkpoint checks the head of the log, and who signed it.
func (v *verifier) checkpoint() (history.Checkpoint, error) {
	data, err := v.named(fileCheckpoint, 64<<10)
	if err != nil {
		return history.Checkpoint{}, err
	}
	head, by, persons, err := history.Open(data, v.Policy.verifiers())
	if err != nil {
		return head, refused("checkpoint: %v", err)
	}
	if head != headOf(v.change.Log) {
		return head, refused("checkpoint: the statement is of another head of the log")
	}
	logged := slices.ContainsFunc(by, func(s note.Signature) bool {
		return slices.ContainsFunc(v.Policy.logs, func(l note.Verifier) bool {
			return s.Name == head.Origin && l.Name() == s.Name && l.KeyHash() == s.Hash
		})
	})
	allowed := slices.ContainsFunc(persons, func(key ssh.PublicKey) bool {
		_, err := v.Policy.signers.Find(key, history.NamespaceCheckpoint, v.Now)
		return err == nil
	})
	switch {
	case len(v.Policy.logs) > 0 && !logged:
		v.because("the checkpoint: no log of the policy signed it")
	case len(v.Policy.logs) == 0 && !allowed:
		v.because("the checkpoint: nobody who may sign it has")
	}
	if q := v.Policy.quorum; q != nil && !q.signed(by) {
		v.because("the checkpoint: fewer witnesses signed it than the quorum")
	}
	return head, nil
}

// entries checks the entries of the task.
func (v *verifier) entries(head history.Checkpoint) error {
	data, err := v.named(fileEntries, maxEntries)
	if err != nil {
		return err
	}
	e, err := ParseEntries(data)
	if err != nil {
		return err
	}
	v.report.Entries, v.report.Ended = len(e.Entries), v.change.ended()
	v.report.Missing, err = e.Check(head, v.change)
	return err
}

// approvals checks each signature of an approval, and returns the keys of those who approved. An approval that was
// signed for the log of another record, in which the task was before, counts if the bundle has the proof of that log.
func (v *verifier) approvals(ctx context.Context, head history.Checkpoint) (keys []ssh.PublicKey, err error) {
	for _, a := range v.change.Approvals {
		if a.Signed == "" {
			continue
		}
		s, key, err := history.Signed(a.Signed).Approval()
		if err != nil {
			return nil, refused("approval of gate %s: %v", a.Gate, err)
		}
		is := history.Approval{At: a.At, Digest: a.Digest, Gate: a.Gate, Grant: a.Grant, Origin: s.Origin, Root: s.Root,
			Size: s.Size, Task: v.change.Task.ID, Text: s.Text, Verdict: a.Verdict}
		if s != is || s.Origin == head.Origin && s.Size > head.Size {
			return nil, refused("approval of gate %s: what was signed is another answer", a.Gate)
		}
		proven, err := v.answered(ctx, s.Origin, a)
		switch {
		case err != nil:
			return nil, err
		case !proven:
			v.unknown(Unknown{What: GapOtherLog})
		case a.Verdict == store.GateApproved:
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// subject checks that the bundle is about the change that somebody has. Files alone do not say what changed: others may
// have done a part of it before. Nor does a patch id of earlier versions, with which the maker compared a commit.
func (v *verifier) subject(s *Statement) {
	is := func(kind, have string) bool { return have != "" && s.subject(kind) == have }
	have, loose := v.Have, s.subject(digestLoose) != ""
	byHand := loose && s.subject(DigestCommit) != ""
	switch {
	case have == nil, is(DigestCommit, have.Commit), is(DigestPatch, have.Patch):
	case is(DigestTree, have.Tree):
		byHand = true
	case loose:
		v.because("the repository: neither its commit nor its files are those of %s; the patch cannot be compared: "+
			"an earlier version named it without its white space", have.Commit)
	default:
		v.because("the repository: %s is another change: neither its commit, nor its files, nor its patch is the one",
			have.Commit)
	}
	if byHand {
		v.unknown(Unknown{What: GapByHand})
	}
}

// lacks says why a rule is not kept, "" if it is.
func (v *verifier) lacks(r rule, s *Statement, approvers []ssh.PublicKey) string {
	switch r.what {
	case ruleComplete:
		switch {
		case v.report.Missing > 0:
			return fmt.Sprintf("%d entries of the task are not there", v.report.Missing)
		case !v.change.ended():
			return "the task has not ended: nobody can tell whether it has more entries"
		}
	case ruleRecord:
		if !v.report.Record {
			return "the record of the task is not there"
		}
	case ruleEvidence:
		tree := s.subject(DigestTree)
		if v.Have != nil {
			tree = v.Have.Tree
		}
		return v.lacksEvidence(r, tree)
	case ruleApproval:
		for _, key := range approvers {
			if r.other && sshsig.Fingerprint(key) == v.report.Key {
				continue
			}
			who, err := v.Policy.signers.Find(key, history.NamespaceApproval, v.Now)
			for name := range strings.SplitSeq(who, ",") {
				if err == nil && slices.Contains(r.names, name) {
					return ""
				}
			}
		}
		return "no approval is signed by " + strings.Join(r.names, " or ")
	case ruleAgent:
		for _, step := range v.change.Steps {
			if step.Agent != nil && !slices.Contains(r.names, step.Agent.Name) {
				return fmt.Sprintf("step %s was made by %s", step.Node.Short(), step.Agent.Name)
			}
		}
	}
	return ""
}

// lacksEvidence looks at the last time that a command ran. Earlier versions named the tree that a step left even if it
// changed files.
func (v *verifier) lacksEvidence(r rule, tree string) string {
	why := fmt.Sprintf("%q was not run", r.names[0])
	for _, step := range v.change.byEnd() {
		for _, e := range step.Evidence {
			switch {
			case e.Command != r.names[0]:
			case r.tree && (e.Tree != tree || tree == "" || step.TreeBefore != step.TreeAfter):
				why = fmt.Sprintf("%q was not run on these files", r.names[0])
			case e.Exit != r.exit:
				why = fmt.Sprintf("%q exited with %d", r.names[0], e.Exit)
			default:
				why = ""
			}
		}
	}
	return why
}

// keyHash returns the id of a key in a signed note, from its name and what follows the line feed there.
func keyHash(name string, key []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return binary.BigEndian.Uint32(sum[:])
}

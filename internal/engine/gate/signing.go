package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
)

// A Signing demands that people sign their answers to approvals. Any other answer counts for nothing, even if it is in
// the record: a policy approves nothing, and if another program wrote an answer into a row, the person is asked again.
type Signing struct {
	// Counts returns nil if a signature by key at that time counts, and otherwise why it does not.
	Counts func(ctx context.Context, key ssh.PublicKey, at time.Time) error
	// Sign has the person at this process sign an answer; nil: nobody here can.
	Sign func(ctx context.Context, a history.Approval) (history.Signed, error)
}

// maxAhead is how far the time of an answer that was signed elsewhere may be ahead of ours.
const maxAhead = 5 * time.Minute

// Signs reports whether answers to approvals must be signed.
func (s *Service) Signs() bool { return s.cfg.Signing != nil }

// mustSign reports whether the answer of g counts only if it is signed.
func (s *Service) mustSign(g store.Gate) bool {
	return s.cfg.Signing != nil && g.Kind == store.GateApproval &&
		(g.State == store.GateApproved || g.State == store.GateRejected)
}

// sign has the person here sign an answer to a gate, if it must be signed and is not yet.
func (s *Service) sign(ctx context.Context, id string, a *Answer) error {
	if s.cfg.Signing == nil || a.Signature != "" {
		return nil
	}
	g, err := s.Gate(ctx, id)
	if err != nil {
		return err
	}
	next, err := withAnswer(g, *a, s.now())
	if err != nil || !s.mustSign(next) {
		return err
	}
	if s.cfg.Signing.Sign == nil || a.Via != store.ViaCLI {
		verb := "approve"
		if a.Reject {
			verb = "deny"
		}
		return invalid("%s: the answer must be signed with your SSH key: plait %s %s", displayName(g), verb, g.ID)
	}
	log, err := s.cfg.Store.Log(ctx)
	if err != nil {
		return err
	}
	signed, err := s.cfg.Signing.Sign(ctx, history.NewApproval(next, history.Head(log)))
	if err != nil {
		return invalid("%s: nothing was answered, since the answer must be signed: %v", displayName(g), err)
	}
	a.Signature = string(signed)
	return nil
}

// withSignature returns g, answered, with the signature of the answer, at the time that was signed.
func withSignature(g store.Gate, a Answer, now int64) (store.Gate, error) {
	if a.Signature == "" {
		return g, nil
	}
	at, err := history.Signed(a.Signature).Time()
	if err != nil {
		return g, invalid("%s: the signature of the answer does not count: %v", displayName(g), err)
	}
	if at > now+maxAhead.Milliseconds() {
		return g, invalid("%s: the answer was signed for a time that has not come, %s", displayName(g), when(at))
	}
	g.Signature, g.AnsweredAt = a.Signature, at
	if _, _, err := history.OpenApproval(g); err != nil {
		return g, invalid("%s: the signature of the answer does not count: %v", displayName(g), err)
	}
	return g, nil
}

// checkSigned returns why the answer of g does not count, or nil.
func (s *Service) checkSigned(ctx context.Context, g store.Gate) error {
	if !s.mustSign(g) {
		return nil
	}
	if g.Signature == "" {
		return invalid("%s: the answer must be signed by a person", displayName(g))
	}
	log, err := s.cfg.Store.Log(ctx)
	if err != nil {
		return err
	}
	signed, key, err := history.OpenApproval(g)
	switch origin := history.Origin(log.Origin); {
	case err != nil:
	case signed.Origin != origin: // a copy of this record has the same questions
		err = fmt.Errorf("it was made for the log %s, not for %s", signed.Origin, origin)
	default:
		err = s.cfg.Signing.Counts(ctx, key, time.UnixMilli(signed.At))
	}
	if err != nil {
		return invalid("%s: the signature of the answer does not count: %v", displayName(g), err)
	}
	return nil
}

// Counting returns the gates whose answer counts, or that have or need none.
func (s *Service) Counting(ctx context.Context, gates []store.Gate) []store.Gate {
	return slices.DeleteFunc(gates, func(g store.Gate) bool { return s.checkSigned(ctx, g) != nil })
}

// unsigned makes an error of checkSigned match store.ErrConflict, so that the caller looks for another answer.
func unsigned(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}

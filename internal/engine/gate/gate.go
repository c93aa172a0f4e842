// Package gate manages gates: the places where a person must answer or approve.
//
// It turns questions and answers into rows of gates, each with its event. An approval
// is bound to the digest of exactly what it is for: another command, or another diff,
// is another question. Laws:
//
//   - A person may approve with another input if the asker can carry it out: then
//     the approval is bound to the digest of that, stored with the one asked for.
//   - At most one gate is open per thread, head and digest.
//   - A gate leaves the state open once, by compare-and-swap: of two answers one
//     wins, and the error of the other says who was first.
//   - An approval granted once is used once. The use is recorded before it takes effect.
//   - No answer in time is a no.
//   - Where answers have to be signed, those that are not do not count, whoever wrote
//     them into the record, and neither does a policy's.
//   - Files that agents may be able to write (notes) answer questions, but never
//     approve; a policy never approves a merge or interrupted work.
//
// The package decides nothing about threads: the asker is blocked and resumed
// elsewhere. It keeps gates only in the store.
package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

var (
	// ErrInvalid reports that a question or an answer makes no sense, such as an approval of a question.
	ErrInvalid = errors.New("invalid")
	// ErrExpired is matched by a *StateError for a gate that timed out.
	ErrExpired = errors.New("expired")
)

// A StateError reports that a gate is not in the required state: it was answered or used by someone else, or
// has timed out. It matches store.ErrConflict, and for a timeout also ErrExpired.
type StateError struct {
	Gate store.Gate // its current row
}

func (e *StateError) Error() string {
	g := e.Gate
	text := displayName(g) + " is " + string(g.State)
	switch g.State {
	case store.GateOpen:
		return text + ": not answered yet"
	case store.GateExpired, store.GateWithdrawn:
	default:
		text = displayName(g) + " was already " + string(g.State)
		if g.By != "" {
			text += " by " + g.By
		}
		if g.Via != "" {
			text += " via " + string(g.Via)
		}
	}
	if g.AnsweredAt != 0 {
		text += ", " + when(g.AnsweredAt)
	}
	if g.UsedAt != 0 {
		text += ", and used, " + when(g.UsedAt)
	}
	return text
}

// Is makes the error match store.ErrConflict, and ErrExpired for a timeout.
func (e *StateError) Is(target error) bool {
	return target == store.ErrConflict || target == ErrExpired && e.Gate.State == store.GateExpired
}

// displayName returns a gate's name for people, with its id.
func displayName(g store.Gate) string {
	if g.Kind == store.GateApproval {
		return "approval " + g.ID
	}
	return "question " + g.ID
}

func when(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05") }

// An invalidError is ErrInvalid with only the reason as its text.
type invalidError string

func (e invalidError) Error() string { return string(e) }

func (e invalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(format string, args ...any) error { return invalidError(fmt.Sprintf(format, args...)) }

// Config configures a Service.
type Config struct {
	Store interface {
		store.Index
		store.Journal
	}
	Now func() time.Time // nil: time.Now
	// ReadOnly makes Gate and Gates return overdue gates as expired without changing them.
	ReadOnly bool
	// Signing says how answers to approvals are signed; nil: they need not be.
	Signing *Signing
}

// A Service opens, answers, uses and expires gates. Methods may be called concurrently, even by services of
// other processes on the same store.
type Service struct{ cfg Config }

// New returns a service; it touches nothing.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg}
}

// now returns the time in Unix milliseconds, at least 1, since zero means not yet.
func (s *Service) now() int64 { return max(1, s.cfg.Now().UnixMilli()) }

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
)

// lookEvery is the least time between two looks at the log: to keep what was seen costs two syncs.
const lookEvery = 2 * time.Second

// A sighting is a worker as a witness of the record: it looks whether the log continues what this machine has seen of
// it, and keeps what it sees.
type sighting struct {
	store  store.Store
	kept   history.Kept
	accept string // the command by which a person accepts a log that does not
	at     time.Time
	why    error // what the look at that time found
}

// look returns why the worker must not work on the record as it is.
func (s *sighting) look(ctx context.Context) error {
	if time.Since(s.at) < lookEvery {
		return s.why
	}
	_, err := s.kept.Extend(ctx, s.store, signHead)
	s.at, s.why = time.Now(), nil // whether the record answers, and the disk takes it, is for others to say
	for _, cause := range []error{history.ErrShorter, history.ErrRewritten, history.ErrMalformed} {
		if errors.Is(err, cause) {
			s.why = fmt.Errorf("%w: the record does not continue what this worker saw; if that is right: %s --reason …; %w",
				cause, s.accept, err)
		}
	}
	return s.why
}

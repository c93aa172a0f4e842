package web

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// A problem is an error with an HTTP status.
type problem struct {
	code int
	name string
	text string
}

func (p *problem) Error() string { return p.text }

func badRequest(format string, args ...any) error {
	return &problem{http.StatusBadRequest, "usage", fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &problem{http.StatusNotFound, "not_found", fmt.Sprintf(format, args...)}
}

// asProblem maps an error to a response.
func asProblem(err error) *problem {
	var p *problem
	var held *store.HeldError
	var large *http.MaxBytesError
	var invalid *flow.InvalidError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	case errors.As(err, &large):
		return &problem{http.StatusRequestEntityTooLarge, "too_large", err.Error()}
	case errors.Is(err, store.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, view.ErrNoPrompt),
		errors.Is(err, view.ErrNoCalls):
		return &problem{http.StatusNotFound, "not_found", err.Error()}
	case errors.As(err, &held):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	case errors.Is(err, control.ErrUsage), errors.Is(err, gate.ErrInvalid):
		return &problem{http.StatusBadRequest, "usage", err.Error()}
	case errors.Is(err, store.ErrConflict):
		return &problem{http.StatusConflict, "conflict", err.Error()}
	}
	return &problem{http.StatusInternalServerError, "failed", err.Error()}
}

func conflict(format string, args ...any) error {
	return &problem{http.StatusConflict, "conflict", fmt.Sprintf(format, args...)}
}

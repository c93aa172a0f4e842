package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/thread"
)

// errUnsound says that a part of a prompt is wrong itself, which is told where it lies.
var errUnsound = errors.New("a part is not sound")

// A promptText is a prompt put together.
type promptText struct {
	text  string
	links int // prompts below it
}

// prompts puts every prompt together: its parts have to give the text that it is of.
func (c *check) prompts(ctx context.Context, reached []*object) error {
	texts := &promptTexts{check: c, held: make(map[dag.Hash]promptText), right: make(map[dag.Hash]bool)}
	for _, o := range reached {
		if o.parts == nil || o.problem != nil || texts.right[o.hash] {
			continue
		}
		_, err := texts.of(ctx, o, 0)
		switch {
		case err == nil, errors.Is(err, errUnsound):
		case errors.Is(err, dag.ErrMalformed):
			c.wrong(o.hash, "prompt: %v", err)
		default:
			return err
		}
	}
	return nil
}

// promptTexts puts prompts together, and holds some: one builds on another.
type promptTexts struct {
	*check
	held  map[dag.Hash]promptText
	bytes int
	right map[dag.Hash]bool
}

// of returns a prompt on which that many others build.
func (p *promptTexts) of(ctx context.Context, o *object, above int) (promptText, error) {
	if above > thread.MaxLinks {
		return promptText{}, fmt.Errorf("it builds on more than %d others: %w", thread.MaxLinks, dag.ErrMalformed)
	}
	if known, ok := p.held[o.hash]; ok {
		return known, nil
	}
	var made promptText
	var err error
	made.text, err = o.parts.Text(func(h dag.Hash) (string, error) {
		part, ok := p.sound(h)
		switch {
		case !ok:
			return "", errUnsound
		case part.parts != nil:
			below, err := p.of(ctx, part, above+1)
			made.links = max(made.links, below.links+1)
			return below.text, err
		}
		text, ok, err := p.text(ctx, h)
		if err == nil && !ok {
			err = errUnsound
		}
		if part.typ != dag.TypeContent {
			p.wrong(o.hash, "prompt: its part %s is of type %s", h, part.typ)
		}
		return text, err
	})
	if err != nil {
		return promptText{}, err
	}
	if made.links > thread.MaxLinks {
		p.wrong(o.hash, "prompt: builds on %d others, at most %d may", made.links, thread.MaxLinks)
	}
	p.right[o.hash] = true
	if p.bytes += len(made.text); p.bytes > maxTexts {
		p.held, p.bytes = make(map[dag.Hash]promptText), len(made.text)
	}
	p.held[o.hash] = made
	return made, nil
}

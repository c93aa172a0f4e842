package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
)

// A promptText is the text built from the parts of a prompt.
type promptText struct {
	text  string
	links int // length of the longest chain of prompts below it
}

// checkPrompts builds every prompt: the text of its parts must have the prompt's hash.
func (c *check) checkPrompts(ctx context.Context, reached []*object) error {
	texts := &promptBuilder{check: c, cache: make(map[dag.Hash]promptText), checked: make(map[dag.Hash]bool)}
	for _, o := range reached {
		if o.prompt == nil || o.problem != nil || texts.checked[o.hash] {
			continue
		}
		_, err := texts.build(ctx, o, 0)
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

// A promptBuilder builds prompts from their parts. Prompts build on one another, so
// some texts are cached.
type promptBuilder struct {
	*check
	cache   map[dag.Hash]promptText
	bytes   int
	checked map[dag.Hash]bool
}

// build returns the text of a prompt. above is the length of the chain of prompts that build on it.
func (p *promptBuilder) build(ctx context.Context, o *object, above int) (promptText, error) {
	if above > prompt.MaxLinks {
		return promptText{}, fmt.Errorf("it builds on more than %d others: %w", prompt.MaxLinks, dag.ErrMalformed)
	}
	if known, ok := p.cache[o.hash]; ok {
		return known, nil
	}
	var made promptText
	var err error
	made.text, err = o.prompt.Text(func(h dag.Hash) (string, error) {
		part, ok := p.sound(h)
		switch {
		case !ok:
			return "", errUnsound
		case part.prompt != nil:
			below, err := p.build(ctx, part, above+1)
			made.links = max(made.links, below.links+1)
			return below.text, err
		}
		if part.typ != dag.TypeContent {
			p.wrong(o.hash, "prompt: its part %s is of type %s", h, part.typ)
		}
		return soundNodes{p.check}.Text(ctx, h)
	})
	if err != nil {
		return promptText{}, err
	}
	if made.links > prompt.MaxLinks {
		p.wrong(o.hash, "prompt: builds on %d others, at most %d may", made.links, prompt.MaxLinks)
	}
	p.checked[o.hash] = true
	if p.bytes += len(made.text); p.bytes > maxTexts {
		p.cache, p.bytes = make(map[dag.Hash]promptText), len(made.text)
	}
	p.cache[o.hash] = made
	return made, nil
}

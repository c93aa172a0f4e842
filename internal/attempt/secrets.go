package attempt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/secret"
)

// A discretion keeps known secrets out of what an agent writes, reports and asks. The agent still has them: what a
// person approves is done as the agent asked.
type discretion struct {
	secrets *secret.Set
	to      func(agent.Event) error
	logs    []*secret.Writer
	items   map[string]*streamed // by kind and id
}

// A streamed item is one whose text or output comes in pieces. A secret may be in two of them.
type streamed struct {
	of           agent.Event // its kind, id and phase
	text, output pieces
}

// pieces are texts that follow each other.
type pieces struct {
	out bytes.Buffer
	in  *secret.Writer
}

// next returns as much of the text so far as can be told.
func (p *pieces) next(text string) string {
	io.WriteString(p.in, text) // neither this nor Flush can fail
	defer p.out.Reset()
	return p.out.String()
}

// last returns the rest.
func (p *pieces) last() string {
	p.in.Flush()
	return p.out.String()
}

// discreet returns the request with which an agent works, and what receives its events.
func (e *Runner) discreet(req agent.Request, emit func(agent.Event) error) (agent.Request, *discretion) {
	d := &discretion{secrets: e.cfg.Host.Secrets, to: emit, items: map[string]*streamed{}}
	req.Secrets = d.secrets
	for _, log := range []*io.Writer{&req.Desk.Raw, &req.Desk.Stderr, &req.Desk.Requests} {
		if *log != nil {
			w := d.secrets.Writer(*log)
			d.logs, *log = append(d.logs, w), w
		}
	}
	if ask := req.Ask; ask != nil {
		req.Ask = func(ctx context.Context, q agent.Question) (agent.Answer, error) { return ask(ctx, d.question(q)) }
	}
	return req, d
}

// emit passes an event on.
func (d *discretion) emit(ev agent.Event) error {
	key := ev.Kind + " " + ev.ID
	if ev.ID != "" && ev.Phase == "updated" && ev.Kind != agent.EventPlan {
		it := d.items[key]
		if it == nil {
			it = &streamed{of: agent.Event{Kind: ev.Kind, ID: ev.ID, Phase: ev.Phase}}
			it.text.in, it.output.in = d.secrets.Writer(&it.text.out), d.secrets.Writer(&it.output.out)
			d.items[key] = it
		}
		ev.Text, ev.Output = it.text.next(ev.Text), it.output.next(ev.Output)
	} else {
		if err := d.rest(key); err != nil {
			return err
		}
		ev.Text, ev.Output = d.secrets.Text(ev.Text), d.secrets.Text(ev.Output)
	}
	ev.Asked, ev.Detail, ev.Files = d.secrets.Text(ev.Asked), d.json(ev.Detail), slices.Clone(ev.Files)
	for i := range ev.Files {
		f := &ev.Files[i]
		f.Path, f.Diff = d.secrets.Text(f.Path), d.secrets.Text(f.Diff)
	}
	return d.to(ev)
}

// rest passes on what was held back of an item.
func (d *discretion) rest(key string) error {
	it := d.items[key]
	if it == nil {
		return nil
	}
	delete(d.items, key)
	if it.of.Text, it.of.Output = it.text.last(), it.output.last(); it.of.Text == "" && it.of.Output == "" {
		return nil
	}
	return d.to(it.of)
}

// end is called once the agent has ended. It completes the logs, and replaces secrets in the files that it left.
func (d *discretion) end(left *os.Root) error {
	var errs []error
	for _, log := range d.logs {
		errs = append(errs, log.Flush())
	}
	for _, key := range slices.Sorted(maps.Keys(d.items)) {
		errs = append(errs, d.rest(key))
	}
	return errors.Join(append(errs, d.clean(left))...)
}

// clean replaces secrets in the files of an artifacts directory that can be collected.
func (d *discretion) clean(root *os.Root) error {
	if root == nil || d.secrets.Empty() {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		f, info, err := openRegular(root, name, entry)
		if err != nil {
			return nil
		}
		defer f.Close()
		if info.Size() > maxArtifactBytes {
			return nil
		}
		was, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		if kept := d.secrets.Bytes(was); !bytes.Equal(kept, was) {
			if err := agent.ReplaceIn(root, name, bytes.NewReader(kept)); err != nil {
				return &agent.Failure{Kind: agent.Infra, Message: fmt.Sprintf("replace a key in artifact %s: %v", name, err)}
			}
			return root.Chmod(name, info.Mode().Perm())
		}
		return nil
	})
}

// question returns a question as people see it.
func (d *discretion) question(q agent.Question) agent.Question {
	a, text := &q.Action, d.secrets.Text
	q.Text = text(q.Text)
	a.Command, a.Cwd, a.Diff, a.Tool, a.Params = text(a.Command), text(a.Cwd), text(a.Diff), text(a.Tool), d.json(a.Params)
	return q
}

// json replaces secrets in JSON. A secret of digits may also be in a number.
func (d *discretion) json(text json.RawMessage) json.RawMessage {
	out := d.secrets.Bytes(text)
	if len(text) > 0 && !json.Valid(out) {
		return json.RawMessage(`"***"`)
	}
	return out
}

// discreetAnswer returns an answer without known secrets.
func (e *Runner) discreetAnswer(ans answer) (answer, error) {
	secrets := e.cfg.Host.Secrets
	ans.text, ans.status = secrets.Text(ans.text), secrets.Text(ans.status)
	meta := secrets.Bytes(ans.meta)
	if bytes.Equal(meta, ans.meta) {
		return ans, nil
	}
	var err error
	ans.fields = nil
	if ans.meta, err = dag.Canonical(meta); err == nil {
		err = json.Unmarshal(ans.meta, &ans.fields)
	}
	if err != nil {
		return ans, fmt.Errorf("replace a key in the answer: %w", err)
	}
	return ans, nil
}

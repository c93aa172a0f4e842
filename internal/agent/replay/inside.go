package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxRecording is the most that a recording read inside may have, in bytes.
const maxRecording = 64 << 20

// Inside returns an agent whose recording, named relative to the working tree, is read when it runs, by a program of
// the attempt: so it is a file that agents could read.
func Inside(file string) agent.Agent { return inside{file} }

type inside struct{ file string }

// Run reads the recording and returns the attempt. No error quotes the file.
func (i inside) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	text, err := i.read(ctx, req)
	if err != nil {
		return agent.Result{}, err
	}
	rec, err := Parse(i.file, text)
	var a *Agent
	if err == nil {
		a, err = New(rec)
	}
	if err != nil {
		return agent.Result{}, agent.Final("%s is not a recording", i.file)
	}
	return a.Run(ctx, req, emit)
}

func (i inside) read(ctx context.Context, req agent.Request) ([]byte, error) {
	env := proc.Environ(nil, nil, req.Env, req.Tag)
	cat, err := proc.Lookup("cat", req.Dir, env)
	if err != nil {
		return nil, agent.Final("read recording: %v", err)
	}
	path, args := req.CommandLine(cat, []string{"--", i.file}, agent.Needs{})
	var out, said bytes.Buffer
	res, err := proc.Run(ctx, proc.Config{Path: path, Args: args, Dir: req.Dir, Env: env, Tag: req.Tag, Wall: req.Timeout,
		Stdout: &out, Stderr: &said, MaxBytes: maxRecording})
	var start *proc.StartError
	switch {
	case errors.As(err, &start):
		return nil, agent.Final("read recording: %v", err)
	case err != nil:
		return nil, fmt.Errorf("read recording: %w", err)
	case res.Reason == proc.Cancelled:
		return nil, cancelled()
	case res.Reason != "":
		return nil, agent.Final("read recording %s: stopped: %s", i.file, res.Reason)
	case res.Exit != 0:
		return nil, agent.Final("read recording: %s", strings.TrimSpace(text.Clip(said.String(), 300)))
	}
	return out.Bytes(), nil
}

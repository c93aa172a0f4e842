package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// inputFlags hold the input with which an action is approved, instead of the requested one.
type inputFlags struct {
	edit bool
	file string
}

func (f *inputFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.edit, "edit", false, "change the input in $VISUAL or $EDITOR first")
	cmd.Flags().StringVar(&f.file, "input", "", "approve with the input in `FILE` instead: a JSON object, or - for stdin")
}

// input returns the input with which to approve g, nil for its own.
func (a *app) input(cmd *cobra.Command, f inputFlags, g store.Gate) (json.RawMessage, error) {
	switch {
	case f.edit && f.file != "":
		return nil, usagef("--edit and --input exclude each other")
	case !f.edit && f.file == "" || g.State != store.GateOpen:
		return nil, nil
	}
	was, err := gate.Input(g)
	if errors.Is(err, gate.ErrInvalid) {
		return nil, badUsage{err}
	}
	if err != nil {
		return nil, err
	}
	var data []byte
	switch {
	case f.edit:
		data, err = a.editor(cmd, was)
	case f.file == "-":
		data, err = io.ReadAll(a.in)
	default:
		data, err = os.ReadFile(f.file)
	}
	if err != nil {
		return nil, usagef("read the input: %w", err)
	}
	if data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte(byteOrderMark))); !json.Valid(data) {
		return nil, usagef("the input is not JSON: nothing was approved")
	}
	return data, nil
}

// editor lets a person change an input in their editor. As in git, $VISUAL or $EDITOR is a command line.
func (a *app) editor(cmd *cobra.Command, input json.RawMessage) ([]byte, error) {
	var text bytes.Buffer
	if err := json.Indent(&text, input, "", "  "); err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	f, err := os.CreateTemp("", "plait-input-*.json") // only its owner can read it
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text.Bytes())
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	line := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	run := exec.CommandContext(cmd.Context(), "sh", "-c", line+` "$1"`, "sh", f.Name())
	run.Stdin, run.Stdout, run.Stderr = a.in, a.err, a.err
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("run editor %q: %w", line, err)
	}
	data, err := os.ReadFile(f.Name())
	if err == nil && bytes.Equal(bytes.TrimSpace(data), bytes.TrimSpace(text.Bytes())) {
		err = errors.New("nothing was changed, so nothing was approved")
	}
	return data, err
}

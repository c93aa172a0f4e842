package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Edit is an option of approvals: the asker can carry out a different input than the one it asked about.
const Edit = "edit"

// maxInput is the largest input that a person can give, in bytes.
const maxInput = 1 << 20

// Editable reports whether a person can approve g with another input.
func Editable(g store.Gate) bool {
	_, err := editable(g)
	return err == nil
}

// Input returns the part of g's action that a person can change: one JSON object, with a tool's parameters or
// the command line as "command". The error matches ErrInvalid if there is none.
func Input(g store.Gate) (json.RawMessage, error) {
	act, err := editable(g)
	switch {
	case err != nil:
		return nil, err
	case len(act.Params) == 0:
		return dag.Marshal(map[string]string{"command": act.Command})
	}
	return act.Params, nil
}

// editable returns the action of g if a person can change its input. Otherwise the error matches ErrInvalid.
func editable(g store.Gate) (act Action, err error) {
	if g.Kind != store.GateApproval || g.Source != store.SourceAgent || !slices.Contains(g.Options, Edit) {
		return act, invalid("%s: the asker cannot take another input; deny it, and say what to do instead", displayName(g))
	}
	if err := json.Unmarshal(g.Action, &act); err != nil {
		return act, fmt.Errorf("read the action of %s: %w", displayName(g), err)
	}
	if len(act.Params) == 0 && act.Command != "" {
		return act, nil
	}
	if !isObject(act.Params) || act.Diff != "" || act.Command != "" && commandOf(act.Params) != act.Command {
		return act, invalid("%s: its action has no input that can be changed", displayName(g))
	}
	return act, nil
}

// edited returns the action of g with another input, and the digest that binds an approval to it.
func edited(g store.Gate, input json.RawMessage) (json.RawMessage, dag.Hash, error) {
	act, err := editable(g)
	if err != nil {
		return nil, dag.Hash{}, err
	}
	if len(input) > maxInput {
		return nil, dag.Hash{}, invalid("the input is larger than %d bytes", maxInput)
	}
	if input, err = dag.Canonical(input); err != nil {
		return nil, dag.Hash{}, invalid("the input is not JSON: %v", err)
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(input, &keys) != nil || keys == nil {
		return nil, dag.Hash{}, invalid("the input is not a JSON object")
	}
	if act.Command != "" {
		act.Command = commandOf(input)
		if strings.TrimSpace(act.Command) == "" {
			return nil, dag.Hash{}, invalid(`the input has no "command"`)
		}
	}
	if len(act.Params) > 0 {
		act.Params = input
	} else {
		for key := range keys {
			if key != "command" {
				return nil, dag.Hash{}, invalid("the input has %q, which would have no effect", key)
			}
		}
	}
	action, err := json.Marshal(act)
	if err != nil {
		return nil, dag.Hash{}, err
	}
	digest, err := Digest(g.Thread, action)
	return action, digest, err
}

// withInput returns g approved with another input. The same input changes nothing.
func withInput(g store.Gate, a Answer) (store.Gate, error) {
	action, digest, err := edited(g, a.Input)
	switch {
	case err != nil:
		return g, err
	case !slices.Contains([]store.Via{store.ViaCLI, store.ViaWeb, store.ViaAPI, store.ViaReplay}, a.Via):
		return g, invalid("%s: only a person can approve it with another input", displayName(g))
	case digest == g.Digest:
		return g, nil
	case a.Grant == store.GrantSession:
		return g, invalid("%s: an approval with another input holds once", displayName(g))
	}
	g.Edited, g.EditedDigest = action, digest
	return g, nil
}

// Carries returns what an approval allows: the action that was asked for, or the one that a person approved
// instead. The error matches store.ErrCorrupt if the approval is bound to something else.
func Carries(g store.Gate) (action json.RawMessage, digest dag.Hash, err error) {
	action, digest = g.Action, g.Digest
	if g.Edited != nil || !g.EditedDigest.IsZero() {
		action, digest = g.Edited, g.EditedDigest
	}
	if is, err := Digest(g.Thread, action); err != nil || is != digest {
		return nil, digest, fmt.Errorf("%s: its digest does not match its action: %w", displayName(g), store.ErrCorrupt)
	}
	return action, digest, nil
}

func isObject(data json.RawMessage) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && data[0] == '{'
}

// commandOf returns the command line in an input, or "" if it has none.
func commandOf(input json.RawMessage) string {
	var in struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(input, &in) != nil {
		return ""
	}
	return in.Command
}

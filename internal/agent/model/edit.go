package model

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/sys/text"
)

// edit changes a file. It asks a person if the file is protected, or if there is no sandbox.
func (t *conversation) edit(c call, a args) (string, bool, error) {
	p, rel, was, err := t.files.load(a.Path)
	var now string
	if err == nil {
		now, err = edited(a, was)
	}
	if err == nil && !p.write {
		err = fmt.Errorf("%s can only be read", a.Path)
	}
	if err == nil && rel == "." {
		err = fmt.Errorf("%q names no file", a.Path)
	}
	if err != nil {
		return err.Error(), true, t.ended(c, err.Error(), agent.Event{Kind: agent.EventFile, Phase: "failed",
			Files: []agent.File{{Path: text.Clip(a.Path, 1000), Change: "update"}}})
	}
	file := agent.File{Path: a.Path, Change: "update", Diff: hunks(string(was), now)}
	if was == nil {
		file.Change = "add"
	}
	e := agent.Event{Kind: agent.EventFile, ID: c.ID, Phase: "started", Files: []agent.File{file}}
	if err := t.event(e); err != nil {
		return "", false, err
	}
	protected := p.tree && worktree.Protected(filepath.ToSlash(rel))
	if protected || !t.sandbox.Enforced && t.req.Access != agent.Full {
		text := "change " + a.Path
		if protected {
			text += ", from which programs or instructions are taken"
		}
		no, _, err := t.question(agent.Question{Text: text, Action: agent.Action{Type: "file_change", Tool: editTool.name,
			Cwd: t.dir, Diff: "--- " + a.Path + "\n+++ " + a.Path + "\n" + file.Diff}})
		if err != nil {
			return "", false, err
		}
		if no != "" {
			return no, true, t.ended(c, no, agent.Event{Kind: agent.EventFile, Phase: "declined", Files: e.Files})
		}
		// The approval is for this change to that text, and a person may have edited the file meanwhile.
		_, at, data, err := t.files.load(a.Path)
		if err != nil || at != rel || (data == nil) != (was == nil) || !bytes.Equal(data, was) {
			text := a.Path + " was changed while a person was asked: read it again"
			return text, true, t.ended(c, text, agent.Event{Kind: agent.EventFile, Phase: "failed", Files: e.Files})
		}
	}
	phase, text := "completed", "The file is changed."
	if err := p.put(rel, now); err != nil {
		phase, text = "failed", plain(a.Path, err).Error()
	}
	return text, phase == "failed", t.ended(c, text, agent.Event{Kind: agent.EventFile, Phase: phase, Files: e.Files})
}

// edited returns the new content of a file; was is nil if it does not exist. A byte order mark at its beginning stays,
// and if all its lines end alike, so do the new ones.
func edited(a args, was []byte) (string, error) {
	switch {
	case a.New == nil:
		return "", fmt.Errorf("new is missing: the text that is to be in %s", a.Path)
	case was == nil && a.Old != "":
		return "", fmt.Errorf("%s does not exist; without old it is written as a whole", a.Path)
	case len(was) == 0 && a.Old == "":
		return *a.New, nil
	}
	text, marked := strings.CutPrefix(string(was), byteOrderMark)
	before := string(was)[:len(was)-len(text)]
	old, now, end := strings.TrimPrefix(a.Old, byteOrderMark), *a.New, lineEnd(text)
	if marked || a.Old != "" {
		now = strings.TrimPrefix(now, byteOrderMark)
	}
	if end != "" { // the same with LF, and back
		text, old, now = withEnd(text, "\n"), withEnd(old, "\n"), withEnd(now, "\n")
	}
	n := strings.Count(text, old)
	switch {
	case a.Old == "":
		return before + withEnd(now, end), nil
	case old == "":
		return "", errors.New("old has only a byte order mark; give the text that is to be replaced")
	case n == 0 && strings.Contains(withEnd(text, "\n"), withEnd(old, "\n")):
		return "", fmt.Errorf("%s has the text of old with other line ends: some of its lines end in CR LF, others in LF",
			a.Path)
	case n == 0:
		return "", fmt.Errorf("%s does not have the text of old; read it again", a.Path)
	case n > 1:
		return "", fmt.Errorf("%s has the text of old %d times; give more of it, so that it is there once", a.Path, n)
	}
	if at := strings.Index(text, old); end == "" && !strings.Contains(old+now, "\r") { // as the first line of it ends
		line, _, _ := strings.Cut(text[at:], "\n")
		if strings.HasSuffix(line, "\r") {
			now = withEnd(now, "\r\n")
		}
	}
	return before + withEnd(strings.Replace(text, old, now, 1), end), nil
}

const byteOrderMark = "\uFEFF"

// lineEnd returns how the lines of a text end, "" if not all end alike.
func lineEnd(text string) string {
	switch lines := strings.Count(text, "\n"); {
	case lines == 0:
		return ""
	case strings.Count(text, "\r\n") == lines:
		return "\r\n"
	case !strings.Contains(text, "\r\n"):
		return "\n"
	}
	return ""
}

// withEnd returns a text whose lines end in a certain way, the text itself if that is "".
func withEnd(text, end string) string {
	if end == "" {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", end)
}

// put writes a file, creating directories as needed.
func (p place) put(rel, text string) error {
	if dir := path.Dir(filepath.ToSlash(rel)); dir != "." {
		if err := p.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return p.root.WriteFile(rel, []byte(text), 0o644)
}

// hunks returns the changes of a text as a unified diff, without file names.
func hunks(was, now string) string {
	text := string(diff.Diff("a", []byte(was), "b", []byte(now)))
	if at := strings.Index(text, "\n@@"); at >= 0 {
		return text[at+1:]
	}
	return ""
}

package codex

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

// A rollout is Codex's own record of a session:
// CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl, only appended
// to. A reverted session continues in another file, …-<session>_<id>.jsonl.

var sessionID = regexp.MustCompile(`^[0-9A-Za-z-]+$`)

func isSession(id string) bool { return len(id) >= 8 && len(id) <= 64 && sessionID.MatchString(id) }

// openRollout opens a rollout for reading. Agents in a sandbox can write in the home: a link that leads elsewhere
// is refused, and so is what is no regular file.
func openRollout(file string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return agent.OpenIn(root, filepath.Base(file))
}

// findRollout returns the newest rollout of a session in a home, or "".
func findRollout(home, session string) string {
	newest := ""
	for _, path := range findRollouts(home, session) {
		if newest == "" || filepath.Base(path) > filepath.Base(newest) {
			newest = path
		}
	}
	return newest
}

// findRollouts returns all rollouts of a session in a home.
func findRollouts(home, session string) []string {
	if !isSession(session) {
		return nil
	}
	var found []string
	filepath.WalkDir(filepath.Join(home, "sessions"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		name, ok := strings.CutSuffix(d.Name(), ".jsonl")
		if !ok || !strings.HasPrefix(name, "rollout-") {
			return nil
		}
		base, _, _ := strings.Cut(name, "_")
		if strings.HasSuffix(base, "-"+session) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// maxLineage limits how many sessions one session can descend from.
const maxLineage = 1000

// copyRollout copies a session into another home, so that it can be forked there. A fork's
// rollout contains only what came after the fork, so its ancestors are copied too.
func copyRollout(from, to, session string) error {
	fail := func(err error) error { return fmt.Errorf("copy session %s: %w", session, err) }
	seen := map[string]bool{}
	for next := []string{session}; len(next) > 0; next = next[1:] {
		if seen[next[0]] {
			continue
		}
		seen[next[0]] = true
		files := findRollouts(from, next[0])
		if len(files) == 0 || len(seen) > maxLineage {
			return fail(fs.ErrNotExist)
		}
		for _, file := range files {
			parent, err := copyOne(from, to, file)
			if err != nil {
				return fail(err)
			}
			if parent != "" {
				next = append(next, parent)
			}
		}
	}
	return nil
}

// copyOne copies one rollout into another home and returns the session it continues, or "".
func copyOne(from, to, file string) (parent string, err error) {
	rel, err := filepath.Rel(from, file)
	if err != nil {
		return "", err
	}
	f, err := openRollout(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	target := filepath.Join(to, rel)
	info, err := f.Stat()
	// The session may have been continued in that home: a longer file is newer.
	if err == nil && target != file && info.Size() > size(target) {
		err = replaceIn(to, rel, f)
	}
	if err != nil {
		return "", err
	}
	return parentIn(f), nil
}

// replaceIn writes a file below a home.
func replaceIn(home, name string, from io.Reader) error {
	root, err := agent.OpenHome(home)
	if err != nil {
		return err
	}
	defer root.Close()
	return agent.ReplaceIn(root, name, from)
}

// parentIn returns the session that a rollout's session continues, or "".
func parentIn(rollout io.ReaderAt) string {
	var l rolloutLine
	json.Unmarshal(firstLine(rollout), &l) // a rollout without a beginning has no parent
	return l.Payload.Base.Thread
}

// lineage returns the rollouts of a session and of those that it continues, nil if one is missing.
func lineage(home, session string) (files []string) {
	for seen := map[string]bool{}; session != "" && !seen[session] && len(seen) < maxLineage; {
		seen[session] = true
		found := findRollouts(home, session)
		if len(found) == 0 {
			return nil
		}
		files, session = append(files, found...), ""
		for _, file := range found {
			if session != "" {
				break
			}
			if f, err := openRollout(file); err == nil {
				session = parentIn(f)
				f.Close()
			}
		}
	}
	return files
}

// firstLine returns the first line of a file, or nothing if it does not end.
func firstLine(file io.ReaderAt) []byte {
	line, err := bufio.NewReader(io.NewSectionReader(file, 0, maxLine)).ReadBytes('\n')
	if err != nil {
		return nil
	}
	return line
}

// sessionFiles returns the rollouts of a session and of those that it continues, and the home that they are in.
func sessionFiles(home, session string) (dir string, files []string) {
	dir = codexHome(home)
	files = lineage(dir, session)
	for i, file := range files {
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return dir, nil
		}
		files[i] = rel
	}
	return dir, files
}

// A rolloutTail is what a rollout says about the turns after an offset.
type rolloutTail struct {
	Turn    string // of the last turn
	Model   string
	Sandbox string
	Profile string      // the permissions profile of the sandbox, or ""
	Usage   agent.Usage // of those turns
	HasUse  bool
	Bytes   int64
	Total   agent.Usage // of the whole session, according to the last record
}

type rolloutLine struct {
	Type    string `json:"type"`
	Payload struct {
		Type          string          `json:"type"`
		TurnID        string          `json:"turn_id"`
		Model         string          `json:"model"`
		SandboxPolicy json.RawMessage `json:"sandbox_policy"`
		Profile       struct {
			ID string `json:"id"`
		} `json:"active_permission_profile"`
		TurnUsage *rolloutUsage `json:"turn_token_usage"`
		Total     *rolloutUsage `json:"thread_token_usage"`
		Base      struct {
			Thread string `json:"thread_id"`
		} `json:"history_base"`
	} `json:"payload"`
}

type rolloutUsage struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_input_tokens"`
	Output    int64 `json:"output_tokens"`
	Reasoning int64 `json:"reasoning_output_tokens"`
}

func (u rolloutUsage) usage() agent.Usage {
	return agent.Usage{InputTokens: u.Input, CachedInputTokens: u.Cached, OutputTokens: u.Output,
		ReasoningTokens: u.Reasoning}
}

// readRollout reads what was appended to a rollout after from, and copies it to
// keep unless that is nil. Lines it does not understand are skipped.
func readRollout(file string, from int64, keep io.Writer) (rolloutTail, error) {
	var t rolloutTail
	f, err := openRollout(file)
	if err != nil {
		return t, fmt.Errorf("read rollout: %w", pathCause(err))
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return t, fmt.Errorf("read rollout: %w", err)
	}
	turns := map[string]agent.Usage{}
	r := bufio.NewReaderSize(f, 64<<10)
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		t.Bytes += int64(len(part))
		if keep != nil && len(part) > 0 {
			if _, err := keep.Write(part); err != nil {
				return t, fmt.Errorf("keep rollout: %w", err)
			}
		}
		if len(line) <= maxLine { // a longer one is not understood
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		var l rolloutLine
		if json.Unmarshal(line, &l) == nil {
			t.take(l, turns)
		}
		line = line[:0]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return t, fmt.Errorf("read rollout: %w", err)
		}
	}
	for _, u := range turns {
		t.HasUse = true
		t.Usage.InputTokens += u.InputTokens
		t.Usage.CachedInputTokens += u.CachedInputTokens
		t.Usage.OutputTokens += u.OutputTokens
		t.Usage.ReasoningTokens += u.ReasoningTokens
	}
	return t, nil
}

func (t *rolloutTail) take(l rolloutLine, turns map[string]agent.Usage) {
	p := l.Payload
	switch l.Type {
	case "turn_context":
		if p.TurnID != "" {
			t.Turn = p.TurnID
		}
		if p.Model != "" {
			t.Model = p.Model
		}
		var policy struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(p.SandboxPolicy, &policy) == nil && policy.Type != "" {
			t.Sandbox, t.Profile = policy.Type, p.Profile.ID
		}
	case "token_usage_record":
		if p.TurnUsage != nil {
			turns[cmp.Or(p.TurnID, t.Turn)] = p.TurnUsage.usage()
		}
		if p.Total != nil {
			t.Total = p.Total.usage()
		}
	}
}

func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

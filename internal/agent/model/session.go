package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/secret"
)

// Roles of entries.
const (
	byUser      = "user"
	byAssistant = "assistant"
	byTool      = "tool"
)

// An entry is one message of a conversation.
type entry struct {
	Turn  string            `json:"turn"`
	Role  string            `json:"role"`
	Text  string            `json:"text,omitempty"`
	Calls []call            `json:"calls,omitempty"` // of the assistant
	Kept  []json.RawMessage `json:"kept,omitempty"`  // thoughts that a server wants back
	Call  string            `json:"call,omitempty"`  // of a tool: the call that it answers
	Wrong bool              `json:"wrong,omitempty"` // of a tool: it failed

	Thought string `json:"thought,omitempty"` // of a message with calls: some servers want it back
}

// A call is a tool call of the model.
type call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"` // as the model wrote it: it should be a JSON object
}

// A session is a conversation in a file, with one line per entry.
type session struct {
	id      string
	turn    string // of this attempt
	entries []entry
	file    *os.File
	secrets *secret.Set // not written to it
}

var sessionID = regexp.MustCompile(`^[0-9a-f-]{36}$`)

// openSession continues a session in dir, or starts one. If from is given, the new one begins
// with that session's entries.
func openSession(dir, id string, from *agent.Branch, secrets *secret.Set) (*session, error) {
	s := &session{id: id, secrets: secrets}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the home of conversations: %w", err)
	}
	var whole []byte
	var err error
	switch {
	case id != "":
		s.entries, whole, err = readSession(dir, id)
	case from != nil:
		s.entries, _, err = readSession(from.Home, from.Session)
		s.entries = upTo(s.entries, from.Turn)
	}
	if err != nil {
		return nil, err
	}
	if id == "" {
		s.id = uuid.NewString()
	}
	if s.file, err = os.OpenFile(filepath.Join(dir, s.id+".jsonl"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("open a conversation: %w", err)
	}
	if err := s.file.Truncate(int64(len(whole))); err != nil { // an incomplete line does not count
		s.close()
		return nil, fmt.Errorf("open a conversation: %w", err)
	}
	if id == "" {
		for _, e := range s.entries {
			if err := s.write(e); err != nil {
				s.close()
				return nil, err
			}
		}
	}
	s.turn = "1"
	if n := len(s.entries); n > 0 {
		last, _ := strconv.Atoi(s.entries[n-1].Turn) // turns are numbers, see below
		s.turn = strconv.Itoa(last + 1)
	}
	return s, nil
}

// unanswered returns how many attempts in a row, this one included, have had no answer from the server.
func (s *session) unanswered() int {
	now, _ := strconv.Atoi(s.turn)
	for _, e := range slices.Backward(s.entries) {
		if e.Role == byAssistant {
			last, _ := strconv.Atoi(e.Turn)
			return now - last
		}
	}
	return now
}

// answered reports whether the server has ever answered in the conversation.
func (s *session) answered() bool {
	return slices.ContainsFunc(s.entries, func(e entry) bool { return e.Role == byAssistant })
}

// add records an entry.
func (s *session) add(e entry) error {
	e.Turn = s.turn
	s.entries = append(s.entries, e)
	return s.write(e)
}

func (s *session) write(e entry) error {
	if _, err := s.file.Write(s.secrets.Bytes(encode(e))); err != nil {
		return fmt.Errorf("keep a conversation: %w", err)
	}
	return nil
}

func (s *session) close() { s.file.Close() }

// readSession returns the entries of a session and the bytes of its complete lines.
func readSession(dir, id string) ([]entry, []byte, error) {
	if !sessionID.MatchString(id) {
		return nil, nil, errors.New("read a conversation: " + strconv.Quote(id) + " is not the name of one")
	}
	data, err := os.ReadFile(filepath.Join(dir, id+".jsonl"))
	if err != nil {
		return nil, nil, fmt.Errorf("read a conversation: %w", err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	var entries []entry
	for line := range bytes.Lines(whole) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, nil, fmt.Errorf("read a conversation: line %d: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	return entries, whole, nil
}

// upTo returns the entries up to the last one of a turn, all if turn is "".
func upTo(entries []entry, turn string) []entry {
	for i := len(entries) - 1; i >= 0 && turn != ""; i-- {
		if entries[i].Turn == turn {
			return entries[:i+1]
		}
	}
	return entries
}

// hasTurn reports whether a session exists, with a turn unless that is "".
func hasTurn(dir, id, turn string) bool {
	entries, _, err := readSession(dir, id)
	kept := upTo(entries, turn)
	return err == nil && len(kept) > 0 && (turn == "" || kept[len(kept)-1].Turn == turn)
}

// encode returns a value as a line of JSON.
func encode(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		return []byte("null\n") // cannot happen: all values are texts and JSON
	}
	return append(line, '\n')
}

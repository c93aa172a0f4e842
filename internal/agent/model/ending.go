package model

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// An ending is what it means that a server ends an answer with a word.
type ending int

const (
	unknown  ending = iota
	whole           // the answer is complete
	called          // the answer is complete, and calls tools
	cut             // it reached the limit of tokens for one answer
	overfull        // it reached the end of the model's context
	declined        // the model, or a filter, declined
)

// ending returns what a word means. An answer with an unknown word, or with none, is broken off.
func (w word) ending() ending {
	switch w {
	case "stop", "end_turn", "stop_sequence", "eos", "eos_token":
		return whole
	case "tool_calls", "function_call", "tool_use":
		return called
	case "length", "max_tokens":
		return cut
	case "model_length", "model_context_window_exceeded":
		return overfull
	case "content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii", "sensitive",
		"guardrail_intervened":
		return declined
	}
	return unknown
}

// ends notes the word that a server ends its answer with. If it says several, the first that does not mean that
// the answer is whole stays. In parts before the last one, some servers say null as a word.
func (w *word) ends(with word) {
	if now := w.ending(); with != "" && with != "null" && (*w == "" || now == whole || now == called) {
		*w = word(strings.ToLower(string(with)))
	}
}

// judge returns why a response cannot be acted on, or nil. err is the error that ended it.
func (s *reply) judge(err error) error {
	brokeOff := func(format string, why ...any) error {
		return &serverError{text: "broke its answer off" + fmt.Sprintf(format, why...)}
	}
	var known *serverError
	switch as := s.stop.ending(); {
	case errors.As(err, &known):
		return err
	case err != nil:
		return brokeOff(": %v", err)
	case s.stop == "":
		return brokeOff("")
	case as == unknown:
		return brokeOff(": it ends with %.100q", s.stop)
	case as == called && len(s.calls) == 0:
		return brokeOff(": it ends with %q, but has no call", s.stop)
	case as == overfull:
		return &serverError{code: tooLong, text: fmt.Sprintf("ends its answer with %q", s.stop)}
	default:
		s.setApart()
		s.cut, s.refused = as == cut, s.refused || as == declined
	}
	return nil
}

// setApart moves thoughts at the beginning of the text to where others are. Some servers leave out the opening tag,
// because their template already has it; then the closing one is alone on its line.
func (s *reply) setApart() {
	text, opened := bytes.CutPrefix(bytes.TrimSpace(s.text), []byte("<think>"))
	thought, rest, closed := bytes.Cut(text, []byte("</think>"))
	if !opened {
		before, after := bytes.TrimRight(thought, " \t"), bytes.TrimLeft(rest, " \t\r")
		alone := (len(before) == 0 || bytes.HasSuffix(before, []byte("\n"))) && (len(after) == 0 || after[0] == '\n')
		if !closed || !alone || bytes.Contains(thought, []byte("<think>")) {
			return
		}
	}
	s.thought, s.text = append(s.thought, bytes.TrimSpace(thought)...), bytes.TrimSpace(rest)
}

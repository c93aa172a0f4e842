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

// endings has the words, in lower case, that are known. An answer with any other word, or with none, is broken off.
var endings = map[word]ending{
	"stop":          whole, // Chat Completions, Gemini
	"end_turn":      whole, // Messages
	"stop_sequence": whole, // Messages, TGI
	"eos":           whole, // Together
	"eos_token":     whole, // TGI
	"tool_calls":    called,
	"function_call": called, // what Chat Completions had before tools
	"tool_use":      called, // Messages

	"length":                        cut,
	"max_tokens":                    cut,      // Messages, Gemini
	"model_length":                  overfull, // Mistral
	"model_context_window_exceeded": overfull, // Messages, Z.ai

	"content_filter":       declined,
	"refusal":              declined, // Messages
	"safety":               declined, // Gemini, also the next four
	"recitation":           declined,
	"blocklist":            declined,
	"prohibited_content":   declined,
	"spii":                 declined,
	"sensitive":            declined, // Z.ai
	"guardrail_intervened": declined, // Bedrock
}

// ends notes the word that a server ends its answer with. If it says several, the first that does not mean that
// the answer is whole stays. In parts before the last one, some servers say null as a word.
func (w *word) ends(with word) {
	if now := endings[*w]; with != "" && with != "null" && (*w == "" || now == whole || now == called) {
		*w = word(strings.ToLower(string(with)))
	}
}

// judge returns why a response cannot be acted on, or nil. err is the error that ended it.
func (s *reply) judge(err error) error {
	brokeOff := func(format string, why ...any) error {
		return &serverError{text: "broke its answer off" + fmt.Sprintf(format, why...)}
	}
	var known *serverError
	switch as := endings[s.stop]; {
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

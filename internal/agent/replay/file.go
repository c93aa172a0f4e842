package replay

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bytes are any bytes. In JSON they are a string, or, when they are not valid
// UTF-8, {"base64": "…"}.
type Bytes []byte

// encoded is the form of bytes that are not text.
type encoded struct {
	Base64 string `json:"base64"`
}

// MarshalJSON writes the bytes.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(encoded{base64.StdEncoding.EncodeToString(b)})
}

// UnmarshalJSON reads either form.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() == '{' {
		var e encoded
		if err := json.Unmarshal(text, &e, json.RejectUnknownMembers(true)); err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(e.Base64)
		if err != nil {
			return fmt.Errorf("base64: %w", err)
		}
		*b = raw
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*b = Bytes(s)
	return nil
}

// Load reads the recording in a file.
func Load(path string) (Recording, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Recording{}, fmt.Errorf("load recording: %w", err)
	}
	return Parse(path, b)
}

// Parse reads a recording:
//
//	{"attempts": [
//	  {"role": "planner", "output": "---\n$status: ready\n---\nThe plan."},
//	  {"role": "tester", "visit": 1, "try": 2,
//	   "output": "FAIL", "stderr": "…", "exit": 1, "status": "failed", "plain": true,
//	   "raw": {"base64": "/wA="}, "session": "s1", "model": "m",
//	   "usage": {"inputTokens": 12, "outputTokens": 3},
//	   "events": [{"kind": "message", "text": "…"}], "delay": 50},
//	  {"role": "tester", "failure": {"kind": "limit", "message": "…",
//	   "resetAt": "2026-01-02T15:04:05Z", "final": false}}
//	]}
//
// The keys are those of [Attempt]; others are errors, as are duplicate keys and two attempts at one place.
// Every wrong attempt is reported, each as name:line:column. name is only used for that.
func Parse(name string, b []byte) (Recording, error) {
	p := parser{name: name, text: b}
	rec := p.recording()
	if len(p.errs) > 0 {
		return Recording{}, errors.Join(p.errs...)
	}
	return rec, nil
}

// A parser reads one recording and collects its errors.
type parser struct {
	name string
	text []byte
	errs []error
}

// fail adds an error at a byte offset.
func (p *parser) fail(offset int64, format string, args ...any) {
	before := p.text[:min(offset, int64(len(p.text)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: %w", p.name, line, column, fmt.Errorf(format, args...)))
}

func (p *parser) recording() (rec Recording) {
	// Duplicate keys are detected attempt by attempt, so that the rest can still be read.
	d := jsontext.NewDecoder(bytes.NewBuffer(p.text), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		p.failRead(d, `want an object with the key "attempts"`)
		return rec
	}
	d.ReadToken()
	seen := false
	for d.PeekKind() == '"' {
		at := p.skipSpace(d.InputOffset())
		key, err := d.ReadToken()
		if err != nil {
			p.failRead(d, "")
			return rec
		}
		if key.String() != "attempts" {
			p.fail(at, "unknown key %q", key.String())
			if d.SkipValue() != nil {
				p.failRead(d, "")
				return rec
			}
			continue
		}
		if seen {
			p.fail(at, `the key "attempts" is there twice`)
			return rec
		}
		seen = true
		if !p.attempts(d, &rec) {
			return rec
		}
	}
	if _, err := d.ReadToken(); err != nil {
		p.failRead(d, "")
		return rec
	}
	if !seen {
		p.fail(0, `the key "attempts" is missing`)
	}
	if end := p.skipSpace(d.InputOffset()); end < int64(len(p.text)) {
		p.fail(end, "something follows the recording")
	}
	return rec
}

// attempts reads the list of attempts. It returns false when the rest cannot be read.
func (p *parser) attempts(d *jsontext.Decoder, rec *Recording) bool {
	if d.PeekKind() != '[' {
		p.failRead(d, `"attempts" is not a list`)
		return false
	}
	d.ReadToken()
	first := make(map[place]int)
	rec.Attempts = []Attempt{} // so that an empty list is written as a list
	for n := 0; d.PeekKind() != ']'; n++ {
		v, err := d.ReadValue()
		if err != nil {
			p.failRead(d, "")
			return false
		}
		at := d.InputOffset() - int64(len(v))
		var t Attempt
		if err := json.Unmarshal(v, &t, json.RejectUnknownMembers(true)); err != nil {
			p.fail(at+offsetOf(err), "attempt %d: %w", n, plainMessage(err))
			continue
		}
		if err := t.check(); err != nil {
			p.fail(at, "attempt %d: %w", n, err)
			continue
		}
		if other, ok := first[t.place()]; ok {
			p.fail(at, "attempt %d: %v is recorded twice, first as attempt %d", n, t.place(), other)
			continue
		}
		first[t.place()] = n
		rec.Attempts = append(rec.Attempts, t)
	}
	_, err := d.ReadToken()
	return err == nil
}

// failRead adds the error that d cannot read the next value or, if that is well formed, that something else
// was wanted.
func (p *parser) failRead(d *jsontext.Decoder, want string) {
	at := p.skipSpace(d.InputOffset())
	if err := d.SkipValue(); err != nil {
		p.fail(max(at, offsetOf(err)), "%w", plainMessage(err))
		return
	}
	p.fail(at, "%s", want)
}

// skipSpace skips white space, a comma and a colon.
func (p *parser) skipSpace(offset int64) int64 {
	for offset < int64(len(p.text)) && bytes.IndexByte([]byte(" \t\r\n,:"), p.text[offset]) >= 0 {
		offset++
	}
	return offset
}

// offsetOf returns the offset of an error of the JSON packages in its input.
func offsetOf(err error) int64 {
	var se *json.SemanticError
	var ye *jsontext.SyntacticError
	switch {
	case errors.As(err, &se):
		return se.ByteOffset
	case errors.As(err, &ye):
		return ye.ByteOffset
	}
	return 0
}

// plainMessage returns err without the names of Go types.
func plainMessage(err error) error {
	var se *json.SemanticError
	var ye *jsontext.SyntacticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &se):
		return fmt.Errorf("unknown key at %s", se.JSONPointer)
	case errors.As(err, &se) && se.Err != nil:
		return fmt.Errorf("%s: %w", pointer(se.JSONPointer), se.Err)
	case errors.As(err, &se):
		return fmt.Errorf("%s: a %s does not fit here", pointer(se.JSONPointer), se.JSONKind)
	case errors.As(err, &ye):
		return ye.Err
	}
	return err
}

func pointer(p jsontext.Pointer) string {
	if p == "" {
		return "value"
	}
	return string(p)
}

// Package secret keeps the keys that Plait holds out of what is written: a Set knows keys, and replaces them in texts
// and streams by ***.
//
// A key is found as it is and as others spell it: in JSON, in URLs, in base64 of a text that contains it, and with line
// breaks inside. Since a text may be cut off, the first half of a long key counts too. Laws:
//
//   - However a stream is divided, what comes out is the same, and has no spelling of a key.
//   - A text without one comes out byte for byte. The number of line feeds never changes.
//
// It reads no environment and knows nothing of agents. Keys are kept in memory only.
package secret

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Least is the length in bytes of the shortest key that is replaced: shorter ones occur in ordinary text.
const Least = 12

// leastPart is the length in bytes of the shortest first half that counts.
const leastPart = 16

// mask is what keys are replaced by.
const mask = "***"

// A Set is a set of keys. Its zero value is an empty set, as is nil. It may be used concurrently.
type Set struct {
	mu    sync.Mutex // held by Add
	keys  []string
	forms atomic.Pointer[forms] // nil: there are no keys
}

// Add adds a key, unless it is shorter than Least.
func (s *Set) Add(key string) {
	key = strings.TrimSpace(key)
	if s == nil || len(key) < Least {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.keys, key) {
		return
	}
	s.keys = append(s.keys, key)
	s.forms.Store(newForms(s.keys))
}

// Empty reports whether there are no keys.
func (s *Set) Empty() bool { return s.load() == nil }

func (s *Set) load() *forms {
	if s == nil {
		return nil
	}
	return s.forms.Load()
}

// Bytes returns text without keys. It does not change text, and returns it if there are none.
func (s *Set) Bytes(text []byte) []byte { return s.replaced(text, false) }

// EvenBytes is like Bytes, but keeps the length: each byte of a key but line feeds becomes a *.
func (s *Set) EvenBytes(text []byte) []byte { return s.replaced(text, true) }

// Text is like Bytes.
func (s *Set) Text(text string) string {
	if s.Empty() {
		return text
	}
	return string(s.replaced([]byte(text), false))
}

func (s *Set) replaced(text []byte, even bool) []byte {
	f := s.load()
	if f == nil {
		return text
	}
	out, _ := f.replace(text, true, even)
	return out
}

// Writer returns a writer that passes text without keys on to w.
func (s *Set) Writer(w io.Writer) *Writer { return &Writer{set: s, to: w} }

// Even returns a writer like Writer's that keeps the length: each byte of a key but line feeds becomes a *.
func (s *Set) Even(w io.Writer) *Writer { return &Writer{set: s, to: w, even: true} }

// A Writer passes on text without keys. It holds back an end that may be the beginning of a key until the next Write
// or Flush. It may be used concurrently.
type Writer struct {
	set  *Set
	to   io.Writer
	even bool

	mu   sync.Mutex
	held []byte
}

// Write passes text on.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.set.load()
	if f == nil {
		return w.to.Write(text)
	}
	all := text
	if len(w.held) > 0 {
		all = append(w.held, text...)
	}
	out, held := f.replace(all, false, w.even)
	if len(out) > 0 {
		if _, err := w.to.Write(out); err != nil {
			return 0, err
		}
	}
	w.held = append([]byte(nil), held...)
	return len(text), nil
}

// Flush passes on what is held back, as the end of the text.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	out, _ := w.set.load().replace(w.held, true, w.even)
	w.held = nil
	_, err := w.to.Write(out)
	return err
}

package dag

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Size is the length of a hash in bytes.
const Size = sha256.Size

// MinPrefix is the shortest prefix of a hash, in hex digits, that users may type.
const MinPrefix = 6

// A Hash is the SHA-256 of an object's bytes, and the object's only name.
// SHA-256 was chosen because anyone can check it with sha256sum.
// The zero Hash names nothing and reads and writes as JSON null.
type Hash [Size]byte

// ErrBadHash is returned for a text that is not the spelling of a hash.
var ErrBadHash = errors.New("not a hash: want 64 lower-case hex digits")

// Sum returns the hash of data.
func Sum(data []byte) Hash { return sha256.Sum256(data) }

// SumText returns the hash of a text, copying only a part of it at a time.
func SumText(text string) Hash {
	d := sha256.New()
	buf := make([]byte, min(len(text), 8<<10))
	for len(text) > 0 {
		n := copy(buf, text)
		d.Write(buf[:n])
		text = text[n:]
	}
	return Hash(d.Sum(nil))
}

// ParseHash reads the one accepted spelling, 64 lower-case hex digits.
func ParseHash(s string) (Hash, error) {
	if h, ok := parse(s); ok {
		return h, nil
	}
	return Hash{}, fmt.Errorf("%q: %w", clip(s), ErrBadHash)
}

// parse reads the spelling of a hash. Half of the bytes of a chain go through it.
func parse[T string | []byte](s T) (h Hash, ok bool) {
	if len(s) != 2*Size {
		return h, false
	}
	bad := byte(0)
	for i := range h {
		high, low := values[s[2*i]], values[s[2*i+1]]
		bad |= high | low
		h[i] = high<<4 | low&15
	}
	if bad > 15 {
		return Hash{}, false
	}
	return h, true
}

// values holds the value of each hex digit, and 0x80 for any other byte.
var values = func() (t [256]byte) {
	for c := range t {
		switch {
		case c >= '0' && c <= '9':
			t[c] = byte(c - '0')
		case c >= 'a' && c <= 'f':
			t[c] = byte(c-'a') + 10
		default:
			t[c] = 0x80
		}
	}
	return t
}()

// clip keeps error texts short when s is a whole file.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// IsZero reports whether h names nothing.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns the full spelling, or "" for the zero Hash.
func (h Hash) String() string {
	if h.IsZero() {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// Short returns the 12 digits that users are shown.
func (h Hash) Short() string {
	if h.IsZero() {
		return ""
	}
	return hex.EncodeToString(h[:6])
}

// MarshalJSON writes the full spelling, or null for the zero Hash.
func (h Hash) MarshalJSON() ([]byte, error) { return h.Append(nil), nil }

// Append appends h as a JSON value: a string, or null for the zero Hash.
func (h Hash) Append(b []byte) []byte {
	if h.IsZero() {
		return append(b, "null"...)
	}
	n := len(b)
	b = append(b, quoted...)
	digits := b[n+1:]
	for i, c := range h {
		// A table of pairs, since states are mostly hashes and are written
		// far more often than anything else.
		digits[2*i], digits[2*i+1] = pairs[c][0], pairs[c][1]
	}
	return b
}

// quoted reserves space for a hash as JSON text.
const quoted = `"0000000000000000000000000000000000000000000000000000000000000000"`

var pairs = func() (t [256][2]byte) {
	const digits = "0123456789abcdef"
	for i := range t {
		t[i] = [2]byte{digits[i>>4], digits[i&15]}
	}
	return t
}()

// UnmarshalJSON accepts what MarshalJSON writes.
func (h *Hash) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*h = Hash{}
		return nil
	}
	if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
		return ErrBadHash
	}
	if v, ok := parse(data[1 : len(data)-1]); ok {
		*h = v
		return nil
	}
	return fmt.Errorf("%q: %w", clip(string(data)), ErrBadHash)
}

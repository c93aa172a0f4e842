package sshsig

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Signers are the people whose signatures count: the lines of an allowed_signers file, see ssh-keygen(1).
type Signers []Signer

// A Signer is one line of Signers.
type Signer struct {
	Principals string // as written: names of people, separated by commas
	Key        ssh.PublicKey
	Namespaces string    // patterns with * and ?, separated by commas; "": any
	After      time.Time // zero: no limit
	Before     time.Time // zero: no limit
}

// ParseSigners reads the text of an allowed_signers file. Lines of certification authorities are checked and left out:
// signatures by certificates are not supported. Errors name the line, counted from 1.
func ParseSigners(text []byte) (Signers, error) {
	var all Signers
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		s, authority, err := parseSigner(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !authority {
			all = append(all, s)
		}
	}
	return all, nil
}

func parseSigner(line string) (s Signer, authority bool, err error) {
	var rest string
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		s.Principals, rest, ok = strings.Cut(quoted, `"`)
		if !ok {
			return s, false, errors.New("a quote is not closed")
		}
	} else if i := strings.IndexAny(line, " \t"); i > 0 {
		s.Principals, rest = line[:i], line[i:]
	}
	if s.Principals == "" {
		return s, false, errors.New("it names nobody")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil {
		return s, false, errors.New("it has no public key after the names")
	}
	s.Key = key
	for _, o := range options {
		name, value, valued := strings.Cut(o, "=")
		if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		switch name = strings.ToLower(name); {
		case name == "cert-authority" && !valued:
			authority = true
		case name == "namespaces" && value != "":
			s.Namespaces = value
		case name == "valid-after":
			s.After, err = parseTime(value)
		case name == "valid-before":
			s.Before, err = parseTime(value)
		default:
			err = fmt.Errorf("unknown option %q", o)
		}
		if err != nil {
			return s, false, err
		}
	}
	if !s.Before.IsZero() && !s.After.Before(s.Before) {
		return s, false, errors.New("valid-after is not before valid-before")
	}
	return s, authority, nil
}

// parseTime reads YYYYMMDD[HHMM[SS]], which is local time, or UTC with a Z.
func parseTime(text string) (time.Time, error) {
	digits, utc := strings.CutSuffix(text, "Z")
	where := time.Local
	if utc {
		where = time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.ParseInLocation(layout, digits, where); err == nil && len(layout) == len(digits) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: YYYYMMDD[HHMM[SS]][Z]", text)
}

// Find returns the names of the people for whom a key signs in a namespace at a time. The error says why it signs for
// nobody, and matches ErrInvalid.
func (list Signers) Find(key ssh.PublicKey, namespace string, at time.Time) (names string, err error) {
	why := "nobody allowed it to sign"
	for _, s := range list {
		switch {
		case !bytes.Equal(s.Key.Marshal(), key.Marshal()):
		case !matches(s.Namespaces, namespace):
			why = fmt.Sprintf("it may sign in %s only, not in %s", s.Namespaces, namespace)
		case at.Before(s.After):
			why = "it was not valid yet"
		case !s.Before.IsZero() && !at.Before(s.Before):
			why = "it was valid no longer"
		default:
			return s.Principals, nil
		}
	}
	return "", fmt.Errorf("%w: of the key %s: %s", ErrInvalid, Fingerprint(key), why)
}

// matches reports whether a list of patterns has one for a namespace; a pattern after ! excludes what it matches.
func matches(patterns, namespace string) bool {
	if patterns == "" {
		return true
	}
	found := false
	for p := range strings.SplitSeq(patterns, ",") {
		p, not := strings.CutPrefix(p, "!")
		// Of the syntax of path.Match, namespaces have no slash, and OpenSSH has only * and ?.
		p = strings.NewReplacer(`\`, `\\`, `[`, `\[`).Replace(p)
		if ok, err := path.Match(p, namespace); ok && err == nil {
			if not {
				return false
			}
			found = true
		}
	}
	return found
}

package dag

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// explain returns what the library says of raw in the words of someone who must correct it: with the line, the
// column, and the key.
func explain(raw []byte, err error) error {
	var bad *jsontext.SyntacticError
	if !errors.As(err, &bad) {
		return errors.New("there is no value") // io.EOF: raw is in memory
	}
	at := int(bad.ByteOffset)
	rest := raw[min(at, len(raw)):]
	switch after := bytes.TrimLeft(rest, ", \t\r\n"); {
	case errors.Is(bad.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%s: duplicate key %q", position(raw, at), clip(bad.JSONPointer.LastToken()))
	case errors.Is(bad.Err, io.ErrUnexpectedEOF):
		err = errors.New("the end is missing")
	case isUnicodeEscape(rest):
		err = fmt.Errorf("%s is half of a character", rest[:6])
	case len(after) > 0 && rest[0] == ',' && (after[0] == '}' || after[0] == ']'):
		err = fmt.Errorf("no value between the comma and %q", after[0])
	default:
		err = bad.Err
	}
	return within(bad.JSONPointer, fmt.Errorf("%s: %w", position(raw, at), err))
}

// isUnicodeEscape reports whether text begins with \u and four digits.
func isUnicodeEscape(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	_, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil
}

// within adds to an error which value it is about.
func within(value jsontext.Pointer, err error) error {
	if value == "" {
		return err
	}
	return fmt.Errorf("%q: %w", clip(string(value[1:])), err)
}

// position describes an offset for people. Columns count characters.
func position(raw []byte, at int) string {
	before := raw[:min(at, len(raw))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1)
}

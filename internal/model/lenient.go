package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// The types of fields of a response. They accept every JSON type that servers use for the field and that
// can only mean one thing; docs/model.md has the table. Anything else is an error, which breaks the answer off.

// A content is a text: a string, or a list of parts. Thoughts may be among the parts.
type content struct{ text, thought string }

func (c *content) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		return nil
	case '"':
		return json.Unmarshal(data, &c.text)
	case '[':
		return c.parts(data)
	}
	return mistyped[content](data)
}

// parts reads a list of parts.
func (c *content) parts(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, one := range list {
		if one[0] == '"' {
			one = encode(object{"type": "text", "text": one})
		}
		var part struct {
			Type     string
			Text     string
			Thinking json.RawMessage
		}
		if err := json.Unmarshal(one, &part); err != nil {
			return err
		}
		switch {
		case part.Type == "text", part.Type == "output_text", part.Type == "" && part.Text != "":
			c.text += part.Text
		case part.Type == "thinking":
			thought, err := thinking(part.Thinking)
			if err != nil {
				return err
			}
			c.thought += thought
		case part.Type == "reference": // says where the text is from
		default:
			return fmt.Errorf("part of a text has the unknown type %.100q", part.Type)
		}
	}
	return nil
}

// thinking reads the thought of a part: a string, or a list of texts.
func thinking(data json.RawMessage) (string, error) {
	var texts []struct{ Text string }
	if len(data) > 0 && data[0] == '"' {
		data = fmt.Appendf(nil, `[{"text":%s}]`, data)
	}
	thought := ""
	if len(data) > 0 {
		if err := json.Unmarshal(data, &texts); err != nil {
			return "", err
		}
	}
	for _, one := range texts {
		thought += one.Text
	}
	return thought, nil
}

// A word is a name, an id, a place in a list or a reason: a string or a number. Null is the empty word.
type word string

func (w *word) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		return nil
	case '"':
		return json.Unmarshal(data, (*string)(w))
	case '{', '[', 't', 'f':
		return mistyped[word](data)
	}
	*w = word(strings.TrimSuffix(string(data), ".0"))
	return nil
}

// An input is the arguments of a call, or a part of them, as JSON: a string that has it, or the object
// itself. None is "".
type input string

func (a *input) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		return nil
	case '"':
		return json.Unmarshal(data, (*string)(a))
	case '{':
		var members map[string]json.RawMessage
		if err := json.Unmarshal(data, &members); err != nil {
			return err
		}
		if len(members) > 0 { // an empty object often precedes the arguments
			*a = input(data)
		}
		return nil
	}
	return mistyped[input](data)
}

// mistyped is the error for a value of a JSON type that a field cannot have.
func mistyped[T any](data []byte) error {
	kind := "number"
	switch data[0] {
	case '{':
		kind = "object"
	case '[':
		kind = "array"
	case 't', 'f':
		kind = "bool"
	}
	return &json.UnmarshalTypeError{Value: kind, Type: reflect.TypeFor[T]()}
}

// decode parses a part of a response. Nothing at all is empty. The error names the field that cannot be read.
func decode(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s is of the JSON type %s", wrong.Field, wrong.Value)
	}
	return err
}

package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The types of fields of a response. They accept the JSON types that servers use for the field and that can only
// mean one thing, and null, which is empty; docs/model.md has the table. Anything else breaks the answer off.

// A content is a text: a string, or a list of parts. Thoughts may be among the parts.
type content struct{ text, thought string }

func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, &c.text)
	}
	var parts []struct {
		Type, Text string
		Thinking   []struct{ Text string }
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		switch part.Type {
		case "text", "output_text":
			c.text += part.Text
		case "thinking":
			for _, thought := range part.Thinking {
				c.thought += thought.Text
			}
		case "reference": // says where the text is from
		default:
			return fmt.Errorf("part of a text has the unknown type %.100q", part.Type)
		}
	}
	return nil
}

// A word is a name, an id, a place in a list or a reason: a string or a number.
type word string

func (w *word) UnmarshalJSON(data []byte) error {
	if data[0] == '-' || data[0] >= '0' && data[0] <= '9' {
		*w = word(strings.TrimSuffix(string(data), ".0"))
		return nil
	}
	return json.Unmarshal(data, (*string)(w))
}

// An input is the arguments of a call, or a part of them, as JSON: a string that has it, or the object itself.
type input string

func (i *input) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(i))
	}
	if len(bytes.TrimSpace(data[1:len(data)-1])) > 0 { // an empty object often precedes the arguments
		*i = input(data)
	}
	return nil
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

package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// JSON returns v as JSON on one line, without the escapes that HTML needs. What has no JSON is as fmt prints it.
func JSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

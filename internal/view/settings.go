package view

import "encoding/json"

// settingsShown are the options that are shown. Others are withheld, since they may be secret.
var settingsShown = []string{"agent", "roles", "limits", "approve", "approveExpires", "offline", "merge", "forge"}

// settings returns the options that a task was started with, without empty ones.
func settings(options json.RawMessage) map[string]any {
	out := map[string]any{}
	var all map[string]any
	if json.Unmarshal(options, &all) != nil {
		return out
	}
	for _, key := range settingsShown {
		if v := nonEmpty(all[key]); v != nil {
			out[key] = v
		}
	}
	return out
}

// nonEmpty returns v without empty parts, nil if nothing is left.
func nonEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, one := range v {
			if one = nonEmpty(one); one != nil {
				out[key] = one
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case string:
		if v == "" || v == "0s" || v == "0" {
			return nil
		}
		return v
	case float64:
		switch {
		case v == 0:
			return nil
		case v == float64(int64(v)):
			return int64(v)
		}
		return v
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

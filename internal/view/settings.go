package view

import "encoding/json"

// settingsShown are the options that are shown. What is not on the list is kept back: it may
// be somebody's secret.
var settingsShown = []string{"agent", "roles", "limits", "approve", "approveExpires", "offline", "merge"}

// settings are the options that a task was started with, those that say something.
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

// nonEmpty returns v without what says nothing, nil when nothing is left.
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

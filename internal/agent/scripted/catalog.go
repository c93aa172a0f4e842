package scripted

// Catalog returns the contents of the file that Codex's setting model_catalog_json names. With it, Codex recognizes
// [Model], offers apply_patch as a tool that takes plain text, and prints no warning.
func Catalog() []byte {
	model := object{
		"slug":                             Model,
		"display_name":                     "Scripted",
		"description":                      "Follows a script of Plait's; no model is asked.",
		"base_instructions":                "You follow a script.",
		"visibility":                       "list",
		"supported_in_api":                 true,
		"priority":                         1,
		"availability_nux":                 nil,
		"upgrade":                          nil,
		"additional_speed_tiers":           []string{},
		"default_reasoning_level":          "low",
		"supported_reasoning_levels":       []object{{"effort": "low", "description": "As the script says"}},
		"default_reasoning_summary":        "auto",
		"supports_reasoning_summaries":     true,
		"support_verbosity":                false,
		"default_verbosity":                nil,
		"shell_type":                       "unified_exec",
		"apply_patch_tool_type":            "freeform",
		"web_search_tool_type":             "text",
		"experimental_supported_tools":     []string{},
		"supports_parallel_tool_calls":     true,
		"supports_search_tool":             false,
		"input_modalities":                 []string{"text"},
		"truncation_policy":                object{"mode": "tokens", "limit": 10_000},
		"context_window":                   272_000,
		"max_context_window":               272_000,
		"effective_context_window_percent": 95,
	}
	return append(encode(object{"models": []object{model}}), '\n')
}

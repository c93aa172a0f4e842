package model

import "testing"

// TestAnswerMost checks what servers say about the length of an answer: a shorter one is asked for before the
// conversation counts as too long.
func TestAnswerMost(t *testing.T) {
	for refusal, want := range map[string]int{
		"input length and `max_tokens` exceed context limit: 100 + 16384 > 8192, decrease input length or " +
			"`max_tokens`": 8092,
		"input length and `max_tokens` exceed context limit: 8100 + 16384 > 8192, decrease input length or " +
			"`max_tokens`": 0,
		"`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the " +
			"`context_window`": 8192,
		"This model's maximum context length is 32768 tokens. However, you requested 100199 tokens (200 in the messages, " +
			"99999 in the completion).": 32568,
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 " +
			"tokens.": 0,
		"max_tokens (99999) exceeds the maximum of 8192 for this " +
			"model": 8192,
		"max_tokens: 99999 > 64000, which is the maximum allowed " +
			"number": 64000,
		"max_completion_tokens is too large: 99999, at most 16384 " +
			"completion": 16384,
		"prompt is too long: 200001 tokens > 200000 " +
			"maximum": 0,
	} {
		if got := answerMost(refusal); got != want {
			t.Errorf("%s: %d, want %d", refusal, got, want)
		}
	}
}

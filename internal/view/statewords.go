package view

import (
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
)

// needsYouWord is DisplayNeedsYou spelled as a command line argument.
const needsYouWord = "needs-you"

// displayWords maps the word for each display state to the statuses that can be shown as it.
var displayWords = map[string][]store.Status{
	string(DisplayQueued):    {store.Pending},
	string(DisplayRunning):   {store.Running},
	needsYouWord:             {store.Pending, store.Running, store.Blocked},
	string(DisplayDone):      {store.Completed},
	string(DisplayFailed):    {store.Failed, store.Blocked},
	string(DisplayCancelled): {store.Cancelled},
}

// StateWords lists the words by which lists can be filtered: display states, then stored statuses,
// then states, if any.
func StateWords(states ...string) []string {
	out := []string{string(DisplayQueued), string(DisplayRunning), needsYouWord, string(DisplayDone),
		string(DisplayFailed), string(DisplayCancelled)}
	for _, s := range append([]string{string(store.Pending), string(store.Blocked), string(Interrupted),
		string(store.Completed)}, states...) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// normalWord normalizes a word that a person typed: "needs you" becomes one word.
func normalWord(word string) string {
	return strings.ReplaceAll(strings.ToLower(word), " ", "-")
}

// isDisplayed reports whether d is in the display state word.
func isDisplayed(word string, d Display) bool { return normalWord(string(d.State)) == word }

// statusesOf returns the statuses that can be shown as word, nil for any.
func statusesOf(word string) []store.Status {
	switch {
	case word == "":
		return nil
	case word == string(Interrupted):
		return []store.Status{store.Running}
	case displayWords[word] != nil:
		return displayWords[word]
	}
	return []store.Status{store.Status(word)}
}

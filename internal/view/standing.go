package view

import (
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/store"
)

// needsYouWord is DisplayNeedsYou as one word of a command line.
const needsYouWord = "needs-you"

// displayWords are the words for how something is displayed, each with the statuses that it may be stored with.
var displayWords = map[string][]store.Status{
	string(DisplayQueued):    {store.Pending},
	string(DisplayRunning):   {store.Running},
	needsYouWord:             {store.Pending, store.Running, store.Blocked},
	string(DisplayDone):      {store.Completed},
	string(DisplayFailed):    {store.Failed, store.Blocked},
	string(DisplayCancelled): {store.Cancelled},
}

// Standings lists the words by which lists are filtered: those that are displayed, then those that are
// stored. states, if any, come last.
func Standings(states ...string) []string {
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

// standing is a word as a person wrote it, in one spelling: "needs you" is one word.
func standing(word string) string {
	return strings.ReplaceAll(strings.ToLower(word), " ", "-")
}

// isDisplayed reports whether d is what a word says.
func isDisplayed(word string, d Display) bool { return standing(string(d.State)) == word }

// storedAs returns the statuses that something in a displayed state may be stored with, nil for any.
func storedAs(word string) []store.Status {
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

//go:build race

package verify_test

// share is which part of the damage is tried: one in so many. The detector makes
// each trial five to ten times slower, and a trial with it is like the next one.
// The tests run all of the damage without it too.
const share = 12

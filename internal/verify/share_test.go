//go:build !race

package verify_test

// share is which part of the damage is tried: one in so many, here all of it.
const share = 1

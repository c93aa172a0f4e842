//go:build !race

package gc_test

// sequencesTried is how many sequences TestBesideProcesses tries.
const sequencesTried = 500

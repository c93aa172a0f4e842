//go:build race

package gc_test

// sequencesTried is small here: see the Makefile for where all are tried.
const sequencesTried = 40

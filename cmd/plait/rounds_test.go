//go:build !race

package main

// killRounds is how often TestKillAnywhere goes through a flow.
const killRounds = 40

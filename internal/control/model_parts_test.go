//go:build !race

package control

// modelParts is how many parts TestModel has: 2,100 sequences in all.
const modelParts = 21

// crashStride is how many commits lie between two crashes that are tried.
const crashStride = 1

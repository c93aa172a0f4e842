package git

// CopyIndex is for the test of what cannot be had on demand: two writes in one
// instant.
var CopyIndex = copyIndex

// Package dag defines what a node is: a type, a payload and the hashes it refers
// to, spelled in exactly one way and named by the SHA-256 of that spelling.
//
// It turns payloads into canonical bytes and hashes, and back. A node is
//
//	{"payload":…,"refs":["<hash>",…],"type":"<type>"}
//
// in the canonical form of RFC 8785 (JCS). Laws:
//
//   - One spelling per value: what decodes encodes to the same bytes.
//   - Refs are derived: they follow from type and payload by the table in
//     refs.go. The one exception is content, whose refs the caller gives.
//   - Unknown payload keys are kept; unknown types and top-level keys are refused.
//   - Walks are iterative: a chain of a million nodes needs no stack.
//
// The package is pure. It never reads a file, a clock or a network, and knows
// neither threads nor stores.
package dag

// Package servertest tests the engine on Temporal's real server.
//
// The server is used as a library, keeps its state in memory, and listens on 127.0.0.1. This is a separate module
// because the server has 450 others, which take minutes to build: make temporal, and make soak.
package servertest

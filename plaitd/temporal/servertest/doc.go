// Package servertest tries the engine on Temporal's real server.
//
// The server is used as a library, its state is in memory, and it listens on 127.0.0.1. The module is one of its own
// because the server has 450 others, which take minutes to build: make temporal, and make soak.
package servertest

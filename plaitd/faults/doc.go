// Package faults has only tests: what a store in Postgres, with a bucket next to it, does
// when the network, the server, its disk, its clock, the bucket or another host fails.
// Short rounds run with the other tests; make soak has the long ones.
package faults

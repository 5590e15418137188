//go:build tools

package main

// A program of its own, named here so that go.mod pins its version.
import _ "sigs.k8s.io/jobset"

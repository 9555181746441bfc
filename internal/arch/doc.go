// Package arch holds the project to its own plan: which room may import which,
// what every package says about itself, and that the documents name tests that
// exist. It reads source files and runs nothing; its tests are the point.
//
// What belongs here: checks over the source tree as a whole. Who may import it:
// nobody. It imports the standard library alone.
package arch

// Command bench compares Slicewire with what a user would take instead, at the
// sizes it is made for, and says which goals hold. Run it from anywhere in the
// repository:
//
//	go run ./internal/bench [-quick] [-json FILE] [-only REGEXP]
//
// The comparison itself is ./compare, a module of its own: one of the peers
// needs a dependency that users of the SDK shall not inherit. This command
// builds and runs it, hands its arguments on, and exits as it does.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

const compare = "github.com/slicewire/slicewire/internal/bench"

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	list := exec.Command("go", "list", "-f", "{{.Dir}}", compare)
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return 2, fmt.Errorf("go list does not find %s; run this inside the Slicewire repository: %w", compare, err)
	}
	tmp, err := os.MkdirTemp("", "slicewire-bench")
	if err != nil {
		return 2, err
	}
	defer os.RemoveAll(tmp)
	// Built, not run by go run -C: file names among the arguments are relative to
	// the directory the user is in. The tag adds what only the comparison needs.
	binary := filepath.Join(tmp, "compare")
	build := exec.Command("go", "build", "-C", filepath.Join(strings.TrimSpace(string(dir)), "compare"), "-tags", "hardwired", "-o", binary, ".")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return 2, fmt.Errorf("building the comparison: %w", err)
	}
	comparison := exec.Command(binary, args...)
	// An interrupt goes to both; this one stays to clean up.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	comparison.Stdin, comparison.Stdout, comparison.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	switch err := comparison.Run(); {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), nil
	case err != nil:
		return 2, err
	}
	return 0, nil
}

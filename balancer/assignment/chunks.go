package assignment

import (
	"context"
	"errors"
	"fmt"
)

// Decode makes an Assignment of the chunks of one logical assignment, in order,
// each the bytes of a response as it came off the wire; other responses among
// them are ignored. It does what a Watcher does with a stream, for tests,
// benchmarks and tools that have the bytes and no stream. message is what the
// ack would say.
func Decode(generation int64, revision Revision, chunks ...[]byte) (a *Assignment, message string, err error) {
	asm := &assembler{maxBytes: defaultMaxAssignmentBytes}
	for i, c := range chunks {
		if _, _, err := asm.frame(c); err != nil {
			return nil, "", fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	a, message = asm.build(context.Background(), generation, revision)
	if a == nil {
		return nil, message, fmt.Errorf("%w: %w", errRefused, errors.New(message))
	}
	return a, message, nil
}

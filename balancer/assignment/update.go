package assignment

import "time"

// Update is one answer of the sharding service, and what became of it. It holds no
// key.
type Update struct {
	ShardingTarget string
	Generation     int64
	// Result is "accepted", "stale", "superseded" or "invalid".
	Result string
	// Err is what is wrong with it, also where it was accepted with faults.
	Err error
	// Build is how long it took to check and to index; 0 where that was not begun.
	Build time.Duration
	// Slices, Uncovered, Endpoints and Bytes are of one that was put in force.
	// Uncovered counts the slices without an owner.
	Slices, Uncovered, Endpoints, Bytes int
}

// Observer is told of each answer of the sharding service, in order, by the goroutine
// that decides on it and without a lock.
type Observer interface{ Updated(Update) }

func update(target string, d decision) Update {
	u := Update{ShardingTarget: target, Generation: d.ack.GetGeneration(), Result: d.verdict.String(), Err: d.err, Build: d.took}
	if a := d.publish; a != nil {
		u.Slices, u.Uncovered, u.Endpoints, u.Bytes = a.Slices(), a.uncovered, len(a.Endpoints), a.Bytes()
	}
	return u
}

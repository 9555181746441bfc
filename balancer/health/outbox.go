package health

import "sync"

// outbox delivers items in order, outside all locks, by a goroutine that exists
// while there are any. put starts it, an empty box ends it, Registry.Close waits.
type outbox[T any] struct {
	deliver func(T)
	limit   int             // items waiting
	wg      *sync.WaitGroup // the registry's

	mu      sync.Mutex // guards what follows
	items   []T
	running bool
}

// put never blocks. It is false if the item is left out. The caller holds the
// registry's lock and has seen that it is open, so that wg is still waited for.
func (o *outbox[T]) put(item T) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.items) >= o.limit {
		return false
	}
	o.items = append(o.items, item)
	if !o.running {
		o.running = true
		o.wg.Add(1)
		go o.run()
	}
	return true
}

func (o *outbox[T]) run() {
	defer o.wg.Done()
	empty := false
	defer func() {
		if !empty { // deliver ended the goroutine (runtime.Goexit); the rest is still due
			o.wg.Add(1)
			go o.run()
		}
	}()
	for {
		item, ok := o.next()
		if !ok {
			empty = true
			return
		}
		o.deliver(item)
	}
}

func (o *outbox[T]) next() (item T, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.items) == 0 {
		o.items, o.running = nil, false
		return item, false
	}
	var none T
	item, o.items[0] = o.items[0], none
	o.items = o.items[1:]
	return item, true
}

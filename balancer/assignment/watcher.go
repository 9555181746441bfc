package assignment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Watcher keeps the last good assignment of one sharding target at a time. It
// owns the channel to the sharding service, the client on it, the initial
// timeout and the published State. All methods may be called concurrently.
//
// NewWatcher starts one goroutine, which makes channels and clients; each
// client has one more, and one that builds while it has a stream. Close ends and
// awaits them all, in the midst of a build too.
type Watcher struct {
	options  Options
	onChange func()
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has returned
	wake     chan struct{} // capacity 1: something is wanted

	published atomic.Pointer[State] // stored under mu, loaded by State

	mu     sync.Mutex // guards what follows
	closed bool       // nothing is published any more
	// unsaid is a change of State by Configure that the goroutine is to announce.
	unsaid bool
	// wanted is the newest Configure, nil before the first and after Suspend.
	wanted *Config
	// suspended says that Suspend came since the goroutine looked last: what runs is to
	// end, also if something is wanted again.
	suspended bool
	provider  Provider
	facts     standing
	counts    Status // of it, what facts and options do not say
	// staleSince is when the last stream ended that lived or spoke; zero before
	// the Watcher was configured.
	staleSince time.Time
	spoke      bool // the stream that is open has sent an assignment
	// charge is the client whose results count, nil without one.
	charge *client

	// Of the goroutine:
	channel       *channel
	current       *client
	initial       *time.Timer
	initialFrom   time.Time
	retry         *time.Timer
	failedChannel int // provider calls in a row that failed
}

// channel is one channel of the provider.
type channel struct {
	key     string
	cc      grpc.ClientConnInterface
	release func()
}

// NewWatcher makes a Watcher that waits for Configure. onChange, which may be
// nil, is called after every change of State, from the Watcher's goroutines,
// perhaps two at once; it must not call Close, and must not wait for anything
// that waits for Close.
func NewWatcher(opts Options, onChange func()) *Watcher {
	if onChange == nil {
		onChange = func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{
		options:  opts.withDefaults(),
		onChange: onChange,
		cancel:   cancel,
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		initial:  stoppedTimer(),
		retry:    stoppedTimer(),
	}
	w.published.Store(&State{})
	go w.run(ctx)
	return w
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// Configure says what to watch. It returns at once; the channel is made on the
// Watcher's goroutine. An equal Config changes nothing, except that a provider
// call that failed is tried again now. After Close it does nothing.
func (w *Watcher) Configure(cfg Config, p Provider) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.wanted, w.provider = &cfg, p
	w.facts.resume()
	if !w.facts.configured {
		w.staleSince = time.Now()
		w.counts.StreamSince = w.staleSince
	}
	if w.charge == nil {
		w.facts.configured, w.facts.config = true, cfg
		w.unsaid = w.publish() || w.unsaid
	}
	w.wakeUp()
}

// Suspend ends what Configure began, the stream and the use of its channel, until
// the next Configure, which starts with a new channel and at generation 0. It returns
// at once. The State is Unconfigured meanwhile; the last good assignment is kept and
// in force again with that Configure, as over a change of target (field case AP-11:
// callers that come back must not wait for the sharding service).
func (w *Watcher) Suspend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.wanted == nil {
		return
	}
	w.wanted, w.provider = nil, nil
	w.suspended = true
	w.disconnected()
	w.charge = nil // what the client still sees is nobody's
	w.staleSince = time.Time{}
	w.facts.suspend()
	w.unsaid = w.publish() || w.unsaid
	w.wakeUp()
}

func (w *Watcher) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// State is what is in force: one atomic load, never nil. After Close it stays as
// it was.
func (w *Watcher) State() *State { return w.published.Load() }

// Close ends the stream, then releases the channel, and waits for all that the
// Watcher started. No onChange comes after it returned. Further calls wait for
// the first.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.disconnected()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	<-w.done
}

// update changes facts under the lock and publishes what they come to. It is
// called on the Watcher's goroutines, all of which Close waits for.
func (w *Watcher) update(change func()) {
	w.mu.Lock()
	changed := false
	if !w.closed {
		change()
		changed = w.publish()
	}
	w.mu.Unlock()
	if changed {
		w.onChange()
	}
}

// publish stores what the facts come to and says whether that is news. Called
// under mu.
func (w *Watcher) publish() bool {
	state := w.facts.state()
	if !state.differs(w.published.Load()) {
		return false
	}
	w.published.Store(state)
	return true
}

func (w *Watcher) run(ctx context.Context) {
	defer close(w.done)
	defer w.shutdown()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			w.reconcile(ctx)
		case <-w.retry.C:
			w.reconcile(ctx)
		case <-w.initial.C:
			w.expire()
		}
	}
}

// shutdown ends the client and then releases its channel, if there are any.
func (w *Watcher) shutdown() {
	w.initial.Stop()
	w.retry.Stop()
	w.failedChannel = 0
	if w.current != nil {
		w.current.close()
	}
	if w.channel != nil {
		w.channel.release()
	}
	w.current, w.channel = nil, nil
}

// reconcile makes the running client the wanted one.
func (w *Watcher) reconcile(ctx context.Context) {
	w.mu.Lock()
	wanted, provider := w.wanted, w.provider
	ends := w.suspended
	w.suspended = false
	unsaid := w.unsaid && !w.closed
	w.unsaid = false
	w.mu.Unlock()
	if unsaid {
		w.onChange()
	}
	w.retry.Stop()
	if ends {
		w.shutdown()
		w.options.Logger.Info("the sharding service is not watched any more")
	}
	if wanted == nil {
		return
	}
	want := *wanted

	old := w.channel
	if old == nil || old.key != want.ChannelKey {
		made, err := makeChannel(want, provider)
		if ctx.Err() != nil {
			if err == nil {
				made.release()
			}
			return
		}
		if err != nil {
			// The old client, if any, goes on serving (field case LL-04).
			w.channelFailed(err)
			return
		}
		w.channel = made
	}
	w.failedChannel = 0
	if w.channel == old && w.current.target == want.Target {
		w.adjust(want)
		return
	}
	w.replaceClient(want, old)
}

// replaceClient starts a client on w.channel, and ends the one before. The
// order is A119's: new channel, new client, then the old client is closed, then
// the old channel released.
func (w *Watcher) replaceClient(want Config, oldChannel *channel) {
	if w.channel != oldChannel {
		w.initialFrom = time.Now()
		w.initial.Reset(want.initialTimeout())
	}
	oldClient := w.current
	w.update(func() {
		if w.suspended {
			return
		}
		if w.channel != oldChannel {
			w.facts.newChannel(want.Revision)
		}
		w.facts.providerErr = nil
		w.facts.newClient(want)
		w.disconnected()
		// From here a late result of the old client is nobody's. Under the
		// lock, so that the new one's first result waits until it counts.
		w.current = newClient(w.channel.cc, want.Target, want.Revision, w.options, w)
		w.charge = w.current
	})
	if w.current == oldClient {
		// Closed or suspended meanwhile. The old client and channel are shutdown's to end.
		if w.channel != oldChannel {
			w.channel.release()
			w.channel = oldChannel
		}
		return
	}
	w.options.Logger.Info("watching the sharding service", "channel_key", want.ChannelKey, "sharding_target", want.Target, "revision", want.Revision.String())
	if oldClient != nil {
		oldClient.close()
	}
	if oldChannel != nil && oldChannel != w.channel {
		oldChannel.release()
	}
}

// adjust applies what does not need another client.
func (w *Watcher) adjust(want Config) {
	w.current.setRevision(want.Revision)
	w.update(func() {
		if w.suspended {
			return
		}
		w.facts.providerErr = nil
		if !w.facts.expired && w.facts.config.initialTimeout() != want.initialTimeout() {
			w.initial.Reset(time.Until(w.initialFrom.Add(want.initialTimeout())))
		}
		w.facts.config = want
	})
}

// makeChannel calls the provider. It runs without a lock: it is user code.
func makeChannel(c Config, provider Provider) (*channel, error) {
	if provider == nil {
		return nil, channelError(c, errors.New("there is no provider of channels"))
	}
	cc, release, err := provider(c.ChannelKey)
	if release == nil {
		release = func() {}
	}
	if err == nil && cc == nil {
		release()
		err = errors.New("the provider returned neither a channel nor an error")
	}
	if err != nil {
		return nil, channelError(c, err)
	}
	return &channel{key: c.ChannelKey, cc: cc, release: release}, nil
}

func channelError(c Config, err error) error {
	return fmt.Errorf("no channel to the sharding service %s: %w; check the channel key and the ClientConnProvider, which is asked again with backoff and on the next config update",
		c.names(), err)
}

func (w *Watcher) channelFailed(err error) {
	wait := delay(w.options.Backoff, w.failedChannel, rand.Float64())
	w.failedChannel++
	w.retry.Reset(wait)
	w.options.Logger.Warn("the channel provider failed", "error", err, "retry_after", wait)
	w.update(func() {
		if w.suspended {
			return
		}
		w.facts.providerErr = err
		w.counts.LastError = err.Error()
	})
}

// expire is the end of the initial timeout.
func (w *Watcher) expire() {
	w.update(func() {
		if w.suspended {
			return
		}
		w.facts.expired = true
		w.facts.waited = w.facts.config.initialTimeout()
	})
	if s := w.State(); s.Phase == Failed {
		c := w.Status()
		w.options.Logger.Warn("the initial assignment timeout has passed", "channel_key", c.ChannelKey, "sharding_target", c.Target, "error", s.Err)
	}
}

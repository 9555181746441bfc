package balancer

import "google.golang.org/grpc/connectivity"

// ConnectionStates counts the connections of one endpoint by what they do.
type ConnectionStates struct {
	// Ready take new RPCs.
	Ready int
	// Connecting, Idle and Failing are on their way, wait for an RPC that wants them,
	// or are tried again after a backoff.
	Connecting, Idle, Failing int
	// Draining get no new RPC and are closed when theirs have ended.
	Draining int
	// Streams are the RPCs in flight, but for DrainingStreams, which are those on
	// connections that drain. RPCs that began before the settings had RPCs counted by
	// connection are in neither; EndpointStatus.Pending has all of them.
	Streams, DrainingStreams int
}

// ConnectionCounts count what became of connections since the Router was made.
type ConnectionCounts struct {
	// Opened counts connections that were made.
	Opened uint64
	// Closed counts those that have ended, by reason: "scale_down" (too few RPCs, or
	// settings that allow fewer), "max_age", "unresponsive", "removed" (its endpoint
	// or its address has left, or the channel was closed or idle), "lost" (not our doing).
	Closed map[string]uint64
	// ScaledUp counts connections that were opened, or used again, because all others
	// were full, ScaledDown those that began to drain, Reused those of them that were
	// used again before they were closed.
	ScaledUp, ScaledDown, Reused uint64
	// Unresponsive counts connections that were found so.
	Unresponsive uint64
}

func (t *connectionTotals) counts() ConnectionCounts {
	c := ConnectionCounts{
		Opened: t.opened.Load(), Closed: make(map[string]uint64, closeReasons),
		ScaledUp: t.scaledUp.Load(), ScaledDown: t.scaledDown.Load(), Reused: t.reused.Load(),
		Unresponsive: t.unresponsive.Load(),
	}
	for r := closedByScaling; r < closeReasons; r++ {
		c.Closed[closeReasonNames[r]] = t.closed[r].Load()
	}
	return c
}

// connectionStates counts ep's connections.
func (ep *endpoint) connectionStates() ConnectionStates {
	pl := &ep.pool
	pl.mu.Lock()
	defer pl.mu.Unlock()
	var s ConnectionStates
	for _, c := range pl.conns {
		n := int(max(0, c.active.Load()))
		if c.leaving != inUse {
			s.Draining++
			s.DrainingStreams += n
			continue
		}
		s.Streams += n
		switch c.state.ConnectivityState {
		case connectivity.Ready:
			s.Ready++
		case connectivity.Connecting:
			s.Connecting++
		case connectivity.Idle:
			s.Idle++
		default:
			s.Failing++
		}
	}
	if !pl.limits.counted() && s.Draining == 0 {
		s.Streams = ep.member.Pending()
	}
	return s
}

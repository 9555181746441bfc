package sdk

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/telemetry"
)

// Option changes what Dial makes. Options are values: one may be used for
// several clients, and Dial keeps nothing that the caller may change later.
type Option func(*settings)

// settings is what the options of one Dial add up to.
type settings struct {
	credentials   credentials.TransportCredentials
	dialOptions   []grpc.DialOption
	serviceConfig string
	resolvers     []resolver.Builder

	sharding *Sharding
	services map[string]shardingService
	provider balancer.ClientConnProvider
	key      []interceptors.KeyOption

	selectors        []namedPolicy
	selectorByMethod map[string]string
	header           string // of WithKeyHeader

	router balancer.RouterOptions

	// What follows is the client's, and not a profile's.

	drainTimeout        time.Duration
	groups              []GroupConfig
	topology            *Topology
	groupByMethod       map[string]string
	refuseUnknownGroups bool
	monitor             *health.Options
	profileOptions      []namedOptions
	profiles            map[string]*settings // by name, the client's own being ""

	// What a configuration adds to the client's, and to each profile's.

	isConfigured        bool
	configuredServices  []configsource.ShardingService
	configuredTargets   []TargetConfig
	configuredGroups    []GroupConfig
	configuredSelectors []namedPolicy

	// source is where the configuration comes from, sourceName what it is called;
	// sourced says that code has chosen, be it none.
	source     configsource.Source
	sourceName string
	sourceKind string // as telemetry calls it
	sourced    bool

	// grouped says that the client has groups of targets, not a single one.
	grouped bool

	telemetry        telemetry.Options
	withoutTelemetry bool

	clientWide []string // options that were used and that a profile must not have
	problems   []error  // that only the option itself can see
}

// shardingService is a channel that code declared.
type shardingService struct {
	target      string
	dialOptions []grpc.DialOption
	// configured is what a configuration says of it, zero for one of code.
	configured configsource.ShardingService
}

// DefaultDrainTimeout is how long Close waits for RPCs in flight unless
// WithDrainTimeout says otherwise.
const DefaultDrainTimeout = 10 * time.Second

// present returns list without its nils. Each of them is a problem, of what, for
// Dial to report: gRPC would crash.
func present[T any](s *settings, what string, list []T) []T {
	var kept []T
	for i, v := range list {
		if any(v) == nil {
			s.problems = append(s.problems, fmt.Errorf("%s %d is nil", what, i+1))
			continue
		}
		kept = append(kept, v)
	}
	return kept
}

func newSettings(opts []Option) *settings {
	s := &settings{
		services:     make(map[string]shardingService),
		drainTimeout: DefaultDrainTimeout,
	}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	return s
}

// Sharding says how RPCs are routed by key (gRFC A119, load balancing
// configuration). A service config from the name resolver that names
// "autosharding_experimental" or "slicewire" takes its place; it can only use
// channel keys that code declares.
type Sharding struct {
	// ServiceKey names the channel to the sharding service: a key declared by
	// WithShardingService, or one that the provider of WithClientConnProvider
	// knows. Required.
	ServiceKey string
	// Target is what the sharding service is asked to shard. The first "%s" in it
	// is replaced by the locality, if the resolver gives one. Required.
	Target string
	// KeyHeader is the request header that carries the key, upper and lower case
	// being the same. Keys that are not printable ASCII need a name that ends in
	// "-bin". Required.
	KeyHeader string
	// Fallback lets an RPC go to any endpoint when nobody serves its slice, or
	// when there is no assignment after InitialTimeout. Off, such RPCs fail with
	// UNAVAILABLE.
	Fallback bool
	// InitialTimeout bounds the wait for the first assignment. Zero means 60 s.
	InitialTimeout time.Duration
	// Revision is the draft of A119 to follow; zero means 2026-08.
	Revision assignment.Revision
}

// config is the LB policy's form of s.
func (s *Sharding) config() *balancer.Config {
	return &balancer.Config{
		ChannelFactoryKey:        s.ServiceKey,
		SlicingTarget:            s.Target,
		KeyHeader:                s.KeyHeader,
		EnableFallback:           s.Fallback,
		InitialAssignmentTimeout: s.InitialTimeout,
		Revision:                 s.Revision,
	}
}

// validate reports every fault of s, which may be nil.
func (s *Sharding) validate() error {
	if s == nil {
		return nil
	}
	var problems []error
	fault := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("WithSharding: "+format, args...))
	}
	if s.ServiceKey == "" {
		fault("ServiceKey is empty; it names the channel to the sharding service that WithShardingService declares")
	}
	if s.Target == "" {
		fault("Target is empty; it is what the sharding service is asked to shard")
	}
	if _, err := callinfo.ParseHeader(s.KeyHeader); err != nil {
		fault("KeyHeader: %w", err)
	}
	if s.InitialTimeout < 0 {
		fault("InitialTimeout is %v; it must be above 0, or 0 for 60 s", s.InitialTimeout)
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if _, err := balancer.ParseConfig(s.config().JSON()); err != nil {
		fault("%w", err)
	}
	return errors.Join(problems...)
}

// WithSharding routes RPCs by key.
func WithSharding(sh Sharding) Option {
	return func(s *settings) { s.sharding = &sh }
}

// WithShardingService declares the channel key, once, and how to reach the
// sharding service behind it. opts are those of its own channel, credentials and
// resolvers included; none are inherited. A service config can name declared keys
// and no others.
//
// Dial refuses a target such as "dsn:///host:1" whose scheme has no resolver,
// neither registered nor in opts: gRPC would look the whole of it up in DNS.
func WithShardingService(key, target string, opts ...grpc.DialOption) Option {
	opts = append([]grpc.DialOption(nil), opts...)
	return func(s *settings) {
		if _, twice := s.services[key]; twice {
			s.problems = append(s.problems, fmt.Errorf("WithShardingService: key %q is declared twice; use a key for each service", key))
		}
		s.services[key] = shardingService{target: target, dialOptions: present(s, fmt.Sprintf("WithShardingService: key %q: dial option", key), opts)}
	}
}

// WithClientConnProvider sets what makes channels to sharding services whose
// keys WithShardingService does not declare (gRFC A119, channel factory).
func WithClientConnProvider(p balancer.ClientConnProvider) Option {
	return func(s *settings) { s.provider = p }
}

// WithTransportCredentials sets how connections to endpoints are secured. Leaving
// it out is an error; plaintext has to be asked for with
// insecure.NewCredentials().
func WithTransportCredentials(c credentials.TransportCredentials) Option {
	return func(s *settings) { s.credentials = c }
}

// WithDialOptions passes options to grpc.NewClient, interceptors and stats
// handlers among them. Resolvers and default service configs do not go here: use
// WithResolvers and WithServiceConfig, so that the client can join its own parts
// to them.
//
// The client gives a call its key before these interceptors run. They see the
// key, and do not see calls that are refused for want of one: those a stub's own
// wrapper, or the caller, has to count and log.
func WithDialOptions(opts ...grpc.DialOption) Option {
	opts = append([]grpc.DialOption(nil), opts...)
	return func(s *settings) {
		s.dialOptions = append(s.dialOptions, present(s, "WithDialOptions: dial option", opts)...)
	}
}

// WithServiceConfig sets a service config, as JSON, for when the name resolver
// gives none: retries and timeouts by method ("methodConfig"). A
// "loadBalancingConfig" in it is treated as one from the resolver, save that
// beside WithSharding Dial refuses one for another policy, such as round_robin,
// since no call would be routed by it.
func WithServiceConfig(js string) Option {
	return func(s *settings) { s.serviceConfig = js }
}

// WithResolvers adds name resolvers for this client, before those registered
// with gRPC.
func WithResolvers(rs ...resolver.Builder) Option {
	rs = append([]resolver.Builder(nil), rs...)
	return func(s *settings) { s.resolvers = append(s.resolvers, present(s, "WithResolvers: resolver", rs)...) }
}

// WithKeyOptions says where a call's key comes from when its context has none
// (interceptors.KeyFrom), and whether a call may have none
// (interceptors.KeyOptional). By default a key is required and comes from
// interceptors.WithKey or the key header. Used twice, the last counts.
func WithKeyOptions(opts ...interceptors.KeyOption) Option {
	opts = append([]interceptors.KeyOption(nil), opts...)
	return func(s *settings) { s.key = opts }
}

// WithLogger sets where the client logs. By default it does not. Records hold no
// keys. Of a storm of records with one message the first 20 come through, then one a
// second, which says how many were left out.
func WithLogger(l *slog.Logger) Option {
	if l != nil {
		l = slog.New(telemetry.LimitLogs(l.Handler()))
	}
	return func(s *settings) { s.router.Logger = l }
}

// WithKeepLastEndpoints keeps the last endpoints in use when the name resolver
// gives an empty list. By default RPCs fail until it gives some (gRFC A119).
func WithKeepLastEndpoints() Option {
	return func(s *settings) { s.router.KeepLastEndpoints = true }
}

// WithReassignedFunc sets a function that is told which key ranges changed
// hands. It runs on a goroutine of its own and must return before Close can.
func WithReassignedFunc(f func(balancer.Reassignment)) Option {
	return func(s *settings) { s.router.OnReassigned = f }
}

// ShardingStream is how the client keeps in touch with the sharding service.
// Zero values mean the defaults.
type ShardingStream struct {
	// Backoff is used while streams end without a good assignment. Default: 1 s,
	// growing by 1.6 to 120 s, with jitter 0.2 (gRPC connection backoff).
	Backoff backoff.Config
	// MinGap is the least time between the starts of two streams. Default 1 s.
	MinGap time.Duration
	// RefreshInterval replaces a stream that has been silent for so long, give or
	// take 10%, for services behind proxies that keep dead streams open. Default:
	// never.
	RefreshInterval time.Duration
	// MaxAssignmentBytes bounds what is buffered for one assignment. Default 256
	// MiB.
	MaxAssignmentBytes int
	// MaxMessageBytes bounds one message. Default 16 MiB.
	MaxMessageBytes int
}

// WithShardingStream changes how the client keeps in touch with the sharding
// service.
func WithShardingStream(st ShardingStream) Option {
	return func(s *settings) {
		s.router.Assignment = assignment.Options{
			Backoff:            st.Backoff,
			MinStreamGap:       st.MinGap,
			RefreshInterval:    st.RefreshInterval,
			MaxAssignmentBytes: st.MaxAssignmentBytes,
			MaxMessageBytes:    st.MaxMessageBytes,
		}
	}
}

// WithDrainTimeout bounds how long Close waits for RPCs in flight. Zero does not
// wait.
func WithDrainTimeout(d time.Duration) Option {
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithDrainTimeout")
		s.drainTimeout = d
	}
}

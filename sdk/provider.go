package sdk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
)

// channelProvider is A119's channel factory over the keys that code declared,
// then over the user's provider. A service config can point the client at no
// other sharding service.
func (s *settings) channelProvider() balancer.ClientConnProvider {
	return func(key string) (grpc.ClientConnInterface, func(), error) {
		if svc, ok := s.services[key]; ok {
			cc, err := svc.dial(key)
			if err != nil {
				return nil, nil, err
			}
			return cc, func() { _ = cc.Close() }, nil
		}
		if s.provider != nil {
			return s.provider(key)
		}
		return nil, nil, s.unknownKey(key)
	}
}

func (svc shardingService) dial(key string) (*grpc.ClientConn, error) {
	cc, err := grpc.NewClient(svc.target, svc.dialOptions...)
	if err != nil {
		return nil, fmt.Errorf("channel to the sharding service with key %q at %q: %w", key, svc.target, explainCredentials(err, "WithShardingService"))
	}
	return cc, nil
}

// check reports a target that gRPC takes and nobody can reach.
func (svc shardingService) check(key string) error {
	cc, err := svc.dial(key) // does no I/O
	if err != nil {
		return err
	}
	// What gRPC made of it tells whether its dial options bring a resolver.
	taken := cc.CanonicalTarget()
	_ = cc.Close()
	if err = checkDNS(taken); err == nil {
		if scheme, _, ok := strings.Cut(svc.target, "://"); ok && scheme != "dns" && strings.HasPrefix(taken, "dns:") {
			err = fmt.Errorf("no resolver is registered for the scheme %q; add one with grpc.WithResolvers in its dial options", scheme)
		}
	}
	if err != nil {
		err = fmt.Errorf("WithShardingService: key %q and target %q: %w", key, svc.target, err)
	}
	return err
}

func (s *settings) unknownKey(key string) error {
	declared := "none is declared"
	if len(s.services) > 0 {
		declared = "declared are " + strings.Join(slices.Sorted(maps.Keys(s.services)), ", ")
	}
	return fmt.Errorf("no channel is declared for the sharding service key %q (%s); add sdk.WithShardingService(%q, address) or sdk.WithClientConnProvider", key, declared, key)
}

// validate reports every fault of the settings at once.
func (s *settings) validate() error {
	problems := slices.Clone(s.problems)
	for _, key := range slices.Sorted(maps.Keys(s.services)) {
		if key == "" || s.services[key].target == "" {
			problems = append(problems, fmt.Errorf("WithShardingService: key %q and target %q; neither may be empty", key, s.services[key].target))
			continue
		}
		problems = append(problems, s.services[key].check(key))
	}
	header := "x-key" // any good one will do, if the right one is bad or not known yet
	if s.sharding != nil && s.sharding.validate() == nil {
		header = s.sharding.KeyHeader
	}
	problems = append(problems, s.checkSharding())
	problems = append(problems, s.checkSelectors()...)
	if err := s.router.Connections.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("WithConnections: %w", err))
	}
	if _, err := interceptors.NewKey(header, s.key...); err != nil {
		problems = append(problems, fmt.Errorf("WithKeyOptions: %w", err))
	}
	if st := s.router.Assignment; min(st.MinStreamGap, st.RefreshInterval, st.Backoff.BaseDelay, st.Backoff.MaxDelay) < 0 ||
		min(st.MaxAssignmentBytes, st.MaxMessageBytes) < 0 {
		problems = append(problems, errors.New("WithShardingStream: a value is negative; use 0 for the default"))
	}
	if s.drainTimeout < 0 {
		problems = append(problems, fmt.Errorf("WithDrainTimeout: %v is negative; use 0 not to wait", s.drainTimeout))
	}
	return errors.Join(problems...)
}

// checkSharding reports what is wrong with how keys route.
func (s *settings) checkSharding() error {
	sh := s.sharding
	if sh == nil {
		return nil
	}
	problems := []error{sh.validate()}
	if _, ok := s.services[sh.ServiceKey]; !ok && s.provider == nil && sh.ServiceKey != "" {
		problems = append(problems, s.unknownKey(sh.ServiceKey))
	}
	return errors.Join(problems...)
}

// explainCredentials says what to write where gRPC misses credentials.
func explainCredentials(err error, option string) error {
	if !strings.Contains(err.Error(), "no transport security set") {
		return err
	}
	fix := "pass sdk.WithTransportCredentials(credentials.NewTLS(...)), or for plaintext sdk.WithTransportCredentials(insecure.NewCredentials())"
	if option == "WithShardingService" {
		fix = "pass grpc.WithTransportCredentials(...) to sdk.WithShardingService, for plaintext with insecure.NewCredentials()"
	}
	return fmt.Errorf("no transport credentials: %s (%w)", fix, err)
}

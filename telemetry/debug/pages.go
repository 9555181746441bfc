package debug

import (
	"net/http"
	"slices"
)

// targeted is what pages about one target have.
type targeted struct {
	Target string `json:"target"`
	// Targets are all, for links.
	Targets []string `json:"-"`
}

func (h *Handler) overview(*request) (any, error) { return h.source.Overview(), nil }

func (h *Handler) events(*request) (any, error) {
	return struct {
		Events []Event `json:"events"`
	}{h.source.Events()}, nil
}

func (h *Handler) config(*request) (any, error) {
	return struct {
		Config *Config `json:"config"`
	}{h.source.Config()}, nil
}

// one loads the target that is asked for.
func (h *Handler) one(r *request) (*Target, targeted, error) {
	name, names, err := h.target(r)
	if err != nil {
		return nil, targeted{}, err
	}
	t := h.source.Target(name)
	if t == nil {
		return nil, targeted{}, wrong(http.StatusNotFound, "the target has left")
	}
	return t, targeted{name, names.Targets}, nil
}

type endpointsPage struct {
	targeted
	window
	State         string     `json:"state,omitempty"`
	States        []Count    `json:"states"`
	Membership    uint64     `json:"membership"`
	AllUnhealthy  bool       `json:"all_unhealthy"`
	UnknownOwners int        `json:"unknown_owners"`
	Faults        []Count    `json:"faults"`
	Connections   []Count    `json:"connections,omitempty"`
	ResolverError string     `json:"last_resolver_error,omitempty"`
	ConfigError   string     `json:"last_config_error,omitempty"`
	Endpoints     []Endpoint `json:"endpoints"`
}

// states are those of a connection.
var states = []string{"READY", "IDLE", "CONNECTING", "TRANSIENT_FAILURE", "SHUTDOWN"}

func (h *Handler) endpoints(r *request) (any, error) {
	t, at, err := h.one(r)
	if err != nil {
		return nil, err
	}
	state := r.query.Get("state")
	if state != "" && !slices.Contains(states, state) {
		return nil, wrong(http.StatusBadRequest, "there is no such state; allowed are %q", states)
	}
	list := t.Endpoints
	if state != "" {
		list = slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return e.State != state })
	}
	w, err := r.window(len(list), mostRows, "target", "state")
	if err != nil {
		return nil, err
	}
	return endpointsPage{
		targeted: at, window: w, State: state, States: t.Summary.Endpoints, Membership: t.Membership,
		AllUnhealthy: t.AllUnhealthy, UnknownOwners: t.UnknownOwners, Faults: t.Faults, Connections: t.Connections,
		ResolverError: t.LastResolverError, ConfigError: t.LastConfigError,
		Endpoints: list[w.From:w.End()],
	}, nil
}

func (h *Handler) selectors(r *request) (any, error) {
	t, at, err := h.one(r)
	if err != nil {
		return nil, err
	}
	return struct {
		targeted
		Membership uint64     `json:"membership"`
		Selectors  []Selector `json:"selectors"`
	}{at, t.Membership, t.Selectors}, nil
}

func (h *Handler) stream(r *request) (any, error) {
	t, at, err := h.one(r)
	if err != nil {
		return nil, err
	}
	return struct {
		targeted
		// InUse is the generation that picks use.
		InUse  int64   `json:"generation_in_use"`
		Stream *Stream `json:"stream"`
	}{at, t.Generation, t.Stream}, nil
}

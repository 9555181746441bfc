package admission

import (
	"strings"
	"testing"
)

// TestCodes: S-20, with codes of one's own, which count however the call ended;
// connections that are lost count beside them.
func TestCodes(t *testing.T) {
	b, err := NewBreaker(BreakerOptions{Codes: []uint32{5, codeDeadlineExceeded}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		outcome Outcome
		want    Verdict
	}{
		{Outcome{Kind: OK}, Success},
		{Outcome{Kind: RemoteError, Code: 5}, Failure},
		{Outcome{Kind: RemoteError, Code: codeUnavailable}, Success},
		{Outcome{Kind: Deadline, Code: codeDeadlineExceeded}, Failure},
		{Outcome{Kind: Cancelled, Code: codeCancelled}, Ignore},
		{Outcome{Kind: ConnectionClosed, Code: codeUnavailable}, Failure},
		{Outcome{Kind: SendFailure, Code: codeUnavailable}, Failure},
		{Outcome{Kind: NotSent}, Ignore},
	} {
		if got := b.options.verdict(tc.outcome); got != tc.want {
			t.Errorf("%+v is %v, want %v", tc.outcome, got, tc.want)
		}
	}
	if _, err := NewBreaker(BreakerOptions{Codes: []uint32{0, 64}}); err == nil || !strings.Contains(err.Error(), "Codes[0] is 0") || !strings.Contains(err.Error(), "Codes[1] is 64") {
		t.Errorf("bad codes: %v", err)
	}
}

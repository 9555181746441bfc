package interceptors

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// LogOption sets one thing of [Logging].
type LogOption func(*logSettings)

type logSettings struct {
	events    []logging.LoggableEvent
	level     func(codes.Code) slog.Level
	errorText bool
}

// LogStarts also logs the start of each call. Without it there is one line a call,
// at its end.
func LogStarts() LogOption {
	return func(s *logSettings) {
		s.events = []logging.LoggableEvent{logging.StartCall, logging.FinishCall}
	}
}

// LogLevels sets the level of each line by the code the call ended with. The
// default is go-grpc-middleware's for clients: debug for success and for the
// codes an application expects, info or warn for others.
func LogLevels(level func(codes.Code) slog.Level) LogOption {
	return func(s *logSettings) { s.level = level }
}

// LogErrorText adds the text of the error to the line of a call that failed.
// Servers write what they like there, often the key. A text that holds the call's
// key, as it is, quoted, or in hex or base64, is left out; a part or another form
// of the key is not recognised, nor is a key that is only found further in (put
// [Key.Pair] before Logging; package sdk does). Without this option the code
// alone is logged.
func LogErrorText() LogOption {
	return func(s *logSettings) { s.errorText = true }
}

// Logging logs calls to logger, by go-grpc-middleware's logging interceptors:
// service, method, kind, code and duration, and as "slicewire.selector" the
// selector of a call that has one other than the default by [WithSelector], or by
// [Selectors] further out. It never logs a key, a header or a message. Placed
// outside [Retry] it logs each call once, inside each attempt. A nil logger logs
// nothing.
//
// A call that is refused for its key, for want of one mostly, is only logged by a
// Logging outside [Key.Pair]. Package sdk gives calls their keys further out than
// any interceptor of its channel: there the caller sees the refusal, no log does.
//
// Fields that the application adds with that package's InjectFields are logged
// as they are.
func Logging(logger *slog.Logger, opts ...LogOption) Pair {
	if logger == nil {
		return Pair{}
	}
	s := logSettings{events: []logging.LoggableEvent{logging.FinishCall}}
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	options := []logging.Option{logging.WithLogOnEvents(s.events...)}
	if s.level != nil {
		options = append(options, logging.WithLevels(func(code codes.Code) logging.Level {
			return logging.Level(s.level(code))
		}))
	}
	sink := logging.LoggerFunc(func(ctx context.Context, level logging.Level, text string, fields ...any) {
		if !logger.Enabled(ctx, slog.Level(level)) {
			return
		}
		logger.Log(ctx, slog.Level(level), text, s.clean(ctx, fields)...)
	})
	return Pair{
		Unary:  logging.UnaryClientInterceptor(sink, options...),
		Stream: logging.StreamClientInterceptor(sink, options...),
	}
}

// clean takes the error's text out, unless it is wanted and holds no key, and adds
// the selector.
func (s *logSettings) clean(ctx context.Context, fields []any) []any {
	const errorField, selectorField = "grpc.error", "slicewire.selector"
	kept := make([]any, 0, len(fields)+2)
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		if name == errorField {
			if !s.errorText {
				continue
			}
			value = withoutKey(ctx, fmt.Sprint(value))
		}
		kept = append(kept, name, value)
	}
	if call := callinfo.From(ctx); call != nil && call.Selector != callinfo.Selector("") {
		kept = append(kept, selectorField, call.Selector.Value())
	}
	return kept
}

// withoutKey returns text, or what stands for it where the call's key is in it in
// one of the forms a program would write it in.
func withoutKey(ctx context.Context, text string) string {
	call := callinfo.From(ctx)
	if call == nil || call.Key == "" {
		return text
	}
	key := []byte(call.Key)
	lower := strings.ToLower(text)
	for _, form := range []string{
		call.Key,
		strings.Trim(strconv.Quote(call.Key), `"`),
		strings.Trim(strconv.QuoteToASCII(call.Key), `"`),
		hex.EncodeToString(key),
		base64.RawStdEncoding.EncodeToString(key),
		base64.RawURLEncoding.EncodeToString(key),
	} {
		if strings.Contains(text, form) || strings.Contains(lower, strings.ToLower(form)) {
			return "(left out: it holds the sharding key)"
		}
	}
	return text
}

package configsource

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// bounds are the limits of a number or a duration. Their values are of the field's
// kind; nil is no bound.
type bounds struct{ min, above, max any }

func newBounds(f *field, tag reflect.StructTag) bounds {
	read := func(name string) any {
		if text, ok := tag.Lookup(name); ok {
			return f.tagValue(text)
		}
		return nil
	}
	return bounds{read("min"), read("above"), read("max")}
}

// allow says whether v is within them. NaN never is.
func (b bounds) allow(v any) bool {
	if f, ok := v.(float64); ok && math.IsNaN(f) {
		return false
	}
	return (b.min == nil || compare(v, b.min) >= 0) && (b.above == nil || compare(v, b.above) > 0) &&
		(b.max == nil || compare(v, b.max) <= 0)
}

func compare(a, b any) int {
	switch a := a.(type) {
	case int:
		return cmp.Compare(a, b.(int))
	case float64:
		return cmp.Compare(a, b.(float64))
	case time.Duration:
		return cmp.Compare(a, b.(time.Duration))
	}
	panic(fmt.Sprintf("configsource: a %T has no bounds", a))
}

// String is what they allow, "" if it is everything.
func (b bounds) String() string {
	low, high := "", ""
	switch {
	case b.min != nil:
		low = "at least " + format(b.min)
	case b.above != nil:
		low = "above " + format(b.above)
	}
	if b.max != nil {
		high = "at most " + format(b.max)
	}
	if low != "" && high != "" {
		return low + " and " + high
	}
	return low + high
}

// allowed is what the field's values may be, in words.
func (f *field) allowed() string {
	if len(f.enum) > 0 {
		what := strings.Join(f.enum, ", ")
		if f.kind == kindStrings {
			return "a list of one or more of " + what
		}
		return "one of " + what
	}
	what := ""
	switch f.kind {
	case kindString:
		what = "a string of at least one character"
	case kindBool:
		what = "true or false"
	case kindInt:
		what = "a whole number"
		if f.unit != "" {
			what += " of " + f.unit
		}
	case kindFloat:
		what = "a number"
	case kindDuration:
		what = "a duration with its unit, such as 500ms, 10s or 1m30s"
	case kindStrings:
		what = "a list of strings"
	case kindObject:
		what = "an object with keys of " + f.elem.keys()
	case kindObjects:
		what = "a list of objects with keys of " + f.elem.keys()
	}
	if limits := f.bounds.String(); limits != "" {
		what += ", " + limits
	}
	return what
}

func (o *object) keys() string { return strings.Join(o.known(), ", ") }

// parseText reads a scalar, or a list of strings, from text: an environment
// variable or a tag.
func parseText(k kind, text string) (any, bool) {
	switch k {
	case kindString:
		return text, true
	case kindBool:
		return text == "true", text == "true" || text == "false"
	case kindInt:
		n, err := strconv.Atoi(text)
		return n, err == nil
	case kindFloat:
		n, err := strconv.ParseFloat(text, 64)
		return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
	case kindDuration:
		d, err := time.ParseDuration(text)
		// "0" is the only duration that Go reads without a unit, and the only one that
		// would not be read back from a schema's point of view.
		return d, err == nil && text != "0"
	case kindStrings:
		list := strings.Split(text, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return list, true
	}
	return nil, false
}

// convert makes a scalar of the kind from what a parser of YAML, JSON or TOML gave.
func convert(k kind, v any) (any, bool) {
	switch v := v.(type) {
	case string:
		if k == kindString || k == kindDuration {
			return parseText(k, v)
		}
	case bool:
		return v, k == kindBool
	case time.Duration:
		return v, k == kindDuration
	case int:
		return convertInt(k, int64(v))
	case int64:
		return convertInt(k, v)
	case float64:
		if k == kindInt && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), true // JSON knows one kind of numbers
		}
		return v, k == kindFloat && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return nil, false
}

func convertInt(k kind, v int64) (any, bool) {
	if k == kindFloat {
		return float64(v), true
	}
	return int(v), k == kindInt
}

// format is a value as a file would give it.
func format(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return quote(v)
	case time.Duration:
		return formatDuration(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = quote(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

// formatDuration leaves out the zeros that String writes, as in 1m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// quote is s in quotes that YAML, JSON and TOML read the same way.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

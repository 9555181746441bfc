package debug

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Encodings are the ways in which a key may be typed.
var Encodings = []string{"text", "hex", "base64"}

// ParseKey reads a key that a person typed. Errors never show it.
//
// Text is taken as it is. Hex may begin with 0x; base64 is the standard or the URL
// alphabet, padded or not. In both, white space is passed over.
func ParseKey(typed, encoding string) (string, error) {
	switch encoding {
	case "text":
		return typed, nil
	case "hex":
		s := withoutSpace(typed)
		if len(s) >= 2 && (s[:2] == "0x" || s[:2] == "0X") {
			s = s[2:]
		}
		b, err := hex.DecodeString(s)
		if err != nil {
			return "", errors.New("the key is not hexadecimal: it has to be pairs of the digits 0 to 9 and a to f")
		}
		return string(b), nil
	case "base64":
		s := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(withoutSpace(typed), "="))
		b, err := base64.RawStdEncoding.DecodeString(s)
		if err != nil {
			return "", errors.New("the key is not base64: it has to be of the standard or the URL alphabet, padded or not")
		}
		return string(b), nil
	}
	return "", fmt.Errorf("a key is typed as one of %s", strings.Join(Encodings, ", "))
}

func withoutSpace(s string) string { return strings.Join(strings.Fields(s), "") }

// shownKeyBytes is how much of a key is shown.
const shownKeyBytes = 128

// Key is a key for people to see. Keys are personal data: it is shown on the pages
// that say so, and nowhere else.
type Key struct {
	// Text is a quoted string, and Hex the same bytes.
	Text string `json:"text"`
	Hex  string `json:"hex"`
	// Bytes is how long the key is; Text and Hex hold the first bytes of a long one.
	Bytes int `json:"bytes"`
}

// ShowKey makes a Key of bytes, which it does not keep.
func ShowKey(key []byte) Key {
	shown := key[:min(len(key), shownKeyBytes)]
	return Key{Text: strconv.Quote(string(shown)), Hex: hex.EncodeToString(shown), Bytes: len(key)}
}

// Clipped says that not all of the key is shown.
func (k Key) Clipped() bool { return k.Bytes > shownKeyBytes }

// Plain says that Text is easily read, so that Hex adds nothing.
func (k Key) Plain() bool { return !slices.Contains([]byte(k.Text), '\\') }

package configsource

import "strings"

// nearest is the one of known that a person who wrote name most likely meant, ""
// if none is near.
func nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 1+len(name)/3
	for _, k := range known {
		if strings.EqualFold(k, name) {
			return k
		}
		if diff := len(k) - len(name); diff > least || -diff > least {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	return best
}

// distance is the least number of bytes to insert, delete, replace or swap with a
// neighbour that makes b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// meant is what to add to a sentence about an unknown name.
func meant(name string, known []string) string {
	if n := nearest(name, known); n != "" {
		return "did you mean " + n + "? "
	}
	return ""
}

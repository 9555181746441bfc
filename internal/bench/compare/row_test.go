package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVerdicts(t *testing.T) {
	for name, tc := range map[string]struct {
		row     row
		verdict string
		missed  bool
	}{
		"no goal":              {against("m", "", []float64{1, 1}, "p", []float64{2, 2}, noGoal), "", false},
		"met":                  {against("m", "", []float64{1, 1}, "p", []float64{2, 2}, atMost(0.5)), "ok", false},
		"missed":               {against("m", "", []float64{3, 3}, "p", []float64{2, 2}, atMost(1)), "SHORT", true},
		"within the spread":    {against("m", "", []float64{1, 3}, "p", []float64{2, 2}, atMost(0.9)), "SHORT", false},
		"at least, met":        {against("m", "", []float64{99}, "p", []float64{100}, atLeast(0.97)), "ok", false},
		"at least, missed":     {against("m", "", []float64{90}, "p", []float64{100}, atLeast(0.97)), "SHORT", true},
		"none of a thing, met": {alone("m", "", []float64{0}, atMost(0)), "ok", false},
		"none of a thing":      {alone("m", "", []float64{1}, atMost(0)), "SHORT", true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.row.Verdict != tc.verdict || tc.row.Missed != tc.missed || missed([]row{tc.row}) != tc.missed {
				t.Errorf("%+v, want verdict %q, missed %v", tc.row, tc.verdict, tc.missed)
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	if m, s := median(values), spread(values); m != 3 || s != 2 {
		t.Errorf("median %v, spread %v of 1 to 5", m, s)
	}
	if m := median([]float64{1, 2}); m != 1.5 {
		t.Errorf("median %v of 1 and 2", m)
	}
}

// TestInRounds: everybody has a sample in each round and goes first in turn.
func TestInRounds(t *testing.T) {
	var order []int
	taker := func(c int) contestant {
		return func() (float64, error) { order = append(order, c); return float64(10*c + len(order)), nil }
	}
	samples, err := inRounds(2, taker(0), taker(1))
	if err != nil || !slices.Equal(order, []int{0, 1, 1, 0}) {
		t.Fatalf("order %v, %v", order, err)
	}
	if !slices.Equal(samples[0], []float64{1, 4}) || !slices.Equal(samples[1], []float64{12, 13}) {
		t.Errorf("samples %v", samples)
	}
	boom := errors.New("boom")
	if _, err := inRounds(1, func() (float64, error) { return 0, boom }); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
}

func TestOutput(t *testing.T) {
	rows := []row{
		against("a", "ns", []float64{1, 1}, "p", []float64{2, 2}, atMost(1)),
		alone("b", "", []float64{7}, atMost(2)),
	}
	var table bytes.Buffer
	if err := printTable(&table, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"measure", "ratio", "spread", "goal", "ok", "SHORT", "<= 2", "0.50"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
	name := filepath.Join(t.TempDir(), "out.json")
	if err := writeJSON(name, true, rows); err != nil {
		t.Fatal(err)
	}
	js, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(js, &back); err != nil || !slices.Equal(back.Rows, rows) || !back.Quick {
		t.Errorf("read back %+v, %v", back, err)
	}
}

package main

import (
	"encoding/csv"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	selectionCSV = "selection.csv"
	selectionSVG = "selection.svg"
)

// measureSelection runs every contender through every scenario and writes the
// results.
func measureSelection() error {
	rows := [][]string{{"scenario", "policy", "share of the odd server, %", "p50, ms", "p99, ms", "failed, %"}}
	for _, s := range scenarios {
		for _, c := range contenders {
			r, err := simulate(s, c)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.name, c.name, err)
			}
			rows = append(rows, []string{
				s.name, c.name, short(r.share), short(millis(r.p50)), short(millis(r.p99)), short(r.failed),
			})
		}
	}
	f, err := os.Create(selectionCSV)
	if err != nil {
		return err
	}
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// short has as many digits as say something.
func short(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}

// row is one line of the results.
type row struct{ share, p50, p99 float64 }

// drawSelection draws, side by side, the share of the slow server and how long
// calls take.
func drawSelection(dir string) error {
	light, err := readSelection("light")
	if err != nil {
		return err
	}
	busy, err := readSelection("busy")
	if err != nil {
		return err
	}
	// The penalty is for failures, and there are none here.
	var drawn []string
	for _, c := range contenders {
		if c.name != "p2c, no penalty" {
			drawn = append(drawn, c.name)
		}
	}
	share, err := bars("Share of the slow server, %", drawn,
		series{"200 calls a second", light, func(r row) float64 { return r.share }},
		series{"2,000 calls a second", busy, func(r row) float64 { return r.share }})
	if err != nil {
		return err
	}
	took, err := bars("What a call takes at 2,000 a second, ms", drawn,
		series{"p50", busy, func(r row) float64 { return r.p50 }},
		series{"p99", busy, func(r row) float64 { return r.p99 }})
	if err != nil {
		return err
	}
	took.HideY()
	canvas := vgsvg.New(26*vg.Centimeter, 11*vg.Centimeter)
	drawTo := draw.New(canvas)
	middle := drawTo.Min.X + 14.5*vg.Centimeter
	share.Draw(draw.Crop(drawTo, 0, middle-drawTo.Max.X, 0, 0))
	took.Draw(draw.Crop(drawTo, middle-drawTo.Min.X, -vg.Centimeter/4, 0, 0))
	f, err := os.Create(filepath.Join(dir, selectionSVG))
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// series is a bar for each policy.
type series struct {
	name  string
	rows  map[string]row
	value func(row) float64
}

// bars draws a group of bars for each name, the first name on top.
func bars(title string, names []string, all ...series) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.BackgroundColor = title, color.White
	p.Title.Padding = vg.Points(4)
	p.Legend.Top, p.Legend.XOffs = true, -vg.Centimeter // the first bars are short
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid)
	const width = 7
	n := len(names)
	labels := make([]string, n)
	for k, s := range all {
		values := make(plotter.Values, n)
		for i, name := range names {
			r, ok := s.rows[name]
			if !ok {
				return nil, fmt.Errorf("%s has no row for %q; run go -C docs/figures run . -simulate", selectionCSV, name)
			}
			labels[n-1-i], values[n-1-i] = name, s.value(r)
		}
		b, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return nil, err
		}
		b.Horizontal, b.LineStyle.Width, b.Color = true, 0, plotutil.Color(k)
		b.Offset = vg.Points(width) * vg.Length(float64(len(all)-1)/2-float64(k))
		p.Add(b)
		p.Legend.Add(s.name, b)
	}
	p.NominalY(labels...)
	p.X.Min, p.X.Max = 0, 1.04*p.X.Max
	p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
	return p, nil
}

// readSelection returns the results of one scenario by policy.
func readSelection(scenario string) (map[string]row, error) {
	f, err := os.Open(selectionCSV)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	rows := make(map[string]row)
	for n, line := range lines {
		if line[0] != scenario {
			continue
		}
		var v [3]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(line[2+i], 64); err != nil {
				return nil, fmt.Errorf("%s, row %d: %w", selectionCSV, n+1, err)
			}
		}
		rows[line[1]] = row{v[0], v[1], v[2]}
	}
	return rows, nil
}

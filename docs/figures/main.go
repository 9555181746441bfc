// Figures draws the plots of docs/performance.md and docs/selection.md, as SVG,
// from the CSV files beside it.
//
//	go -C docs/figures run . [-out DIR] [-simulate]
//
// The CSV files are written by the measurements themselves: docs/performance.md
// says how, and -simulate writes the one of docs/selection.md first.
package main

import (
	"encoding/csv"
	"flag"
	"fmt"
	"image/color"
	"log"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// figure is one plot from a file whose first column is x, with one series for each
// other column.
type figure struct {
	csv, svg     string
	title        string
	x, y         string
	logX, logY   bool
	withPoints   bool
	legendOnLeft bool
	fromX, toX   float64 // 0, 0: all
	without      string  // a column that is not drawn
}

var figures = []figure{
	{
		csv: "crowd.csv", svg: "crowd.svg",
		title: "10,000 clients whose sharding service restarts at 10 s",
		x:     "time, s", y: "streams started per second",
		fromX: 9, toX: 13, without: "down for 30 s",
	},
	{
		csv: "growth.csv", svg: "growth.svg",
		title: "How costs grow with the number of slices (1 = at 1,000 slices)",
		x:     "slices", y: "times the cost at 1,000",
		logX: true, logY: true, withPoints: true, legendOnLeft: true,
	},
}

func main() {
	log.SetFlags(0)
	out := flag.String("out", ".", "write the plots to `DIR`")
	again := flag.Bool("simulate", false, "simulate the selection policies again and write "+selectionCSV+" first")
	flag.Parse()
	if *again {
		if err := measureSelection(); err != nil {
			log.Fatalf("%s: %v", selectionCSV, err)
		}
	}
	for _, f := range figures {
		if err := f.draw(*out); err != nil {
			log.Fatalf("%s: %v", f.svg, err)
		}
	}
	if err := drawSelection(*out); err != nil {
		log.Fatalf("%s: %v", selectionSVG, err)
	}
}

func (f figure) draw(dir string) error {
	names, series, err := f.read()
	if err != nil {
		return err
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.title, f.x, f.y
	p.BackgroundColor = color.White
	p.Legend.Top, p.Legend.Left = true, f.legendOnLeft
	p.Legend.XOffs = -vg.Centimeter // room for viewers with a wider font
	if f.legendOnLeft {
		p.Legend.XOffs = vg.Centimeter
	}
	p.Add(plotter.NewGrid())
	if f.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if f.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, s := range series {
		if names[i] == f.without {
			continue
		}
		line, points, err := plotter.NewLinePoints(s)
		if err != nil {
			return err
		}
		line.Color, points.Color = plotutil.Color(i), plotutil.Color(i)
		line.Width = vg.Points(1.2)
		points.Shape = plotutil.Shape(i)
		p.Add(line)
		if f.withPoints {
			p.Add(points)
		}
		p.Legend.Add(names[i], line)
	}
	if f.toX > f.fromX {
		p.X.Min, p.X.Max = f.fromX, f.toX
	}
	return p.Save(20*vg.Centimeter, 11*vg.Centimeter, filepath.Join(dir, f.svg))
}

// read returns the names and points of the columns after the first. An empty
// cell is no point.
func (f figure) read() ([]string, []plotter.XYs, error) {
	path := f.csv
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, nil, err
	}
	if len(rows) < 2 || len(rows[0]) < 2 {
		return nil, nil, fmt.Errorf("%s needs a header, a column of x, and at least one series", path)
	}
	series := make([]plotter.XYs, len(rows[0])-1)
	for n, row := range rows[1:] {
		x, err := strconv.ParseFloat(row[0], 64)
		if err != nil {
			return nil, nil, fmt.Errorf("%s, row %d: %w", path, n+2, err)
		}
		for i, cell := range row[1:] {
			if cell == "" {
				continue
			}
			if f.toX > f.fromX && (x < f.fromX || x > f.toX) {
				continue
			}
			y, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return nil, nil, fmt.Errorf("%s, row %d: %w", path, n+2, err)
			}
			series[i] = append(series[i], plotter.XY{X: x, Y: y})
		}
	}
	return rows[0][1:], series, nil
}

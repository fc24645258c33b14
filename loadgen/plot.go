package loadgen

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The area of the lines, in SVG units; the rest of the picture is for labels.
const (
	plotLeft, plotTop     = 60.0, 12.0
	plotWidth, plotHeight = 660.0, 220.0
)

// plot is a picture of lines. It can be written after draw.
type plot struct {
	Title, XName   string
	Lines          []line
	XTicks, YTicks []tick

	logY       bool
	all        []series
	maxX       float64
	minY, maxY float64
}

type point struct{ x, y float64 }

type series struct {
	name   string
	bad    bool // drawn in the colour of warnings
	points []point
}

// line is a series in SVG units.
type line struct {
	Name, Points string
	Class        string
}

type tick struct {
	At    float64
	Label string
}

func newPlot(title, x string) *plot {
	return &plot{Title: title, XName: x, minY: math.Inf(1)}
}

func (p *plot) add(all ...series) {
	p.all = append(p.all, all...)
	for _, s := range all {
		for _, pt := range s.points {
			p.maxX = math.Max(p.maxX, pt.x)
			p.minY = math.Min(p.minY, pt.y)
			p.maxY = math.Max(p.maxY, pt.y)
		}
	}
}

// tickX labels a place on the x axis.
func (p *plot) tickX(x float64, label string) {
	p.XTicks = append(p.XTicks, tick{p.placeX(x), label})
}

// drawTime is draw with seconds on the x axis.
func (p *plot) drawTime() *plot {
	step := niceStep(p.maxX)
	for x := 0.0; x <= p.maxX*1.0001; x += step {
		p.tickX(x, number(x))
	}
	return p.draw()
}

func (p *plot) draw() *plot {
	if math.IsInf(p.minY, 1) {
		return p // nothing to draw
	}
	if p.logY {
		p.minY = math.Pow(10, math.Floor(math.Log10(p.minY)))
		p.maxY = math.Max(math.Pow(10, math.Ceil(math.Log10(p.maxY))), p.minY*10)
		for y := p.minY; y <= p.maxY*1.0001; y *= 10 {
			p.YTicks = append(p.YTicks, tick{p.placeY(y), number(y)})
		}
	} else {
		step := niceStep(p.maxY)
		p.minY, p.maxY = 0, math.Ceil(p.maxY/step)*step
		for y := 0.0; y <= p.maxY*1.0001; y += step {
			p.YTicks = append(p.YTicks, tick{p.placeY(y), number(y)})
		}
	}
	for i, s := range p.all {
		var b strings.Builder
		for _, pt := range s.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", p.placeX(pt.x), p.placeY(pt.y))
		}
		class := "line" + strconv.Itoa(i)
		if s.bad {
			class = "bad"
		}
		p.Lines = append(p.Lines, line{s.name, strings.TrimSpace(b.String()), class})
	}
	return p
}

func (p *plot) placeX(x float64) float64 {
	if p.maxX == 0 {
		return plotLeft
	}
	return plotLeft + x/p.maxX*plotWidth
}

func (p *plot) placeY(y float64) float64 {
	share := 0.0
	switch {
	case p.logY:
		share = math.Log(y/p.minY) / math.Log(p.maxY/p.minY)
	case p.maxY > 0:
		share = y / p.maxY
	}
	return plotTop + (1-share)*plotHeight
}

// niceStep divides a range into four to ten parts of 1, 2 or 5 times a power
// of ten.
func niceStep(span float64) float64 {
	if span <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(span)))
	switch r := span / power; {
	case r < 2:
		return power / 5
	case r < 5:
		return power / 2
	default:
		return power
	}
}

// number writes at most four significant digits, as people do: 12,000 and
// 0.001, not 1.2e+04 and 1e-03.
func number(f float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 4, 64), 64)
	if err != nil {
		rounded = f // infinite or no number
	}
	text := strconv.FormatFloat(rounded, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := strings.TrimRight(whole, "0123456789")
	digits := whole[len(sign):]
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + digits + fraction
}
